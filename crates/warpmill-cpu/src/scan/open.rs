//! Segments of row segments during a scan.
//!
//! Segments stored without a codec are mapped, and cost nothing to hold. Segments with a codec are decompressed, and segments of unmapped files read,
//! when the first worker needs them (other workers help or wait); they count toward the query's memory and are dropped with the last morsel of their
//! row segment. A column is opened when rows reach it: columns of which all rows are rejected by earlier filters are never decompressed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use warpmill_format::{Segment, TableSnapshot};

use crate::context::{QueryContext, Result, Share};

/// A row segment during a scan.
#[derive(Debug)]
pub struct RowSegment {
    /// Index of the row segment.
    pub segment: usize,
    /// Number of unfinished morsels.
    left: AtomicUsize,
    /// Segments per column of the scan.
    columns: Mutex<Vec<Held>>,
}

/// A decompressed or read segment, with its memory.
#[derive(Debug, Clone, Default)]
struct Held {
    segment: Option<Arc<Segment>>,
    room: Option<Arc<Room>>,
}

/// Memory of such a segment, reserved until it is dropped.
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
    /// Row segment `segment`, divided into `morsels` morsels.
    pub fn new(segment: usize, morsels: usize) -> Self {
        Self { segment, left: AtomicUsize::new(morsels), columns: Mutex::default() }
    }

    /// Opens the segment of column `columns[index]` of the table.
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

    /// Number of unfinished morsels.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Records that a morsel is finished; the last one drops the segments.
    pub fn morsel_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.columns.lock().clear();
        }
    }
}
