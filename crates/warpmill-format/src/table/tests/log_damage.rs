//! Logs that somebody has changed, and logs as readers and later versions use them.

use super::log::{append, logging, make, names};
use super::*;

/// The bytes of a log, and the place of each of its records.
fn records(log: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut all, mut at) = (vec![], 64);
    while at < log.len() {
        let bytes = u64::from_le_bytes(log[at + 16..at + 24].try_into().unwrap()) as usize;
        all.push(at..at + bytes);
        at += bytes;
    }
    all
}

#[test]
fn rot_in_the_middle_is_no_torn_tail() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    (0..6).for_each(|_| drop(append(&table, 1).unwrap()));
    let log = path.join(&names(&path, ".log")[0]);
    let whole = std::fs::read(&log).unwrap();
    let all = records(&whole);
    assert_eq!(all.len(), 5);
    for with_mark in [true, false] {
        if !with_mark {
            std::fs::remove_file(path.join(&names(&path, ".committed")[0])).unwrap();
        }
        for (k, record) in all.iter().enumerate() {
            for at in [0, 8, 17, 41, 70, record.len() / 2, record.len() - 1] {
                let mut bytes = whole.clone();
                bytes[record.start + at] ^= 1;
                std::fs::write(&log, &bytes).unwrap();
                match Table::open(&path) {
                    Err(FormatError::Corrupt { path, .. }) => assert_eq!(path, log),
                    // The last one may be a dead writer's.
                    Ok(_) if k + 1 == all.len() && !with_mark => assert_holds(&fresh(&path), &[rows(0, 15)]),
                    other => panic!("byte {at} of record {k}: {:?}", other.map(drop)),
                }
            }
        }
    }
    std::fs::write(&log, &whole).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 16)]);
}

#[test]
fn files_that_are_read_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    make(&path, 100);
    let (writer, reader) =
        (Table::open_as(&path, FileAccess::Read).unwrap(), Table::open_as(&path, FileAccess::Read).unwrap());
    let mapped = Table::open(&path).unwrap();
    let mut count = 100;
    for step in 0..60 {
        let more = if step % 20 == 19 { 5000 } else { 1 + step % 3 };
        let own = append(&writer, more).unwrap();
        count += more;
        for snapshot in [own, reader.snapshot().unwrap(), mapped.snapshot().unwrap()] {
            assert_holds(&snapshot, &[rows(0, count)]);
        }
        if step % 7 == 0 {
            // The other way to access files, and back.
            for access in [FileAccess::Map, FileAccess::Read] {
                reader.set_access(access);
                let found = reader.snapshot().unwrap();
                assert!(found.is_open(access));
                assert_holds(&found, &[rows(0, count)]);
            }
        }
    }
    fresh(&path).verify().unwrap();
}

#[test]
fn versions_of_several_logs_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let mut counts = vec![10];
    for more in [1, 1, 1, 5000, 1, 1, 5000, 1, 5000, 1, 1] {
        let mut writer = table.append(WriteOptions { keep_versions: 7, ..logging() }).unwrap();
        let first = writer.base().unwrap().num_rows() as usize;
        writer.write(&rows(first, more)).unwrap();
        counts.push(writer.commit().unwrap().num_rows() as usize);
    }
    let newest = counts.len() as u64;
    for (version, count) in (1..=newest).zip(counts) {
        match Table::open(&path).unwrap().snapshot_at(version) {
            Ok(found) => assert_holds(&found, &[rows(0, count)]),
            Err(error) => assert!(version + 6 < newest, "version {version}: {error}"),
        }
    }
}

/// A change of the text of a record.
pub(super) type Edit = fn(&mut serde_json::Value);

/// The log with another text in its last record, whose checksum is right.
pub(super) fn crafted(log: &[u8], edit: Edit) -> Vec<u8> {
    let last = records(log).pop().unwrap();
    let record = &log[last.clone()];
    let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (number(24), number(32));
    let mut text: serde_json::Value = serde_json::from_slice(&record[start..start + length]).unwrap();
    edit(&mut text);
    let text = serde_json::to_vec(&text).unwrap();
    let mut made = [&record[..start], &text].concat();
    made.resize(made.len().next_multiple_of(64), 0);
    let bytes = made.len() as u64;
    made[16..24].copy_from_slice(&bytes.to_le_bytes());
    made[32..40].copy_from_slice(&(text.len() as u64).to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&[&made[..40], &made[48..]].concat());
    made[40..48].copy_from_slice(&sum.to_le_bytes());
    [&log[..last.start], &made].concat()
}

#[test]
fn crafted_records_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 100);
    for _ in 0..4 {
        append(&table, 1).unwrap();
    }
    let log = path.join(&names(&path, ".log")[0]);
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, crafted(&whole, |_| ())).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 104)]);
    let edits: [Edit; 16] = [
        |text| text["keep"] = 99.into(),
        |text| text["keep"] = (-1).into(),
        |text| text["keep"] = u64::MAX.into(),
        |text| text["files"] = serde_json::json!([]),
        |text| text["files"][0]["name"] = "../../etc/passwd".into(),
        |text| text["files"][0]["name"] = "0000000000000099-0000.data".into(),
        |text| text["segments"][0]["columns"][0]["file"] = 77.into(),
        |text| text["segments"][0]["columns"][0]["bytes"] = u64::MAX.into(),
        |text| text["segments"][0]["columns"][0]["bytes"] = (1_u64 << 40).into(),
        |text| text["segments"][0]["columns"][0]["offset"] = (u64::MAX - 63).into(),
        |text| text["segments"][0]["columns"][0]["offset"] = 65.into(),
        |text| {
            text["files"][0]["bytes"] = (1_u64 << 50).into();
            text["segments"][0]["columns"][0]["bytes"] = (1_u64 << 40).into();
        },
        |text| text["segments"][0]["rows"] = 0.into(),
        |text| text["segments"][0]["rows"] = u64::MAX.into(),
        |text| text["dictionaries"] = serde_json::json!([[99, null]]),
        |text| {
            let blob = text["segments"][0]["columns"][9].clone();
            text["dictionaries"] = serde_json::json!([[0, {"generation": 7, "file": 0, "offset": blob["offset"],
                "bytes": blob["bytes"], "xxh3": blob["xxh3"]}]]);
        },
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        std::fs::write(&log, crafted(&whole, edit)).unwrap();
        let found = Table::open(&path).and_then(|table| table.snapshot()?.verify());
        assert!(matches!(found, Err(FormatError::Corrupt { .. })), "edit {number}: {found:?}");
    }
    tally("crafted records of a log", "an error", edits.len());
    std::fs::write(&log, &whole).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 104)]);
}

/// All pruning metadata, of the smallest zones.
fn with_metadata(log: bool) -> WriteOptions {
    WriteOptions { log, metadata: Metadata::All, zone_rows: 1024, segment_rows: 1 << 16, ..small() }
}

#[test]
fn row_segments_with_metadata_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    for (name, log) in [("log", true), ("none", false)] {
        let path = dir.path().join(name);
        let table = make(&path, 0);
        for step in 0..600 {
            // Some are too large for a record.
            let more = if step % 100 > 90 { 700 } else { 1 };
            let mut writer = table.append(with_metadata(log)).unwrap();
            writer.merge_tail().unwrap();
            let first = writer.base().unwrap().num_rows() as usize;
            writer.write(&rows(first, more)).unwrap();
            writer.commit().unwrap();
        }
        let found = fresh(&path);
        assert_holds(&found, &[rows(0, 600 + 54 * 699)]);
        found.verify().unwrap();
        assert!(found.num_segments() <= 32, "{} row segments, log: {log}", found.num_segments());
    }
}

#[test]
fn statements_of_a_transaction_with_metadata_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = make(&path, 10);
    let own = table.fork().unwrap();
    for step in 0..300 {
        let mut writer = own.append(with_metadata(true)).unwrap();
        writer.merge_tail().unwrap();
        writer.write(&rows(10 + step, 1)).unwrap();
        let snapshot = writer.commit().unwrap();
        assert!(snapshot.num_segments() <= 24, "{} row segments", snapshot.num_segments());
    }
    assert_holds(&own.snapshot().unwrap(), &[rows(0, 310)]);
    transaction::commit(Some(dir.path()), &[transaction::Change::Written(own)], &[], || true).unwrap();
    assert_holds(&fresh(&path), &[rows(0, 310)]);
}
