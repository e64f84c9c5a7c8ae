//! Bloom filters: is a value surely absent from some rows?

use xxhash_rust::xxh3::xxh3_64;

/// Size of a filter in bytes.
pub const BLOOM_BYTES: usize = 1024;

/// Bits that a value sets.
pub const BLOOM_HASHES: u32 = 8;

/// Number of rows of a filter; a zone's number of rows if larger.
pub const BLOOM_ROWS: usize = 64 << 10;

/// Largest number of distinct values of a filter: at 1500, about 1 absent value in 8 passes.
pub(crate) const MOST_DISTINCT: usize = 1500;

/// The hash of an integer, a dictionary code or a float's rank.
pub fn integer_hash(rank: i128) -> u64 {
    xxh3_64(&rank.to_le_bytes())
}

/// The hash of a string without a dictionary.
pub fn string_hash(s: &[u8]) -> u64 {
    xxh3_64(s)
}

/// The bits of a value: `low + i * high`, with the two halves of its hash (the upper one made odd).
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let (low, high) = (hash as u32, (hash >> 32) as u32 | 1);
    (0..BLOOM_HASHES).map(move |i| low.wrapping_add(high.wrapping_mul(i)) as usize % (8 * BLOOM_BYTES))
}

/// The filter of some hashes.
pub(crate) fn filter(hashes: impl Iterator<Item = u64>) -> Box<[u8]> {
    let mut bytes = vec![0u8; BLOOM_BYTES].into_boxed_slice();
    hashes.flat_map(bits).for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
    bytes
}

/// Whether `filter` may contain a value with this hash.
pub(crate) fn may_hold(filter: &[u8], hash: u64) -> bool {
    bits(hash).all(|bit| filter[bit / 8] >> (bit % 8) & 1 != 0)
}
