//! Ingest from every source, and the errors for bad input.

use std::io::Write;

use arrow::array::*;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::Table;
use crate::table::WriteOptions;
use crate::table::tests::{assert_holds, column, rows, schema_of, small};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

fn writer(schema: SchemaRef) -> TableWriter {
    Table::in_memory(schema).append(small()).unwrap()
}

fn file(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = dir.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

fn parquet_file(dir: &tempfile::TempDir, name: &str, batch: &RecordBatch, group_rows: usize) -> std::path::PathBuf {
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    file(dir, name, &bytes)
}

#[test]
fn arrow_batches() {
    let mut last = Progressed::default();
    let batches = (0..30).map(|i| Ok(rows(100 * i, 100)));
    let snapshot = ingest_batches(writer(rows(0, 0).schema()), batches, &mut |p| last = p).unwrap();
    assert_holds(&snapshot, &[rows(0, 3000)]);
    assert_eq!(last.rows, 3000);
    let bad = [Ok(rows(0, 1)), Err(ArrowError::ComputeError("no more".into()))];
    let error = ingest_batches(writer(rows(0, 0).schema()), bad, &mut NoProgress).unwrap_err();
    assert_eq!(error.to_string(), "Arrow input batch 1: Compute error: no more");
}

#[test]
fn parquet_row_groups_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|i| parquet_file(&dir, &format!("{i}.parquet"), &rows(2500 * i, 2500), 300));
    for (threads, memory_limit) in [(1, 0), (4, 2 << 30)] {
        let mut last = Progressed::default();
        let options = ParquetOptions { threads, memory_limit };
        let into = writer(parquet_schema(&paths[0]).unwrap());
        let snapshot = ingest_parquet(into, &paths, &options, &mut |p| last = p).unwrap();
        assert_holds(&snapshot, &[rows(0, 5000)]);
        assert_eq!((last.rows, Some(last.bytes)), (5000, last.total_bytes));
    }
}

#[test]
fn bad_parquet_is_located() {
    let dir = tempfile::tempdir().unwrap();
    let ids = |values: Vec<Option<i64>>| {
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("id", array, true)]).unwrap()
    };
    let path = parquet_file(&dir, "x.parquet", &ids(vec![Some(1), Some(2), Some(1 << 40), None]), 2);
    let text = |schema: SchemaRef, path: &Path| {
        let error = ingest_parquet(writer(schema), &[path], &ParquetOptions::default(), &mut NoProgress).unwrap_err();
        error.to_string().replace(&dir.path().display().to_string(), "")
    };
    let narrow = text(schema_of(&[("id", DataType::Int32)]), &path);
    assert!(
        narrow.starts_with("/x.parquet row group 1, column \"id\": ") && narrow.contains("1099511627776"),
        "{narrow}"
    );
    let strict = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    assert_eq!(text(strict, &path), "/x.parquet row group 1, column \"id\": a null in a column that is NOT NULL");
    let other = text(schema_of(&[("id", DataType::Int64), ("y", DataType::Int64)]), &path);
    assert_eq!(other, "/x.parquet column \"y\": missing in the file");
    let kind = text(schema_of(&[("id", DataType::Utf8)]), &path);
    assert_eq!(kind, "/x.parquet row group 0, column \"id\": values of type Int64 in a column of type Utf8");

    let whole = std::fs::read(parquet_file(&dir, "whole.parquet", &rows(0, 5000), 1000)).unwrap();
    let truncated = file(&dir, "cut.parquet", &whole[..whole.len() / 2]);
    let cut = text(rows(0, 0).schema(), &truncated);
    assert!(cut.starts_with("/cut.parquet: not a whole Parquet file: "), "{cut}");
    // Wipe a page header of column "note" in row group 2.
    let metadata = ParquetMeta::of(&whole);
    let mut damaged = whole.clone();
    damaged[metadata.start(2, 10)..][..16].fill(0xff);
    let path = file(&dir, "damaged.parquet", &damaged);
    let page = text(rows(0, 0).schema(), &path);
    assert!(page.starts_with("/damaged.parquet row group 2, column \"note\": "), "{page}");
}

struct ParquetMeta(parquet::file::metadata::ParquetMetaData);

impl ParquetMeta {
    fn of(bytes: &[u8]) -> Self {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "meta", bytes);
        Self(SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap().metadata().clone())
    }

    fn start(&self, row_group: usize, column: usize) -> usize {
        self.0.row_group(row_group).column(column).byte_range().0 as usize
    }
}

#[test]
fn csv_is_inferred_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id,name,price,day\n1,\"a, \"\"b\"\"\nc\",1.5,2024-01-31\n\n2,,-2,1999-12-31\r\n3,x,,\n";
    let path = file(&dir, "x.csv", text.as_bytes());
    let options = CsvOptions::default();
    let schema = csv_schema(&[&path], &options).unwrap();
    let types: Vec<_> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Date32]);
    let mut last = Progressed::default();
    let snapshot = ingest_csv(writer(schema), &[&path], &options, &mut |p| last = p).unwrap();
    let text_of =
        |c| column(&snapshot, c).into_iter().map(|v| v.unwrap_or("NULL".into())).collect::<Vec<_>>().join("|");
    assert_eq!(text_of(0), "1|2|3");
    assert_eq!(text_of(1), "a, \"b\"\nc|NULL|x");
    assert_eq!(text_of(2), "1.5|-2|NULL");
    assert_eq!(text_of(3), "19753|10956|NULL");
    assert_eq!((last.rows, last.bytes), (3, text.len() as u64));

    // Columns by name, another delimiter, values that represent NULL, the empty string in a NOT NULL column.
    let swapped = file(&dir, "y.csv", b"b|a\n|1\nx|none\n");
    let schema = Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, false)]);
    let options = CsvOptions { delimiter: b'|', ..options };
    let error = ingest_csv(writer(Arc::new(schema.clone())), &[&swapped], &options, &mut NoProgress).unwrap_err();
    assert!(
        error.to_string().ends_with("y.csv line 3, column \"a\": Error while parsing value 'none' as type 'Int32'"),
        "{error}"
    );
    let nulls = CsvOptions { null_values: vec!["none".into()], ..options.clone() };
    let error = ingest_csv(writer(Arc::new(schema)), &[&swapped], &nulls, &mut NoProgress).unwrap_err();
    assert!(
        error.to_string().ends_with("y.csv line 2, column \"b\": no value in a column that is NOT NULL"),
        "{error}"
    );
}

/// Many pieces, in order, quotes with newlines among them; a bad value late in the file.
#[test]
fn long_csv_is_cut_into_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("id,note\n");
    let count = 400_000;
    for i in 0..count {
        let note = if i % 1000 == 7 { format!("\"two\nlines {i}\"") } else { format!("note number {i}") };
        text.push_str(&format!("{i},{note}\n"));
    }
    let path = file(&dir, "long.csv", text.as_bytes());
    let schema = schema_of(&[("id", DataType::Int64), ("note", DataType::Utf8)]);
    let write = WriteOptions { segment_rows: 1 << 16, ..WriteOptions::default() };
    let into = Table::in_memory(schema.clone()).append(write).unwrap();
    let options = CsvOptions { threads: 3, ..CsvOptions::default() };
    let snapshot = ingest_csv(into, &[&path], &options, &mut NoProgress).unwrap();
    assert_eq!(snapshot.num_rows(), count);
    let ids = column(&snapshot, 0);
    assert!(ids.iter().enumerate().all(|(i, id)| id.as_deref() == Some(&i.to_string())));
    assert_eq!(column(&snapshot, 1)[1007].as_deref(), Some("two\nlines 1007"));

    let bad = text.replace("\n300000,", "\n3OOOOO,");
    let path = file(&dir, "bad.csv", bad.as_bytes());
    // A line for the header, one per row before, and one more for each of the two-line notes before.
    let line = 1 + 300_000 + 300 + 1;
    let error = ingest_csv(writer(schema.clone()), &[&path], &options, &mut NoProgress).unwrap_err().to_string();
    let expected = format!("bad.csv line {line}, column \"id\": Error while parsing value '3OOOOO' as type 'Int64'");
    assert!(error.ends_with(&expected), "{error}");
    let bad = text.replace("\n300000,", "\n300000,x,");
    let path = file(&dir, "wide.csv", bad.as_bytes());
    let error = ingest_csv(writer(schema), &[&path], &options, &mut NoProgress).unwrap_err().to_string();
    assert!(error.contains(&format!("wide.csv line {line}: incorrect number of fields")), "{error}");
}

#[test]
fn csv_headers_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "x.csv", b"a,c\n1,2\n");
    let schema = schema_of(&[("a", DataType::Int32), ("b", DataType::Int32)]);
    let error = ingest_csv(writer(schema), &[&path], &CsvOptions::default(), &mut NoProgress).unwrap_err().to_string();
    assert!(error.ends_with("x.csv line 1, column \"c\": the table has no such column"), "{error}");
    let schema = schema_of(&[("a", DataType::Int32), ("c", DataType::Int32), ("d", DataType::Int32)]);
    let error = ingest_csv(writer(schema), &[&path], &CsvOptions::default(), &mut NoProgress).unwrap_err().to_string();
    assert!(error.ends_with("column \"d\": missing in the header"), "{error}");
    let gone = ingest_csv(writer(schema_of(&[])), &[dir.path().join("none")], &CsvOptions::default(), &mut NoProgress);
    assert!(matches!(gone, Err(FormatError::Io { .. })));
}

#[test]
fn a_failed_ingest_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("id\n");
    (0..5000).for_each(|i| text.push_str(&format!("{i}\n")));
    let path = file(&dir, "x.csv", (text + "x\n").as_bytes());
    let home = dir.path().join("t");
    let schema = schema_of(&[("id", DataType::Int64)]);
    let build = Table::build(&home, schema.clone(), small()).unwrap();
    assert!(ingest_csv(build, &[&path], &CsvOptions::default(), &mut NoProgress).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let table = Table::create(&home, schema).unwrap();
    let before = std::fs::read_dir(&home).unwrap().count();
    assert!(ingest_csv(table.append(small()).unwrap(), &[&path], &CsvOptions::default(), &mut NoProgress).is_err());
    assert_eq!((std::fs::read_dir(&home).unwrap().count(), table.snapshot().unwrap().version()), (before, 1));
}
