use warpmill_ir::Phys;

use super::dictionaries::column;
use super::*;
use crate::expr::recode;

const MODES: [&str; 3] = ["air", "mail", "süd"];
const FLAGS: [&str; 2] = ["A", "R"];

/// Every mode with every flag, NULLs among them.
fn columns() -> (Vec<Arc<Vector>>, Vec<Expr>) {
    let (modes, flags): (Vec<_>, Vec<_>) =
        (0..12).map(|i| (MODES.get(i % 4).copied(), FLAGS.get(i / 4).copied())).unzip();
    let (mode, flag) = (column(&MODES, &modes), column(&FLAGS, &flags));
    let inputs = vec![Expr::column(0, mode.1), Expr::column(1, flag.1)];
    (vec![mode.0, flag.0], inputs)
}

fn texts_of(codes: &Vector, ty: &ColType) -> Vec<Option<String>> {
    let dictionary = ty.dictionary.as_ref().unwrap();
    rows::<u32>(codes).into_iter().map(|code| code.map(|code| dictionary.get(code).to_owned())).collect()
}

#[test]
fn codes_are_those_of_the_strings() {
    let (columns, inputs) = columns();
    let [mode, flag] = [0, 1].map(|i| inputs[i].clone().widen(Phys::Str));
    let text_of = |function, args| call(function, args, DataType::Utf8);
    let either = ExprKind::Case {
        branches: vec![(compare(CompareOp::Eq, mode.clone(), text("mail")), flag.clone())],
        otherwise: Some(mode.clone().into()),
    };
    for source in [
        text_of(Function::Upper, vec![mode.clone()]),
        text_of(Function::Concat, vec![mode.clone(), text("/"), flag.clone()]),
        text_of(Function::Coalesce, vec![flag.clone(), mode.clone()]),
        text_of(Function::NullIf, vec![mode.clone(), text("air")]),
        text_of(Function::Substr, vec![mode, int(1, DataType::Int64), int(1, DataType::Int64)]),
        expr(either, DataType::Utf8),
    ] {
        let recoded = recode(source.clone(), inputs.clone()).unwrap();
        assert_eq!(recoded.ty.phys, Phys::Code);
        let expected = strings(&eval(&source, &columns).unwrap());
        let found = texts_of(&eval(&recoded, &columns).unwrap(), &recoded.ty);
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{source}");
        let back = strings(&eval(&recoded.clone().widen(Phys::Str), &columns).unwrap());
        assert_eq!(back, expected, "{source}");
        assert!(
            eval(&recoded, &columns.iter().map(|c| Arc::new(c.slice(0, 0))).collect::<Vec<_>>()).unwrap().is_empty()
        );
    }
}

#[test]
fn integers_with_bounds_are_inputs_too() {
    let (columns, inputs) = columns();
    let numbers: Vec<Option<i64>> = (0..12).map(|i| (i % 5 != 0).then_some(i - 7)).collect();
    let days: Vec<Option<i32>> = (0..12).map(|i| (i != 3).then_some(i * 30)).collect();
    let bounded = |index, ty: ColType, range| Expr::column(index, ColType { range: Some(range), ..ty });
    let number = bounded(1, ty(DataType::Int64), (-7, 4));
    let day = bounded(2, ty(DataType::Date32), (0, 330));
    let text_of = |e: &Expr| expr(ExprKind::Cast { input: e.clone().into(), try_cast: false }, DataType::Utf8);
    let (mode, slash) = (inputs[0].clone().widen(Phys::Str), text("/"));
    let source = call(Function::Concat, vec![mode, slash, text_of(&number), text_of(&day)], DataType::Utf8);
    let columns = [columns[0].clone(), vector(&numbers), vector(&days)];
    let recoded = recode(source.clone(), vec![inputs[0].clone(), number, day.clone()]).unwrap();
    let expected = strings(&eval(&source, &columns).unwrap());
    let found = texts_of(&eval(&recoded, &columns).unwrap(), &recoded.ty);
    assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    let unbounded = Expr::column(0, ty(DataType::Int64));
    assert_eq!(recode(text_of(&unbounded), vec![unbounded]), None);
}

#[test]
fn nulls_are_where_some_combination_has_one() {
    let (_, mut inputs) = columns();
    let upper = |inputs: &[Expr]| {
        let mode = inputs[0].clone().widen(Phys::Str);
        let source = call(Function::Upper, vec![mode], DataType::Utf8);
        recode(source, vec![inputs[0].clone()]).unwrap().ty
    };
    assert!(upper(&inputs).nullable);
    inputs[0].ty.nullable = false;
    assert!(!upper(&inputs).nullable);
}

#[test]
fn nothing_is_recoded_where_an_entry_is_an_error() {
    let (_, inputs) = columns();
    let mode = inputs[0].clone().widen(Phys::Str);
    let negative =
        call(Function::Substr, vec![mode, int(1, DataType::Int64), int(-1, DataType::Int64)], DataType::Utf8);
    assert_eq!(recode(negative, vec![inputs[0].clone()]), None);
}
