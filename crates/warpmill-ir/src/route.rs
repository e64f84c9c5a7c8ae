//! The parts that rows are divided into.

/// The part that a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// By the hash of some columns, none of them floats; NULLs equal each other.
    Hash {
        /// The columns.
        columns: Vec<usize>,
    },
    /// By the range that contains a non-NULL integer.
    Ranges {
        /// Index of the column.
        column: usize,
        /// The greatest value of each part but the last, in ascending order.
        last: Vec<i64>,
    },
    /// All rows in the first part.
    First,
}
