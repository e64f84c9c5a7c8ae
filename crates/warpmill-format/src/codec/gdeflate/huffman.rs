//! Canonical Huffman codes, read bit by bit from the lowest on.

/// Longest code.
const MOST_BITS: usize = 15;

/// A code as its decoder needs it.
#[derive(Default)]
pub(super) struct Code {
    /// By the next `bits` bits: the symbol and the bits of its code; 0 bits for an invalid code.
    table: Vec<(u16, u8)>,
    bits: u32,
}

impl Code {
    /// Sets the code in which symbol `i` has `lengths[i]` bits; 0: the symbol does not occur.
    ///
    /// Errors: lengths that need more codes than exist.
    pub fn set(&mut self, lengths: &[u8]) -> Result<(), String> {
        let mut counts = [0u32; MOST_BITS + 1];
        lengths.iter().for_each(|&length| counts[usize::from(length)] += 1);
        counts[0] = 0;
        let bits = (1..=MOST_BITS).rev().find(|&bits| counts[bits] > 0).unwrap_or(1);
        // The first code of each length.
        let (mut next, mut code) = ([0u32; MOST_BITS + 2], 0);
        for length in 1..=bits {
            next[length] = code;
            code = (code + counts[length]) << 1;
            if code > 2 << length {
                return Err("a Huffman code with too many symbols".into());
            }
        }
        self.bits = bits as u32;
        self.table.clear();
        self.table.resize(1 << bits, (0, 0));
        for (symbol, &length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let code = next[usize::from(length)];
            next[usize::from(length)] += 1;
            let first = (code.reverse_bits() >> (32 - u32::from(length))) as usize;
            self.table[first..].iter_mut().step_by(1 << length).for_each(|entry| *entry = (symbol as u16, length));
        }
        Ok(())
    }

    /// Decodes the first symbol of `bits`, with the bits of its code.
    ///
    /// Errors: an invalid code.
    #[inline]
    pub fn find(&self, bits: u64) -> Result<(u32, u32), String> {
        match self.table[(bits & ((1 << self.bits) - 1)) as usize] {
            (_, 0) => Err("bits that are no code".into()),
            (symbol, length) => Ok((symbol.into(), length.into())),
        }
    }
}
