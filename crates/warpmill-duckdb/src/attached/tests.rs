//! Tests of attached databases without DuckDB.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use warpmill_format::{ColumnStats, StatValue};

use super::Kind;
use super::append::Append;
use super::bounds::{Bound, Comparison};
use super::database::Database;
use super::scan::Scan;
use super::transaction::Transaction;

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(rows))]).unwrap()
}

fn rows(transaction: &Transaction, bounds: &[Bound]) -> usize {
    let table = transaction.table("main", "t").unwrap().unwrap();
    let scan = Scan::new(&table, vec![0], bounds).unwrap();
    std::iter::from_fn(|| scan.next_rows().unwrap()).map(|rows| rows.batch.num_rows()).sum()
}

#[test]
fn transactions_are_warpmills() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = Arc::new(Database::open(path.to_str().unwrap(), false).unwrap());
    let begin = || Transaction::begin(&database).unwrap();
    let one = begin();
    one.execute("CREATE TABLE t (x BIGINT)").unwrap();
    let append = Append::new(&one, "\"main\".\"t\"".into(), &batch(0..0).schema()).unwrap();
    append.push(batch(0..5)).unwrap();
    assert_eq!(append.finish(), Ok(5));
    assert_eq!(rows(&one, &[]), 5);
    assert!(begin().table("main", "t").unwrap().is_none());
    one.commit().unwrap();
    let other = begin();
    assert_eq!((rows(&other, &[]), other.tables("main").unwrap()), (5, vec!["t".to_string()]));
    let above = Bound { column: 0, comparison: Comparison::Greater(StatValue::Int(4)) };
    assert_eq!(rows(&other, &[above]), 0);
    // The append is dropped before it is finished.
    let append = Append::new(&other, "\"main\".\"t\"".into(), &batch(0..0).schema()).unwrap();
    append.push(batch(5..9)).unwrap();
    drop(append);
    assert_eq!(rows(&other, &[]), 5);
    drop(other);
    assert_eq!(rows(&begin(), &[]), 5);
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("file"), "x").unwrap();
    for (name, read_only) in [("file", false), ("none", true), ("none/deeper", false)] {
        assert_eq!(Database::open(&path(name), read_only).unwrap_err().kind, Kind::Io, "{name}");
    }
}

#[test]
fn statistics_leave_out_what_cannot_match() {
    let int = StatValue::Int;
    let stats = |nulls| ColumnStats { rows: 10, nulls, min: Some(int(3)), max: Some(int(7)), ..ColumnStats::default() };
    for (comparison, may_hold) in [
        (Comparison::Equal(int(2)), false),
        (Comparison::Equal(int(3)), true),
        (Comparison::Less(int(3)), false),
        (Comparison::LessOrEqual(int(3)), true),
        (Comparison::Greater(int(7)), false),
        (Comparison::GreaterOrEqual(int(7)), true),
        (Comparison::Equal(StatValue::Str("a".into())), true),
        (Comparison::IsNull, false),
        (Comparison::IsNotNull, true),
    ] {
        assert_eq!(comparison.may_hold(&stats(0)), may_hold, "{comparison:?}");
    }
    assert!(Comparison::IsNull.may_hold(&stats(1)) && !Comparison::IsNotNull.may_hold(&stats(10)));
    // A column with NaN has no bounds.
    let unknown = ColumnStats { rows: 10, ..ColumnStats::default() };
    assert!(Comparison::Less(StatValue::Float(0.0)).may_hold(&unknown));
}

#[test]
fn zones_leave_out_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = Arc::new(Database::open(path.to_str().unwrap(), false).unwrap());
    let transaction = Transaction::begin(&database).unwrap();
    for setting in ["segment_rows = 8192", "zone_rows = 1024", "pruning_metadata = 'minmax'"] {
        transaction.execute(&format!("SET warpmill.{setting}")).unwrap();
    }
    let sql =
        "CREATE TABLE t AS SELECT i AS x, CASE WHEN i % 10000 >= 5 THEN i::DOUBLE END AS f FROM range(20000) r(i)";
    transaction.execute(sql).unwrap();
    let read = |column: usize, comparison: Comparison| rows(&transaction, &[Bound { column, comparison }]);
    let int = StatValue::Int;
    assert_eq!(read(0, Comparison::Equal(int(5000))), 1024);
    assert_eq!(read(0, Comparison::Equal(int(-1))), 0);
    assert_eq!(read(0, Comparison::GreaterOrEqual(int(19_999))), 20_000 - 19 * 1024);
    assert_eq!(read(0, Comparison::Less(int(1024))), 2 * 1024);
    assert_eq!(read(1, Comparison::IsNull), 2 * 1024);
    assert_eq!(read(1, Comparison::Greater(StatValue::Float(19_998.5))), 20_000 - 19 * 1024);
    assert_eq!(read(1, Comparison::IsNotNull), 20_000);
    let table = transaction.table("main", "t").unwrap().unwrap();
    let bounds = [
        Bound { column: 0, comparison: Comparison::GreaterOrEqual(int(8100)) },
        Bound { column: 0, comparison: Comparison::LessOrEqual(int(8200)) },
    ];
    let scan = Scan::new(&table, vec![0], &bounds).unwrap();
    let parts: Vec<(usize, u64, usize)> = std::iter::from_fn(|| scan.next_rows().unwrap())
        .map(|rows| (rows.place, rows.first, rows.batch.num_rows()))
        .collect();
    assert_eq!(parts, [(0, 7168, 1024), (1, 8192, 1024)]);
    assert_eq!((scan.parts(), scan.finished()), (2, 2));
}
