//! Every kind of join against a nested loop.

mod case;
mod filters;
mod large;

use proptest::prelude::*;
use warpmill_ir::{JoinKind, Phys};

use case::{Case, Mode, Side};

const KINDS: [JoinKind; 8] = [
    JoinKind::Inner,
    JoinKind::ProbeOuter,
    JoinKind::ProbeSemi,
    JoinKind::ProbeAnti,
    JoinKind::ProbeMark,
    JoinKind::BuildOuter,
    JoinKind::Full,
    JoinKind::BuildOnly,
];

const TYPES: [Phys; 8] = [Phys::Bool, Phys::I32, Phys::I64, Phys::I128, Phys::F32, Phys::F64, Phys::Str, Phys::Code];

fn side(keys: usize) -> impl Strategy<Value = Side> {
    let key = prop_oneof![1 => Just(None), 6 => (0u8..8).prop_map(Some), 4 => Just(Some(3))];
    let row = (prop::collection::vec(key, keys), prop::option::weighted(0.9, 0i64..4));
    prop::collection::vec(row, 0..40)
}

fn case() -> impl Strategy<Value = Case> {
    prop::collection::vec(prop::sample::select(&TYPES[..]), 0..4).prop_flat_map(|types| {
        let sides = (side(types.len()), side(types.len()));
        let mode = prop::sample::select(vec![Mode::Normal, Mode::NoDirect, Mode::EqualHashes]);
        (Just(types), sides, mode, any::<(bool, bool)>(), 1u32..12, 1usize..4).prop_map(
            |(types, (probe, build), mode, (residual, null_equals_null), log, workers)| Case {
                types,
                probe,
                build,
                mode,
                residual,
                null_equals_null,
                chunk_rows: 1 << log,
                workers,
                limit: None,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_kind_agrees_with_a_nested_loop(case in case()) {
        for kind in KINDS {
            case.check(kind, false);
        }
        if !case.null_equals_null && !case.types.is_empty() {
            case.check(JoinKind::ProbeAnti, true);
            case.check(JoinKind::ProbeMark, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_kind_agrees_with_a_nested_loop_when_rows_are_put_aside(
        case in case(),
        limit in prop_oneof![Just(0usize), 0usize..20_000],
    ) {
        let case = Case { limit: Some(limit), ..case };
        for kind in KINDS {
            case.check(kind, false);
        }
        if !case.null_equals_null && !case.types.is_empty() {
            case.check(JoinKind::ProbeAnti, true);
            case.check(JoinKind::ProbeMark, true);
        }
    }
}

fn fixed(types: &[Phys], probe: Side, build: Side) -> Case {
    Case {
        types: types.to_vec(),
        probe,
        build,
        mode: Mode::Normal,
        residual: false,
        null_equals_null: false,
        chunk_rows: 4,
        workers: 2,
        limit: None,
    }
}

fn check_all(case: &Case) {
    for residual in [false, true] {
        for null_equals_null in [false, true] {
            for mode in [Mode::Normal, Mode::NoDirect, Mode::EqualHashes] {
                let case = Case { residual, null_equals_null, mode, ..case.clone() };
                KINDS.iter().for_each(|&kind| case.check(kind, false));
                if !null_equals_null && !case.types.is_empty() {
                    case.check(JoinKind::ProbeAnti, true);
                    case.check(JoinKind::ProbeMark, true);
                }
            }
        }
    }
}

fn keys(values: &[Option<u8>]) -> Side {
    values.iter().enumerate().map(|(i, &key)| (vec![key], Some(i as i64 % 3))).collect()
}

#[test]
fn empty_sides_and_single_rows() {
    for phys in TYPES {
        for probe in [vec![], keys(&[Some(1)]), keys(&[None]), keys(&[Some(1), None, Some(2)])] {
            for build in [vec![], keys(&[Some(1)]), keys(&[None]), keys(&[Some(1), Some(1), None])] {
                check_all(&fixed(&[phys], probe.clone(), build));
            }
        }
    }
}

#[test]
fn one_key_has_nearly_all_rows() {
    let mut probe = keys(&[Some(5); 30]);
    probe.extend(keys(&[None, Some(1), Some(2)]));
    for phys in TYPES {
        check_all(&fixed(&[phys], probe.clone(), probe.clone()));
        check_all(&fixed(&[phys], probe.clone(), keys(&[Some(1), Some(2), Some(5), Some(6)])));
    }
}

#[test]
fn without_keys_every_row_matches() {
    let rows = |n: usize| -> Side { (0..n).map(|i| (vec![], Some(i as i64 % 3))).collect() };
    for (probe, build) in [(0, 3), (3, 0), (1, 1), (7, 11), (11, 1)] {
        check_all(&fixed(&[], rows(probe), rows(build)));
    }
}
