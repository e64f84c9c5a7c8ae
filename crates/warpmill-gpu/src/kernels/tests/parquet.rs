//! Pages decoded by the device (`parquet.cuh`), compared with the host's library, intact and damaged. `tests/fixtures/parquet/make.py` wrote the
//! files with PyArrow and DuckDB.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use warpmill_format::parquet_file::{PageCodecs, ParquetChunk, ParquetSlice, table};
use warpmill_format::{Segment, TableSnapshot, ValueLayout};

use crate::data::chunks::Chunk;
use crate::data::parquet::{Decoder, describe};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::ERROR_DATA;
use crate::memory::regions::{KeyMap, padded};

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
    decoder: Decoder,
}

/// A slice decoded by the device.
struct Decoded {
    error: u32,
    /// The bytes of each row; `None`: NULL.
    rows: Vec<Option<Vec<u8>>>,
}

impl Fixture {
    fn new() -> Self {
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let device: Arc<dyn Device> =
            Arc::new(SimDevice::new(SimOptions { sanitize, ..SimOptions::default() }).expect("a C++ compiler"));
        let (stream, decoder) = (device.stream().unwrap(), Decoder::compile(&device).unwrap());
        Self { device, stream, decoder }
    }

    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        let at = self.device.allocate(padded(bytes.len() as u64)).unwrap();
        // SAFETY: just allocated with more.
        unsafe { self.device.copy_to_device(at, bytes, self.stream).unwrap() };
        at
    }

    fn download(&self, at: DevicePtr, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        // SAFETY: callers name what is allocated.
        unsafe { self.device.copy_to_host(&mut out, at, self.stream).unwrap() };
        self.device.synchronize(self.stream).unwrap();
        out
    }

    /// Decodes `image`, the possibly damaged image of `slice`.
    fn decode(&self, slice: &Arc<ParquetSlice>, image: &[u8]) -> Decoded {
        let chunk = Chunk::parquet(slice.clone());
        let (state, from) = (self.upload(&[0; 32]), self.upload(image));
        let work = self.device.allocate(padded(slice.work_bytes())).unwrap();
        let (tasks, pages) = describe([(&chunk, from)].into_iter(), &KeyMap::from_iter([(chunk.key(), work)])).unwrap();
        let tasks = self.upload(&tasks);
        // SAFETY: the descriptor names what was uploaded, and a work area of the slice's size.
        unsafe { self.decoder.decode((tasks, pages), state, self.stream).unwrap() };
        let layout = slice.layout();
        let valid = layout.validity.map(|at| self.download(work + at as u64, slice.rows().div_ceil(8)));
        let is_valid = |row: usize| valid.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
        let (width, views) = match layout.values {
            ValueLayout::Plain { bytes, .. } => (bytes, false),
            ValueLayout::Views { .. } => (16, true),
            other => panic!("{other:?}"),
        };
        let values = self.download(work, slice.rows() * width);
        let row = |row: usize| {
            let value = &values[row * width..(row + 1) * width];
            is_valid(row).then(|| match views {
                false => value.to_vec(),
                true => {
                    let at = u64::from_le_bytes(value[..8].try_into().unwrap());
                    let length = u32::from_le_bytes(value[8..12].try_into().unwrap());
                    if length == 0 { vec![] } else { self.download(at, length as usize) }
                }
            })
        };
        let rows = (0..slice.rows()).map(row).collect();
        let error = u32::from_le_bytes(self.download(state, 4).try_into().unwrap());
        for at in [state, from, work, tasks] {
            // SAFETY: allocated above; nothing is queued.
            unsafe { self.device.free(at) };
        }
        Decoded { error, rows }
    }
}

/// The rows of a segment decoded by the host, in the device's format.
fn expected(segment: &Segment, layout: &ValueLayout) -> Vec<Option<Vec<u8>>> {
    let rows = segment.rows();
    let values: Vec<Vec<u8>> = match (layout, segment.layout().unwrap().values) {
        (ValueLayout::Views { .. }, _) => {
            let mut views = vec![Default::default(); rows];
            let mut text = Vec::new();
            segment.decode_str(0, &mut text, &mut views);
            views.iter().map(|view| view.as_bytes().to_vec()).collect()
        }
        (ValueLayout::Plain { bytes, .. }, ValueLayout::Plain { bytes: stored, signed, offset }) => {
            let data = &segment.as_bytes()[offset..];
            let value = |row: usize| {
                let value = &data[row * stored..(row + 1) * stored];
                let fill = if signed && value[stored - 1] & 0x80 != 0 { 0xFF } else { 0 };
                let mut word = vec![fill; 16.max(stored)];
                word[..stored].copy_from_slice(value);
                word[..*bytes].to_vec()
            };
            (0..rows).map(value).collect()
        }
        other => panic!("{other:?}"),
    };
    let valid = segment.validity(0, rows);
    let valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.get(row));
    values.into_iter().enumerate().map(|(row, value)| valid(row).then_some(value)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/parquet")
}

fn open(name: &str) -> Arc<TableSnapshot> {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        field("k", DataType::Int64),
        field("i", DataType::Int32),
        field("runs", DataType::Int64),
        field("small", DataType::Int8),
        field("u", DataType::UInt64),
        field("b", DataType::Boolean),
        field("f", DataType::Float64),
        field("g", DataType::Float32),
        field("money", DataType::Decimal128(15, 2)),
        field("day", DataType::Date32),
        field("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("word", DataType::Utf8),
        field("text", DataType::Utf8View),
        field("none", DataType::Int32),
        field("wide", DataType::Decimal128(38, 0)),
    ]);
    table(&[folder().join(name)], &Arc::new(schema)).unwrap()
}

fn slices(table: &TableSnapshot) -> Vec<(usize, usize, Arc<ParquetSlice>)> {
    let all = (0..table.num_segments()).flat_map(|s| (0..table.schema().fields().len()).map(move |c| (s, c)));
    let slice = |(segment, column)| match table.parquet(segment, column, PageCodecs::default()).unwrap() {
        Some(ParquetChunk::Device(slice)) => Some((segment, column, slice)),
        Some(ParquetChunk::Host(reason)) => panic!("column {column}: {reason}"),
        None => panic!("a table of Parquet"),
    };
    all.filter_map(slice).collect()
}

fn image(slice: &ParquetSlice) -> Vec<u8> {
    let mut image = vec![0; slice.image_bytes() as usize];
    slice.write_image(&mut image).unwrap();
    image
}

const FILES: [&str; 10] = [
    "pyarrow_none_1.parquet",
    "pyarrow_snappy_1.parquet",
    "pyarrow_snappy_2.parquet",
    "pyarrow_lz4_2.parquet",
    "pyarrow_zstd_2.parquet",
    "pyarrow_deltas_none.parquet",
    "pyarrow_deltas_snappy.parquet",
    "pyarrow_prefixes.parquet",
    "duckdb_snappy.parquet",
    "duckdb_v2.parquet",
];

#[test]
fn pages_decode_to_the_rows_of_the_host() {
    let fixture = Fixture::new();
    for name in FILES {
        let table = open(name);
        for (segment, column, slice) in slices(&table) {
            let found = fixture.decode(&slice, &image(&slice));
            let host = expected(&table.segment(segment, column).unwrap(), &slice.layout().values);
            let place = format!("{name}, segment {segment}, column {:?}", table.schema().field(column).name());
            assert_eq!(found.error, 0, "{place}");
            for (row, (found, host)) in found.rows.iter().zip(&host).enumerate() {
                assert_eq!(found, host, "{place}, row {row}");
            }
            assert_eq!(found.rows.len(), host.len(), "{place}");
        }
    }
}

/// Damaged pages: no memory out of bounds is accessed (checked by sanitizers), and invalid pages are reported.
#[test]
fn damaged_pages_are_noticed_or_give_other_rows() {
    let fixture = Fixture::new();
    let (mut noticed, mut rounds) = (0, 0);
    let files = [
        "pyarrow_snappy_1.parquet",
        "pyarrow_lz4_2.parquet",
        "pyarrow_deltas_none.parquet",
        "pyarrow_prefixes.parquet",
        "duckdb_snappy.parquet",
        "duckdb_v2.parquet",
    ];
    for name in files {
        for (_, column, slice) in slices(&open(name)).into_iter().filter(|(segment, ..)| *segment == 0) {
            let whole = image(&slice);
            let first = 96 * (1 + slice.pages() as usize);
            for round in 0..6usize {
                let mut bytes = whole.clone();
                for flip in 0..=round % 3 {
                    // Levels, sizes and dictionaries are at the start of pages.
                    let span = if round % 2 == 0 { 64 } else { bytes.len() - first };
                    let at = first + (round * 7919 + flip * 104_729 + column * 31) % span.min(bytes.len() - first);
                    bytes[at] ^= 1 << ((round + flip) % 8);
                }
                let found = fixture.decode(&slice, &bytes);
                assert!(matches!(found.error, 0 | ERROR_DATA), "{}", found.error);
                noticed += usize::from(found.error != 0);
                rounds += 1;
            }
        }
    }
    assert!(noticed > rounds / 4, "{noticed} of {rounds} noticed");
}
