//! Format version 1 as committed: it must stay readable, and be written again byte for byte.

use super::*;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// Writes the golden table: a version of two row segments, then an append whose strings grow the dictionary.
fn write(path: &Path) {
    let mut writer = Table::build(path, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 1100)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let mut writer = table.append(small()).unwrap();
    writer.write(&appended()).unwrap();
    writer.commit().unwrap();
}

/// Rows whose names are new, so that the first segments are read through a remap.
pub(super) fn appended() -> RecordBatch {
    let batch = rows(7000, 50);
    let mut columns = batch.columns().to_vec();
    columns[9] =
        Arc::new(StringArray::from_iter((0..50).map(|i| Some(["zinc", "apricot", "blue"][i % 3]).filter(|_| i != 4))));
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()))
        .filter(|(name, _)| name != "LOCK")
        .collect();
    files.sort();
    files
}

#[test]
fn version_1_is_read() {
    let snapshot = fresh(&golden());
    assert_holds(&snapshot, &[rows(0, 1100), appended()]);
    assert_eq!((snapshot.version(), snapshot.num_segments()), (2, 3));
    assert_eq!(snapshot.column_stats(0).int_range(), Some((0, 7049)));
}

#[test]
fn version_1_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path);
    if std::env::var_os("WARPMILL_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden());
        std::fs::create_dir_all(golden()).unwrap();
        files(&path).iter().for_each(|(name, bytes)| std::fs::write(golden().join(name), bytes).unwrap());
    }
    let (written, committed) = (files(&path), files(&golden()));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&written), names(&committed));
    for ((name, written), (_, committed)) in written.iter().zip(&committed) {
        assert!(written == committed, "{name} is written differently than by format version 1");
    }
}
