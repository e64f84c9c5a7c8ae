//! Pieces of a kernel's input.

use crate::data::items::Descriptors;
use crate::data::segments::DESCRIPTOR;

/// The input of a launch.
#[derive(Clone, Copy)]
pub(super) enum Piece {
    /// Spans of row segments with this number of columns.
    Segments(Descriptors, u64),
    /// A half-open range of rows in device memory.
    Rows(u64, u64),
}

impl Piece {
    /// Splits the piece in halves, if it has more than one span or 32 rows.
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
