//! Keys against a naive look at all rows.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema};

use super::*;
use crate::FormatError;
use crate::table::manifest::Manifest;
use crate::table::tests::{fresh, schema_of, small};
use crate::table::{Changes, Table, WriteOptions};

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn unique(columns: &[usize]) -> Constraint {
    Constraint::Unique { columns: columns.to_vec(), index: None }
}

/// A table in memory with a unique column `k` of the array's type.
fn table_of(array: &ArrayRef) -> Arc<Table> {
    let schema = schema_of(&[("k", array.data_type().clone())]);
    let table = Table::in_memory(schema);
    let mut writer = table.append(small()).unwrap();
    writer.declare(vec![unique(&[0])]).unwrap();
    writer.commit().unwrap();
    table
}

fn append(table: &Arc<Table>, columns: Vec<ArrayRef>) -> crate::Result<()> {
    let batch = RecordBatch::try_new(table.snapshot().unwrap().schema().clone(), columns).unwrap();
    let mut writer = table.append(small())?;
    writer.write(&batch)?;
    writer.commit().map(drop)
}

fn text(result: crate::Result<()>) -> String {
    match result {
        Err(FormatError::Constraint(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_of_all_types_are_compared_and_named() {
    let decimals = |values: Vec<Option<i128>>| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap())
    };
    let day = 18_262;
    let cases: Vec<(ArrayRef, ArrayRef, &str)> = vec![
        (Arc::new(Int32Array::from(vec![i32::MIN, 0])), Arc::new(Int32Array::from(vec![i32::MIN])), "k: -2147483648"),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX, 0])),
            Arc::new(UInt64Array::from(vec![1, u64::MAX])),
            "k: 18446744073709551615",
        ),
        (
            Arc::new(Float64Array::from(vec![f64::NAN, 0.0])),
            Arc::new(Float64Array::from(vec![f64::from_bits(f64::NAN.to_bits() | 1 | 1 << 63)])),
            "k: nan",
        ),
        (Arc::new(Float64Array::from(vec![0.0])), Arc::new(Float64Array::from(vec![-0.0])), "k: 0.0"),
        (decimals(vec![Some(150), Some(i128::MAX / 4)]), decimals(vec![None, Some(150)]), "k: 1.50"),
        (Arc::new(Date32Array::from(vec![day])), Arc::new(Date32Array::from(vec![day])), "k: 2020-01-01"),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1_577_872_800_000_000])),
            Arc::new(TimestampMicrosecondArray::from(vec![1_577_872_800_000_000])),
            "k: 2020-01-01 10:00:00",
        ),
        (Arc::new(StringArray::from(vec!["", "ä'x"])), Arc::new(StringArray::from(vec!["z", "ä'x"])), "k: ä'x"),
        (
            Arc::new(BinaryArray::from(vec![b"a\x00\\".as_slice()])),
            Arc::new(BinaryArray::from(vec![b"a\x00\\".as_slice()])),
            "k: a\\x00\\x5C",
        ),
    ];
    for (first, second, key) in cases {
        let table = table_of(&first);
        append(&table, vec![first.clone()]).unwrap();
        let error = text(append(&table, vec![second.clone()]));
        assert_eq!(error, format!("Duplicate key \"{key}\" violates unique constraint."));
        let both = arrow::compute::concat(&[&first, &second]).unwrap();
        assert_eq!(text(append(&table_of(&first), vec![both])), error);
        assert_eq!(table.snapshot().unwrap().num_rows(), first.len() as u64);
    }
}

#[test]
fn nulls_are_in_conflict_with_none() {
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None, Some(1)]));
    let table = table_of(&nulls);
    append(&table, vec![nulls.clone()]).unwrap();
    append(&table, vec![nulls.slice(0, 2)]).unwrap();
    assert!(text(append(&table, vec![nulls])).contains("k: 1"));
}

/// Rows with columns `a` (integers) and `b` (texts) that have few distinct values.
fn random_rows(random: &mut Random, count: usize, values: u64) -> RecordBatch {
    let mut value = || (random.below(10) > 0).then(|| random.below(values) as i64);
    let a: Vec<Option<i64>> = (0..count).map(|_| value()).collect();
    let b: Vec<Option<String>> = (0..count).map(|_| value().map(|value| format!("text {value}"))).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(a)), Arc::new(StringArray::from(b))];
    RecordBatch::try_new(schema_of(&[("a", DataType::Int64), ("b", DataType::Utf8)]), columns).unwrap()
}

fn rows_of(batch: &RecordBatch) -> Vec<[Option<String>; 2]> {
    let columns: Vec<_> = batch.columns().iter().map(crate::table::tests::expected).collect();
    (0..batch.num_rows()).map(|row| [columns[0][row].clone(), columns[1][row].clone()]).collect()
}

/// Whether two rows have one key.
fn has_twice(rows: &[[Option<String>; 2]], key: &[usize]) -> bool {
    let mut seen = HashSet::new();
    rows.iter().any(|row| {
        let key: Option<Vec<&String>> = key.iter().map(|column| row[*column].as_ref()).collect();
        key.is_some_and(|key| !seen.insert(key))
    })
}

#[test]
fn random_writes_are_as_a_naive_look_says() {
    let mut random = Random(7);
    let (mut taken, mut refused) = (0, 0);
    for key in [vec![0], vec![1], vec![0, 1], vec![1, 0]] {
        for (values, count) in [(30, 3), (4000, 60), (1 << 20, 1500), (1 << 40, 3000)] {
            let table = Table::in_memory(random_rows(&mut random, 0, 1).schema());
            let mut writer = table.append(small()).unwrap();
            writer.declare(vec![unique(&key)]).unwrap();
            writer.commit().unwrap();
            let mut rows: Vec<[Option<String>; 2]> = vec![];
            for _ in 0..12 {
                let base = table.snapshot().unwrap();
                let mut writer = table.append(small()).unwrap();
                let mut next = rows.clone();
                // Some rows are deleted, and some are updated in one column.
                let changed = random.below(2) as usize;
                let mut changes = Changes::new(&base, vec![changed]);
                let new = random_rows(&mut random, 8, values);
                let batch = changes.add_values(&[new.column(changed).clone()]).unwrap();
                let new = rows_of(&new);
                let mut gone = vec![];
                for (at, values) in new.iter().enumerate().take(rows.len()) {
                    let row = random.below(rows.len() as u64) as usize;
                    if random.below(2) == 0 {
                        if changes.delete(row as u64) {
                            gone.push(row);
                        }
                    } else if changes.update(row as u64, batch, at) {
                        next[row][changed] = values[changed].clone();
                    }
                }
                gone.sort_unstable();
                gone.iter().rev().for_each(|row| drop(next.remove(*row)));
                let size = random.below(count) as usize;
                let added = random_rows(&mut random, size, values);
                next.extend(rows_of(&added));
                let written = writer.change(&changes).and_then(|()| writer.write(&added));
                let written = written.and_then(|()| writer.commit());
                match &written {
                    Ok(_) => taken += 1,
                    Err(FormatError::Constraint(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                assert_eq!(written.is_err(), has_twice(&next, &key), "key {key:?} of {values}");
                if written.is_ok() {
                    rows = next;
                }
                assert_eq!(table.snapshot().unwrap().num_rows(), rows.len() as u64);
            }
        }
    }
    assert!(taken > 20 && refused > 20, "{taken} taken, {refused} refused");
}

#[test]
fn changes_of_other_columns_free_no_keys() {
    let schema = schema_of(&[("a", DataType::Int64), ("b", DataType::Int64)]);
    let table = Table::in_memory(schema);
    let mut writer = table.append(small()).unwrap();
    writer.declare(vec![unique(&[0])]).unwrap();
    writer.commit().unwrap();
    let numbers = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    append(&table, vec![numbers(&[1, 2]), numbers(&[0, 0])]).unwrap();
    let base = table.snapshot().unwrap();
    let mut writer = table.append(small()).unwrap();
    let mut changes = Changes::new(&base, vec![1]);
    let batch = changes.add_values(&[numbers(&[5])]).unwrap();
    changes.update(0, batch, 0);
    writer.change(&changes).unwrap();
    let row = RecordBatch::try_new(base.schema().clone(), vec![numbers(&[1]), numbers(&[1])]).unwrap();
    writer.write(&row).unwrap();
    assert!(text(writer.commit().map(drop)).contains("a: 1"));
}

#[test]
fn keys_are_kept_and_looked_after_when_the_table_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let schema = schema_of(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let mut writer = Table::build(&path, schema, small()).unwrap();
    writer.declare(vec![Constraint::PrimaryKey(vec![0])]).unwrap();
    writer.commit().unwrap();
    let manifest = std::fs::read_to_string(path.join("0000000000000001.manifest")).unwrap();
    assert!(manifest.starts_with("warpmill-manifest 5 "), "{manifest}");
    assert!(manifest.contains(r#""constraints":[{"primary_key":[0]}]"#), "{manifest}");
    let table = Table::open(&path).unwrap();
    let numbers = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let words = |count: usize| -> ArrayRef { Arc::new(StringArray::from(vec!["x"; count])) };
    append(&table, vec![numbers(vec![Some(1), Some(2)]), words(2)]).unwrap();
    let other = Table::open(&path).unwrap();
    let key = "Duplicate key \"a: 2\" violates primary key constraint.";
    assert_eq!(text(append(&other, vec![numbers(vec![Some(3), Some(2)]), words(2)])), key);
    // Rows that replace all others are checked, too; another table of that name has no keys.
    let base = other.snapshot().unwrap();
    let mut writer = other.replace_rows(&base, small()).unwrap();
    writer
        .write(&RecordBatch::try_new(base.schema().clone(), vec![numbers(vec![Some(2), Some(2)]), words(2)]).unwrap())
        .unwrap();
    assert_eq!(text(writer.commit().map(drop)), key);
    let nulls =
        RecordBatch::try_from_iter_with_nullable([("a", numbers(vec![None]), true), ("b", words(1), true)]).unwrap();
    let mut writer = other.append(small()).unwrap();
    assert_eq!(writer.write(&nulls).unwrap_err().to_string(), "NOT NULL constraint failed: t.a");
    drop(writer);
    other.replace(base.schema().clone(), small()).unwrap().commit().unwrap();
    assert_eq!(fresh(&path).constraints().len(), 0);
    let newest = path.join("0000000000000003.manifest");
    assert!(std::fs::read_to_string(newest).unwrap().starts_with("warpmill-manifest 1 "));
}

#[test]
fn keys_are_declared_of_rows_that_are_there() {
    let table = Table::in_memory(schema_of(&[("a", DataType::Int64), ("b", DataType::Int64)]));
    let numbers = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let many: Vec<Option<i64>> = (0..3000).map(Some).collect();
    let same = (0..3000).map(|row| if row == 2999 { Some(5) } else { Some(row) }).collect();
    append(&table, vec![numbers(many), numbers(same)]).unwrap();
    append(&table, vec![numbers(vec![None]), numbers(vec![Some(-1)])]).unwrap();
    let planned = table.snapshot().unwrap();
    let declare = |constraint: Constraint| -> crate::Result<()> {
        let mut writer = table.append(small())?;
        writer.declare(vec![constraint])?;
        writer.commit().map(drop)
    };
    assert!(text(declare(unique(&[1]))).contains("b: 5"));
    assert!(matches!(declare(Constraint::PrimaryKey(vec![0])), Err(FormatError::NotNull { .. })));
    assert!(matches!(declare(Constraint::Check("a > 0".into())), Err(FormatError::Catalog(_))));
    declare(unique(&[0])).unwrap();
    let declared = table.snapshot().unwrap();
    assert_eq!((declared.num_rows(), declared.constraints().len()), (3001, 1));
    assert!(!declared.continues(&planned));
    assert!(matches!(table.append_to(&planned, small()), Err(FormatError::Replaced { .. })));
    assert!(text(append(&table, vec![numbers(vec![Some(2999)]), numbers(vec![None])])).contains("a: 2999"));
}

/// Refuses rows whose first column is negative.
struct NotNegative([usize; 1]);

impl RowCheck for NotNegative {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn check(&self, columns: &[ArrayRef], rows: usize) -> crate::Result<()> {
        assert_eq!((columns.len(), columns[0].len()), (1, rows));
        let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&columns[0]);
        match numbers.iter().flatten().any(|number| number < 0) {
            true => Err(FormatError::Constraint("negative".into())),
            false => Ok(()),
        }
    }
}

#[test]
fn conditions_are_asked_of_new_rows_and_new_values() {
    let table = Table::in_memory(schema_of(&[("a", DataType::Int64), ("b", DataType::Int64)]));
    let mut writer = table.append(small()).unwrap();
    writer.declare(vec![Constraint::Check("b >= 0".into())]).unwrap();
    writer.commit().unwrap();
    let numbers = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    // Without an evaluator.
    assert!(matches!(append(&table, vec![numbers(&[1]), numbers(&[1])]), Err(FormatError::Catalog(_))));
    let base = table.snapshot().unwrap();
    let batch =
        |a: &[i64], b: &[i64]| RecordBatch::try_new(base.schema().clone(), vec![numbers(a), numbers(b)]).unwrap();
    let checked = || {
        let mut writer = table.append(small()).unwrap();
        writer.check_by(Arc::new(NotNegative([1])));
        writer
    };
    let mut writer = checked();
    writer.write(&batch(&[-1, 2], &[1, 2])).unwrap();
    assert_eq!(text(writer.write(&batch(&[1], &[-2]))), "negative");
    drop(writer);
    let mut writer = checked();
    writer.write(&batch(&[-1, 2], &[1, 2])).unwrap();
    let base = writer.commit().unwrap();
    for (column, fits) in [(0, true), (1, false)] {
        let mut writer = checked();
        let mut changes = Changes::new(&base, vec![column]);
        let values = changes.add_values(&[numbers(&[-7])]).unwrap();
        changes.update(1, values, 0);
        assert_eq!(writer.change(&changes).is_ok(), fits);
    }
}

#[test]
fn keys_take_no_more_memory_than_allowed() {
    let table = table_of(&(Arc::new(Int64Array::from(vec![0])) as ArrayRef));
    let options = WriteOptions { key_bytes: 1000, ..small() };
    let mut writer = table.append(options).unwrap();
    let schema = table.snapshot().unwrap().schema().clone();
    let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let error = writer.write(&RecordBatch::try_new(schema, vec![many]).unwrap()).unwrap_err();
    assert!(matches!(error, FormatError::Memory(_)), "{error}");
}

#[test]
fn manifests_have_constraints_that_fit() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))), true),
    ]);
    assert_eq!(
        check(&[Constraint::PrimaryKey(vec![0]), unique(&[1, 0]), Constraint::Check("x".into())], &schema),
        Ok(())
    );
    let primary = || Constraint::PrimaryKey(vec![0]);
    let long = "x".repeat(MOST_TEXT + 1);
    for (constraints, words) in [
        (vec![primary(), primary()], "two primary keys"),
        (vec![Constraint::PrimaryKey(vec![1])], "may be null"),
        (vec![unique(&[])], "without columns"),
        (vec![unique(&[3])], "not there"),
        (vec![unique(&[usize::MAX])], "not there"),
        (vec![unique(&[1, 1])], "twice"),
        (vec![unique(&[2])], "of type"),
        (vec![Constraint::Check(String::new())], "empty"),
        (vec![Constraint::Check(long.clone())], "too long"),
        (vec![Constraint::Unique { columns: vec![0], index: Some(long.clone()) }], "too long"),
        (vec![unique(&[0]); MOST + 1], "at most"),
    ] {
        let error = check(&constraints, &schema).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn older_manifests_have_no_constraints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut writer = Table::build(&path, schema_of(&[("a", DataType::Int64)]), small()).unwrap();
    writer.declare(vec![unique(&[0])]).unwrap();
    writer.commit().unwrap();
    let bytes = std::fs::read_to_string(path.join("0000000000000001.manifest")).unwrap();
    assert!(Manifest::from_bytes(bytes.as_bytes(), Path::new("m")).is_ok());
    let older = bytes.replacen("warpmill-manifest 5 ", "warpmill-manifest 4 ", 1);
    let error = Manifest::from_bytes(older.as_bytes(), Path::new("m")).unwrap_err().to_string();
    assert!(error.contains("constraints in a manifest of format version 4"), "{error}");
}
