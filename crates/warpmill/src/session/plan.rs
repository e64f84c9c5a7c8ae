//! Statements that are planned first and run later, for servers, which need the columns before any row.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};

use super::query::Planned;
use super::running::Query;
use super::{QueryResult, Session};
use crate::plan_cache::Prepared;
use crate::{Error, Result, ScalarValue};

/// A planned statement: its columns, and a way to run it. The plan reads the versions that its tables had when it was made.
pub struct PlannedStatement {
    session: Session,
    /// Names and types of the columns.
    pub schema: SchemaRef,
    work: Work,
}

enum Work {
    Plan(Arc<Prepared>),
    /// A command that was run during planning, and its result.
    Done(QueryResult),
}

/// The rows of a statement as they are computed, for asynchronous readers. Dropping it cancels the statement.
pub struct RowStream {
    stream: SendableRecordBatchStream,
    /// Cancels the statement when it is dropped.
    _query: Query,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl Session {
    /// Plans one statement; `params` are the values of `$1`, `$2`, ... Queries and INSERT are not run. Commands (SET, CREATE TABLE AS, DROP TABLE,
    /// EXPLAIN and so on) have no plan: they are run at once, and [`PlannedStatement::rows`] returns their results.
    pub async fn plan(&self, sql: &str, params: &[ScalarValue]) -> Result<PlannedStatement> {
        let query = self.inner.running.start();
        let planned = query.until_cancelled(Box::pin(self.plan_statement(sql, params, &query))).await?;
        let (schema, work) = match planned {
            Planned::Query { prepared, .. } => (prepared.plan.schema(), Work::Plan(prepared)),
            Planned::Done(result) => (Arc::clone(&result.schema), Work::Done(result)),
        };
        Ok(PlannedStatement { session: self.clone(), schema, work })
    }
}

impl PlannedStatement {
    /// Runs the statement. Must be called inside a tokio runtime, which runs it.
    pub fn rows(&self) -> Result<RowStream> {
        let query = self.session.inner.running.start();
        let stream = match &self.work {
            Work::Plan(prepared) => {
                let plan = reset_plan_states(Arc::clone(&prepared.plan))?;
                execute_stream(plan, self.session.task_context(&query))?
            }
            Work::Done(result) => {
                let rows = futures::stream::iter(result.batches.clone().into_iter().map(Ok));
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&result.schema), rows))
            }
        };
        let stopped = Box::pin(query.stopped());
        Ok(RowStream { stream, _query: query, stopped, ended: false })
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.stopped.as_mut().poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(Some(Err(Error::Cancelled)));
        }
        let next = self.stream.poll_next_unpin(context);
        self.ended = matches!(next, Poll::Ready(None | Some(Err(_))));
        next.map(|next| next.map(|batch| batch.map_err(Into::into)))
    }
}
