//! The segments of row segments while they are scanned.
//!
//! Segments as they are in the file are mapped, and cost nothing to hold. Those with a codec are decompressed, and those of files that
//! are read are read, when the first worker needs them (workers that come meanwhile help, or wait), counted in the query's memory, and dropped with the last morsel of
//! their row segment. A column is opened when rows reach it: what all filters before it reject is never decompressed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use warpmill_format::{Segment, TableSnapshot};

use crate::context::{QueryContext, Result, Share};

/// A row segment that is scanned.
#[derive(Debug)]
pub struct RowSegment {
    /// Its number.
    pub segment: usize,
    /// Morsels that are not done.
    left: AtomicUsize,
    /// Per column of the scan.
    columns: Mutex<Vec<Held>>,
}

/// A segment that was decompressed or read, or the room for it.
#[derive(Debug, Clone, Default)]
struct Held {
    segment: Option<Arc<Segment>>,
    room: Option<Arc<Room>>,
}

/// Memory of such a segment, counted until dropped.
#[derive(Debug)]
struct Room {
    query: Arc<QueryContext>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.query.release_share(Share::Segments, self.bytes);
    }
}

impl RowSegment {
    /// Row segment `segment`, which is scanned in `morsels` morsels.
    pub fn new(segment: usize, morsels: usize) -> Self {
        Self { segment, left: AtomicUsize::new(morsels), columns: Mutex::default() }
    }

    /// Column `columns[index]` of the table.
    ///
    /// # Errors
    /// Damaged files; no memory for the segment.
    pub fn open(
        &self,
        table: &TableSnapshot,
        columns: &[usize],
        index: usize,
        query: &Arc<QueryContext>,
    ) -> Result<Arc<Segment>> {
        let bytes = table.segment_memory(self.segment, columns[index]);
        if bytes == 0 {
            return Ok(table.segment(self.segment, columns[index])?);
        }
        {
            let mut held = self.columns.lock();
            held.resize(columns.len(), Held::default());
            let held = &mut held[index];
            if let Some(segment) = &held.segment {
                return Ok(segment.clone());
            }
            if held.room.is_none() {
                query.reserve_share(Share::Segments, "Scan (decompressed segments)", bytes as usize)?;
                held.room = Some(Arc::new(Room { query: query.clone(), bytes: bytes as usize }));
            }
        }
        let segment = table.segment(self.segment, columns[index])?;
        self.columns.lock()[index].segment = Some(segment.clone());
        Ok(segment)
    }

    /// Morsels that are not done.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Notes that a morsel is done; the last one drops what is held.
    pub fn morsel_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.columns.lock().clear();
        }
    }
}
