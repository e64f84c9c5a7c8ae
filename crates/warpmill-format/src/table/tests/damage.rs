//! Damaged files cause errors that name the damage, never wrong rows.

use super::*;
use crate::{Codec, CodecOptions};

fn table() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut writer = Table::build(&path, rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 2000)).unwrap();
    writer.commit().unwrap();
    (dir, path)
}

const DATA: &str = "0000000000000001-0000.data";
const MANIFEST: &str = "0000000000000001.manifest";

fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (_dir, path) = table();
    let snapshot = fresh(&path);
    let blobs: Vec<_> = (0..2).flat_map(|s| (0..12).map(move |c| (s, c))).collect();
    for (s, c) in blobs {
        let place = match &snapshot.parts().segments[s].columns[c].source {
            chunk::Source::File(place) => place.clone(),
            _ => unreachable!("on disk, without a codec"),
        };
        for offset in [0, place.bytes / 2, place.bytes - 1] {
            let flip = |bytes: &mut Vec<u8>| bytes[(place.offset + offset) as usize] ^= 4;
            damage(&path.join(DATA), flip);
            let error = fresh(&path).segment(s, c).unwrap_err();
            let name = format!("column {:?}, segment {s}", snapshot.schema().field(c).name());
            assert!(
                matches!(&error, FormatError::Corrupt { path, segment: Some(at), .. } if path.ends_with(DATA) && *at == name),
                "{error}"
            );
            damage(&path.join(DATA), flip);
        }
    }
    fresh(&path).verify().unwrap();
    let dictionary = snapshot.parts().dictionaries[9].as_ref().unwrap().place.clone().unwrap();
    damage(&path.join(DATA), |bytes| bytes[dictionary.offset as usize + 30] ^= 1);
    let error = Table::open(&path).unwrap_err().to_string();
    assert!(error.contains("dictionary of column \"name\"") && error.contains("checksum"), "{error}");
}

#[test]
fn missing_and_truncated_files_are_named() {
    let (_dir, path) = table();
    let error = |path: &Path| Table::open(path).unwrap_err().to_string();
    damage(&path.join(DATA), |bytes| bytes.truncate(bytes.len() - 1));
    assert!(error(&path).contains(DATA) && error(&path).contains("its manifest says"), "{}", error(&path));
    std::fs::remove_file(path.join(DATA)).unwrap();
    assert!(error(&path).contains(DATA) && error(&path).contains("missing"), "{}", error(&path));
}

#[test]
fn a_damaged_manifest_is_rejected() {
    let (_dir, path) = table();
    let manifest = path.join(MANIFEST);
    let good = std::fs::read(&manifest).unwrap();
    for cut in [0, 1, 20, 40, good.len() / 2, good.len() - 1] {
        std::fs::write(&manifest, &good[..cut]).unwrap();
        assert!(matches!(Table::open(&path), Err(FormatError::Corrupt { .. })), "cut at {cut}");
    }
    for at in (0..good.len()).step_by(97) {
        std::fs::write(&manifest, &good).unwrap();
        damage(&manifest, |bytes| bytes[at] ^= 1);
        assert!(matches!(Table::open(&path), Err(FormatError::Corrupt { .. })), "flipped at {at}");
    }
    let text = String::from_utf8(good).unwrap().replacen("warpmill-manifest 1 ", "warpmill-manifest 9 ", 1);
    std::fs::write(&manifest, text).unwrap();
    let error = Table::open(&path).unwrap_err().to_string();
    assert!(error.contains("format version 9, this build reads 8"), "{error}");
}

/// Compares every column of every segment with that of the other access method.
fn same_rows(one: &TableSnapshot, other: &TableSnapshot) {
    for (s, c) in (0..one.num_segments()).flat_map(|s| (0..one.schema().fields().len()).map(move |c| (s, c))) {
        let (one, other) = (one.segment(s, c).unwrap(), other.segment(s, c).unwrap());
        assert!(one.as_bytes()[..] == other.as_bytes()[..], "segment {s}, column {c}");
    }
}

#[test]
fn files_are_mapped_or_read() {
    for codec in [None, Some(Codec::Zstd)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let options = WriteOptions { codec: codec.map(CodecOptions::fixed), ..small() };
        let mut writer = Table::build(&path, rows(0, 0).schema(), options.clone()).unwrap();
        writer.write(&rows(0, 2000)).unwrap();
        writer.commit().unwrap();
        let (mapped, table) = (fresh(&path), Table::open_as(&path, FileAccess::Read).unwrap());
        let read = table.snapshot().unwrap();
        same_rows(&mapped, &read);
        // A segment in use exists once, and is freed afterwards.
        let held = read.segment(0, 0).unwrap();
        assert!(Arc::ptr_eq(&held, &read.segment(0, 0).unwrap()) && read.segment_memory(0, 0) > 0);
        let known = Arc::downgrade(&held);
        drop(held);
        assert!(known.upgrade().is_none());
        // Writing does not depend on the access method, and one handle can use both in turn.
        let mut writer = table.append(options).unwrap();
        writer.write(&rows(2000, 1500)).unwrap();
        writer.commit().unwrap();
        let (longer, mapped) = (table.snapshot().unwrap(), fresh(&path));
        assert!(longer.is_open(FileAccess::Read) && mapped.is_open(FileAccess::Map));
        assert!(Arc::ptr_eq(&longer, &table.snapshot().unwrap()));
        same_rows(&mapped, &longer);
        table.set_access(FileAccess::Map);
        let again = table.snapshot().unwrap();
        assert!(again.is_open(FileAccess::Map));
        same_rows(&again, &longer);
        same_rows(&again, &mapped);
    }
}

#[test]
fn a_file_that_is_read_may_be_cut_off() {
    let (_dir, path) = table();
    let snapshot = Table::open_as(&path, FileAccess::Read).unwrap().snapshot().unwrap();
    let last = snapshot.schema().fields().len() - 1;
    let held = snapshot.segment(1, last).unwrap();
    let before = held.as_bytes().to_vec();
    let file = std::fs::OpenOptions::new().write(true).open(path.join(DATA)).unwrap();
    file.set_len(64).unwrap();
    let error = snapshot.segment(0, 0).unwrap_err();
    assert!(matches!(&error, FormatError::Corrupt { segment: Some(_), .. }), "{error}");
    assert!(error.to_string().contains("cut off while it was open"), "{error}");
    // Data that have been read do not change.
    assert!(held.as_bytes()[..] == before[..]);
    assert!(snapshot.check_files().unwrap_err().to_string().contains("changed while it was open"));
}
