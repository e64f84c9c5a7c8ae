//! Tables whose chunks are stored twice: in their encoding, and compressed by a codec.

use super::codec::GOLDEN;
use super::*;
use crate::codec::{CodecChoice, Sparse};
use crate::table::chunk::Source;
use crate::table::data_file::Place;
use crate::{Codec, CodecOptions, Encoding, Objective, SegmentParts};

/// Small segments, both forms of all columns, in blocks of 4 KiB.
fn both(codec: Codec) -> WriteOptions {
    let codec = CodecOptions { block_bytes: Some(4096), light: true, ..CodecOptions::fixed(codec) };
    WriteOptions { codec: Some(codec), ..small() }
}

fn build(path: &Path, batch: &RecordBatch, options: WriteOptions) -> Arc<TableSnapshot> {
    let mut writer = Table::build(path, batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.commit().unwrap()
}

/// Positions of chunks that have both forms.
fn pairs(snapshot: &TableSnapshot) -> Vec<(usize, usize)> {
    let columns = snapshot.schema().fields().len();
    let all = (0..snapshot.num_segments() * columns).map(|i| (i / columns, i % columns));
    all.filter(|&(s, c)| snapshot.has_light(s, c) && snapshot.stored(s, c).is_some()).collect()
}

/// Asserts that both forms of all chunks contain the same rows. Returns the number of chunks with both.
fn assert_same(snapshot: &TableSnapshot) -> usize {
    let pairs = pairs(snapshot);
    for &(s, c) in &pairs {
        let heavy = snapshot.parts().decompressed(&snapshot.stored(s, c).unwrap(), s, c).unwrap();
        let light = snapshot.segment(s, c).unwrap();
        assert!(values(&heavy, snapshot, c) == values(&light, snapshot, c), "segment {s}, column {c}");
    }
    pairs.len()
}

/// Disks read neighbours with one request, and devices take them without a copy.
#[test]
fn chunks_of_a_column_lie_next_to_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = build(&dir.path().join("t"), &rows(0, 20_000), both(Codec::Zstd));
    let end = |place: &Place| place.offset + place.bytes + 16;
    let mut heavy_pairs = 0;
    for c in 0..snapshot.schema().fields().len() {
        for pair in snapshot.parts().segments.windows(2).map(|pair| [&pair[0].columns[c], &pair[1].columns[c]]) {
            let light = pair.map(|chunk| match &chunk.source {
                Source::File(place) => place,
                other => panic!("column {c}: {other:?}"),
            });
            assert_eq!(light[1].offset, end(light[0]).next_multiple_of(256), "column {c}");
            let [Some(first), Some(second)] = pair.map(|chunk| chunk.heavy.as_ref()) else { continue };
            assert_eq!(second.place.offset, end(&first.place).next_multiple_of(256), "column {c}");
            heavy_pairs += 1;
        }
    }
    assert!(heavy_pairs > 100, "{heavy_pairs}");
}

/// For any extent: dictionaries, growing dictionaries, columns that get none in the end.
#[test]
fn extents_of_any_size_hold_the_same_rows() {
    for extent_bytes in [0, 2000, 20_000] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let batch = rows(0, 9000);
        build(&path, &batch, WriteOptions { extent_bytes, ..both(Codec::Lz4) });
        let table = Table::open(&path).unwrap();
        let more = super::golden::appended();
        for _ in 0..2 {
            let mut writer = table.append(WriteOptions { extent_bytes, ..small() }).unwrap();
            writer.write(&more).unwrap();
            writer.write(&rows(100, 5000)).unwrap();
            writer.commit().unwrap();
        }
        let read = fresh(&path);
        read.verify().unwrap();
        assert_holds(&read, &[batch, more.clone(), rows(100, 5000), more, rows(100, 5000)]);
        assert!(assert_same(&read) > 100, "{extent_bytes}");
        // A dictionary is given up: the column is rewritten.
        let values = |first: usize| -> Vec<String> { (0..70_000).map(|i| format!("{:x}", first + i)).collect() };
        let many = |first: usize, count: usize| {
            words(&values(first).iter().take(count).map(|s| Some(s.as_str())).collect::<Vec<_>>())
        };
        let path = dir.path().join("w");
        let few = (0..5).flat_map(|_| values(0).into_iter().take(1000)).collect::<Vec<_>>();
        let few = words(&few.iter().map(|s| Some(s.as_str())).collect::<Vec<_>>());
        assert!(build(&path, &few, WriteOptions { extent_bytes, ..both(Codec::Zstd) }).dictionary(0).is_some());
        let mut writer = Table::open(&path).unwrap().append(WriteOptions { extent_bytes, ..small() }).unwrap();
        writer.write(&many(0, 70_000)).unwrap();
        writer.commit().unwrap();
        let read = fresh(&path);
        assert!(read.dictionary(0).is_none());
        assert_holds(&read, &[few, many(0, 70_000)]);
        read.verify().unwrap();
    }
}

#[test]
fn both_forms_hold_every_type() {
    for codec in Codec::AVAILABLE {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let batch = rows(0, 2500);
        build(&path, &batch, both(codec));
        let read = fresh(&path);
        assert_holds(&read, std::slice::from_ref(&batch));
        read.verify().unwrap();
        assert!(assert_same(&read) >= 18, "{codec}");
        // Every chunk can be read without a codec, and is counted as such; the additional forms are counted, too.
        let light = build(&dir.path().join("l"), &batch, small());
        for (both, light) in read.columns().iter().zip(light.columns()) {
            assert_eq!((&both.stats, &both.codecs), (&light.stats, &light.codecs));
            assert_eq!((both.heavy.is_empty(), light.heavy.is_empty()), (both.heavy_bytes == 0, true));
            assert!(both.heavy.keys().all(|key| *key == (codec, 4096)) && both.heavy_bytes < light.light_bytes);
        }
        let heavy: u64 = read.columns().iter().map(|column| column.heavy_bytes).sum();
        assert_eq!(read.stored_bytes(), light.stored_bytes() + heavy);
        // Appends keep both forms, and translate the codes of both.
        let mut writer = Table::open(&path).unwrap().append(small()).unwrap();
        let more = super::golden::appended();
        writer.write(&more).unwrap();
        writer.commit().unwrap();
        let appended = fresh(&path);
        assert_holds(&appended, &[batch, more]);
        assert!(assert_same(&appended) > pairs(&read).len());
        // The files of both forms that are not wanted any more go with the next version.
        let mut writer = Table::open(&path).unwrap().replace(rows(0, 0).schema(), small()).unwrap();
        writer.write(&rows(0, 100)).unwrap();
        let replaced = writer.commit().unwrap();
        assert_holds(&replaced, &[rows(0, 100)]);
        drop((read, appended));
        Table::open(&path).unwrap().append(small()).unwrap().commit().unwrap();
        let data = std::fs::read_dir(&path)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "data"));
        assert_eq!(data.count(), 1);
    }
}

#[test]
fn a_compressed_form_may_be_of_another_encoding() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = (0..100_000i64).map(|i| ((i % 1000).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)) >> 44);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap();
    let objective = Objective::Size;
    let codec = CodecOptions { choice: CodecChoice::Auto, objective, light: true, ..CodecOptions::default() };
    let options = WriteOptions { segment_rows: 65_536, codec: Some(codec), ..small() };
    build(&dir.path().join("t"), &batch, options);
    let snapshot = fresh(&dir.path().join("t"));
    assert_eq!(snapshot.segment_encoding(0, 0), Encoding::LaneFor);
    assert_eq!(snapshot.stored(0, 0).unwrap().encoding(), Encoding::Plain);
    assert_eq!(assert_same(&snapshot), 2);
    snapshot.verify().unwrap();
}

#[test]
fn the_layout_of_a_compressed_segment_takes_few_blocks() {
    for codec in Codec::AVAILABLE {
        let dir = tempfile::tempdir().unwrap();
        let batch = rows(0, 140_000);
        let options = WriteOptions { segment_rows: 131_072, ..both(codec) };
        build(&dir.path().join("t"), &batch, options);
        let snapshot = fresh(&dir.path().join("t"));
        let (mut some, mut all) = (0, 0);
        for (s, c) in pairs(&snapshot) {
            let name = snapshot.schema().field(c).name().clone();
            let stored = snapshot.stored(s, c).unwrap();
            // Before anything has been verified.
            let parts = snapshot.stored_parts(&stored, s, c).unwrap();
            let opened = snapshot.parts().decompressed(&stored, s, c).unwrap();
            assert_eq!(parts, SegmentParts::of(&opened), "{codec}, {name}");
            assert_eq!(snapshot.stored_parts(&stored, s, c).unwrap(), parts);
            let chunk = stored.open().unwrap();
            let mut sparse = Sparse::new(&chunk);
            let (data_type, rows) = (snapshot.schema().field(c).data_type(), snapshot.segment_rows(s));
            crate::Segment::sparse(sparse.bytes(), data_type, rows, &mut |range| sparse.fetch(range)).unwrap();
            assert!(name == "note" || sparse.fetched() <= 7, "{name}: {} blocks", sparse.fetched());
            if name != "note" {
                (some, all) = (some + sparse.fetched(), all + chunk.blocks());
            }
        }
        assert!(some * 2 < all, "{some} of {all} blocks");
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
fn damage_of_one_form_is_named_and_leaves_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let snapshot = build(&path, &rows(0, 2000), both(Codec::Lz4));
    let file = path.join("0000000000000001-0000.data");
    let good = std::fs::read(&file).unwrap();
    for (s, c) in pairs(&snapshot) {
        let place = snapshot.stored(s, c).unwrap();
        let name = format!("column {:?}, segment {s}", snapshot.schema().field(c).name());
        for at in [0, 6, 16, 64, 80, place.bytes() / 2, place.bytes() - 1] {
            let mut damaged = good.clone();
            damaged[(place.file().offset + at) as usize] ^= 1 << (at % 8);
            std::fs::write(&file, &damaged).unwrap();
            let read = fresh(&path);
            let stored = read.stored(s, c).unwrap();
            // The layout may not need the damaged part; reading the chunk does.
            let errors = [read.stored_parts(&stored, s, c).err(), stored.open().err(), read.verify().err()];
            assert!(errors[1].is_some() && errors[2].is_some());
            for error in errors.into_iter().flatten() {
                let text = error.to_string();
                let named = text.contains(&name) && text.contains("0000000000000001-0000.data");
                assert!(matches!(error, FormatError::Corrupt { .. }) && named && text.contains("checksum"), "{text}");
            }
            let bytes = &damaged[place.file().offset as usize..][..place.bytes() as usize];
            assert!(stored.check(bytes).unwrap_err().to_string().contains("checksum"));
            assert!(values(&read.segment(s, c).unwrap(), &read, c).len() == read.segment_rows(s));
        }
    }
    std::fs::write(&file, &good).unwrap();
    let read = fresh(&path);
    for (s, c) in pairs(&read) {
        let stored = read.stored(s, c).unwrap();
        let bytes = &good[stored.file().offset as usize..][..stored.bytes() as usize];
        stored.check(bytes).and_then(|()| stored.check(bytes)).unwrap();
    }
}

#[test]
fn lies_about_a_compressed_form_are_errors() {
    type Lie = (&'static str, fn(&mut manifest::HeavyEntry, &manifest::ChunkEntry), &'static str);
    let lies: [Lie; 6] = [
        ("another encoding", |heavy, _| heavy.encoding = Encoding::LaneRle, "its encoding is not the manifest's"),
        ("another codec", |heavy, _| heavy.codec.name = Codec::Zstd, "its codec, blocks or bytes"),
        ("other bytes", |heavy, _| heavy.codec.bytes += 64, "its codec, blocks or bytes"),
        ("other blocks", |heavy, _| heavy.codec.block = 8192, "its codec, blocks or bytes"),
        // The chunk of a column of the same type, with as many rows.
        ("not compressed", |heavy, light| heavy.blob = light.blob, "not a compressed chunk"),
        ("half of it", |heavy, _| heavy.blob.bytes /= 2, ""),
    ];
    for (what, change, expected) in lies {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let snapshot = build(&path, &rows(0, 1000), both(Codec::Lz4));
        let (s, c) = (0, snapshot.column_index("price").unwrap());
        let data = std::fs::read(path.join("0000000000000001-0000.data")).unwrap();
        forge(&path, |manifest| {
            let chunk = &mut manifest.segments[s].columns[c];
            let light = chunk.clone();
            let heavy = chunk.heavy.as_mut().unwrap();
            change(heavy, &light);
            let blob = &mut heavy.blob;
            blob.xxh3 = xxhash_rust::xxh3::xxh3_64(&data[blob.offset as usize..(blob.offset + blob.bytes) as usize]);
        });
        let read = fresh(&path);
        let stored = read.stored(s, c).unwrap();
        for error in [read.stored_parts(&stored, s, c).err(), read.verify().err()] {
            let error = error.unwrap_or_else(|| panic!("{what}: not found")).to_string();
            let named = error.contains("column \"price\", segment 0") && error.contains("-0000.data");
            assert!(named && error.contains(expected), "{what}: {error}");
        }
        assert_eq!(read.segment(s, c).unwrap().rows(), 1000);
    }
    // A manifest that does not fit together is no manifest.
    for (change, expected) in [
        ((|chunk| chunk.codec = chunk.heavy.as_ref().map(|heavy| heavy.codec)) as fn(&mut manifest::ChunkEntry), "two"),
        (|chunk| chunk.heavy.as_mut().unwrap().blob.offset = 1 << 40, "lies outside"),
        (|chunk| chunk.heavy.as_mut().unwrap().blob.file = 9, "not listed"),
        (|chunk| chunk.heavy.as_mut().unwrap().codec.block = 0, "0 bytes"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        build(&path, &rows(0, 1000), both(Codec::Lz4));
        forge(&path, |manifest| change(&mut manifest.segments[0].columns[3]));
        let error = Table::open(&path).unwrap_err().to_string();
        assert!(error.contains("0000000000000001.manifest") && error.contains(expected), "{error}");
    }
}

#[test]
fn codes_past_the_dictionary_are_found_in_the_compressed_form() {
    // Codes of another table's column of the same length, with more strings.
    let dir = tempfile::tempdir().unwrap();
    let texts = |count: usize| {
        let column: ArrayRef = Arc::new(StringArray::from_iter_values((0..1024).map(|i| format!("t{}", i % count))));
        RecordBatch::try_from_iter_with_nullable([("word", column, true)]).unwrap()
    };
    for (few, many) in [(5, 7), (3, 60), (70, 100)] {
        let (path, other) = (dir.path().join(format!("a{few}")), dir.path().join(format!("b{few}")));
        build(&path, &texts(few), both(Codec::Lz4));
        let foreign = build(&other, &texts(many), both(Codec::Lz4)).stored(0, 0).unwrap();
        let blob = std::fs::read(&foreign.file().path).unwrap()[foreign.file().offset as usize..]
            [..foreign.bytes() as usize]
            .to_vec();
        let file = path.join("0000000000000001-0000.data");
        let mut data = std::fs::read(&file).unwrap();
        let at = data.len().next_multiple_of(4096);
        data.resize(at, 0);
        data.extend_from_slice(&blob);
        std::fs::write(&file, &data).unwrap();
        forge(&path, |manifest| {
            manifest.files[0].bytes = data.len() as u64;
            let heavy = manifest.segments[0].columns[0].heavy.as_mut().unwrap();
            let xxh3 = xxhash_rust::xxh3::xxh3_64(&blob);
            heavy.blob = manifest::Blob { file: 0, offset: at as u64, bytes: blob.len() as u64, xxh3 };
            (heavy.encoding, heavy.codec.bytes) = (foreign.encoding(), foreign.uncompressed_bytes());
        });
        let read = fresh(&path);
        let error = read.stored_parts(&read.stored(0, 0).unwrap(), 0, 0).unwrap_err().to_string();
        assert!(error.contains("past the dictionary") && error.contains("column \"word\", segment 0"), "{error}");
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2-both")
}

/// Both forms, one append per codec: compressors' output may change with their libraries, decompression may not.
#[test]
fn both_forms_of_version_2_are_read() {
    let batches: Vec<RecordBatch> = (0..4).map(|i| rows(600 * i, 600).project(&[3, 6, 9, 10]).unwrap()).collect();
    if std::env::var_os("WARPMILL_WRITE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden());
        build(&golden(), &batches[0], both(GOLDEN[0]));
        let table = Table::open(&golden()).unwrap();
        for (batch, codec) in batches[1..].iter().zip(&GOLDEN[1..]) {
            let mut writer = table.append(both(*codec)).unwrap();
            writer.write(batch).unwrap();
            writer.commit().unwrap();
        }
        std::fs::remove_file(golden().join("LOCK")).unwrap();
        (1..4).for_each(|v| drop(std::fs::remove_file(golden().join(format!("{v:016}.manifest")))));
    }
    let snapshot = fresh(&golden());
    assert_holds(&snapshot, &batches);
    assert!(assert_same(&snapshot) >= 12);
    snapshot.verify().unwrap();
    let manifest = std::fs::read_to_string(golden().join("0000000000000004.manifest")).unwrap();
    assert!(manifest.starts_with("warpmill-manifest 2 ") && manifest.contains("\"light\":true"));
    // Readers without support for the second form ignore it: the rest is a valid table.
    let body: serde_json::Value = serde_json::from_str(manifest.lines().nth(1).unwrap()).unwrap();
    let chunk = &body["segments"][0]["columns"][0];
    assert!(chunk.get("codec").is_none() && chunk["heavy"]["codec"]["name"] == "lz4");
}
