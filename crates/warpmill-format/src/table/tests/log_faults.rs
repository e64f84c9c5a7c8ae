//! Commits in a log beside writers that die or fail at any moment, and power failures after others have gone on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::faulty_fs::{Fault, FaultyFs};
use super::log::{append, logging, make, names};
use super::*;
use crate::table::transaction::{Change, commit};

/// A folder for a table, and one for removed files.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("attic")).unwrap();
        Self { dir }
    }

    fn table(&self) -> PathBuf {
        self.dir.path().join("t")
    }

    fn faulty(&self, fault: Fault, at: usize) -> Arc<FaultyFs> {
        FaultyFs::new(fault, at, &self.dir.path().join("attic"))
    }
}

/// Kills a writer of one row at each of its operations, lets another writer do `next`, and fails the power: what the latter has reported is there.
fn kill_and_go_on(commits: usize, next: impl Fn(Arc<FaultyFs>, &Path) -> Result<()>) {
    let mut at = 0;
    loop {
        for names in [false, true] {
            let place = Place::new();
            let path = place.table();
            let table = make(&path, 100);
            (0..commits).for_each(|_| drop(append(&table, 1).unwrap()));
            let first = place.faulty(Fault::Kill, at);
            let killed = append(&Table::open_with(first.clone(), &path).unwrap(), 1);
            if !first.struck() {
                tally("a writer of a log killed, then another, then power lost", "all that was reported", at);
                return;
            }
            let context = format!("killed at operation {at}: {killed:?}, names lost: {names}");
            let second = first.beside();
            next(second.clone(), &path).unwrap_or_else(|error| panic!("{context}: {error}"));
            let count = fresh(&path).num_rows();
            second.lose_power(names);
            let found = Table::open(&path).unwrap_or_else(|error| panic!("{context}: {error}")).snapshot().unwrap();
            assert_eq!(found.num_rows(), count, "{context}");
            assert_holds(&found, &[rows(0, count as usize)]);
            found.verify().unwrap();
            append(&Table::open(&path).unwrap(), 1).unwrap();
            assert_holds(&fresh(&path), &[rows(0, count as usize + 1)]);
        }
        at += 1;
    }
}

#[test]
fn a_record_is_appended_behind_a_dead_writers() {
    for commits in [0, 1, 2, 4] {
        kill_and_go_on(commits, |fs, path| append(&Table::open_with(fs, path)?, 1).map(drop));
    }
}

#[test]
fn a_manifest_names_a_dead_writers_log() {
    for commits in [1, 2] {
        kill_and_go_on(commits, |fs, path| append(&Table::open_with(fs, path)?, 5000).map(drop));
    }
}

#[test]
fn a_commit_of_tables_names_a_dead_writers_log() {
    kill_and_go_on(2, |fs, path| {
        let other = make(&path.with_file_name("other"), 10);
        let (one, two) =
            (Table::open_with(fs.clone(), path)?.fork()?, Table::open_with(fs, other.path().unwrap())?.fork()?);
        append(&one, 1)?;
        append(&two, 1)?;
        commit(path.parent(), &[Change::Written(one), Change::Written(two)], &[], || true)
    });
}

/// A table of two words and a dictionary, with commits in a log.
fn make_words(path: &Path) -> Vec<Option<String>> {
    let known: Vec<Option<&str>> = (0..200).map(|i| Some(["mango", "nut"][i % 2])).collect();
    let mut writer = Table::build(path, words(&[]).schema(), small()).unwrap();
    writer.write(&words(&known)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    assert!(table.snapshot().unwrap().dictionary(0).is_some());
    let mut all: Vec<Option<String>> = known.into_iter().map(|word| word.map(str::to_owned)).collect();
    for _ in 0..3 {
        all.push(Some("mango".into()));
        append_word(&table, "mango").unwrap();
    }
    all
}

fn append_word(table: &Arc<Table>, word: &str) -> Result<Arc<TableSnapshot>> {
    let mut writer = table.append(logging())?;
    writer.write(&words(&[Some(word)]))?;
    writer.commit()
}

fn set_time(path: &Path, time: SystemTime) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// The state that a reader has seen.
struct Seen {
    fork: Arc<Table>,
    rows: usize,
    modified: SystemTime,
}

/// A reader loads what a commit has written that fails then, and begins a transaction there; another commit has another word at the same place, and the
/// log gets the time that the reader has seen, as within one tick of the clock.
#[test]
fn a_failed_commit_is_not_taken_for_the_next_one() {
    let mut at = 0;
    loop {
        let place = Place::new();
        let path = place.table();
        let mut all = make_words(&path);
        let log = path.join(&names(&path, ".log")[0]);
        let reader = Table::open(&path).unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let look = {
            let (reader, seen, log) = (reader.clone(), Arc::clone(&seen), log.clone());
            move || {
                let rows = column(&reader.snapshot().unwrap(), 0).len();
                let modified = std::fs::metadata(&log).unwrap().modified().unwrap();
                seen.lock().push(Seen { fork: reader.fork().unwrap(), rows, modified });
            }
        };
        let fs = FaultyFs::striking(Fault::Error, at, &place.dir.path().join("attic"), look);
        let failed = append_word(&Table::open_with(fs.clone(), &path).unwrap(), "apple");
        if !fs.struck() {
            failed.unwrap();
            tally("commits to a log failed beside a reader", "right rows, no stale base", at);
            return;
        }
        let context = format!("fault at operation {at}: {failed:?}");
        let table = Table::open(&path).unwrap();
        if failed.is_err() {
            append_word(&table, "peach").unwrap();
            all.push(Some("peach".into()));
        } else {
            all.push(Some("apple".into()));
        }
        let Seen { fork, rows, modified } = seen.lock().pop().unwrap();
        set_time(&log, modified);
        assert_eq!(column(&reader.snapshot().unwrap(), 0), all, "{context}: {rows} rows were seen");
        assert_eq!(column(&fresh(&path), 0), all, "{context}");
        if failed.is_err() {
            let error = append_word(&fork, "zebra").map(drop).unwrap_err();
            assert!(matches!(error, FormatError::Changed { .. }), "{context}: {error}");
        }
        drop(fork);
        append_word(&reader, "grape").unwrap();
        all.push(Some("grape".into()));
        append_word(&table, "zebra").unwrap();
        all.push(Some("zebra".into()));
        for table in [&reader, &table, &Table::open(&path).unwrap()] {
            assert_eq!(column(&table.snapshot().unwrap(), 0), all, "{context}");
        }
        at += 1;
    }
}

#[test]
fn a_failed_commit_that_cannot_be_removed_stays_or_goes_as_a_whole() {
    for count in [2, 3, 100] {
        let mut at = 0;
        loop {
            let place = Place::new();
            let path = place.table();
            let table = make(&path, 100);
            (0..2).for_each(|_| drop(append(&table, 1).unwrap()));
            let fs = place.faulty(Fault::Errors(count), at);
            let own = Table::open_with(fs.clone(), &path).unwrap();
            let failed = append(&own, 1);
            if !fs.struck() {
                break;
            }
            let found = fresh(&path).num_rows() as usize;
            assert!(
                found == 103 || found == 102 && failed.is_err(),
                "{count} faults at {at}: {failed:?}, {found} rows"
            );
            assert_eq!(own.snapshot().unwrap().num_rows() as usize, found);
            append(&Table::open_with(fs.beside(), &path).unwrap(), 1).unwrap();
            fs.lose_power(true);
            assert_holds(&fresh(&path), &[rows(0, found + 1)]);
            at += 1;
        }
    }
}

/// Appends a row, and merges none.
fn append_alone(table: &Arc<Table>) {
    let mut writer = table.append(logging()).unwrap();
    let first = writer.base().unwrap().num_rows() as usize;
    writer.write(&rows(first, 1)).unwrap();
    writer.commit().unwrap();
}

#[test]
fn power_failures_leave_anything_in_the_tail() {
    let place = Place::new();
    let path = place.table();
    let table = make(&path, 10);
    (0..3).for_each(|_| drop(append(&table, 1).unwrap()));
    let log = path.join(&names(&path, ".log")[0]);
    let before = std::fs::read(&log).unwrap().len();
    append(&table, 1).unwrap();
    let whole = std::fs::read(&log).unwrap();
    let (record, half) = (whole.len() - before, before + (whole.len() - before) / 2);
    let zeros_from = |from: usize| [&whole[..from], &vec![0; whole.len() - from]].concat();
    let garbage: Vec<u8> = (0..record).map(|i| (i * 7919 % 251) as u8).collect();
    let late_pages = [&whole[..before], &vec![0; half - before], &whole[half..]].concat();
    for (at, bytes) in
        [zeros_from(before), zeros_from(half), [&whole[..before], &garbage].concat(), late_pages].iter().enumerate()
    {
        let copy = place.dir.path().join(format!("copy{at}"));
        std::fs::create_dir(&copy).unwrap();
        for name in ["LOCK", ".manifest", ".data"].iter().flat_map(|kind| names(&path, kind)) {
            std::fs::copy(path.join(&name), copy.join(&name)).unwrap();
        }
        std::fs::write(copy.join(log.file_name().unwrap()), bytes).unwrap();
        let table = Table::open(&copy).unwrap();
        assert_holds(&table.snapshot().unwrap(), &[rows(0, 13)]);
        for count in [14, 15] {
            append_alone(&table);
            assert_holds(&fresh(&copy), &[rows(0, count)]);
        }
        fresh(&copy).verify().unwrap();
        // A reader that has it as a data file finds the same file again.
        let reader = Table::open(&copy).unwrap();
        let files = |table: &Table| -> Vec<_> {
            let snapshot = table.snapshot().unwrap();
            let is_old = |file: &&Arc<data_file::DataFile>| file.name() == log.file_name().unwrap().to_str().unwrap();
            snapshot.files().iter().filter(is_old).cloned().collect()
        };
        let first = files(&reader);
        append_alone(&table);
        let next = files(&reader);
        assert_eq!((first.len(), next.len()), (1, 1));
        assert!(Arc::ptr_eq(&first[0], &next[0]));
    }
}

#[test]
fn a_log_without_its_manifest_is_not_the_next_ones() {
    let place = Place::new();
    let path = place.table();
    let table = make(&path, 10);
    append(&table, 1).unwrap();
    append(&table, 1).unwrap();
    let log = std::fs::read(path.join(&names(&path, ".log")[0])).unwrap();
    let mut writer = table.append(logging()).unwrap();
    writer.write(&rows(12, 3000)).unwrap();
    std::fs::write(path.join("0000000000000004.log"), &log).unwrap();
    writer.commit().unwrap();
    assert_holds(&fresh(&path), &[rows(0, 3012)]);
    append(&table, 1).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 3013)]);
    // In a transaction.
    let own = table.fork().unwrap();
    let mut writer = own.append(logging()).unwrap();
    writer.write(&rows(3013, 3000)).unwrap();
    writer.commit().unwrap();
    std::fs::write(path.join("0000000000000006.log"), &log).unwrap();
    commit(Some(place.dir.path()), &[Change::Written(own)], &[], || true).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 6013)]);
}

/// The version that a new reader finds when it opens the table, without looking again.
fn opened(path: &Path) -> Arc<TableSnapshot> {
    Table::open(path).unwrap().last_snapshot().unwrap()
}

#[test]
fn readers_never_go_back() {
    let place = Place::new();
    let path = place.table();
    let table = make(&path, 10);
    let (done, count) = (AtomicBool::new(false), AtomicUsize::new(10));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let before = count.load(Ordering::Acquire);
                    let found = opened(&path).num_rows() as usize;
                    assert!(found >= before, "{found} rows after {before}");
                }
            });
        }
        for step in 0..400 {
            // Each second one has a manifest, and removes the log before.
            let mut writer = table.append(WriteOptions { log: step % 4 != 3, ..logging() }).unwrap();
            let first = writer.base().unwrap().num_rows() as usize;
            writer.merge_small(0).unwrap();
            writer.write(&rows(first, 1)).unwrap();
            count.store(writer.commit().unwrap().num_rows() as usize, Ordering::Release);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A record in the place of another one that a reader has decoded, with another dictionary of the same generation.
#[test]
fn chunks_are_not_shared_with_another_dictionary_of_the_same_generation() {
    let place = Place::new();
    let path = place.table();
    let mut all = make_words(&path);
    let log = path.join(&names(&path, ".log")[0]);
    let before = std::fs::metadata(&log).unwrap().len();
    append_word(&Table::open(&path).unwrap(), "apple").unwrap();
    let reader = Table::open(&path).unwrap();
    assert_eq!(column(&reader.snapshot().unwrap(), 0).last().unwrap().as_deref(), Some("apple"));
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(before).unwrap();
    std::fs::remove_file(path.join(&names(&path, ".committed")[0])).unwrap();
    append_word(&Table::open(&path).unwrap(), "peach").unwrap();
    set_time(&log, SystemTime::now() + std::time::Duration::from_secs(1));
    all.push(Some("peach".into()));
    assert_eq!(column(&reader.snapshot().unwrap(), 0), all);
    assert_eq!(column(&fresh(&path), 0), all);
}

/// The files of a folder, with their bytes.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// A reader that has opened the manifest, here a pipe, does not find the log any more, because a later manifest has taken its place.
#[test]
fn a_log_goes_while_a_reader_opens_the_table() {
    use std::io::Write;
    let place = Place::new();
    let path = place.table();
    let table = make(&path, 10);
    (0..3).for_each(|_| drop(append(&table, 1).unwrap()));
    let earlier = files(&path);
    for count in [5000, 1] {
        let mut writer = table.append(small()).unwrap();
        writer.merge_small(0).unwrap();
        let first = writer.base().unwrap().num_rows() as usize;
        writer.write(&rows(first, count)).unwrap();
        writer.commit().unwrap();
    }
    let later: Vec<_> = files(&path).into_iter().filter(|(path, _)| !path.ends_with("LOCK")).collect();
    let is_data = |path: &Path| path.extension().is_some_and(|extension| extension == "data");
    later.iter().filter(|(path, _)| !is_data(path)).for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    let pipe = path.join("0000000000000002.manifest");
    let (mut manifest, log) = (vec![], path.join("0000000000000002.log"));
    for (path, bytes) in earlier {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("manifest") => manifest = bytes,
            Some("committed") => {}
            _ => std::fs::write(&path, &bytes).unwrap(),
        }
    }
    assert!(log.exists() && std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| opened(&path).num_rows());
        // Waits for the reader.
        let mut out = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        for (path, bytes) in later.iter().filter(|(path, _)| !is_data(path)) {
            std::fs::write(path, bytes).unwrap();
        }
        std::fs::remove_file(&log).unwrap();
        std::fs::remove_file(&pipe).unwrap();
        out.write_all(&manifest).unwrap();
        drop(out);
        assert_eq!(reader.join().unwrap(), 5014);
    });
}
