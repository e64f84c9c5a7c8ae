//! Tables that are created and dropped under one name: no reader or writer confuses them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::*;

fn numbers(values: &[i64]) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("n", values, true)]).unwrap()
}

fn build(path: &Path, values: &[i64]) -> Arc<Table> {
    let mut writer = Table::build(path, numbers(&[]).schema(), small()).unwrap();
    writer.write(&numbers(values)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    table
}

/// The numbers of a table, all of them.
fn found(snapshot: &TableSnapshot) -> Vec<i64> {
    column(snapshot, 0).into_iter().map(|n| n.unwrap().parse().unwrap()).collect()
}

#[test]
fn snapshots_are_told_apart_where_times_are_coarse() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let set_times = || {
        for entry in std::fs::read_dir(&path).unwrap() {
            let file = std::fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(then).unwrap();
        }
    };
    let table = build(&path, &[0, 100]);
    set_times();
    let reader = Table::open(&path).unwrap();
    for round in 1..20 {
        assert_eq!(found(&reader.snapshot().unwrap()), [round - 1, round + 99]);
        Table::remove(&path).unwrap();
        build(&path, &[round, round + 100]);
        set_times();
        for handle in [&reader, &table] {
            assert_eq!(found(&handle.snapshot().unwrap()), [round, round + 100]);
        }
    }
}

#[test]
fn rows_for_one_table_do_not_get_into_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = build(&path, &[1]);
    let planned = table.snapshot().unwrap();
    let append = |rows: &[i64]| {
        let mut writer = table.append_to(&planned, small())?;
        writer.write(&numbers(rows))?;
        writer.commit()
    };
    let overwrite = || table.replace_rows(&planned, small()).map(drop);
    append(&[2]).unwrap();
    assert_eq!(found(&append(&[3]).unwrap()), [1, 2, 3]);
    let mut other = Table::open(&path).unwrap().replace(numbers(&[]).schema(), small()).unwrap();
    other.write(&numbers(&[4])).unwrap();
    other.commit().unwrap();
    assert!(matches!(append(&[5]), Err(FormatError::Replaced { .. })));
    Table::remove(&path).unwrap();
    build(&path, &[6]);
    assert!(matches!(append(&[7]), Err(FormatError::Replaced { .. })));
    assert!(matches!(overwrite(), Err(FormatError::Replaced { .. })));
    assert_eq!(found(&fresh(&path)), [6]);
    assert!(table.snapshot().unwrap().continues(&fresh(&path)));
}

#[test]
fn a_writer_whose_table_has_gone_leaves_the_next_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, aside) = (dir.path().join("t"), dir.path().join("aside"));
    let mut late = build(&path, &[1]).append(small()).unwrap();
    late.write(&numbers(&[2])).unwrap();
    // By hand, without regard to locks.
    std::fs::rename(&path, &aside).unwrap();
    build(&path, &[3]);
    assert!(matches!(late.commit(), Err(FormatError::Replaced { .. })));
    assert_eq!(found(&fresh(&path)), [3]);
    assert_eq!(found(&fresh(&aside)), [1]);
}

#[test]
fn a_damaged_table_that_is_replaced_has_no_other_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    build(&path, &[1]);
    std::fs::write(path.join("0000000000000001.manifest"), "nonsense").unwrap();
    let mut writer = Table::build_over(&path, numbers(&[]).schema(), small()).unwrap();
    assert!(matches!(Table::remove(&path), Err(FormatError::Locked { .. })));
    assert!(matches!(
        Table::build_over(&path, numbers(&[]).schema(), small()).map(drop),
        Err(FormatError::Locked { .. })
    ));
    writer.write(&numbers(&[2])).unwrap();
    writer.commit().unwrap();
    assert_eq!(found(&fresh(&path)), [2]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_may_not_be_committed_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, new) = (dir.path().join("t"), dir.path().join("new"));
    let tables = [build(&path, &[1]), Table::in_memory(numbers(&[]).schema())];
    for table in tables {
        let before = found(&table.snapshot().unwrap());
        let mut writer = table.append(small()).unwrap();
        writer.write(&numbers(&[2])).unwrap();
        writer.commit_only_if(|| false);
        assert!(matches!(writer.commit(), Err(FormatError::Cancelled)));
        assert_eq!(found(&table.snapshot().unwrap()), before);
        table.append(small()).unwrap().commit().unwrap();
    }
    let files = |path: &Path| std::fs::read_dir(path).unwrap().count();
    // Lock, data, two manifests, and the mark of the newer one.
    assert_eq!(files(&path), 5);
    let mut writer = Table::build(&new, numbers(&[]).schema(), small()).unwrap();
    writer.commit_only_if(|| false);
    assert!(matches!(writer.commit(), Err(FormatError::Cancelled)));
    assert_eq!(files(dir.path()), 1);
}

#[test]
fn a_table_in_memory_takes_no_rows_after_it_was_dropped() {
    let table = Table::in_memory(numbers(&[]).schema());
    let writer = table.append(small()).unwrap();
    assert!(matches!(table.retire(), Err(FormatError::Locked { .. })));
    writer.commit().unwrap();
    table.retire().unwrap();
    assert!(matches!(table.append(small()).map(drop), Err(FormatError::Replaced { .. })));
    table.reinstate();
    table.append(small()).unwrap().commit().unwrap();
}

#[test]
fn tables_that_come_and_go_are_never_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let kept = (reader == 0).then(|| {
                    loop {
                        if let Ok(table) = Table::open(path) {
                            break table;
                        }
                    }
                });
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = match &kept {
                        Some(table) => table.snapshot(),
                        None => Table::open(path).and_then(|table| table.snapshot()),
                    };
                    match snapshot {
                        // All rows of a table are from one round.
                        Ok(snapshot) => assert!(found(&snapshot).windows(2).all(|two| two[0] == two[1])),
                        Err(FormatError::Catalog(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let end = std::time::Instant::now() + Duration::from_millis(1500);
        let mut round = 0;
        while std::time::Instant::now() < end {
            let table = build(&path, &vec![round; 1 + round as usize % 5]);
            if round % 3 == 0 {
                let mut writer = table.append(small()).unwrap();
                writer.write(&numbers(&[round])).unwrap();
                writer.commit().unwrap();
            }
            Table::remove(&path).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}
