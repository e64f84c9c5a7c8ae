//! Key filters never drop a key, and drop most of what is none.

use crate::join::KeyFilter;
use crate::vector::Data;

fn filter(keys: Vec<i64>) -> Option<KeyFilter> {
    let range = (keys.iter().min().copied(), keys.iter().max().copied());
    let range = match range {
        (Some(lo), Some(hi)) => (i128::from(lo), i128::from(hi)),
        _ => (i128::MAX, i128::MIN),
    };
    let rows = keys.len();
    KeyFilter::build(&Data::I64(keys), rows, range)
}

fn selected(filter: &KeyFilter, values: &[i64]) -> Vec<i64> {
    let mut rows = vec![];
    filter.select_i64(values, &mut rows);
    assert!(rows.is_sorted());
    rows.into_iter().map(|row| values[row as usize]).collect()
}

#[test]
fn dense_keys_are_exact() {
    let filter = filter((-500..500).map(|key| key * 7).collect()).unwrap();
    assert!(filter.is_exact());
    let values: Vec<i64> = (-4000..4000).chain([i64::MIN, i64::MAX]).collect();
    let expected: Vec<i64> = values.iter().copied().filter(|v| v % 7 == 0 && (-3500..3500).contains(v)).collect();
    assert_eq!(selected(&filter, &values), expected);
}

#[test]
fn a_full_range_is_its_bounds() {
    let filter = filter((10..1000).collect()).unwrap();
    assert!(filter.covers(10, 999) && !filter.covers(9, 999) && !filter.covers(10, 1000));
    assert_eq!(selected(&filter, &[9, 10, 500, 999, 1000, i64::MIN]), [10, 500, 999]);
}

#[test]
fn sparse_keys_rarely_pass_others() {
    let keys: Vec<i64> = (0..50_000i64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).collect();
    let filter = filter(keys.clone()).unwrap();
    assert_eq!(selected(&filter, &keys), keys);
    let others: Vec<i64> = (0..50_000).map(|key: i64| key * 184_467_440_737_095 + 1).collect();
    let passed = selected(&filter, &others).len();
    assert!(passed < 1500, "{passed} of 50000 pass");
}

#[test]
fn no_keys_pass_nothing() {
    let filter = filter(vec![]).unwrap();
    assert!(selected(&filter, &[0, 1, i64::MAX]).is_empty());
}
