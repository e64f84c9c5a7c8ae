//! Hashes of key values: folded multiplication (the mixing step of wyhash and foldhash).

use std::sync::Arc;

use warpmill_format::StrView;

use super::keys::Word;
use crate::vector::{Data, Vector};

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;
const NULL_HASH: u64 = 0x2545_f491_4f6c_dd1d;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A well-mixed hash of one word.
#[inline(always)]
pub(super) fn mix(word: u64) -> u64 {
    fold(word ^ K0, K1)
}

#[inline(always)]
fn combine(seed: u64, word: u64) -> u64 {
    fold(seed.rotate_left(29) ^ word ^ K0, K1)
}

#[inline]
fn hash_str(view: &StrView) -> u64 {
    let bytes = view.as_bytes();
    let mut hash = bytes.len() as u64;
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        hash = combine(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    combine(hash, u64::from_le_bytes(last))
}

fn fold_in<T>(out: &mut [u64], values: &[T], hash: impl Fn(&T) -> u64) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = combine(*out, hash(value));
    }
}

/// The combined hashes over all columns of rows `start .. start + out.len()` of `keys`; all NULLs have one hash.
pub(super) fn hash_rows(keys: &[Arc<Vector>], start: usize, out: &mut [u64]) {
    out.fill(0);
    for key in keys {
        let rows = start..start + out.len();
        if let Some(validity) = &key.validity {
            for (out, row) in out.iter_mut().zip(rows) {
                *out = combine(*out, if validity.get(row) { hash_value(&key.data, row) } else { NULL_HASH });
            }
            continue;
        }
        match &key.data {
            Data::Bool(v) => fold_in(out, &v[rows], |v| v.word() as u64),
            Data::I32(v) => fold_in(out, &v[rows], |v| v.word() as u64),
            Data::I64(v) => fold_in(out, &v[rows], |v| v.word() as u64),
            Data::I128(v) => fold_in(out, &v[rows], hash_i128),
            Data::F32(v) => fold_in(out, &v[rows], |v| v.word() as u64),
            Data::F64(v) => fold_in(out, &v[rows], |v| v.word() as u64),
            Data::Str(v) => fold_in(out, &v[rows], hash_str),
            Data::Code(v) => fold_in(out, &v[rows], |v| v.word() as u64),
        }
    }
}

fn hash_i128(value: &i128) -> u64 {
    combine(*value as u64, (*value >> 64) as u64)
}

fn hash_value(data: &Data, row: usize) -> u64 {
    match data {
        Data::Bool(v) => v[row].word() as u64,
        Data::I32(v) => v[row].word() as u64,
        Data::I64(v) => v[row].word() as u64,
        Data::I128(v) => hash_i128(&v[row]),
        Data::F32(v) => v[row].word() as u64,
        Data::F64(v) => v[row].word() as u64,
        Data::Str(v) => hash_str(&v[row]),
        Data::Code(v) => v[row].word() as u64,
    }
}
