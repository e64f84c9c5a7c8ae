//! 16-byte string views ("German strings"): length, a 4-byte prefix, and a pointer to the bytes.

use std::cmp::Ordering;

/// A view of a string stored elsewhere: in a mapped segment, a dictionary, or a query's string arena.
///
/// # Safety contract
/// A `StrView` does not own its bytes. Code that makes one guarantees that the bytes stay valid, unchanged UTF-8 for as long as the *query* that uses
/// it: the query's context pins table snapshots, input batches and string arenas until its results have been copied out. A view must never be stored
/// longer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct StrView {
    len: u32,
    prefix: [u8; 4],
    ptr: *const u8,
}

// SAFETY: a view is a shared, read-only reference (see the type's contract).
unsafe impl Send for StrView {}
// SAFETY: as above.
unsafe impl Sync for StrView {}

impl Default for StrView {
    fn default() -> Self {
        Self { len: 0, prefix: [0; 4], ptr: std::ptr::NonNull::dangling().as_ptr() }
    }
}

impl StrView {
    /// A view of `s`, subject to the type's contract on lifetimes. Panics where `s` has 4 GiB or more.
    #[inline]
    pub fn new(s: &str) -> Self {
        let bytes = s.as_bytes();
        let prefix = match *bytes {
            [a, b, c, d, ..] => [a, b, c, d],
            [a, b, c] => [a, b, c, 0],
            [a, b] => [a, b, 0, 0],
            [a] => [a, 0, 0, 0],
            [] => [0; 4],
        };
        let len = u32::try_from(bytes.len()).expect("strings have less than 4 GiB");
        Self { len, prefix, ptr: bytes.as_ptr() }
    }

    /// The string, borrowed from this view, which is stored beside or below the owner of the bytes.
    #[inline]
    pub fn as_str(&self) -> &str {
        // SAFETY: the type's contract: `ptr` points to `len` bytes of valid UTF-8 that outlive the query.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(self.ptr, self.len as usize)) }
    }

    /// The bytes of the string.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.as_str().as_bytes()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the string is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length and prefix as one integer: unequal heads prove unequal strings.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        u64::from(self.len) | u64::from(u32::from_le_bytes(self.prefix)) << 32
    }
}

impl PartialEq for StrView {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.head() == other.head() && (self.len <= 4 || self.as_bytes()[4..] == other.as_bytes()[4..])
    }
}

impl Eq for StrView {}

impl Ord for StrView {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (u32::from_be_bytes(self.prefix), u32::from_be_bytes(other.prefix));
        // With equal prefixes, a string of up to four bytes is a prefix of the other one.
        a.cmp(&b).then_with(|| match self.len.min(other.len) {
            ..=4 => self.len.cmp(&other.len),
            _ => self.as_bytes()[4..].cmp(&other.as_bytes()[4..]),
        })
    }
}

impl PartialOrd for StrView {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for StrView {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl std::fmt::Debug for StrView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}
