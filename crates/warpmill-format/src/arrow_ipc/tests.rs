use std::io::Write;

use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray};
use arrow::datatypes::Field;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use arrow::record_batch::RecordBatch as Rows;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::*;

fn rows() -> Rows {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..500).map(|n| (n % 7 > 0).then_some(n))));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..500).map(|n| format!("text {}", n / 9))));
    let pair = StructArray::from(vec![(Arc::new(Field::new("k", DataType::Int64, true)), Arc::clone(&numbers))]);
    Rows::try_from_iter([("pair", Arc::new(pair) as ArrayRef), ("k", numbers), ("text", texts)]).unwrap()
}

/// A file of two batches.
fn file(compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows().schema(), options).unwrap();
    writer.write(&rows()).unwrap();
    writer.write(&rows().slice(100, 50)).unwrap();
    writer.into_inner().unwrap()
}

fn footer_of(file: &[u8]) -> Result<(Footer, Range<u64>), String> {
    let tail = &file[file.len().saturating_sub(TAIL_BYTES as usize)..];
    let place = footer_place(tail, file.len() as u64)?;
    let footer = file[place.start as usize..place.end as usize].to_vec();
    Ok((read_footer(&footer, place.start)?, place))
}

/// Checks all batches of a file. Returns their number of rows.
fn check(file: &[u8]) -> Result<i64, String> {
    let (footer, _) = footer_of(file)?;
    let mut rows = 0;
    for block in footer.batches {
        let metadata = &file[block.metadata().start as usize..block.metadata().end as usize];
        let body = &file[block.body().start as usize..block.body().end as usize];
        let (length, used) = metadata_length(metadata)?.ok_or("no message")?;
        let bytes = metadata.get(used..used + length).ok_or("too long")?.to_vec();
        let batch = message(&bytes, block.body_bytes)?.header_as_record_batch().ok_or("no batch")?;
        check_batch(&batch, Columns::Known(footer.schema.fields()), BareRows::Any, body)?;
        rows += batch.length();
    }
    Ok(rows)
}

#[test]
fn sound_files_pass() {
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let file = file(compression);
        assert_eq!(check(&file), Ok(550), "{compression:?}");
        let read = FileReader::try_new(std::io::Cursor::new(&file), None).unwrap();
        assert_eq!(read.map(|rows| rows.unwrap().num_rows()).sum::<usize>(), 550);
    }
}

/// The places of `number` in `bytes`.
fn places(bytes: &[u8], number: &[u8]) -> Vec<usize> {
    (0..bytes.len() - number.len()).step_by(4).filter(|&at| bytes[at..].starts_with(number)).collect()
}

#[test]
fn blocks_outside_of_the_file_are_refused() {
    let sound = file(None);
    let (footer, place) = footer_of(&sound).unwrap();
    let block = footer.batches[1];
    let first = place.start as usize;
    for (number, length) in [(block.offset, 8), (block.metadata_bytes, 4), (block.body_bytes, 8)] {
        let found = places(&sound[first..], &number.to_le_bytes()[..length]);
        assert!(!found.is_empty());
        for value in [-1, i64::MIN, i64::MAX, 1 << 30, sound.len() as i64] {
            let mut file = sound.clone();
            for at in &found {
                file[first + at..first + at + length].copy_from_slice(&value.to_le_bytes()[..length]);
            }
            let error = footer_of(&file).unwrap_err();
            assert!(error.contains("outside") || error.contains("footer"), "{error}");
        }
    }
}

#[test]
fn footers_end_where_the_file_begins() {
    let sound = file(None);
    for length in [0, -1, i32::MIN, i32::MAX, sound.len() as i32, sound.len() as i32 - 10] {
        let mut file = sound.clone();
        let at = file.len() - 10;
        file[at..at + 4].copy_from_slice(&length.to_le_bytes());
        assert!(footer_of(&file).unwrap_err().contains("a footer of"), "{length}");
    }
    for cut in [0, 1, 9, 10, 16, sound.len() / 2, sound.len() - 1] {
        assert!(footer_of(&sound[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn any_change_of_metadata_is_sound_or_an_error() {
    for compression in [None, Some(CompressionType::LZ4_FRAME)] {
        let sound = file(compression);
        let (footer, place) = footer_of(&sound).unwrap();
        let metadata = footer.batches.iter().flat_map(|block| block.metadata());
        for at in metadata.chain(place.start..sound.len() as u64) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = sound.clone();
                file[at as usize] = value;
                // Nothing but the existing bytes is read or allocated, whatever the file claims.
                let _ = check(&file);
            }
        }
    }
}

#[test]
fn compressed_buffers_claim_what_they_can_become() {
    let claims =
        |codec, length: i64, bytes: usize| claim(codec, &[&length.to_le_bytes()[..], &vec![1; bytes]].concat());
    assert_eq!(claims(CompressionType::LZ4_FRAME, -1, 100), Ok(100));
    assert!(claims(CompressionType::LZ4_FRAME, 1 << 30, 100).is_err());
    assert_eq!(claims(CompressionType::ZSTD, 1 << 20, 100), Ok(1 << 20));
    for length in [-2, i64::MIN, i64::MAX, 1 << 40] {
        assert!(claims(CompressionType::ZSTD, length, 100).is_err());
    }
    assert!(claim(CompressionType::ZSTD, &[1, 2, 3]).is_err());
}

/// An LZ4 frame of `zeros` zeros, written `at_once` at a time.
fn lz4(zeros: usize, at_once: usize, info: FrameInfo) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    for part in vec![0; zeros].chunks(at_once) {
        encoder.write_all(part).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn frames_of_lz4_become_what_they_claim() {
    let claims =
        |frame: &[u8], length: u64| claim(CompressionType::LZ4_FRAME, &[&length.to_le_bytes()[..], frame].concat());
    let large = 32 << 20;
    for info in [
        FrameInfo::new(),
        FrameInfo::new().block_size(BlockSize::Max4MB).block_checksums(true).content_checksum(true),
        FrameInfo::new().block_mode(BlockMode::Linked).content_size(Some(large as u64)),
    ] {
        for frame in [lz4(large, large, info.clone()), lz4(large, 40 << 10, info)] {
            let most = most_of_lz4(&frame).unwrap();
            assert!(most >= large as u64);
            assert_eq!(claims(&frame, large as u64), Ok(large as u64));
            for length in [1, 8, 1 << 20, 5 << 20] {
                assert!(claims(&frame, length).unwrap_err().contains("more than"), "{length}");
            }
        }
    }
    // An excess of one block is found during decoding.
    assert_eq!(claims(&lz4(1000, 1000, FrameInfo::new()), 8), Ok(8));
    // Blocks that are far from full are counted, not estimated.
    let small = lz4(4000, 10, FrameInfo::new());
    assert!(most_of_lz4(&small).unwrap() > 4000 * 2 + LZ4_BLOCK);
    assert_eq!(claims(&small, 4000), Ok(4000));
    assert!(claims(&small, 4001).is_err() && claims(&small, 3999).is_err());
    // Not a frame.
    assert!(claims(&[7; 100], 100).is_err());
}

#[test]
fn blocks_on_top_of_each_other_are_refused() {
    let sound = file(None);
    let (footer, place) = footer_of(&sound).unwrap();
    let [first, second] = footer.batches[..] else { panic!("two batches") };
    let mut file = sound.clone();
    for at in places(&sound[place.start as usize..], &second.offset.to_le_bytes()) {
        let at = place.start as usize + at;
        file[at..at + 8].copy_from_slice(&first.offset.to_le_bytes());
    }
    assert!(footer_of(&file).unwrap_err().contains("is in the one at"));
    assert!(check_apart([second, first].iter()).is_ok());
    let inside = Block { offset: first.offset + 8, ..second };
    assert!(check_apart([second, inside, first].iter()).is_err());
}

#[test]
fn rows_without_bytes_are_few_or_any() {
    let nulls = |count: usize| Rows::try_from_iter([("n", arrow::array::new_null_array(&DataType::Null, count))]);
    let most = BareRows::Few.most() as usize;
    for (count, sound) in [(most, true), (most + 1, false), (i32::MAX as usize, false)] {
        let mut writer = FileWriter::try_new(Vec::new(), &nulls(1).unwrap().schema()).unwrap();
        writer.write(&nulls(count).unwrap()).unwrap();
        let file = writer.into_inner().unwrap();
        assert_eq!(check(&file), Ok(count as i64));
        let block = footer_of(&file).unwrap().0.batches[0];
        let metadata = &file[block.metadata().start as usize..block.metadata().end as usize];
        let (length, used) = metadata_length(metadata).unwrap().unwrap();
        let bytes = metadata[used..used + length].to_vec();
        let batch = message(&bytes, block.body_bytes).unwrap().header_as_record_batch().unwrap();
        assert_eq!(check_batch(&batch, Columns::Unknown, BareRows::Few, &[]).is_ok(), sound, "{count}");
    }
}

#[test]
fn messages_tell_their_length() {
    let prefix = |length: i32| [&CONTINUATION[..], &length.to_le_bytes()].concat();
    assert_eq!(metadata_length(&prefix(72)), Ok(Some((72, 8))));
    assert_eq!(metadata_length(&72_i32.to_le_bytes()), Ok(Some((72, 4))));
    assert_eq!(metadata_length(&prefix(0)), Ok(None));
    assert_eq!(metadata_length(&[1, 2]), Ok(None));
    assert!(metadata_length(&prefix(-5)).is_err());
    assert!(metadata_length(&CONTINUATION).is_err());
}

#[test]
fn types_that_there_are_not_are_refused() {
    for data_type in [DataType::FixedSizeBinary(-1), DataType::Decimal128(39, 2), DataType::Decimal64(0, 0)] {
        assert!(check_type(&data_type).is_err());
        let nested = DataType::Struct(vec![Field::new("x", data_type.clone(), true)].into());
        assert!(check_type(&nested).is_err());
        assert!(check_type(&DataType::Dictionary(Box::new(DataType::Int32), Box::new(data_type))).is_err());
    }
    assert!(check_type(&DataType::Decimal128(38, -3)).is_ok());
}
