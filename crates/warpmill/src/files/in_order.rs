//! Rows of files in the files' order, decoded by several threads.
//!
//! DataFusion splits files into as many partitions as there are threads, and its ways of putting partitions together take rows as they come. Here the
//! files are split into many *pieces* instead, in their order; the threads decode the next ones while the rows of the first are passed on. Tables
//! that are made of files so keep the order of the files, by which scans skip rows, and queries without ORDER BY return rows as DuckDB does.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::guard::with_scan;
use crate::WarpmillOptions;

/// Least bytes of a piece. Row groups of Parquet files are not split: a piece has those that begin in it.
const PIECE_BYTES: i64 = 8 << 20;
/// Most pieces of a scan: each opens its file.
const MOST_PIECES: i64 = 4096;
/// Bytes that the threads may decode before they are asked for, for each thread: a row group of many columns.
const AHEAD_BYTES: usize = 256 << 20;
/// The share of the memory that a query may have (1 / SHARE) that these may take.
const SHARE: usize = 8;
/// Batches of a piece that may wait; their bytes are counted.
const MOST_BATCHES: usize = 1 << 16;

/// `plan` with the rows of files in their order where their partitions are put together.
pub(crate) fn with_file_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let ordered = |node: Arc<dyn ExecutionPlan>| {
        let coalesce = node.downcast_ref::<CoalescePartitionsExec>().filter(|_| node.fetch().is_none());
        let ordered = coalesce.and_then(|coalesce| in_file_order(coalesce.input()));
        Ok(ordered.map_or_else(|| Transformed::no(node), Transformed::yes))
    };
    let plan = plan.transform_up(ordered)?.data;
    Ok(in_file_order(&plan).unwrap_or(plan))
}

/// `plan` with one partition, in the order of the files that it reads; `None` if it does anything but read files row by row, or has an order already.
pub(crate) fn in_file_order(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.output_partitioning().partition_count() <= 1 || plan.output_ordering().is_some() {
        return None;
    }
    let pieces = in_pieces(plan)?;
    let properties = PlanProperties::new(
        EquivalenceProperties::new(pieces.schema()),
        Partitioning::UnknownPartitioning(1),
        pieces.pipeline_behavior(),
        pieces.boundedness(),
    );
    Some(Arc::new(FilesInOrderExec { pieces, properties: Arc::new(properties) }))
}

/// `plan` with a partition for each piece of its files.
fn in_pieces(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.is::<DataSourceExec>() {
        return with_scan(plan, |scan| {
            let node = scan.downcast_ref::<DataSourceExec>()?;
            let config = node.data_source().downcast_ref::<FileScanConfig>()?;
            let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(pieces(&config.file_groups));
            // Otherwise threads take pieces from each other.
            let config = config.with_preserve_order(true);
            Some(Arc::new(node.clone().with_data_source(Arc::new(config.build()))))
        });
    }
    let by_row = plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    if !by_row || plan.fetch().is_some() {
        return None;
    }
    let input = in_pieces(plan.children()[0])?;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![input], options).ok()
}

/// The files one by one, those that may be split in several pieces.
fn pieces(groups: &[FileGroup]) -> Vec<FileGroup> {
    let files = || groups.iter().flat_map(FileGroup::iter);
    let bytes: i64 = files().filter_map(|file| file.range.as_ref()).map(|range| range.end - range.start).sum();
    let most = PIECE_BYTES.max(bytes / MOST_PIECES + 1);
    let split = |file: &PartitionedFile| -> Vec<FileGroup> {
        let Some(FileRange { start, end }) = file.range else { return vec![FileGroup::new(vec![file.clone()])] };
        let count = ((end - start + most - 1) / most).max(1);
        let at = |piece: i64| start + (end - start) * piece / count;
        let piece =
            |piece| PartitionedFile { range: Some(FileRange { start: at(piece), end: at(piece + 1) }), ..file.clone() };
        (0..count).map(|number| FileGroup::new(vec![piece(number)])).collect()
    };
    files().flat_map(split).collect()
}

/// Passes on the partitions of its input one after the other, and runs several at a time.
#[derive(Debug)]
struct FilesInOrderExec {
    pieces: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for FilesInOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilesInOrderExec: pieces={}", self.pieces.output_partitioning().partition_count())
    }
}

impl ExecutionPlan for FilesInOrderExec {
    fn name(&self) -> &str {
        "FilesInOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.pieces]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(pieces), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("FilesInOrderExec has one input");
        };
        Ok(Arc::new(Self { pieces, properties: Arc::clone(&self.properties) }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (pieces, schema) = (Arc::clone(&self.pieces), self.schema());
        let config = context.session_config();
        let threads = config.target_partitions().max(1);
        let most = (WarpmillOptions::of(config.options()).memory_limit / SHARE).min(AHEAD_BYTES * threads);
        let ahead = Arc::new(Ahead { most, ..Ahead::default() });
        let (of, own) = (Arc::clone(&schema), Arc::clone(&ahead));
        let start = move |number| {
            let mut rows = RecordBatchReceiverStreamBuilder::new(Arc::clone(&of), MOST_BATCHES);
            let (sender, ahead) = (rows.tx(), Arc::clone(&own));
            let (pieces, context) = (Arc::clone(&pieces), Arc::clone(&context));
            rows.spawn(async move {
                let mut piece = pieces.execute(number, context)?;
                while let Some(batch) = piece.next().await {
                    let batch = batch?;
                    ahead.hold(number, batch.get_array_memory_size()).await;
                    // The receiver is gone if the query has ended.
                    if sender.send(Ok(batch)).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            std::future::ready(rows.build())
        };
        let count = self.pieces.output_partitioning().partition_count();
        let rows = futures::stream::iter(0..count).map(start).buffered(threads).flat_map(move |rows| {
            let first = First(Arc::clone(&ahead));
            rows.inspect_ok(move |batch| first.0.release(batch.get_array_memory_size()))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

/// Memory of rows that were decoded before they are asked for.
#[derive(Default)]
struct Ahead {
    most: usize,
    state: Mutex<Decoded>,
    changed: Notify,
}

#[derive(Default)]
struct Decoded {
    /// Bytes that wait.
    bytes: usize,
    /// The piece whose rows are passed on.
    first: usize,
}

impl Ahead {
    /// Waits until there is room for `bytes` of piece `number`; the first one need not wait.
    async fn hold(&self, number: usize, bytes: usize) {
        loop {
            // Made before the look, so that no change is missed.
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                if number <= state.first || state.bytes.saturating_add(bytes) <= self.most {
                    state.bytes += bytes;
                    return;
                }
            }
            changed.await;
        }
    }

    fn release(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
        self.changed.notify_waiters();
    }
}

/// The piece whose rows are passed on, until dropped: the next one follows.
struct First(Arc<Ahead>);

impl Drop for First {
    fn drop(&mut self) {
        self.0.state.lock().first += 1;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, range: Option<(i64, i64)>) -> PartitionedFile {
        let file = PartitionedFile::new(name, 100 << 20);
        match range {
            Some((start, end)) => file.with_range(start, end),
            None => file,
        }
    }

    #[test]
    fn pieces_are_adjacent_and_in_order() {
        let groups = [
            FileGroup::new(vec![file("a", Some((0, 50 << 20)))]),
            FileGroup::new(vec![file("a", Some((50 << 20, 100 << 20))), file("b", None)]),
            FileGroup::new(vec![file("c", Some((0, 5)))]),
        ];
        let pieces = pieces(&groups);
        let single = |group: &FileGroup| {
            let [file] = group.files() else { panic!("{group:?}") };
            (file.object_meta.location.to_string(), file.range.clone().map(|range| (range.start, range.end)))
        };
        let pieces: Vec<_> = pieces.iter().map(single).collect();
        let (a, rest) = pieces.split_at(14);
        assert!(a.iter().all(|(name, _)| name == "a"));
        let ranges: Vec<_> = a.iter().filter_map(|(_, range)| *range).collect();
        assert_eq!((ranges[0].0, ranges[13].1), (0, 100 << 20));
        assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1), "{ranges:?}");
        assert_eq!(rest, [("b".to_string(), None), ("c".to_string(), Some((0, 5)))]);
    }
}
