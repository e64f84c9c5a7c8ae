//! One random stream per row: the values of a row depend on its table and number only, not on the rows generated before.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) struct Random(u64);

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of row `row` of the table whose name hashes into `table`.
    pub(crate) fn of_row(table: u64, row: u64) -> Self {
        Self(mix(mix(table.wrapping_mul(GOLDEN)) ^ row.wrapping_mul(GOLDEN)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `low..=high`; the bias of multiply-shift is below 2^-32 for the ranges here.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.next()) * u128::from(high - low + 1)) >> 64) as u64
    }

    /// One of `values`, all equally likely.
    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.between(0, values.len() as u64 - 1) as usize]
    }

    /// Text of `min..=max` letters, digits, spaces and commas.
    pub(crate) fn text(&mut self, min: u64, max: u64) -> String {
        let length = self.between(min, max);
        let mut bits = 0;
        (0..length)
            .map(|i| {
                if i % 10 == 0 {
                    bits = self.next();
                }
                let letter = ALPHABET[(bits & 63) as usize];
                bits >>= 6;
                char::from(letter)
            })
            .collect()
    }
}
