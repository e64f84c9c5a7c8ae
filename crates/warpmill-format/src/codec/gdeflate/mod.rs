//! GDeflate: Deflate with its bits distributed over 32 lanes, so that a warp decodes a block (`draft-uralsky-gdeflate`, 2024).
//!
//! The symbols are Deflate's (RFC 1951), except the longest length and the farthest distances, which are Deflate64's. They are assigned to 32 lanes
//! in turn; each lane has its own bit stream, and the 32-bit words of all lanes are interleaved in the order in which a decoder needs them: a lane
//! with fewer than 32 bits left takes the next word at the end of its turn. A match takes two turns of its lane, for its length and its distance, so
//! that no turn takes more than 32 bits.
//!
//! [`lay_out`] takes Deflate from an ordinary library and redistributes its bits; [`decompress`] does not trust its input. Neither needs NVIDIA's
//! library; the tests compare with it if it is installed.

mod decode;
mod encode;
mod huffman;

pub(super) use decode::decompress;
pub(super) use encode::lay_out;

/// Streams of bits.
const LANES: usize = 32;
/// Bits of a word, which also is the minimum of a lane's bits when its turn begins.
const WORD: u32 = 32;

const STORED: u32 = 0;
const FIXED: u32 = 1;
const DYNAMIC: u32 = 2;

/// The symbol that ends a block.
const END: u32 = 256;

/// The order in which the lengths of the code-length codes are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Smallest length, and number of extra bits, by symbol from 257 on; the last is Deflate64's.
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

/// Smallest distance, and number of extra bits, by symbol; the last two are Deflate64's.
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

/// Code lengths of literals and lengths, and of distances, in blocks with fixed codes.
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
