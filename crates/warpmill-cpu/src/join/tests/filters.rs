//! Key filters never drop a key, and drop most other values.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use warpmill_format::{Segment, mask_rows};

use crate::join::{KeyFilter, count_rows};
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

/// The values that pass, of all rows and of one in `step`, which have to be the same ones.
fn selected(filter: &KeyFilter, values: &[i64], step: usize) -> Vec<i64> {
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let segment = Segment::encode(&array, None, None).unwrap();
    let pass = |step: usize| {
        let mut mask = vec![0u64; values.len().div_ceil(64)];
        (0..values.len()).step_by(step).for_each(|row| mask[row / 64] |= 1 << (row % 64));
        let tested = count_rows(&mask);
        let decoded = filter.apply(&segment, 0..values.len(), &mut mask);
        assert!(decoded <= values.len() && (decoded == 0 || decoded >= tested));
        let mut rows = vec![];
        mask_rows(&mask, values.len(), &mut rows);
        rows
    };
    let all = pass(1);
    let some: Vec<u32> = all.iter().copied().filter(|row| (*row as usize).is_multiple_of(step)).collect();
    assert_eq!(pass(step), some);
    all.into_iter().map(|row| values[row as usize]).collect()
}

#[test]
fn dense_keys_are_exact() {
    let filter = filter((-500..500).map(|key| key * 7).collect()).unwrap();
    assert_eq!(filter.keys(), 1000);
    let values: Vec<i64> = (-4000..4000).chain([i64::MIN, i64::MAX]).collect();
    let expected: Vec<i64> = values.iter().copied().filter(|v| v % 7 == 0 && (-3500..3500).contains(v)).collect();
    assert_eq!(selected(&filter, &values, 20), expected);
    let near: Vec<i64> = (-4000..4000).collect();
    assert_eq!(selected(&filter, &near, 3), expected);
}

#[test]
fn a_full_range_is_its_bounds() {
    let filter = filter((10..1000).collect()).unwrap();
    assert_eq!(selected(&filter, &[9, 10, 500, 999, 1000, i64::MIN], 2), [10, 500, 999]);
}

#[test]
fn sparse_keys_rarely_pass_others() {
    let keys: Vec<i64> = (0..50_000i64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).collect();
    let filter = filter(keys.clone()).unwrap();
    assert_eq!(selected(&filter, &keys, 17), keys);
    let others: Vec<i64> = (0..50_000).map(|key: i64| key * 184_467_440_737_095 + 1).collect();
    let passed = selected(&filter, &others, 2).len();
    assert!(passed < 1500, "{passed} of 50000 pass");
}

#[test]
fn no_keys_pass_nothing() {
    let filter = filter(vec![]).unwrap();
    assert!(selected(&filter, &[0, 1, i64::MAX], 1).is_empty());
}
