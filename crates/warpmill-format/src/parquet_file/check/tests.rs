//! Valid files pass, false claims are named, and no mutation of a file causes more than an error.

use std::path::{Path, PathBuf};

use parquet::file::metadata::{ColumnChunkMetaDataBuilder, ParquetMetaData};

use super::*;
use crate::parquet_file::{ParquetFile, find_damage};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/parquet");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|found| found == "parquet")).collect();
    paths.sort();
    paths
}

#[test]
fn files_of_several_writers_pass() {
    let paths = fixtures();
    assert!(paths.len() > 5);
    for path in paths {
        let damage = find_damage(&path, &|_| true);
        assert!(damage.is_none(), "{}: {}", path.display(), damage.unwrap());
    }
}

/// `metadata` with its first column chunk changed.
fn with_chunk(
    metadata: &ParquetMetaData,
    change: fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder,
) -> ParquetMetaData {
    let mut groups = metadata.row_groups().to_vec();
    let mut columns = groups[0].columns().to_vec();
    columns[0] = change(columns[0].clone().into_builder()).build().unwrap();
    groups[0] = groups[0].clone().into_builder().set_column_metadata(columns).build().unwrap();
    ParquetMetaData::new(metadata.file_metadata().clone(), groups)
}

#[test]
fn footers_that_contradict_themselves_are_refused() {
    type Lie = (&'static str, fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder, &'static str);
    let lies: [Lie; 6] = [
        ("values", |chunk| chunk.set_num_values(7), "values of"),
        ("offset", |chunk| chunk.set_dictionary_page_offset(None).set_data_page_offset(-4), "outside of the file"),
        ("size", |chunk| chunk.set_total_compressed_size(1 << 40), "outside of the file"),
        ("dictionary", |chunk| chunk.set_dictionary_page_offset(Some(1 << 30)), "its dictionary is at byte"),
        (
            "index",
            |chunk| chunk.set_offset_index_offset(Some(1 << 40)).set_offset_index_length(Some(9)),
            "offset index",
        ),
        ("neighbour", |chunk| chunk.set_total_compressed_size(1 << 15), "within another column chunk"),
    ];
    let path = fixtures().into_iter().find(|path| path.ends_with("pyarrow_snappy_1.parquet")).unwrap();
    let file = ParquetFile::open(&path).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    CheckedFooter::new(Arc::new(file.metadata().clone()), bytes, &path).unwrap();
    for (what, change, expected) in lies {
        let lying = with_chunk(file.metadata(), change);
        let error = CheckedFooter::new(Arc::new(lying), bytes, &path).err().unwrap_or_else(|| panic!("{what}"));
        let text = error.to_string();
        assert!(text.contains("row group 0, column") && text.contains(expected), "{what}: {text}");
    }
    let rows = ParquetMetaData::new(file.metadata().file_metadata().clone(), vec![]);
    let text = CheckedFooter::new(Arc::new(rows), bytes, &path).unwrap_err().to_string();
    assert!(text.contains("its footer says"), "{text}");
}

#[test]
fn mutants_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut state, mut refused) = (17u64, 0);
    let mut random = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let tries: usize = std::env::var("WARPMILL_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let fixtures: Vec<Vec<u8>> = fixtures().iter().map(|path| std::fs::read(path).unwrap()).collect();
    for number in 0..tries {
        let mut bytes = fixtures[number % fixtures.len()].clone();
        // Half of the mutations are in the footer.
        let start = if number % 2 == 0 { bytes.len() - bytes.len().min(4000) } else { 0 };
        let at = start + random(bytes.len() - start);
        bytes[at] ^= 1 << random(8);
        let path = dir.path().join(format!("{number}.parquet"));
        std::fs::write(&path, bytes).unwrap();
        refused += usize::from(find_damage(&path, &|_| true).is_some());
        std::fs::remove_file(&path).unwrap();
    }
    assert!(refused * 4 > tries, "{refused} of {tries}");
}
