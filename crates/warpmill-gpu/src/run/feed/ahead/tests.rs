use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use warpmill_format::TableSnapshot;
use warpmill_format::parquet_file::{KeptBytes, PageCodecs, ParquetFile, RangeBytes, RemoteFile, table_of};

use super::*;
use crate::memory::error::Failure;

const GROUPS: usize = 12;
const ROWS: usize = 1000;

/// A file in memory; reads beyond `end` fail.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    read: AtomicU64,
    end: AtomicU64,
}

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
        ParquetMetaDataReader::new().parse_and_finish(&file).map(Arc::new).map_err(io::Error::other)
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<RangeBytes>> {
        let read = |range: &Range<u64>| {
            self.read.fetch_add(range.end - range.start, Ordering::SeqCst);
            match range.end > self.end.load(Ordering::SeqCst) {
                true => Err(io::Error::other("the store is gone")),
                false => Ok(Arc::new(self.bytes[range.start as usize..range.end as usize].to_vec()) as RangeBytes),
            }
        };
        ranges.iter().map(read).collect()
    }

    fn decode(&self, _: &ArrowReaderMetadata, _: (usize, usize), _: Range<usize>) -> io::Result<Vec<RecordBatch>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file with a column of a thousand values in each row group, as one page, or one page per value.
fn file(small_pages: bool) -> Arc<Memory> {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..(GROUPS * ROWS) as i64).map(|row| row * row)));
    let rows = RecordBatch::try_from_iter([("k", values)]).unwrap();
    let mut properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(ROWS)).set_dictionary_enabled(false);
    if small_pages {
        properties = properties.set_data_page_row_count_limit(1).set_write_batch_size(1);
    }
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    Arc::new(Memory { bytes, read: AtomicU64::new(0), end: AtomicU64::new(u64::MAX) })
}

struct Fixture {
    file: Arc<Memory>,
    opened: Arc<ParquetFile>,
    columns: Vec<Vec<Arc<Chunk>>>,
    /// Bytes of each column chunk.
    bytes: Vec<u64>,
}

impl Fixture {
    fn new(file: Arc<Memory>, room: u64) -> Self {
        let opened = ParquetFile::open_remote(file.clone(), &KeptBytes::new(room)).unwrap();
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
            "k",
            arrow::datatypes::DataType::Int64,
            false,
        )]);
        let table: Arc<TableSnapshot> = table_of(std::slice::from_ref(&opened), &Arc::new(schema)).unwrap();
        let promise = |segment| table.promise(segment, 0, PageCodecs::default()).unwrap();
        let columns: Vec<_> = (0..GROUPS).map(|segment| vec![Arc::new(Chunk::promised(promise(segment)))]).collect();
        let bytes = columns.iter().map(|column| column[0].stored_bytes()).collect();
        Self { file, opened, columns, bytes }
    }

    fn rows(&self) -> Vec<RowSegment<'_>> {
        let columns = self.columns.iter().enumerate();
        columns.map(|(number, columns)| RowSegment { number, columns, spans: &[] }).collect()
    }

    fn read(&self) -> u64 {
        self.file.read.load(Ordering::SeqCst)
    }

    /// Waits until `bytes` bytes have been requested, and a little longer: no more must be.
    fn settles_at(&self, bytes: u64) {
        let started = Instant::now();
        while self.read() < bytes && started.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(self.read(), bytes);
    }
}

/// The values of a column, from its image.
fn values(chunk: &Chunk) -> Vec<i64> {
    let mut image = vec![0; chunk.copied_bytes() as usize];
    chunk.write(None, &mut image, &Default::default()).unwrap();
    let end = image.len() - 16;
    image[end - 8 * ROWS..end].as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect()
}

#[test]
fn what_comes_is_what_is_stored() {
    for (room, group) in [(0, 1), (0, 20_000), (u64::MAX, 1), (30_000, 20_000)] {
        let fixture = Fixture::new(file(false), room);
        let rows = fixture.rows();
        let ahead = Ahead::with(&rows, 10_000, group).unwrap();
        for batch in [0..3, 3..4, 4..11, 11..12] {
            let opened = ahead.open(&rows[batch.clone()]).unwrap();
            for (segment, columns) in batch.clone().zip(opened) {
                let expected: Vec<i64> = (segment * ROWS..(segment + 1) * ROWS).map(|row| (row * row) as i64).collect();
                assert_eq!(values(&columns[0]), expected, "row group {segment}, room {room}, groups of {group}");
            }
            ahead.written(&rows[batch]);
        }
        assert_eq!(fixture.read(), fixture.bytes.iter().sum::<u64>(), "each byte once");
        // A second pass, as for parts of sinks: kept data is not read again.
        drop(ahead);
        let ahead = Ahead::with(&rows, 10_000, group).unwrap();
        ahead.open(&rows).unwrap();
        let all: u64 = fixture.bytes.iter().sum();
        let kept = fixture.bytes.iter().scan(room, |left, &bytes| {
            *left = left.checked_sub(bytes)?;
            Some(bytes)
        });
        let kept: u64 = kept.sum();
        assert_eq!(fixture.read(), 2 * all - kept, "room {room}");
    }
}

/// Kept rows stay, whatever is read beside them.
#[test]
fn passes_over_other_row_segments_keep_what_is_kept() {
    let fixture = Fixture::new(file(false), 30_000);
    let (rows, bytes) = (fixture.rows(), &fixture.bytes);
    let kept =
        bytes.iter().scan(30_000u64, |left, bytes| left.checked_sub(*bytes).inspect(|rest| *left = *rest)).count();
    assert!((2..GROUPS - 3).contains(&kept));
    let pass = |rows: &[RowSegment<'_>]| {
        let before = fixture.read();
        let ahead = Ahead::with(rows, 10_000, 20_000).unwrap();
        ahead.open(rows).unwrap();
        ahead.written(rows);
        drop(ahead);
        fixture.read() - before
    };
    pass(&rows);
    for _ in 0..5 {
        // A kept and a dropped row segment in one group.
        assert_eq!(pass(&rows[kept - 1..=kept]), bytes[kept]);
        assert_eq!(pass(&rows[..kept]), 0);
    }
    assert_eq!(pass(&rows), bytes[kept..].iter().sum::<u64>());
}

/// Data that was being read when a run was given up is found by the next reader.
#[test]
fn what_was_begun_is_found() {
    for _ in 0..20 {
        let fixture = Fixture::new(file(false), u64::MAX);
        let rows = fixture.rows();
        drop(Ahead::with(&rows, 1, 1));
        let again = Ahead::with(&rows, 1, 1).unwrap();
        again.open(&rows).unwrap();
        assert_eq!(fixture.read(), fixture.bytes.iter().sum::<u64>());
    }
}

/// Without room to keep data, one group is read ahead even if the window is too small; more with room for them.
#[test]
fn so_much_is_ahead_as_there_is_room_for() {
    let fixture = Fixture::new(file(false), 0);
    let (rows, bytes) = (fixture.rows(), &fixture.bytes);
    let ahead = Ahead::with(&rows, 1, 1).unwrap();
    fixture.settles_at(bytes[0]);
    ahead.open(&rows[..1]).unwrap();
    fixture.settles_at(bytes[0]);
    ahead.written(&rows[..1]);
    fixture.settles_at(bytes[..2].iter().sum());
    // A batch larger than the window.
    ahead.open(&rows[1..5]).unwrap();
    fixture.settles_at(bytes[..5].iter().sum());
    ahead.written(&rows[1..5]);
    fixture.settles_at(bytes[..6].iter().sum());
    drop(ahead);
    fixture.settles_at(bytes[..6].iter().sum());
    let wide = Ahead::with(&rows, bytes[..3].iter().sum(), 1).unwrap();
    // Rows read ahead have been dropped.
    fixture.settles_at(bytes[..6].iter().sum::<u64>() + bytes[..3].iter().sum::<u64>());
    drop(wide);
    let fixture = Fixture::new(file(false), u64::MAX);
    let rows = fixture.rows();
    let _ahead = Ahead::with(&rows, 1, 1).unwrap();
    fixture.settles_at(fixture.bytes.iter().sum());
}

#[test]
fn errors_come_where_they_belong() {
    let fixture = Fixture::new(file(false), 0);
    fixture.file.end.store(fixture.bytes[..4].iter().sum::<u64>() + 4, Ordering::SeqCst);
    let rows = fixture.rows();
    let ahead = Ahead::with(&rows, u64::MAX, 1).unwrap();
    assert_eq!(ahead.open(&rows[..4]).unwrap().len(), 4);
    let error = ahead.open(&rows[3..6]).unwrap_err().to_string();
    assert!(error.contains("memory://t.parquet") && error.contains("the store is gone"), "{error}");
}

#[test]
fn what_was_not_foreseen_is_said() {
    let fixture = Fixture::new(file(true), 0);
    let rows = fixture.rows();
    let ahead = Ahead::of(&rows).unwrap();
    assert!(matches!(ahead.open(&rows[..1]), Err(Failure::Unforeseen)));
}

/// A reader that is dropped early does not wait for queued groups, and its threads end.
#[test]
fn readers_end() {
    for _ in 0..20 {
        let fixture = Fixture::new(file(false), 0);
        let rows = fixture.rows();
        let ahead = Ahead::with(&rows, 20_000, 1).unwrap();
        ahead.open(&rows[..2]).unwrap();
        let work = Arc::downgrade(&ahead.work);
        drop(ahead);
        let started = Instant::now();
        while work.strong_count() > 0 {
            assert!(started.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(fixture.columns.iter().all(|columns| Arc::strong_count(&columns[0]) == 1));
        fixture.opened.release();
    }
}

#[test]
fn nothing_is_ahead_where_all_is_there() {
    assert!(Ahead::of(&[]).is_none());
    let row = RowSegment { number: 0, columns: &[], spans: &[] };
    assert!(Ahead::of(&[row]).is_none());
}
