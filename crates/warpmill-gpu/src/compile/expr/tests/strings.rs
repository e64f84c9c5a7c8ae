use super::*;

fn columns() -> Vec<Column> {
    vec![
        texts(1, true),
        texts(2, false),
        ints_within(DataType::Int64, (i64::MIN.into(), i64::MAX.into()), 3, true),
        ints_within(DataType::Int32, (-5, 12), 4, true),
        texts_of(&["a", "b", "", "é", "本", "%", "x", "AB"], 5, true),
        texts_of(&["PROMO", "promo bRUSHed", "Xab", "abcABCabc", "ab_c%d", "", "zz"], 6, true),
    ]
}

#[test]
fn patterns() {
    let columns = columns();
    let patterns = [
        "",
        "%",
        "%%",
        "a",
        "a%",
        "%a",
        "%a%",
        "a%c",
        "%a%b%",
        "%ab%ab%",
        "a%b%c",
        "_",
        "__",
        "_%",
        "%_",
        "a_c",
        "%_b%",
        "é",
        "_é%",
        "%本語%",
        "😀_a%",
        "100\\%",
        "a\\_c",
        "%special%requests%",
        "PROMO%",
        "%a_",
        "a\\",
        "_____",
    ];
    let mut exprs = vec![];
    for (i, pattern) in patterns.iter().enumerate() {
        exprs.push(like(col(0, &columns), pattern, false, i % 2 == 0));
        exprs.push(like(col(1, &columns), pattern, false, i % 3 == 0));
    }
    for pattern in ["a%", "%AB%c", "promo%", "A_c", "", "%"] {
        exprs.push(like(col(5, &columns), pattern, true, pattern.len() == 1));
    }
    check(&columns, &exprs);
    // Letters beyond ASCII have cases, too, so the CPU decides.
    check_with_host(&columns, &[like(col(0, &columns), "%a%", true, false)], 2);
}

#[test]
fn functions() {
    let columns = columns();
    let text_of = |function, args: Vec<Expr>| call(function, args, ty(DataType::Utf8));
    let number_of = |function, args: Vec<Expr>, phys| {
        let logical = if phys == Phys::I32 { DataType::Int32 } else { DataType::Int64 };
        call(function, args, ty(logical))
    };
    let small = || col(3, &columns).widen(Phys::I64);
    let long = |value| int(value, DataType::Int64);
    let mut exprs = vec![];
    for s in [0, 1, 5] {
        let s = || col(s, &columns);
        for function in [Function::CharLength, Function::OctetLength] {
            exprs.push(number_of(function, vec![s()], Phys::I32));
        }
        exprs.push(number_of(Function::StrPos, vec![s(), col(4, &columns)], Phys::I64));
        exprs.push(number_of(Function::StrPos, vec![s(), text("")], Phys::I32));
        for function in [Function::StartsWith, Function::EndsWith, Function::Contains] {
            exprs.push(call(function, vec![s(), col(4, &columns)], ty(DataType::Boolean)));
            exprs.push(call(function, vec![s(), text("ab")], ty(DataType::Boolean)));
        }
        exprs.push(text_of(Function::Substr, vec![s(), small()]));
        exprs.push(text_of(Function::Substr, vec![s(), col(2, &columns)]));
        exprs.push(text_of(Function::Substr, vec![s(), small(), small()]));
        exprs.push(text_of(Function::Substr, vec![s(), col(2, &columns), col(2, &columns)]));
        exprs.push(text_of(Function::Substr, vec![s(), long(1), long(2)]));
        for function in [Function::Left, Function::Right] {
            exprs.push(text_of(function, vec![s(), small()]));
            exprs.push(text_of(function, vec![s(), col(2, &columns)]));
        }
        for function in [Function::Trim, Function::LTrim, Function::RTrim] {
            exprs.push(text_of(function, vec![s()]));
            exprs.push(text_of(function, vec![s(), col(4, &columns)]));
            exprs.push(text_of(function, vec![s(), text("aé日😀cト")]));
        }
        exprs.push(text_of(Function::Concat, vec![s(), text("-"), col(4, &columns), col(0, &columns)]));
        exprs.push(text_of(Function::Replace, vec![s(), col(4, &columns), text("<>")]));
        exprs.push(text_of(Function::Replace, vec![s(), text("a"), col(4, &columns)]));
        exprs.push(text_of(Function::Replace, vec![s(), text(""), text("x")]));
    }
    let nothing = text_of(Function::Substr, vec![col(0, &columns), null(&ty(DataType::Int64))]);
    let concat = text_of(Function::Concat, vec![col(0, &columns), null(&ty(DataType::Utf8))]);
    exprs.extend([nothing, concat]);
    for function in [Function::Upper, Function::Lower, Function::SimpleUpper, Function::SimpleLower] {
        exprs.push(text_of(function, vec![col(5, &columns)]));
        // A substring of a computed string.
        let joined = text_of(Function::Concat, vec![col(5, &columns), text("Tail")]);
        exprs.push(text_of(Function::Substr, vec![text_of(function, vec![joined]), long(2), long(4)]));
    }
    check(&columns, &exprs);
    let letters = text_of(Function::Upper, vec![col(0, &columns)]);
    check_with_host(&columns, &[letters], 2);
}
