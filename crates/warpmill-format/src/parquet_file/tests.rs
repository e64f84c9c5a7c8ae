use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;

use super::crc::crc32;
use super::thrift::{HeaderError, PageKind, page_header};
use super::{PageCodecs, ParquetChunk, Unreadable, table};
use crate::{FormatError, SEGMENT_ROWS};

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

/// Any bytes are a header, none, or too few: reading ends, and needs no stack to speak of.
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
fn what_a_device_does_not_decode_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text: SchemaRef = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true)]));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|row| format!("row {row}"))));
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let words = RecordBatch::try_new(text.clone(), vec![words]).unwrap();
    let path = write_batch(folder.path(), &words, properties.set_encoding(Encoding::DELTA_BYTE_ARRAY).build());
    let found = table(std::slice::from_ref(&path), &text).unwrap();
    match found.parquet(0, 0, PageCodecs::default()).unwrap() {
        Some(ParquetChunk::Host(reason)) => assert_eq!(reason, "encoding DELTA_BYTE_ARRAY"),
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

/// A file that is cut below a footer that is kept: sizes are checked when pages are read.
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
