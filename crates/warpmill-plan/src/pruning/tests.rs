use proptest::prelude::*;
use warpmill_format::Bitmap;

use super::Ranges;

fn set(ranges: &Ranges, n: i128) -> Vec<i128> {
    (0..n).filter(|&rank| ranges.contains(rank)).collect()
}

proptest! {
    #[test]
    fn ranges_are_sets(parts in prop::collection::vec((0i128..80, -2i128..12), 0..12), most in 1usize..5) {
        let parts: Vec<(i128, i128)> = parts.into_iter().map(|(lo, len)| (lo, lo + len)).collect();
        let ranges = Ranges::union(parts.clone());
        let members: Vec<i128> =
            (0..100).filter(|rank| parts.iter().any(|(lo, hi)| (lo..=hi).contains(&rank))).collect();
        prop_assert_eq!(set(&ranges, 100), members.clone());
        prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        let others: Vec<i128> = (0..100).filter(|rank| !members.contains(rank)).collect();
        prop_assert_eq!(set(&ranges.complement(), 100), others);
        prop_assert_eq!(ranges.complement().complement(), ranges.clone());
        let even = Ranges::union((0..50).map(|i| (2 * i, 2 * i)).collect());
        let both: Vec<i128> = members.iter().copied().filter(|rank| rank % 2 == 0).collect();
        prop_assert_eq!(set(&ranges.intersection(&even), 100), both);
        let bits = Bitmap::from_fn(100, |i| members.contains(&(i as i128)));
        prop_assert_eq!(Ranges::of_bits(&bits, 0, 100), ranges.clone());
        let fewer = ranges.clone().with_at_most(most);
        prop_assert!(fewer.as_slice().len() <= most);
        prop_assert!(members.iter().all(|&rank| fewer.contains(rank)));
        // Codes 0, 2, 4, ... of a dictionary that has grown.
        let remap: Vec<u32> = (0..50).map(|code| 2 * code).collect();
        let before: Vec<i128> = members.iter().filter(|rank| *rank % 2 == 0).map(|rank| rank / 2).collect();
        prop_assert_eq!(set(&ranges.before(&remap), 50), before);
    }
}

#[test]
fn extreme_ranks() {
    assert_eq!(Ranges::all().complement(), Ranges::default());
    assert_eq!(Ranges::default().complement(), Ranges::all());
    assert_eq!(Ranges::of(i128::MIN, 5).complement(), Ranges::of(6, i128::MAX));
    assert!(Ranges::of(5, 4).is_empty());
    let words = [u64::MAX, 1, 0, 1 << 63];
    assert_eq!(Ranges::of_words(&words, -10, 9).as_slice(), &[(-10, 54), (245, 245)]);
}
