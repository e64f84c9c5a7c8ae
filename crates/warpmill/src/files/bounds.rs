//! Bounds of values in footers of Parquet files, as far as they are reliable.
//!
//! NaN is greater than all numbers, and writers leave it out of their bounds, so that upper bounds of floating-point numbers are unusable. Bounds of
//! a file are those of all its row groups, or none.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use parquet::basic::{LogicalType, Type};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics as ChunkStatistics, ValueStatistics};

/// `metadata` without unreliable bounds of floating-point columns: upper bounds, and bounds of pages.
///
/// # Errors
/// None, for a footer that was read before.
pub(super) fn reliable(metadata: &Arc<ParquetMetaData>) -> Result<Arc<ParquetMetaData>> {
    let leaves = metadata.file_metadata().schema_descr().columns();
    let floats: Vec<usize> = (0..leaves.len()).filter(|&leaf| is_float(metadata, leaf)).collect();
    if floats.is_empty() {
        return Ok(Arc::clone(metadata));
    }
    let mut made = ParquetMetaData::clone(metadata).into_builder();
    let mut groups = made.take_row_groups();
    for chunk in groups.iter_mut().flat_map(|group| {
        group.columns_mut().iter_mut().enumerate().filter(|(leaf, _)| floats.contains(leaf)).map(|(_, chunk)| chunk)
    }) {
        if let Some(stats) = chunk.statistics().map(without_upper) {
            *chunk = chunk.clone().into_builder().set_statistics(stats).build()?;
        }
    }
    let mut index = made.take_column_index();
    for group in index.iter_mut().flatten() {
        for &leaf in &floats {
            if let Some(pages) = group.get_mut(leaf) {
                *pages = ColumnIndexMetaData::NONE;
            }
        }
    }
    Ok(Arc::new(made.set_row_groups(groups).set_column_index(index).build()))
}

fn is_float(metadata: &ParquetMetaData, leaf: usize) -> bool {
    let column = metadata.file_metadata().schema_descr().column(leaf);
    matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE)
        || matches!(column.logical_type_ref(), Some(LogicalType::Float16))
}

/// The statistics of a floating-point column chunk with a lower bound only. Zeros may be negative there.
fn without_upper(stats: &ChunkStatistics) -> ChunkStatistics {
    /// The statistics `stats` with the lower bound `least` and no upper one.
    fn of<T>(stats: &ChunkStatistics, least: Option<T>) -> ValueStatistics<T> {
        let (distinct, nulls) = (stats.distinct_count_opt(), stats.null_count_opt());
        ValueStatistics::new(least, None, distinct, nulls, stats.is_min_max_deprecated()).with_min_is_exact(false)
    }
    match stats {
        ChunkStatistics::Float(floats) => {
            let least = floats.min_opt().copied().filter(|least| !least.is_nan());
            ChunkStatistics::Float(of(stats, least.map(|least| if least == 0.0 { -0.0 } else { least })))
        }
        ChunkStatistics::Double(floats) => {
            let least = floats.min_opt().copied().filter(|least| !least.is_nan());
            ChunkStatistics::Double(of(stats, least.map(|least| if least == 0.0 { -0.0 } else { least })))
        }
        ChunkStatistics::FixedLenByteArray(_) => ChunkStatistics::FixedLenByteArray(of(stats, None)),
        stats => stats.clone(),
    }
}

/// `stats`, for the columns `schema` of a file, without bounds that some row groups lack, and without upper bounds of floating-point numbers.
pub(super) fn of_all_groups(mut stats: Statistics, schema: &SchemaRef, metadata: &ParquetMetaData) -> Statistics {
    let leaves = metadata.file_metadata().schema_descr().columns();
    for (column, field) in stats.column_statistics.iter_mut().zip(schema.fields()) {
        let is_of = |leaf: &usize| leaves[*leaf].path().parts().first() == Some(field.name());
        for leaf in (0..leaves.len()).filter(is_of) {
            if !metadata.row_groups().iter().all(|group| has_bounds(group, leaf)) {
                (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
            }
            if is_float(metadata, leaf) {
                column.min_value = std::mem::take(&mut column.min_value).to_inexact();
                column.max_value = Precision::Absent;
            }
        }
    }
    stats
}

/// Whether the values of a column in a row group have bounds, or there are no values.
fn has_bounds(group: &RowGroupMetaData, leaf: usize) -> bool {
    let chunk: &ColumnChunkMetaData = group.column(leaf);
    let Some(stats) = chunk.statistics() else { return group.num_rows() == 0 };
    let nulls = stats.null_count_opt().and_then(|nulls| i64::try_from(nulls).ok());
    let has_none = group.num_rows() == 0 || nulls == Some(chunk.num_values());
    has_none || stats.min_bytes_opt().is_some() && stats.max_bytes_opt().is_some()
}
