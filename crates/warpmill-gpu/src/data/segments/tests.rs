//! Recoded segments, of which several devices hold copies.

use arrow::array::{ArrayRef, Int64Array};

use super::*;

fn segment(first: i64) -> Arc<Segment> {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 1000));
    Arc::new(Segment::encode(&array, None, None).unwrap())
}

#[test]
fn what_is_in_use_is_not_forgotten() {
    let mut pairs = Pairs::default();
    let bytes = |segment: &Segment| segment.as_bytes().len();
    let (origin, used) = (segment(0), pairs.put((segment(1), segment(2)), usize::MAX));
    drop(pairs.put((origin.clone(), segment(3)), usize::MAX));
    assert_eq!(pairs.all.len(), 2);
    // One device drops its data; others still hold copies.
    pairs.forget_unused();
    let (_, left) = pairs.all.values().next().unwrap();
    assert!(pairs.all.len() == 1 && Arc::ptr_eq(left, &used));
    assert_eq!(pairs.held, bytes(&used));
    // The same when the limit is reached.
    let other = pairs.put((origin, segment(4)), 0);
    assert_eq!((pairs.all.len(), pairs.held), (2, bytes(&used) + bytes(&other)));
    drop((used, other));
    pairs.forget_unused();
    assert_eq!((pairs.all.len(), pairs.held), (0, 0));
}
