//! Leaves: tables and files, split between tasks.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::DistributedLeafExec;
use warpmill_format::TableSnapshot;
use warpmill_translate::scan_exec::{RowsOfPart, WarpmillScanExec};

use super::{Cutter, Part, Rows, estimate, stays};

/// Smallest number of bytes of a file that justifies a task.
const LEAST_BYTES: usize = 1 << 20;

impl Cutter {
    pub(super) fn leaf(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        if let Some(scan) = plan.downcast_ref::<WarpmillScanExec>() {
            if scan.table().path().is_none() || scan.table().is_parquet() {
                return Err(stays(format!("table {} is in the memory of this process", scan.table_name())));
            }
            return self.table(plan, scan);
        }
        let files = plan.downcast_ref::<DataSourceExec>();
        if let Some((config, _)) = files.and_then(|node| node.downcast_to_file_source::<ParquetSource>()) {
            if !config.object_store_url.as_str().starts_with("file:") {
                return Err(stays(format!("{} is read by this process only", config.object_store_url)));
            }
            return self.files(plan, config);
        }
        if files.is_some() {
            return Err(stays("rows that are neither in tables nor in Parquet files"));
        }
        Ok(self.whole(plan))
    }

    /// A leaf that is read in one place, or by every task.
    fn whole(&self, plan: &Arc<dyn ExecutionPlan>) -> Part {
        let bytes = estimate(plan).bytes;
        Part { plan: Arc::clone(plan), rows: Rows::Here, exchanged: false, bytes, sent: 0.0, key: None }
    }

    /// A leaf of which every task reads one of `parts`.
    fn spread(&self, plan: &Arc<dyn ExecutionPlan>, parts: Vec<Arc<dyn ExecutionPlan>>) -> Result<Part> {
        let whole = self.whole(plan);
        let leaf = DistributedLeafExec::try_new(Arc::clone(plan), parts)?;
        Ok(Part { plan: Arc::new(leaf), rows: Rows::Spread, ..whole })
    }

    fn table(&self, plan: &Arc<dyn ExecutionPlan>, scan: &WarpmillScanExec) -> Result<Part> {
        let part = |rows: RowsOfPart| -> Arc<dyn ExecutionPlan> {
            Arc::new(scan.of_part(scan.table().part(rows.segments.clone()), rows))
        };
        if let Some(split) = self.splits.split(plan) {
            let parts = split.parts(scan).map(part).collect();
            return Ok(Part { key: Some(split.key()), ..self.spread(plan, parts)? });
        }
        if scan.table().num_segments() < 2 {
            return Ok(self.whole(plan));
        }
        let shares = shares(scan.table(), self.tasks).into_iter();
        let parts = shares.map(|segments| part(RowsOfPart { segments, keys: None })).collect();
        self.spread(plan, parts)
    }

    fn files(&self, plan: &Arc<dyn ExecutionPlan>, config: &FileScanConfig) -> Result<Part> {
        // An order of all rows would be one within each task only.
        if plan.output_ordering().is_some() || config.limit.is_some() {
            return Ok(self.whole(plan));
        }
        let Some(groups) = file_shares(&config.file_groups, self.tasks) else { return Ok(self.whole(plan)) };
        let part = |group: FileGroup| -> Arc<dyn ExecutionPlan> {
            let mut config = config.clone();
            config.file_groups = vec![group];
            DataSourceExec::from_data_source(config)
        };
        self.spread(plan, groups.into_iter().map(part).collect())
    }
}

/// The row segments of every task: contiguous, about as many rows each, and always the same for a table and number of tasks, so that segments cached
/// by a worker can be used by the next query.
pub(super) fn shares(table: &TableSnapshot, tasks: usize) -> Vec<Range<usize>> {
    let (count, total) = (table.num_segments(), table.stored_rows() as u128);
    let (mut shares, mut first, mut rows) = (Vec::with_capacity(tasks), 0, 0u128);
    for task in 0..tasks {
        let mut end = first;
        // Up to the middle of the segment in which the task's share ends.
        let wanted = total * (task as u128 + 1) / tasks as u128;
        while end < count && (task + 1 == tasks || rows + table.segment_rows(end) as u128 / 2 < wanted) {
            rows += table.segment_rows(end) as u128;
            end += 1;
        }
        shares.push(first..end);
        first = end;
    }
    shares
}

/// The files, or byte ranges of files, of every task; `None` if they are too small.
fn file_shares(groups: &[FileGroup], tasks: usize) -> Option<Vec<FileGroup>> {
    let files: Vec<PartitionedFile> = groups.iter().flat_map(|group| group.iter().cloned()).collect();
    let bytes: u64 = files.iter().map(|file| file.object_meta.size).sum();
    if bytes < LEAST_BYTES as u64 {
        return None;
    }
    if files.len() >= 2 * tasks && files.iter().all(|file| file.range.is_none()) {
        return Some(whole_files(files, tasks));
    }
    let partitioner = FileGroupPartitioner::new().with_target_partitions(tasks);
    let partitioner = partitioner.with_repartition_file_min_size(LEAST_BYTES);
    let mut shares = partitioner.repartition_file_groups(&[FileGroup::new(files)])?;
    shares.resize_with(tasks, || FileGroup::new(vec![]));
    Some(shares)
}

/// Assigns whole files, largest first, to the task with the fewest bytes.
fn whole_files(mut files: Vec<PartitionedFile>, tasks: usize) -> Vec<FileGroup> {
    files.sort_by(|a, b| {
        let key =
            |file: &PartitionedFile| (std::cmp::Reverse(file.object_meta.size), file.object_meta.location.to_string());
        key(a).cmp(&key(b))
    });
    let mut shares = vec![(0u64, vec![]); tasks];
    for file in files {
        let least = shares.iter_mut().min_by_key(|(bytes, _)| *bytes).expect("there are tasks");
        least.0 += file.object_meta.size;
        least.1.push(file);
    }
    shares.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::record_batch::RecordBatch;
    use warpmill_format::Table;
    use warpmill_format::table::WriteOptions;

    use super::*;

    #[test]
    fn every_segment_is_in_one_share() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..7500));
        let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
        let table = Table::in_memory(batch.schema());
        let options = WriteOptions { segment_rows: 1024, ..WriteOptions::default() };
        let mut writer = table.append(options).unwrap();
        writer.write(&batch).unwrap();
        let table = writer.commit().unwrap();
        assert_eq!(table.num_segments(), 8);
        for tasks in 1..12 {
            let shares = shares(&table, tasks);
            assert_eq!(shares.len(), tasks);
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start), "{shares:?}");
            assert!(shares[0].start == 0 && shares[tasks - 1].end == 8, "{shares:?}");
            let rows = |share: &Range<usize>| share.clone().map(|segment| table.segment_rows(segment)).sum::<usize>();
            assert!(shares.iter().all(|share| rows(share) <= 7500 / tasks + 1024), "{shares:?}");
        }
    }
}
