//! Writing and reading back: on disk and in memory, versions, dictionaries, sorting, rejected input.

use super::*;

fn homes(schema: &SchemaRef) -> (tempfile::TempDir, Vec<Arc<Table>>) {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = Table::create(&dir.path().join("t"), schema.clone()).unwrap();
    (dir, vec![on_disk, Table::in_memory(schema.clone())])
}

fn append(table: &Arc<Table>, batches: &[RecordBatch]) -> Arc<TableSnapshot> {
    let mut writer = table.append(small()).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    writer.commit().unwrap()
}

#[test]
fn what_is_written_is_read() {
    for count in [0, 1, 1023, 1024, 1025, 5000] {
        let all = rows(0, count);
        let (_dir, tables) = homes(all.schema_ref());
        for table in tables {
            let written = append(&table, &[all.slice(0, count / 3), all.slice(count / 3, count - count / 3)]);
            assert_holds(&written, std::slice::from_ref(&all));
            assert_eq!(written.num_segments(), count.div_ceil(1024));
            let Some(path) = table.path() else { continue };
            let read = fresh(path);
            assert_holds(&read, std::slice::from_ref(&all));
            read.verify().unwrap();
            for c in 0..read.schema().fields().len() {
                assert_eq!(read.column_stats(c), written.column_stats(c));
                (0..read.num_segments())
                    .for_each(|s| assert_eq!(read.segment_stats(s, c), written.segment_stats(s, c)));
            }
            assert_eq!((read.version(), read.name().as_str(), read.schema()), (2, "t", written.schema()));
        }
    }
}

#[test]
fn a_snapshot_keeps_its_version() {
    let (_dir, tables) = homes(rows(0, 0).schema_ref());
    for table in tables {
        let first = append(&table, &[rows(0, 1500)]);
        let second = append(&table, &[rows(1500, 2000)]);
        let replaced = {
            let mut writer = table.replace(words(&[]).schema(), small()).unwrap();
            writer.write(&words(&[Some("x"), None])).unwrap();
            writer.commit().unwrap()
        };
        // The next writer collects the files of the versions that the snapshots read.
        let last = append_words(&table, &[Some("a")]);
        assert_holds(&first, &[rows(0, 1500)]);
        assert_holds(&second, &[rows(0, 1500), rows(1500, 2000)]);
        assert_holds(&replaced, &[words(&[Some("x"), None])]);
        assert_holds(&last, &[words(&[Some("x"), None, Some("a")])]);
        assert_eq!([&first, &second, &replaced, &last].map(|s| s.version()), [2, 3, 4, 5]);
        if let Some(path) = table.path() {
            let mut names: Vec<_> =
                std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            let expected = [
                "0000000000000004-0000.data",
                "0000000000000004.manifest",
                "0000000000000005-0000.data",
                "0000000000000005.committed",
                "0000000000000005.manifest",
                "LOCK",
            ];
            assert_eq!(names, expected);
        }
    }
}

fn append_words(table: &Arc<Table>, values: &[Option<&str>]) -> Arc<TableSnapshot> {
    append(table, &[words(values)])
}

#[test]
fn dictionaries_grow_in_order() {
    let (_dir, tables) = homes(words(&[]).schema_ref());
    for table in tables {
        let mut all: Vec<Option<&str>> = Vec::new();
        for new in
            [&[Some("m"), None, Some("c")][..], &[Some("c")], &[Some("a"), Some("z"), Some("m")], &[Some("b"), None]]
        {
            all.extend(new);
            let written = append_words(&table, new);
            let known = table.snapshot().unwrap();
            let read = table.path().map_or(known.clone(), fresh);
            for snapshot in [written, known, read] {
                assert_holds(&snapshot, &[words(&all)]);
                let mut entries: Vec<&str> = all.iter().flatten().copied().collect();
                entries.sort();
                entries.dedup();
                assert_eq!(snapshot.dictionary(0).unwrap().iter().collect::<Vec<_>>(), entries);
                assert_eq!(snapshot.column_stats(0).distinct, Some(entries.len() as u64));
            }
        }
    }
}

#[test]
fn a_column_of_too_many_strings_becomes_plain() {
    let many = |first: usize, count: usize| {
        let values: Vec<String> = (first..first + count).map(|i| format!("{i:x}")).collect();
        words(&values.iter().map(|s| Some(s.as_str())).collect::<Vec<_>>())
    };
    let (_dir, tables) = homes(words(&[]).schema_ref());
    for table in tables {
        let few = append(&table, &[many(0, 900)]);
        assert!(few.dictionary(0).is_some());
        // Too few repetitions, found at the end; then too many strings, found during the write.
        let plain = append(&table, &[many(900, 2000)]);
        assert!(plain.dictionary(0).is_none());
        assert_holds(&plain, &[many(0, 2900)]);
        assert_holds(&few, &[many(0, 900)]);
        let mut writer = table.replace(plain.schema().clone(), small()).unwrap();
        writer.write(&many(0, 70_000)).unwrap();
        let replaced = writer.commit().unwrap();
        assert!(replaced.dictionary(0).is_none());
        let read = table.path().map_or(replaced, fresh);
        assert_holds(&read, &[many(0, 70_000)]);
    }
}

#[test]
fn input_is_sorted_before_it_is_cut() {
    let batch = |keys: &[Option<i32>], names: &[&str]| {
        let keys: ArrayRef = Arc::new(Int32Array::from(keys.to_vec()));
        let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("n", names, true)]).unwrap()
    };
    let table = Table::in_memory(batch(&[], &[]).schema());
    let options = WriteOptions { sort_by: vec!["n".into(), "k".into()], ..small() };
    let mut writer = table.append(options.clone()).unwrap();
    writer.write(&batch(&[Some(3), None, Some(1)], &["b", "a", "b"])).unwrap();
    writer.write(&batch(&[Some(-1), Some(2)], &["a", "a"])).unwrap();
    let sorted = writer.commit().unwrap();
    let expected = batch(&[Some(-1), Some(2), None, Some(1), Some(3)], &["a", "a", "a", "b", "b"]);
    assert_holds(&sorted, &[expected]);
    table.append(options.clone()).unwrap().commit().unwrap();
    let unknown = table.append(WriteOptions { sort_by: vec!["x".into()], ..options }).err().unwrap();
    assert!(unknown.to_string().contains("column \"x\""), "{unknown}");
}

#[test]
fn types_of_one_kind_are_converted_and_others_rejected() {
    let schema = schema_of(&[("s", DataType::Utf8), ("i", DataType::Int32)]);
    let table = Table::in_memory(schema);
    let with =
        |s: ArrayRef, i: ArrayRef| RecordBatch::try_from_iter_with_nullable([("s", s, true), ("i", i, true)]).unwrap();
    let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<arrow::datatypes::Int8Type>::from_iter([Some("y"), None]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    let mut writer = table.append(small()).unwrap();
    writer.write(&with(strings.clone(), longs.clone())).unwrap();
    writer.write(&with(dictionary, longs.clone())).unwrap();
    let error = |w: &mut TableWriter, b: &RecordBatch| w.write(b).unwrap_err().to_string();
    let large: ArrayRef = Arc::new(Int64Array::from(vec![0, 1 << 40]));
    let text = error(&mut writer, &with(strings.clone(), large));
    assert!(text.starts_with("column \"i\": ") && text.contains("1099511627776"), "{text}");
    assert!(error(&mut writer, &with(longs.clone(), longs.clone())).starts_with("column \"s\": values of type Int64"));
    let renamed = RecordBatch::try_from_iter([("s", strings.clone()), ("j", longs.clone())]).unwrap();
    assert_eq!(error(&mut writer, &renamed), r#"column "i": the input has column "j" there"#);
    let short = RecordBatch::try_from_iter([("s", strings.clone())]).unwrap();
    assert_eq!(error(&mut writer, &short), r#"column "i": missing in the input"#);
    let snapshot = writer.commit().unwrap();
    assert_eq!(column(&snapshot, 0), [Some("x"), None, Some("y"), None].map(|s: Option<&str>| s.map(str::to_owned)));

    let strict = Table::in_memory(Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, false)])));
    let mut writer = strict.append(small()).unwrap();
    let text = error(&mut writer, &RecordBatch::try_from_iter_with_nullable([("s", strings, true)]).unwrap());
    assert_eq!(text, "NOT NULL constraint failed: s");
}

#[test]
fn one_writer_at_a_time() {
    let (_dir, tables) = homes(words(&[]).schema_ref());
    for table in tables {
        let writer = table.append(small()).unwrap();
        assert!(matches!(table.append(small()), Err(FormatError::Locked { .. })));
        if let Some(path) = table.path() {
            let again = Table::open(path).unwrap();
            assert!(matches!(again.replace(words(&[]).schema(), small()), Err(FormatError::Locked { .. })));
        }
        drop(writer);
        append_words(&table, &[Some("a")]);
    }
}

#[test]
fn other_handles_see_new_versions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let writer = Table::create(&path, words(&[]).schema()).unwrap();
    let reader = Table::open(&path).unwrap();
    for version in 2..6 {
        append_words(&writer, &[Some("a")]);
        let snapshot = reader.snapshot().unwrap();
        assert_eq!((snapshot.version(), snapshot.num_rows()), (version, version - 1));
    }
    std::fs::remove_dir_all(&path).unwrap();
    assert!(matches!(reader.snapshot(), Err(FormatError::Catalog(_))));
    let again = Table::create(&path, words(&[]).schema()).unwrap();
    append_words(&again, &[Some("b"), Some("c")]);
    assert_holds(&reader.snapshot().unwrap(), &[words(&[Some("b"), Some("c")])]);
}

#[test]
fn a_table_is_built_with_its_rows_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let build = || Table::build(&path, rows(0, 0).schema(), small()).unwrap();
    let mut dropped = build();
    dropped.write(&rows(0, 3000)).unwrap();
    assert!(!Table::exists(&path).unwrap());
    drop(dropped);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut writer = build();
    writer.write(&rows(0, 3000)).unwrap();
    let rival = build();
    writer.commit().unwrap();
    assert!(matches!(rival.commit(), Err(FormatError::Replaced { .. })));
    assert_holds(&fresh(&path), &[rows(0, 3000)]);
    assert!(matches!(Table::create(&path, rows(0, 0).schema()), Err(FormatError::Catalog(_))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(matches!(Table::open(&dir.path().join("none")), Err(FormatError::Catalog(_))));
}

#[test]
fn readers_and_a_writer_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let table = Table::create(&path, rows(0, 0).schema()).unwrap();
    let commits = 25;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..commits {
                if i % 5 == 4 {
                    let mut writer = table.replace(rows(0, 0).schema(), small()).unwrap();
                    writer.write(&rows(0, 100 * (i + 1))).unwrap();
                    writer.commit().unwrap();
                } else {
                    append(&table, &[rows(100 * i, 100)]);
                }
            }
        });
        for shared in [true, false, false] {
            let (path, table) = (&path, &table);
            scope.spawn(move || {
                let mut version = 0;
                while version < commits as u64 + 1 {
                    let snapshot = if shared { table.snapshot().unwrap() } else { fresh(path) };
                    assert!(snapshot.version() >= version);
                    version = snapshot.version();
                    assert_eq!(snapshot.num_rows(), 100 * (version - 1));
                    assert_holds(&snapshot, &[rows(0, snapshot.num_rows() as usize)]);
                }
            });
        }
    });
}

#[test]
fn long_rows_fill_a_segment_sooner() {
    let long: Vec<String> = (0..4000).map(|i| format!("{i}-{}", "x".repeat(1000))).collect();
    let batches: Vec<_> =
        long.chunks(500).map(|part| words(&part.iter().map(|s| Some(s.as_str())).collect::<Vec<_>>())).collect();
    let (_dir, tables) = homes(batches[0].schema_ref());
    for table in tables {
        let mut writer = table.append(WriteOptions { segment_bytes: 1 << 20, ..WriteOptions::default() }).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        let written = writer.commit().unwrap();
        assert_holds(&written, &batches);
        assert_eq!(
            (0..written.num_segments()).map(|s| written.segment_rows(s)).collect::<Vec<_>>(),
            [1500, 1500, 1000]
        );
    }
}
