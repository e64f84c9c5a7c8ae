//! A process that appends in a loop, killed at any moment: the table has a whole number of its commits.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// Set for the child process only: the table to append to.
const CHILD: &str = "WARPMILL_TEST_APPEND_TO";
const ROWS: usize = 1500;

/// Not a test by itself: the killed process runs it.
#[test]
fn append_forever() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let table = Table::open(Path::new(&path)).unwrap();
    loop {
        let first = table.snapshot().unwrap().num_rows() as usize;
        let mut writer = table.append(small()).unwrap();
        writer.write(&rows(first, ROWS)).unwrap();
        writer.commit().unwrap();
    }
}

/// Runs a test of this folder in a child process, with a path in a variable, and kills it after a time that varies between rounds.
pub(super) fn kill_a_child(test: &str, variable: &str, path: &Path, round: u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("table::tests::{test}"), "--nocapture"])
        .env(variable, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(60 + round * 37 % 100));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_writers_leave_whole_commits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    Table::create(&path, rows(0, 0).schema()).unwrap();
    let mut last = 0;
    for round in 0..12u64 {
        kill_a_child("processes::append_forever", CHILD, &path, round);
        let snapshot = fresh(&path);
        let rows_found = snapshot.num_rows() as usize;
        assert!(rows_found.is_multiple_of(ROWS) && rows_found >= last, "{rows_found} rows after {last}");
        assert_holds(&snapshot, &[rows(0, rows_found)]);
        last = rows_found;
    }
    tally("appending processes killed", "whole commits", 12);
    assert!(last > 0, "no child came to commit anything");
    // The lock was released when its holder died, and its leftovers are collected.
    let mut writer = Table::open(&path).unwrap().append(small()).unwrap();
    writer.write(&rows(last, 10)).unwrap();
    writer.commit().unwrap();
    let temporary = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().path().extension().is_some_and(|e| e == "tmp");
    assert!(!std::fs::read_dir(&path).unwrap().any(temporary));
}
