//! The leaf of a DataFusion physical plan for a scan of a Warpmill table.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal, lit};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use warpmill_format::{StatValue, TableSnapshot};
use warpmill_ir::ColType;
use warpmill_ir::key_range::KeyRange;

use crate::scan_rows;

/// A scan of some columns of one version of a table.
///
/// The translator turns it into a [`Scan`](warpmill_ir::Scan), and its statistics (exact row count; null counts and bounds, inexact
/// where rows are deleted; estimated distinct counts) feed DataFusion's optimizer. DataFusion executes it if it has columns of types that programs do
/// not support.
pub struct WarpmillScanExec {
    table: Arc<TableSnapshot>,
    name: String,
    projection: Vec<usize>,
    /// Set if only a part of the rows is read.
    part: Option<TablePart>,
    properties: Arc<PlanProperties>,
}

/// A part of a table for one of several processes.
#[derive(Debug, Clone)]
pub struct TablePart {
    /// The whole table.
    pub whole: Arc<TableSnapshot>,
    /// The rows to read.
    pub rows: RowsOfPart,
}

/// The rows of a part of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowsOfPart {
    /// Range of row segments.
    pub segments: Range<usize>,
    /// The keys of the rows; `None`: all rows of the segments.
    pub keys: Option<KeysOfPart>,
}

/// The keys of a part of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeysOfPart {
    /// Output column of the scan: integers without NULLs.
    pub column: usize,
    /// Range of its values.
    pub range: KeyRange,
}

impl WarpmillScanExec {
    /// A scan of columns `projection` (indices into the table's schema; all if `None`) of `table`, called `name` in plans.
    pub fn try_new(table: Arc<TableSnapshot>, name: impl Into<String>, projection: Option<Vec<usize>>) -> Result<Self> {
        let projection = projection.unwrap_or_else(|| (0..table.schema().fields().len()).collect());
        // Metadata of the table is no metadata of batches of its rows.
        let schema: SchemaRef = Arc::new(Schema::new(table.schema().project(&projection)?.fields));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { table, name: name.into(), projection, part: None, properties: Arc::new(properties) })
    }

    /// The same scan of `rows`; `table` is the table of their row segments.
    pub fn of_part(&self, table: Arc<TableSnapshot>, rows: RowsOfPart) -> Self {
        let whole = self.part.as_ref().map_or(&self.table, |part| &part.whole);
        Self {
            table,
            name: self.name.clone(),
            projection: self.projection.clone(),
            part: Some(TablePart { whole: Arc::clone(whole), rows }),
            properties: Arc::clone(&self.properties),
        }
    }

    /// The part of the table to read; `None`: all of it.
    pub fn part(&self) -> Option<&TablePart> {
        self.part.as_ref()
    }

    /// The table version to read.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// The table's name in plans.
    pub fn table_name(&self) -> &str {
        &self.name
    }

    /// The table column of each output column.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }
}

impl fmt::Debug for WarpmillScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarpmillScanExec")
            .field("name", &self.name)
            .field("projection", &self.projection)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for WarpmillScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "WarpmillScanExec: table={}, columns=[{}]", self.name, names.join(", "))?;
        match &self.part {
            Some(TablePart { rows: RowsOfPart { segments, keys }, .. }) => {
                write!(f, ", segments={}..{}", segments.start, segments.end)?;
                let Some(KeysOfPart { column, .. }) = keys else { return Ok(()) };
                write!(f, ", keys of {}", schema.field(*column).name())
            }
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for WarpmillScanExec {
    fn name(&self) -> &str {
        "WarpmillScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("WarpmillScanExec is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("WarpmillScanExec is a leaf") }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("{partition} is no partition of the scan of {:?}", self.name);
        }
        let rows = scan_rows::rows(&self.table, &self.projection, self.schema(), &context);
        let Some(keys) = self.part.as_ref().and_then(|part| part.rows.keys.as_ref()) else { return Ok(rows) };
        let condition = within(keys, &self.schema())?;
        let kept = rows.map(move |rows| filter_rows(&rows?, &condition));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), kept)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let statistics = table_statistics(&self.table, &self.projection);
        let fewer = self.part.as_ref().is_some_and(|part| part.rows.keys.is_some());
        Ok(Arc::new(if fewer { statistics.to_inexact() } else { statistics }))
    }
}

/// The condition for a row of a scan with this schema to be within `keys`.
fn within(keys: &KeysOfPart, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let field = schema.field(keys.column);
    let Some(bounds) = ColType::range_of(field.data_type()) else {
        return internal_err!("keys of type {}", field.data_type());
    };
    let Some(range) = keys.range.of_type(bounds) else { return Ok(lit(false)) };
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), keys.column));
    let compared = |op: Operator, bound: i128| -> Result<Arc<dyn PhysicalExpr>> {
        let Some(bound) = scalar(&StatValue::Int(bound), field.data_type()) else {
            return internal_err!("a bound of keys of type {}", field.data_type());
        };
        Ok(Arc::new(BinaryExpr::new(Arc::clone(&column), op, Arc::new(Literal::new(bound)))))
    };
    let (least, greatest) = (compared(Operator::GtEq, range.least)?, compared(Operator::LtEq, range.greatest)?);
    Ok(Arc::new(BinaryExpr::new(least, Operator::And, greatest)))
}

fn filter_rows(rows: &RecordBatch, condition: &Arc<dyn PhysicalExpr>) -> Result<RecordBatch> {
    let kept = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(filter_record_batch(rows, as_boolean_array(&kept)?)?)
}

/// The statistics of columns `projection` of `table` in DataFusion's terms (for scans and table providers).
pub fn table_statistics(table: &TableSnapshot, projection: &[usize]) -> Statistics {
    let column_statistics: Vec<_> = projection.iter().map(|&column| column_statistics(table, column)).collect();
    let total = column_statistics.iter().try_fold(0usize, |sum, c| c.byte_size.get_value().map(|b| sum + b));
    Statistics {
        num_rows: Precision::Exact(table.num_rows() as usize),
        total_byte_size: total.map_or(Precision::Absent, Precision::Inexact),
        column_statistics,
    }
}

fn column_statistics(table: &TableSnapshot, column: usize) -> ColumnStatistics {
    let stats = table.column_stats(column);
    // Deleted rows are counted, and their values may be the bounds.
    let exact = !table.has_deletions();
    let logical = table.schema().field(column).data_type();
    let bound = |value: &Option<StatValue>, last: bool| match table.dictionary(column) {
        // The dictionary may contain strings that the column lacks (after a replacement), never fewer.
        Some(dictionary) if !dictionary.is_empty() => {
            let code = if last { dictionary.len() as u32 - 1 } else { 0 };
            scalar(&StatValue::Str(dictionary.get(code).to_owned()), logical)
                .map_or(Precision::Absent, Precision::Inexact)
        }
        _ => match value.as_ref().and_then(|v| scalar(v, logical)) {
            // Writers take the bounds of integers from the values; string bounds may be truncated, and floats have two zeros.
            Some(value) if exact && ColType::range_of(logical).is_some() => Precision::Exact(value),
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        },
    };
    ColumnStatistics {
        null_count: match exact || stats.nulls == 0 {
            true => Precision::Exact(stats.nulls as usize),
            false => Precision::Inexact(stats.nulls as usize),
        },
        min_value: bound(&stats.min, false),
        max_value: bound(&stats.max, true),
        sum_value: Precision::Absent,
        distinct_count: stats.distinct.map_or(Precision::Absent, |n| Precision::Inexact(n as usize)),
        byte_size: Precision::Inexact(stats.plain_bytes as usize),
    }
}

/// A bound as a DataFusion scalar of type `logical`; `None` for types without one.
fn scalar(value: &StatValue, logical: &DataType) -> Option<ScalarValue> {
    Some(match (value, logical) {
        (StatValue::Int(v), DataType::Int8) => ScalarValue::Int8(Some(i8::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Int16) => ScalarValue::Int16(Some(i16::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Int32) => ScalarValue::Int32(Some(i32::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Int64) => ScalarValue::Int64(Some(i64::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::UInt8) => ScalarValue::UInt8(Some(u8::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::UInt16) => ScalarValue::UInt16(Some(u16::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::UInt32) => ScalarValue::UInt32(Some(u32::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::UInt64) => ScalarValue::UInt64(Some(u64::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Date32) => ScalarValue::Date32(Some(i32::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Date64) => ScalarValue::Date64(Some(i64::try_from(*v).ok()?)),
        (StatValue::Int(v), DataType::Decimal32(p, s)) => ScalarValue::Decimal32(Some(i32::try_from(*v).ok()?), *p, *s),
        (StatValue::Int(v), DataType::Decimal64(p, s)) => ScalarValue::Decimal64(Some(i64::try_from(*v).ok()?), *p, *s),
        (StatValue::Int(v), DataType::Decimal128(p, s)) => ScalarValue::Decimal128(Some(*v), *p, *s),
        (StatValue::Int(v), DataType::Time32(unit)) => {
            let ticks = Some(i32::try_from(*v).ok()?);
            match unit {
                TimeUnit::Second => ScalarValue::Time32Second(ticks),
                _ => ScalarValue::Time32Millisecond(ticks),
            }
        }
        (StatValue::Int(v), DataType::Time64(unit)) => {
            let ticks = Some(i64::try_from(*v).ok()?);
            match unit {
                TimeUnit::Nanosecond => ScalarValue::Time64Nanosecond(ticks),
                _ => ScalarValue::Time64Microsecond(ticks),
            }
        }
        (StatValue::Int(v), DataType::Duration(unit)) => {
            let ticks = Some(i64::try_from(*v).ok()?);
            match unit {
                TimeUnit::Second => ScalarValue::DurationSecond(ticks),
                TimeUnit::Millisecond => ScalarValue::DurationMillisecond(ticks),
                TimeUnit::Microsecond => ScalarValue::DurationMicrosecond(ticks),
                TimeUnit::Nanosecond => ScalarValue::DurationNanosecond(ticks),
            }
        }
        (StatValue::Int(v), DataType::Timestamp(unit, zone)) => {
            let (ticks, zone) = (Some(i64::try_from(*v).ok()?), zone.clone());
            match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(ticks, zone),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(ticks, zone),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(ticks, zone),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(ticks, zone),
            }
        }
        (StatValue::Float(v), DataType::Float32) => ScalarValue::Float32(Some(*v as f32)),
        (StatValue::Float(v), DataType::Float64) => ScalarValue::Float64(Some(*v)),
        (StatValue::Str(v), DataType::Utf8) => ScalarValue::Utf8(Some(v.clone())),
        (StatValue::Str(v), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(v.clone())),
        (StatValue::Str(v), DataType::Utf8View) => ScalarValue::Utf8View(Some(v.clone())),
        _ => return None,
    })
}
