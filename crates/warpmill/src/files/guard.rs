//! Scans of files whose decoders may fail on damaged contents.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{FutureExt, StreamExt};
use warpmill_format::FormatError;
use warpmill_format::guard::{caught, decoder_failed};
use warpmill_format::parquet_file::find_damage;

use super::damaged;
use super::readers::{CheckedReaders, LOCAL, Opened, path_of};
use crate::Error;
use crate::remote::RemoteError;

/// Wraps a scan of files so that panics of its decoder become errors that name the damaged file; other plans, and scans of Parquet files that check
/// their input, are unchanged.
pub(crate) fn guarded(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let Some(node) = plan.downcast_ref::<DataSourceExec>() else { return plan };
    let Some(config) = node.data_source().downcast_ref::<FileScanConfig>() else { return plan };
    let base = config.object_store_url.to_string();
    let names = config.file_groups.iter().flat_map(|group| group.iter());
    let names = names.map(|file| path_of(&base, file.object_meta.location.as_ref()).display().to_string());
    let mut names: Vec<String> = names.take(MOST_NAMED + 1).collect();
    names.dedup();
    if names.len() > MOST_NAMED {
        names[MOST_NAMED] = "...".into();
    }
    let (opened, parquet) = (Arc::<Opened>::default(), config.file_source().downcast_ref::<ParquetSource>());
    let columns = config.file_source().projection().map(|projection| {
        let columns =
            projection.as_ref().iter().flat_map(|item| datafusion::physical_expr::utils::collect_columns(&item.expr));
        columns.map(|column| column.name().to_owned()).collect::<Vec<_>>()
    });
    let what = Arc::new(Scanned {
        names: names.join(", "),
        opened: Arc::clone(&opened),
        columns,
        local: base.starts_with(LOCAL),
    });
    let Some((source, inner)) = parquet.and_then(|source| Some((source, source.parquet_file_reader_factory()?))) else {
        return Arc::new(GuardedScan { inner: plan, what });
    };
    let readers = CheckedReaders { inner: Arc::clone(inner), base, opened };
    let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    let inner = Arc::new(node.clone().with_data_source(Arc::new(config)));
    Arc::new(GuardedScan { inner, what })
}

/// `change` of a scan, with errors explained if those of `plan`, the scan, are.
pub(super) fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    change: impl FnOnce(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    // The plan's own way of looking at its type goes past the guard.
    match (plan.as_ref() as &dyn Any).downcast_ref::<GuardedScan>() {
        Some(guard) => Some(Arc::new(GuardedScan { inner: change(&guard.inner)?, what: Arc::clone(&guard.what) })),
        None => change(plan),
    }
}

/// Files that an error names.
const MOST_NAMED: usize = 3;

/// The files and columns of a scan.
#[derive(Debug)]
struct Scanned {
    /// The files.
    names: String,
    /// The Parquet files opened so far.
    opened: Arc<Opened>,
    /// The columns; `None`: all.
    columns: Option<Vec<String>>,
    /// Whether they are files of this machine.
    local: bool,
}

/// A scan of files with errors of its decoder explained; other nodes see the plan properties of the inner scan.
#[derive(Debug)]
struct GuardedScan {
    inner: Arc<dyn ExecutionPlan>,
    what: Arc<Scanned>,
}

impl DisplayAs for GuardedScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for GuardedScan {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(&*self.inner)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(&self.inner).reset_state()?;
        Ok(Arc::new(Self { inner, what: Arc::clone(&self.what) }))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let what = Arc::clone(&self.what);
        let stream = caught(|| self.inner.execute(partition, context));
        let stream = stream.map_err(|detail| damaged(what.panicked(detail)))??;
        let schema = stream.schema();
        let rows = futures::stream::unfold(Some(stream), move |stream| next(stream, Arc::clone(&what)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }
}

/// The next item of an unfolded scan: rows or an error, and the stream unless it has ended.
type Next = Option<(Result<RecordBatch>, Option<SendableRecordBatchStream>)>;

/// The next rows of a scan, or an error that names the damage.
async fn next(stream: Option<SendableRecordBatchStream>, what: Arc<Scanned>) -> Next {
    let mut stream = stream?;
    let failed = match AssertUnwindSafe(stream.next()).catch_unwind().await {
        Ok(None) => return None,
        Ok(Some(Ok(batch))) => return Some((Ok(batch), Some(stream))),
        Ok(Some(Err(error))) => Failed::Error(error),
        Err(panic) => Failed::Panic(decoder_failed(&*panic)),
    };
    // The rest of the decoder is not to be trusted.
    drop(stream);
    let error = tokio::task::spawn_blocking(move || what.explain(failed)).await;
    Some((Err(error.unwrap_or_else(|error| DataFusionError::ExecutionJoin(Box::new(error)))), None))
}

/// The failure of a decoder.
enum Failed {
    Error(DataFusionError),
    Panic(String),
}

impl Scanned {
    fn panicked(&self, detail: String) -> FormatError {
        FormatError::Corrupt { path: self.names.clone().into(), segment: None, detail }
    }

    /// The error that names the damage, if any. Reads the files again to find it.
    fn explain(&self, failed: Failed) -> DataFusionError {
        if let Failed::Error(error) = &failed {
            if let Some(found) = find(error) {
                return found.into();
            }
            if RemoteError::find(error).is_some() || !may_be_damage(error) {
                return match failed {
                    Failed::Error(error) => error,
                    Failed::Panic(_) => unreachable!("it is an error"),
                };
            }
        }
        let wanted = |name: &str| self.columns.as_ref().is_none_or(|columns| columns.iter().any(|own| own == name));
        let opened = self.opened.paths().into_iter().filter(|_| self.local);
        if let Some(found) = opened.into_iter().find_map(|path| find_damage(&path, &wanted)) {
            return damaged(found);
        }
        match failed {
            Failed::Error(error) => error,
            Failed::Panic(detail) => damaged(self.panicked(detail)),
        }
    }
}

/// The error of ours that `error` was made from.
fn find(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut error = Some(error);
    while let Some(current) = error {
        if let Some(found) = current.downcast_ref::<Error>() {
            return Some(found.clone());
        }
        error = current.source();
    }
    None
}

/// Whether `error` may come from decoding damaged bytes.
fn may_be_damage(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ParquetError(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_) | ArrowError::InvalidArgumentError(_) | ArrowError::ExternalError(_)
        ),
        _ => false,
    }
}
