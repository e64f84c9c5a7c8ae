//! Rows that are deleted where they are: marked, beside what is stored.

use super::faulty_fs::FaultyFs;
use super::log::{append, logging, make, names, strike_everywhere};
use super::log_damage::{Edit, crafted};
use super::*;
use crate::pruning::{Lookup, Metadata, Sideways};
use crate::table::transaction::{Change, commit, end};

/// Options with which deleted rows are marked however few rows a row segment has.
pub(super) fn marking() -> WriteOptions {
    WriteOptions { least_marked: 1, ..logging() }
}

/// Deletes stored rows.
pub(super) fn delete(table: &Arc<Table>, gone: &[u64], options: WriteOptions) -> Result<Arc<TableSnapshot>> {
    let mut writer = table.append(options)?;
    let mut changes = Changes::new(writer.base().unwrap(), vec![]);
    assert!(gone.iter().all(|&row| changes.delete(row)));
    writer.change(&changes)?;
    writer.commit()
}

/// The rows from 0 to `count` without those `gone`.
fn without(count: usize, gone: &[u64]) -> Vec<RecordBatch> {
    (0..count).filter(|row| !gone.contains(&(*row as u64))).map(|row| rows(row, 1)).collect()
}

/// A table in a directory of 4 row segments of 1024 rows with all pruning metadata, and a log.
fn logged(path: &Path) -> Arc<Table> {
    let options = WriteOptions { metadata: Metadata::All, zone_rows: 1024, ..small() };
    let mut writer = Table::build(path, rows(0, 0).schema(), options).unwrap();
    writer.write(&rows(0, 4096)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    // The first small commit makes the manifest that has a log.
    delete(&table, &[7], marking()).unwrap();
    table
}

#[test]
fn a_deletion_is_a_short_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let (table, reader) = (logged(&path), Table::open(&path).unwrap());
    let mut gone = vec![7];
    for row in [8, 2000, 4095, 6, 0, 1023] {
        let before = fresh(&path);
        let bytes =
            |path: &Path| names(path, ".log").iter().map(|log| path.join(log).metadata().unwrap().len()).sum::<u64>();
        let had = bytes(&path);
        let snapshot = delete(&table, &[row], marking()).unwrap();
        gone.push(row);
        assert!(bytes(&path) - had < 4096, "{} bytes", bytes(&path) - had);
        for found in [snapshot, fresh(&path), reader.snapshot().unwrap()] {
            assert_holds(&found, &without(4096, &gone));
            found.verify().unwrap();
            assert_eq!((found.num_segments(), found.stored_rows()), (4, 4096));
            assert_eq!(found.zone_maps().len(), 1);
        }
        assert_holds(&before, &without(4096, &gone[..gone.len() - 1]));
    }
    assert_eq!(names(&path, ".manifest").len(), 1);
    let manifest = std::fs::read(path.join(&names(&path, ".manifest")[0])).unwrap();
    assert!(manifest.starts_with(b"warpmill-manifest 8 "));
    // A large write gives the log's deletions a manifest.
    append(&table, 3000).unwrap();
    let found = fresh(&path);
    assert_eq!((found.num_rows(), found.stored_rows()), (4096 - 7 + 3000, 4096 + 3000));
    found.verify().unwrap();
}

#[test]
fn row_segments_that_lose_much_are_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    for table in [make(&dir.path().join("t"), 4096), Table::in_memory(rows(0, 0).schema())] {
        if table.path().is_none() {
            let mut writer = table.append(small()).unwrap();
            writer.write(&rows(0, 4096)).unwrap();
            writer.commit().unwrap();
        }
        let gone: Vec<u64> = (0..512).chain(1024..1024 + 513).chain(2048..3072).collect();
        let found = delete(&table, &gone, marking()).unwrap();
        assert_holds(&found, &without(4096, &gone));
        let sizes = |found: &TableSnapshot| -> Vec<(usize, usize)> {
            (0..found.num_segments()).map(|s| (found.segment_rows(s), found.kept_rows(s))).collect()
        };
        assert_eq!(sizes(&found), [(1024, 512), (511, 511), (1024, 1024)]);
        // One more of a row segment that has lost half: the rows that went before go, too.
        let found = delete(&table, &[600], marking()).unwrap();
        let gone: Vec<u64> = gone.into_iter().chain([600]).collect();
        assert_holds(&found, &without(4096, &gone));
        assert_eq!(sizes(&found), [(511, 511), (511, 511), (1024, 1024)]);
        // Few rows, with the usual options.
        let found = delete(&table, &[0], small()).unwrap();
        assert_eq!(sizes(&found), [(510, 510), (511, 511), (1024, 1024)]);
        found.verify().unwrap();
    }
}

#[test]
fn views_of_a_table_have_its_deletions() {
    let dir = tempfile::tempdir().unwrap();
    let table = make(&dir.path().join("t"), 4096);
    let gone = [0, 5, 1500, 4095];
    let found = delete(&table, &gone, marking()).unwrap();
    let (part, numbered) = (found.part(1..3), found.numbered("row").unwrap());
    assert_eq!((part.num_rows(), part.stored_rows()), (2047, 2048));
    assert_eq!((numbered.num_rows(), numbered.stored_rows()), (4092, 4096));
    let last = numbered.schema().fields().len() - 1;
    let kept = (0..4096).filter(|row| !gone.contains(row)).map(|row| Some(row.to_string()));
    assert!(column(&numbered, last).into_iter().eq(kept));
    let with_kept = numbered.with_kept().unwrap().unwrap();
    assert!(!with_kept.has_deletions() && with_kept.num_rows() == 4096 && with_kept.with_kept().unwrap().is_none());
    let at = with_kept.schema().fields().len() - 1;
    let kept: Vec<_> = (0..4096).map(|row| Some(u8::from(!gone.contains(&row)).to_string())).collect();
    assert_eq!(column(&with_kept, at), kept);
    for segment in 0..4 {
        let (made, said) = (with_kept.segment(segment, at).unwrap(), with_kept.segment_stats(segment, at));
        assert_eq!((&made.stats().min, &made.stats().max, made.stats().rows), (&said.min, &said.max, said.rows));
    }
}

#[test]
fn faults_at_deletions() {
    let last = |table: &Arc<Table>| table.snapshot().unwrap().stored_rows() - 1;
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let table = Table::open_with(fs, path)?;
        delete(&table, &[last(&table)], marking()).map(drop)
    };
    strike_everywhere(|path| drop(make(path, 100)), write, (100, 99));
    let prepare = |path: &Path| {
        let table = make(path, 1500);
        (0..3).for_each(|_| drop(append(&table, 1).unwrap()));
        (0..2).for_each(|_| drop(delete(&table, &[last(&table)], marking()).unwrap()));
        append(&table, 2).unwrap();
    };
    strike_everywhere(prepare, write, (1503, 1502));
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let own = Table::open_with(fs, path)?.fork()?;
        let written = delete(&own, &[last(&own)], marking()).and_then(|_| append(&own, 3));
        match written {
            Ok(_) => commit(Some(path.parent().unwrap()), &[Change::Written(own)], &[], || true),
            Err(error) => {
                end([own]);
                Err(error)
            }
        }
    };
    strike_everywhere(prepare, write, (1503, 1505));
}

#[test]
fn logs_of_version_7_get_no_deletions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, 5000);
    (0..3).for_each(|_| drop(append(&Table::open(&path).unwrap(), 1).unwrap()));
    // As an earlier build has written it.
    let manifest = path.join(&names(&path, ".manifest")[0]);
    let text = String::from_utf8(std::fs::read(&manifest).unwrap()).unwrap();
    let old = text.replacen("warpmill-manifest 8 ", "warpmill-manifest 7 ", 1);
    std::fs::write(&manifest, &old).unwrap();
    let log = path.join(&names(&path, ".log")[0]);
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[24..32].copy_from_slice(&xxhash_rust::xxh3::xxh3_64(&old.as_bytes()[..64]).to_le_bytes());
    std::fs::write(&log, &bytes).unwrap();
    let table = Table::open(&path).unwrap();
    let manifest = |path: &Path| std::fs::read(path.join(names(path, ".manifest").last().unwrap())).unwrap();
    // Another record is one of version 7, too.
    append(&table, 1).unwrap();
    assert!(manifest(&path).starts_with(b"warpmill-manifest 7 "));
    let log = names(&path, ".log").pop().unwrap();
    let bytes = path.join(&log).metadata().unwrap().len();
    delete(&table, &[0], marking()).unwrap();
    assert!(manifest(&path).starts_with(b"warpmill-manifest 8 "));
    assert_eq!(path.join(&log).metadata().unwrap().len(), bytes);
    let found = fresh(&path);
    assert_eq!((found.num_rows(), found.stored_rows()), (5003, 5004));
    found.verify().unwrap();
}

#[test]
fn crafted_deletions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = logged(&path);
    delete(&table, &[2000, 2001], marking()).unwrap();
    let log = path.join(&names(&path, ".log")[0]);
    let whole = std::fs::read(&log).unwrap();
    let edits: [Edit; 16] = [
        |text| text["deletions"][0][0] = 99.into(),
        |text| text["deletions"][0][0] = (-1).into(),
        |text| text["deletions"][0][0] = 2.into(),
        |text| text["deletions"][0][1]["count"] = 0.into(),
        |text| text["deletions"][0][1]["count"] = 1.into(),
        |text| text["deletions"][0][1]["count"] = 3.into(),
        |text| text["deletions"][0][1]["count"] = 1024.into(),
        |text| text["deletions"][0][1]["count"] = u64::MAX.into(),
        |text| text["deletions"][0][1]["kept"]["file"] = 77.into(),
        |text| text["deletions"][0][1]["kept"]["bytes"] = (1_u64 << 40).into(),
        |text| text["deletions"][0][1]["kept"]["offset"] = 65.into(),
        |text| text["deletions"][0][1]["kept"]["generation"] = 0.into(),
        |text| text["deletions"][0][1]["kept"]["nulls"] = 1.into(),
        |text| text["deletions"][0][1]["kept"]["max"] = serde_json::json!({"int": "2"}),
        |text| text["deletions"][0][1]["kept"]["encoding"] = "Constant".into(),
        |text| text["deletions"][0][1] = serde_json::json!({"count": 1}),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        std::fs::write(&log, crafted(&whole, edit)).unwrap();
        let found = Table::open(&path).and_then(|table| table.snapshot()?.verify());
        // In another row segment the same rows may as well be deleted.
        assert!(number == 2 || matches!(found, Err(FormatError::Corrupt { .. })), "edit {number}: {found:?}");
    }
    tally("crafted records of deletions", "an error", edits.len() - 1);
    std::fs::write(&log, &whole).unwrap();
    assert_holds(&fresh(&path), &without(4096, &[7, 2000, 2001]));
    // A manifest of an earlier format version has none.
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(0, 1)).unwrap();
    writer.commit().unwrap();
    let manifest = path.join(names(&path, ".manifest").last().unwrap());
    let text = String::from_utf8(std::fs::read(&manifest).unwrap()).unwrap();
    std::fs::write(&manifest, text.replacen("warpmill-manifest 8 ", "warpmill-manifest 7 ", 1)).unwrap();
    let error = Table::open(&path).unwrap_err().to_string();
    assert!(error.contains("deleted rows in a manifest of format version 7"), "{error}");
}

/// Rows of a key and a text, which is NULL where the key is a multiple of 10.
fn pairs(keys: std::ops::Range<i64>) -> RecordBatch {
    let texts = keys.clone().map(|key| (key % 10 != 0).then(|| format!("text {key}")));
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values(keys)), true),
        ("s", Arc::new(StringArray::from_iter(texts)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn keys_of_deleted_rows_are_free() {
    for columns in [vec![0], vec![1], vec![0, 1]] {
        let table = Table::in_memory(pairs(0..0).schema());
        let mut writer = table.append(marking()).unwrap();
        let unique = Constraint::Unique { columns: columns.clone(), index: None };
        writer.declare(vec![unique]).unwrap();
        writer.commit().unwrap();
        let insert = |keys: std::ops::Range<i64>| -> Result<()> {
            let mut writer = table.append(marking())?;
            writer.write(&pairs(keys))?;
            writer.commit().map(drop)
        };
        insert(1..3000).unwrap();
        let found = delete(&table, &[1, 2, 3, 1500, 2998], marking()).unwrap();
        assert!(found.has_deletions());
        assert!(matches!(insert(5..6), Err(FormatError::Constraint(_))), "{columns:?}");
        assert!(matches!(insert(1000..2500), Err(FormatError::Constraint(_))), "{columns:?}");
        // One, several, and as many as are looked up otherwise.
        insert(2..3).unwrap();
        insert(3..5).unwrap();
        for again in [2..3, 4..5, 3..5] {
            assert!(matches!(insert(again.clone()), Err(FormatError::Constraint(_))), "{columns:?}: {again:?}");
        }
        let mut writer = table.append(marking()).unwrap();
        let mut changes = Changes::new(writer.base().unwrap(), columns.clone());
        let own = pairs(2999..3000);
        let values: Vec<ArrayRef> = columns.iter().map(|&column| own.column(column).clone()).collect();
        let batch = changes.add_values(&values).unwrap();
        // A key that has been deleted, for a row that has another one.
        assert!(changes.update(9, batch, 0));
        writer.change(&changes).unwrap();
        writer.commit().unwrap().verify().unwrap();
        assert!(matches!(insert(2999..3000), Err(FormatError::Constraint(_))), "{columns:?}");
    }
}

#[test]
fn columns_whose_nulls_are_deleted_become_not_null() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut writer = Table::build(&path, pairs(0..0).schema(), small()).unwrap();
    writer.write(&pairs(0..2000)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let key = || vec![Constraint::PrimaryKey(vec![1])];
    let nulls: Vec<u64> = (0..2000).step_by(10).collect();
    delete(&table, &nulls[1..], marking()).unwrap();
    assert!(matches!(table.append(marking()).unwrap().declare(key()), Err(FormatError::NotNull { .. })));
    delete(&table, &nulls[..1], marking()).unwrap();
    let mut writer = table.append(marking()).unwrap();
    writer.declare(key()).unwrap();
    writer.commit().unwrap();
    let found = fresh(&path);
    assert!(!found.schema().field(1).is_nullable() && found.has_deletions());
    assert_eq!(found.num_rows(), 1800);
    found.verify().unwrap();
    let mut writer = table.append(small()).unwrap();
    assert!(writer.merge_small(0).unwrap());
    assert_eq!(writer.commit().unwrap().column_stats(1).nulls, 0);
}

#[test]
fn metadata_by_keys_of_another_table_know_its_deletions() {
    let table = Table::in_memory(pairs(0..0).schema());
    let mut writer = table.append(small()).unwrap();
    writer.write(&pairs(1..2000)).unwrap();
    let before = writer.commit().unwrap();
    let after = delete(&table, &[4], marking()).unwrap();
    assert_ne!(before.fingerprint(0, 1), after.fingerprint(0, 1));
    let ranks = |table: &Arc<TableSnapshot>| {
        let attributes = vec!["s".to_owned()];
        let sideways =
            Sideways { column: "k".into(), name: "p".into(), table: table.clone(), key: "k".into(), attributes };
        Lookup::new(&sideways, 0).unwrap().ranks_of(0, [Some(5), Some(6)].into_iter())
    };
    let (was, is) = (ranks(&before), ranks(&after));
    assert!(was[0].is_some() && is[0].is_none() && was[1] == is[1]);
}
