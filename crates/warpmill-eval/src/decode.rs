//! Segments to vectors.

use warpmill_format::Segment;
use warpmill_ir::Phys;

use crate::vector::{Data, Vector};

/// Decodes rows `start .. start + rows` of `segment` (`start` a multiple of 1024) to representation `phys`. Strings are views into the segment, or
/// into `text`, if it [decodes strings](Segment::decodes_strings).
pub fn run(segment: &Segment, start: usize, rows: usize, phys: Phys, text: &mut Vec<u8>) -> Vector {
    let mut data = Data::zeros(phys, rows);
    match &mut data {
        Data::Bool(out) => segment.decode_bool(start, out),
        Data::I32(out) => segment.decode_i32(start, out),
        Data::I64(out) => segment.decode_i64(start, out),
        Data::I128(out) => segment.decode_i128(start, out),
        Data::F32(out) => segment.decode_f32(start, out),
        Data::F64(out) => segment.decode_f64(start, out),
        Data::Str(out) => segment.decode_str(start, text, out),
        Data::Code(out) => segment.decode_codes(start, out),
    }
    Vector::with_validity(data, segment.validity(start, rows))
}

/// Rows `start + rows[i]` of `segment`, extracted one by one; strings as in [`run`].
pub fn rows(segment: &Segment, start: usize, rows: &[u32], phys: Phys, text: &mut Vec<u8>) -> Vector {
    let at: Vec<u32> = rows.iter().map(|row| row + start as u32).collect();
    let mut data = Data::zeros(phys, rows.len());
    match &mut data {
        Data::Bool(out) => segment.gather_bool(&at, out),
        Data::I32(out) => segment.gather_i32(&at, out),
        Data::I64(out) => segment.gather_i64(&at, out),
        Data::I128(out) => segment.gather_i128(&at, out),
        Data::F32(out) => segment.gather_f32(&at, out),
        Data::F64(out) => segment.gather_f64(&at, out),
        Data::Str(out) => segment.gather_str(&at, text, out),
        Data::Code(out) => segment.gather_codes(&at, out),
    }
    Vector::with_validity(data, segment.gather_validity(&at))
}
