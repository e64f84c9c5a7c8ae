//! Encodings of scans, as far as generated code depends on them.

use warpmill_format::{LaneLayout, ValueLayout};
use warpmill_ir::Phys;

/// The encoding of a column, common to the segments that one launch reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnShape {
    /// Lane-packed offsets of the same width (at most 32 bits) in all segments, without patches or remapped codes.
    Lane {
        /// Bits of an offset.
        width: u32,
        /// The representation of values.
        phys: Phys,
        /// Whether there are NULLs.
        nullable: bool,
        /// Whether each vector has its own reference.
        local: bool,
    },
    /// Any encoding, looked up per row.
    Any {
        /// The representation of values.
        phys: Phys,
        /// Whether there are NULLs.
        nullable: bool,
    },
}

impl ColumnShape {
    /// The shape of a single segment.
    pub fn of_segment(values: &ValueLayout, remapped: bool, phys: Phys, nullable: bool) -> Self {
        match values {
            ValueLayout::LaneFor(LaneLayout { width, patches: None, references, .. })
                if *width <= 32 && !remapped && matches!(phys, Phys::I32 | Phys::I64 | Phys::Code | Phys::Bool) =>
            {
                ColumnShape::Lane { width: *width, phys, nullable, local: references.is_some() }
            }
            _ => ColumnShape::Any { phys, nullable },
        }
    }

    /// The most specific shape that covers both shapes of a column.
    pub fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        if self.with_references() == other.with_references() {
            return self.with_references();
        }
        ColumnShape::Any { phys: self.phys(), nullable: self.nullable() || other.nullable() }
    }

    /// The same shape with a reference per vector.
    pub fn with_references(self) -> Self {
        match self {
            ColumnShape::Lane { width, phys, nullable, .. } => ColumnShape::Lane { width, phys, nullable, local: true },
            other => other,
        }
    }

    /// Whether each vector has its own reference.
    pub fn has_references(self) -> bool {
        matches!(self, ColumnShape::Lane { local: true, .. })
    }

    pub(crate) fn phys(self) -> Phys {
        match self {
            ColumnShape::Lane { phys, .. } | ColumnShape::Any { phys, .. } => phys,
        }
    }

    pub(crate) fn nullable(self) -> bool {
        match self {
            ColumnShape::Lane { nullable, .. } | ColumnShape::Any { nullable, .. } => nullable,
        }
    }
}

/// The row segments of a scan that statistics do not rule out, with the encoding of each column.
pub struct ScanSegments {
    /// The row segments.
    pub segments: Vec<usize>,
    /// Per row segment, the shape of each of the scan's columns.
    pub shapes: Vec<Vec<ColumnShape>>,
}

/// Row segments of the same shape, which one kernel reads.
#[derive(Debug)]
pub struct Alike {
    /// The shape of each of the scan's columns.
    pub shapes: Vec<ColumnShape>,
    /// The row segments.
    pub segments: Vec<usize>,
}

impl ScanSegments {
    /// Groups the row segments by shape: the most common one gets its own kernel, all others share a kernel that looks encodings up.
    pub fn alike(&self) -> Vec<Alike> {
        let mut groups: Vec<(Vec<ColumnShape>, Vec<usize>)> = vec![];
        for (segment, shapes) in self.segments.iter().zip(&self.shapes) {
            match groups.iter_mut().find(|(other, _)| other == shapes) {
                Some((_, segments)) => segments.push(*segment),
                None => groups.push((shapes.clone(), vec![*segment])),
            }
        }
        let columns = groups.first().map_or(0, |(shapes, _)| shapes.len());
        for column in 0..columns {
            // One kernel serves segments with and without references per vector.
            if groups.iter().any(|(shapes, _)| shapes[column].has_references()) {
                groups.iter_mut().for_each(|(shapes, _)| shapes[column] = shapes[column].with_references());
            }
        }
        let mut merged: Vec<(Vec<ColumnShape>, Vec<usize>)> = vec![];
        for (shapes, segments) in groups {
            match merged.iter_mut().find(|(other, _)| *other == shapes) {
                Some((_, others)) => others.extend(segments),
                None => merged.push((shapes, segments)),
            }
        }
        let mut groups = merged;
        groups.sort_by_key(|(_, segments)| std::cmp::Reverse(segments.len()));
        const SPECIALIZED: usize = 1;
        if groups.len() > SPECIALIZED + 1 {
            let rest = groups.split_off(SPECIALIZED);
            let mut shapes = rest[0].0.clone();
            for (other, _) in &rest[1..] {
                shapes.iter_mut().zip(other).for_each(|(shape, other)| *shape = shape.or(*other));
            }
            let mut segments: Vec<usize> = rest.into_iter().flat_map(|(_, segments)| segments).collect();
            segments.sort_unstable();
            groups.push((shapes, segments));
        }
        groups.into_iter().map(|(shapes, segments)| Alike { shapes, segments }).collect()
    }
}
