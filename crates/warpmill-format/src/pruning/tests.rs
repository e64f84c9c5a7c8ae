use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;

use super::build::of_ranks;
use super::*;
use crate::segment::SegmentBytes;
use crate::table::WriteOptions;
use crate::{Segment, StatValue, Table, TableSnapshot};

fn stored(zones: Vec<Zone>, histograms: bool, blooms: bool) -> Zones {
    let mut column = ColumnZones::default();
    column.append(zones);
    Zones::from_bytes(SegmentBytes::copy_from(&column.to_bytes(1024, histograms, blooms))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn ranks_keep_the_order(x in any::<f64>(), y in any::<f64>(), a in ".{0,20}", b in ".{0,20}") {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        prop_assert!(a > b || string_rank(a) <= string_rank(b));
        prop_assert!(!b.starts_with(a) || (string_rank(a)..=last_rank_with_prefix(a)).contains(&string_rank(b)));
        if x < y {
            prop_assert!(float_rank(x) < float_rank(y));
        }
        prop_assert!(x.is_nan() || float_rank(x) < float_rank(f64::NAN));
        prop_assert_eq!(float_rank(0.0), float_rank(-0.0));
    }

    #[test]
    fn bins_ascend_and_are_few(span in any::<u128>(), shift in 0u32..128, x in any::<u128>(), y in any::<u128>()) {
        let span = span >> shift;
        let binning = Binning::of(span);
        let within = |x: u128| if span == u128::MAX { x } else { x % (span + 1) };
        let (x, y) = (within(x), within(y));
        prop_assert!(binning.bin(x.min(y)) <= binning.bin(x.max(y)));
        prop_assert!(binning.bin(span) < HISTOGRAM_BINS);
        prop_assert_eq!(binning.bin(0), 0);
    }

    /// Testing all zones at once gives the same result as each separately: bounds of every width, NULLs, ranges that exceed all ranks.
    #[test]
    fn bounds_rule_out_zones_together(
        base in -(1i128 << 100)..(1i128 << 100), scale in 0u32..90, seed in prop::collection::vec(any::<u32>(), 1..60),
        kinds in prop::collection::vec(0u8..4, 1..9), from in any::<u32>(), to in any::<u32>(), far in 0u8..8, nulls in any::<bool>(),
    ) {
        let value = |i: u32| base + (i128::from(i) << scale >> 24);
        let read = |start: usize, len: usize| {
            let kind = kinds[start / 1024];
            let ranks = (start..start + len).map(|row| value(seed[row % 37 * start % seed.len()])).collect::<Vec<_>>();
            (if kind == 0 { vec![] } else { ranks }, kind < 2)
        };
        let zones = stored(of_ranks(1024 * kinds.len(), 1024, Metadata::MinMax, read), false, false);
        let (lo, hi) = (value(from.min(to)), value(from.max(to)));
        let ranges = match far {
            0 => vec![],
            1 => vec![(i128::MIN, i128::MAX)],
            2 => vec![(i128::MIN, lo)],
            3 => vec![(hi, i128::MAX)],
            4 => vec![(i128::MIN, i128::MIN), (i128::MAX, i128::MAX)],
            5 => vec![(lo - 3, lo - 2), (lo, hi), (hi + 2, hi + 2)],
            _ => vec![(lo, hi)],
        };
        let expected = (0..kinds.len()).map(|zone| {
            let apart = |&(lo, hi): &(i128, i128)| zones.bounds(zone).is_none_or(|(min, max)| max < lo || min > hi);
            ranges.iter().all(apart) && !(nulls && zones.has_nulls(zone))
        });
        prop_assert_eq!(zones.out_of_bounds(&ranges, nulls), expected.collect::<Vec<_>>());
    }

    /// A value in a zone is found with any other values in the test; a value outside of its bounds is not.
    #[test]
    fn values_are_found(
        base in -(1i128 << 100)..(1i128 << 100), scale in 0u32..80, seed in prop::collection::vec(any::<u32>(), 1..200),
        from in any::<u32>(), to in any::<u32>(), rows in 1usize..5000,
    ) {
        let value = |i: u32| base + (i128::from(i) << scale >> 20);
        let ranks: Vec<i128> = (0..rows).map(|row| value(seed[row % seed.len()])).collect();
        let read = |start: usize, len: usize| (ranks[start..start + len].to_vec(), false);
        let zones = stored(of_ranks(rows, 1024, Metadata::All, read), true, true);
        let (lo, hi) = (value(from.min(to)), value(from.max(to)));
        for (zone, ranks) in ranks.chunks(1024).enumerate() {
            let bounds = (*ranks.iter().min().unwrap(), *ranks.iter().max().unwrap());
            prop_assert_eq!(zones.bounds(zone), Some(bounds));
            for &rank in ranks.iter().take(50) {
                prop_assert_eq!(find(&zones, zone, (rank, rank), Some(integer_hash(rank)), true), Found::Perhaps);
                prop_assert_eq!(find(&zones, zone, (rank.min(lo), rank.max(lo)), None, true), Found::Perhaps);
            }
            let there = ranks.iter().any(|rank| (lo..=hi).contains(rank));
            let found = find(&zones, zone, (lo, hi), None, true);
            prop_assert!(!there || found == Found::Perhaps);
            prop_assert_eq!(find(&zones, zone, (lo, hi), None, false) == Found::OutOfBounds, hi < bounds.0 || lo > bounds.1);
            if bounds.1 - bounds.0 < 256 {
                prop_assert_eq!(found == Found::Perhaps, there);
            }
        }
    }
}

/// The verdict of a zone on one range.
fn find(zones: &Zones, zone: usize, range: (i128, i128), hash: Option<u64>, fine: bool) -> Found {
    let hashes = hash.map(|hash| [hash]);
    zones.test(zone, &zones.wanted(&[range], hashes.as_ref().map(|hash| &hash[..]), false), fine, &mut 0)
}

proptest! {
    /// For several ranges, a zone's result is that of the most likely one; all zones at once give the same result.
    #[test]
    fn ranges_are_looked_for_together(
        bits in 1u32..110, seed in prop::collection::vec(any::<u64>(), 1..60), kinds in prop::collection::vec(0u8..3, 1..6),
        parts in prop::collection::vec((any::<u64>(), any::<u8>()), 0..5), points in any::<bool>(), nulls in any::<bool>(),
    ) {
        let value = |i: u64| -(1i128 << 70) + ((i128::from(i) << 50) & ((1i128 << bits) - 1));
        let read = |start: usize, len: usize| {
            let ranks: Vec<i128> = (start..start + len).map(|row| value(seed[row * 7919 % seed.len()])).collect();
            let kind = kinds[start / 1024];
            (if kind == 0 { vec![] } else { ranks }, kind < 2)
        };
        let zones = stored(of_ranks(1024 * kinds.len(), 1024, Metadata::All, read), true, true);
        let mut ranges: Vec<(i128, i128)> = vec![];
        let mut all: Vec<(i128, i128)> = parts.iter().map(|&(at, len)| {
            let lo = value(if len % 2 == 0 { at } else { seed[at as usize % seed.len()] });
            (lo, if points { lo } else { lo + i128::from(len) })
        }).collect();
        all.sort_unstable();
        for range in all {
            if ranges.last().is_none_or(|last| last.1 < range.0) {
                ranges.push(range);
            }
        }
        let hashes: Option<Vec<u64>> = points.then(|| ranges.iter().map(|(rank, _)| integer_hash(*rank)).collect());
        for fine in [false, true] {
            let wanted = zones.wanted(&ranges, hashes.as_deref(), nulls);
            let expected: Vec<Found> = (0..kinds.len()).map(|zone| {
                let one = |i: usize| find(&zones, zone, ranges[i], hashes.as_ref().map(|hashes| hashes[i]), fine);
                let least = (0..ranges.len()).map(one).min().unwrap_or(Found::OutOfBounds);
                if nulls && zones.has_nulls(zone) { Found::Perhaps } else { least }
            }).collect();
            let found: Vec<Found> = (0..kinds.len()).map(|zone| zones.test(zone, &wanted, fine, &mut 0)).collect();
            prop_assert_eq!(&found, &expected);
            let (mut left, mut noted) = ((0..kinds.len()).collect(), vec![Found::Perhaps; kinds.len()]);
            let tests = zones.rule_out(&mut left, &wanted, fine, |zone, found| noted[zone] = found);
            prop_assert_eq!(&noted, &expected);
            prop_assert!(left.iter().all(|&zone| expected[zone] == Found::Perhaps) && tests >= kinds.len() as u64);
        }
    }
}

/// The zones of an array, 1024 rows each, after a write and read.
fn of_array(array: ArrayRef, metadata: Metadata) -> Zones {
    let segment = Segment::encode(&array, None, None).unwrap();
    stored(of_segment(&segment, 1024, metadata), metadata.histograms(), metadata.blooms())
}

#[test]
fn bounds_rule_out_zones_of_every_width() {
    for width in [1u32, 8, 16, 32, 40, 63, 64, 100] {
        let (least, most) = (-7i128, -7 + (1i128 << width) - 1);
        let read = |start: usize, len: usize| (vec![if start == 0 { least } else { most }; len], false);
        let zones = stored(of_ranks(2048, 1024, Metadata::MinMax, read), false, false);
        let test = |lo: i128, hi: i128| zones.out_of_bounds(&[(lo, hi)], false);
        assert_eq!((test(least, least), test(most, most)), (vec![false, true], vec![true, false]), "{width} bits");
        assert_eq!((test(least - 9, least - 1), test(most + 1, i128::MAX)), (vec![true; 2], vec![true; 2]));
        assert_eq!((test(i128::MIN, i128::MAX), test(least + 1, most - 1)), (vec![false; 2], vec![true; 2]));
        let beyond = most + (1i128 << 64);
        assert_eq!((test(beyond, beyond), test(least, beyond)), (vec![true; 2], vec![false; 2]));
    }
}

#[test]
fn every_kind_of_segment_has_zones() {
    let rows = 2500;
    let zones = of_array(Arc::new(Int64Array::from_iter((0..rows).map(|i| (i >= 1024).then_some(i)))), Metadata::All);
    assert_eq!((zones.len(), zones.bounds(0), zones.has_nulls(0)), (3, None, true));
    assert_eq!((zones.bounds(1), zones.has_nulls(1)), (Some((1024, 2047)), false));
    assert_eq!(find(&zones, 0, (i128::MIN, i128::MAX), None, true), Found::OutOfBounds);

    let floats = (0..rows).map(|i| [f64::NAN, -0.0, -7.5][(i % 3) as usize]);
    let zones = of_array(Arc::new(Float64Array::from_iter_values(floats)), Metadata::All);
    assert_eq!(zones.bounds(0), Some((float_rank(-7.5), float_rank(f64::NAN))));
    let one = |x: f64| (float_rank(x), float_rank(x));
    assert_eq!(find(&zones, 0, one(0.0), None, true), Found::Perhaps);
    assert_eq!(find(&zones, 0, (float_rank(1.0), float_rank(100.0)), None, true), Found::NotInHistogram);

    let zones = of_array(Arc::new(Float32Array::from_iter_values((0..rows).map(|i| i as f32 / 4.0))), Metadata::MinMax);
    assert_eq!(zones.bounds(0), Some((float_rank(0.0), float_rank(255.75))));
    assert!(!zones.has_histograms() && zones.blooms() == 0);

    let text: StringArray = (0..rows).map(|i| Some(format!("a string that is long {}", i % 9))).collect();
    let zones = of_array(Arc::new(text), Metadata::Bloom);
    let rank = string_rank(b"a string that is long 3");
    assert_eq!(zones.bounds(0), Some((rank, rank)));
    assert_eq!(find(&zones, 0, (rank, rank), Some(string_hash(b"a string that is long 3")), true), Found::Perhaps);
    assert_eq!(find(&zones, 0, (rank, rank), Some(string_hash(b"a string that is long 9")), true), Found::NotInBloom);
    assert_eq!(zones.blooms(), 1);

    let booleans = BooleanArray::from_iter((0..rows).map(|i| Some(i < 2048)));
    let zones = of_array(Arc::new(booleans), Metadata::All);
    assert_eq!((zones.bounds(0), zones.bounds(2)), (Some((1, 1)), Some((0, 0))));
    let wide = Decimal128Array::from_iter_values([-(10i128.pow(37)), 10i128.pow(37)]);
    let zones = of_array(Arc::new(wide.with_precision_and_scale(38, 0).unwrap()), Metadata::All);
    assert_eq!(zones.bounds(0), Some((-(10i128.pow(37)), 10i128.pow(37))));
    assert_eq!(find(&zones, 0, (-5, 5), None, true), Found::NotInHistogram);
}

#[test]
fn filters_are_of_the_rows_that_they_were_made_of() {
    // Two row segments of 70 zones: the first rows have few distinct values, the second many.
    let few = Segment::encode(
        &(Arc::new(Int64Array::from_iter_values((0..70 << 10).map(|i| i % 7 * 1000))) as ArrayRef),
        None,
        None,
    );
    let many = Segment::encode(&(Arc::new(Int64Array::from_iter_values(0..70 << 10)) as ArrayRef), None, None);
    let mut zones = of_segment(&few.unwrap(), 1024, Metadata::All);
    zones.extend(of_segment(&many.unwrap(), 1024, Metadata::All));
    let zones = stored(zones, true, true);
    assert_eq!((zones.len(), zones.blooms()), (140, 2));
    let find = |zone: usize, value: i128| find(&zones, zone, (value, value), Some(integer_hash(value)), true);
    assert_eq!((find(0, 3000), find(69, 3000)), (Found::Perhaps, Found::Perhaps));
    assert_eq!((find(0, 2999), find(69, 2999)), (Found::NotInBloom, Found::NotInBloom));
    assert_eq!(find(72, 2 * 1024 + 5), Found::Perhaps);
}

#[test]
fn damaged_bytes_are_refused() {
    let ranks = |_: usize, len: usize| ((0..len as i128).map(|i| i * 999).collect::<Vec<_>>(), false);
    let mut column = ColumnZones::default();
    column.append(of_ranks(5000, 1024, Metadata::All, ranks));
    let bytes = column.to_bytes(1024, true, true);
    let read = |bytes: &[u8]| Zones::from_bytes(SegmentBytes::copy_from(bytes));
    assert!(read(&bytes).is_ok());
    for len in [0, 3, 63, 64, 100, bytes.len() - 1] {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes");
    }
    for (at, value) in [(0, b'X'), (4, 9), (5, 3), (6, 2), (8, 1), (12, 77), (16, 200)] {
        let mut damaged = bytes.clone();
        damaged[at] = value;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
}

fn table(columns: Vec<(&str, ArrayRef)>, options: WriteOptions) -> Arc<TableSnapshot> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let table = Table::in_memory(batch.schema());
    let mut writer = table.replace(batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.commit().unwrap()
}

fn small() -> WriteOptions {
    WriteOptions { segment_rows: 4096, zone_rows: 1024, metadata: Metadata::All, ..WriteOptions::default() }
}

#[test]
fn attributes_are_followed_and_clustered_by() {
    // Key 5 is there twice, one row has no key, one no attribute.
    let keys = Int32Array::from(vec![Some(5), Some(7), None, Some(5), Some(900_000)]);
    let names = StringArray::from(vec![Some("b"), Some("a"), Some("x"), Some("d"), None]);
    let years = Float64Array::from(vec![1.5, 2.5, 3.5, 4.5, 5.5]);
    let other = table(vec![("key", Arc::new(keys)), ("name", Arc::new(names)), ("year", Arc::new(years))], small());
    let fk = Int64Array::from_iter((0..4096).map(|i| [Some(5), Some(7), Some(900_000), Some(1), None][i % 5]));
    let sideways = Sideways {
        column: "fk".into(),
        name: "other".into(),
        table: other.clone(),
        key: "key".into(),
        attributes: vec!["name".into(), "year".into()],
    };
    let columns = || vec![("fk", Arc::new(fk.clone()) as ArrayRef)];
    let options = WriteOptions { sideways: vec![sideways.clone()], cluster: true, ..small() };
    let facts = table(columns(), options.clone());
    let map = &facts.zone_maps()[0];
    let name = map.attribute((&facts, 0), (&other, 0, 1)).unwrap().unwrap();
    let year = map.attribute((&facts, 0), (&other, 0, 2)).unwrap().unwrap();
    // By name: a (key 7), d (the last row with key 5), then those without a name; the order of the other is b, a, x, d.
    assert_eq!(name.bounds(0), Some((0, 2)));
    let code = |text: &str| i128::from(other.dictionary(1).unwrap().code(text).unwrap());
    assert_eq!(name.bounds(1), Some((code("b"), code("d"))));
    assert_eq!((name.bounds(3), name.has_nulls(2)), (None, true));
    assert_eq!(year.bounds(0), Some((float_rank(1.5), float_rank(4.5))));
    assert!(map.attribute((&facts, 0), (&other, 1, 2)).unwrap().is_none());
    // The same rows as another version.
    let (keys, years) = (Int32Array::from(vec![5]), Float64Array::from(vec![9.5]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let changed = table(vec![("key", Arc::new(keys)), ("name", text), ("year", Arc::new(years))], small());
    assert!(map.attribute((&facts, 0), (&changed, 0, 1)).unwrap().is_none());
    let wrong = |change: &dyn Fn(&mut Sideways)| {
        let mut sideways = sideways.clone();
        change(&mut sideways);
        let schema = Arc::new(Schema::new(vec![Field::new("fk", DataType::Int64, true)]));
        let options = WriteOptions { sideways: vec![sideways], ..small() };
        Table::in_memory(schema.clone()).replace(schema, options).err().unwrap().to_string()
    };
    assert!(wrong(&|s| s.column = "nope".into()).contains("nope"));
    assert!(wrong(&|s| s.key = "name".into()).contains("integers"));
    assert!(wrong(&|s| s.attributes = vec!["gone".into()]).contains("gone"));
}

#[test]
fn clustering_takes_the_fewest_distinct_values_first() {
    let n = 100 << 10;
    let column = |f: &dyn Fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..n).map(f))) as ArrayRef;
    let options = WriteOptions { cluster: true, segment_rows: 1 << 20, ..small() };
    let columns = vec![
        ("id", column(&|i| i)),
        ("ten", column(&|i| i % 10)),
        ("four", column(&|i| i / 7 % 4)),
        ("one", column(&|_| 1)),
    ];
    let table = table(columns, options);
    let zones = |c: usize| table.zone_maps()[0].column(&table, c).unwrap().unwrap().zones;
    let (four, ten) = (zones(2), zones(1));
    assert_eq!((four.bounds(0), four.bounds(99)), (Some((0, 0)), Some((3, 3))));
    assert_eq!(ten.bounds(0), Some((0, 0)));
    assert!((0..100).all(|zone| ten.bounds(zone).is_some_and(|(lo, hi)| hi - lo <= 1 || hi == 9)));
    assert_eq!(table.column_stats(0).max, Some(StatValue::Int(i128::from(n - 1))));
}

#[test]
fn sorted_rows_get_segments_that_can_be_left_out() {
    let ids =
        || vec![("id", Arc::new(Int64Array::from_iter_values((0..200_000).map(|i| i * 7 % 200_000))) as ArrayRef)];
    let rows = |options: WriteOptions| {
        let table = table(ids(), options);
        (0..table.num_segments()).map(|segment| table.segment_rows(segment)).collect::<Vec<_>>()
    };
    assert_eq!(rows(WriteOptions::default()), [200_000]);
    let sorted = WriteOptions { sort_by: vec!["id".into()], ..WriteOptions::default() };
    for options in [sorted.clone(), WriteOptions { cluster: true, ..WriteOptions::default() }] {
        assert_eq!(rows(options), [65_536, 65_536, 65_536, 3392]);
    }
    assert_eq!(rows(WriteOptions { segment_rows: 1 << 17, ..sorted }), [131_072, 68_928]);
}

#[test]
fn automatic_metadata_takes_little() {
    let ids =
        |n: i64| vec![("id", Arc::new(Int64Array::from_iter_values((0..n).map(|i| i * i % 1_000_003))) as ArrayRef)];
    let table_of = |n, metadata| table(ids(n), WriteOptions { metadata, ..WriteOptions::default() });
    let large = table_of(1 << 20, Metadata::Auto);
    assert_eq!(large.zone_maps().len(), 1);
    assert!(large.pruning_bytes() * 100 <= large.stored_bytes(), "{} bytes", large.pruning_bytes());
    assert!(large.zone_maps()[0].column(&large, 0).unwrap().unwrap().zones.has_histograms());
    assert!(table_of(1000, Metadata::Auto).zone_maps().is_empty());
    assert!(table_of(1 << 20, Metadata::None).zone_maps().is_empty());
    assert_eq!(table_of(1000, Metadata::All).zone_maps().len(), 1);
    let unfit = WriteOptions { zone_rows: 1000, ..WriteOptions::default() };
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let error = Table::in_memory(schema.clone()).replace(schema, unfit).err().unwrap().to_string();
    assert!(error.contains("zone_rows"), "{error}");
}
