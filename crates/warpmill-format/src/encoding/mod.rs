//! The light encodings: query kernels decode values, each vector independently.
//!
//! - `lane`: the lane-quad layout of 1024 fields, portable; `lane_avx2`: the same with SIMD;
//! - `lane_for`, `lane_delta`, `lane_rle`: the default encodings of integers and dictionary codes;
//! - `gpu`: GPU-FOR, GPU-DFOR and GPU-RFOR as published, on request;
//! - `plain`: integers at their type's width, strings as offsets and bytes; `symbols`: strings as codes of repeated substrings;
//! - `select`: masks of rows; `members_avx2`: rows whose values are in a set, with SIMD;
//! - `column`: the dispatch over them; `choose`: the choice for a segment; `outline`: the facts on which the choice is based.
//!
//! To add an encoding: a variant of [`crate::segment::Encoding`] (at the end: its position is stored), a file here with
//! `encode`, `read` (which must reject every inconsistent size), `vector` and `get`, and its arms in `column` and `choose`.

pub(crate) mod choose;
pub(crate) mod column;
pub(crate) mod gpu;
pub(crate) mod lane;
#[cfg(target_feature = "avx2")]
mod lane_avx2;
pub(crate) mod lane_delta;
pub(crate) mod lane_for;
pub(crate) mod lane_rle;
#[cfg(target_feature = "avx2")]
mod members_avx2;
pub(crate) mod outline;
pub(crate) mod plain;
pub(crate) mod select;
pub mod symbols;
pub(crate) mod word;

use crate::VECTOR_ROWS;

/// The kernels of the lane layout for widths 1 to 32: SIMD if the build has it, else portable.
pub(crate) mod kernels {
    use super::*;

    #[cfg(target_feature = "avx2")]
    pub(crate) use super::lane_avx2::{prefix_sums, unpack_select, unpack_u32, unpack_u64};
    #[cfg(not(target_feature = "avx2"))]
    pub(crate) use portable::{prefix_sums, unpack_select, unpack_u32, unpack_u64};

    /// Unpacks a vector in striped order, widening to 128 bits before `base` is added.
    pub(crate) fn unpack_u128(words: &[u32], width: u32, base: u128, out: &mut [u128; VECTOR_ROWS]) {
        let mut fields = [0; VECTOR_ROWS];
        unpack_u32(words, width, 0, &mut fields);
        out.iter_mut().zip(&fields).for_each(|(x, &field)| *x = base.wrapping_add(u128::from(field)));
    }

    /// The same without SIMD.
    #[cfg(not(target_feature = "avx2"))]
    mod portable {
        use super::super::lane::{Order, unpack_scalar};
        use super::super::select::{self, RowMask};
        use crate::VECTOR_ROWS;

        pub(crate) fn unpack_u32(words: &[u32], width: u32, base: u32, out: &mut [u32; VECTOR_ROWS]) {
            unpack_scalar(words, width, Order::Striped, base, out);
        }

        pub(crate) fn unpack_u64(words: &[u32], width: u32, base: u64, out: &mut [u64; VECTOR_ROWS]) {
            unpack_scalar(words, width, Order::Striped, base, out);
        }

        pub(crate) fn unpack_select(words: &[u32], width: u32, low: u32, high: u32, mask: &mut RowMask) {
            let mut fields = [0u32; VECTOR_ROWS];
            unpack_u32(words, width, 0, &mut fields);
            select::compare(&fields, low, high, mask);
        }

        pub(crate) fn prefix_sums(
            words: &[u32],
            width: u32,
            step: u32,
            starts: &[u32; 32],
            out: &mut [u32; VECTOR_ROWS],
        ) {
            unpack_scalar(words, width, Order::Blocked, step, out);
            for (lane, &start) in out.as_chunks_mut::<32>().0.iter_mut().zip(starts) {
                lane.iter_mut().fold(start, |sum, x| {
                    *x = x.wrapping_add(sum);
                    *x
                });
            }
        }
    }
}
