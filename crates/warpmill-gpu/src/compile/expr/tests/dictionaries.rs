use super::*;
use warpmill_eval::expr::recode;

fn words() -> Vec<String> {
    (0..90).map(|i| format!("{} word {i:02}", if i % 3 == 0 { "PROMO" } else { "plain" })).collect()
}

#[test]
fn expressions_of_one_dictionary_column_are_tables() {
    let words = words();
    let mut many: Vec<&str> = words.iter().map(String::as_str).collect();
    many.sort_unstable();
    for words in [&["12", "13", "27", "MAIL", "Ähre", "ship"][..], &many] {
        for nullable in [false, true] {
            let columns = [codes(words, 1, nullable), texts(2, true), ints_within(DataType::Int64, (0, 99), 3, true)];
            let code = || col(0, &columns);
            let word = || code().widen(Phys::Str);
            let text_of = |function, args| call(function, args, ty(DataType::Utf8));
            let bool = |kind| expr(kind, DataType::Boolean);
            let upper = || text_of(Function::Upper, vec![word()]);
            let literal = |value| Expr::literal(Scalar::Int(value), columns[0].ty.clone());
            let list = ["13", "MAIL", "plain word 01"].map(|s| Scalar::Str(s.into())).to_vec();
            let exprs = [
                code(),
                word(),
                upper(),
                like(word(), "PROMO%", false, false),
                like(word(), "%ä%", true, true),
                compare(CompareOp::Eq, word(), text("MAIL")),
                compare(CompareOp::Lt, code(), literal(3)),
                in_list(word(), list.clone(), false, false),
                in_list(word(), list, true, true),
                text_of(Function::Substr, vec![word(), int(1, DataType::Int64), int(2, DataType::Int64)]),
                call(Function::CharLength, vec![word()], ty(DataType::Int32)),
                cast(word(), DataType::Int32, true),
                cast(word(), DataType::Int32, false),
                cast(cast(word(), DataType::Int64, true), DataType::Float64, false),
                text_of(Function::Coalesce, vec![upper(), text("none")]),
                text_of(Function::NullIf, vec![upper(), text("MAIL")]),
                call(Function::RegexpLike, vec![word(), text("^[0-9]+$")], ty(DataType::Boolean)),
                text_of(Function::RegexpReplace, vec![word(), text("[aA]+"), text("<&>")]),
                bool(ExprKind::Or(vec![
                    compare(CompareOp::Eq, word(), text("MAIL")),
                    bool(ExprKind::IsNull(word().into())),
                ])),
                bool(ExprKind::IsNull(code().into())),
                // With more than one column, the parts are tables.
                compare(CompareOp::Gt, upper(), col(1, &columns)),
                text_of(Function::Concat, vec![word(), text("/"), col(1, &columns)]),
                expr(
                    ExprKind::Case {
                        branches: vec![(like(word(), "%M%", false, false), col(2, &columns).widen(Phys::I64))],
                        otherwise: Some(int(0, DataType::Int64).into()),
                    },
                    DataType::Int64,
                ),
            ];
            check(&columns, &exprs);
        }
    }
}

#[test]
fn a_kernel_does_not_depend_on_the_entries_of_a_dictionary() {
    let text = |words: &[&str], pattern: &str| {
        let columns = [codes(words, 1, true)];
        kernel(&columns, &[like(col(0, &columns).widen(Phys::Str), pattern, false, false)], Ask::Value).0.text
    };
    assert_eq!(text(&["a", "b"], "a%"), text(&["ab", "bc", "cd"], "%d"));
}

#[test]
fn codes_of_one_dictionary_compare_and_blend_as_codes() {
    let a = codes(&["AIR", "MAIL", "RAIL", "SHIP"], 1, true);
    let vector = codes(&["AIR", "MAIL", "RAIL", "SHIP"], 2, true).vector;
    let columns = [a.clone(), Column { vector, ty: a.ty.clone() }, bools(3, true)];
    let [x, y, when] = [0, 1, 2].map(|i| col(i, &columns));
    let mail = Expr::literal(Scalar::Int(1), a.ty.clone());
    let of = |function, args| call(function, args, a.ty.clone());
    let mut exprs: Vec<Expr> = COMPARES.iter().map(|&op| compare(op, x.clone(), y.clone())).collect();
    exprs.extend(COMPARES.iter().map(|&op| compare(op, x.clone(), mail.clone())));
    for function in [Function::Greatest, Function::Least, Function::Coalesce, Function::NullIf] {
        exprs.push(of(function, vec![x.clone(), y.clone()]));
        exprs.push(of(function, vec![x.clone(), mail.clone()]));
    }
    let case = ExprKind::Case { branches: vec![(when, x)], otherwise: Some(y.into()) };
    let case = Expr { kind: case, ty: a.ty };
    exprs.extend([case.clone().widen(Phys::Str), like(case.widen(Phys::Str), "%AI%", false, false)]);
    check(&columns, &exprs);
}

#[test]
fn codes_of_combinations_of_codes_are_looked_up() {
    for nullable in [false, true] {
        let few = codes(&["A", "N", "R"], 1, nullable);
        let modes = codes(&["AIR", "MAIL", "RAIL", "SHIP"], 2, nullable);
        let number = ints_within(DataType::Int64, (-3, 9), 4, nullable);
        let day = ints_within(DataType::Date32, (100, 140), 5, nullable);
        let columns = [few, modes, bools(3, true), number, day];
        let inputs: Vec<Expr> = [0, 1, 3, 4]
            .into_iter()
            .map(|i| {
                let column = col(i, &columns);
                Expr { ty: ColType { nullable, ..column.ty.clone() }, ..column }
            })
            .collect();
        let [few, mode] = [0, 1].map(|i| inputs[i].clone().widen(Phys::Str));
        let text_of = |function, args| call(function, args, ty(DataType::Utf8));
        let [number, day] = [2, 3].map(|i| cast(Expr::column(i, inputs[i].ty.clone()), DataType::Utf8, false));
        let sources = [
            text_of(Function::Concat, vec![few.clone(), number, text(" "), day]),
            text_of(Function::Lower, vec![mode.clone()]),
            text_of(Function::Concat, vec![few.clone(), text("/"), mode.clone()]),
            text_of(Function::Coalesce, vec![mode.clone(), few.clone()]),
            text_of(Function::NullIf, vec![mode, text("AIR")]),
        ];
        let mut exprs = vec![];
        for source in sources {
            let recoded = recode(source, inputs.clone()).unwrap();
            let ty = recoded.ty.clone();
            let first = Expr::literal(Scalar::Int(0), ty.clone());
            let case =
                ExprKind::Case { branches: vec![(col(2, &columns), recoded.clone())], otherwise: Some(first.into()) };
            exprs.extend([Expr { kind: case, ty }, recoded.clone().widen(Phys::Str), recoded]);
        }
        check(&columns, &exprs);
    }
}
