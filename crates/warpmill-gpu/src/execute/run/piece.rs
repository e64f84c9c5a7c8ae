//! Parts of sinks, and pieces of what a kernel goes through.

use crate::codegen::layout::Partition;
use crate::execute::items::Descriptors;
use crate::execute::segments::DESCRIPTOR;

/// Values of keys: a part of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execute) struct Range {
    pub(super) from: u64,
    pub(super) size: u64,
    /// The number of times that it was cut out of a larger one.
    pub(super) cuts: u32,
}

impl Range {
    /// The least value, and how many there are.
    pub(in crate::execute) fn values(&self) -> (u64, u64) {
        (self.from, self.size)
    }
}

/// The parts of a sink that are expected to be small enough.
pub(in crate::execute) fn expected(partition: &Partition) -> Vec<Range> {
    let size = partition.total.div_ceil(partition.parts).clamp(1, partition.most);
    let starts = (0..partition.total.div_ceil(size)).map(|number| number * size);
    starts.map(|from| Range { from, size: size.min(partition.total - from), cuts: 0 }).collect()
}

/// The work of a launch.
#[derive(Clone, Copy)]
pub(super) enum Piece {
    /// Spans of row segments of so many columns.
    Segments(Descriptors, u64),
    /// Rows in device memory: the first, and the first one behind them.
    Rows(u64, u64),
}

impl Piece {
    /// Both halves, where there is more than one row or span.
    pub(super) fn halves(self) -> Option<[Piece; 2]> {
        match self {
            Piece::Segments(all, columns) if all.count > 1 => {
                let count = all.count / 2;
                let first = Descriptors { count, vectors: all.vectors / 2, bytes: all.bytes / 2, ..all };
                let second = Descriptors {
                    columns: all.columns + count * columns * DESCRIPTOR as u64,
                    rows: all.rows + 4 * count,
                    count: all.count - count,
                    span_bits: all.span_bits,
                    vectors: all.vectors - first.vectors,
                    bytes: all.bytes - first.bytes,
                };
                Some([Piece::Segments(first, columns), Piece::Segments(second, columns)])
            }
            Piece::Rows(from, to) if to - from > 32 => {
                let middle = (from + (to - from) / 2).next_multiple_of(32);
                Some([Piece::Rows(from, middle), Piece::Rows(middle, to)])
            }
            _ => None,
        }
    }
}
