use std::sync::Arc;

use arrow::datatypes::DataType;
use proptest::prelude::*;
use warpmill_format::{Bitmap, Dictionary};

use super::Ranges;
use super::predicate::Predicate;
use crate::{ColType, CompareOp, Expr, ExprKind, Phys, Scalar};

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
        // Codes 0, 2, 4, ... of an extended dictionary.
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
    // More ranges than are looked at one by one: gaps within a word and between two words are filled, the one of two words is not.
    let mut many = [0x5555_5555_5555_5555; 100];
    many[40..42].fill(0);
    assert_eq!(Ranges::of_words(&many, 1000, 9).as_slice(), &[(1000, 3558), (3688, 7398)]);
    assert_eq!(Ranges::of_words(&many, 1000, 1).as_slice(), &[(1000, 7398)]);
}

/// Strings that are in a dictionary, and some before, between and after them.
const TEXTS: [&str; 9] = ["", "Asia", "B", "Ca", "Caf\u{e9}", "D", "Da", "\u{e9}", "~"];

/// The codes that satisfy a condition on a dictionary column, and whether NULL does, found without testing every entry.
fn codes_of(expr: Expr, dictionary: &Dictionary) -> (Vec<usize>, bool) {
    let all = 0..dictionary.len();
    match Predicate::of_filters(&[expr], &|_| panic!("every entry is looked at")) {
        Predicate::Never => (vec![], false),
        Predicate::Values(found) => {
            assert!(found.ranges.as_slice().iter().all(|(lo, hi)| *lo >= 0 && *hi < dictionary.len() as i128));
            (all.filter(|&code| found.ranges.contains(code as i128)).collect(), found.nulls)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn strings_are_found_in_dictionaries() {
    use CompareOp::*;
    let bool = |kind| Expr { kind, ty: Expr::bool(true).ty.with_nullable(true) };
    for entries in [vec![], vec!["Ca"], vec!["Asia", "Ca", "Caf\u{e9}", "Da", "\u{e9}"]] {
        let dictionary = Arc::new(Dictionary::from_sorted(entries.iter().copied()));
        let ty = ColType::of(&DataType::Utf8, true).unwrap();
        let coded = ColType { phys: Phys::Code, dictionary: Some(dictionary.clone()), ..ty.clone() };
        let column = Expr::column(3, coded).widen(Phys::Str);
        let holds = |test: &dyn Fn(&str) -> bool| {
            (0..entries.len()).filter(|&code| test(entries[code])).collect::<Vec<usize>>()
        };
        for text in TEXTS {
            for op in [Eq, Ne, Lt, Le, Gt, Ge, IsDistinct, IsNotDistinct] {
                let test = |entry: &str| match op {
                    Eq | IsNotDistinct => entry == text,
                    Ne | IsDistinct => entry != text,
                    Lt => entry < text,
                    Le => entry <= text,
                    Gt => entry > text,
                    Ge => entry >= text,
                };
                let literal = Expr::literal(Scalar::Str(text.into()), ty.clone());
                let (left, right) = (Box::new(column.clone()), Box::new(literal));
                let compared = bool(ExprKind::Compare { op, left: left.clone(), right: right.clone() });
                let nulls = op == IsDistinct;
                assert_eq!(codes_of(compared.clone(), &dictionary), (holds(&test), nulls), "{op:?} {text}");
                let mirrored = bool(ExprKind::Compare { op: op.mirrored(), left: right, right: left });
                assert_eq!(codes_of(mirrored, &dictionary), (holds(&test), nulls), "mirrored {op:?} {text}");
                let not = bool(ExprKind::Not(Box::new(compared)));
                let nulls = op == IsNotDistinct;
                assert_eq!(codes_of(not, &dictionary), (holds(&|entry| !test(entry)), nulls), "not {op:?} {text}");
            }
        }
        for list in [&TEXTS[..1], &TEXTS[1..5], &["D", "\u{e9}"]] {
            for negated in [false, true] {
                let values = list.iter().map(|text| Scalar::Str((*text).into())).collect();
                let input = Box::new(column.clone());
                let among = bool(ExprKind::InList { input, list: values, has_null: false, negated });
                let expected = holds(&|entry| list.contains(&entry) != negated);
                assert_eq!(codes_of(among, &dictionary), (expected, false), "{list:?} {negated}");
            }
        }
    }
}

/// Disjunctions become one condition unless that would lose information.
#[test]
fn alternatives_are_ranges_of_one_condition() {
    use CompareOp::Eq;
    let (int, text) = (ColType::of(&DataType::Int64, false).unwrap(), ColType::of(&DataType::Utf8, false).unwrap());
    let is = |op, value: Scalar| {
        let ty = if matches!(value, Scalar::Str(_)) { &text } else { &int };
        let (left, right) = (Box::new(Expr::column(3, ty.clone())), Box::new(Expr::literal(value, ty.clone())));
        Expr { kind: ExprKind::Compare { op, left, right }, ty: Expr::bool(true).ty }
    };
    let found = |list: Vec<Expr>| {
        let any = Expr { kind: ExprKind::Or(list), ty: Expr::bool(true).ty };
        match Predicate::of_filters(&[any], &|_| None) {
            Predicate::Values(values) => {
                assert_eq!(
                    values.hashes.as_ref().map_or(values.ranges.as_slice().len(), Vec::len),
                    values.ranges.as_slice().len()
                );
                Some((values.ranges.as_slice().to_vec(), values.hashes.is_some()))
            }
            Predicate::Any(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let int = |value: i128| is(Eq, Scalar::Int(value));
    assert_eq!(found(vec![int(9), int(4), int(7)]), Some((vec![(4, 4), (7, 7), (9, 9)], true)));
    let greater = || is(CompareOp::Ge, Scalar::Int(8));
    assert_eq!(
        found(vec![greater(), is(CompareOp::Le, Scalar::Int(3))]),
        Some((vec![(i128::MIN, 3), (8, i128::MAX)], false))
    );
    // A Bloom filter can be tested for 4, but not for the range.
    assert_eq!(found(vec![greater(), int(4)]), None);
    assert_eq!(found(vec![int(4), int(5)]), None);
    // Too many to be tested at once: they stay separate.
    let many = |count: i128| (0..count).map(|i| int(3 * i)).collect::<Vec<Expr>>();
    assert!(found(many(8)).is_some_and(|(ranges, _)| ranges.len() == 8) && found(many(9)).is_none());
    // Different strings may have one rank.
    let text = |value: &str| is(Eq, Scalar::Str(value.into()));
    assert_eq!(found(vec![text("a long beginning: 1"), text("a long beginning: 2")]), None);
    assert!(found(vec![text("one"), text("two")]).is_some_and(|(ranges, hashed)| ranges.len() == 2 && hashed));
}
