//! The memory of rows that a client sends, counted with that of its session until they are used.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use warpmill::ScalarValue;

use crate::session::ClientSession;
use crate::status;

/// Rows of parameter values, one for each run of a statement.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    pub rows: Vec<Vec<ScalarValue>>,
    /// The reservation for the rows; `None` without rows.
    _memory: Option<MemoryReservation>,
}

impl Bound {
    pub(super) fn new(rows: Vec<Vec<ScalarValue>>, memory: MemoryReservation) -> Self {
        Self { rows, _memory: Some(memory) }
    }
}

/// An empty reservation in the session's memory. `name` appears in errors.
pub(super) fn reservation(session: &ClientSession, name: &'static str) -> MemoryReservation {
    MemoryConsumer::new(name).register(&session.engine.context().runtime_env().memory_pool)
}

/// Changes the reservation to `bytes`.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` if the session's memory is not enough.
pub(super) fn hold(memory: &MemoryReservation, bytes: usize) -> Result<(), Status> {
    memory.try_resize(bytes).map_err(|error| status::of(&error.into()))
}

/// Limit of the bytes of a stream's batches between decoding and writing.
pub(super) struct Ahead {
    /// Remaining bytes, in [`UNIT`]s.
    units: Arc<Semaphore>,
    most: u32,
}

/// The unit that bytes of batches are counted in.
const UNIT: usize = 1 << 10;

/// The reservation for a batch, released when dropped.
pub(super) struct Held {
    _units: OwnedSemaphorePermit,
    _memory: MemoryReservation,
}

impl Ahead {
    /// A limit of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let most = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        Self { units: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Waits until the limit has room for the batch beside those before it, then reserves its memory. A batch larger than the limit waits until it is
    /// alone.
    pub(super) async fn hold(&self, session: &ClientSession, batch: &RecordBatch) -> Result<Held, Status> {
        let bytes = size(batch);
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).clamp(1, self.most);
        let units = Arc::clone(&self.units).acquire_many_owned(units).await.map_err(status::internal)?;
        let memory = reservation(session, "rows of a client");
        hold(&memory, bytes)?;
        Ok(Held { _units: units, _memory: memory })
    }
}

/// Bytes of the batch's own rows: of buffers shared with a message only their parts count.
fn size(batch: &RecordBatch) -> usize {
    let part = |column: &arrow::array::ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(part).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_room_is_of_all_batches_together() {
        let ahead = Ahead::new(10 << 10);
        let take = |units: u32| Arc::clone(&ahead.units).acquire_many_owned(units);
        let first = take(8).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), take(3)).await.is_err());
        drop(first);
        drop(take(3).await.unwrap());
        assert_eq!(Ahead::new(0).most, 1);
        assert_eq!(Ahead::new(usize::MAX).most, u32::MAX >> 4);
    }
}
