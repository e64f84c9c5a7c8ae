use warpmill_format::Dictionary;
use warpmill_ir::Phys;

use super::*;

/// A column of codes and the same strings, with the type of the codes.
pub fn column(words: &[&str], rows: &[Option<&str>]) -> (Arc<Vector>, ColType) {
    let dictionary = Arc::new(Dictionary::from_sorted(words.iter().copied()));
    let codes: Vec<Option<u32>> = rows.iter().map(|row| row.map(|s| dictionary.code(s).unwrap())).collect();
    let ty = ColType { phys: Phys::Code, dictionary: Some(dictionary), ..ty(DataType::Utf8) };
    (vector(&codes), ty)
}

const WORDS: [&str; 4] = ["AIR", "MAIL", "RAIL", "SHIP"];
const ROWS: [Option<&str>; 6] = [Some("MAIL"), None, Some("AIR"), Some("SHIP"), Some("MAIL"), Some("RAIL")];

#[test]
fn predicates_become_code_sets() {
    let (codes, ty) = column(&WORDS, &ROWS);
    let word = || Expr::column(0, ty.clone()).widen(Phys::Str);
    let set = |e: &Expr| {
        let prepared = PreparedExpr::new(e).unwrap();
        prepared.as_code_set().map(|(column, set)| (column, (0..set.len()).filter(|&i| set.get(i)).collect::<Vec<_>>()))
    };
    let like = |negated| {
        let kind = ExprKind::Like {
            input: word().into(),
            pattern: "%AI%".into(),
            escape: None,
            case_insensitive: false,
            negated,
        };
        expr(kind, DataType::Boolean)
    };
    assert_eq!(set(&like(false)), Some((0, vec![0, 1, 2])));
    assert_eq!(select(&like(false), std::slice::from_ref(&codes)), [0, 2, 4, 5]);
    assert_eq!(set(&like(true)), Some((0, vec![3])));
    assert_eq!(select(&like(true), std::slice::from_ref(&codes)), [3]);
    let equal = compare(CompareOp::Eq, word(), text("MAIL"));
    assert_eq!(set(&equal), Some((0, vec![1])));
    let code = Expr::literal(Scalar::Int(2), ty.clone());
    let above = compare(CompareOp::Ge, Expr::column(0, ty.clone()), code);
    assert_eq!(set(&above), Some((0, vec![2, 3])));
    assert_eq!(select(&above, std::slice::from_ref(&codes)), [3, 5]);
    let null_too =
        expr(ExprKind::Or(vec![equal, expr(ExprKind::IsNull(word().into()), DataType::Boolean)]), DataType::Boolean);
    assert_eq!(set(&null_too), None);
    assert_eq!(select(&null_too, std::slice::from_ref(&codes)), [0, 1, 4]);
    assert_eq!(set(&compare(CompareOp::Eq, word(), col(1, DataType::Utf8))), None);
}

#[test]
fn values_are_looked_up_by_code() {
    let (codes, ty) = column(&WORDS, &ROWS);
    let word = || Expr::column(0, ty.clone()).widen(Phys::Str);
    let columns = [codes, vector(&[Some(1i64), Some(2), Some(3), Some(4), Some(5), Some(6)])];
    assert_eq!(strings(&eval(&word(), &columns).unwrap()), ROWS);
    let lower = call(Function::Lower, vec![word()], DataType::Utf8);
    let expected: Vec<_> = ROWS.iter().map(|row| row.map(str::to_lowercase)).collect();
    assert_eq!(strings(&eval(&lower, &columns).unwrap()), expected.iter().map(|v| v.as_deref()).collect::<Vec<_>>());
    let known = call(Function::Coalesce, vec![lower.clone(), text("none")], DataType::Utf8);
    let found = strings(&eval(&known, &columns).unwrap());
    assert_eq!((found[0], found[1]), (Some("mail"), Some("none")));
    let null_if = call(Function::NullIf, vec![lower, text("mail")], DataType::Utf8);
    let found = strings(&eval(&null_if, &columns).unwrap());
    assert_eq!((found[0], found[1], found[2]), (None, None, Some("air")));
    let branches = vec![(compare(CompareOp::Eq, word(), text("MAIL")), col(1, DataType::Int64))];
    let otherwise = Some(Box::new(int(0, DataType::Int64)));
    let sum = eval(&expr(ExprKind::Case { branches, otherwise }, DataType::Int64), &columns).unwrap();
    assert_eq!(rows::<i64>(&sum), [Some(1), Some(0), Some(0), Some(0), Some(5), Some(0)]);
}

#[test]
fn errors_of_entries_that_no_row_has_do_not_count() {
    let (codes, ty) = column(&["1", "2", "x"], &[Some("2"), None, Some("1")]);
    let input = Expr::column(0, ty).widen(Phys::Str).into();
    let number = expr(ExprKind::Cast { input, try_cast: false }, DataType::Int32);
    assert_eq!(rows::<i32>(&eval(&number, &[codes]).unwrap()), [Some(2), None, Some(1)]);
    let (codes, ty) = column(&[], &[None, None]);
    let upper = call(Function::Upper, vec![Expr::column(0, ty).widen(Phys::Str)], DataType::Utf8);
    assert_eq!(strings(&eval(&upper, &[codes]).unwrap()), [None, None]);
}
