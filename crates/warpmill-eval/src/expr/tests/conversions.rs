use arrow::array::Array;
use arrow::compute::{CastOptions, DatePart, cast_with_options, date_part};
use arrow::datatypes::TimeUnit;

use super::*;
use crate::expr::cast::bridge::{from_arrow, to_arrow};

fn same(actual: &Vector, expected: &dyn Array, ty: &ColType, what: &str) {
    let expected = from_arrow(expected, ty, Box::leak(Box::new(worker()))).unwrap();
    for i in 0..actual.len() {
        assert_eq!(actual.is_valid(i), expected.is_valid(i), "{what}: row {i}");
    }
    let show = |v: &Vector| {
        let values = crate::with_data!(&v.data, values => values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>());
        (0..v.len()).filter(|&i| v.is_valid(i)).map(|i| values[i].clone()).collect::<Vec<_>>()
    };
    assert_eq!(show(actual), show(&expected), "{what}");
}

/// Casts every row alone, so that one error does not hide the others, and all with TRY_CAST.
fn check(column: Arc<Vector>, from: &DataType, targets: &[DataType]) {
    for to in targets {
        let cast = |try_cast| expr(ExprKind::Cast { input: col(0, from.clone()).into(), try_cast }, to.clone());
        let target = if ty(to.clone()).phys == warpmill_ir::Phys::Str { DataType::Utf8 } else { to.clone() };
        for (rows, try_cast) in
            (0..column.len()).map(|i| (column.slice(i, 1), false)).chain([((*column).clone(), true)])
        {
            let array = to_arrow(&rows, &ty(from.clone())).unwrap();
            let options = CastOptions { safe: try_cast, ..Default::default() };
            let expected = cast_with_options(&array, &target, &options);
            let actual = eval(&cast(try_cast), &[Arc::new(rows.clone())]);
            let what = format!("{from} to {to} of {rows:?}");
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => same(&actual, &expected, &ty(to.clone()), &what),
                (Err(_), Err(_)) => {}
                (actual, expected) => panic!("{what}: {actual:?} but {expected:?}"),
            }
        }
    }
}

fn numbers() -> Vec<DataType> {
    use DataType::*;
    vec![
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(5, 2),
        Decimal128(15, 3),
        Decimal128(38, 10),
        Decimal128(9, 0),
        Utf8,
    ]
}

#[test]
fn numbers_convert_as_in_arrow() {
    let small = [Some(0i64), Some(1), Some(-1), Some(127), Some(128), None, Some(-32769), Some(99_999), Some(-150)];
    let large = [Some(i64::MAX), Some(i64::MIN), Some(1 << 40), Some(16_777_217), Some(9_007_199_254_740_993), None];
    let all: Vec<_> = small.iter().chain(&large).copied().collect();
    check(vector(&all), &DataType::Int64, &numbers());
    let narrow: Vec<_> = small.iter().map(|v| v.map(|v| v as i32)).collect();
    check(vector(&narrow), &DataType::Int32, &numbers());
    let cents: Vec<_> = small.iter().chain(&[Some(149), Some(151), Some(-149), Some(999_995)]).copied().collect();
    check(vector(&cents), &DataType::Decimal128(15, 2), &numbers());
    let wide: Vec<_> = all.iter().map(|v| v.map(|v| i128::from(v) * 1_000_003)).collect();
    check(vector(&wide), &DataType::Decimal128(38, 4), &numbers());
    let floats =
        [Some(0.0), Some(-1.9), Some(2.5), Some(1e10), Some(f64::NAN), Some(f64::INFINITY), None, Some(-0.125)];
    check(vector(&floats), &DataType::Float64, &numbers());
    check(vector(&[Some(true), None, Some(false)]), &DataType::Boolean, &[DataType::Int32, DataType::Utf8]);
}

#[test]
fn texts_and_times_convert_as_in_arrow() {
    let timestamp = |unit| DataType::Timestamp(unit, None);
    let targets = [
        DataType::Int32,
        DataType::Float64,
        DataType::Decimal128(10, 2),
        DataType::Date32,
        timestamp(TimeUnit::Nanosecond),
        DataType::Boolean,
    ];
    let values = [
        "1",
        "-2.555",
        "abc",
        "2024-02-29",
        "2024-02-30",
        "1999-12-31T23:59:59.5",
        "true",
        "",
        "1e3",
        "99999999999",
        " 7",
    ];
    let values: Vec<_> = values.iter().map(|v| Some(*v)).chain([None]).collect();
    check(texts(&values), &DataType::Utf8, &targets);
    let days = [Some(0i32), Some(-1), Some(19_000), None, Some(-200_000), Some(11_016)];
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let times: Vec<_> = units.map(timestamp).into();
    let targets: Vec<_> = times.iter().cloned().chain([DataType::Utf8, DataType::Date64]).collect();
    check(vector(&days), &DataType::Date32, &targets);
    let instants =
        [Some(0i64), Some(-1), Some(1_700_000_000_123_456), None, Some(-86_400_000_001), Some(951_782_400_000)];
    for unit in [TimeUnit::Millisecond, TimeUnit::Microsecond] {
        let targets: Vec<_> = times.iter().cloned().chain([DataType::Date32, DataType::Int64]).collect();
        check(vector(&instants), &timestamp(unit), &targets);
    }
    check(vector(&instants), &timestamp(TimeUnit::Microsecond), &[DataType::Utf8]);
    let error = expr(ExprKind::Cast { input: text("pear").into(), try_cast: false }, DataType::Int32);
    assert!(eval(&error, &[vector(&[Some(1i32)])]).unwrap_err().to_string().contains("pear"));
}

#[test]
fn date_fields_agree_with_arrow() {
    let fields = [
        ("year", DatePart::Year),
        ("quarter", DatePart::Quarter),
        ("MONTH", DatePart::Month),
        ("week", DatePart::Week),
        ("day", DatePart::Day),
        ("doy", DatePart::DayOfYear),
        ("dow", DatePart::DayOfWeekSunday0),
        ("isodow", DatePart::DayOfWeekMonday1),
        ("isoyear", DatePart::YearISO),
        ("hour", DatePart::Hour),
        ("minute", DatePart::Minute),
        ("second", DatePart::Second),
    ];
    // Every day of 800 years around 2000, and a few far away.
    let far = [-80_000_000, -12_699_423, -12_699_422, 80_000_000, -719_528, -719_469, -719_468];
    let days: Vec<_> = (-146_097..146_097).chain(far).map(Some).chain([None]).collect();
    let seconds: Vec<_> = (-3000i64..3000).map(|i| Some(i * 86_399_999_983 + 77)).chain([None]).collect();
    for (field, part) in fields {
        for (column, from) in [
            (vector::<i32>(&days), DataType::Date32),
            (vector::<i64>(&seconds), DataType::Timestamp(TimeUnit::Microsecond, None)),
        ] {
            let array = to_arrow(&column, &ty(from.clone())).unwrap();
            let call = call(Function::DatePart, vec![text(field), col(0, from)], DataType::Int32);
            let result = eval(&call, &[column]).unwrap();
            same(&result, &date_part(&array, part).unwrap(), &ty(DataType::Int32), field);
        }
    }
    let epoch = call(Function::DatePart, vec![text("epoch"), col(0, DataType::Date32)], DataType::Float64);
    assert_eq!(rows::<f64>(&eval(&epoch, &[vector(&[Some(2i32), None])]).unwrap()), [Some(172_800.0), None]);
}

#[test]
fn months_are_added_and_truncated_to() {
    let day = |s: &str| {
        let parsed = expr(ExprKind::Cast { input: text(s).into(), try_cast: false }, DataType::Date32);
        rows::<i32>(&eval(&parsed, &[vector(&[Some(1i32)])]).unwrap())[0].unwrap()
    };
    let add = |from: &str, months: i32, days: i32| {
        let input = col(0, DataType::Date32).into();
        let sum = expr(ExprKind::AddInterval { input, months, days, nanos: 0 }, DataType::Date32);
        rows::<i32>(&eval(&sum, &[vector(&[Some(day(from)), None])]).unwrap())
    };
    assert_eq!(add("2024-01-31", 1, 0), [Some(day("2024-02-29")), None]);
    assert_eq!(add("2023-03-31", -1, 1)[0], Some(day("2023-03-01")));
    assert_eq!(add("1996-02-29", 12, 0)[0], Some(day("1997-02-28")));
    assert_eq!(add("1998-12-01", 0, -90)[0], Some(day("1998-09-02")));
    assert_eq!(add("1994-11-30", 3, 0)[0], Some(day("1995-02-28")));
    let micro = || DataType::Timestamp(TimeUnit::Microsecond, None);
    let unit = 86_400_000_000i64;
    let at = |s: &str, rest: i64| i64::from(day(s)) * unit + rest;
    let kind = ExprKind::AddInterval { input: col(0, micro()).into(), months: 1, days: -1, nanos: 1_500 };
    let values = [Some(at("1969-12-31", 5)), None, Some(at("2000-01-30", 0))];
    let sum = rows::<i64>(&eval(&expr(kind, micro()), &[vector(&values)]).unwrap());
    assert_eq!(sum, [Some(at("1970-01-30", 6)), None, Some(at("2000-02-28", 1))]);
    let trunc = |field: &str, value: i64| {
        let kind = call(Function::DateTrunc, vec![text(field), col(0, micro())], micro());
        rows::<i64>(&eval(&kind, &[vector(&[Some(value)])]).unwrap())[0].unwrap()
    };
    let noon = at("1969-11-20", unit / 2 + 61_000_001);
    assert_eq!(trunc("year", noon), at("1969-01-01", 0));
    assert_eq!(trunc("quarter", noon), at("1969-10-01", 0));
    assert_eq!(trunc("Month", noon), at("1969-11-01", 0));
    assert_eq!(trunc("week", noon), at("1969-11-17", 0));
    assert_eq!(trunc("day", noon), at("1969-11-20", 0));
    assert_eq!(trunc("hour", noon), at("1969-11-20", unit / 2));
    assert_eq!(trunc("minute", noon), at("1969-11-20", unit / 2 + 60_000_000));
    assert_eq!(trunc("microsecond", noon), noon);
}

#[test]
fn texts_of_moments_are_duckdbs() {
    let some = [Some("2020-02-29"), None, Some("1990/1/2 3:4"), Some("0044-03-15 (BC)"), Some("epoch")];
    let read = |function, rows: &[Option<&str>], to: DataType| {
        eval(&call(function, vec![col(0, DataType::Utf8)], to), &[texts(rows)])
    };
    let micro = || DataType::Timestamp(TimeUnit::Microsecond, None);
    let dates = read(Function::ReadMoment, &some, DataType::Date32).unwrap();
    assert_eq!(rows::<i32>(&dates), [Some(18_321), None, Some(7_306), Some(-735_160), Some(0)]);
    let moments = read(Function::ReadMoment, &some, micro()).unwrap();
    let written = eval(&call(Function::WriteMoment, vec![col(0, micro())], DataType::Utf8), &[moments]).unwrap();
    let shown = ["2020-02-29 00:00:00", "1990-01-02 03:04:00", "0044-03-15 (BC) 00:00:00", "1970-01-01 00:00:00"];
    let expected = [Some(shown[0]), None, Some(shown[1]), Some(shown[2]), Some(shown[3])];
    assert_eq!(strings(&written), expected);
    // Other texts are errors or NULL; infinite and far values are refused.
    let wrong = [Some("2020-02-30"), None, Some("2020-01-01"), Some("")];
    let error = read(Function::ReadMoment, &wrong, DataType::Date32).unwrap_err();
    assert_eq!(error.to_string(), r#"cannot convert the text "2020-02-30" to DATE"#);
    let tried = read(Function::TryReadMoment, &wrong, micro()).unwrap();
    assert_eq!(rows::<i64>(&tried), [None, None, Some(1_577_836_800_000_000), None]);
    assert!(matches!(read(Function::TryReadMoment, &[Some("infinity")], micro()), Err(ExecError::Unsupported(_))));
    // Nanoseconds end in 2262.
    let nano = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert_eq!(rows::<i64>(&read(Function::TryReadMoment, &[Some("2262-04-12")], nano).unwrap()), [None]);
}
