//! Tables whose chunks go through codecs.

use super::faulty_fs::{Fault, FaultyFs};
use super::*;
use crate::codec::{CodecChoice, CodecConfig, ColumnChoice};
use crate::{Codec, CodecOptions, Objective};

/// Small segments, all columns with `codec` in blocks of 4 KiB.
fn through(codec: Codec) -> WriteOptions {
    let codec = CodecOptions { block_bytes: Some(4096), ..CodecOptions::fixed(codec) };
    WriteOptions { codec: Some(codec), ..small() }
}

fn build(path: &Path, batch: &RecordBatch, options: WriteOptions) -> Arc<TableSnapshot> {
    let mut writer = Table::build(path, batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.commit().unwrap()
}

/// Chunks by codec.
fn chunks(snapshot: &TableSnapshot) -> std::collections::BTreeMap<Codec, usize> {
    let mut found = std::collections::BTreeMap::new();
    for column in snapshot.columns() {
        column.codecs.iter().for_each(|((codec, _), count)| *found.entry(*codec).or_insert(0) += count);
    }
    found
}

#[test]
fn every_codec_holds_every_type() {
    for codec in Codec::AVAILABLE {
        for count in [0, 1, 1024, 2500] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("t");
            let batch = rows(0, count);
            let written = build(&path, &batch, through(codec));
            assert_holds(&written, std::slice::from_ref(&batch));
            let read = fresh(&path);
            assert_holds(&read, std::slice::from_ref(&batch));
            read.verify().unwrap();
            let found = chunks(&read);
            assert_eq!(found.values().sum::<usize>(), 12 * count.div_ceil(1024));
            // Not all chunks are worth compressing: constants, sequences.
            let of = |codec: Codec| found.get(&codec).copied().unwrap_or(0);
            assert!(count < 1024 || of(codec) > of(Codec::None) / 2, "{found:?}");
            let (light, stored): (u64, u64) =
                read.columns().iter().fold((0, 0), |(l, s), c| (l + c.light_bytes, s + c.stats.stored_bytes));
            assert!(stored < light || count <= 1, "{stored} of {light}");
            // More strings: earlier codes are translated, compressed ones as well.
            let mut writer = Table::open(&path).unwrap().append(small()).unwrap();
            let more = super::golden::appended();
            writer.write(&more).unwrap();
            writer.commit().unwrap();
            assert_holds(&fresh(&path), &[batch, more]);
        }
    }
}

#[test]
fn compressed_chunks_are_aligned_for_direct_io() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    build(&a, &rows(0, 70_000), WriteOptions { segment_rows: 65_536, ..through(Codec::Lz4) });
    build(&b, &rows(0, 3000), WriteOptions { direct_io: true, ..small() });
    let offsets = |path: &Path, all: bool| -> Vec<u64> {
        let snapshot = fresh(path);
        let chunks = snapshot.parts().segments.iter().flat_map(|s| s.columns.clone()).collect::<Vec<_>>();
        let place = |chunk: &Arc<chunk::Chunk>| match &chunk.source {
            chunk::Source::Compressed(place, _) if place.bytes >= 65_536 => Some(place.offset),
            chunk::Source::File(place) if all => Some(place.offset),
            _ => None,
        };
        chunks.iter().filter_map(place).collect()
    };
    for (path, all) in [(&a, false), (&b, true)] {
        let offsets = offsets(path, all);
        assert!(offsets.len() >= 2 && offsets.iter().all(|o| o.is_multiple_of(4096)), "{offsets:?}");
    }
    let snapshot = fresh(&a);
    let chunk = snapshot.compressed(0, 10).unwrap().unwrap();
    let place = chunk.bytes().file().unwrap();
    let bytes = std::fs::read(&place.path).unwrap();
    assert!(bytes[place.offset as usize..][..chunk.bytes().len()] == chunk.bytes()[..]);
    assert_eq!(snapshot.segment_codec(0, 10), (Codec::Lz4, chunk.uncompressed_bytes() as u64));
    assert!(snapshot.decompression_rate(10).unwrap().is_some_and(|rate| rate > 0.0));
}

#[test]
fn columns_keep_their_codec_until_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    // No rows yet: only the choice is stored.
    build(&path, &rows(0, 0), through(Codec::Snappy));
    let table = Table::open(&path).unwrap();
    let fixed = Some(ColumnChoice::Fixed(CodecConfig::new(Codec::Snappy).with_block_bytes(4096)));
    let append = |first: usize, options: WriteOptions| {
        let mut writer = table.append(options).unwrap();
        writer.write(&rows(first, 1024)).unwrap();
        writer.commit().unwrap()
    };
    let one = append(0, small());
    assert_eq!(one.parts().codecs, [fixed; 12]);
    let snappy = chunks(&one)[&Codec::Snappy];
    assert!(snappy >= 6);
    // Another codec by option; then that is kept.
    let two = append(1024, through(Codec::Zstd));
    // (Notes, with too many strings for a dictionary by now, are rewritten.)
    assert_eq!((chunks(&two)[&Codec::Snappy], chunks(&two)[&Codec::Zstd] >= 6), (snappy - 1, true));
    let three = append(2048, small());
    assert!(chunks(&three)[&Codec::Zstd] > chunks(&two)[&Codec::Zstd] + 6);
    assert_holds(&fresh(&path), &[rows(0, 3072)]);
    // New rows in place of all: as before, too.
    let mut writer = table.replace(rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 1024)).unwrap();
    assert!(chunks(&writer.commit().unwrap())[&Codec::Zstd] >= 6);
    let four = append(0, through(Codec::None));
    assert!(four.parts().codecs.is_empty());
    // No codec is left: the table has version 1 again.
    let mut writer = table.replace(rows(0, 0).schema(), small()).unwrap();
    writer.write(&rows(0, 10)).unwrap();
    let five = writer.commit().unwrap();
    let manifest = std::fs::read(path.join(format!("{:016}.manifest", five.version()))).unwrap();
    assert!(manifest.starts_with(b"warpmill-manifest 1 "));
}

#[test]
fn samples_choose_per_column() {
    let dir = tempfile::tempdir().unwrap();
    let count = 200_000;
    // Noise, text that repeats in blocks, and few distinct doubles.
    let noise =
        |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) ^ (i.wrapping_mul(0x5851_F42D_4C95_7F2D) >> 7);
    let columns: [(&str, ArrayRef); 3] = [
        ("noise", Arc::new(Int64Array::from_iter_values((0..count).map(noise)))),
        ("text", Arc::new(StringArray::from_iter_values((0..count).map(|i| format!("/index/page/{i}?id={}", i % 7))))),
        ("level", Arc::new(Float64Array::from_iter_values((0..count).map(|i| (i % 3) as f64 * 0.25)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (name, objective) in [("t", Objective::Time), ("s", Objective::Size), ("b", Objective::Balanced)] {
        let path = dir.path().join(name);
        let machine = crate::codec::Machine { storage_bandwidth: 1e8, workers: 2, query_rate: 2e9 };
        let codec = CodecOptions { choice: CodecChoice::Auto, objective, machine, ..CodecOptions::default() };
        let options = WriteOptions { segment_rows: 65_536, codec: Some(codec), ..small() };
        let snapshot = build(&path, &batch, options);
        assert_holds(&fresh(&path), std::slice::from_ref(&batch));
        let columns = snapshot.columns();
        let compressed = |c: usize| columns[c].codecs.keys().any(|(codec, _)| *codec != Codec::None);
        assert!(!compressed(0), "noise: {:?}", columns[0].codecs);
        assert!(compressed(1) && compressed(2), "{objective:?}: {:?} {:?}", columns[1].codecs, columns[2].codecs);
        assert!(columns[1].stats.stored_bytes * 2 < columns[1].light_bytes);
        // The chosen codec is kept; none was chosen for noise.
        assert!(snapshot.parts().codecs[0].is_none());
        assert!(matches!(snapshot.parts().codecs[1], Some(ColumnChoice::Fixed(_))));
    }
    // If storage is as fast as memory, decompression only costs.
    let machine = crate::codec::Machine { storage_bandwidth: 1e12, workers: 2, query_rate: 2e9 };
    let codec = CodecOptions { choice: CodecChoice::Auto, machine, ..CodecOptions::default() };
    let snapshot = build(&dir.path().join("n"), &batch, WriteOptions { codec: Some(codec), ..small() });
    assert_eq!(chunks(&snapshot).len(), 1);
    // An empty table has nothing to sample: the wish is kept.
    let codec = CodecOptions { choice: CodecChoice::Auto, objective: Objective::Size, ..CodecOptions::default() };
    let path = dir.path().join("e");
    build(&path, &batch.slice(0, 0), WriteOptions { codec: Some(codec), ..small() });
    let mut writer = Table::open(&path).unwrap().append(small()).unwrap();
    writer.write(&batch).unwrap();
    let snapshot = writer.commit().unwrap();
    assert!(matches!(snapshot.parts().codecs[1], Some(ColumnChoice::Fixed(_))), "{:?}", snapshot.parts().codecs);
}

#[test]
fn plain_values_are_compressed_where_that_is_smaller() {
    let dir = tempfile::tempdir().unwrap();
    // 1000 numbers of 20 bits, repeated: packed, no two vectors of 1024 begin alike.
    let numbers: Vec<Option<i64>> =
        (0..1000i64).map(|i| (i % 7 != 3).then_some(i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 44)).collect();
    let column: ArrayRef = Arc::new(Int64Array::from_iter((0..300_000).map(|i| numbers[i % 1000])));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap();
    let codec = CodecOptions { choice: CodecChoice::Auto, objective: Objective::Size, ..CodecOptions::default() };
    let options = WriteOptions { segment_rows: 131_072, codec: Some(codec), ..small() };
    let path = dir.path().join("t");
    let snapshot = build(&path, &batch, options);
    let light = build(&dir.path().join("l"), &batch, WriteOptions { segment_rows: 131_072, ..small() });
    assert_holds(&fresh(&path), std::slice::from_ref(&batch));
    assert!(snapshot.stored_bytes() * 10 < light.stored_bytes());
    assert_eq!(snapshot.columns()[0].encodings, [("Plain".to_string(), 3)].into());
    // Later rows too.
    let options = WriteOptions { segment_rows: 131_072, ..small() };
    let mut writer = Table::open(&path).unwrap().append(options).unwrap();
    writer.write(&batch.slice(0, 131_072)).unwrap();
    let snapshot = writer.commit().unwrap();
    assert_eq!(snapshot.columns()[0].encodings, [("Plain".to_string(), 4)].into());
    assert_holds(&fresh(&path), &[batch.clone(), batch.slice(0, 131_072)]);
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let with = |codec: CodecOptions| WriteOptions { codec: Some(codec), ..small() };
    for (codec, expected) in [
        (CodecOptions { block_bytes: Some(1000), ..CodecOptions::fixed(Codec::Lz4) }, "1000 bytes"),
        (CodecOptions { block_bytes: Some(1 << 17), ..CodecOptions::fixed(Codec::Deflate) }, "131072 bytes"),
        (CodecOptions { choice: CodecChoice::Auto, sample: 0.0, ..CodecOptions::default() }, "sample of 0"),
    ] {
        let error = Table::build(&dir.path().join("t"), rows(0, 0).schema(), with(codec)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

const DATA: &str = "0000000000000001-0000.data";

/// A chunk: row segment, column, rows, offset and length in the data file, and its name in errors.
type ChunkPlace = (usize, usize, usize, u64, u64, String);

/// A table of compressed chunks, and where they are.
fn damaged_table(codec: Codec) -> (tempfile::TempDir, PathBuf, Vec<ChunkPlace>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let snapshot = build(&path, &rows(0, 2000), through(codec));
    let mut places = Vec::new();
    for (s, segment) in snapshot.parts().segments.iter().enumerate() {
        for (c, chunk) in segment.columns.iter().enumerate() {
            if let chunk::Source::Compressed(place, _) = &chunk.source {
                let name = format!("column {:?}, segment {s}", snapshot.schema().field(c).name());
                places.push((s, c, chunk.stats.rows as usize, place.offset, place.bytes, name));
            }
        }
    }
    (dir, path, places)
}

#[test]
fn a_flipped_bit_is_found_in_every_compressed_chunk() {
    for codec in Codec::AVAILABLE {
        let (_dir, path, places) = damaged_table(codec);
        let file = path.join(DATA);
        let good = std::fs::read(&file).unwrap();
        for (s, c, _, offset, bytes, name) in &places {
            for at in [0, 6, 8, 12, 16, 64, 72, bytes / 2, bytes - 1] {
                let mut damaged = good.clone();
                damaged[(offset + at) as usize] ^= 1 << (at % 8);
                std::fs::write(&file, &damaged).unwrap();
                let error = fresh(&path).segment(*s, *c).unwrap_err();
                assert!(
                    matches!(&error, FormatError::Corrupt { path, segment: Some(at), detail }
                        if path.ends_with(DATA) && at == name && detail.contains("checksum")),
                    "{error}"
                );
            }
        }
    }
}

/// Rewrites the manifest by `change`, with a valid checksum.
fn forge(path: &Path, change: impl FnOnce(&mut manifest::Manifest)) {
    let file = path.join("0000000000000001.manifest");
    let mut manifest = manifest::Manifest::from_bytes(&std::fs::read(&file).unwrap(), &file).unwrap();
    change(&mut manifest);
    std::fs::write(&file, manifest.to_bytes()).unwrap();
}

#[test]
fn lies_with_fitting_checksums_are_errors_that_name_file_and_chunk() {
    use xxhash_rust::xxh3::xxh3_64;
    type Lie = (&'static str, fn(&mut Vec<u8>), fn(&mut manifest::CodecEntry), &'static str);
    let lies: [Lie; 9] = [
        ("codec number", |b| b[6] = 2, |_| (), "its codec, blocks or bytes are not the manifest's"),
        ("no codec", |b| b[6] = 77, |_| (), "codec 77 does not exist"),
        ("size", |b| b[16] ^= 1, |_| (), "its codec, blocks or bytes"),
        ("size, in both", |b| b[16] += 1, |e| e.bytes += 1, "bytes where"),
        ("block", |b| b[9] ^= 0x30, |_| (), ""),
        ("content", |b| *b.last_mut().unwrap() ^= 0xff, |_| (), ""),
        ("truncated", |b| b.truncate(b.len() - 3), |_| (), "ends outside the chunk"),
        ("longer", |b| b.push(0), |_| (), "behind the last block"),
        ("no codec in the manifest", |_| (), |e| e.name = Codec::Zstd, "its codec, blocks or bytes"),
    ];
    for (what, change, entry, expected) in lies {
        let (_dir, path, places) = damaged_table(Codec::Lz4);
        let (s, c, rows, offset, bytes, name) = places.iter().find(|p| p.5.contains("note")).unwrap();
        let file = path.join(DATA);
        let mut data = std::fs::read(&file).unwrap();
        let mut blob = data[*offset as usize..(offset + bytes) as usize].to_vec();
        change(&mut blob);
        // The forged chunk is appended to the file.
        let at = data.len().next_multiple_of(4096);
        data.resize(at, 0);
        data.extend_from_slice(&blob);
        std::fs::write(&file, &data).unwrap();
        forge(&path, |manifest| {
            manifest.files[0].bytes = data.len() as u64;
            let chunk = &mut manifest.segments[*s].columns[*c];
            chunk.blob = manifest::Blob { file: 0, offset: at as u64, bytes: blob.len() as u64, xxh3: xxh3_64(&blob) };
            entry(chunk.codec.as_mut().unwrap());
        });
        match fresh(&path).segment(*s, *c) {
            Err(FormatError::Corrupt { path, segment, detail }) => {
                assert!(path.ends_with(DATA) && segment.as_ref() == Some(name), "{what}: {segment:?}");
                assert!(detail.contains(expected), "{what}: {detail}");
            }
            // A changed byte inside a block that the codec does not detect: other strings, but as many.
            Ok(segment) => assert!(what == "content" && segment.rows() == *rows, "{what}"),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

#[test]
fn a_full_disk_leaves_the_table_as_it_was() {
    let mut at = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let (path, attic) = (dir.path().join("t"), dir.path().join("attic"));
        std::fs::create_dir(&attic).unwrap();
        build(&path, &rows(0, 1200), through(Codec::Lz4));
        let fs = FaultyFs::new(Fault::Error, at, &attic);
        let write = |table: Arc<Table>| {
            let mut writer = table.append(through(Codec::Zstd))?;
            writer.write(&rows(1200, 2500))?;
            writer.commit()
        };
        let written = Table::open_with(fs.clone(), &path).and_then(write);
        if !fs.struck() {
            assert_holds(&written.unwrap(), &[rows(0, 3700)]);
            assert!(at > 30, "only {at} operations");
            break;
        }
        match written {
            Ok(_) => assert_holds(&fresh(&path), &[rows(0, 3700)]),
            Err(_) => {
                let found = fresh(&path);
                let expected = if found.num_rows() == 1200 { rows(0, 1200) } else { rows(0, 3700) };
                assert_holds(&found, &[expected]);
            }
        }
        at += 3;
    }
    // A table that is being imported never appears.
    let mut at = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let (path, attic) = (dir.path().join("t"), dir.path().join("attic"));
        std::fs::create_dir(&attic).unwrap();
        let fs = FaultyFs::new(Fault::Error, at, &attic);
        let write = |mut writer: TableWriter| {
            writer.write(&rows(0, 2500))?;
            writer.commit()
        };
        let written =
            Table::build_with(fs.clone(), &path, rows(0, 0).schema(), through(Codec::Deflate), None).and_then(write);
        match written {
            Ok(written) => assert_holds(&written, &[rows(0, 2500)]),
            Err(_) => assert!(!Table::exists(&path).unwrap() || fresh(&path).verify().is_ok()),
        }
        if !fs.struck() {
            break;
        }
        at += 7;
    }
}

#[test]
fn compressed_chunks_have_the_zones_of_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, options: WriteOptions| {
        let options = WriteOptions { segment_rows: 3072, zone_rows: 1024, metadata: Metadata::All, ..options };
        let path = dir.path().join(name);
        build(&path, &rows(0, 5000), options.clone());
        // Appended rows get the columns' codecs, and separate zones.
        let mut writer = Table::open(&path).unwrap().append(WriteOptions { codec: None, ..options }).unwrap();
        writer.write(&rows(5000, 2000)).unwrap();
        writer.commit().unwrap();
        let manifest = std::fs::read_to_string(path.join("0000000000000002.manifest")).unwrap();
        assert!(manifest.contains("\"pruning\":[{\"first\":0,\"segments\":2,\"zone_rows\":1024,"), "{manifest}");
        (fresh(&path), manifest)
    };
    let zones = |table: &TableSnapshot| -> Vec<_> {
        let of = |map: &ZoneMap, column: usize| {
            let found = map.column(table, column).unwrap().unwrap();
            let zones = found.zones;
            (0..zones.len()).map(|zone| (zones.bounds(zone), zones.has_nulls(zone))).collect::<Vec<_>>()
        };
        table.zone_maps().iter().flat_map(|map| (0..12).map(move |column| of(map, column))).collect()
    };
    let (light, manifest) = write("light", small());
    assert!(manifest.starts_with("warpmill-manifest 1 "));
    let expected = zones(&light);
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [[5; 12], [2; 12]].concat());
    for (name, codec) in [("lz4", Codec::Lz4), ("zstd", Codec::Zstd)] {
        let (table, manifest) = write(name, through(codec));
        assert!(manifest.starts_with("warpmill-manifest 2 ") && manifest.contains("\"codecs\""));
        let compressed = (0..table.num_segments()).filter(|&s| table.compressed(s, 10).unwrap().is_some()).count();
        assert_eq!(compressed, 3);
        assert_eq!(zones(&table), expected);
        assert_ne!(table.fingerprint(10, 10), light.fingerprint(10, 10));
        table.verify().unwrap();
    }
}

/// The codecs of the first tables of version 2; others were added later.
pub(super) const GOLDEN: [Codec; 4] = [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate];

fn golden_v2() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2")
}

/// One append per codec, then one without: compressors' output may change with their libraries, decompression may not.
#[test]
fn version_2_is_read() {
    let batches: Vec<RecordBatch> = (0..5).map(|i| rows(600 * i, 600).project(&[3, 6, 9, 10]).unwrap()).collect();
    if std::env::var_os("WARPMILL_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden_v2());
        build(&golden_v2(), &batches[0], through(GOLDEN[0]));
        let table = Table::open(&golden_v2()).unwrap();
        for (batch, codec) in batches[1..].iter().zip(GOLDEN[1..].iter().chain([&Codec::None])) {
            let mut writer = table.append(through(*codec)).unwrap();
            writer.write(batch).unwrap();
            writer.commit().unwrap();
        }
        std::fs::remove_file(golden_v2().join("LOCK")).unwrap();
        // The next writer would remove the manifests of old versions.
        (1..5).for_each(|v| drop(std::fs::remove_file(golden_v2().join(format!("{v:016}.manifest")))));
    }
    let snapshot = fresh(&golden_v2());
    assert_holds(&snapshot, &batches);
    let found = chunks(&snapshot);
    assert!(GOLDEN.iter().all(|codec| found[codec] >= 3), "{found:?}");
    let manifest = std::fs::read(golden_v2().join("0000000000000005.manifest")).unwrap();
    assert!(manifest.starts_with(b"warpmill-manifest 2 "));
}
