//! Chunks decompressed by the device (`decompress.cuh`, and `batch.cuh` around a library), compared with the host's libraries, intact and damaged.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use warpmill_format::codec::{CodecChoice, CodecOptions};
use warpmill_format::table::WriteOptions;
use warpmill_format::{Codec, CompressedChunk, SegmentBytes, Table};

use crate::data::chunks::Chunk;
use crate::data::segments::describe_compressed;
use crate::data::stream::batches::{Batches, Scratch};
use crate::data::stream::open::Openers;
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::memory::regions::{KeyMap, padded};

/// The `ErrorCode` for values that need the host.
const ERROR_HOST: u32 = 5;

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
    openers: Openers,
    batches: Batches,
}

impl Fixture {
    fn new() -> Self {
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let device: Arc<dyn Device> =
            Arc::new(SimDevice::new(SimOptions { sanitize, ..SimOptions::default() }).expect("a C++ compiler"));
        let (stream, openers) = (device.stream().unwrap(), Openers::compile(&device).unwrap());
        let batches = Batches::compile(&device).unwrap();
        Self { device, stream, openers, batches }
    }

    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        let at = self.device.allocate(padded(bytes.len() as u64)).unwrap();
        // SAFETY: just allocated with more.
        unsafe { self.device.copy_to_device(at, bytes, self.stream).unwrap() };
        at
    }

    /// Decompresses `stored`, the possibly damaged stored form of `chunk`, on the device; returns the bytes and the error raised.
    fn decompress(&self, chunk: &Chunk, stored: &[u8]) -> (Vec<u8>, u32) {
        let (state, from) = (self.upload(&[0; 32]), self.upload(stored));
        let to = self.device.allocate(padded(chunk.bytes)).unwrap();
        let (places, mut image) = (KeyMap::from_iter([(chunk.key(), to)]), vec![]);
        let blocks = describe_compressed(chunk, from, &places, 0, &mut image).unwrap();
        let tasks = self.upload(&image);
        let (mut bytes, mut word) = (vec![0; chunk.bytes as usize], [0; 4]);
        // Less than all blocks need at once.
        let scratch = Scratch { entries: 5, temp: 2 * (3 * 65536 + 6936) };
        let own = self.device.allocate(scratch.bytes()).unwrap();
        // SAFETY: the descriptor names what was uploaded, and room for the segment.
        unsafe {
            match chunk.batch() {
                None => self.openers.decompress((tasks, 1, blocks), state, self.stream).unwrap(),
                Some(wanted) => {
                    assert_eq!(wanted.count, u64::from(blocks));
                    self.batches.chunks((tasks, 1), &wanted, (&scratch, own), state, self.stream).unwrap();
                }
            }
            self.device.copy_to_host(&mut bytes, to, self.stream).unwrap();
            self.device.copy_to_host(&mut word, state, self.stream).unwrap();
        }
        self.device.synchronize(self.stream).unwrap();
        for at in [state, from, to, tasks, own] {
            // SAFETY: allocated above; nothing is queued.
            unsafe { self.device.free(at) };
        }
        (bytes, u32::from_le_bytes(word))
    }
}

/// The chunks of a table whose columns were compressed with `codec`.
fn chunks(codec: Codec, block_bytes: usize) -> Vec<(Chunk, CompressedChunk)> {
    const ROWS: i64 = 9000;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("few", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i * i % 7)))),
        // Repetitions at a distance of 16 KiB, more than the device keeps in fast memory.
        (
            "again",
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| (i % 2048).wrapping_mul(0x1E37_79B9_7F4A_7C15)))),
        ),
        ("same", Arc::new(Int64Array::from_iter((0..ROWS).map(|i| (i % 3 > 0).then_some(i / 500))))),
        ("text", Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| format!("the {i}th of {} lines", i * 31))))),
        (
            "long",
            Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| "ab".repeat((i % 90) as usize) + &i.to_string()))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let table = Table::create(&folder.path().join("t"), batch.schema()).unwrap();
    let options =
        CodecOptions { choice: CodecChoice::Fixed(codec), block_bytes: Some(block_bytes), ..CodecOptions::default() };
    let mut writer = table.append(WriteOptions { codec: Some(options), ..WriteOptions::default() }).unwrap();
    writer.write(&batch).unwrap();
    writer.commit().unwrap();
    let snapshot = table.snapshot().unwrap();
    let chunk = |column| {
        let stored = snapshot.stored(0, column)?;
        let (parts, compressed) = (snapshot.stored_parts(&stored, 0, column).unwrap(), stored.open().unwrap());
        Some((Chunk::stored(stored, parts, snapshot.segment_stats(0, column), false)?, compressed))
    };
    (0..5).filter_map(chunk).collect()
}

#[test]
fn chunks_decompress_to_their_segments() {
    let fixture = Fixture::new();
    for codec in Codec::AVAILABLE {
        for block_bytes in [4 << 10, 64 << 10] {
            let chunks = chunks(codec, block_bytes);
            assert!(chunks.len() >= 4, "{codec}: {} chunks got smaller", chunks.len());
            for (chunk, compressed) in chunks {
                let (bytes, error) = fixture.decompress(&chunk, compressed.bytes());
                assert_eq!(error, 0, "{codec}");
                assert_eq!(bytes, compressed.decompress().unwrap()[..], "{codec}, blocks of {block_bytes}");
            }
        }
    }
}

/// Damaged blocks: the device may produce any bytes, but must not access memory out of bounds, and must report blocks that yield a wrong number of
/// bytes.
#[test]
fn damaged_blocks_are_noticed_or_give_other_bytes() {
    let fixture = Fixture::new();
    let mut noticed = 0;
    // Quick runs, such as those of CI, try a third.
    let step = if std::env::var_os("WARPMILL_QUICK").is_some() { 3 } else { 1 };
    for codec in Codec::AVAILABLE {
        for (chunk, compressed) in chunks(codec, 4 << 10) {
            for round in (0..30usize).step_by(step) {
                let mut stored = compressed.bytes().to_vec();
                let block = compressed.block(round % compressed.blocks());
                for flip in 0..=round % 4 {
                    let at = block.start + (round * 7919 + flip * 104_729) % block.len();
                    stored[at] ^= 1 << (round % 8);
                }
                let host = CompressedChunk::read(SegmentBytes::copy_from(&stored)).and_then(|again| again.decompress());
                let (bytes, error) = fixture.decompress(&chunk, &stored);
                match host {
                    Ok(expected) => assert!(error == 0 && bytes == expected[..], "{codec}, round {round}"),
                    Err(_) => assert_eq!(error, ERROR_HOST, "{codec}, round {round}"),
                }
                noticed += usize::from(error != 0);
            }
        }
    }
    assert!(noticed > 100 / step, "{noticed} noticed");
}
