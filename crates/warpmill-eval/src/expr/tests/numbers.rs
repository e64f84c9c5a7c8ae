use proptest::prelude::*;

use super::*;

const OPS: [ArithOp; 5] = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div, ArithOp::Mod];
const COMPARES: [CompareOp; 8] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
    CompareOp::IsDistinct,
    CompareOp::IsNotDistinct,
];

fn exact(op: ArithOp, a: i128, b: i128) -> Option<i128> {
    match op {
        ArithOp::Add => a.checked_add(b),
        ArithOp::Sub => a.checked_sub(b),
        ArithOp::Mul => a.checked_mul(b),
        ArithOp::Div => a.checked_div(b),
        ArithOp::Mod => a.checked_rem(b),
    }
}

/// The expected result, and whether a row is an error.
fn oracle(op: ArithOp, a: &[Option<i128>], b: &[Option<i128>], bounds: (i128, i128)) -> Option<Vec<Option<i128>>> {
    a.iter()
        .zip(b)
        .map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => exact(op, *a, *b).filter(|v| bounds.0 <= *v && *v <= bounds.1).map(Some),
            _ => Some(None),
        })
        .collect()
}

fn truth(op: CompareOp, order: Option<std::cmp::Ordering>, nulls: (bool, bool)) -> Option<bool> {
    match op {
        CompareOp::IsDistinct => Some(if nulls.0 || nulls.1 { nulls.0 != nulls.1 } else { order?.is_ne() }),
        CompareOp::IsNotDistinct => truth(CompareOp::IsDistinct, order, nulls).map(|v| !v),
        _ if nulls.0 || nulls.1 => None,
        CompareOp::Eq => order.map(|o| o.is_eq()),
        CompareOp::Ne => order.map(|o| o.is_ne()),
        CompareOp::Lt => order.map(|o| o.is_lt()),
        CompareOp::Le => order.map(|o| o.is_le()),
        CompareOp::Gt => order.map(|o| o.is_gt()),
        CompareOp::Ge => order.map(|o| o.is_ge()),
    }
}

fn rows_strategy(large: bool) -> impl Strategy<Value = Vec<(Option<i64>, Option<i64>)>> {
    let value = move || {
        let edges = prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(-1), Just(0), any::<i64>()];
        let small = -20..20i64;
        proptest::option::weighted(0.9, if large { edges.boxed() } else { small.boxed() })
    };
    proptest::collection::vec((value(), value()), 1..200)
}

fn check_ints(logical: DataType, a: &[Option<i64>], b: &[Option<i64>]) {
    let wide = |v: &[Option<i64>]| v.iter().map(|v| v.map(i128::from)).collect::<Vec<_>>();
    let (wa, wb) = (wide(a), wide(b));
    let columns = [vector(a), vector(b)];
    let bounds = ColType::range_of(&logical).unwrap();
    for op in OPS {
        let shapes = [
            (arith(op, col(0, logical.clone()), col(1, logical.clone()), true), wa.clone(), wb.clone()),
            match wb[0] {
                Some(v) => {
                    let right = int(v, logical.clone());
                    (arith(op, col(0, logical.clone()), right, true), wa.clone(), vec![Some(v); wa.len()])
                }
                None => continue,
            },
        ];
        for (expr, left, right) in shapes {
            let result = eval(&expr, &columns);
            match oracle(op, &left, &right, bounds) {
                Some(expected) => assert_eq!(wide(&rows::<i64>(&result.unwrap())), expected, "{op:?}"),
                None => assert!(matches!(result, Err(ExecError::Value(_))), "{op:?} {left:?} {right:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn checked_arithmetic_agrees_with_wide_integers(pairs in rows_strategy(false), edges in rows_strategy(true)) {
        for pairs in [pairs, edges] {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            check_ints(DataType::Int64, &a, &b);
        }
    }

    #[test]
    fn comparisons_agree_with_options(pairs in rows_strategy(false), pick in 0..200usize) {
        let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let constant = b[pick % b.len()];
        let null = Expr::literal(Scalar::Null, ty(DataType::Int64));
        let literal = constant.map_or(null, |v| int(v.into(), DataType::Int64));
        for op in COMPARES {
            let both = compare(op, col(0, DataType::Int64), col(1, DataType::Int64));
            let one = compare(op, col(0, DataType::Int64), literal.clone());
            let other = compare(op, literal.clone(), col(0, DataType::Int64));
            let order = |a: Option<i64>, b: Option<i64>| truth(op, Some(a.cmp(&b)), (a.is_none(), b.is_none()));
            let expected: [Vec<_>; 3] = [
                a.iter().zip(&b).map(|(a, b)| order(*a, *b)).collect(),
                a.iter().map(|a| order(*a, constant)).collect(),
                a.iter().map(|a| order(constant, *a)).collect(),
            ];
            for (expr, expected) in [both, one, other].iter().zip(expected) {
                let columns = [vector(&a), vector(&b)];
                prop_assert_eq!(&rows::<bool>(&eval(expr, &columns).unwrap()), &expected);
                let selected: Vec<u32> = (0..a.len() as u32).filter(|&i| expected[i as usize] == Some(true)).collect();
                prop_assert_eq!(select(expr, &columns), selected);
            }
        }
    }
}

#[test]
fn narrow_types_overflow_at_their_own_bounds() {
    let columns = [vector(&[Some(100i32), None, Some(-128)]), vector(&[Some(27i32), Some(127), Some(0)])];
    let sum = arith(ArithOp::Add, col(0, DataType::Int8), col(1, DataType::Int8), true);
    assert_eq!(rows::<i32>(&eval(&sum, &columns).unwrap()), [Some(127), None, Some(-128)]);
    let less = arith(ArithOp::Sub, col(0, DataType::Int8), col(1, DataType::Int8), true);
    assert_eq!(rows::<i32>(&eval(&less, &columns).unwrap()), [Some(73), None, Some(-128)]);
    let product = arith(ArithOp::Mul, col(0, DataType::Int8), col(1, DataType::Int8), true);
    assert_eq!(eval(&product, &columns).unwrap_err().to_string(), "overflow in multiplication of Int8");
}

#[test]
fn zero_divisors_are_errors_of_valid_rows_only() {
    let divide = arith(ArithOp::Div, col(0, DataType::Int32), col(1, DataType::Int32), false);
    let columns = [vector(&[None, Some(7i32), Some(-7)]), vector(&[Some(0i32), Some(2), Some(2)])];
    assert_eq!(rows::<i32>(&eval(&divide, &columns).unwrap()), [None, Some(3), Some(-3)]);
    let columns = [vector(&[Some(1i32)]), vector(&[Some(0i32)])];
    assert_eq!(eval(&divide, &columns).unwrap_err().to_string(), "division by zero");
    let float = arith(ArithOp::Div, col(0, DataType::Float64), col(1, DataType::Float64), false);
    let columns = [vector(&[Some(1f64), Some(0.0)]), vector(&[Some(0f64), Some(0.0)])];
    let result = rows::<f64>(&eval(&float, &columns).unwrap());
    assert!(result[0] == Some(f64::INFINITY) && result[1].unwrap().is_nan());
}

#[test]
fn decimal_division_scales_the_dividend_and_truncates() {
    let (money, rate) = (DataType::Decimal128(12, 2), DataType::Decimal128(5, 1));
    let kind = ExprKind::Arith {
        op: ArithOp::Div,
        left: col(0, money).widen(warpmill_ir::Phys::I128).into(),
        right: col(1, rate).widen(warpmill_ir::Phys::I128).into(),
        checked: false,
    };
    let quotient = expr(kind, DataType::Decimal128(38, 6));
    let columns = [vector(&[Some(200i64), Some(-200), None]), vector(&[Some(30i32), Some(30), Some(0)])];
    assert_eq!(rows::<i128>(&eval(&quotient, &columns).unwrap()), [Some(666_666), Some(-666_666), None]);
}

#[test]
fn floats_order_nan_last_and_zeros_equal() {
    let values = [f64::NAN, -0.0, 0.0, f64::INFINITY, -1.5];
    for &a in &values {
        for &b in &values {
            let columns = [vector(&[Some(a)]), vector(&[Some(b)])];
            let order = match (a.is_nan(), b.is_nan()) {
                (true, true) => std::cmp::Ordering::Equal,
                (true, false) => std::cmp::Ordering::Greater,
                (false, true) => std::cmp::Ordering::Less,
                _ => a.partial_cmp(&b).unwrap(),
            };
            for op in COMPARES {
                let result = eval(&compare(op, col(0, DataType::Float64), col(1, DataType::Float64)), &columns);
                let expected = truth(op, Some(order), (false, false));
                assert_eq!(rows::<bool>(&result.unwrap()), [expected], "{a} {op:?} {b}");
            }
        }
    }
}

#[test]
fn functions_of_numbers() {
    let float = |f, args: Vec<Expr>, column: &[Option<f64>]| {
        rows::<f64>(&eval(&call(f, args, DataType::Float64), &[vector(column)]).unwrap())
    };
    let x = || col(0, DataType::Float64);
    let values = [Some(2.5), Some(-2.5), None, Some(1.25)];
    assert_eq!(float(Function::Round, vec![x()], &values), [Some(3.0), Some(-3.0), None, Some(1.0)]);
    let places = int(1, DataType::Int32);
    assert_eq!(float(Function::Round, vec![x(), places], &values), [Some(2.5), Some(-2.5), None, Some(1.3)]);
    assert_eq!(float(Function::Floor, vec![x()], &values), [Some(2.0), Some(-3.0), None, Some(1.0)]);
    assert_eq!(float(Function::Ceil, vec![x()], &values), [Some(3.0), Some(-2.0), None, Some(2.0)]);
    assert_eq!(float(Function::Trunc, vec![x()], &values), [Some(2.0), Some(-2.0), None, Some(1.0)]);
    assert_eq!(float(Function::Abs, vec![x()], &values), [Some(2.5), Some(2.5), None, Some(1.25)]);
    assert_eq!(float(Function::Sign, vec![x()], &values), [Some(1.0), Some(-1.0), None, Some(1.0)]);
    assert_eq!(float(Function::Sqrt, vec![x()], &[Some(9.0), None]), [Some(3.0), None]);
    assert_eq!(float(Function::Log10, vec![x()], &[Some(1000.0)]), [Some(3.0)]);
    assert_eq!(float(Function::Ln, vec![call(Function::Exp, vec![x()], DataType::Float64)], &[Some(1.0)]), [Some(1.0)]);
    assert_eq!(float(Function::Power, vec![x(), x()], &[Some(3.0)]), [Some(27.0)]);
    let root = call(Function::Sqrt, vec![x()], DataType::Float64);
    assert!(eval(&root, &[vector(&[Some(-1.0f64)])]).is_err());
    let decimal = |f, places: Vec<Expr>, to, values: &[Option<i64>]| {
        let args = [col(0, DataType::Decimal128(10, 2))].into_iter().chain(places).collect();
        rows::<i64>(&eval(&call(f, args, to), &[vector(values)]).unwrap())
    };
    let same = DataType::Decimal128(10, 2);
    let cents = [Some(150), Some(-150), Some(149), None, Some(-201)];
    let whole = DataType::Decimal128(10, 0);
    let rounded = decimal(Function::Round, vec![], whole.clone(), &cents);
    assert_eq!(rounded, [Some(2), Some(-2), Some(1), None, Some(-2)]);
    assert_eq!(decimal(Function::Round, vec![int(-1, DataType::Int32)], whole, &[Some(1550)]), [Some(20)]);
    let floor = decimal(Function::Floor, vec![], same.clone(), &cents);
    assert_eq!(floor, [Some(100), Some(-200), Some(100), None, Some(-300)]);
    let ceil = decimal(Function::Ceil, vec![], same.clone(), &cents);
    assert_eq!(ceil, [Some(200), Some(-100), Some(200), None, Some(-200)]);
    let trunc = decimal(Function::Trunc, vec![int(1, DataType::Int64)], same.clone(), &cents);
    assert_eq!(trunc, [Some(150), Some(-150), Some(140), None, Some(-200)]);
    assert_eq!(decimal(Function::Abs, vec![], same, &cents), [Some(150), Some(150), Some(149), None, Some(201)]);
    let abs = call(Function::Abs, vec![col(0, DataType::Int32)], DataType::Int32);
    assert!(eval(&abs, &[vector(&[Some(i32::MIN)])]).is_err());
    let negate = expr(ExprKind::Negate { input: col(0, DataType::Int32).into(), checked: true }, DataType::Int32);
    assert_eq!(rows::<i32>(&eval(&negate, &[vector(&[Some(5i32), None])]).unwrap()), [Some(-5), None]);
    assert!(eval(&negate, &[vector(&[Some(i32::MIN)])]).is_err());
}

#[test]
fn greatest_and_least_ignore_nulls() {
    let columns = [vector(&[Some(1i64), None, None]), vector(&[Some(3i64), Some(2), None])];
    let args = || vec![col(0, DataType::Int64), col(1, DataType::Int64), int(2, DataType::Int64)];
    let greatest = eval(&call(Function::Greatest, args(), DataType::Int64), &columns).unwrap();
    assert_eq!(rows::<i64>(&greatest), [Some(3), Some(2), Some(2)]);
    let least = eval(&call(Function::Least, args()[..2].to_vec(), DataType::Int64), &columns).unwrap();
    assert_eq!(rows::<i64>(&least), [Some(1), Some(2), None]);
}
