//! The chunks that travel in a slot.

use std::sync::Arc;

use super::chunks::Chunk;
use super::row_segment::RowSegment;
use crate::device::DevicePtr;
use crate::memory::regions::KeyMap;

/// The place where what travels of a chunk goes in its slot.
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) chunk: Arc<Chunk>,
}

/// The place where chunks are that need not travel, by what they travel as.
pub type Found = KeyMap<DevicePtr>;

pub(crate) fn chunks<'a>(rows: &'a [RowSegment<'_>]) -> impl Iterator<Item = &'a Arc<Chunk>> {
    rows.iter().flat_map(|row| row.columns.iter())
}
