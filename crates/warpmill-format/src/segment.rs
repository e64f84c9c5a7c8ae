//! One column over the rows of a row segment: statistics, validity and encoded values.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::{Bitmap, ColumnStats, Dictionary, Result, StrView};

/// How the values of a segment are encoded (see [`crate::encoding`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Encoding {
    /// Values as they are (floats, strings as offsets + bytes, incompressible integers).
    Plain,
    /// All valid rows hold the same value.
    Constant,
    /// Lane-packed frame of reference (the default of integers and dictionary codes).
    LaneFor,
    /// Lane-packed per-lane deltas.
    LaneDelta,
    /// Lane-packed run ends and run values.
    LaneRle,
    /// GPU-FOR as published (thesis 3.3).
    GpuFor,
    /// GPU-DFOR as published (thesis 3.4).
    GpuDfor,
    /// GPU-RFOR as published (thesis 3.5).
    GpuRfor,
}

/// One column over the rows of a row segment, ready to be decoded.
///
/// All `start` arguments are multiples of [`crate::VECTOR_ROWS`]; `start + out.len()` must not exceed `rows()`.
/// Null rows decode to unspecified values. Integer-like types decode as their unscaled integer into any width that holds
/// the segment's min and max (the caller checks [`Segment::stats`]); dictionary columns decode as codes.
pub struct Segment {}

impl Segment {
    /// Encodes `array` as one segment, choosing the encoding by size and decode cost unless `forced`.
    /// Strings are encoded as codes of `dictionary` where one is given (it must hold every value).
    pub fn encode(_array: &ArrayRef, _dictionary: Option<&Arc<Dictionary>>, _forced: Option<Encoding>) -> Result<Self> {
        todo!()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        todo!()
    }

    /// Min, max, nulls, distinct estimate and sizes.
    pub fn stats(&self) -> &ColumnStats {
        todo!()
    }

    /// The encoding of the values.
    pub fn encoding(&self) -> Encoding {
        todo!()
    }

    /// Validity of rows `start .. start + len`, or `None` where the whole segment has no nulls.
    pub fn validity(&self, _start: usize, _len: usize) -> Option<Bitmap> {
        todo!()
    }

    /// Decodes integer-like values as `i32`.
    pub fn decode_i32(&self, _start: usize, _out: &mut [i32]) {
        todo!()
    }

    /// Decodes integer-like values as `i64`.
    pub fn decode_i64(&self, _start: usize, _out: &mut [i64]) {
        todo!()
    }

    /// Decodes integer-like values as `i128`.
    pub fn decode_i128(&self, _start: usize, _out: &mut [i128]) {
        todo!()
    }

    /// Decodes dictionary codes.
    pub fn decode_codes(&self, _start: usize, _out: &mut [u32]) {
        todo!()
    }

    /// Decodes `Float32` values.
    pub fn decode_f32(&self, _start: usize, _out: &mut [f32]) {
        todo!()
    }

    /// Decodes `Float64` values.
    pub fn decode_f64(&self, _start: usize, _out: &mut [f64]) {
        todo!()
    }

    /// Decodes booleans.
    pub fn decode_bool(&self, _start: usize, _out: &mut [bool]) {
        todo!()
    }

    /// Views of plain strings; they point into this segment, which must outlive them.
    pub fn decode_str(&self, _start: usize, _out: &mut [StrView]) {
        todo!()
    }

    /// Random access: `out[i]` = the value of row `rows[i]` (any rows of the segment).
    pub fn gather_i32(&self, _rows: &[u32], _out: &mut [i32]) {
        todo!()
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_i64(&self, _rows: &[u32], _out: &mut [i64]) {
        todo!()
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_codes(&self, _rows: &[u32], _out: &mut [u32]) {
        todo!()
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_str(&self, _rows: &[u32], _out: &mut [StrView]) {
        todo!()
    }

    /// Appends to `out` every row `r` of `start .. start + len`, as `r - start`, whose value is in `lo ..= hi` (unscaled
    /// integers or codes), comparing packed values without adding the reference. Nulls are NOT excluded: the caller
    /// intersects with [`Segment::validity`].
    pub fn select_range(&self, _start: usize, _len: usize, _lo: i128, _hi: i128, _out: &mut Vec<u32>) {
        todo!()
    }
}
