//! The text generated for expressions of TPC-H.

use insta::assert_snapshot;

use super::*;
use crate::compile::expr::emit_predicate;

/// The statements for `exprs` in one context, and the operands of their values.
fn generated(columns: &[Column], exprs: &[Expr]) -> String {
    let (mut code, mut params) = (Code::default(), Params::default());
    let values = values(columns);
    let mut context = Context::new(&mut code, &mut params, &values, "active");
    let results: Vec<String> = exprs
        .iter()
        .map(|expr| context.emit(expr).unwrap())
        .map(|value| format!("{} if {}", value.text, value.valid_text()))
        .collect();
    format!("{}{}\n=> {}\n", params.definition("Params"), code.text(), results.join("\n=> "))
}

fn values(columns: &[Column]) -> Vec<Option<Value>> {
    let value = |(i, column): (usize, &Column)| {
        let valid = column.vector.validity.is_some().then(|| format!("valid_{i}"));
        Some(Value::new(format!("column_{i}"), CType::of(column.ty.phys)).with_valid(valid))
    };
    columns.iter().enumerate().map(value).collect()
}

fn predicate(columns: &[Column], expr: &Expr) -> String {
    let (mut code, mut params) = (Code::default(), Params::default());
    let values = values(columns);
    let truth = emit_predicate(expr, &mut Context::new(&mut code, &mut params, &values, "active")).unwrap();
    format!("{}{}\n=> {truth}\n", params.definition("Params"), code.text())
}

fn money(range: (i128, i128)) -> Column {
    ints_within(DataType::Decimal128(15, 2), range, 1, false)
}

/// `price * (1 - discount)`
fn revenue(columns: &[Column]) -> Expr {
    let one = Expr::literal(Scalar::Int(100), columns[1].ty.clone());
    let rest = arith(ArithOp::Sub, one, col(1, columns), false, ty(DataType::Decimal128(15, 2)).narrowed((90, 100)));
    let ty = ty(DataType::Decimal128(38, 4)).narrowed((8_000_000, 1_100_000_000));
    arith(ArithOp::Mul, col(0, columns), rest, false, ty)
}

#[test]
fn q1_sums_share_their_parts() {
    let columns = [money((90_000, 11_000_000)), money((0, 10)), money((0, 8))];
    let one = Expr::literal(Scalar::Int(100), columns[2].ty.clone());
    let taxed = arith(ArithOp::Add, one, col(2, &columns), false, ty(DataType::Decimal128(15, 2)).narrowed((100, 108)));
    let charge = arith(
        ArithOp::Mul,
        revenue(&columns).widen(Phys::I64),
        taxed.widen(Phys::I64),
        false,
        ty(DataType::Decimal128(38, 6)).narrowed((800_000_000, 118_800_000_000)),
    );
    assert_snapshot!(generated(&columns, &[revenue(&columns), charge]));
}

#[test]
fn q14_promotions_by_code() {
    let columns =
        [money((90_000, 11_000_000)), money((0, 10)), codes(&["ECONOMY", "PROMO BRUSHED", "PROMO PLATED"], 1, false)];
    let promotion = like(col(2, &columns).widen(Phys::Str), "PROMO%", false, false);
    let revenue = revenue(&columns);
    let zero = Expr::literal(Scalar::Int(0), revenue.ty.clone());
    let ty = revenue.ty.clone();
    let case = ExprKind::Case { branches: vec![(promotion, revenue)], otherwise: Some(zero.into()) };
    assert_snapshot!(generated(&columns, &[Expr { kind: case, ty }]));
}

#[test]
fn q22_country_code_of_a_string() {
    let columns = [texts(1, true)];
    let args = vec![col(0, &columns), int(1, DataType::Int64), int(2, DataType::Int64)];
    let country = call(Function::Substr, args, ty(DataType::Utf8));
    let list = ["13", "31", "23"].map(|s| Scalar::Str(s.into())).to_vec();
    assert_snapshot!(generated(&columns, &[in_list(country, list, false, false)]));
}

#[test]
fn dates_and_intervals() {
    let columns = [ints_within(DataType::Date32, (8_000, 10_600), 1, false)];
    let kind = ExprKind::AddInterval { input: col(0, &columns).into(), months: 3, days: -1, nanos: 0 };
    let later = Expr { kind, ty: ty(DataType::Date32) };
    let year = call(Function::DatePart, vec![text("year"), col(0, &columns)], ty(DataType::Int32));
    assert_snapshot!(generated(&columns, &[later, year]));
}

#[test]
fn predicates_test_strings_of_rows_that_pass_the_rest() {
    let columns = [ints_within(DataType::Int32, (1, 50), 1, false), texts(2, true)];
    let below = Expr::literal(Scalar::Int(24), columns[0].ty.clone());
    let both = expr(
        ExprKind::And(vec![
            compare(CompareOp::Lt, col(0, &columns), below),
            like(col(1, &columns), "%special%requests%", false, true),
        ]),
        DataType::Boolean,
    );
    assert_snapshot!(predicate(&columns, &both));
}

#[test]
fn checked_arithmetic_in_a_branch() {
    let columns = [ints(DataType::Int64, 1, true), ints(DataType::Int64, 2, true)];
    let quotient = arith(ArithOp::Div, col(0, &columns), col(1, &columns), true, columns[0].ty.clone());
    let when = compare(CompareOp::Gt, col(1, &columns), int(0, DataType::Int64));
    let case = ExprKind::Case { branches: vec![(when, quotient)], otherwise: Some(int(0, DataType::Int64).into()) };
    assert_snapshot!(generated(&columns, &[Expr { kind: case, ty: columns[0].ty.clone() }]));
}
