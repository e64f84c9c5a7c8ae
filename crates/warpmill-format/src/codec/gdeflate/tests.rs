use proptest::prelude::*;

use super::*;
use crate::codec::{Codec, CodecConfig, block};

/// Deterministic bytes that are hard to compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 88172645463325252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The outputs of nvCOMP's compressor for CPUs (6.0), at several of its levels.
fn golden() -> Vec<(&'static str, Vec<u8>, &'static [u8])> {
    let zeros = |length: usize| vec![0; length];
    let text: Vec<u8> = b"the quick brown fox ".iter().copied().cycle().take(12_345).collect();
    let numbers = (0..5000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
    macro_rules! stream {
        ($name:literal) => {
            include_bytes!(concat!("../../../tests/golden/gdeflate/", $name, ".bin"))
        };
    }
    vec![
        // Matches of more than 258 bytes, and one from more than 32 KiB away.
        ("far", [noise(900), zeros(39_000), noise(900), zeros(3)].concat(), stream!("far")),
        ("numbers", numbers, stream!("numbers")),
        ("text", [text, noise(40)].concat(), stream!("text")),
        ("noise", noise(1500), stream!("noise")),
        ("one", vec![b'x'], stream!("one")),
        ("same", vec![b'a'; 65_536], stream!("same")),
    ]
}

fn compressed(bytes: &[u8], level: i32) -> Vec<u8> {
    block::compress(&CodecConfig { level, ..CodecConfig::new(Codec::Gdeflate) }, bytes).unwrap()
}

#[test]
fn what_nvcomp_writes_is_read() {
    for (name, bytes, stream) in golden() {
        let mut out = vec![7; bytes.len()];
        assert_eq!(decompress(stream, &mut out), Ok(bytes.len()), "{name}");
        assert!(out == bytes, "{name}");
        let (less, more) = (&mut vec![0; bytes.len() - 1], &mut vec![0; bytes.len() + 1]);
        assert!(decompress(stream, less).is_err(), "{name}");
        assert_eq!(decompress(stream, more), Ok(bytes.len()), "{name}");
        for cut in [0, 4, 127, stream.len() / 2, stream.len() - 1] {
            assert!(decompress(&stream[..cut.min(stream.len() - 1)], &mut out).is_err(), "{name}, {cut} bytes");
        }
        assert!(decompress(&[stream, &[0; 4]].concat(), &mut out).unwrap_err().contains("behind"), "{name}");
    }
}

/// Stored blocks, fixed codes (few bytes), dynamic codes, several blocks.
#[test]
fn all_kinds_of_blocks_round_trip() {
    let mut many = noise(20_000);
    many.extend(noise(20_000).iter().map(|byte| byte & 3));
    many.extend(b"row 12 of the table".iter().cycle().take(25_000));
    let of = golden().into_iter().map(|(_, bytes, _)| bytes);
    for bytes in of.chain([many, noise(65_536), b"short".to_vec(), vec![]]) {
        for level in [0, 1, 6, 9] {
            let stream = compressed(&bytes, level);
            let mut out = vec![7; bytes.len()];
            assert_eq!(decompress(&stream, &mut out), Ok(bytes.len()), "{} bytes, level {level}", bytes.len());
            assert!(out == bytes, "{} bytes, level {level}", bytes.len());
            // A word for each lane more than Deflate, and the unused bits at the end.
            assert!(stream.len() <= 9 * bytes.len() / 8 + 1100, "{} of {} bytes", stream.len(), bytes.len());
        }
    }
}

#[test]
fn codes_of_too_many_symbols_are_refused() {
    let mut code = huffman::Code::default();
    assert!(code.set(&[1, 1, 1]).is_err());
    assert!(code.set(&[1, 2, 2]).is_ok());
    // A single symbol: half of the codes are invalid.
    code.set(&[0, 1]).unwrap();
    assert_eq!(code.find(0b10), Ok((1, 1)));
    assert!(code.find(0b1).is_err());
    code.set(&[]).unwrap();
    assert!(code.find(0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn damage_gives_errors_or_other_bytes(
        which in 0usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (_, bytes, stream) = golden().swap_remove(which);
        let mut stream = stream.to_vec();
        for (at, value) in damage {
            let at = at.index(stream.len());
            stream[at] ^= value;
        }
        let mut out = vec![0; bytes.len()];
        if let Ok(written) = decompress(&stream, &mut out) {
            prop_assert!(written <= bytes.len());
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = decompress(&bytes, &mut [0; 1000]);
    }

    #[test]
    fn what_is_laid_out_is_read(bytes in prop::collection::vec(0u8..6, 0..5000), level in 0i32..10) {
        let stream = compressed(&bytes, level);
        let mut out = vec![7; bytes.len()];
        prop_assert_eq!(decompress(&stream, &mut out), Ok(bytes.len()));
        prop_assert!(out == bytes);
    }
}
