//! TPC-H tables by the `tpchgen` crates, whose rows equal the reference generator's (dbgen) byte for byte.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::{BATCH_ROWS, Batches};

pub(crate) const TABLES: &[&str] =
    &["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// Largest number of rows (or orders, see [`base_rows`]) of a part: small enough to balance work.
const PART_ROWS: u64 = 1 << 17;

pub(crate) fn schema(table: &str) -> Option<SchemaRef> {
    let generated = match table {
        "region" => RegionArrow::schema_ref(),
        "nation" => NationArrow::schema_ref(),
        "supplier" => SupplierArrow::schema_ref(),
        "customer" => CustomerArrow::schema_ref(),
        "part" => PartArrow::schema_ref(),
        "partsupp" => PartSuppArrow::schema_ref(),
        "orders" => OrderArrow::schema_ref(),
        "lineitem" => LineItemArrow::schema_ref(),
        _ => return None,
    };
    Some(with_plain_strings(&generated))
}

/// The schema with `Utf8` for `Utf8View`: every peer and file format takes it.
fn with_plain_strings(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The rows by which a table is divided: its own rows, but orders for `lineitem` and parts (of four suppliers each) for `partsupp`.
fn base_rows(table: &str, sf: f64) -> u64 {
    let rows = match table {
        "region" => 5,
        "nation" => 25,
        "supplier" => SupplierGenerator::calculate_row_count(sf, 1, 1),
        "customer" => CustomerGenerator::calculate_row_count(sf, 1, 1),
        "part" => PartGenerator::calculate_row_count(sf, 1, 1),
        "partsupp" => PartSuppGenerator::calculate_row_count(sf, 1, 1),
        _ => OrderGenerator::calculate_row_count(sf, 1, 1),
    };
    u64::try_from(rows).unwrap_or(0)
}

pub(crate) fn expected_rows(table: &str, sf: f64) -> u64 {
    let rows = base_rows(table, sf);
    if matches!(table, "lineitem" | "partsupp") { rows * 4 } else { rows }
}

pub(crate) fn parts(table: &str, sf: f64) -> usize {
    usize::try_from(base_rows(table, sf).div_ceil(PART_ROWS)).unwrap_or(usize::MAX).max(1)
}

pub(crate) fn generate(table: &str, sf: f64, part: usize, parts: usize) -> Batches {
    let part = i32::try_from(part + 1).expect("the largest scale has far fewer parts");
    let parts = i32::try_from(parts).expect("the largest scale has far fewer parts");
    match table {
        "region" => plain(RegionArrow::new(RegionGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "nation" => plain(NationArrow::new(NationGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "supplier" => plain(SupplierArrow::new(SupplierGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "customer" => plain(CustomerArrow::new(CustomerGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "part" => plain(PartArrow::new(PartGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "partsupp" => plain(PartSuppArrow::new(PartSuppGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        "orders" => plain(OrderArrow::new(OrderGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
        _ => plain(LineItemArrow::new(LineItemGenerator::new(sf, part, parts)).with_batch_size(BATCH_ROWS)),
    }
}

/// The generator's batches with plain strings.
fn plain<R>(reader: R) -> Batches
where
    R: RecordBatchReader + Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
{
    let schema = with_plain_strings(&reader.schema());
    Box::new(reader.map(move |batch| {
        let batch = batch.expect("generated columns fit their schema");
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| cast(column, field.data_type()).expect("a string view casts to a string"));
        RecordBatch::try_new(schema.clone(), columns.collect()).expect("generated columns fit their schema")
    }))
}
