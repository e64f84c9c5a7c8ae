//! Format version 1 as committed: it must stay readable, with its chunks in row segment order as well as in column order, and be rewritten byte for
//! byte in the latter order.

use super::*;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Writes the golden table: a version of two row segments, then an append whose strings grow the dictionary.
fn write(path: &Path, options: &WriteOptions) {
    let mut writer = Table::build(path, rows(0, 0).schema(), options.clone()).unwrap();
    writer.write(&rows(0, 1100)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    let mut writer = table.append(options.clone()).unwrap();
    writer.write(&appended()).unwrap();
    writer.commit().unwrap();
}

/// Rows with new names, so that the first segments are read through a remap.
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
        .filter(|(name, _)| name != "LOCK" && !name.ends_with(".committed"))
        .collect();
    files.sort();
    files
}

/// A manifest without the identity, as in older builds.
fn without_identity(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let manifest = manifest::Manifest::from_bytes(bytes, path).unwrap();
    assert!(manifest.identity.is_some());
    manifest::Manifest { identity: None, ..manifest }.to_bytes()
}

#[test]
fn version_1_is_read() {
    for name in ["v1", "v1-by-column"] {
        let snapshot = fresh(&golden(name));
        assert_holds(&snapshot, &[rows(0, 1100), appended()]);
        assert_eq!((snapshot.version(), snapshot.num_segments()), (2, 3));
        assert_eq!(snapshot.column_stats(0).int_range(), Some((0, 7049)));
    }
}

/// Options of the golden table with all pruning metadata, including attributes of another table.
fn with_zones() -> WriteOptions {
    let table = Table::in_memory(rows(0, 0).schema());
    let mut writer = table.append(small()).unwrap();
    writer.write(&rows(0, 700)).unwrap();
    let sideways = crate::pruning::Sideways {
        column: "id".into(),
        name: "other".into(),
        table: writer.commit().unwrap(),
        key: "id".into(),
        attributes: vec!["price".into(), rows(0, 0).schema().field(9).name().clone()],
    };
    WriteOptions { metadata: Metadata::All, zone_rows: 1024, sideways: vec![sideways], ..small() }
}

#[test]
fn zones_of_version_1_are_read() {
    ["v1-zones", "v1-zones-by-column"].into_iter().for_each(zones_are_read);
}

fn zones_are_read(name: &str) {
    let snapshot = fresh(&golden(name));
    assert_holds(&snapshot, &[rows(0, 1100), appended()]);
    snapshot.verify().unwrap();
    let maps = snapshot.zone_maps();
    assert_eq!((maps[0].segments(), maps[1].segments()), (0..2, 2..3));
    let id = maps[0].column(&snapshot, 0).unwrap().unwrap().zones;
    assert_eq!((id.bounds(0), id.bounds(1)), (Some((0, 1023)), Some((1024, 1099))));
    let names = maps[0].column(&snapshot, 9).unwrap().unwrap();
    assert!(names.remap.is_some(), "the codes are those of the first dictionary");
    let other = with_zones().sideways[0].table.clone();
    let prices = maps[0].attribute((&snapshot, 0), (&other, 0, 3)).unwrap().unwrap();
    assert_eq!(prices.bounds(1), None);
}

#[test]
fn zones_of_version_1_are_written() {
    is_written("v1-zones-by-column", |path| write(path, &with_zones()));
}

#[test]
fn version_1_is_written() {
    is_written("v1-by-column", |path| write(path, &small()));
}

/// Rows whose texts are encoded as symbols.
fn texts() -> RecordBatch {
    let words = ["carefully ", "final ", "deposits ", "naïve ", "дом ", "sleep ", "家"];
    let text =
        |i: usize| (i % 50 != 7).then(|| (0..i % 6).map(|j| words[(i * 31 + j * j * 7) % 7]).collect::<String>());
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..2500))),
        ("text", Arc::new(StringArray::from_iter((0..2500).map(|i| text(i).map(|text| format!("{text}{i}")))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, name == "text"))).unwrap()
}

#[test]
fn version_3_is_read() {
    let path = golden("v3");
    let snapshot = fresh(&path);
    assert_holds(&snapshot, &[texts()]);
    assert_eq!(snapshot.segment_encoding(0, 1), crate::Encoding::Symbols);
    assert!(std::fs::read(path.join("0000000000000001.manifest")).unwrap().starts_with(b"warpmill-manifest 3 "));
}

#[test]
fn version_3_is_written() {
    is_written("v3", |path| {
        let options = WriteOptions { segment_rows: 4096, ..small() };
        let mut writer = Table::build(path, texts().schema(), options).unwrap();
        writer.write(&texts()).unwrap();
        writer.commit().unwrap();
    });
}

/// Takes all rows.
struct Anything;

impl RowCheck for Anything {
    fn columns(&self) -> &[usize] {
        &[0]
    }

    fn check(&self, _: &[ArrayRef], _: usize) -> Result<()> {
        Ok(())
    }
}

fn constraints() -> Vec<Constraint> {
    let unique = |index: Option<&str>| Constraint::Unique { columns: vec![1, 0], index: index.map(str::to_owned) };
    vec![Constraint::PrimaryKey(vec![0]), unique(None), unique(Some("an index")), Constraint::Check("id >= 0".into())]
}

#[test]
fn version_5_is_read() {
    let path = golden("v5");
    let snapshot = fresh(&path);
    assert_holds(&snapshot, &[texts()]);
    assert_eq!(snapshot.constraints()[..], constraints());
    assert!(std::fs::read(path.join("0000000000000001.manifest")).unwrap().starts_with(b"warpmill-manifest 5 "));
}

#[test]
fn version_5_is_written() {
    is_written("v5", |path| {
        let options = WriteOptions { segment_rows: 4096, ..small() };
        let mut writer = Table::build(path, texts().schema(), options).unwrap();
        writer.declare(constraints()).unwrap();
        writer.check_by(Arc::new(Anything));
        writer.write(&texts()).unwrap();
        writer.commit().unwrap();
    });
}

/// A key, foreign keys to another table and to the table itself, and the entry of a table that refers to it.
fn references() -> Vec<Constraint> {
    let foreign = |table: Option<&str>, keys: &[&str]| Constraint::ForeignKey {
        columns: vec![0],
        table: table.map(str::to_owned),
        keys: keys.iter().map(|key| key.to_string()).collect(),
    };
    let entry = Constraint::ReferencedBy("child".into());
    vec![Constraint::PrimaryKey(vec![0]), foreign(Some("p"), &["key"]), foreign(None, &["id"]), entry]
}

#[test]
fn version_6_is_read() {
    let path = golden("v6");
    let snapshot = fresh(&path);
    assert_holds(&snapshot, &[texts()]);
    assert_eq!(snapshot.constraints()[..], references());
    assert!(std::fs::read(path.join("0000000000000001.manifest")).unwrap().starts_with(b"warpmill-manifest 6 "));
}

#[test]
fn version_6_is_written() {
    is_written("v6", |path| {
        let options = WriteOptions { segment_rows: 4096, ..small() };
        let mut writer = Table::build(path, texts().schema(), options).unwrap();
        writer.declare(references()).unwrap();
        writer.keep_references();
        writer.write(&texts()).unwrap();
        writer.commit().unwrap();
    });
}

/// Writes a table with a log that is a data file of the newest manifest, and a log of that.
fn write_logged(path: &Path) {
    let mut writer = Table::build(path, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 30)).unwrap();
    let table = writer.table().clone();
    writer.commit().unwrap();
    for count in [1, 1, 1, 5000, 1, 1] {
        let mut writer = table.append(WriteOptions { log: true, ..small() }).unwrap();
        let first = writer.base().unwrap().num_rows() as usize;
        writer.write(&rows(first, count)).unwrap();
        writer.commit().unwrap();
    }
    let mut writer = table.append(WriteOptions { log: true, ..small() }).unwrap();
    writer.write(&appended().slice(0, 3)).unwrap();
    writer.commit().unwrap();
}

#[test]
fn version_7_is_read() {
    let path = golden("v7");
    let snapshot = fresh(&path);
    assert_holds(&snapshot, &[rows(0, 5035), appended().slice(0, 3)]);
    snapshot.verify().unwrap();
    assert_eq!(snapshot.version(), 8);
    assert!(std::fs::read(path.join("0000000000000005.manifest")).unwrap().starts_with(b"warpmill-manifest 7 "));
    let logs = files(&path).into_iter().filter(|(name, _)| name.ends_with(".log")).count();
    assert_eq!(logs, 2);
}

/// Writes a table with deletions in its newest manifest and in the log of that.
fn write_deleted(path: &Path) {
    write_logged(path);
    let table = Table::open(path).unwrap();
    let options = || WriteOptions { least_marked: 1, log: true, ..small() };
    for (gone, log) in [(3, true), (4, false), (40, true), (2500, true)] {
        super::deletions::delete(&table, &[gone], WriteOptions { log, ..options() }).unwrap();
    }
}

#[test]
fn version_8_is_read() {
    let path = golden("v8");
    let snapshot = fresh(&path);
    assert_holds(&snapshot, &[rows(0, 3), rows(5, 35), rows(41, 2459), rows(2501, 2534), appended().slice(0, 3)]);
    snapshot.verify().unwrap();
    assert_eq!((snapshot.num_rows(), snapshot.stored_rows()), (5034, 5038));
    let manifests: Vec<_> = files(&path).into_iter().filter(|(name, _)| name.ends_with(".manifest")).collect();
    assert!(manifests.iter().all(|(_, bytes)| bytes.starts_with(b"warpmill-manifest 8 ")));
}

#[test]
fn version_8_is_written() {
    is_written("v8", write_deleted);
}

/// The files of the table in `path` whose content is deterministic.
fn files_to_keep(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = files(path);
    for (name, bytes) in all.iter_mut().filter(|(name, _)| name.ends_with(".manifest")) {
        *bytes = without_identity(&path.join(&*name), bytes);
    }
    let manifests: Vec<(String, Vec<u8>)> =
        all.iter().filter(|(name, _)| name.ends_with(".manifest")).cloned().collect();
    for (name, bytes) in all.iter_mut().filter(|(name, _)| name.ends_with(".log")) {
        // A log has the checksum of the beginning of its manifest, if that is still there.
        let of = manifests.iter().find(|(manifest, _)| manifest.strip_suffix(".manifest") == name.strip_suffix(".log"));
        let sum = of.map_or(0, |(_, manifest)| xxhash_rust::xxh3::xxh3_64(&manifest[..64]));
        bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    }
    all
}

fn is_written(name: &str, write: impl Fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path);
    let golden = || golden(name);
    if std::env::var_os("WARPMILL_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden());
        std::fs::create_dir_all(golden()).unwrap();
        files_to_keep(&path).iter().for_each(|(name, bytes)| std::fs::write(golden().join(name), bytes).unwrap());
    }
    let (written, committed) = (files_to_keep(&path), files(&golden()));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&written), names(&committed));
    for ((name, written), (_, committed)) in written.iter().zip(&committed) {
        assert!(written == committed, "{name} is written differently than before");
    }
}
