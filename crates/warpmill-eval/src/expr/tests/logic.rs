use proptest::prelude::*;

use super::*;

fn flag(index: usize) -> Expr {
    col(index, DataType::Boolean)
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    if a == Some(false) || b == Some(false) { Some(false) } else { Some(a? && b?) }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    if a == Some(true) || b == Some(true) { Some(true) } else { Some(a? || b?) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn three_valued_logic(data in proptest::collection::vec(any::<[Option<bool>; 3]>(), 1..300), rare in any::<bool>()) {
        // With `rare`, the first conjunct keeps few rows, so that the others run on a sub-chunk.
        let keep = |i: usize, v: Option<bool>| if rare && !i.is_multiple_of(16) { v.map(|_| false) } else { v };
        let column = |c: usize| data.iter().enumerate().map(|(i, r)| if c == 0 { keep(i, r[c]) } else { r[c] }).collect();
        let data: [Vec<Option<bool>>; 3] = std::array::from_fn(column);
        let columns: Vec<_> = data.iter().map(|c| vector(c)).collect();
        let not = |e: Expr| expr(ExprKind::Not(e.into()), DataType::Boolean);
        let list = || vec![flag(0), not(flag(1)), flag(2)];
        let all = |f: fn(Option<bool>, Option<bool>) -> Option<bool>| -> Vec<_> {
            (0..data[0].len()).map(|i| f(f(data[0][i], data[1][i].map(|v| !v)), data[2][i])).collect()
        };
        let cases = [
            (expr(ExprKind::And(list()), DataType::Boolean), all(and)),
            (expr(ExprKind::Or(list()), DataType::Boolean), all(or)),
        ];
        for (expr, expected) in cases {
            prop_assert_eq!(&rows::<bool>(&eval(&expr, &columns).unwrap()), &expected);
            let selected: Vec<u32> = (0..expected.len() as u32).filter(|&i| expected[i as usize] == Some(true)).collect();
            prop_assert_eq!(select(&expr, &columns), selected);
            let negated: Vec<_> = expected.iter().map(|v| v.map(|v| !v)).collect();
            prop_assert_eq!(&rows::<bool>(&eval(&not(expr), &columns).unwrap()), &negated);
        }
    }
}

#[test]
fn errors_are_only_of_rows_that_need_the_value() {
    let int64 = || DataType::Int64;
    let x = || col(0, int64());
    let tenth = || arith(ArithOp::Div, int(10, int64()), x(), false);
    let columns = [vector(&[Some(0i64), Some(5), None, Some(20)])];
    let not_zero = || compare(CompareOp::Ne, x(), int(0, int64()));
    let guarded =
        expr(ExprKind::And(vec![not_zero(), compare(CompareOp::Gt, tenth(), int(1, int64()))]), DataType::Boolean);
    assert_eq!(select(&guarded, &columns), [1]);
    assert_eq!(rows::<bool>(&eval(&guarded, &columns).unwrap()), [Some(false), Some(true), None, Some(false)]);
    let zero = compare(CompareOp::Eq, x(), int(0, int64()));
    let either = expr(ExprKind::Or(vec![zero, compare(CompareOp::Gt, tenth(), int(1, int64()))]), DataType::Boolean);
    assert_eq!(select(&either, &columns), [0, 1]);
    let case = |otherwise: Option<Expr>| {
        let otherwise = otherwise.map(Box::new);
        expr(ExprKind::Case { branches: vec![(not_zero(), tenth())], otherwise }, int64())
    };
    let result = eval(&case(Some(int(-1, int64()))), &columns).unwrap();
    assert_eq!(rows::<i64>(&result), [Some(-1), Some(2), Some(-1), Some(0)]);
    assert_eq!(rows::<i64>(&eval(&case(None), &columns).unwrap()), [None, Some(2), None, Some(0)]);
    // A constant that is an error, in a branch that no row takes.
    let bad = arith(ArithOp::Div, int(1, int64()), int(0, int64()), false);
    let never = compare(CompareOp::Gt, x(), int(99, int64()));
    let case = ExprKind::Case { branches: vec![(never, bad.clone())], otherwise: Some(x().into()) };
    assert_eq!(rows::<i64>(&eval(&expr(case, int64()), &columns).unwrap()), rows::<i64>(&columns[0]));
    assert!(eval(&bad, &columns).is_err());
}

#[test]
fn case_takes_the_first_true_branch() {
    let int64 = || DataType::Int64;
    let values: Vec<Option<i64>> = (0..200).map(|i| (i % 11 != 0).then_some(i)).collect();
    let below = |limit| compare(CompareOp::Lt, col(0, int64()), int(limit, int64()));
    let twice = arith(ArithOp::Mul, col(0, int64()), int(2, int64()), false);
    let branches = vec![(below(50), int(7, int64())), (below(100), twice), (below(20), int(9, int64()))];
    let case = expr(ExprKind::Case { branches, otherwise: Some(col(0, int64()).into()) }, int64());
    let expected = values.iter().map(|v| match v {
        Some(v) if *v < 50 => Some(7),
        Some(v) if *v < 100 => Some(2 * v),
        v => *v,
    });
    assert_eq!(rows::<i64>(&eval(&case, &[vector(&values)]).unwrap()), expected.collect::<Vec<_>>());
}

#[test]
fn nulls_are_replaced_made_and_tested() {
    let int64 = || DataType::Int64;
    let columns = [vector(&[Some(1i64), None, None]), vector(&[None, Some(2i64), None])];
    let (a, b) = (|| col(0, int64()), || col(1, int64()));
    let coalesce = call(Function::Coalesce, vec![a(), b(), int(3, int64())], int64());
    assert_eq!(rows::<i64>(&eval(&coalesce, &columns).unwrap()), [Some(1), Some(2), Some(3)]);
    let null_if = call(Function::NullIf, vec![coalesce, int(2, int64())], int64());
    assert_eq!(rows::<i64>(&eval(&null_if, &columns).unwrap()), [Some(1), None, Some(3)]);
    let is_null = expr(ExprKind::IsNull(a().into()), DataType::Boolean);
    assert_eq!(select(&is_null, &columns), [1, 2]);
    let is_not_null = expr(ExprKind::IsNotNull(a().into()), DataType::Boolean);
    assert_eq!(select(&is_not_null, &columns), [0]);
}

#[test]
fn membership_in_lists() {
    let values: Vec<Option<i64>> = (0..300).map(|i| (i % 13 != 0).then_some(i - 150)).collect();
    let columns = [vector(&values)];
    let lists = [vec![3i128, -7], (-40..40).step_by(3).collect(), (0..20).map(|i| i * 10_000_000_000).collect()];
    for list in &lists {
        for (has_null, negated) in [(false, false), (true, false), (false, true), (true, true)] {
            let scalars = list.iter().map(|&v| Scalar::Int(v)).collect();
            let kind = ExprKind::InList { input: col(0, DataType::Int64).into(), list: scalars, has_null, negated };
            let expected = values.iter().map(|v| {
                let found = list.contains(&i128::from((*v)?));
                if !found && has_null { None } else { Some(found != negated) }
            });
            let result = eval(&expr(kind, DataType::Boolean), &columns).unwrap();
            assert_eq!(rows::<bool>(&result), expected.collect::<Vec<_>>());
        }
    }
    let words: Vec<Scalar> = (0..20).map(|i| Scalar::Str(format!("word {i}").into())).collect();
    for list in [words[..3].to_vec(), words] {
        let len = list.len();
        let kind = ExprKind::InList { input: col(0, DataType::Utf8).into(), list, has_null: false, negated: false };
        let result = eval(&expr(kind, DataType::Boolean), &[texts(&[Some("word 2"), Some("word 9"), None, Some("")])]);
        assert_eq!(rows::<bool>(&result.unwrap()), [Some(true), Some(len > 9), None, Some(false)]);
    }
}

#[test]
fn ranges_of_one_column_are_recognized() {
    let x = || col(3, DataType::Int32);
    let lit = |v| int(v, DataType::Int32);
    let range = |e: &Expr| PreparedExpr::new(e).unwrap().as_int_range();
    assert_eq!(range(&compare(CompareOp::Eq, x(), lit(5))), Some((3, 5, 5)));
    assert_eq!(range(&compare(CompareOp::Gt, lit(5), x())), Some((3, i128::MIN, 4)));
    let wide = || x().widen(warpmill_ir::Phys::I64);
    let between = ExprKind::And(vec![
        compare(CompareOp::Ge, wide(), int(-2, DataType::Int64)),
        compare(CompareOp::Lt, x(), lit(9)),
    ]);
    assert_eq!(range(&expr(between, DataType::Boolean)), Some((3, -2, 8)));
    assert_eq!(range(&compare(CompareOp::Ne, x(), lit(5))), None);
    assert_eq!(range(&compare(CompareOp::Lt, x(), col(1, DataType::Int32))), None);
}
