//! Hashes of group keys: folded 64 x 64 -> 128 bit multiplications, as in wyhash.

const K: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of one word.
#[inline(always)]
pub(super) fn word(word: u64) -> u64 {
    fold(word ^ K[0], K[1])
}

/// Combines two hashes.
#[inline(always)]
pub(super) fn combine(a: u64, b: u64) -> u64 {
    fold(a ^ K[2], b ^ K[1])
}

/// Hash of several words.
#[inline(always)]
pub(super) fn words(list: &[u64]) -> u64 {
    list.iter().fold(K[0], |hash, &w| combine(hash, word(w)))
}

/// Hash of a string.
#[inline]
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let (blocks, rest) = bytes.as_chunks::<16>();
    let mut hash = K[0] ^ len as u64;
    for block in blocks {
        let (a, b) = block.split_at(8);
        hash = fold(read(a) ^ K[1], read(b) ^ hash);
    }
    let (a, b) = rest.split_at(rest.len().min(8));
    fold(read(a) ^ K[2], read(b) ^ hash ^ K[1])
}

/// Reads up to 8 bytes, little endian.
#[inline(always)]
fn read(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}
