//! String keys with their first twelve bytes inline: groups of short strings are compared without a read of the strings, which are scattered in
//! memory.

use warpmill_format::StrView;

use super::hash;

/// A string key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextKey {
    /// The string; the view itself holds the length and the first four bytes.
    pub view: StrView,
    /// The next eight bytes, little endian, zeros past the end.
    tail: u64,
}

/// Largest length of a string that the view's prefix and `tail` hold completely.
const INLINE: usize = 12;

impl TextKey {
    /// The key of a string.
    #[inline(always)]
    pub fn new(view: StrView) -> Self {
        let bytes = view.as_bytes();
        let tail = match bytes.len() {
            0..=4 => 0,
            // The last four bytes of the string, shifted to drop those in the view's prefix.
            len @ 5..8 => bytes.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last) >> (8 * (8 - len))).into(),
            len @ 8..INLINE => {
                bytes.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last) >> (8 * (INLINE - len)))
            }
            _ => bytes[4..].first_chunk::<8>().map_or(0, |next| u64::from_le_bytes(*next)),
        };
        Self { view, tail }
    }

    /// Hash of the key.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        if self.view.len() <= INLINE {
            hash::words(&[self.view.head(), self.tail])
        } else {
            hash::bytes(self.view.as_bytes())
        }
    }
}

impl PartialEq for TextKey {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.view.head() == other.view.head()
            && self.tail == other.tail
            && (self.view.len() <= INLINE || self.view.as_bytes()[INLINE..] == other.view.as_bytes()[INLINE..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_equal_keys_with_equal_hashes() {
        // Each string has memory of its own, with other bytes around it.
        let letters = "abcdefghijklmnopqrstuvwxyz";
        let around: Vec<String> = letters.chars().map(|c| format!("{c}{letters}{c}")).collect();
        for len in 0..=letters.len() {
            let keys: Vec<TextKey> = around.iter().map(|s| TextKey::new(StrView::new(&s[1..=len]))).collect();
            assert!(keys.iter().all(|key| *key == keys[0] && key.hash() == keys[0].hash()), "{len}");
        }
        let all: Vec<String> = (0..=letters.len()).map(|len| letters[..len].to_owned()).collect();
        let changed = (0..letters.len()).map(|at| letters.replace(&letters[at..=at], "#"));
        let all: Vec<String> = all.into_iter().chain(changed).chain(["abcde\0".into(), "abcd\0".into()]).collect();
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(TextKey::new(StrView::new(a)) == TextKey::new(StrView::new(b)), i == j, "{a:?} {b:?}");
            }
        }
    }
}
