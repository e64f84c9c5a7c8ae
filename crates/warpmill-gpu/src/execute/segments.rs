//! Row segments as kernels see them: which ones a scan has to read, and descriptors of their bytes in device memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_cpu::ExecError;
use warpmill_cpu::expr::PreparedExpr;
use warpmill_format::{Segment, ValueLayout};
use warpmill_plan::pruning::PruningReport;
use warpmill_plan::{Scan, Unsupported};

use crate::codegen::program::ScanSegments;
use crate::codegen::scan::ColumnShape;
use crate::device::DevicePtr;

use super::items::{remap_key, segment_key};
use super::memory::Key;
use super::{Failure, Result};

/// Bytes of a `SegmentColumn` (kernels/scan.cuh).
pub const DESCRIPTOR: usize = 104;

const KIND_CONSTANT: u32 = 0;
const KIND_SIGNED: u32 = 1;
const KIND_UNSIGNED: u32 = 2;
const KIND_LANE: u32 = 3;

/// The segments of a scan, opened, in encodings that kernels read.
pub struct OpenScan {
    /// Row segments and shapes, for code generation.
    pub segments: ScanSegments,
    /// Per row segment (as in `segments`), each column.
    pub columns: Vec<Vec<Arc<Segment>>>,
    /// What metadata ruled out: whole row segments are left out.
    pub pruning: PruningReport,
}

/// Opens the segments of `scan` that metadata does not rule out. `recoded` keeps segments whose encoding kernels do not
/// read directly, in one that they do.
pub fn open(scan: &Scan, recoded: &Recoded) -> Result<OpenScan> {
    let table = &scan.table;
    let filters = scan.filters.iter().map(PreparedExpr::new).collect::<Result<Vec<_>, _>>()?;
    let selected = warpmill_cpu::scan::select(scan, &filters.iter().collect::<Vec<_>>(), &[])?;
    let segments = selected.segments();
    let columns: Vec<Vec<Arc<Segment>>> = segments
        .par_iter()
        .map(|&segment| {
            let columns = scan
                .columns
                .iter()
                .map(|&column| recoded.readable(table.segment(segment, column).map_err(ExecError::from)?));
            columns.collect::<Result<Vec<_>>>()
        })
        .collect::<Result<_>>()?;
    let shapes = columns
        .iter()
        .map(|row| {
            let shape = |(segment, field): (&Arc<Segment>, &warpmill_plan::Field)| {
                let layout =
                    segment.layout().ok_or_else(|| Unsupported::new(&field.name, "an encoding without layout"))?;
                let nullable = layout.validity.is_some();
                Ok(ColumnShape::of_segment(&layout.values, segment.remap().is_some(), field.ty.phys, nullable))
            };
            row.iter().zip(&scan.fields).map(shape).collect::<Result<Vec<_>, Unsupported>>()
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(OpenScan { segments: ScanSegments { segments, shapes }, columns, pruning: selected.report })
}

/// Segments in another encoding, by the address of the segment they were made from, which is kept beside each.
#[derive(Debug, Default)]
pub struct Recoded(Mutex<HashMap<usize, Pair>>);

type Pair = (Arc<Segment>, Arc<Segment>);

impl Recoded {
    /// `segment`, or the same rows in an encoding that kernels read.
    fn readable(&self, segment: Arc<Segment>) -> Result<Arc<Segment>> {
        if segment.layout().is_some() {
            return Ok(segment);
        }
        let key = Arc::as_ptr(&segment) as usize;
        if let Some((_, recoded)) = self.0.lock().get(&key) {
            return Ok(recoded.clone());
        }
        let recoded = Arc::new(segment.to_lane_for().map_err(ExecError::from)?);
        self.0.lock().insert(key, (segment, recoded.clone()));
        Ok(recoded)
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Appends the `SegmentColumn` of a segment that is in device memory at one of `places`.
pub fn describe(segment: &Arc<Segment>, places: &HashMap<Key, DevicePtr>, out: &mut Vec<u8>) -> Result<()> {
    let missing = || Failure::Unsupported(Unsupported::new("segment", "not in device memory"));
    let place = |key: Key| places.get(&key).copied().ok_or_else(missing);
    let base = place(segment_key(segment))?;
    let layout = segment.layout().ok_or_else(missing)?;
    let at = |offset: usize| base + offset as u64;
    let (mut data, mut more, mut references, mut patches) = (0u64, [0u64; 3], 0u64, [0u64; 3]);
    let (mut reference, kind, width) = (0i128, KIND_LANE, 0u32);
    let (kind, width) = match layout.values {
        ValueLayout::Constant(value) => {
            reference = value;
            (KIND_CONSTANT, width)
        }
        ValueLayout::Plain { bytes, signed, offset } => {
            data = at(offset);
            (if signed { KIND_SIGNED } else { KIND_UNSIGNED }, bytes as u32)
        }
        ValueLayout::Strings { offsets, bytes } => {
            (data, more[0]) = (at(offsets), at(bytes));
            (KIND_SIGNED, 0)
        }
        ValueLayout::LaneFor(lane) => {
            reference = lane.reference;
            references = lane.references.map_or(0, at);
            if let Some(offsets) = lane.patches {
                patches = offsets.map(at);
            }
            for (i, &limb) in lane.limbs.iter().enumerate() {
                *(if i == 0 { &mut data } else { &mut more[i - 1] }) = at(limb);
            }
            (kind, lane.width)
        }
    };
    let valid = layout.validity.map_or(0, at);
    let remap = if segment.remap().is_some() { place(remap_key(segment))? } else { 0 };
    let words = [data, more[0], more[1], more[2], valid, references, patches[0], patches[1], patches[2], remap];
    let start = out.len();
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.extend_from_slice(&reference.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&width.to_le_bytes());
    debug_assert_eq!(out.len() - start, DESCRIPTOR);
    Ok(())
}
