//! Positions of the parts of a segment in its bytes, for devices that decode a copy of it.

use super::bytes::View;
use super::{Encoding, Segment, Values};
use crate::encoding::column::Integers;

/// Byte offsets into [`Segment::as_bytes`] of everything a kernel reads.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentLayout {
    /// A bit per row (u64 words); `None`: no NULLs.
    pub validity: Option<usize>,
    /// The values.
    pub values: ValueLayout,
}

/// Information that a device needs to decode a segment that it gets compressed.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentParts {
    /// Positions of its parts; `None` as for [`Segment::layout`].
    pub layout: Option<SegmentLayout>,
    /// Whether values are codes of the column's dictionary.
    pub dictionary: bool,
    /// New code by the segment's code, if the dictionary has grown since.
    pub remap: Option<std::sync::Arc<[u32]>>,
}

impl SegmentParts {
    /// The parts of `segment`.
    pub fn of(segment: &Segment) -> Self {
        Self { layout: segment.layout(), dictionary: segment.is_dictionary(), remap: segment.remap().cloned() }
    }
}

/// Positions of values by encoding; the stored form is specified in docs/format.md.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueLayout {
    /// The value of all valid rows.
    Constant(i128),
    /// Integers, codes or floats of `bytes` bytes each.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Plain { bytes: usize, signed: bool, offset: usize },
    /// Offsets (u32, rows + 1) and bytes of strings.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Strings { offsets: usize, bytes: usize },
    /// Strings where they are, 16 bytes each: an address in device memory and a length (u32). Made on a device.
    #[allow(missing_docs, reason = "fields are named after their role")]
    Views { offset: usize },
    /// Lane-packed frame of reference.
    LaneFor(LaneLayout),
    /// Lane-packed deltas: a vector is decoded as a whole.
    Delta(DeltaLayout),
    /// Runs: a vector is decoded as a whole.
    Runs(RunsLayout),
}

impl ValueLayout {
    /// Whether single rows can be read.
    pub fn has_single_rows(&self) -> bool {
        !matches!(self, ValueLayout::Delta(_) | ValueLayout::Runs(_))
    }
}

/// Positions of the parts of lane-packed deltas.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaLayout {
    /// The smallest delta, from which every field counts.
    pub step: i64,
    /// Number of bits of a field.
    pub width: u32,
    /// Bytes of a lane's base: 1, 2, 4 or 8.
    pub base_bytes: usize,
    /// A reference per vector (i128).
    pub references: usize,
    /// 32 bases per vector.
    pub bases: usize,
    /// Packed vectors in blocked order.
    pub words: usize,
}

/// Positions of the parts of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsLayout {
    /// Index of the first run of each vector, and the total number (u32).
    pub starts: usize,
    /// The last row of each run in its vector.
    pub ends: LaneLayout,
    /// The value of each run.
    pub values: LaneLayout,
}

/// Positions of the parts of a lane-packed frame of reference.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneLayout {
    /// Added to every offset, unless there is one reference per vector.
    pub reference: i128,
    /// Number of bits of an offset.
    pub width: u32,
    /// Positions of the packed vectors of each 32 bits of the offset, least significant first.
    pub limbs: Vec<usize>,
    /// A reference per vector (i128).
    pub references: Option<usize>,
    /// Patch starts (u32 per vector + 1), rows (u16), values (i128).
    pub patches: Option<[usize; 3]>,
}

impl Segment {
    /// Positions of the values in [`Segment::as_bytes`]; `None` for the published encodings, which exist for comparison, and for symbols
    /// ([`Segment::to_direct`] converts both to an encoding with a layout), and for nested values.
    pub fn layout(&self) -> Option<SegmentLayout> {
        let validity = self.validity.as_ref().map(|view| self.offset(view));
        let values = match &self.values {
            Values::Integers(integers) | Values::Codes(integers) => self.integer_layout(integers)?,
            Values::F32(values) => ValueLayout::Plain { bytes: 4, signed: true, offset: self.offset(values) },
            Values::F64(values) => ValueLayout::Plain { bytes: 8, signed: true, offset: self.offset(values) },
            Values::Symbols(_) | Values::Nested(_) => return None,
            Values::Strings(strings) => {
                let (offsets, bytes) = strings.sections();
                ValueLayout::Strings { offsets: self.offset(offsets), bytes: self.offset(bytes) }
            }
        };
        Some(SegmentLayout { validity, values })
    }

    fn integer_layout(&self, integers: &Integers) -> Option<ValueLayout> {
        Some(match integers {
            Integers::Constant(value) => ValueLayout::Constant(*value),
            Integers::Plain(values) => {
                let (bytes, signed, start) = values.raw();
                ValueLayout::Plain { bytes, signed, offset: start as usize - self.bytes.as_ptr() as usize }
            }
            Integers::LaneFor(values) => ValueLayout::LaneFor(values.layout(self.bytes.as_ptr())),
            Integers::LaneDelta(values) => ValueLayout::Delta(values.layout(self.bytes.as_ptr())),
            Integers::LaneRle(values) => ValueLayout::Runs(values.layout(self.bytes.as_ptr())),
            Integers::Gpu(_) => return None,
        })
    }

    fn offset<T>(&self, view: &View<T>) -> usize {
        view.as_ptr() as usize - self.bytes.as_ptr() as usize
    }

    /// The exclusive limit of all codes that follows from their storage; `None` if there is none.
    pub(crate) fn code_limit(&self) -> Option<u64> {
        match self.layout()?.values {
            ValueLayout::Constant(value) => u64::try_from(value).ok()?.checked_add(1),
            ValueLayout::Plain { bytes: bytes @ 1..=4, signed: false, .. } => Some(1 << (8 * bytes)),
            ValueLayout::LaneFor(lane) if lane.width <= 32 && lane.references.is_none() && lane.patches.is_none() => {
                u64::try_from(lane.reference).ok()?.checked_add(1 << lane.width)
            }
            _ => None,
        }
    }

    /// New code by old code, if the column's dictionary has grown since the segment was written.
    pub fn remap(&self) -> Option<&std::sync::Arc<[u32]>> {
        self.remap.as_ref()
    }

    /// The same rows in an encoding with a layout and with random access.
    ///
    /// # Errors
    /// The errors of [`Segment::to_lane_for`].
    pub fn to_direct(&self) -> crate::Result<Segment> {
        match &self.values {
            Values::Symbols(strings) => super::encode::to_plain_strings(self, strings),
            _ => self.to_lane_for(),
        }
    }

    /// The same rows encoded as [`Encoding::LaneFor`]. Codes are not translated: the result has the same remap.
    ///
    /// # Errors
    /// Values that are not integers or codes.
    pub fn to_lane_for(&self) -> crate::Result<Segment> {
        self.recoded(Encoding::LaneFor)
    }

    /// The same rows as plain strings, or plain integers of the fewest bytes that fit them all: the best input for codecs if values or sequences of
    /// them repeat.
    ///
    /// # Errors
    /// The errors of [`Segment::to_lane_for`].
    pub fn to_plain(&self) -> crate::Result<Segment> {
        match &self.values {
            Values::Symbols(strings) => super::encode::to_plain_strings(self, strings),
            _ => self.recoded(Encoding::Plain),
        }
    }

    fn recoded(&self, encoding: Encoding) -> crate::Result<Segment> {
        let integers = match &self.values {
            Values::Integers(integers) | Values::Codes(integers) => integers,
            _ => return Err(crate::FormatError::Schema { column: String::new(), detail: "not integers".into() }),
        };
        let mut values = vec![0u128; self.rows];
        integers.decode(0, &mut values);
        let codes = matches!(self.values, Values::Codes(_));
        let recoded = super::encode::recode(self, values, codes, encoding)?;
        Ok(Segment { remap: self.remap.clone(), stats: self.stats.clone(), ..recoded })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn column() -> ArrayRef {
        Arc::new(Int64Array::from_iter((0..5000).map(|i| (i % 7 != 3).then_some(i / 4 * 4 - 999))))
    }

    #[test]
    fn a_segment_in_lane_for_holds_the_same_rows() {
        for encoding in [Encoding::LaneDelta, Encoding::LaneRle, Encoding::GpuFor, Encoding::GpuDfor, Encoding::GpuRfor]
        {
            let segment = Segment::encode(&column(), None, Some(encoding)).unwrap();
            assert!(segment.layout().is_none_or(|layout| !layout.values.has_single_rows()), "{encoding:?}");
            let lane = segment.to_lane_for().unwrap();
            assert_eq!(lane.encoding(), Encoding::LaneFor);
            let plain = segment.to_plain().unwrap();
            // -999 to 250 or so: two bytes each.
            let layout = plain.layout().unwrap().values;
            assert!(matches!(layout, ValueLayout::Plain { bytes: 2, signed: true, .. }), "{layout:?}");
            let (mut a, mut b) = (vec![0i64; 5000], vec![0i64; 5000]);
            segment.decode_i64(0, &mut a);
            let valid = segment.validity(0, 5000).unwrap();
            for other in [lane, plain] {
                other.decode_i64(0, &mut b);
                assert_eq!(other.validity(0, 5000).unwrap().words(), valid.words());
                assert!((0..5000).all(|i| !valid.get(i) || a[i] == b[i]), "{encoding:?}");
            }
        }
    }

    #[test]
    fn the_layout_finds_the_parameters() {
        let segment = Segment::encode(&column(), None, Some(Encoding::LaneFor)).unwrap();
        let layout = segment.layout().unwrap();
        let ValueLayout::LaneFor(lane) = layout.values else { panic!("{layout:?}") };
        assert!(lane.limbs.iter().all(|offset| offset % 64 == 0));
        assert!(layout.validity.is_some_and(|offset| offset % 64 == 0));
        let words = &segment.as_bytes()[lane.limbs[0]..];
        // Row 0 is valid and has the smallest value: its offset from the reference is in the lowest bits of the first word.
        let field = u32::from_le_bytes(words[..4].try_into().unwrap()) & ((1 << lane.width) - 1);
        assert_eq!(lane.reference + i128::from(field), -999);
    }
}
