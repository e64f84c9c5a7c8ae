//! Every encoding compared with the original values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    StringViewArray,
};
use arrow::datatypes::{DataType, Int64Type};
use proptest::prelude::*;

use super::{Encoding, Segment, SegmentBytes};
use crate::{Bitmap, Dictionary, StatValue, StrView, VECTOR_ROWS};

/// A small deterministic generator, so that large inputs need no proptest tree.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

const LENGTHS: [usize; 8] = [0, 1, 5, 1023, 1024, 1025, 3000, 10_000];

/// Value patterns by name; each gives `n` values.
fn patterns(n: usize, random: &mut Random) -> Vec<(String, Vec<i128>)> {
    let mut all: Vec<(String, Vec<i128>)> = vec![];
    let mut add = |name: &str, f: &mut dyn FnMut(usize) -> i128| all.push((name.into(), (0..n).map(f).collect()));
    let (small, large) = (i128::from(i64::MIN), i128::from(i64::MAX));
    add("equal", &mut |_| -77);
    add("sorted", &mut |i| i as i128 * 3 - 1000);
    add("descending", &mut |i| -(i as i128) * 1_000_003);
    add("runs", &mut |i| (i / 37 % 11) as i128 * 1_000_000);
    add("extremes", &mut |i| if i % 2 == 0 { small } else { large });
    add("min only", &mut |_| small);
    add("one outlier", &mut |i| if i == n / 2 { large } else { (i % 100) as i128 });
    add("low outliers", &mut |i| if i % 500 == 3 { -1 } else { 1_000_000_000 + (i % 9) as i128 });
    add("i32 extremes", &mut |i| i128::from(if i % 3 == 0 { i32::MIN } else { i32::MAX }));
    for bits in [1, 2, 7, 8, 13, 25, 26, 31, 32, 33, 47, 63, 64] {
        let mut r = Random(random.next());
        add(&format!("{bits} bits"), &mut |_| small + i128::from(r.next() >> (64 - bits)));
    }
    let mut r = Random(random.next());
    let mut at = 0;
    add("random walk", &mut |_| {
        at += r.below(9) as i128 - 2;
        at
    });
    let mut r = Random(random.next());
    let mut at = i128::from(i64::MAX) - (1 << 50);
    add("coarse ticks", &mut |_| {
        at += 60_000_000 + r.below(1000) as i128;
        at
    });
    all
}

fn all_rows(n: usize, random: &mut Random) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..n as u32).filter(|_| n < 2000 || random.below(3) == 0).collect();
    rows.extend((0..n.min(100)).map(|_| random.below(n) as u32));
    rows
}

/// Checks every way to read `segment` against `values` (null where `valid` is false).
fn check(name: &str, segment: &Segment, values: &[i128], valid: &dyn Fn(usize) -> bool, random: &mut Random) {
    let n = values.len();
    assert_eq!(segment.rows(), n, "{name}");
    let same = |row: usize, x: i128| !valid(row) || x == values[row];
    let start = if n > VECTOR_ROWS { random.below(n / VECTOR_ROWS + 1) * VECTOR_ROWS } else { 0 }
        .min(n / VECTOR_ROWS * VECTOR_ROWS);
    let len = random.below(n - start + 1);
    for (start, len) in [(0, n), (start, len)] {
        let mut wide = vec![0i128; len];
        segment.decode_i128(start, &mut wide);
        wide.iter().enumerate().for_each(|(i, &x)| assert!(same(start + i, x), "{name} row {} is {x}", start + i));
        if values.iter().all(|&x| i64::try_from(x).is_ok()) {
            let mut out = vec![0i64; len];
            segment.decode_i64(start, &mut out);
            out.iter().enumerate().for_each(|(i, &x)| assert!(same(start + i, x.into()), "{name} row {}", start + i));
        }
        if values.iter().all(|&x| i32::try_from(x).is_ok()) {
            let mut out = vec![0i32; len];
            segment.decode_i32(start, &mut out);
            out.iter().enumerate().for_each(|(i, &x)| assert!(same(start + i, x.into()), "{name} row {}", start + i));
        }
        let pick = |random: &mut Random| if n == 0 { 0 } else { values[random.below(n)] };
        for (lo, hi) in [(pick(random), pick(random)), (pick(random), i128::MAX), (i128::MIN, pick(random)), (5, 4)] {
            let mut out = vec![9];
            segment.select_range(start, len, lo, hi, &mut out);
            assert_eq!(out.remove(0), 9);
            out.retain(|&r| valid(start + r as usize));
            let expected = (0..len as u32)
                .filter(|&r| valid(start + r as usize) && (lo..=hi).contains(&values[start + r as usize]));
            assert_eq!(out, expected.collect::<Vec<u32>>(), "{name} {lo} ..= {hi} of {start} + {len}");
        }
        if values.iter().all(|&x| i64::try_from(x).is_ok()) {
            let set = |random: &mut Random, bits| Bitmap::from_fn(bits, |_| random.below(3) == 0);
            let mins = [pick(random) as i64, (pick(random) as i64).wrapping_sub(40), i64::MIN, i64::MAX, 1 << 32];
            for (min, bits) in mins.into_iter().zip([50, 3000, 70_000, 64, 0]) {
                let (min, set) = (min.min(i64::MAX - bits as i64), set(random, bits));
                let before: Vec<u64> = (0..len.div_ceil(64)).map(|_| random.next() | random.next()).collect();
                let mut mask = before.clone();
                segment.and_members(start, len, min, &set, &mut mask);
                for row in (0..len).filter(|&row| valid(start + row)) {
                    let at = values[start + row] - i128::from(min);
                    let expected = before[row / 64] >> (row % 64) & 1 != 0
                        && (0..bits as i128).contains(&at)
                        && set.get(at as usize);
                    assert_eq!(
                        mask[row / 64] >> (row % 64) & 1 != 0,
                        expected,
                        "{name}, {bits} keys from {min}, row {row}"
                    );
                }
            }
        }
    }
    let rows = all_rows(n, random);
    let mut wide = vec![0i128; rows.len()];
    segment.gather_i128(&rows, &mut wide);
    rows.iter().zip(&wide).for_each(|(&row, &x)| assert!(same(row as usize, x), "{name} gathered row {row} is {x}"));
    let mut out = vec![0i64; rows.len()];
    segment.gather_i64(&rows, &mut out);
    rows.iter().zip(&wide).zip(&out).for_each(|((_, &x), &y)| assert_eq!(x as i64, y, "{name}"));
    let mut out = vec![0i32; rows.len()];
    segment.gather_i32(&rows, &mut out);
    rows.iter().zip(&wide).zip(&out).for_each(|((_, &x), &y)| assert_eq!(x as i32, y, "{name}"));
    let validity = segment.validity(0, n);
    (0..n).for_each(|row| assert_eq!(validity.as_ref().is_none_or(|v| v.get(row)), valid(row)));
    assert_eq!(segment.gather_validity(&rows), validity.map(|validity| validity.gather(&rows)));
}

fn reread(segment: &Segment, data_type: &DataType) -> Segment {
    let bytes = segment.to_bytes();
    let again = Segment::from_bytes(SegmentBytes::copy_from(&bytes), data_type, segment.rows()).unwrap();
    assert_eq!((again.to_bytes(), again.stats()), (bytes, segment.stats()));
    again
}

fn choices() -> impl Iterator<Item = Option<Encoding>> {
    std::iter::once(None)
        .chain(Encoding::ALL.into_iter().filter(|it| !matches!(it, Encoding::Symbols | Encoding::Nested)).map(Some))
}

/// Encodings for any values; the others may refuse some.
fn total(forced: Option<Encoding>) -> bool {
    matches!(forced, None | Some(Encoding::Plain | Encoding::LaneFor | Encoding::LaneRle))
}

#[test]
fn integers_round_trip_in_every_encoding() {
    let mut random = Random(1);
    for n in LENGTHS {
        for (name, values) in patterns(n, &mut random) {
            for forced in choices() {
                for nulls in [false, true] {
                    let mask: Vec<bool> = (0..n).map(|_| !nulls || random.below(4) > 0).collect();
                    let array: Int64Array = values.iter().zip(&mask).map(|(&x, &v)| v.then_some(x as i64)).collect();
                    let array: ArrayRef = Arc::new(array);
                    let name = format!("{name} x {n} as {forced:?}, nulls {nulls}");
                    match Segment::encode(&array, None, forced) {
                        Ok(segment) => {
                            assert_eq!(segment.encoding(), forced.unwrap_or(segment.encoding()));
                            let again = reread(&segment, &DataType::Int64);
                            check(&name, &again, &values, &|row| mask[row], &mut random);
                        }
                        Err(e) => assert!(!total(forced), "{name}: {e}"),
                    }
                }
            }
        }
    }
}

#[test]
fn wide_decimals_round_trip() {
    let mut random = Random(2);
    for n in LENGTHS {
        let wide = |r: &mut Random, bits: u32| (i128::from(r.next()) << 64 | i128::from(r.next())) >> (128 - bits);
        for bits in [20, 64, 65, 90, 96, 97, 126, 128] {
            let values: Vec<i128> = (0..n).map(|_| wide(&mut random, bits)).collect();
            let array = Decimal128Array::from(values.clone()).with_precision_and_scale(38, -2);
            let array: ArrayRef = Arc::new(array.unwrap());
            for forced in choices() {
                match Segment::encode(&array, None, forced) {
                    Ok(segment) => {
                        let again = reread(&segment, array.data_type());
                        check(&format!("{bits} bits x {n} {forced:?}"), &again, &values, &|_| true, &mut random);
                    }
                    Err(e) => assert!(!total(forced), "{forced:?}: {e}"),
                }
            }
        }
        let values: Vec<i128> = (0..n).map(|i| if i % 2 == 0 { i128::MIN } else { i128::MAX }).collect();
        let array: ArrayRef = Arc::new(Decimal128Array::from(values.clone()));
        for forced in [None, Some(Encoding::Plain), Some(Encoding::LaneFor), Some(Encoding::LaneRle)] {
            let segment = Segment::encode(&array, None, forced).unwrap();
            check(&format!("extremes x {n} {forced:?}"), &segment, &values, &|_| true, &mut random);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_integers_round_trip(
        values in prop::collection::vec((any::<i64>(), 0u32..64), 0..2500),
        same in 0u32..64,
        forced in 0usize..9,
    ) {
        let values: Vec<i128> = values.iter().map(|&(x, bits)| i128::from(if same > 32 { x >> same } else { x >> bits })).collect();
        let array: ArrayRef = Arc::new(values.iter().map(|&x| Some(x as i64)).collect::<Int64Array>());
        let forced = Encoding::ALL.get(forced).copied();
        match Segment::encode(&array, None, forced) {
            Ok(segment) => check("random", &reread(&segment, &DataType::Int64), &values, &|_| true, &mut Random(same.into())),
            Err(e) => assert!(!total(forced), "{forced:?}: {e}"),
        }
    }
}

#[test]
fn a_full_segment_round_trips() {
    let mut random = Random(3);
    let values: Vec<i128> = (0..crate::SEGMENT_ROWS).map(|i| (i / 4 * 7 + random.below(5)) as i128).collect();
    let array: ArrayRef = Arc::new(values.iter().map(|&x| Some(x as i32)).collect::<Int32Array>());
    for forced in choices().filter(|f| *f != Some(Encoding::Constant)) {
        let segment = Segment::encode(&array, None, forced).unwrap();
        check(&format!("{forced:?}"), &reread(&segment, &DataType::Int32), &values, &|_| true, &mut random);
    }
}

#[test]
fn other_types_round_trip() {
    for n in LENGTHS {
        let floats: ArrayRef =
            Arc::new((0..n).map(|i| (i % 7 != 3).then_some(i as f64 / 3.0)).collect::<Float64Array>());
        let segment = reread(&Segment::encode(&floats, None, None).unwrap(), &DataType::Float64);
        let mut out = vec![0.0; n];
        segment.decode_f64(0, &mut out);
        (0..n).filter(|i| i % 7 != 3).for_each(|i| assert_eq!(out[i], i as f64 / 3.0));
        let bools: ArrayRef = Arc::new((0..n).map(|i| Some(i % 3 == 0)).collect::<BooleanArray>());
        let segment = reread(&Segment::encode(&bools, None, None).unwrap(), &DataType::Boolean);
        let mut out = vec![false; n];
        segment.decode_bool(0, &mut out);
        (0..n).for_each(|i| assert_eq!(out[i], i % 3 == 0));
        let text = |i: usize| (i % 11 != 5).then(|| format!("né{}", "x".repeat(i % 9)));
        let utf8: ArrayRef = Arc::new((0..n).map(text).collect::<StringArray>());
        let view: ArrayRef = Arc::new((0..n).map(text).collect::<StringViewArray>());
        for strings in [utf8, view] {
            let segment = reread(&Segment::encode(&strings, None, None).unwrap(), strings.data_type());
            let mut out = vec![StrView::default(); n];
            let mut bytes = Vec::new();
            segment.decode_str(0, &mut bytes, &mut out);
            (0..n).filter_map(|i| Some((i, text(i)?))).for_each(|(i, s)| assert_eq!(out[i].as_str(), s));
        }
    }
}

#[test]
fn codes_follow_the_dictionary_and_a_remap() {
    let words = ["", "air", "fob", "mail", "rail", "ship", "truck"];
    let dictionary = Arc::new(Dictionary::from_sorted(words));
    let n = 5000;
    let mut random = Random(4);
    let codes: Vec<u32> = (0..n).map(|_| random.below(7) as u32).collect();
    let array: ArrayRef = Arc::new(codes.iter().map(|&c| (c != 2).then(|| words[c as usize])).collect::<StringArray>());
    let segment = reread(&Segment::encode(&array, Some(&dictionary), None).unwrap(), &DataType::Utf8);
    assert_eq!(segment.stats().max, Some(StatValue::Str("truck".into())));
    assert!(segment.check_codes(7).is_ok() && segment.check_codes(6).is_err());
    let remap: Arc<[u32]> = Arc::new([0, 3, 4, 5, 9, 10, 20]);
    for (segment, new) in
        [(segment.clone(), (0..7).collect::<Arc<[u32]>>()), (segment.with_remap(remap.clone()), remap)]
    {
        let valid = |row: usize| codes[row] != 2;
        let mut out = vec![0; n - VECTOR_ROWS];
        segment.decode_codes(VECTOR_ROWS, &mut out);
        (VECTOR_ROWS..n).filter(|&r| valid(r)).for_each(|r| assert_eq!(out[r - VECTOR_ROWS], new[codes[r] as usize]));
        let rows = [4999, 0, 1, 1, 2500];
        let mut out = [0; 5];
        segment.gather_codes(&rows, &mut out);
        rows.iter()
            .zip(out)
            .filter(|(r, _)| valid(**r as usize))
            .for_each(|(&r, c)| assert_eq!(c, new[codes[r as usize] as usize]));
        for (lo, hi) in [(0, 3), (4, 9), (10, 100), (11, 19), (-5, -1), (3, 3)] {
            let mut out = vec![];
            segment.select_range(0, n, lo, hi, &mut out);
            out.retain(|&r| valid(r as usize));
            let expected = (0..n as u32)
                .filter(|&r| valid(r as usize) && (lo..=hi).contains(&i128::from(new[codes[r as usize] as usize])));
            assert_eq!(out, expected.collect::<Vec<_>>());
        }
        for bits in [4, 10, 21, 64] {
            let set = Bitmap::from_fn(bits, |i| i % 3 == 0);
            let mut out = vec![];
            segment.select_codes(0, n, &set, &mut out);
            out.retain(|&r| valid(r as usize));
            let member = |code: u32| (code as usize) < bits && code.is_multiple_of(3);
            let expected = (0..n as u32).filter(|&r| valid(r as usize) && member(new[codes[r as usize] as usize]));
            assert_eq!(out, expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = Random(5);
    let dictionary = Arc::new(Dictionary::from_sorted(["a", "b", "c"]));
    let text: ArrayRef = Arc::new((0..3000).map(|i| Some(["a", "b", "c"][i % 3])).collect::<StringArray>());
    let mut segments: Vec<(Segment, DataType)> = vec![
        (Segment::encode(&text, None, None).unwrap(), DataType::Utf8),
        (Segment::encode(&text, Some(&dictionary), None).unwrap(), DataType::Utf8),
    ];
    for (_, values) in patterns(3000, &mut random) {
        let array: ArrayRef =
            Arc::new(values.iter().enumerate().map(|(i, &x)| (i % 50 > 0).then_some(x as i64)).collect::<Int64Array>());
        segments.extend(choices().filter_map(|f| Some((Segment::encode(&array, None, f).ok()?, DataType::Int64))));
    }
    for (segment, data_type) in &segments {
        let good = segment.to_bytes();
        for round in 0..60 {
            let mut bytes = good.clone();
            let reach = if round % 2 == 0 { bytes.len().min(600) } else { bytes.len() };
            for _ in 0..=random.below(4) {
                let (at, value) = (random.below(reach), random.next() as u8);
                bytes[at] = if round % 3 == 0 { value } else { bytes[at] ^ 1 << (value % 8) };
            }
            bytes.truncate(if round % 7 == 0 { random.below(bytes.len()) } else { bytes.len() });
            let Ok(read) = Segment::from_bytes(SegmentBytes::copy_from(&bytes), data_type, 3000) else { continue };
            exercise(&read);
        }
    }
}

/// Reads everything a segment has; the values do not matter.
fn exercise(segment: &Segment) {
    let n = segment.rows();
    let rows: Vec<u32> = (0..n as u32).step_by(7).collect();
    let mut out = vec![];
    if matches!(segment.values, super::Values::Strings(_)) {
        let mut views = vec![StrView::default(); n];
        let mut text = Vec::new();
        segment.decode_str(0, &mut text, &mut views);
        views.iter().for_each(|v| assert!(std::str::from_utf8(v.as_bytes()).is_ok()));
    } else if segment.is_dictionary() {
        segment.decode_codes(0, &mut vec![0; n]);
        segment.gather_codes(&rows, &mut vec![0; rows.len()]);
        segment.select_codes(0, n, &Bitmap::new(3, true), &mut out);
        let _ = segment.check_codes(3);
    } else {
        segment.decode_i32(0, &mut vec![0; n]);
        segment.decode_i64(0, &mut vec![0; n]);
        segment.decode_i128(0, &mut vec![0; n]);
        segment.gather_i64(&rows, &mut vec![0; rows.len()]);
        segment.gather_i128(&rows, &mut vec![0; rows.len()]);
        segment.select_range(0, n, -5, 1 << 40, &mut out);
    }
    assert!(out.iter().all(|&r| (r as usize) < n));
}

#[test]
fn unsupported_types_and_absent_strings_are_errors() {
    let wide: ArrayRef = arrow::array::new_null_array(&DataType::Decimal256(50, 2), 3);
    assert!(Segment::encode(&wide, None, None).unwrap_err().to_string().contains("Decimal256"));
    let dictionary = Arc::new(Dictionary::from_sorted(["a"]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["b"]));
    assert!(Segment::encode(&text, Some(&dictionary), None).unwrap_err().to_string().contains("\"b\""));
}

#[test]
fn statistics_are_exact_where_they_claim() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(-3), Some(5)]));
    let stats = Segment::encode(&array, None, None).unwrap().stats().clone();
    assert_eq!((stats.int_range(), stats.nulls, stats.distinct, stats.plain_bytes), (Some((-3, 5)), 1, Some(2), 32));
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    let segment = Segment::encode(&nulls, None, None).unwrap();
    assert_eq!((segment.stats().int_range(), segment.stats().nulls, segment.encoding()), (None, 2, Encoding::Constant));
    let nan: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
    assert_eq!(Segment::encode(&nan, None, None).unwrap().stats().min, None);
    let long: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(50)]));
    let stats = Segment::encode(&long, None, None).unwrap().stats().clone();
    let (Some(StatValue::Str(min)), Some(StatValue::Str(max))) = (stats.min, stats.max) else { panic!() };
    assert!(min.len() <= 64 && max.len() <= 64 && *min <= *"é".repeat(50) && *max >= *"é".repeat(50));
    let random: ArrayRef =
        Arc::new((0..200_000).map(|i| Some(Random(i % 50_000).next() as i64)).collect::<Int64Array>());
    let distinct = Segment::encode(&random, None, None).unwrap().stats().distinct.unwrap();
    assert!((47_000..53_000).contains(&distinct), "{distinct}");
    assert_eq!(random.as_primitive::<Int64Type>().len(), 200_000);
}

#[test]
fn segments_read_from_an_aligned_range_of_a_map() {
    let array: ArrayRef = Arc::new((0..3000).map(|i| Some(i * i)).collect::<Int64Array>());
    let segment = Segment::encode(&array, None, None).unwrap();
    let bytes = segment.to_bytes();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [&[0; 128], &bytes[..]].concat()).unwrap();
    let map = Arc::new(crate::Mapping::of(file.as_file()).unwrap());
    let mapped = SegmentBytes::mapped(map.clone(), 128..128 + bytes.len()).unwrap();
    let read = Segment::from_bytes(mapped, &DataType::Int64, 3000).unwrap();
    drop(segment);
    let mut out = vec![0i64; 3000];
    read.decode_i64(0, &mut out);
    assert!(out.iter().zip(0..).all(|(&x, i)| x == i * i));
    assert!(SegmentBytes::mapped(map.clone(), 100..200).is_err() && SegmentBytes::mapped(map, 64..1 << 40).is_err());
}
