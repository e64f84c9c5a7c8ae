//! The Star Schema Benchmark (O'Neil, O'Neil, Chen, Revilak: "The Star Schema Benchmark", revision 3).
//!
//! Column ranges and distributions are the specification's, with its generator's choices where it is silent: order keys
//! use the first 8 of every 32 numbers, customers whose key is a multiple of 3 never order, prices are whole cents,
//! orders span 1992-01-01 .. 1998-08-02. The `date` table has the 2556 rows of the specification ("7 years of days"),
//! 1992-01-01 .. 1998-12-30: with two leap years that is one day short of seven calendar years.
//! Below scale factor 1, tables shrink in proportion, down to a floor that keeps every join meaningful.

mod calendar;
mod dimension;
mod lineorder;

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{BATCH_ROWS, Batches};

pub(crate) const TABLES: &[&str] = &["date", "supplier", "customer", "part", "lineorder"];

/// Number of rows of a part (orders for `lineorder`).
const PART_ROWS: u64 = 1 << 17;

/// Days of the date table, from 1992-01-01.
const DATE_ROWS: u64 = 2556;

/// Sizes of the dimensions that `lineorder` refers to: keys run from 1 to these numbers.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    customers: u64,
    suppliers: u64,
    parts: u64,
    orders: u64,
}

impl Sizes {
    fn new(sf: f64) -> Self {
        let scaled = |base: f64, floor: u64| ((base * sf).round() as u64).max(floor);
        let parts = if sf < 1.0 { scaled(200_000.0, 1000) } else { 200_000 * (1.0 + sf.log2()).floor() as u64 };
        Self {
            customers: scaled(30_000.0, 100),
            suppliers: scaled(2000.0, 20),
            parts,
            orders: scaled(1_500_000.0, 100),
        }
    }

    /// Number of rows of a table; of orders for `lineorder`.
    fn rows(&self, table: &str) -> u64 {
        match table {
            "date" => DATE_ROWS,
            "customer" => self.customers,
            "supplier" => self.suppliers,
            "part" => self.parts,
            _ => self.orders,
        }
    }
}

pub(crate) fn schema(table: &str) -> Option<SchemaRef> {
    Some(match table {
        "date" => calendar::schema(),
        "customer" => dimension::customer_schema(),
        "supplier" => dimension::supplier_schema(),
        "part" => dimension::part_schema(),
        "lineorder" => lineorder::schema(),
        _ => return None,
    })
}

pub(crate) fn expected_rows(table: &str, sf: f64) -> u64 {
    let rows = Sizes::new(sf).rows(table);
    if table == "lineorder" { rows * 4 } else { rows }
}

pub(crate) fn parts(table: &str, sf: f64) -> usize {
    Sizes::new(sf).rows(table).div_ceil(PART_ROWS) as usize
}

pub(crate) fn generate(table: &str, sf: f64, part: usize) -> Batches {
    let sizes = Sizes::new(sf);
    let first = part as u64 * PART_ROWS;
    let rows = first..(first + PART_ROWS).min(sizes.rows(table));
    match table {
        "date" => batches(rows, BATCH_ROWS, calendar::batch),
        "customer" => batches(rows, BATCH_ROWS, dimension::customer),
        "supplier" => batches(rows, BATCH_ROWS, dimension::supplier),
        "part" => batches(rows, BATCH_ROWS, dimension::part),
        _ => batches(rows, BATCH_ROWS / 4, move |orders| lineorder::batch(&sizes, orders)),
    }
}

/// Cuts a row range into batches of `step` rows.
fn batches(rows: Range<u64>, step: usize, make: impl Fn(Range<u64>) -> RecordBatch + Send + 'static) -> Batches {
    let end = rows.end;
    Box::new(rows.step_by(step).map(move |first| make(first..(first + step as u64).min(end))))
}

/// A schema of 4-byte integers (`i`) and strings (`s`), none nullable.
fn columns(spec: &[(&str, char)]) -> SchemaRef {
    let field = |&(name, kind): &(&str, char)| {
        Field::new(name, if kind == 'i' { DataType::Int32 } else { DataType::Utf8 }, false)
    };
    SchemaRef::new(Schema::new(spec.iter().map(field).collect::<Vec<_>>()))
}
