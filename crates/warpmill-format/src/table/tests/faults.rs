//! A fault at every operation of every kind of commit leaves exactly the old or exactly the new version.

use super::faulty_fs::{Fault, FaultyFs};
use super::*;

const FAULTS: [Fault; 3] = [Fault::Error, Fault::PowerLoss { names: false }, Fault::PowerLoss { names: true }];

/// Runs `write` on a copy of the same table with a fault at each operation in turn. `old` and `new` are the rows before and after; `old` is `None` if
/// there is no table yet.
fn strike_everywhere(
    prepare: impl Fn(&Path),
    write: impl Fn(Arc<FaultyFs>, &Path) -> Result<Arc<TableSnapshot>>,
    old: Option<Vec<RecordBatch>>,
    new: &[RecordBatch],
) {
    // Quick runs, as in CI, inject a fault at each third operation, with different operations for each fault.
    let step = if std::env::var_os("WARPMILL_QUICK").is_some() { FAULTS.len() } else { 1 };
    for (first, fault) in FAULTS.into_iter().enumerate() {
        let mut at = if step > 1 { first } else { 0 };
        loop {
            let dir = tempfile::tempdir().unwrap();
            let (path, attic) = (dir.path().join("t"), dir.path().join("attic"));
            std::fs::create_dir(&attic).unwrap();
            prepare(&path);
            let fs = FaultyFs::new(fault, at, &attic);
            let written = write(fs.clone(), &path);
            if !fs.struck() {
                assert_holds(&written.unwrap(), new);
                assert!(at >= 10, "only {at} operations");
                let names = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
                let files = names.filter(|name| name.ends_with(".data")).count();
                assert!(files > 2, "{files} data files: none was made durable behind the next");
                break;
            }
            fs.lose();
            let context = format!("{fault:?} at operation {at}: {:?}", written.as_ref().map(|s| s.version()));
            let rows = |batches: &[RecordBatch]| batches.iter().map(|b| b.num_rows() as u64).sum::<u64>();
            match (Table::open(&path), &old) {
                (Ok(table), old) => {
                    let found = table.snapshot().unwrap();
                    let is_new = found.num_rows() == rows(new);
                    // A commit that has been reported is there.
                    assert!(is_new || written.is_err(), "{context}");
                    match old {
                        _ if is_new => assert_holds(&found, new),
                        Some(old) => assert_holds(&found, old),
                        None => panic!("{context}: a table of {} rows", found.num_rows()),
                    }
                    found.verify().unwrap();
                    // The next writer works whatever was left behind.
                    let mut next = table.append(small()).unwrap();
                    next.write(&rows_of_no_version()).unwrap();
                    assert_eq!(next.commit().unwrap().num_rows(), found.num_rows() + 10, "{context}");
                    assert_eq!(leftovers(&path), 0, "{context}");
                }
                (Err(FormatError::Catalog(_)), None) if written.is_err() => {
                    let mut next = Table::build(&path, rows_of_no_version().schema(), small()).unwrap();
                    next.write(&rows_of_no_version()).unwrap();
                    assert_eq!(next.commit().unwrap().num_rows(), 10, "{context}");
                    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "{context}");
                }
                (Err(error), _) => panic!("{context}: {error}"),
            }
            at += step;
        }
        tally(&format!("{fault:?}"), "old or new version", at / step);
    }
}

fn rows_of_no_version() -> RecordBatch {
    rows(1_000_000, 10)
}

/// Temporary files in the table's directory.
fn leftovers(path: &Path) -> usize {
    let names = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).count()
}

fn prepare(path: &Path) {
    let mut writer = Table::build(path, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 1100)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(1100, 100)).unwrap();
    writer.commit().unwrap();
}

#[test]
fn build() {
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let mut writer = Table::build_with(fs, path, rows(0, 0).schema(), small(), None)?;
        writer.write(&rows(0, 1300))?;
        writer.commit()
    };
    strike_everywhere(|_| {}, write, None, &[rows(0, 1300)]);
}

#[test]
fn append() {
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let mut writer = Table::open_with(fs, path)?.append(small())?;
        writer.write(&rows(1200, 2500))?;
        writer.commit()
    };
    strike_everywhere(prepare, write, Some(vec![rows(0, 1200)]), &[rows(0, 1200), rows(1200, 2500)]);
}

#[test]
fn replace() {
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let mut writer = Table::open_with(fs, path)?.replace(rows(0, 0).schema(), small())?;
        writer.write(&rows(5000, 1500))?;
        writer.commit()
    };
    strike_everywhere(prepare, write, Some(vec![rows(0, 1200)]), &[rows(5000, 1500)]);
}

/// Deletes rows 100 to 1199 of the prepared table.
#[test]
fn delete() {
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let mut writer = Table::open_with(fs, path)?.append(small())?;
        let mut changes = Changes::new(writer.base().unwrap(), vec![]);
        assert!((100..1200).all(|row| changes.delete(row)));
        writer.change(&changes)?;
        writer.commit()
    };
    strike_everywhere(prepare, write, Some(vec![rows(0, 1200)]), &[rows(0, 100)]);
}

/// Changes rows of all columns and adds others, as MERGE does.
#[test]
fn update_and_insert() {
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let mut writer = Table::open_with(fs, path)?.append(small())?;
        let all = (0..rows(0, 0).num_columns()).collect();
        let mut changes = Changes::new(writer.base().unwrap(), all);
        let values = changes.add_values(rows(5000, 1200).columns())?;
        assert!((0..1200).all(|row| changes.update(row, values, row as usize)));
        writer.change(&changes)?;
        writer.write(&rows(6200, 300))?;
        writer.commit()
    };
    strike_everywhere(prepare, write, Some(vec![rows(0, 1200)]), &[rows(5000, 1500)]);
}
