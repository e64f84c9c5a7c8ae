//! The memory of a query: accounting against its limit, and strings computed by expressions.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use warpmill_format::StrView;

use crate::cancel::CancelToken;
use crate::error::{ExecError, Result};
use crate::machine::free_memory;

/// Counters of a query's bytes.
#[derive(Debug, Default)]
struct Account {
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Account {
    fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        self.peak.fetch_max(used + bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Kinds of memory that cannot be spilled. If other memory can be, each kind is compared with the limit separately: the rest makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Rows of the result.
    Result,
    /// Strings that are kept until the query ends.
    Strings,
    /// Decompressed segments.
    Segments,
}

/// Bytes that are accounted for until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    bytes: usize,
}

impl Reservation {
    /// Takes over `bytes` that are accounted for already.
    pub fn adopt(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Changes the reservation to `bytes`.
    pub fn resize(&mut self, bytes: usize) {
        self.account.add(bytes.saturating_sub(self.bytes));
        self.account.remove(self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
    }
}

/// A place for texts outside of the query's memory.
pub trait TextStore: std::fmt::Debug + Send + Sync {
    /// Stores a copy of `text` at an address that stays valid as long as this store lives; `None` without room.
    fn store(&self, text: &[u8]) -> Option<*const u8>;
}

/// Memory of a running query: its operators' reservations within the limit, and the strings that its rows refer to.
#[derive(Debug)]
pub struct QueryMemory {
    /// Whether to stop.
    pub cancel: CancelToken,
    /// Memory limit in bytes.
    limit: usize,
    /// Whether operators spill data that do not fit.
    spills: bool,
    account: Arc<Account>,
    /// Bytes that cannot be spilled, by [`Share`].
    shares: [AtomicUsize; 3],
    arenas: Mutex<Vec<StringArena>>,
    kept: Mutex<Kept>,
    /// Store for spilled texts.
    texts: Option<Box<dyn TextStore>>,
    /// Texts that are not.
    blocks: Mutex<TextBlocks>,
}

/// Owners of strings that results may refer to; a mutex makes any of them shareable.
#[derive(Default)]
struct Kept(Vec<Box<dyn Any + Send>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} kept", self.0.len())
    }
}

impl Default for QueryMemory {
    /// Memory without a limit.
    fn default() -> Self {
        Self::new(usize::MAX, false, CancelToken::default())
    }
}

impl QueryMemory {
    /// Memory of a query with a limit of `limit` bytes (`usize::MAX`: none). `spill`: whether operators spill data that do not fit.
    pub fn new(limit: usize, spill: bool, cancel: CancelToken) -> Self {
        let (account, shares) = (Arc::default(), Default::default());
        let spills = spill && limit != usize::MAX;
        let (arenas, kept, texts, blocks) = (Mutex::default(), Mutex::default(), None, Mutex::default());
        Self { cancel, limit, spills, account, shares, arenas, kept, texts, blocks }
    }

    /// The same memory with a store for spilled texts, used if it spills at all.
    pub fn with_texts(self, texts: Box<dyn TextStore>) -> Self {
        Self { texts: Some(texts).filter(|_| self.spills), ..self }
    }

    /// Copies `text`, to which `views` refer, for the rest of the query: in memory, or, when that gets scarce, to the text store. Redirects the views
    /// to the copy.
    pub fn keep_text(&self, views: &mut [StrView], text: &[u8]) {
        /// Fraction (1 / PART) of the limit for texts in memory, if others can be spilled.
        const PART: usize = 8;
        let held = self.shares[Share::Strings as usize].load(Ordering::Relaxed);
        let scarce = held.saturating_add(text.len()) > self.limit / PART;
        let aside = self.texts.as_ref().filter(|_| scarce).and_then(|texts| texts.store(text));
        let place = aside.unwrap_or_else(|| self.keep_bytes(text));
        for view in views.iter_mut().filter(|view| !view.is_empty()) {
            let at = view.as_bytes().as_ptr() as usize - text.as_ptr() as usize;
            assert!(at + view.len() <= text.len(), "the views are of this text");
            // SAFETY: the address holds a copy of the whole text, of which this is a UTF-8 part; it lives as long as the query.
            *view = StrView::new(unsafe {
                std::str::from_utf8_unchecked(std::slice::from_raw_parts(place.add(at), view.len()))
            });
        }
    }

    /// Whether operators spill data that do not fit.
    #[inline]
    pub fn spills(&self) -> bool {
        self.spills
    }

    /// A copy of `bytes` in memory that lives as long as this.
    fn keep_bytes(&self, bytes: &[u8]) -> *const u8 {
        let (room, grown) = self.blocks.lock().room(bytes.len());
        self.account_strings(grown);
        // SAFETY: the room has this size, and belongs to this text alone.
        unsafe { room.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        room
    }

    /// Bytes left.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.memory_used())
    }

    /// Reserves `bytes` more if the limit has room for them and `spare` further bytes. Returns whether it did.
    pub fn try_reserve(&self, bytes: usize, spare: usize) -> bool {
        let used = self.account.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.saturating_add(bytes).saturating_add(spare) <= self.limit;
        if fits {
            self.account.peak.fetch_max(used + bytes, Ordering::Relaxed);
        } else {
            self.account.remove(bytes);
        }
        fits
    }

    /// Accounts for `bytes` until the result is dropped.
    pub fn hold(&self, bytes: usize) -> Reservation {
        self.account.add(bytes);
        Reservation { account: self.account.clone(), bytes }
    }

    /// As [`QueryMemory::reserve`], for memory that cannot be spilled.
    pub fn reserve_share(&self, share: Share, operator: &'static str, bytes: usize) -> Result<()> {
        if !self.spills() {
            return self.reserve(operator, bytes);
        }
        let used = self.shares[share as usize].fetch_add(bytes, Ordering::Relaxed);
        let limit = self.limit;
        if used.saturating_add(bytes) > limit {
            self.shares[share as usize].fetch_sub(bytes, Ordering::Relaxed);
            return Err(ExecError::OutOfMemory { operator, requested: bytes, used, limit });
        }
        self.account.add(bytes);
        Ok(())
    }

    /// Releases `bytes` of [`QueryMemory::reserve_share`].
    pub fn release_share(&self, share: Share, bytes: usize) {
        if self.spills() {
            self.shares[share as usize].fetch_sub(bytes, Ordering::Relaxed);
        }
        self.release(bytes);
    }

    /// As [`QueryMemory::reserve`], for operators that spill at once or not at all: may exceed the limit.
    pub fn reserve_or_exceed(&self, operator: &'static str, bytes: usize) -> Result<()> {
        if !self.spills() {
            return self.reserve(operator, bytes);
        }
        self.account.add(bytes);
        Ok(())
    }

    /// Reserves `bytes` more for `operator` until the query ends (or [`QueryMemory::release`]).
    pub fn reserve(&self, operator: &'static str, bytes: usize) -> Result<()> {
        let used = self.account.used.fetch_add(bytes, Ordering::Relaxed);
        let limit = self.limit;
        if used.saturating_add(bytes) > limit {
            self.account.remove(bytes);
            return Err(ExecError::OutOfMemory { operator, requested: bytes, used, limit });
        }
        self.account.peak.fetch_max(used + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Memory for computations before a query runs: values of dictionary entries and of constants.
    pub fn for_planning() -> Self {
        /// Bytes of strings that are worth it.
        const STRINGS: usize = 64 << 20;
        Self::new(STRINGS, false, CancelToken::default())
    }

    /// Accounts for `bytes` of strings that are kept until the query ends; [`QueryMemory::check_strings`] follows.
    pub fn account_strings(&self, bytes: usize) {
        self.shares[Share::Strings as usize].fetch_add(bytes, Ordering::Relaxed);
        self.account.add(bytes);
    }

    /// Releases `bytes` of [`QueryMemory::account_strings`].
    fn release_texts(&self, bytes: usize) {
        self.shares[Share::Strings as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.account.remove(bytes);
    }

    /// Accounts for `bytes` more memory where nothing can fail.
    pub fn account(&self, bytes: usize) {
        self.account.add(bytes);
    }

    /// Checks that the strings counted by [`QueryMemory::account_strings`] for `operator` are within the limit.
    pub fn check_strings(&self, operator: &'static str) -> Result<()> {
        let strings = self.shares[Share::Strings as usize].load(Ordering::Relaxed);
        let used = if self.spills() { strings } else { self.memory_used() };
        let limit = self.limit;
        match used > limit {
            true => Err(ExecError::OutOfMemory { operator, requested: used - limit, used, limit }),
            false => Ok(()),
        }
    }

    /// [`QueryMemory::check_strings`] for computed texts; without a limit, half of the machine's memory is the limit.
    fn check_texts(&self) -> Result<()> {
        static MOST: LazyLock<usize> = LazyLock::new(|| free_memory().map_or(usize::MAX, |free| free / 2));
        let (used, limit) = (self.shares[Share::Strings as usize].load(Ordering::Relaxed), self.limit);
        match limit == usize::MAX && used > *MOST {
            true => Err(ExecError::OutOfMemory { operator: TEXTS, requested: used - *MOST, used, limit: *MOST }),
            false => self.check_strings(TEXTS),
        }
    }

    /// The error of `operator` if the remaining memory is not enough.
    pub fn out_of_memory(&self, operator: &'static str) -> ExecError {
        let (used, limit) = (self.memory_used(), self.limit);
        ExecError::OutOfMemory { operator, requested: limit, used, limit }
    }

    /// Releases `bytes` of an earlier reservation.
    pub fn release(&self, bytes: usize) {
        self.account.remove(bytes);
    }

    /// Largest number of bytes reserved at any time.
    pub fn memory_peak(&self) -> usize {
        self.account.peak.load(Ordering::Relaxed)
    }

    /// Bytes accounted for at present.
    pub fn memory_used(&self) -> usize {
        self.account.used.load(Ordering::Relaxed)
    }

    /// Keeps a worker's strings alive until the query ends.
    pub fn keep(&self, arena: StringArena) {
        self.arenas.lock().push(arena);
    }

    /// Keeps the owner of strings (an input batch, prepared expressions) alive until the query ends.
    pub fn keep_alive(&self, owner: impl Any + Send) {
        self.kept.lock().0.push(Box::new(owner));
    }
}

/// The payload of a panic if the system has no memory for texts. Entry points convert it to an error.
#[derive(Debug)]
pub struct NoMemory {
    /// Number of bytes requested.
    pub bytes: usize,
    /// The system's answer.
    pub error: std::io::Error,
}

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "out of memory: the system has no {} bytes for texts of rows ({})", self.bytes, self.error)
    }
}

/// Texts in few large blocks: rows refer to them in random order, which large pages accelerate.
#[derive(Debug, Default)]
struct TextBlocks {
    /// Accessed by address only, since views refer to them.
    blocks: Vec<memmap2::MmapRaw>,
    /// The bytes of the last block that are taken.
    taken: usize,
}

impl TextBlocks {
    /// Room for `bytes` at an address that stays valid as long as this lives, and the bytes of the block allocated for it, if any.
    ///
    /// # Panics
    /// Panics with [`NoMemory`] if the system has no memory: gathering strings has no other way to fail.
    fn room(&mut self, bytes: usize) -> (*mut u8, usize) {
        /// Bytes of the first block, and of the largest regular ones.
        const SIZES: (usize, usize) = (256 << 10, 8 << 20);
        let mut grown = 0;
        if self.blocks.last().is_none_or(|block| block.len() - self.taken < bytes) {
            grown = (SIZES.0 << self.blocks.len().min(8)).min(SIZES.1).max(bytes.next_multiple_of(4096));
            let block = memmap2::MmapMut::map_anon(grown)
                .unwrap_or_else(|error| std::panic::panic_any(NoMemory { bytes: grown, error }));
            #[cfg(target_os = "linux")]
            if grown == SIZES.1 {
                // Small pages do as well.
                let _ = block.advise(memmap2::Advice::HugePage);
            }
            self.blocks.push(block.into());
            self.taken = 0;
        }
        let last = self.blocks.last().expect("just made");
        // SAFETY: the block has `bytes` more after those taken.
        let room = unsafe { last.as_mut_ptr().add(self.taken) };
        self.taken += bytes;
        (room, grown)
    }
}

/// Bytes of strings that expressions make. Views stay valid while the arena lives: blocks are never moved or shrunk.
#[derive(Debug, Default)]
pub struct StringArena {
    blocks: Vec<Vec<u8>>,
}

/// Bytes of an arena's first block, and of the largest regular ones: sizes double in between; blocks for long strings are larger.
const BLOCKS: (usize, usize) = (4 << 10, 64 << 10);

impl StringArena {
    /// Copies `s` into the arena.
    pub fn alloc(&mut self, s: &str) -> StrView {
        if self.free() < s.len() {
            self.blocks.push(Vec::with_capacity(self.next_block(s.len())));
        }
        let Some(block) = self.blocks.last_mut() else { return StrView::default() };
        let start = block.len();
        block.extend_from_slice(s.as_bytes());
        // SAFETY: these are the bytes of `s`; the block has room for them, so it is never reallocated.
        StrView::new(unsafe { std::str::from_utf8_unchecked(&block[start..]) })
    }

    /// Copies `parts`, one after the other, into the arena.
    fn alloc_joined(&mut self, parts: &[&str], bytes: usize) -> StrView {
        if self.free() < bytes {
            self.blocks.push(Vec::with_capacity(self.next_block(bytes)));
        }
        let Some(block) = self.blocks.last_mut() else { return StrView::default() };
        let (start, room) = (block.len(), block.capacity());
        parts.iter().for_each(|part| block.extend_from_slice(part.as_bytes()));
        assert!(block.len() <= room, "the parts of a text have more than {bytes} bytes");
        // SAFETY: these are the bytes of strings; the block had room for them, so it is never reallocated.
        StrView::new(unsafe { std::str::from_utf8_unchecked(&block[start..]) })
    }

    /// Copies `s`, which is ASCII and fits, with every letter changed by `change`.
    fn alloc_ascii(&mut self, s: &str, change: impl Fn(u8) -> u8) -> StrView {
        let Some(block) = self.blocks.last_mut() else { return StrView::default() };
        let start = block.len();
        // Bytes that are not ASCII would break UTF-8.
        block.extend(s.bytes().map(|byte| change(byte) & 0x7f));
        // SAFETY: the bytes are ASCII; the block has room for them, so it is never reallocated.
        StrView::new(unsafe { std::str::from_utf8_unchecked(&block[start..]) })
    }

    /// Number of free bytes.
    fn free(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.capacity() - block.len())
    }

    /// The size of a new block with room for a string of `bytes`.
    fn next_block(&self, bytes: usize) -> usize {
        (BLOCKS.0 << self.blocks.len().min(8)).min(BLOCKS.1).max(bytes)
    }

    /// Forgets all strings; the bytes of the blocks that are freed.
    fn clear(&mut self) -> usize {
        let Some(mut last) = self.blocks.pop() else { return 0 };
        let freed = self.blocks.drain(..).map(|block| block.capacity()).sum();
        last.clear();
        self.blocks.push(last);
        freed
    }
}

/// A worker's state for evaluating expressions; the query takes over its strings when it is dropped.
#[derive(Debug)]
pub struct Worker {
    /// The memory of the query.
    pub memory: Arc<QueryMemory>,
    /// Strings made by this worker.
    pub strings: StringArena,
}

impl Worker {
    /// State for one worker (or one operator of one worker).
    pub fn new(memory: &Arc<QueryMemory>) -> Self {
        Self { memory: memory.clone(), strings: StringArena::default() }
    }

    /// Copies `s`; the copy lives until the query ends.
    ///
    /// # Errors
    /// [`ExecError::OutOfMemory`] if the query's limit, or the system, has no memory for it.
    pub fn text(&mut self, s: &str) -> Result<StrView> {
        self.make_room(s.len())?;
        Ok(self.strings.alloc(s))
    }

    /// Copies `parts`, one after the other, to be kept until the query ends.
    ///
    /// # Errors
    /// The errors of [`Worker::text`].
    pub fn joined(&mut self, parts: &[&str]) -> Result<StrView> {
        let bytes = parts.iter().fold(0usize, |bytes, part| bytes.saturating_add(part.len()));
        self.make_room(bytes)?;
        Ok(self.strings.alloc_joined(parts, bytes))
    }

    /// [`Worker::text`] of `s`, which is ASCII, with every letter changed by `change`.
    ///
    /// # Errors
    /// The errors of [`Worker::text`].
    pub fn ascii_text(&mut self, s: &str, change: impl Fn(u8) -> u8) -> Result<StrView> {
        self.make_room(s.len())?;
        Ok(self.strings.alloc_ascii(s, change))
    }

    fn make_room(&mut self, bytes: usize) -> Result<()> {
        if self.strings.free() >= bytes {
            return Ok(());
        }
        if bytes > MOST_BYTES {
            return Err(ExecError::Value(format!("a text of {bytes} bytes is too long: {MOST_BYTES} are the most")));
        }
        let size = self.strings.next_block(bytes);
        let mut block = Vec::new();
        self.memory.account_strings(size);
        let checked = self.memory.check_texts();
        if checked.is_err() || block.try_reserve_exact(size).is_err() {
            self.memory.release_texts(size);
            return checked.and(Err(self.no_room(size)));
        }
        // The allocator may return more than requested; that is used, too.
        self.memory.account_strings(block.capacity() - size);
        self.strings.blocks.push(block);
        Ok(())
    }

    /// Reserves room in `line`, a buffer, for `bytes` more.
    ///
    /// # Errors
    /// The errors of [`Worker::text`], since the line will be kept.
    pub fn room_in(&self, line: &mut String, bytes: usize) -> Result<()> {
        let size = line.len().saturating_add(bytes);
        match size <= self.memory.limit && line.try_reserve(bytes).is_ok() {
            true => Ok(()),
            false => Err(self.no_room(bytes)),
        }
    }

    /// Adds `part` to `line`, a buffer.
    ///
    /// # Errors
    /// The errors of [`Worker::room_in`], which is called where the buffer is full.
    #[inline]
    pub fn push(&self, line: &mut String, part: &str) -> Result<()> {
        if line.capacity() - line.len() < part.len() {
            self.room_in(line, part.len())?;
        }
        line.push_str(part);
        Ok(())
    }

    fn no_room(&self, requested: usize) -> ExecError {
        let (used, limit) = (self.memory.memory_used(), self.memory.limit);
        ExecError::OutOfMemory { operator: TEXTS, requested, used, limit }
    }

    /// Frees the strings computed so far; no view may refer to them.
    pub fn forget_texts(&mut self) {
        let freed = self.strings.clear();
        self.memory.release_texts(freed);
    }
}

/// Bytes of the longest string that a view can have.
pub(crate) const MOST_BYTES: usize = u32::MAX as usize;

/// The name of computed texts in errors about memory.
const TEXTS: &str = "texts that are computed";

impl Drop for Worker {
    fn drop(&mut self) {
        self.memory.keep(std::mem::take(&mut self.strings));
    }
}
