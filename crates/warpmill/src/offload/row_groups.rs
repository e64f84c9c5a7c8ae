//! The fraction of rows of Parquet files that remain after pruning row groups by their statistics.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;
use warpmill_format::parquet_file::ParquetFile;

/// The fraction of the rows of `files`, from 0 to 1, in row groups that `predicate`, on columns of `schema`, does not prune.
pub(super) fn share_left(
    files: &[Arc<ParquetFile>],
    schema: &SchemaRef,
    predicate: Option<&Arc<dyn PhysicalExpr>>,
) -> f64 {
    let pruning = predicate.and_then(|predicate| {
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(predicate)).ok()
    });
    let Some(pruning) = pruning.filter(|pruning| !pruning.always_true()) else { return 1.0 };
    let (mut left, mut all) = (0, 0);
    for file in files {
        let groups = file.metadata().row_groups();
        // Without a result, all row groups count as read.
        let kept = pruning.prune(&Groups { file, schema, groups }).unwrap_or_else(|_| vec![true; groups.len()]);
        for (group, kept) in groups.iter().zip(kept) {
            all += group.num_rows();
            left += if kept { group.num_rows() } else { 0 };
        }
    }
    if all == 0 { 1.0 } else { left as f64 / all as f64 }
}

/// The row groups of a file.
struct Groups<'a> {
    file: &'a ParquetFile,
    schema: &'a SchemaRef,
    groups: &'a [RowGroupMetaData],
}

impl Groups<'_> {
    fn converter<'a>(&'a self, column: &'a Column) -> Option<StatisticsConverter<'a>> {
        let leaves = self.file.metadata().file_metadata().schema_descr();
        StatisticsConverter::try_new(&column.name, self.schema, leaves).ok()
    }
}

impl PruningStatistics for Groups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_mins(self.groups).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_maxes(self.groups).ok()
    }

    fn num_containers(&self) -> usize {
        self.groups.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.converter(column)?.row_group_null_counts(self.groups).ok()?))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
