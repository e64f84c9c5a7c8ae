//! Damaged files give errors that name what is damaged, never wrong rows.

use super::*;

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
            version::Source::File(place) => place.clone(),
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
    let text = String::from_utf8(good).unwrap().replacen("warpmill-manifest 1 ", "warpmill-manifest 3 ", 1);
    std::fs::write(&manifest, text).unwrap();
    let error = Table::open(&path).unwrap_err().to_string();
    assert!(error.contains("format version 3, this build reads 2"), "{error}");
}
