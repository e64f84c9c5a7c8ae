use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;

use super::super::{KeptBytes, ParquetChunk, ParquetFile, RangeBytes, RemoteFile, table_of};
use super::*;
use crate::TableSnapshot;

/// A file in memory that counts reads.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    read: AtomicU64,
    /// Decompressed bytes of each column chunk that the footer claims.
    claimed: Option<i64>,
}

/// The count that marks a file as gone.
const GONE: u64 = u64::MAX;

impl RemoteFile for Memory {
    fn url(&self) -> &str {
        "memory://t.parquet"
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn footer(&self) -> io::Result<Arc<ParquetMetaData>> {
        let mut file = tempfile::tempfile()?;
        io::Write::write_all(&mut file, &self.bytes)?;
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(io::Error::other)?;
        let Some(claimed) = self.claimed else { return Ok(Arc::new(footer)) };
        let groups = footer.row_groups().iter().map(|group| {
            let lie = |column: &ColumnChunkMetaData| {
                column.clone().into_builder().set_total_uncompressed_size(claimed).build().unwrap()
            };
            let columns = group.columns().iter().map(lie).collect();
            group.clone().into_builder().set_column_metadata(columns).build().unwrap()
        });
        let groups = groups.collect();
        Ok(Arc::new(footer.into_builder().set_row_groups(groups).build()))
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<RangeBytes>> {
        if self.read.load(Ordering::Relaxed) == GONE {
            return Err(io::ErrorKind::NotFound.into());
        }
        let read = |range: &Range<u64>| {
            self.read.fetch_add(range.end - range.start, Ordering::Relaxed);
            Arc::new(self.bytes[range.start as usize..range.end as usize].to_vec()) as RangeBytes
        };
        Ok(ranges.iter().map(read).collect())
    }

    fn decode(&self, _: &ArrowReaderMetadata, _: (usize, usize), _: Range<usize>) -> io::Result<Vec<RecordBatch>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn schema() -> SchemaRef {
    let fields = [
        ("i", DataType::Int32),
        ("l", DataType::Int64),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("d", DataType::Decimal128(30, 2)),
        ("s", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.map(|(name, ty)| Field::new(name, ty, true)).to_vec()))
}

fn rows(rows: usize, distinct: i64, nulls: i64) -> RecordBatch {
    let values = || (0..rows as i64).map(move |row| (nulls == 0 || row % nulls != 0).then_some(row * 7_919 % distinct));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter(values().map(|value| value.map(|value| value as i32)))),
        Arc::new(Int64Array::from_iter(values())),
        Arc::new(Float64Array::from_iter(values().map(|value| value.map(|value| value as f64)))),
        Arc::new(BooleanArray::from_iter(values().map(|value| value.map(|value| value % 2 == 0)))),
        Arc::new(
            Decimal128Array::from_iter(values().map(|value| value.map(i128::from)))
                .with_precision_and_scale(30, 2)
                .unwrap(),
        ),
        Arc::new(StringArray::from_iter(values().map(|value| value.map(|value| "x".repeat(value as usize % 40))))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn file(rows: &RecordBatch, properties: WriterProperties) -> Arc<Memory> {
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    Arc::new(Memory { bytes, read: AtomicU64::new(0), claimed: None })
}

fn table(file: &Arc<Memory>, room: u64) -> Arc<TableSnapshot> {
    let opened = ParquetFile::open_remote(file.clone(), &KeptBytes::new(room)).unwrap();
    table_of(&[opened], &schema()).unwrap()
}

fn compressions() -> [Compression; 5] {
    let [gzip, zstd] = [Compression::GZIP(Default::default()), Compression::ZSTD(Default::default())];
    [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW, gzip, zstd]
}

/// With and without a batch library, and without any codec.
const CODECS: [PageCodecs; 3] =
    [PageCodecs { own: true, zstd: true, gzip: true }, PageCodecs { own: true, ..PageCodecs::NONE }, PageCodecs::NONE];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes of ordinary pages stay within the bounds; pages of few rows either do, or break the promise.
    #[test]
    fn what_comes_is_within_the_bounds(
        count in prop_oneof![Just(0usize), Just(1), 2usize..20_000],
        (distinct, nulls) in (1i64..30_000, prop_oneof![Just(0i64), Just(1), 2i64..9]),
        page_rows in prop_oneof![Just(1usize), Just(100), Just(5_000), Just(20_000)],
        (dictionary, version_2, delta) in any::<(bool, bool, bool)>(),
        (compression, codecs) in (0usize..5, 0usize..CODECS.len()),
    ) {
        let version = if version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut properties = WriterProperties::builder()
            .set_compression(compressions()[compression])
            .set_writer_version(version)
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(page_rows)
            .set_write_batch_size(page_rows.min(1024));
        if delta {
            properties = properties.set_column_encoding("l".into(), Encoding::DELTA_BINARY_PACKED);
            properties = properties.set_column_encoding("f".into(), Encoding::BYTE_STREAM_SPLIT);
            properties = properties.set_column_encoding("s".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY);
        }
        // A million pages of one row would take a while.
        let count = if page_rows == 1 { count.min(2_000) } else { count };
        let table = table(&file(&rows(count, distinct, nulls), properties.build()), u64::MAX);
        // Nothing is promised for a file after one of its columns broke a promise.
        let mut unlike = false;
        for (segment, column) in (0..table.num_segments()).flat_map(|segment| (0..6).map(move |column| (segment, column))) {
            let codecs = CODECS[codecs];
            // Strings and decimals of version 2 have to be read first.
            let Some(promise) = table.promise(segment, column, codecs) else {
                prop_assert!(unlike || version_2 && column >= 4, "column {column}");
                continue;
            };
            prop_assert_eq!(promise.rows(), count);
            let Some(slice) = promise.open().unwrap() else {
                prop_assert!(page_rows < LEAST_ROWS as usize, "column {column}: {promise:?}");
                unlike = true;
                continue;
            };
            prop_assert!(slice.image_bytes() <= promise.image_bytes());
            prop_assert!(slice.work_bytes() <= promise.work_bytes());
            prop_assert_eq!(slice.layout(), promise.layout());
            prop_assert_eq!(slice.codec(), promise.codec());
            prop_assert_eq!(slice.value_bytes(), promise.value_bytes());
            let (pages, largest) = promise.batch_pages();
            prop_assert!(slice.batch_pages().count() as u64 <= pages);
            prop_assert!(slice.batch_pages().all(|page| page.made.1 <= largest));
        }
    }
}

/// Pages that writers do not make are noticed before anything is placed by the bounds.
#[test]
fn small_pages_are_not_what_was_promised() {
    let properties = WriterProperties::builder().set_data_page_row_count_limit(1).set_write_batch_size(1);
    let table = table(&file(&rows(2_000, 5, 0), properties.build()), u64::MAX);
    let promise = table.promise(0, 0, PageCodecs::default()).unwrap();
    assert!(promise.open().unwrap().is_none());
    let Some(ParquetChunk::Device(slice)) = table.parquet(0, 0, PageCodecs::default()).unwrap() else { panic!() };
    assert!(slice.pages() >= 2_000);
}

/// Bounds are close to the actual sizes: memory is allocated by them.
#[test]
fn bounds_are_near() {
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let properties = WriterProperties::builder().set_compression(compression).build();
        let table = table(&file(&rows(500_000, 400_000, 9), properties), u64::MAX);
        for column in 0..6 {
            let promise = table.promise(0, column, PageCodecs::default()).unwrap();
            let slice = promise.open().unwrap().unwrap();
            let (most, needed) =
                (promise.image_bytes() + promise.work_bytes(), slice.image_bytes() + slice.work_bytes());
            assert!(100 * most <= 140 * needed, "{compression}, column {column}: {most} for {needed}");
        }
    }
}

/// Sizes that overflow promise nothing; other wrong sizes break the promise.
#[test]
fn footers_that_lie_promise_nothing() {
    for compression in compressions() {
        let honest = file(&rows(5_000, 4_000, 0), WriterProperties::builder().set_compression(compression).build());
        let opened = |claimed| {
            let lying = Memory { bytes: honest.bytes.clone(), read: AtomicU64::new(0), claimed: Some(claimed) };
            table(&Arc::new(lying), u64::MAX)
        };
        for claimed in [i64::MIN, -1, i64::MAX, i64::MAX / 2, 1 << 41] {
            assert!(opened(claimed).promise(0, 0, CODECS[0]).is_none(), "{compression}: {claimed}");
        }
        // For an image without decompression such sizes are unknown.
        let table = opened(1);
        let promise = table.promise(0, 0, CODECS[0]).unwrap();
        let is_kept = compression == Compression::UNCOMPRESSED;
        assert_eq!(promise.open().unwrap().is_some(), is_kept, "{compression}");
        assert_eq!(table.promise(0, 1, CODECS[0]).is_some(), is_kept, "{compression}: one lie suffices");
    }
}

/// Many column chunks of more than the vendor's library takes pages of.
#[test]
fn large_pages_are_within_the_bounds() {
    for compression in [Compression::ZSTD(Default::default()), Compression::GZIP(Default::default())] {
        for page in [1 << 20, 64 << 20] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_dictionary_enabled(false)
                .set_data_page_size_limit(page)
                .set_data_page_row_count_limit(usize::MAX);
            let table = table(&file(&rows(1_000_000, 900_000, 0), properties.build()), u64::MAX);
            for (column, codecs) in [0, 4, 5].into_iter().flat_map(|column| CODECS.map(|codecs| (column, codecs))) {
                let promise = table.promise(0, column, codecs).unwrap();
                let slice = promise.open().unwrap().expect("what was promised");
                assert_eq!(slice.layout(), promise.layout());
                assert!(slice.batch_pages().all(|page| page.made.1 <= promise.batch_pages().1));
            }
        }
    }
}

/// More files than are read at the same time, and one that cannot be read.
#[test]
fn several_files_are_read() {
    let stored: Vec<_> = (1..40).map(|count| file(&rows(count, 50, 3), WriterProperties::builder().build())).collect();
    let tables: Vec<_> = stored.iter().map(|file| table(file, u64::MAX)).collect();
    let promises: Vec<_> = tables.iter().map(|table| table.promise(0, 5, CODECS[0]).unwrap()).collect();
    let promises: Vec<_> = promises.iter().collect();
    ParquetPromise::read(&promises).unwrap();
    for (stored, promise) in stored.iter().zip(&promises) {
        assert!(promise.is_kept());
        assert_eq!(stored.read.load(Ordering::Relaxed), promise.stored_bytes());
    }
    let cut = file(&rows(100, 50, 3), WriterProperties::builder().build());
    let table = table(&cut, u64::MAX);
    let bad = table.promise(0, 0, CODECS[0]).unwrap();
    cut.read.store(GONE, Ordering::Relaxed);
    let all: Vec<_> = promises.iter().copied().chain([&bad]).collect();
    assert!(ParquetPromise::read(&all).unwrap_err().to_string().contains("memory://t.parquet"));
}

#[test]
fn what_there_is_room_for_is_read_once() {
    let stored = file(&rows(10_000, 9_000, 0), WriterProperties::builder().build());
    let table = table(&stored, 60_000);
    let promises: Vec<_> = (0..2).map(|column| table.promise(0, column, PageCodecs::default()).unwrap()).collect();
    let each: Vec<u64> = promises.iter().map(ParquetPromise::stored_bytes).collect();
    assert!(each[0] < 60_000 && each[0] + each[1] > 60_000, "{each:?}");
    assert_eq!(promises[0].window(), 30_000);
    assert_eq!(ParquetPromise::claim(&[&promises[0], &promises[1]]), [1], "there is room for one");
    let read = || stored.read.load(Ordering::Relaxed);
    for _ in 0..2 {
        ParquetPromise::read(&promises.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(read(), each[0] + each[1]);
    }
    assert!(ParquetPromise::claim(&[&promises[0], &promises[1]]).is_empty(), "both are kept");
    let opened = promises[1].open().unwrap().unwrap();
    opened.write_image(&mut vec![0; opened.image_bytes() as usize]).unwrap();
    assert_eq!(read(), each[0] + each[1]);
    ParquetPromise::forget(&[&promises[1]]);
    assert_eq!(ParquetPromise::claim(&[&promises[0], &promises[1]]), [1], "the other one is kept still");
    opened.write_image(&mut vec![0; opened.image_bytes() as usize]).unwrap();
    assert!(read() > each[0] + each[1], "it is read again");
}

/// A read after the end of the scan keeps nothing.
#[test]
fn nothing_is_kept_of_a_scan_that_has_ended() {
    let stored = file(&rows(1_000, 900, 0), WriterProperties::builder().build());
    let opened = ParquetFile::open_remote(stored, &KeptBytes::new(u64::MAX)).unwrap();
    let table = table_of(std::slice::from_ref(&opened), &schema()).unwrap();
    let promise = table.promise(0, 0, PageCodecs::default()).unwrap();
    ParquetPromise::read(&[&promise]).unwrap();
    assert!(promise.is_kept());
    opened.release();
    ParquetPromise::read(&[&promise]).unwrap();
    assert!(!promise.is_kept() && promise.open().unwrap().is_some());
}
