//! The light encodings: values are decoded inside query kernels, any vector on its own.

pub(crate) mod choose;
pub(crate) mod column;
pub(crate) mod lane;
pub(crate) mod lane_for;
pub(crate) mod plain;
pub(crate) mod select;
pub(crate) mod word;

use lane::Order;
use select::RowMask;
use word::Word;

use crate::VECTOR_ROWS;

/// Unpacks a lane-packed vector in row order, adding `reference`.
#[inline]
pub(crate) fn unpack<T: Word>(words: &[u32], width: u32, reference: T, out: &mut [T; VECTOR_ROWS]) {
    lane::unpack_scalar(words, width, Order::Striped, reference, out);
}

/// The rows of a lane-packed vector whose field is in `low ..= high`.
#[inline]
pub(crate) fn unpack_select(words: &[u32], width: u32, low: u32, high: u32, mask: &mut RowMask) {
    let mut fields = [0u32; VECTOR_ROWS];
    lane::unpack_scalar(words, width, Order::Striped, 0, &mut fields);
    select::compare(&fields, low, high, mask);
}
