//! The parts that rows are divided into.

/// The part that a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// By the hash of the values of some columns, none of them floats; NULLs equal each other.
    Hash {
        /// The columns.
        columns: Vec<usize>,
    },
    /// By the range that holds an integer without NULLs.
    Ranges {
        /// Its column.
        column: usize,
        /// The greatest value of each part but the last, in ascending order.
        last: Vec<i64>,
    },
    /// The first part, all of them.
    First,
}
