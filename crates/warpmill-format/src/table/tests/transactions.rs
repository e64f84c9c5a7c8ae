//! Transactions over several tables: all of their changes are made, or none, with any fault.

use std::collections::BTreeMap;

use super::faulty_fs::{Fault, FaultyFs};
use super::processes::kill_a_child;
use super::*;
use crate::table::leftovers::HiddenFolder;
use crate::table::transaction::{Change, FileChange, FolderChange, commit, commit_with_folders, end};

fn make(path: &Path, batch: &RecordBatch) {
    let mut writer = Table::build(path, batch.schema(), small()).unwrap();
    writer.write(batch).unwrap();
    writer.commit().unwrap();
}

fn append(table: &Arc<Table>, batch: &RecordBatch) -> Result<Arc<TableSnapshot>> {
    let mut writer = table.append(small())?;
    writer.write(batch)?;
    writer.commit()
}

/// The rows of each table in `folder` and the schemas in it, after unfinished commits have been finished.
fn found(folder: &Path) -> BTreeMap<String, u64> {
    journal::finish(folder).unwrap();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut all = BTreeMap::new();
    for name in names.filter(|name| !name.starts_with('.')) {
        match name.ends_with(".schema") {
            true => all
                .extend(found(&folder.join(&name)).into_iter().map(|(table, rows)| (format!("{name}/{table}"), rows))),
            false => {
                let table = Table::open(&folder.join(&name)).unwrap();
                all.insert(name, table.snapshot().unwrap().num_rows());
            }
        }
    }
    all
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn statements_see_each_other_and_others_see_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, &rows(0, 1000));
    let table = Table::open(&path).unwrap();
    let own = table.fork().unwrap();
    assert_holds(&append(&own, &rows(1000, 1500)).unwrap(), &[rows(0, 2500)]);
    // Several writes of one version have separate files.
    let mut writer = own.append(small()).unwrap();
    let mut changes = Changes::new(writer.base().unwrap(), vec![]);
    assert!((0..500).all(|row| changes.delete(row)));
    writer.change(&changes).unwrap();
    writer.write(&rows(2500, 700)).unwrap();
    writer.commit().unwrap();
    let expected = rows(500, 2700);
    assert_holds(&own.snapshot().unwrap(), std::slice::from_ref(&expected));
    assert_holds(&table.snapshot().unwrap(), &[rows(0, 1000)]);
    assert!(matches!(append(&table, &rows(0, 1)), Err(FormatError::Locked { .. })));
    commit(Some(dir.path()), &[Change::Written(own.clone())], &[], || true).unwrap();
    for table in [table, Table::open(&path).unwrap()] {
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.version(), 2);
        snapshot.verify().unwrap();
        assert_holds(&snapshot, std::slice::from_ref(&expected));
    }
    // It has ended, and its lock is free.
    assert!(matches!(append(&own, &rows(0, 1)), Err(FormatError::Ended)));
    assert_eq!(append(&Table::open(&path).unwrap(), &rows(0, 10)).unwrap().num_rows(), 2710);
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, new) = (dir.path().join("t"), dir.path().join("new"));
    make(&path, &rows(0, 1000));
    let (before, inside) = (files(dir.path()), files(&path));
    let table = Table::open(&path).unwrap();
    let own = table.fork().unwrap();
    append(&own, &rows(1000, 1500)).unwrap();
    let mut writer = Table::build_in_transaction(&new, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 1100)).unwrap();
    let made = writer.table().clone();
    writer.commit().unwrap();
    assert!(made.is_made_in_transaction() && !own.is_made_in_transaction());
    assert_holds(&append(&made, &rows(1100, 100)).unwrap(), &[rows(0, 1200)]);
    // One that may not commit is rolled back, too.
    let changes = [Change::Written(own), Change::Made(made)];
    assert!(matches!(commit(Some(dir.path()), &changes, &[], || false), Err(FormatError::Cancelled)));
    assert_eq!(files(dir.path()), before);
    let left: Vec<String> = files(&path).into_iter().filter(|name| !name.ends_with(".tmp")).collect();
    assert_eq!(left, inside);
    let own = table.fork().unwrap();
    append(&own, &rows(0, 10)).unwrap();
    end([own]);
    assert_eq!(append(&table, &rows(1000, 5)).unwrap().num_rows(), 1005);
    assert!(!files(&path).iter().any(|name| name.ends_with(".tmp")));
}

#[test]
fn another_writer_is_met() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, &rows(0, 1000));
    let table = Table::open(&path).unwrap();
    let (one, other) = (table.fork().unwrap(), table.fork().unwrap());
    append(&one, &rows(1000, 10)).unwrap();
    assert!(matches!(append(&other, &rows(1000, 20)), Err(FormatError::Locked { .. })));
    commit(Some(dir.path()), &[Change::Written(one)], &[], || true).unwrap();
    assert!(matches!(append(&other, &rows(1000, 20)), Err(FormatError::Changed { .. })));
    // Its reads do not change as long as it lasts.
    assert_holds(&other.snapshot().unwrap(), &[rows(0, 1000)]);
    assert!(matches!(other.hold_fork(), Err(FormatError::Changed { .. })));
    end([other]);
}

#[test]
fn tables_in_memory_take_part() {
    let table = Table::in_memory(rows(0, 0).schema());
    append(&table, &rows(0, 10)).unwrap();
    let (own, gone) = (table.fork().unwrap(), Table::in_memory(rows(0, 0).schema()));
    let dropped = gone.fork().unwrap();
    append(&own, &rows(10, 10)).unwrap();
    dropped.hold_fork().unwrap();
    assert!(matches!(append(&gone, &rows(0, 1)), Err(FormatError::Locked { .. })));
    assert_eq!(table.snapshot().unwrap().num_rows(), 10);
    commit(None, &[Change::Written(own), Change::Dropped(dropped)], &[], || true).unwrap();
    assert_holds(&table.snapshot().unwrap(), &[rows(0, 20)]);
    assert!(matches!(append(&gone, &rows(0, 1)), Err(FormatError::Replaced { .. })));
    assert_eq!(append(&table, &rows(20, 1)).unwrap().version(), table.snapshot().unwrap().version());
}

#[test]
fn a_name_that_is_taken_keeps_all_from_being_committed() {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("a"), &rows(0, 100));
    let change = || {
        let own = Table::open(&dir.path().join("a")).unwrap().fork().unwrap();
        append(&own, &rows(100, 10)).unwrap();
        let writer = Table::build_in_transaction(&dir.path().join("new"), rows(0, 0).schema(), small()).unwrap();
        let made = writer.table().clone();
        writer.commit().unwrap();
        commit(Some(dir.path()), &[Change::Written(own), Change::Made(made)], &[], || true)
    };
    std::fs::create_dir(dir.path().join("new")).unwrap();
    assert!(matches!(change(), Err(FormatError::Replaced { .. })));
    std::fs::remove_dir(dir.path().join("new")).unwrap();
    assert_eq!(found(dir.path())["a"], 100);
    change().unwrap();
    assert_eq!(found(dir.path()), BTreeMap::from([("a".into(), 110), ("new".into(), 0)]));
}

#[test]
fn tables_of_elsewhere_are_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("a");
    make(&path, &rows(0, 100));
    for database in [None, Some(other.path())] {
        let own = Table::open(&path).unwrap().fork().unwrap();
        append(&own, &rows(100, 10)).unwrap();
        assert!(matches!(commit(database, &[Change::Written(own)], &[], || true), Err(FormatError::Catalog(_))));
        assert_eq!(found(dir.path())["a"], 100);
    }
}

#[test]
fn commits_that_cannot_be_finished_stop_nobody() {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("a"), &rows(0, 100));
    let commits = dir.path().join(".commits");
    std::fs::create_dir(&commits).unwrap();
    for (name, text) in
        [("1.commit", "no json"), ("2.commit", r#"[{"Dropped":{"table":"../x","identity":null}}]"#), (".nfs01", "")]
    {
        std::fs::write(commits.join(name), text).unwrap();
    }
    // Its writer died before the commit.
    std::fs::write(commits.join("3.commit.tmp"), "[").unwrap();
    assert_eq!(found(dir.path())["a"], 100);
    assert_eq!(files(&commits), [".nfs01", "1.commit.damaged", "2.commit.damaged"]);
    assert_eq!(append(&Table::open(&dir.path().join("a")).unwrap(), &rows(0, 1)).unwrap().num_rows(), 101);
}

/// Appends to `a`, empties `b` and renames it to `f`, drops `c`, creates `d`, replaces `e`,
/// renames `g` to `b`, makes the schema `s` with a table, and drops the schema `r`.
fn change_all(fs: &Arc<FaultyFs>, folder: &Path) -> Result<()> {
    let mut changes = vec![];
    let given_up = |changes: &[Change], error| {
        end(changes.iter().map(|change| match change {
            Change::Written(table) | Change::Made(table) | Change::Dropped(table) => table.clone(),
            Change::MadeAs(table, _) | Change::Renamed(table, ..) => table.clone(),
        }));
        Err(error)
    };
    let around = HiddenFolder::beside(&folder.join("s.schema"))?;
    let made = (|| {
        let open = |name: &str| Table::open_with(fs.clone(), &folder.join(name))?.fork();
        changes.push(Change::Written(open("a")?));
        let Change::Written(a) = &changes[0] else { unreachable!() };
        append(&a.clone(), &rows(1000, 100))?;
        append(&a.clone(), &rows(1100, 50))?;
        let b = open("b")?;
        changes.push(Change::Written(b.clone()));
        b.replace(rows(0, 0).schema(), small())?.commit()?;
        changes.push(Change::Renamed(b, folder.join("b"), folder.join("f")));
        let g = open("g")?;
        changes.push(Change::Renamed(g.clone(), folder.join("g"), folder.join("b")));
        g.hold_fork()?;
        for name in ["c", "e"] {
            let gone = open(name)?;
            changes.push(Change::Dropped(gone.clone()));
            gone.hold_fork()?;
        }
        let gone = open("r.schema/x")?;
        changes.push(Change::Dropped(gone.clone()));
        gone.hold_fork()?;
        let inside = around.path().join("s.schema");
        std::fs::create_dir(&inside).unwrap();
        let y = inside.join("y");
        let y = y.to_str().unwrap();
        for (first, name) in [("early", "d"), ("e", "e"), (y, y)] {
            let mut writer = Table::build_fork(fs.clone(), &folder.join(first), rows(0, 0).schema(), &small())?;
            changes.push(Change::MadeAs(writer.table().clone(), folder.join(name)));
            writer.write(&rows(0, 130))?;
            writer.commit()?;
        }
        Ok(())
    })();
    match made {
        Ok(()) => {
            let made = FolderChange::Made { from: around.path().join("s.schema"), path: folder.join("s.schema") };
            let (path, names) = (folder.join("r.schema"), vec!["x".to_string()]);
            let removed = FolderChange::Removed { path, names, hidden: ".lock" };
            let committing = || {
                around.commits();
                true
            };
            commit_with_folders(Some(folder), &changes, &[], &[made, removed], committing)
        }
        Err(error) => given_up(&changes, error),
    }
}

#[test]
fn a_fault_at_every_operation_leaves_all_or_nothing() {
    let counts = |rows: &[(&str, u64)]| rows.iter().map(|(name, rows)| (name.to_string(), *rows)).collect();
    let old: BTreeMap<String, u64> =
        counts(&[("a", 1000), ("b", 1000), ("c", 1000), ("e", 1000), ("g", 1000), ("r.schema/x", 1000)]);
    let new: BTreeMap<String, u64> =
        counts(&[("a", 1150), ("b", 1000), ("d", 130), ("e", 130), ("f", 0), ("s.schema/y", 130)]);
    let faults = [Fault::Error, Fault::PowerLoss { names: false }, Fault::PowerLoss { names: true }];
    let step = if std::env::var_os("WARPMILL_QUICK").is_some() { 3 } else { 1 };
    for (first, fault) in faults.into_iter().enumerate() {
        let mut at = if step > 1 { first } else { 0 };
        let mut seen = [0, 0];
        loop {
            let (dir, attic) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            std::fs::create_dir(dir.path().join("r.schema")).unwrap();
            old.keys().for_each(|name| make(&dir.path().join(name), &rows(0, 1000)));
            let fs = FaultyFs::new(fault, at, attic.path());
            let done = change_all(&fs, dir.path());
            let struck = fs.struck();
            fs.lose();
            let context = format!("{fault:?} at operation {at}: {done:?}");
            let now = found(dir.path());
            assert!(now == old || now == new, "{context}: {now:?}");
            assert!(now == new || done.is_err(), "{context}: what was committed is not there");
            seen[usize::from(now == new)] += 1;
            // The next writers work, and clean up.
            for name in now.keys() {
                let table = Table::open(&dir.path().join(name)).unwrap();
                table.snapshot().unwrap().verify().unwrap();
                assert_eq!(append(&table, &rows(0, 10)).unwrap().num_rows(), now[name] + 10, "{context}");
            }
            let hidden: Vec<String> = files(dir.path()).into_iter().filter(|name| name.starts_with('.')).collect();
            assert!(hidden.is_empty(), "{context}: {hidden:?}");
            if !struck {
                break;
            }
            at += step;
        }
        assert!(seen.iter().all(|count| *count > 0), "{fault:?}: {seen:?} old and new");
        tally(&format!("{fault:?} in transactions"), "all or nothing", at / step);
    }
}

/// Set for the child process only: the folder of the tables to append to.
const CHILD: &str = "WARPMILL_TEST_TRANSACTIONS_IN";

/// Not a test by itself: the killed process runs it.
#[test]
fn append_to_both_forever() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    journal::finish(folder).unwrap();
    let tables = ["a", "b"].map(|name| Table::open(&folder.join(name)).unwrap());
    loop {
        let forks = tables.each_ref().map(|table| table.fork().unwrap());
        for fork in &forks {
            append(fork, &rows(0, 1000)).unwrap();
        }
        commit(Some(folder), &forks.map(Change::Written), &[], || true).unwrap();
    }
}

#[test]
fn killed_transactions_leave_whole_commits() {
    let dir = tempfile::tempdir().unwrap();
    ["a", "b"].into_iter().for_each(|name| make(&dir.path().join(name), &rows(0, 0)));
    let mut last = 0;
    for round in 0..12u64 {
        kill_a_child("transactions::append_to_both_forever", CHILD, dir.path(), round);
        let now = found(dir.path());
        assert_eq!(now["a"], now["b"]);
        assert!(now["a"].is_multiple_of(1000) && now["a"] >= last, "{now:?} after {last}");
        last = now["a"];
    }
    tally("transacting processes killed", "whole commits", 12);
    assert!(last > 0, "no child came to commit anything");
}

#[test]
fn files_are_written_with_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (view, gone) = (dir.path().join("v.view"), dir.path().join("old.view"));
    std::fs::write(&gone, "old").unwrap();
    let text = |text: &str| Some(text.to_string());
    let files = [
        FileChange { path: view.clone(), text: text("a view") },
        FileChange { path: gone.clone(), text: None },
        FileChange { path: dir.path().join("never.view"), text: None },
    ];
    assert!(matches!(commit(Some(dir.path()), &[], &files, || false), Err(FormatError::Cancelled)));
    assert!(!view.exists() && gone.exists());
    commit(Some(dir.path()), &[], &files, || true).unwrap();
    assert_eq!(std::fs::read_to_string(&view).unwrap(), "a view");
    assert!(!gone.exists());
    commit(Some(dir.path()), &[], &[FileChange { path: view.clone(), text: text("another") }], || true).unwrap();
    assert_eq!(std::fs::read_to_string(&view).unwrap(), "another");
    let outside = [FileChange { path: dir.path().join("../x.view"), text: text("x") }];
    let other = tempfile::tempdir().unwrap();
    assert!(matches!(commit(Some(other.path()), &[], &outside, || true), Err(FormatError::Catalog(_))));
}
