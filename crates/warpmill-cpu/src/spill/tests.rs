use std::sync::Arc;

use proptest::prelude::*;
use warpmill_format::{Bitmap, StrView};

use super::partition::{PARTITIONS, Partitioned, of_hash};
use super::{Fault, SpillArea, SpillSettings};
use crate::context::{CancelToken, ExecError, QueryContext, Settings};
use crate::vector::{Data, Vector};

const TEXTS: [&str; 4] = ["", "abcd", "größer", "a string longer than a view's prefix"];

/// Columns of every representation, with values from `seed`.
fn columns(rows: usize, seed: u64, nulls: bool) -> Vec<Vector> {
    let word = |row: usize| (row as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = || (0..rows).map(word);
    let data = [
        Data::Bool(words().map(|word| word & 1 == 1).collect()),
        Data::I32(words().map(|word| word as i32).collect()),
        Data::I64(words().map(|word| word as i64).collect()),
        Data::I128(words().map(|word| i128::from(word) << 60 | 5).collect()),
        Data::F32(words().map(|word| f32::from_bits(word as u32)).collect()),
        Data::F64(words().map(f64::from_bits).collect()),
        Data::Str(words().map(|word| StrView::new(TEXTS[word as usize % 4])).collect()),
        Data::Code(words().map(|word| word as u32).collect()),
    ];
    let validity = || nulls.then(|| Bitmap::from_fn(rows, |row| word(row) >> 5 & 3 != 0));
    data.into_iter().map(|data| Vector::with_validity(data, validity())).collect()
}

fn area(fault: Option<Fault>, limit: u64, directory: Option<&std::path::Path>) -> SpillArea {
    let directory = directory.map(Into::into);
    SpillArea::new(SpillSettings { enabled: true, directory, limit, fault, working_memory: None })
}

fn refs(columns: &[Vector]) -> Vec<&Vector> {
    columns.iter().collect()
}

proptest! {
    #[test]
    fn columns_come_back_as_they_were(rows in 0usize..200, seeds in prop::collection::vec(any::<u64>(), 1..4), nulls in any::<bool>()) {
        let file = area(None, u64::MAX, None).create().unwrap();
        let all: Vec<Vec<Vector>> = seeds.iter().map(|&seed| columns(rows, seed, nulls)).collect();
        let blocks: Vec<_> = all.iter().map(|columns| file.append(&refs(columns), rows).unwrap()).collect();
        for (block, columns) in blocks.iter().zip(&all).rev() {
            prop_assert_eq!(format!("{:?}", file.read(block).unwrap()), format!("{:?}", columns));
        }
    }
}

#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("made/when/needed");
    let area = area(None, u64::MAX, Some(&directory));
    assert!(!directory.exists());
    let file = area.create().unwrap();
    file.append(&refs(&columns(1000, 1, true)), 1000).unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "an open file has no name");
    assert_eq!(area.used(), area.written());
    assert!(area.used() > 1000);
    drop(file);
    assert_eq!(area.used(), 0);
}

#[test]
fn a_limit_is_for_all_files_together() {
    let area = area(None, 10_000, None);
    let (one, other) = (area.create().unwrap(), area.create().unwrap());
    let small = columns(50, 1, false);
    one.append(&refs(&small), 50).unwrap();
    other.append(&refs(&small), 50).unwrap();
    let error = (0..10).find_map(|_| other.append(&refs(&small), 50).err()).expect("10 kB are not enough");
    assert!(matches!(error, ExecError::SpillLimit { limit: 10_000, .. }), "{error}");
    assert!(error.to_string().contains("warpmill.temp_directory_limit"), "{error}");
    drop(other);
    one.append(&refs(&small), 50).unwrap();
}

#[test]
fn failing_files_are_named() {
    let block = |fault| {
        let file = area(Some(fault), u64::MAX, None).create()?;
        let block = file.append(&refs(&columns(100, 3, true)), 100)?;
        file.read(&block)
    };
    for (fault, action) in [(Fault::FullAt(10), "write"), (Fault::EndsAt(10), "read"), (Fault::FlippedAt(99), "read")] {
        let error = block(fault).unwrap_err();
        assert!(matches!(&error, ExecError::Spill { action: a, .. } if *a == action), "{fault:?}: {error}");
        let text = error.to_string();
        assert!(text.contains(".spill") && text.contains("warpmill.temp_directory"), "{text}");
    }
    for at in 0..2000 {
        assert!(block(Fault::FlippedAt(at)).is_err(), "byte {at}");
    }
    let error = area(None, u64::MAX, Some("/proc/nowhere".as_ref())).create().unwrap_err();
    assert!(error.to_string().contains("/proc/nowhere"), "{error}");
}

#[test]
fn rows_are_divided() {
    let spill = SpillSettings { enabled: true, ..SpillSettings::default() };
    let query = Arc::new(QueryContext::new(Settings { spill, ..Settings::default() }, CancelToken::default()));
    let to = Partitioned::create(&query, PARTITIONS).unwrap();
    let rows = 20_000;
    let key = Vector::new(Data::I64((0..rows).collect()));
    let ids: Vec<u8> = (0..rows as u64).map(|row| of_hash(row.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1)).collect();
    to.write(&[&key], &ids).unwrap();
    to.write(&[&key], &vec![3; rows as usize]).unwrap();
    let mut seen = vec![0; rows as usize];
    for (partition, part) in to.parts().iter().enumerate() {
        assert!(part.rows() > 500, "{} rows in partition {partition}", part.rows());
        assert!(part.blocks.iter().all(|block| block.rows <= super::BLOCK_ROWS));
        for block in 0..part.blocks.len() {
            let Data::I64(keys) = &part.read(block).unwrap()[0].data else { panic!() };
            keys.iter().for_each(|&key| seen[key as usize] += 1);
            assert!(keys.iter().all(|&key| ids[key as usize] as usize == partition || partition == 3));
        }
    }
    assert!(seen.iter().all(|&times| times == 2));
}
