//! Validity and selection bitmaps: bit `i` of word `i / 64`, least significant bit first; a set bit is a valid row.

/// A growable bitmap. Bits past `len` are zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// A bitmap of `len` bits, all `value`.
    pub fn new(len: usize, value: bool) -> Self {
        let mut words = vec![if value { u64::MAX } else { 0 }; len.div_ceil(64)];
        if value && !len.is_multiple_of(64) {
            *words.last_mut().expect("len > 0") = (1u64 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// A bitmap from its words; bits past `len` are cleared.
    pub fn from_words(mut words: Vec<u64>, len: usize) -> Self {
        words.resize(len.div_ceil(64), 0);
        if !len.is_multiple_of(64) {
            *words.last_mut().expect("len > 0") &= (1u64 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// A bitmap whose bit `i` is `f(i)`.
    pub fn from_fn(len: usize, mut f: impl FnMut(usize) -> bool) -> Self {
        let mut words = vec![0u64; len.div_ceil(64)];
        for (w, word) in words.iter_mut().enumerate() {
            let base = w * 64;
            for i in 0..64.min(len - base) {
                *word |= u64::from(f(base + i)) << i;
            }
        }
        Self { words, len }
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The words, least significant bit first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Bit `i`. Panics when out of range.
    #[inline(always)]
    pub fn get(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 != 0
    }

    /// Sets bit `i` to `value`. Panics when out of range.
    #[inline(always)]
    pub fn set(&mut self, i: usize, value: bool) {
        debug_assert!(i < self.len);
        let word = &mut self.words[i / 64];
        *word = *word & !(1 << (i % 64)) | u64::from(value) << (i % 64);
    }

    /// Number of set bits.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether every bit is set.
    pub fn all(&self) -> bool {
        self.count_ones() == self.len
    }

    /// Clears every bit that is clear in `other` (same length).
    pub fn and_assign(&mut self, other: &Bitmap) {
        assert_eq!(self.len, other.len);
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= b;
        }
    }

    /// Sets every bit that is set in `other` (same length).
    pub fn or_assign(&mut self, other: &Bitmap) {
        assert_eq!(self.len, other.len);
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// The bitmap with every bit flipped.
    pub fn not(&self) -> Bitmap {
        Bitmap::from_words(self.words.iter().map(|w| !w).collect(), self.len)
    }

    /// Copies bits `start .. start + len`.
    pub fn slice(&self, start: usize, len: usize) -> Bitmap {
        assert!(start + len <= self.len);
        let (shift, first) = (start % 64, start / 64);
        let words = (0..len.div_ceil(64))
            .map(|w| {
                let low = self.words[first + w] >> shift;
                match self.words.get(first + w + 1) {
                    Some(next) if shift != 0 => low | next << (64 - shift),
                    _ => low,
                }
            })
            .collect();
        Bitmap::from_words(words, len)
    }

    /// Bit `rows[i]` as bit `i`.
    pub fn gather(&self, rows: &[u32]) -> Bitmap {
        Bitmap::from_fn(rows.len(), |i| self.get(rows[i] as usize))
    }

    /// Appends one bit.
    pub fn push(&mut self, value: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.len += 1;
        self.set(self.len - 1, value);
    }

    /// Appends all bits of `other`.
    pub fn extend(&mut self, other: &Bitmap) {
        if self.len.is_multiple_of(64) {
            self.words.extend_from_slice(&other.words);
            self.len += other.len;
        } else {
            (0..other.len).for_each(|i| self.push(other.get(i)));
        }
    }
}
