//! Tests of the table layer.

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;

use super::*;
use crate::Segment;
use crate::pruning::Metadata;

mod changes;
mod codec;
mod damage;
mod deletions;
mod faults;
mod faulty_fs;
mod golden;
mod heavy;
mod identity;
mod log;
mod log_damage;
mod log_faults;
mod log_memory;
mod mutations;
mod nested;
mod processes;
mod transactions;
mod writing;

/// Prints the number of outcomes of a kind of attack, for the table of `python tests/attack`.
fn tally(category: &str, outcome: &str, times: usize) {
    println!("\nattack-tally\t{category}\t{outcome}\t{times}");
}

/// The rows of a column of a snapshot, as text.
pub(crate) fn column(snapshot: &TableSnapshot, column: usize) -> Vec<Option<String>> {
    let mut rows = Vec::new();
    for s in 0..snapshot.num_segments() {
        let segment = snapshot.segment(s, column).unwrap();
        assert_eq!(segment.rows(), snapshot.segment_rows(s));
        assert_eq!(segment.is_dictionary(), snapshot.dictionary(column).is_some());
        let deleted = snapshot.deleted(s).unwrap();
        let values = values(&segment, snapshot, column).into_iter().enumerate();
        rows.extend(values.filter(|(row, _)| deleted.is_none_or(|deleted| !deleted.get(*row))).map(|(_, value)| value));
    }
    rows
}

fn values(segment: &Segment, snapshot: &TableSnapshot, column: usize) -> Vec<Option<String>> {
    let rows = segment.rows();
    let validity = segment.validity(0, rows);
    let text: Vec<String> = match snapshot.schema().field(column).data_type() {
        DataType::Float32 => {
            let mut out = vec![0f32; rows];
            segment.decode_f32(0, &mut out);
            out.iter().map(f32::to_string).collect()
        }
        DataType::Float64 => {
            let mut out = vec![0f64; rows];
            segment.decode_f64(0, &mut out);
            out.iter().map(f64::to_string).collect()
        }
        DataType::Boolean => {
            let mut out = vec![false; rows];
            segment.decode_bool(0, &mut out);
            out.iter().map(|&b| i32::from(b).to_string()).collect()
        }
        DataType::Utf8 => match snapshot.dictionary(column) {
            Some(dictionary) => {
                let mut out = vec![0u32; rows];
                segment.decode_codes(0, &mut out);
                let valid = |row| validity.as_ref().is_none_or(|v| v.get(row));
                let text =
                    |(row, &code): (usize, &u32)| if valid(row) { dictionary.get(code).into() } else { String::new() };
                out.iter().enumerate().map(text).collect()
            }
            None => {
                let mut out = vec![crate::StrView::default(); rows];
                let mut text = Vec::new();
                segment.decode_str(0, &mut text, &mut out);
                out.iter().map(|v| v.as_str().to_owned()).collect()
            }
        },
        _ => {
            let mut out = vec![0i128; rows];
            segment.decode_i128(0, &mut out);
            out.iter().map(i128::to_string).collect()
        }
    };
    let valid = |row| validity.as_ref().is_none_or(|v| v.get(row));
    text.into_iter().enumerate().map(|(row, text)| valid(row).then_some(text)).collect()
}

/// The rows of a column of a batch, in the form of [`column`].
pub(crate) fn expected(array: &ArrayRef) -> Vec<Option<String>> {
    use arrow::compute::cast;
    let array = match array.data_type() {
        DataType::Decimal128(p, _) => {
            let unscaled = array.as_primitive::<arrow::datatypes::Decimal128Type>().clone();
            Arc::new(unscaled.with_precision_and_scale(*p, 0).unwrap()) as ArrayRef
        }
        DataType::Date32 => cast(array, &DataType::Int32).unwrap(),
        DataType::Timestamp(..) | DataType::Time64(_) => cast(array, &DataType::Int64).unwrap(),
        DataType::Boolean => cast(array, &DataType::Int8).unwrap(),
        DataType::Float32 => {
            let values = array.as_primitive::<arrow::datatypes::Float32Type>();
            return values.iter().map(|v| v.map(|v| v.to_string())).collect();
        }
        DataType::Float64 => {
            let values = array.as_primitive::<arrow::datatypes::Float64Type>();
            return values.iter().map(|v| v.map(|v| v.to_string())).collect();
        }
        _ => array.clone(),
    };
    let text = cast(&array, &DataType::Utf8).unwrap();
    text.as_string::<i32>().iter().map(|v| v.map(str::to_owned)).collect()
}

/// A batch with a column of every kind; row `i` is a function of `first + i`.
pub(crate) fn rows(first: usize, count: usize) -> RecordBatch {
    let index = || first..first + count;
    let null = |i: &usize, every: usize| i % every == every - 1;
    let names = ["amber", "", "blue", "cyan", "déjà", "emerald", "a very long name that is longer than a view holds"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(index().map(|i| i as i64)))),
        ("small", Arc::new(Int8Array::from_iter(index().map(|i| (!null(&i, 5)).then_some((i % 7) as i8 - 3))))),
        ("wide", Arc::new(UInt64Array::from_iter_values(index().map(|i| u64::MAX - (i % 3) as u64)))),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter(index().map(|i| (!null(&i, 11)).then_some(i as i128 * 101 - 5000)))
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(index().map(|i| 9000 + (i / 10) as i32)))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                index().map(|i| 1_600_000_000_000_000 + i as i64 * 977),
            )),
        ),
        ("ratio", Arc::new(Float64Array::from_iter(index().map(|i| (!null(&i, 13)).then_some(i as f64 / 3.0))))),
        (
            "weight",
            Arc::new(Float32Array::from_iter_values(index().map(|i| if i == 4 { f32::INFINITY } else { i as f32 }))),
        ),
        ("flag", Arc::new(BooleanArray::from_iter(index().map(|i| (!null(&i, 17)).then_some(i % 3 == 0))))),
        (
            "name",
            Arc::new(StringArray::from_iter(index().map(|i| (!null(&i, 9)).then_some(names[(i / 3) % names.len()])))),
        ),
        ("note", Arc::new(StringArray::from_iter_values(index().map(|i| format!("note {i}"))))),
        ("nothing", Arc::new(Int32Array::from(vec![None; count]))),
    ];
    let nullable = ["small", "price", "ratio", "flag", "name", "nothing"];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), nullable.contains(name)))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, a)| a).collect()).unwrap()
}

/// Small segments, so that few rows fill several.
pub(crate) fn small() -> WriteOptions {
    WriteOptions { segment_rows: 1024, threads: 2, ..WriteOptions::default() }
}

/// Asserts that the snapshot contains exactly the rows of `batches`.
pub(crate) fn assert_holds(snapshot: &TableSnapshot, batches: &[RecordBatch]) {
    assert_eq!(snapshot.num_rows(), batches.iter().map(|b| b.num_rows() as u64).sum::<u64>());
    for c in 0..snapshot.schema().fields().len() {
        let expected: Vec<_> = batches.iter().flat_map(|b| expected(b.column(c))).collect();
        assert!(column(snapshot, c) == expected, "column {}", snapshot.schema().field(c).name());
    }
}

/// A snapshot of the table in `path`, from a new reader.
pub(crate) fn fresh(path: &Path) -> Arc<TableSnapshot> {
    Table::open(path).unwrap().snapshot().unwrap()
}

/// A table of one string column.
pub(crate) fn words(values: &[Option<&str>]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("word", Arc::new(StringArray::from(values.to_vec())) as ArrayRef, true)])
        .unwrap()
}

/// A schema of nullable columns.
pub(crate) fn schema_of(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>()))
}

#[test]
fn every_type_is_stored_and_named() {
    let schema = schema_of(&[
        ("a", DataType::LargeUtf8),
        ("b", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View))),
        ("c", DataType::Timestamp(TimeUnit::Second, Some("UTC".into()))),
    ]);
    let stored = stored_schema(&schema).unwrap();
    assert_eq!((stored.field(0).data_type(), stored.field(1).data_type()), (&DataType::Utf8, &DataType::Utf8));
    assert_eq!(stored.field(2), schema.field(2));
    let wide = DataType::Decimal256(50, 2);
    let wide = stored_schema(&schema_of(&[("x", DataType::Int8), ("y", wide)])).unwrap_err();
    assert_eq!(wide.to_string(), r#"column "y": type Decimal256(50, 2) cannot be stored"#);
    let twice = stored_schema(&schema_of(&[("x", DataType::Int8), ("x", DataType::Int8)])).unwrap_err();
    assert!(matches!(twice, FormatError::Schema { column, .. } if column == "x"));
}
