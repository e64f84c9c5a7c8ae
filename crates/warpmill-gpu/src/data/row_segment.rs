//! Row segments as kernels read them.

use std::sync::Arc;

use super::chunks::Chunk;
use super::spans::Span;

/// A row segment as a kernel reads it.
#[derive(Clone, Copy)]
pub struct RowSegment<'a> {
    /// Its number in the table.
    pub number: usize,
    /// The columns that are read.
    pub columns: &'a [Arc<Chunk>],
    /// The spans that are read.
    pub spans: &'a [Span],
}
