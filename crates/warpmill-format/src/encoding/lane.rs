//! The lane-quad layout: 1024 values packed for one warp, and for SIMD.
//!
//! Lane `l` of 32 owns 32 values and packs them, `width` bits each, vertically into its own `width` u32 words: value `j` occupies bits `j * width ..`
//! of them. Four consecutive words of a lane are adjacent (a *quad row* of 32 lanes x 16 bytes); the remaining two and one words of each lane follow
//! in narrower rows. The layout follows the idea of FastLanes (Afroozeh and Boncz, VLDB 2023); it was chosen by measurement so that a lane loads 16
//! bytes at once without staging.
//!
//! The [`Order`] determines the row of value `j` of lane `l`.

use super::word::Word;
use crate::VECTOR_ROWS;

/// Lanes of a vector.
pub(crate) const LANES: usize = 32;

/// Words of one packed vector.
pub(crate) const fn vector_words(width: u32) -> usize {
    LANES * width as usize
}

/// The row of the vector that value `j` of lane `l` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row `128 * (j / 4) + 4 * l + j % 4`: four values of a lane store as 16 bytes, a warp's stores are contiguous.
    Striped,
    /// Row `32 * l + j`: a lane owns consecutive rows, so that a prefix sum stays within it.
    Blocked,
}

impl Order {
    /// The row of value `j` of lane `l`.
    #[inline(always)]
    pub(crate) fn row(self, l: usize, j: usize) -> usize {
        match self {
            Order::Striped => 128 * (j / 4) + 4 * l + j % 4,
            Order::Blocked => 32 * l + j,
        }
    }

    /// The lane and index in it of `row`.
    #[inline(always)]
    pub(crate) fn place(self, row: usize) -> (usize, usize) {
        match self {
            Order::Striped => (row / 4 % LANES, row / 128 * 4 + row % 4),
            Order::Blocked => (row / 32, row % 32),
        }
    }
}

/// The position of word `k` of lane `l` in a packed vector of `width` words per lane.
#[inline(always)]
pub(crate) const fn word_index(width: usize, k: usize, l: usize) -> usize {
    let quads = width / 4;
    if k < 4 * quads {
        return k / 4 * 128 + 4 * l + k % 4;
    }
    let rest = k - 4 * quads;
    if width & 2 != 0 && rest < 2 { quads * 128 + 2 * l + rest } else { (width - 1) * 32 + l }
}

const fn mask_of(width: u32) -> u32 {
    if width >= 32 { u32::MAX } else { (1 << width) - 1 }
}

/// Packs 1024 values (by row, each below `2^width`) into `out`, [`vector_words`] long. `width` is 1 to 32.
pub(crate) fn pack(values: &[u32; VECTOR_ROWS], width: u32, order: Order, out: &mut [u32]) {
    assert!((1..=32).contains(&width) && out.len() == vector_words(width));
    // One body per width: its shifts and positions are constants.
    macro_rules! widths {
        ($($w:literal)*) => {
            match (width, order) {
                $(
                    ($w, Order::Striped) => pack_width::<$w, true>(values, out),
                    ($w, Order::Blocked) => pack_width::<$w, false>(values, out),
                )*
                _ => unreachable!("a width of 1 to 32"),
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

fn pack_width<const W: usize, const STRIPED: bool>(values: &[u32; VECTOR_ROWS], out: &mut [u32]) {
    let order = if STRIPED { Order::Striped } else { Order::Blocked };
    let out = &mut out[..LANES * W];
    for l in 0..LANES {
        let (mut acc, mut bits, mut k) = (0u64, 0, 0);
        for j in 0..32 {
            let value = values[order.row(l, j)];
            debug_assert!(value <= mask_of(W as u32));
            acc |= u64::from(value) << bits;
            bits += W;
            if bits >= 32 {
                out[word_index(W, k, l)] = acc as u32;
                (acc, bits, k) = (acc >> 32, bits - 32, k + 1);
            }
        }
    }
}

/// The packed value of `row`.
#[inline(always)]
pub(crate) fn get(words: &[u32], width: u32, order: Order, row: usize) -> u32 {
    let (l, j) = order.place(row);
    let (bit, w) = (j * width as usize, width as usize);
    let (k, shift) = (bit / 32, bit as u32 % 32);
    let low = u64::from(words[word_index(w, k, l)]);
    let high = if shift + width > 32 { u64::from(words[word_index(w, k + 1, l)]) } else { 0 };
    ((low | high << 32) >> shift) as u32 & mask_of(width)
}

/// The position of value `j` of every lane, precomputed per width: random access in two loads and a shift.
#[derive(Clone, Copy)]
struct Place {
    /// Word of lane 0 in which the field starts, and the next one if the field straddles (else the same).
    low: u32,
    high: u32,
    low_stride: u32,
    high_stride: u32,
    shift: u32,
}

/// Random access into vectors of one width, in striped order.
pub(crate) struct Places {
    places: [Place; 32],
    vector_words: usize,
    mask: u32,
}

impl Places {
    /// Positions for fields of `width` bits, 1 to 32.
    pub(crate) fn new(width: u32) -> Self {
        let w = width as usize;
        let word = |k: usize| (word_index(w, k, 0) as u32, (word_index(w, k, 1) - word_index(w, k, 0)) as u32);
        let places = std::array::from_fn(|j| {
            let (k, shift) = (j * w / 32, (j * w % 32) as u32);
            let (low, low_stride) = word(k);
            let (high, high_stride) = if shift + width > 32 { word(k + 1) } else { (low, low_stride) };
            Place { low, high, low_stride, high_stride, shift }
        });
        Self { places, vector_words: vector_words(width), mask: mask_of(width) }
    }

    /// The field of `row`, counted through all vectors of `words`.
    #[inline(always)]
    pub(crate) fn get(&self, words: &[u32], row: usize) -> u32 {
        let (l, j) = Order::Striped.place(row % VECTOR_ROWS);
        let (place, start) = (&self.places[j], row / VECTOR_ROWS * self.vector_words);
        let low = words[start + place.low as usize + l * place.low_stride as usize];
        let high = words[start + place.high as usize + l * place.high_stride as usize];
        ((u64::from(low) | u64::from(high) << 32) >> place.shift) as u32 & self.mask
    }
}

/// Unpacks a vector in row order and adds `reference`: portable form, the oracle of the SIMD one.
pub(crate) fn unpack_scalar<T: Word>(
    words: &[u32],
    width: u32,
    order: Order,
    reference: T,
    out: &mut [T; VECTOR_ROWS],
) {
    assert_eq!(words.len(), vector_words(width));
    if width == 0 {
        out.fill(reference);
        return;
    }
    let mask = mask_of(width);
    for l in 0..LANES {
        let (mut acc, mut bits, mut k) = (0u64, 0, 0);
        for j in 0..32 {
            if bits < width {
                acc |= u64::from(words[word_index(width as usize, k, l)]) << bits;
                (bits, k) = (bits + 32, k + 1);
            }
            out[order.row(l, j)] = T::from_u32(acc as u32 & mask).add(reference);
            (acc, bits) = (acc >> width, bits - width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_and_row_has_one_place() {
        for width in 1..=32 {
            let mut seen = vec![false; vector_words(width)];
            for k in 0..width as usize {
                (0..LANES).for_each(|l| assert!(!std::mem::replace(&mut seen[word_index(width as usize, k, l)], true)));
            }
        }
        for order in [Order::Striped, Order::Blocked] {
            for row in 0..VECTOR_ROWS {
                let (l, j) = order.place(row);
                assert_eq!(order.row(l, j), row);
            }
        }
    }

    #[test]
    fn pack_get_and_unpack_agree_at_every_width() {
        for order in [Order::Striped, Order::Blocked] {
            for width in 1..=32 {
                let values: [u32; VECTOR_ROWS] =
                    std::array::from_fn(|i| (i as u32).wrapping_mul(0x9E37_79B9) ^ 0x5555).map(|x| x & mask_of(width));
                let mut words = vec![0; vector_words(width)];
                pack(&values, width, order, &mut words);
                let mut out = [0u32; VECTOR_ROWS];
                unpack_scalar(&words, width, order, 7, &mut out);
                for row in 0..VECTOR_ROWS {
                    assert_eq!(out[row], values[row].wrapping_add(7));
                    assert_eq!(get(&words, width, order, row), values[row]);
                    if order == Order::Striped {
                        assert_eq!(Places::new(width).get(&words, row), values[row]);
                    }
                }
            }
        }
    }
}
