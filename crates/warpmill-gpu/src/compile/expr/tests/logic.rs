use super::*;

fn quotient(columns: &[Column]) -> Expr {
    arith(ArithOp::Div, col(3, columns), col(4, columns), true, columns[3].ty.clone())
}

fn number(columns: &[Column], value: i128) -> Expr {
    Expr::literal(Scalar::Int(value), columns[3].ty.clone())
}

fn columns() -> Vec<Column> {
    vec![
        bools(1, true),
        bools(2, true),
        bools(3, false),
        ints_within(DataType::Int64, (-20, 20), 4, true),
        ints_within(DataType::Int64, (-2, 2), 5, true),
        texts(6, true),
    ]
}

#[test]
fn three_valued_logic() {
    let columns = columns();
    let bool = |kind| expr(kind, DataType::Boolean);
    let [a, b, c] = [0, 1, 2].map(|i| col(i, &columns));
    let unknown = || null(&ty(DataType::Boolean));
    // Fails if the divisor is zero, unless an earlier term decides.
    let fallible = || compare(CompareOp::Gt, quotient(&columns), number(&columns, 3));
    let like = || like(col(5, &columns), "%a%b%", false, false);
    let lists = [
        vec![a.clone(), b.clone()],
        vec![a.clone(), c.clone()],
        vec![c.clone(), Expr::bool(true)],
        vec![a.clone(), unknown(), c.clone()],
        vec![a.clone(), fallible()],
        vec![fallible(), a.clone(), b.clone()],
        vec![c.clone(), fallible(), b.clone()],
        vec![a.clone(), like(), fallible(), b.clone()],
        vec![c.clone(), like()],
    ];
    let mut exprs = vec![];
    for list in lists {
        exprs.push(bool(ExprKind::And(list.clone())));
        exprs.push(bool(ExprKind::Or(list.clone())));
        exprs.push(bool(ExprKind::Not(Box::new(bool(ExprKind::And(list.clone()))))));
        let negated = list.into_iter().map(|e| bool(ExprKind::Not(e.into()))).collect();
        exprs.push(bool(ExprKind::And(vec![bool(ExprKind::Or(negated)), a.clone()])));
    }
    for kind in [ExprKind::IsNull, ExprKind::IsNotNull] {
        exprs.push(bool(kind(a.clone().into())));
        exprs.push(bool(kind(c.clone().into())));
        exprs.push(bool(kind(quotient(&columns).into())));
        exprs.push(bool(kind(unknown().into())));
    }
    check(&columns, &exprs);
    check_predicates(&columns, &exprs);
}

#[test]
fn branches_are_evaluated_where_they_are_taken() {
    let columns = columns();
    let bool = |kind| expr(kind, DataType::Boolean);
    let [a, b] = [0, 1].map(|i| col(i, &columns));
    let divisor = compare(CompareOp::Ne, col(4, &columns), number(&columns, 0));
    let case = |branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>| {
        let ty = branches[0].1.ty.clone();
        Expr { kind: ExprKind::Case { branches, otherwise: otherwise.map(Box::new) }, ty }
    };
    let number = |value| number(&columns, value);
    let exprs = [
        case(vec![(a.clone(), number(1)), (b.clone(), col(3, &columns))], None),
        case(vec![(a.clone(), number(1)), (b.clone(), number(2))], Some(number(3))),
        case(vec![(divisor.clone(), quotient(&columns))], Some(number(0))),
        case(vec![(divisor.clone(), quotient(&columns))], None),
        case(vec![(a.clone(), number(7)), (divisor.clone(), quotient(&columns))], Some(col(3, &columns))),
        case(vec![(a.clone(), quotient(&columns)), (b.clone(), quotient(&columns))], Some(quotient(&columns))),
        case(
            vec![
                (bool(ExprKind::And(vec![a.clone(), divisor.clone()])), quotient(&columns)),
                (compare(CompareOp::Gt, quotient(&columns), number(0)), number(5)),
            ],
            None,
        ),
        case(vec![(a.clone(), col(5, &columns)), (b.clone(), text("b"))], Some(text("neither"))),
        call(Function::Coalesce, vec![col(3, &columns), quotient(&columns), number(9)], columns[3].ty.clone()),
        call(Function::Coalesce, vec![quotient(&columns), col(3, &columns)], columns[3].ty.clone()),
        call(Function::NullIf, vec![quotient(&columns), number(1)], columns[3].ty.clone()),
        bool(ExprKind::And(vec![divisor, compare(CompareOp::Eq, quotient(&columns), number(2))])),
    ];
    check(&columns, &exprs);
}
