//! GDeflate: Deflate whose bits are laid out for 32 lanes, so that a warp decodes a block (`draft-uralsky-gdeflate`, 2024).
//!
//! The symbols are Deflate's (RFC 1951), but for the longest length and the farthest distances, which are Deflate64's. They are dealt out to
//! 32 lanes in turn; each lane has its own stream of bits, and the 32-bit words of all of them lie in one sequence, in the order in
//! which a decoder needs them: a lane with fewer than 32 bits left takes the next word when its turn is over. A match takes two turns
//! of its lane: its length in one, its distance in the next, so that no turn takes more than 32 bits.
//!
//! [`lay_out`] takes Deflate, whose symbols and codes an ordinary library has found, and lays its bits out anew; [`decompress`] trusts
//! nothing. Neither needs a library of NVIDIA's; the tests compare with it where it is.

mod decode;
mod encode;
mod huffman;

pub(super) use decode::decompress;
pub(super) use encode::lay_out;

/// Streams of bits.
const LANES: usize = 32;
/// Bits of a word, and those that a lane has at least when its turn begins.
const WORD: u32 = 32;

const STORED: u32 = 0;
const FIXED: u32 = 1;
const DYNAMIC: u32 = 2;

/// The symbol that ends a block.
const END: u32 = 256;

/// In which order the lengths of the codes of code lengths are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Least length, and bits that are added to it, by symbol from 257 on; the last is the one of Deflate64.
const LENGTHS: [(u32, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (3, 16),
];

/// Least distance, and bits that are added to it, by symbol; the last two are those of Deflate64.
const DISTANCES: [(u32, u32); 32] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12_289, 12),
    (16_385, 13),
    (24_577, 13),
    (32_769, 14),
    (49_153, 14),
];

/// Bits of the code of each literal and length, and of each distance, in blocks of fixed codes.
fn fixed_lengths() -> ([u8; 288], [u8; 32]) {
    let of = |symbol: usize| match symbol {
        0..144 => 8,
        144..256 => 9,
        256..280 => 7,
        _ => 8,
    };
    (std::array::from_fn(of), [5; 32])
}

#[cfg(test)]
mod tests;
