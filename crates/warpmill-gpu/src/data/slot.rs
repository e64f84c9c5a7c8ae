//! Chunks in a slot.

use std::sync::Arc;

use super::chunks::Chunk;
use super::row_segment::RowSegment;
use crate::device::DevicePtr;
use crate::memory::regions::KeyMap;

/// The offset of a chunk's copied bytes in its slot.
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) chunk: Arc<Chunk>,
}

/// Addresses of chunks that are in device memory already, by `Chunk::travels_as`.
pub type Found = KeyMap<DevicePtr>;

pub(crate) fn chunks<'a>(rows: &'a [RowSegment<'_>]) -> impl Iterator<Item = &'a Arc<Chunk>> {
    rows.iter().flat_map(|row| row.columns.iter())
}
