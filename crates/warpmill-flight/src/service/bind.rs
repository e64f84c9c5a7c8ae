//! The batches that a client sends, and binding them to the parameters of a prepared statement.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tonic::{Status, Streaming};
use warpmill::ScalarValue;

use crate::server::Shared;
use crate::session::ClientSession;
use crate::status;

/// Messages of batches, the first of which has been looked at.
pub(super) struct Data {
    first: FlightData,
    rest: Streaming<FlightData>,
}

/// A row of values for each time that a statement is to be run.
pub(super) type Rows = Vec<Vec<ScalarValue>>;

/// The bytes of parameters that may be bound, in messages of the largest size.
const MESSAGES: usize = 8;

impl Data {
    pub(super) fn new(first: FlightData, rest: Streaming<FlightData>) -> Self {
        Self { first, rest }
    }

    /// The batches. A first message without data names the command only.
    pub(super) fn batches(self) -> FlightRecordBatchStream {
        let first = (!self.first.data_header.is_empty()).then_some(Ok(self.first));
        let rest = self.rest.map_err(|status| FlightError::from(status::of_transport(status)));
        FlightRecordBatchStream::new_from_flight_data(futures::stream::iter(first).chain(rest))
    }

    /// All rows; `None` where there is no batch of columns at all.
    async fn rows(self, limit: usize) -> Result<Option<Rows>, Status> {
        let mut batches = self.batches();
        let (mut rows, mut bytes, mut found) = (Vec::new(), 0, false);
        while let Some(batch) = next(&mut batches).await? {
            bytes += batch.get_array_memory_size();
            if bytes > limit {
                return Err(Status::resource_exhausted(format!("the parameters have more than {limit} bytes")));
            }
            found |= batch.num_columns() > 0;
            if batch.num_columns() > 0 {
                rows.extend((0..batch.num_rows()).map(|row| values(&batch, row)).collect::<Result<Rows, _>>()?);
            }
        }
        Ok(found.then_some(rows))
    }
}

/// The next batch of a client's stream.
pub(super) async fn next(
    batches: &mut (impl Stream<Item = Result<RecordBatch, FlightError>> + Unpin),
) -> Result<Option<RecordBatch>, Status> {
    // Damaged buffers can be more than Arrow's reader expects.
    let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
    let next = next.map_err(|_| Status::invalid_argument("the stream of batches is malformed"))?;
    next.transpose().map_err(status::of_stream)
}

fn values(batch: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>, Status> {
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, row);
    let values = batch.columns().iter().map(value).collect::<Result<_, _>>();
    values.map_err(|error| status::of(&error.into()))
}

/// The rows that a client sends for a statement of `wanted` parameters; `None` where it sends none.
pub(super) async fn parameters(server: &Shared, wanted: usize, data: Data) -> Result<Option<Rows>, Status> {
    let limit = server.policy.limits.message_bytes.saturating_mul(MESSAGES);
    let Some(rows) = data.rows(limit).await? else { return Ok(None) };
    match rows.first().map(Vec::len) {
        Some(given) if given != wanted => Err(Status::invalid_argument(format!(
            "the statement has {wanted} parameters, the batch has {given} columns"
        ))),
        _ => Ok(Some(rows)),
    }
}

/// Binds rows to a prepared statement: it is run for each of them.
pub(super) async fn bind(
    server: &Arc<Shared>,
    session: &ClientSession,
    handle: &[u8],
    data: Data,
) -> Result<(), Status> {
    let (_, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
    let rows = parameters(server, prepared.statement.parameters.len(), data).await?;
    *prepared.rows.lock() = Arc::new(rows.unwrap_or_default());
    Ok(())
}
