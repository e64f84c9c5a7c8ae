//! The choice of an encoding for one column segment.
//!
//! By size, weighted by decode cost: every value equal is [`Encoding::Constant`]; otherwise [`Encoding::LaneFor`], unless
//! run lengths take at most [`RLE_SHARE`] of its size or deltas at most [`DELTA_SHARE`] (deltas cost a prefix sum, and lose
//! random access and comparison of packed values; runs are cheap while they are long). Plain integers win only where
//! packing saves nothing. The published GPU schemes are never chosen.

use super::gpu::{GpuPacked, Scheme};
use super::lane_delta::LaneDelta;
use super::lane_for::LaneFor;
use super::lane_rle::LaneRle;
use super::outline::Outline;
use super::plain::PlainIntegers;
use super::word::Value;
use crate::segment::Encoding;
use crate::segment::bytes::SectionWriter;

/// Largest size of run lengths, in percent of the lane-packed size.
const RLE_SHARE: usize = 60;
/// Largest size of deltas, in percent of the lane-packed size.
const DELTA_SHARE: usize = 60;

/// Encodes `values` into `out`. Returns the encoding. `plain` is the width in bytes and the signedness of the column's type. Errors tell why a forced
/// encoding cannot represent the values.
pub(crate) fn encode<V: Value>(
    (values, outline): (&[V], &Outline<V>),
    plain: (usize, bool),
    forced: Option<Encoding>,
    out: &mut SectionWriter,
) -> Result<Encoding, String> {
    let Some(forced) = forced else {
        return Ok(automatic((values, outline), plain, out));
    };
    let constant = values.first().copied().unwrap_or_default();
    match forced {
        Encoding::Constant if values.iter().any(|&x| x != constant) => return Err("the values are not constant".into()),
        Encoding::Constant => out.push(&[constant.to_i128()]),
        Encoding::Plain => PlainIntegers::encode(values.iter().map(|x| x.to_i128()), plain.0, plain.1, out),
        Encoding::LaneFor => LaneFor::encode_outlined((values, outline), out),
        Encoding::LaneDelta => {
            let plan = LaneDelta::plan(values, usize::MAX).ok_or("the deltas of the values need more than 32 bits")?;
            LaneDelta::encode(values, plan, out);
        }
        Encoding::LaneRle => LaneRle::encode(values, out),
        Encoding::GpuFor => GpuPacked::encode(values, Scheme::For, out)?,
        Encoding::GpuDfor => GpuPacked::encode(values, Scheme::Delta, out)?,
        Encoding::GpuRfor => GpuPacked::encode(values, Scheme::RunLength, out)?,
        Encoding::Symbols => return Err("symbols are of strings".into()),
        Encoding::Nested => return Err("parts are of nested values".into()),
    }
    Ok(forced)
}

fn automatic<V: Value>(
    (values, outline): (&[V], &Outline<V>),
    plain: (usize, bool),
    out: &mut SectionWriter,
) -> Encoding {
    let (constant, most) = outline.range().unwrap_or_default();
    if constant == most {
        out.push(&[constant.to_i128()]);
        return Encoding::Constant;
    }
    let mut packed = SectionWriter::default();
    LaneFor::encode_outlined((values, outline), &mut packed);
    let size = packed.size();
    // A run costs 10 bits for its end plus its value: it does not pay below four rows per run.
    if outline.runs * 4 <= values.len() {
        let mut runs = SectionWriter::default();
        LaneRle::encode(values, &mut runs);
        if runs.size() * 100 <= size * RLE_SHARE {
            out.append(runs);
            return Encoding::LaneRle;
        }
    }
    if let Some(plan) = LaneDelta::plan(values, size * DELTA_SHARE / 100) {
        LaneDelta::encode(values, plan, out);
        return Encoding::LaneDelta;
    }
    let whole = values.len() * plain.0;
    if whole < size && values.len() >= crate::VECTOR_ROWS {
        PlainIntegers::encode(values.iter().map(|x| x.to_i128()), plain.0, plain.1, out);
        return Encoding::Plain;
    }
    out.append(packed);
    Encoding::LaneFor
}
