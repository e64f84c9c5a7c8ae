//! Small commits in a log: whole or not at all, with any fault, beside readers and other writers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::faulty_fs::{Fault, FaultyFs};
use super::processes::kill_a_child;
use super::*;
use crate::table::transaction::{Change, commit, end};

pub(super) fn logging() -> WriteOptions {
    WriteOptions { log: true, ..small() }
}

pub(super) fn make(path: &Path, count: usize) -> Arc<Table> {
    let mut writer = Table::build(path, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, count)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    table
}

/// Appends rows that continue those of the table, as an INSERT does.
pub(super) fn append(table: &Arc<Table>, count: usize) -> Result<Arc<TableSnapshot>> {
    let mut writer = table.append(logging())?;
    writer.merge_tail()?;
    let first = writer.base().unwrap().num_rows() as usize;
    writer.write(&rows(first, count))?;
    writer.commit()
}

pub(super) fn names(path: &Path, extension: &str) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(extension)).collect();
    names.sort();
    names
}

#[test]
fn rows_that_come_one_by_one_make_few_files_and_row_segments() {
    let dir = tempfile::tempdir().unwrap();
    for base in [0, 1500] {
        let path = dir.path().join(format!("t{base}"));
        let (table, other) = (make(&path, base), Table::open(&path).unwrap());
        for step in 1..=300 {
            let snapshot = append(&table, 1).unwrap();
            assert_eq!(snapshot.version(), 1 + step as u64);
            // Another reader has it at once, and who opens the table too.
            assert_eq!(other.snapshot().unwrap().num_rows() as usize, base + step);
            if step % 50 == 0 {
                assert_holds(&snapshot, &[rows(0, base + step)]);
                assert_holds(&other.snapshot().unwrap(), &[rows(0, base + step)]);
                let found = fresh(&path);
                assert_holds(&found, &[rows(0, base + step)]);
                found.verify().unwrap();
            }
            assert!(snapshot.num_segments() <= 24, "{} row segments", snapshot.num_segments());
        }
        let files = std::fs::read_dir(&path).unwrap().count();
        assert!(files < 16, "{files} files");
        assert!(!names(&path, ".log").is_empty());
    }
}

#[test]
fn logs_end_and_their_rows_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    append(&table, 1).unwrap();
    append(&table, 1).unwrap();
    assert_eq!(names(&path, ".log"), ["0000000000000002.log"]);
    // A large write has a manifest, which names the log as a data file; later small ones have another log.
    append(&table, 5000).unwrap();
    assert_eq!(fresh(&path).version(), 4);
    assert_eq!(names(&path, ".log"), ["0000000000000002.log"]);
    append(&table, 1).unwrap();
    assert_eq!(names(&path, ".log"), ["0000000000000002.log", "0000000000000004.log"]);
    let found = fresh(&path);
    assert_holds(&found, &[rows(0, 5013)]);
    found.verify().unwrap();
    // All rows in one: nothing needs the logs any more.
    let mut writer = table.append(small()).unwrap();
    writer.merge_small(0).unwrap();
    writer.commit().unwrap();
    append(&table, 3000).unwrap();
    append(&table, 3000).unwrap();
    assert!(names(&path, ".log").len() <= 1, "{:?}", names(&path, ".log"));
    assert_holds(&fresh(&path), &[rows(0, 11_013)]);
}

#[test]
fn new_strings_join_the_dictionary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut writer = Table::build(&path, words(&[]).schema(), small()).unwrap();
    writer.write(&words(&[Some("m"), None, Some("z")])).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let mut all: Vec<Option<String>> = vec![Some("m".into()), None, Some("z".into())];
    for step in 0..1500u64 {
        // New strings at all places, known ones, NULL.
        let word = match step % 7 {
            0 => None,
            1 => all[step as usize / 2].clone(),
            _ => Some(format!("{:x}", step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)),
        };
        let mut writer = table.append(logging()).unwrap();
        writer.merge_tail().unwrap();
        writer.write(&words(&[word.as_deref()])).unwrap();
        all.push(word);
        let snapshot = writer.commit().unwrap();
        if step % 100 == 0 {
            assert_eq!(column(&snapshot, 0), all);
            assert_eq!(column(&fresh(&path), 0), all);
        }
        if step == 500 {
            assert!(snapshot.dictionary(0).is_some());
        }
    }
    // More strings than a dictionary of so few rows has.
    let found = fresh(&path);
    assert!(found.dictionary(0).is_none());
    assert_eq!(column(&found, 0), all);
    found.verify().unwrap();
}

#[test]
fn changes_of_few_rows_are_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 0);
    for _ in 0..20 {
        append(&table, 1).unwrap();
    }
    let mut writer = table.append(logging()).unwrap();
    let mut changes = Changes::new(writer.base().unwrap(), vec![]);
    assert!((5..20).all(|row| changes.delete(row)));
    writer.change(&changes).unwrap();
    writer.commit().unwrap();
    assert_holds(&fresh(&path), &[rows(0, 5)]);
    let mut writer = table.append(logging()).unwrap();
    let mut changes = Changes::new(writer.base().unwrap(), (0..rows(0, 0).num_columns()).collect());
    let values = changes.add_values(rows(100, 5).columns()).unwrap();
    assert!((0..5).all(|row| changes.update(row, values, row as usize)));
    writer.change(&changes).unwrap();
    writer.commit().unwrap();
    assert_holds(&fresh(&path), &[rows(100, 5)]);
    assert_eq!(names(&path, ".manifest").len(), 1);
    assert_eq!(fresh(&path).version(), 23);
}

#[test]
fn versions_in_logs_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let keeping = || WriteOptions { keep_versions: 6, ..logging() };
    for step in 0..5 {
        let mut writer = table.append(keeping()).unwrap();
        writer.write(&rows(10 + step, 1)).unwrap();
        writer.commit().unwrap();
    }
    let mut writer = table.append(keeping()).unwrap();
    writer.write(&rows(15, 2000)).unwrap();
    writer.commit().unwrap();
    let mut writer = table.append(keeping()).unwrap();
    writer.write(&rows(2015, 1)).unwrap();
    writer.commit().unwrap();
    for (version, count) in [(4, 13), (5, 14), (6, 15), (7, 2015), (8, 2016)] {
        let found = Table::open(&path).unwrap().snapshot_at(version).unwrap();
        assert_holds(&found, &[rows(0, count)]);
        assert_eq!(found.version(), version);
    }
    let error = table.snapshot_at(9).unwrap_err().to_string();
    assert!(error.contains("4, 5, 6, 7, 8"), "{error}");
    // Keeping one version means that earlier logs go with the next write.
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(2016, 1)).unwrap();
    writer.commit().unwrap();
    assert!(table.snapshot_at(6).is_err());
    assert_holds(&fresh(&path), &[rows(0, 2017)]);
}

/// Runs `write` on a copy of the same table with a fault at each operation in turn: the rows are `old` or `new`.
pub(super) fn strike_everywhere(
    prepare: impl Fn(&Path),
    write: impl Fn(Arc<FaultyFs>, &Path) -> Result<()>,
    (old, new): (usize, usize),
) {
    for fault in [Fault::Error, Fault::PowerLoss { names: false }, Fault::PowerLoss { names: true }] {
        let mut at = 0;
        loop {
            let dir = tempfile::tempdir().unwrap();
            let (path, attic) = (dir.path().join("t"), dir.path().join("attic"));
            std::fs::create_dir(&attic).unwrap();
            prepare(&path);
            let fs = FaultyFs::new(fault, at, &attic);
            // A reader that has the table open all the time.
            let reader = Table::open(&path).unwrap();
            let written = write(fs.clone(), &path);
            if !fs.struck() {
                written.unwrap();
                assert_holds(&fresh(&path), &[rows(0, new)]);
                assert_holds(&reader.snapshot().unwrap(), &[rows(0, new)]);
                break;
            }
            fs.lose();
            let context = format!("{fault:?} at operation {at}: {written:?}");
            let found = fresh(&path);
            let count = found.num_rows() as usize;
            // A commit that has been reported is there.
            assert!(count == new || count == old && written.is_err(), "{context}: {count} rows");
            assert_holds(&found, &[rows(0, count)]);
            found.verify().unwrap();
            assert_eq!(reader.snapshot().unwrap().num_rows() as usize, count, "{context}");
            // The next writers work whatever was left behind, in logs or not.
            let table = Table::open(&path).unwrap();
            for (step, more) in [1, 1, 1200, 1].into_iter().enumerate() {
                let before = table.snapshot().unwrap().num_rows() as usize;
                append(&table, more).unwrap();
                assert_holds(&fresh(&path), &[rows(0, before + more)]);
                assert_eq!(reader.snapshot().unwrap().num_rows() as usize, before + more, "{context}, step {step}");
            }
            assert!(names(&path, ".tmp").is_empty(), "{context}");
            at += 1;
        }
        tally(&format!("{fault:?} in a log"), "old or new version", at);
    }
}

#[test]
fn faults_at_the_first_commit_of_a_log() {
    let prepare = |path: &Path| {
        let table = make(path, 100);
        append(&table, 1).unwrap();
    };
    let write = |fs: Arc<FaultyFs>, path: &Path| append(&Table::open_with(fs, path)?, 1).map(drop);
    strike_everywhere(prepare, write, (101, 102));
}

#[test]
fn faults_at_a_later_commit() {
    let prepare = |path: &Path| {
        let table = make(path, 100);
        (0..6).for_each(|_| drop(append(&table, 1).unwrap()));
    };
    let write = |fs: Arc<FaultyFs>, path: &Path| append(&Table::open_with(fs, path)?, 1).map(drop);
    strike_everywhere(prepare, write, (106, 107));
}

#[test]
fn faults_where_a_log_begins_and_where_it_ends() {
    let write = |fs: Arc<FaultyFs>, path: &Path| append(&Table::open_with(fs, path)?, 1).map(drop);
    strike_everywhere(|path| drop(make(path, 100)), write, (100, 101));
    let prepare = |path: &Path| {
        let table = make(path, 100);
        (0..3).for_each(|_| drop(append(&table, 1).unwrap()));
    };
    let write = |fs: Arc<FaultyFs>, path: &Path| append(&Table::open_with(fs, path)?, 4000).map(drop);
    strike_everywhere(prepare, write, (103, 4103));
}

#[test]
fn faults_in_a_transaction() {
    let prepare = |path: &Path| {
        let table = make(path, 100);
        (0..3).for_each(|_| drop(append(&table, 1).unwrap()));
    };
    let write = |fs: Arc<FaultyFs>, path: &Path| {
        let own = Table::open_with(fs, path)?.fork()?;
        let written = (0..5).try_for_each(|_| append(&own, 1).map(drop));
        match written {
            Ok(()) => commit(Some(path.parent().unwrap()), &[Change::Written(own)], &[], || true),
            Err(error) => {
                end([own]);
                Err(error)
            }
        }
    };
    strike_everywhere(prepare, write, (103, 108));
}

#[test]
fn statements_of_a_transaction_write_nothing_before_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    append(&table, 1).unwrap();
    append(&table, 1).unwrap();
    let files = |path: &Path| std::fs::read_dir(path).unwrap().count();
    let before = files(&path);
    for commits in [false, true] {
        let own = table.fork().unwrap();
        for step in 0..40 {
            let snapshot = append(&own, 1).unwrap();
            assert_holds(&snapshot, &[rows(0, 13 + step)]);
        }
        assert_eq!(files(&path), before);
        assert_eq!(fresh(&path).num_rows(), 12);
        match commits {
            true => commit(Some(dir.path()), &[Change::Written(own)], &[], || true).unwrap(),
            false => end([own]),
        }
    }
    // One record.
    assert_eq!((files(&path), names(&path, ".log").len()), (before, 1));
    assert_eq!((table.snapshot().unwrap().version(), fresh(&path).version()), (4, 4));
    assert_holds(&table.snapshot().unwrap(), &[rows(0, 52)]);
    assert_holds(&fresh(&path), &[rows(0, 52)]);
    // With another table, each has a manifest.
    let other = make(&dir.path().join("other"), 10);
    let (one, two) = (table.fork().unwrap(), other.fork().unwrap());
    append(&one, 1).unwrap();
    append(&two, 1).unwrap();
    commit(Some(dir.path()), &[Change::Written(one), Change::Written(two)], &[], || true).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 53)]);
    assert_holds(&fresh(&dir.path().join("other")), &[rows(0, 11)]);
    append(&table, 1).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 54)]);
}

#[test]
fn remains_of_a_dead_writer_are_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    for _ in 0..4 {
        append(&table, 1).unwrap();
    }
    let log = path.join(&names(&path, ".log")[0]);
    let whole = std::fs::read(&log).unwrap();
    let record = whole[whole.len() / 2..].to_vec();
    for remains in [&b"x"[..], &[0; 200], &whole[64..100], &record] {
        let copy = dir.path().join(format!("copy{}", remains.len()));
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let mut bytes = whole.clone();
        bytes.extend_from_slice(remains);
        std::fs::write(copy.join(log.file_name().unwrap()), &bytes).unwrap();
        let table = Table::open(&copy).unwrap();
        assert_holds(&table.snapshot().unwrap(), &[rows(0, 14)]);
        // Nothing is appended behind them.
        append(&table, 1).unwrap();
        assert_eq!(std::fs::read(copy.join(log.file_name().unwrap())).unwrap(), bytes);
        append(&table, 1).unwrap();
        let found = fresh(&copy);
        assert_holds(&found, &[rows(0, 16)]);
        found.verify().unwrap();
    }
}

#[test]
fn damage_of_a_log_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    for _ in 0..6 {
        append(&table, 1).unwrap();
    }
    let log = path.join(&names(&path, ".log")[0]);
    let whole = std::fs::read(&log).unwrap();
    let open = || Table::open(&path).and_then(|table| table.snapshot());
    let mut tried = 0;
    for at in (0..whole.len()).step_by(if std::env::var_os("WARPMILL_QUICK").is_some() { 97 } else { 13 }) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&log, &bytes).unwrap();
        match open() {
            Err(FormatError::Corrupt { path, .. }) => assert_eq!(path, log),
            Err(error) => panic!("byte {at}: {error}"),
            // Bytes that mean nothing.
            Ok(found) => assert_holds(&found, &[rows(0, 16)]),
        }
        tried += 1;
    }
    tally("bytes of a log flipped", "an error, or right rows", tried);
    for length in (0..whole.len()).step_by(101) {
        std::fs::write(&log, &whole[..length]).unwrap();
        assert!(matches!(open(), Err(FormatError::Corrupt { .. })), "cut to {length} bytes");
    }
    std::fs::remove_file(&log).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("missing, although version 7 was committed"), "{error}");
    std::fs::write(&log, &whole).unwrap();
    assert_holds(&open().unwrap(), &[rows(0, 16)]);
    // That of another manifest.
    let other = make(&dir.path().join("other"), 10);
    append(&other, 1).unwrap();
    std::fs::write(dir.path().join("other").join(log.file_name().unwrap()), &whole).unwrap();
    let error = Table::open(&dir.path().join("other")).unwrap_err().to_string();
    assert!(error.contains("the log of another manifest"), "{error}");
}

#[test]
fn readers_are_undisturbed_and_writers_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, 20);
    // As in two processes: each has its own objects.
    let (one, two) = (Table::open(&path).unwrap(), Table::open(&path).unwrap());
    let first = one.snapshot().unwrap();
    let write = |table: &Arc<Table>| {
        let mut written = 0;
        while written < 150 {
            match append(table, 1 + written % 3) {
                Ok(_) => written += 1,
                Err(FormatError::Locked { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let (own, mut last) = (Table::open(&path).unwrap(), 0);
            while !done.load(Ordering::Relaxed) {
                let found = own.snapshot().unwrap();
                assert!(found.num_rows() >= last);
                last = found.num_rows();
                assert_holds(&found, &[rows(0, last as usize)]);
                assert_holds(&first, &[rows(0, 20)]);
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let writers = [scope.spawn(|| write(&one)), scope.spawn(|| write(&two))];
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let found = fresh(&path);
    assert_eq!(found.version(), 301);
    assert_holds(&found, &[rows(0, 20 + 2 * 300)]);
    found.verify().unwrap();
}

/// Set for the child process only: the table to append to.
const CHILD: &str = "WARPMILL_TEST_LOG_TO";

/// Not a test by itself: the killed process runs it.
#[test]
fn append_forever() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let table = Table::open(Path::new(&path)).unwrap();
    loop {
        append(&table, 3).unwrap();
    }
}

#[test]
fn killed_writers_leave_whole_commits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, 0);
    let mut last = 0;
    for round in 0..12u64 {
        kill_a_child("log::append_forever", CHILD, &path, round);
        let snapshot = fresh(&path);
        let found = snapshot.num_rows() as usize;
        assert!(found.is_multiple_of(3) && found >= last, "{found} rows after {last}");
        assert_holds(&snapshot, &[rows(0, found)]);
        last = found;
    }
    tally("processes that append to logs killed", "whole commits", 12);
    assert!(last > 0, "no child came to commit anything");
    append(&Table::open(&path).unwrap(), 1).unwrap();
}
