use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array,
    StringArray, UInt64Array,
};
use proptest::prelude::*;

use super::stored::compress;
use super::*;
use crate::segment::SegmentBytes;
use crate::{Dictionary, Encoding, Segment};

/// Test data by kind: zeros, repetitive text, ascending numbers, noise.
fn data(kind: usize, length: usize) -> Vec<u8> {
    let mut state = 88172645463325252u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    match kind {
        0 => vec![0; length],
        1 => b"the quick brown fox ".iter().copied().cycle().take(length).collect(),
        2 => (0..length as u32 / 4 + 1).flat_map(|i| (i / 3).to_le_bytes()).take(length).collect(),
        _ => (0..length).map(|_| noise() as u8).collect(),
    }
}

fn configs() -> impl Iterator<Item = CodecConfig> {
    Codec::AVAILABLE.into_iter().flat_map(|codec| {
        let blocks = [4096, 64 << 10, 256 << 10].into_iter().filter(move |&bytes| bytes <= codec.max_block_bytes());
        blocks.map(move |bytes| CodecConfig::new(codec).with_block_bytes(bytes))
    })
}

fn stored(config: &CodecConfig, bytes: &[u8]) -> Option<CompressedChunk> {
    let stored = compress(config, bytes).unwrap()?;
    assert!(stored.len() < bytes.len());
    Some(CompressedChunk::read(SegmentBytes::copy_from(&stored)).unwrap())
}

#[test]
fn bytes_of_all_lengths_round_trip() {
    for config in configs() {
        for kind in 0..4 {
            for length in [0, 1, 63, 4095, 4096, 4097, 65_535, 65_536, 65_537, 300_000] {
                let bytes = data(kind, length);
                let Some(chunk) = stored(&config, &bytes) else {
                    // Noise, and data shorter than header and table.
                    assert!(kind == 3 || length <= 63 + 64, "{config:?}, kind {kind}, {length} bytes");
                    continue;
                };
                assert_eq!((chunk.codec(), chunk.uncompressed_bytes()), (config.codec, length));
                assert_eq!(chunk.blocks(), length.div_ceil(config.block_bytes));
                assert!(chunk.decompress().unwrap()[..] == bytes[..], "{config:?}, kind {kind}, {length} bytes");
                for i in [0, chunk.blocks() - 1] {
                    assert!(chunk.block(i).start.is_multiple_of(16));
                    let mut out = vec![7; chunk.block_target(i).len()];
                    chunk.decompress_block(i, &mut out).unwrap();
                    assert!(out == bytes[chunk.block_target(i)]);
                }
            }
        }
    }
}

/// Columns of all types, some with NULLs, with `n` rows.
fn columns(n: usize) -> Vec<ArrayRef> {
    let some = |i: usize| i % 7 != 3;
    let words = ["", "air", "a longer word", "déjà vu"];
    vec![
        Arc::new((0..n).map(|i| Some(i as i64 * 1_000_003 % 977)).collect::<Int64Array>()),
        Arc::new((0..n).map(|i| some(i).then_some((i / 10) as i64)).collect::<Int64Array>()),
        Arc::new((0..n).map(|i| some(i).then_some((i % 5) as i8)).collect::<Int8Array>()),
        Arc::new((0..n).map(|i| Some(u64::MAX - (i % 9) as u64)).collect::<UInt64Array>()),
        Arc::new((0..n).map(|i| Some(9000 + (i / 50) as i32)).collect::<Date32Array>()),
        Arc::new((0..n).map(|i| some(i).then_some((i as i128 - 5) << 70)).collect::<Decimal128Array>()),
        Arc::new((0..n).map(|i| Some(((i % 100) as f32) / 4.0)).collect::<Float32Array>()),
        Arc::new((0..n).map(|i| some(i).then_some(i as f64 / 3.0)).collect::<Float64Array>()),
        Arc::new((0..n).map(|i| some(i).then_some(i % 3 == 0)).collect::<BooleanArray>()),
        Arc::new((0..n).map(|i| some(i).then_some(words[i % 4])).collect::<StringArray>()),
        Arc::new((0..n).map(|_| None::<i64>).collect::<Int64Array>()),
        Arc::new((0..n).map(|_| Some(42)).collect::<Int64Array>()),
    ]
}

#[test]
fn every_type_and_encoding_round_trips_through_every_codec() {
    let dictionary = Arc::new(Dictionary::from_sorted(["", "a longer word", "air", "déjà vu"]));
    let (mut tried, mut compressed) = (0, 0);
    for n in [0, 1, 1000, 5000] {
        for column in columns(n) {
            let strings = column.data_type().is_string();
            for dictionary in [None, Some(&dictionary)].into_iter().filter(|d| d.is_none() || strings) {
                for forced in std::iter::once(None).chain(Encoding::ALL.map(Some)) {
                    let Ok(segment) = Segment::encode(&column, dictionary, forced) else { continue };
                    let bytes = segment.to_bytes();
                    for codec in Codec::AVAILABLE {
                        tried += 1;
                        let Some(chunk) = stored(&CodecConfig::new(codec).with_block_bytes(4096), &bytes) else {
                            continue;
                        };
                        compressed += 1;
                        let again = chunk.decompress().unwrap();
                        assert!(again[..] == bytes[..], "{codec}, {forced:?}, {n} rows of {}", column.data_type());
                        let again = Segment::from_bytes(again, column.data_type(), n).unwrap();
                        assert_eq!(again.stats(), segment.stats());
                    }
                }
            }
        }
    }
    assert!(tried > 800 && compressed * 2 > tried, "{compressed} of {tried} were worth compressing");
}

/// A chunk of three blocks, the last one shorter, and its bytes.
fn three_blocks(codec: Codec) -> (Vec<u8>, Vec<u8>) {
    let bytes = data(2, 2 * 4096 + 1000);
    let chunk = compress(&CodecConfig::new(codec).with_block_bytes(4096), &bytes).unwrap().unwrap();
    (bytes, chunk)
}

fn error_of(chunk: &[u8]) -> String {
    let read = CompressedChunk::read(SegmentBytes::copy_from(chunk));
    read.and_then(|chunk| chunk.decompress()).expect_err("the chunk is damaged").to_string()
}

#[test]
fn lies_are_told_apart() {
    let (_, good) = three_blocks(Codec::Lz4);
    let lie = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        error_of(&bytes)
    };
    let entry = |i: usize| 64 + 16 * i;
    let second = u64::from_le_bytes(good[entry(1)..entry(1) + 8].try_into().unwrap());
    let length = u64::from_le_bytes(good[entry(1) + 8..entry(1) + 16].try_into().unwrap());
    let cases: Vec<(String, &str)> = vec![
        (lie(0, b"WMSG"), "wrong magic"),
        (lie(4, &[2, 0]), "version 2, this build reads 1"),
        (lie(6, &[0]), "codec 0 does not exist"),
        (lie(6, &[6]), "codec 6 does not exist"),
        (lie(7, &[1]), "unused bytes"),
        (lie(40, &[1]), "unused bytes"),
        (lie(8, &0u32.to_le_bytes()), "blocks of 0 bytes"),
        (lie(8, &5000u32.to_le_bytes()), "blocks of 5000 bytes"),
        (lie(8, &(2u32 << 20).to_le_bytes()), "blocks of 2097152 bytes"),
        (lie(8, &8192u32.to_le_bytes()), "3 blocks of 8192 bytes"),
        (lie(12, &2u32.to_le_bytes()), "2 blocks of 4096 bytes"),
        (lie(12, &u32::MAX.to_le_bytes()), "blocks of 4096 bytes for"),
        (lie(16, &0u64.to_le_bytes()), "for 0 bytes"),
        (lie(16, &u64::MAX.to_le_bytes()), "blocks of 4096 bytes for"),
        (lie(16, &(3 * 4096u64).to_le_bytes()), "block 2 of 3, lz4: 1000 bytes where 4096 belong"),
        (lie(16, &(2 * 4096u64 + 999).to_le_bytes()), "block 2 of 3, lz4"),
        (lie(entry(1), &(second + 16).to_le_bytes()), "block 1 at byte"),
        (lie(entry(0), &0u64.to_le_bytes()), "block 0 at byte 0"),
        (lie(entry(1) + 8, &(length + 1).to_le_bytes()), "block"),
        (lie(entry(2) + 8, &u64::MAX.to_le_bytes()), "ends outside the chunk"),
        (lie(entry(2) + 8, &1u64.to_le_bytes()), "behind the last block"),
        (error_of(&good[..40]), "40 bytes are no compressed chunk"),
        (error_of(&good[..100]), "a table of 3 blocks does not fit"),
        (error_of(&good[..good.len() - 1]), "ends outside the chunk"),
        (error_of(&[&good[..], &[0]].concat()), "1 bytes behind the last block"),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
}

#[test]
fn one_codec_does_not_read_another() {
    for codec in Codec::AVAILABLE {
        let (bytes, good) = three_blocks(codec);
        for other in Codec::AVAILABLE.into_iter().filter(|&other| other != codec) {
            let mut lying = good.clone();
            lying[6] = other.number();
            let read = CompressedChunk::read(SegmentBytes::copy_from(&lying)).unwrap().decompress();
            assert!(read.is_err() || read.unwrap()[..] != bytes[..], "{other} reads {codec}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damage_gives_errors_or_bytes_of_the_same_length(
        codec in 0usize..5,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (bytes, mut chunk) = three_blocks(Codec::AVAILABLE[codec]);
        for (at, value) in damage {
            let at = at.index(chunk.len());
            chunk[at] ^= value;
        }
        if let Some(cut) = cut {
            chunk.truncate(cut.index(chunk.len()));
        }
        if let Ok(read) = CompressedChunk::read(SegmentBytes::copy_from(&chunk)).and_then(|chunk| chunk.decompress()) {
            prop_assert!(read.len() <= bytes.len().next_multiple_of(4096));
        }
    }

    #[test]
    fn any_bytes_round_trip(
        bytes in prop::collection::vec(0u8..4, 0..20_000),
        codec in 0usize..5,
        block in 1usize..5,
    ) {
        let config = CodecConfig::new(Codec::AVAILABLE[codec]).with_block_bytes(4096 * block);
        if let Some(chunk) = stored(&config, &bytes) {
            prop_assert!(chunk.decompress().unwrap()[..] == bytes[..]);
        }
    }
}

#[test]
fn threads_share_the_work_and_the_segment() {
    let column: ArrayRef = Arc::new((0..300_000).map(|i| Some(i % 1000)).collect::<Int64Array>());
    let segment = Segment::encode(&column, None, Some(Encoding::Plain)).unwrap();
    let chunk = stored(&CodecConfig::new(Codec::Lz4), segment.as_bytes()).unwrap();
    let shared = Shared::default();
    for round in 0..20 {
        let opened = std::sync::atomic::AtomicUsize::new(0);
        let open = |bytes: SegmentBytes, known: bool| {
            opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(known, round > 0);
            Segment::from_bytes(bytes, column.data_type(), column.len())
        };
        let barrier = std::sync::Barrier::new(4);
        let read = || {
            barrier.wait();
            let segment = shared.get(|| Ok(chunk.clone()), open).unwrap();
            barrier.wait();
            segment
        };
        let segments: Vec<Arc<Segment>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(segments.iter().all(|s| Arc::ptr_eq(s, &segments[0])));
        assert_eq!(opened.into_inner(), 1, "decompressed once");
        assert!(segments[0].as_bytes()[..] == segment.as_bytes()[..]);
    }
}

#[test]
fn every_thread_hears_of_damage() {
    let bytes = data(2, 1 << 20);
    let mut damaged = compress(&CodecConfig::new(Codec::Zstd), &bytes).unwrap().unwrap();
    let place = stored(&CodecConfig::new(Codec::Zstd), &bytes).unwrap().block(5).start;
    damaged[place] ^= 0xff;
    let chunk = CompressedChunk::read(SegmentBytes::copy_from(&damaged)).unwrap();
    let shared = Shared::default();
    for _ in 0..10 {
        let open = |_: SegmentBytes, _: bool| -> Result<Segment> { unreachable!("there are no bytes") };
        let errors: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| shared.get(|| Ok(chunk.clone()), open).unwrap_err())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().to_string()).collect()
        });
        assert!(errors.iter().all(|error| error.contains("block 5 of 16, zstd")), "{errors:?}");
    }
}

#[test]
fn names_numbers_and_block_sizes() {
    for (number, codec) in Codec::ALL.into_iter().enumerate() {
        assert_eq!((codec.number() as usize, codec.name().parse::<Codec>().unwrap()), (number, codec));
        assert_eq!(Codec::from_number(codec.number()), Some(codec));
    }
    let error = "rar".parse::<CodecChoice>().unwrap_err().to_string();
    assert!(error.contains("codec rar") && error.contains("zstd"), "{error}");
    let blocks = |codec, bytes| CodecConfig::new(codec).with_block_bytes(bytes).check();
    assert!(blocks(Codec::Lz4, 1 << 20).is_ok() && blocks(Codec::Deflate, 64 << 10).is_ok());
    for (codec, bytes) in [(Codec::Lz4, 0), (Codec::Lz4, 5000), (Codec::Lz4, 2 << 20), (Codec::Deflate, 128 << 10)] {
        assert!(blocks(codec, bytes).is_err(), "{codec} {bytes}");
    }
}
