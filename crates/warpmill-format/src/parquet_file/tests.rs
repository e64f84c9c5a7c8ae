use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;

use super::crc::crc32;
use super::prefixes::made_bytes;
use super::thrift::{HeaderError, PageKind, column_index, offset_index, page_header};
use super::{PageBounds, PageCodecs, PageTest, ParquetChunk, Unreadable, refine, table};
use crate::{FormatError, SEGMENT_ROWS, TableSnapshot};

#[test]
fn checksums_are_those_of_ieee_802_3() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(crc32(b""), 0);
    assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
}

/// A data page of 100 bytes, 60 compressed, with a checksum and statistics, of 7 values in encoding 8.
const HEADER: &[u8] = &[
    0x15, 0x00, 0x15, 0xC8, 0x01, 0x15, 0x78, 0x15, 0x06, 0x1C, 0x15, 0x0E, 0x15, 0x10, 0x15, 0x06, 0x15, 0x06, 0x1C,
    0x18, 0x02, 0xAA, 0xBB, 0x00, 0x00, 0x00,
];

#[test]
fn page_headers_are_read() {
    let (header, length) = page_header(HEADER).unwrap();
    assert_eq!(length, HEADER.len());
    assert_eq!((header.kind, header.uncompressed, header.compressed), (PageKind::Data, 100, 60));
    assert_eq!((header.crc, header.values, header.encoding, header.level_encoding), (Some(3), 7, 8, 3));
    for end in 0..HEADER.len() {
        assert_eq!(page_header(&HEADER[..end]), Err(HeaderError::Short), "{end} bytes");
    }
}

/// Any bytes are a header, an error, or too few: reading ends, with little stack.
#[test]
fn other_bytes_are_no_page_headers() {
    for at in 0..HEADER.len() {
        for bit in 0..8 {
            let mut bytes = HEADER.to_vec();
            bytes[at] ^= 1 << bit;
            let _ = page_header(&bytes);
        }
    }
    for byte in 0..=255u8 {
        let _ = page_header(&vec![byte; 1 << 16]);
    }
    // Lists within lists.
    assert!(matches!(page_header(&[0x19; 1 << 16]), Err(HeaderError::Damaged(_))));
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]))
}

fn write(folder: &Path, rows: usize, properties: WriterProperties) -> PathBuf {
    let values = Int64Array::from_iter((0..rows as i64).map(|row| (row % 5 != 2).then_some(row)));
    write_batch(folder, &RecordBatch::try_new(schema(), vec![Arc::new(values) as ArrayRef]).unwrap(), properties)
}

fn write_batch(folder: &Path, rows: &RecordBatch, properties: WriterProperties) -> PathBuf {
    let path = folder.join("t.parquet");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    path
}

/// Row groups of more rows than a row segment may have.
#[test]
fn large_row_groups_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let rows = SEGMENT_ROWS + 1500;
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2 * SEGMENT_ROWS));
    let path = write(folder.path(), rows, properties.build());
    let table = table(&[path], &schema()).unwrap();
    assert_eq!((table.num_rows(), table.num_segments()), (rows as u64, 2));
    assert_eq!((table.segment_rows(0), table.segment_rows(1)), (SEGMENT_ROWS, 1500));
    let last = table.segment(1, 0).unwrap();
    let mut values = vec![0; 1500];
    last.decode_i64(0, &mut values);
    assert_eq!(values[1499], rows as i64 - 1);
    let Some(ParquetChunk::Device(slice)) = table.parquet(1, 0, PageCodecs::default()).unwrap() else {
        panic!("pages")
    };
    assert_eq!(slice.rows(), 1500);
    let mut image = vec![0; slice.image_bytes() as usize];
    slice.write_image(&mut image).unwrap();
    assert!(slice.image_bytes() < 12 * SEGMENT_ROWS as u64 / 4, "{} bytes", slice.image_bytes());
}

#[test]
fn other_types_have_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text: SchemaRef = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true)]));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|row| format!("row {row}"))));
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let words = RecordBatch::try_new(text.clone(), vec![words]).unwrap();
    let path = write_batch(folder.path(), &words, properties.set_encoding(Encoding::DELTA_BYTE_ARRAY).build());
    let found = table(std::slice::from_ref(&path), &text).unwrap();
    // There is room for the decompressed bytes.
    match found.parquet(0, 0, PageCodecs::default()).unwrap() {
        Some(ParquetChunk::Device(slice)) => assert!(slice.work_bytes() > 16 * 100 + 100 * 5, "{}", slice.work_bytes()),
        other => panic!("{other:?}"),
    }
    assert_eq!(found.segment(0, 0).unwrap().rows(), 100);
    let path = write(folder.path(), 100, WriterProperties::builder().build());
    let error = table(std::slice::from_ref(&path), &text).unwrap_err();
    assert!(matches!(&error, Unreadable::Column { .. }), "{error}");
    assert!(error.to_string().ends_with("column \"k\": it is stored as Int64, the table has Utf8"), "{error}");
    let other: SchemaRef = Arc::new(Schema::new(vec![Field::new("z", DataType::Int64, true)]));
    assert!(table(&[path], &other).unwrap_err().to_string().ends_with("column \"z\": the file does not have it"));
}

/// A file truncated below its cached footer: sizes are checked when pages are read.
#[test]
fn a_file_that_was_cut_names_row_group_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), 5000, WriterProperties::builder().build());
    let found = table(std::slice::from_ref(&path), &schema()).unwrap();
    let Some(ParquetChunk::Device(slice)) = found.parquet(0, 0, PageCodecs::default()).unwrap() else {
        panic!("pages")
    };
    std::fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    let error = slice.write_image(&mut vec![0; slice.image_bytes() as usize]).unwrap_err();
    assert!(matches!(&error, FormatError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("row group 0, column \"k\""), "{error}");
}

/// A column index of three pages, of which the second has NULLs only: bounds 1 to 5 and 7 to 9, ascending.
const COLUMN_INDEX: &[u8] = &[
    0x19, 0x31, 0x02, 0x01, 0x02, 0x19, 0x38, 0x01, 0x01, 0x00, 0x01, 0x07, 0x19, 0x38, 0x01, 0x05, 0x00, 0x01, 0x09,
    0x15, 0x02, 0x19, 0x36, 0x00, 0x14, 0x02, 0x00,
];

/// An offset index of two pages, 100 bytes at 4 and 50 bytes at 104, the second from row 1000 on.
const OFFSET_INDEX: &[u8] = &[
    0x19, 0x2C, 0x16, 0x08, 0x15, 0xC8, 0x01, 0x16, 0x00, 0x00, 0x16, 0xD0, 0x01, 0x15, 0x64, 0x16, 0xD0, 0x0F, 0x00,
    0x00,
];

#[test]
fn indexes_are_read() {
    let index = column_index(COLUMN_INDEX).unwrap();
    assert_eq!(index.null_pages, [false, true, false]);
    assert_eq!((index.least, index.greatest), (vec![vec![1], vec![], vec![7]], vec![vec![5], vec![], vec![9]]));
    assert_eq!((index.order, index.nulls), (1, Some(vec![0, 10, 1])));
    let places = offset_index(OFFSET_INDEX).unwrap().pages;
    let places: Vec<_> = places.iter().map(|page| (page.offset, page.bytes, page.first_row)).collect();
    assert_eq!(places, [(4, 100, 0), (104, 50, 1000)]);
}

/// Any bytes are an index, an error, or too few.
#[test]
fn other_bytes_are_no_indexes() {
    (0..COLUMN_INDEX.len()).for_each(|end| assert!(column_index(&COLUMN_INDEX[..end]).is_err(), "{end}"));
    (0..OFFSET_INDEX.len()).for_each(|end| assert!(offset_index(&OFFSET_INDEX[..end]).is_err(), "{end}"));
    let all = [COLUMN_INDEX, OFFSET_INDEX];
    for (whole, end) in all.iter().flat_map(|whole| (0..whole.len()).map(move |end| (whole, end))) {
        for bit in 0..8 {
            let mut bytes = whole.to_vec();
            bytes[end] ^= 1 << bit;
            let _ = (column_index(&bytes), offset_index(&bytes));
        }
    }
    for byte in 0..=255u8 {
        let bytes = vec![byte; 1 << 12];
        let _ = (column_index(&bytes), offset_index(&bytes));
    }
}

fn small_pages(folder: &Path, rows: usize) -> Arc<TableSnapshot> {
    let properties = WriterProperties::builder().set_data_page_row_count_limit(100).set_write_batch_size(50);
    let path = write(folder, rows, properties.set_dictionary_enabled(false).build());
    table(&[path], &schema()).unwrap()
}

/// The refined table for rows with values in `wanted`.
fn refined(table: &TableSnapshot, wanted: std::ops::RangeInclusive<i128>) -> Option<Arc<TableSnapshot>> {
    let excludes = |known: &[Option<PageBounds>]| {
        let ranks = known[0].expect("an index").ranks;
        ranks.is_none_or(|(least, greatest)| greatest < *wanted.start() || least > *wanted.end())
    };
    let test = PageTest { read: &[0], tested: &[0], skip: &|_| false, excludes: &excludes, filters: &[] };
    refine(table, &test).unwrap()
}

#[test]
fn pages_without_wanted_values_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let all = small_pages(folder.path(), 5000);
    assert!(refined(&all, 0..=5000).is_none());
    let some = refined(&all, 1000..=1234).unwrap();
    // Row 999 ends a page.
    assert_eq!((some.num_segments(), some.num_rows()), (1, 300));
    assert_eq!((some.left_out().rows, some.left_out().zones, some.left_out().pages), (4700, 47, 47));
    assert_eq!(some.segment_stats(0, 0).int_range(), Some((1000, 1299)));
    let mut values = vec![0; 300];
    some.segment(0, 0).unwrap().decode_i64(0, &mut values);
    assert_eq!((values[0], values[299]), (1000, 1299));
    let Some(ParquetChunk::Device(slice)) = some.parquet(0, 0, PageCodecs::default()).unwrap() else { panic!("pages") };
    assert_eq!((slice.rows(), slice.pages()), (300, 3));
    slice.write_image(&mut vec![0; slice.image_bytes() as usize]).unwrap();
    let none = refined(&all, 5000..=5001).unwrap();
    assert_eq!((none.num_segments(), none.left_out().segments), (0, 1));
}

#[test]
fn bytes_of_strings_with_prefixes_are_added_up() {
    // Blocks of 128 differences in 4 parts; prefixes 0 and 3, then suffixes of 5 and 2 bytes.
    let lengths = |first: u8, least: u8| [128, 1, 4, 2, 2 * first, least, 0, 0, 0, 0];
    let page = [&lengths(0, 6)[..], &lengths(5, 5)[..], b"hellop!"].concat();
    assert_eq!(made_bytes(&page, 2), Some(10));
    // More values than the page has; missing suffixes; prefixes longer than the string before.
    assert_eq!(made_bytes(&page, 1), None);
    assert_eq!(made_bytes(&page[..page.len() - 1], 2), None);
    let forged = [&lengths(0, 12)[..], &lengths(5, 5)[..], b"hellop!"].concat();
    assert_eq!(made_bytes(&forged, 2), None);
    for end in 0..page.len() - 7 {
        let _ = made_bytes(&page[..end], 2);
        for bit in 0..8 {
            let mut page = page.clone();
            page[end] ^= 1 << bit;
            let _ = made_bytes(&page, 2);
        }
    }
}
