//! Segments of regular values, laid out without a look at each value: numbers of rows, a constant, and marks.

use arrow::datatypes::DataType;

use super::encode::finish;
use super::read::Kind;
use super::{Encoding, Segment};
use crate::encoding::{lane_delta, lane_for};
use crate::segment::bytes::SectionWriter;
use crate::{Bitmap, ColumnStats, Result, StatValue};

/// Statistics of `rows` integers from `least` to `greatest`.
fn stats_of(rows: usize, (least, greatest): (i64, i64), distinct: u64, plain_bytes: u64) -> ColumnStats {
    let bound = |value: i64| (rows > 0).then(|| StatValue::Int(value.into()));
    let (min, max) = (bound(least), bound(greatest));
    ColumnStats { rows: rows as u64, min, max, distinct: Some(distinct), plain_bytes, ..ColumnStats::default() }
}

impl Segment {
    /// The segment of `rows` consecutive numbers (Int64) from `first` on.
    pub(crate) fn numbers(first: i64, rows: usize) -> Result<Self> {
        let mut out = SectionWriter::default();
        lane_delta::LaneDelta::write_numbers(first, rows, &mut out);
        let stats = stats_of(rows, (first, first + rows as i64 - 1), rows as u64, 8 * rows as u64);
        finish((Kind::Integers, Encoding::LaneDelta), rows, None, &stats, out, &DataType::Int64)
    }

    /// The segment of the bits of `marks` (Boolean), of which most are set: few others are patches.
    pub(crate) fn marks(marks: &Bitmap) -> Result<Self> {
        let (rows, mut out) = (marks.len(), SectionWriter::default());
        let set = marks.count_ones();
        let encoding = if set == rows {
            out.push(&[1i128]);
            Encoding::Constant
        } else {
            lane_for::LaneFor::write_marks(marks, rows - set, &mut out);
            Encoding::LaneFor
        };
        let bounds = (i64::from(set == rows), i64::from(set > 0));
        let distinct = if set == 0 || set == rows { 1 } else { 2 };
        let stats = stats_of(rows, bounds, distinct, rows.div_ceil(8) as u64);
        finish((Kind::Integers, encoding), rows, None, &stats, out, &DataType::Boolean)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Int64Array};

    use super::*;

    #[test]
    fn numbers_are_encoded_as_an_array_of_them() {
        for (first, rows) in [(0, 1), (5, 2), (1 << 40, 31), (0, 33), (7, 1023), (0, 1024), (99, 1025), (3, 70_000)] {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
            let (made, encoded) = (
                Segment::numbers(first, rows).unwrap(),
                Segment::encode(&numbers, None, Some(Encoding::LaneDelta)).unwrap(),
            );
            let mut out = vec![0i64; rows];
            for start in (0..rows).step_by(crate::VECTOR_ROWS) {
                let end = rows.min(start + crate::VECTOR_ROWS);
                made.decode_i64(start, &mut out[start..end]);
            }
            assert!(out.iter().copied().eq(first..first + rows as i64), "{rows} from {first}");
            let rows_of = |segment: &Segment| (segment.stats().clone(), segment.encoding(), segment.rows());
            assert_eq!(rows_of(&made), rows_of(&encoded));
            if rows > 1024 {
                assert!(made.as_bytes()[..] == encoded.as_bytes()[..]);
            }
        }
    }

    #[test]
    fn marks_are_encoded_as_an_array_of_them() {
        let patterns: [fn(usize) -> bool; 6] = [
            |_| true,
            |_| false,
            |row| row != 0,
            |row| row % 3 == 0,
            |row| row != 1024 && row < 2000,
            |row| row % 997 != 5,
        ];
        for (rows, kept) in [1, 64, 1000, 1024, 1025, 5000, 70_000].into_iter().flat_map(|n| patterns.map(|f| (n, f))) {
            let marks = Bitmap::from_fn(rows, kept);
            let array: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(kept(row)))));
            let (made, encoded) = (Segment::marks(&marks).unwrap(), Segment::encode(&array, None, None).unwrap());
            let mut out = vec![false; rows];
            for start in (0..rows).step_by(crate::VECTOR_ROWS) {
                let end = rows.min(start + crate::VECTOR_ROWS);
                made.decode_bool(start, &mut out[start..end]);
            }
            assert!(out.iter().copied().eq((0..rows).map(kept)), "{rows} rows");
            let stats = |segment: &Segment| ColumnStats { stored_bytes: 0, ..segment.stats().clone() };
            assert_eq!(stats(&made), stats(&encoded), "{rows} rows");
        }
        // As few as are patches, and the next number.
        for count in [4095, 4096, 4097] {
            let marks = Bitmap::from_fn(1 << 20, |row| row % 256 != 7 || row / 256 >= count);
            let made = Segment::marks(&marks).unwrap();
            assert_eq!(made.as_bytes().len() < 100_000, count < 4096, "{} bytes", made.as_bytes().len());
        }
    }
}
