//! Memory and work of readers and writers of logs.

use super::log::{append, make, names};
use super::*;
use crate::table::record::MOST_RECORD_BYTES;
use crate::table::transaction::{Change, commit};

/// Bytes of files in memory that a snapshot keeps.
fn held(snapshot: &TableSnapshot) -> u64 {
    snapshot.files().iter().map(|file| file.held_bytes()).sum()
}

/// Bytes of records of logs that `snapshot` keeps, but for those of the log of the newest manifest.
fn held_of_old_logs(path: &Path, snapshot: &TableSnapshot) -> u64 {
    let newest = names(path, ".manifest").pop().unwrap().replace(".manifest", ".log");
    snapshot.files().iter().filter(|file| file.name() != newest).map(|file| file.held_bytes()).sum()
}

#[test]
fn a_polling_reader_keeps_little() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let reader = Table::open(&path).unwrap();
    let mut most = [0; 2];
    for step in 0..2000 {
        let own = append(&table, 1).unwrap();
        let read = reader.snapshot().unwrap();
        assert_eq!(read.num_rows(), 11 + step);
        most = [most[0].max(held(&own)), most[1].max(held(&read))];
        // A record has the bytes of its version alone: a row, or some that were merged, and a dictionary.
        let records = read.files().iter().filter(|file| file.held_bytes() > 0).count();
        assert!(held(&read) <= (records * MOST_RECORD_BYTES) as u64 && records <= 60, "{records} records");
        assert_eq!((held_of_old_logs(&path, &own), held_of_old_logs(&path, &read)), (0, 0), "step {step}");
    }
    assert!(most.iter().all(|most| *most < 1 << 20), "{most:?} bytes");
    assert_holds(&reader.snapshot().unwrap(), &[rows(0, 2010)]);
}

#[test]
fn records_are_let_go_with_their_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let reader = Table::open(&path).unwrap();
    for transaction in [false, true] {
        let first = table.snapshot().unwrap().num_rows() as usize;
        for _ in 0..5 {
            append(&table, 1).unwrap();
            reader.snapshot().unwrap();
        }
        assert!(held(&table.snapshot().unwrap()) > 0 && held(&reader.snapshot().unwrap()) > 0);
        match transaction {
            true => {
                let own = table.fork().unwrap();
                append(&own, 5000).unwrap();
                commit(Some(dir.path()), &[Change::Written(own)], &[], || true).unwrap();
            }
            false => drop(append(&table, 5000).unwrap()),
        }
        for table in [&table, &reader] {
            let found = table.snapshot().unwrap();
            assert_eq!(held(&found), 0);
            assert_holds(&found, &[rows(0, first + 5005)]);
            found.verify().unwrap();
        }
    }
}

#[test]
fn a_transaction_of_many_statements_keeps_little() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    append(&table, 1).unwrap();
    let own = table.fork().unwrap();
    // Large enough that a record has no room for them all.
    for step in 0..60 {
        let snapshot = append(&own, 200).unwrap();
        let most = MOST_RECORD_BYTES as u64 + (64 << 10);
        assert!(held(&snapshot) <= most, "{} bytes after {step} statements", held(&snapshot));
    }
    assert_holds(&own.snapshot().unwrap(), &[rows(0, 12_011)]);
    commit(Some(dir.path()), &[Change::Written(own)], &[], || true).unwrap();
    assert_holds(&table.snapshot().unwrap(), &[rows(0, 12_011)]);
    let found = fresh(&path);
    assert_holds(&found, &[rows(0, 12_011)]);
    found.verify().unwrap();
}

/// A reader does not read again what it has: it does not notice that it has been damaged.
#[test]
fn a_reader_reads_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    for _ in 0..5 {
        append(&table, 1).unwrap();
    }
    let reader = Table::open(&path).unwrap();
    let log = path.join(&names(&path, ".log")[0]);
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[64 + 300] ^= 1;
    // In place: another file is read as a whole.
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    assert!(Table::open(&path).is_err());
    let first = reader.snapshot().unwrap();
    append(&reader, 1).unwrap();
    let other = table.snapshot().unwrap();
    for table in [&reader, &table] {
        let found = table.snapshot().unwrap();
        assert_holds(&found, &[rows(0, 16)]);
        let chunk = |snapshot: &TableSnapshot| snapshot.parts().segments[0].columns[0].clone();
        assert!(Arc::ptr_eq(&chunk(&first), &chunk(&found)) || Arc::ptr_eq(&chunk(&other), &chunk(&found)));
    }
    // The log in another file, of the same bytes: read as a whole, with the damage.
    let copy = path.join("copy");
    std::fs::copy(&log, &copy).unwrap();
    std::fs::rename(&copy, &log).unwrap();
    assert!(matches!(reader.snapshot(), Err(FormatError::Corrupt { .. })));
}

#[test]
fn the_seal_of_a_version_is_the_same_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let reader = Table::open(&path).unwrap();
    let mut before = fresh(&path);
    for step in 0..12 {
        match step % 4 {
            3 => {
                let own = table.fork().unwrap();
                append(&own, if step == 3 { 1 } else { 5000 }).unwrap();
                commit(Some(dir.path()), &[Change::Written(own)], &[], || true).unwrap();
            }
            2 => drop(append(&table, 5000).unwrap()),
            _ => drop(append(&table, 1).unwrap()),
        }
        let own = table.snapshot().unwrap();
        for other in [reader.snapshot().unwrap(), fresh(&path), fresh(&path)] {
            assert!(own.is_same_version(&other) && other.is_same_version(&own), "step {step}");
            assert!(!before.is_same_version(&other));
        }
        before = own;
    }
}
