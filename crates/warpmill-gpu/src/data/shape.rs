//! The encodings of scans, as far as generated code depends on them.

use warpmill_format::{LaneLayout, ValueLayout};
use warpmill_ir::Phys;

/// The way the segments of a column that one launch reads are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnShape {
    /// Lane-packed offsets of one width (at most 32 bits) in all segments, without patches or translated codes.
    Lane {
        /// Bits.
        width: u32,
        /// The way values are held.
        phys: Phys,
        /// Whether there are NULLs.
        nullable: bool,
        /// Whether vectors have references of their own.
        local: bool,
    },
    /// Any encoding: looked up per row.
    Any {
        /// The way values are held.
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

    /// A shape for segments of this shape and of another of the same column.
    pub fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        if self.with_references() == other.with_references() {
            return self.with_references();
        }
        ColumnShape::Any { phys: self.phys(), nullable: self.nullable() || other.nullable() }
    }

    /// The same, where vectors may have references of their own.
    pub fn with_references(self) -> Self {
        match self {
            ColumnShape::Lane { width, phys, nullable, .. } => ColumnShape::Lane { width, phys, nullable, local: true },
            other => other,
        }
    }

    /// Whether vectors have references of their own.
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

/// The knowledge that lowering has of a scan: for every row segment that statistics do not rule out, how each column is encoded.
pub struct ScanSegments {
    /// The row segments.
    pub segments: Vec<usize>,
    /// Per row segment, the shape of each of the scan's columns.
    pub shapes: Vec<Vec<ColumnShape>>,
}

/// Row segments that are encoded alike: one kernel reads them.
#[derive(Debug)]
pub struct Alike {
    /// The shape of each of the scan's columns.
    pub shapes: Vec<ColumnShape>,
    /// The row segments.
    pub segments: Vec<usize>,
}

impl ScanSegments {
    /// The row segments grouped by how they are encoded: the most common shapes get a kernel of their own, all others share one
    /// that looks encodings up.
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
