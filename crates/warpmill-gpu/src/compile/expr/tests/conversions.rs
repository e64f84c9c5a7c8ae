use arrow::datatypes::TimeUnit;

use super::*;

fn numbers() -> Vec<Column> {
    let mut columns = vec![bools(9, true)];
    let types = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Decimal128(9, 2),
        DataType::Decimal128(18, 0),
        DataType::Decimal128(38, 10),
    ];
    columns.extend(types.into_iter().enumerate().map(|(i, logical)| ints(logical, i as u64 + 1, true)));
    columns.push(floats(DataType::Float32, 20, true));
    columns.push(floats(DataType::Float64, 21, true));
    columns
}

#[test]
fn numbers_to_numbers() {
    let columns = numbers();
    let mut exprs = vec![];
    for (i, from) in columns.iter().enumerate() {
        for to in &columns {
            let exact = |c: &Column| matches!(c.ty.logical, DataType::Decimal128(..));
            let boolean = |c: &Column| c.ty.logical == DataType::Boolean;
            // Arrow has no conversion between truth values and decimals.
            if !(boolean(from) && exact(to) || exact(from) && boolean(to)) {
                exprs.push(cast(col(i, &columns), to.ty.logical.clone(), false));
                exprs.push(cast(col(i, &columns), to.ty.logical.clone(), true));
            }
        }
    }
    check(&columns, &exprs);
}

#[test]
fn proven_conversions() {
    let columns = [
        ints_within(DataType::Decimal128(15, 2), (-100_000, 2_000_000), 1, true),
        ints_within(DataType::Int64, (0, 1_000_000), 2, false),
        ints_within(DataType::Decimal128(38, 6), (-5_000_000_000_000, 5_000_000_000_000), 3, true),
    ];
    let to = |input: usize, logical: DataType, range| {
        let kind = ExprKind::Cast { input: col(input, &columns).into(), try_cast: false };
        Expr { kind, ty: ty(logical).narrowed(range) }
    };
    let exprs = [
        to(0, DataType::Decimal128(15, 4), (-10_000_000, 200_000_000)),
        to(0, DataType::Decimal128(20, 9), (-1_000_000_000_000, 20_000_000_000_000)),
        to(0, DataType::Decimal128(15, 1), (-10_001, 200_001)),
        to(0, DataType::Int64, (-1_001, 20_001)),
        to(1, DataType::Decimal128(38, 30), (0, 10i128.pow(36))),
        to(2, DataType::Decimal128(15, 2), (-500_000_001, 500_000_001)),
        to(2, DataType::Int32, (-5_000_001, 5_000_001)),
        to(1, DataType::Int32, (0, 1_000_000)),
        cast(col(2, &columns), DataType::Float64, false),
        cast(col(0, &columns), DataType::Float32, false),
    ];
    check(&columns, &exprs);
}

#[test]
fn times() {
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut columns =
        vec![ints(DataType::Date32, 1, true), ints(DataType::Int64, 2, true), ints(DataType::Int32, 3, true)];
    columns.extend([floats(DataType::Float64, 5, true), ints(DataType::Decimal128(20, 2), 6, true)]);
    columns.extend(units.map(|unit| ints(DataType::Timestamp(unit, None), 4, true)));
    columns.push(ints_within(DataType::Date64, (-5_000_000_000_000, 5_000_000_000_000), 7, true));
    let types: Vec<DataType> = columns.iter().map(|column| column.ty.logical.clone()).collect();
    let mut exprs = vec![];
    for (i, from) in types.iter().enumerate() {
        for to in &types {
            // Arrow has no conversion between dates and other numbers.
            let number = |t: &DataType| t.is_floating() || matches!(t, DataType::Decimal128(..));
            let days = |t: &DataType| matches!(t, DataType::Date32 | DataType::Date64);
            if !(number(from) && days(to) || days(from) && number(to)) {
                exprs.push(cast(col(i, &columns), to.clone(), false));
                exprs.push(cast(col(i, &columns), to.clone(), true));
            }
        }
    }
    check(&columns, &exprs);
}

#[test]
fn values_to_text() {
    let mut columns = numbers();
    columns.truncate(columns.len() - 2);
    columns.push(ints_within(DataType::Date32, (-719_528, 2_932_896), 3, true));
    for (i, unit) in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Nanosecond].into_iter().enumerate() {
        let second = [1, 1_000, 1_000_000_000][i];
        let range = (-8_000_000_000 * second, 9_000_000_000 * second);
        columns.push(ints_within(DataType::Timestamp(unit, None), range, 5, true));
    }
    let exprs: Vec<Expr> = (0..columns.len())
        .map(|i| {
            let wide =
                if matches!(columns[i].ty.logical, DataType::Timestamp(..)) { Phys::I64 } else { columns[i].ty.phys };
            cast(col(i, &columns).widen(wide), DataType::Utf8, false)
        })
        .collect();
    check(&columns, &exprs);
}

#[test]
fn floats_to_text_are_short_or_left_to_the_cpu() {
    let cents: Vec<f64> = (0..ROWS).map(|i| (i as f64 * 7919.0 - 800_000.0) / 100.0).collect();
    let column = |data, logical| Column { vector: Arc::new(Vector::new(data)), ty: ty(logical) };
    let columns = [
        column(Data::F32(cents.iter().map(|&v| v as f32).collect()), DataType::Float32),
        column(Data::F64(cents), DataType::Float64),
        floats(DataType::Float32, 3, true),
        floats(DataType::Float64, 4, true),
    ];
    check(&columns, &[0, 1].map(|i| cast(col(i, &columns), DataType::Utf8, false)));
    check_with_host(&columns, &[2, 3].map(|i| cast(col(i, &columns), DataType::Utf8, false)), 1);
}

const NUMBERS: [&str; 26] = [
    "0",
    "1",
    "-1",
    "+7",
    " 42 ",
    "\t8\n",
    "127",
    "128",
    "-129",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "",
    " ",
    "-",
    "+",
    "a",
    "1a",
    "--1",
    "1 2",
    "00012",
    "-0",
];

#[test]
fn text_to_integers() {
    let columns = [texts_of(&NUMBERS, 1, true)];
    let mut exprs = vec![];
    for to in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::UInt8, DataType::UInt64] {
        exprs.push(cast(col(0, &columns), to.clone(), false));
        exprs.push(cast(col(0, &columns), to, true));
    }
    check(&columns, &exprs);
}

#[test]
fn text_to_other_types() {
    let decimals = [
        "1.5",
        "-1.005",
        "1.004999",
        "0.015",
        ".5",
        "5.",
        "-.125",
        "123456789.99",
        " 7.25",
        "99999999.995",
        "0",
        "-0.004",
        "1e3",
        "abc",
        "1.2.3",
        "",
        ".",
        "12345678901234567890123456789012345678901",
        "000000000000000000000000000000000000000001.5",
    ];
    let floats = [
        "1",
        "1.5",
        "-2.25e3",
        "0.1",
        "1e22",
        "123456789012345",
        " 3.25 ",
        "-0",
        "16777217",
        "1e-7",
        "0.30000001192092896",
    ];
    let bools = [
        "t", "TRUE", "yes", "y", "on", "1", "f", "fals", "No", "off", "of", "0", "o", "maybe", "", " true ", "truex",
        "10",
    ];
    let dates = [
        "2020-02-29",
        "1992-1-1",
        "1998-12-1",
        "1995-1-17",
        "19950317",
        "2021-02-29",
        "2021-13-01",
        "2020-00-10",
        "0000-01-01",
        "9999-12-31",
        "",
        "2020",
        "2020/01/01",
        "2020-1-",
        "2020-1-1x",
        "abcd-01-01",
        "202001011",
    ];
    let times = [
        "2020-02-29",
        "2020-02-29T12:34:56",
        "2020-02-29 12:34:56.5",
        "1969-12-31 23:59:59.999999999",
        "2020-02-29t00:00:00Z",
        "1677-09-22 00:00:00",
        "2261-01-01 01:01:01.123",
        "2020-02-30 00:00:00",
        "2020-02-29 24:00:00",
        "2020-02-29x00:00:00",
        "short",
    ];
    let columns = [
        texts_of(&decimals, 1, true),
        texts_of(&floats, 2, true),
        texts_of(&bools, 3, true),
        texts_of(&dates, 4, true),
        texts_of(&times, 5, true),
    ];
    let pairs = [
        (0, DataType::Decimal128(10, 2)),
        (0, DataType::Decimal128(38, 2)),
        (0, DataType::Decimal128(12, 0)),
        (1, DataType::Float64),
        (1, DataType::Float32),
        (2, DataType::Boolean),
        (3, DataType::Date32),
        (4, DataType::Timestamp(TimeUnit::Nanosecond, None)),
        (4, DataType::Timestamp(TimeUnit::Second, None)),
    ];
    let exprs: Vec<Expr> = pairs
        .iter()
        .flat_map(|(i, to)| [false, true].map(|try_cast| cast(col(*i, &columns), to.clone(), try_cast)))
        .collect();
    check_with_host(&columns, &exprs, 2);
}

#[test]
fn texts_of_moments() {
    let texts = [
        "2020-02-29",
        "2020-02-29 12:34:56",
        "1969-12-31T23:59:59.9",
        "9999-12-31 23:59:59.123456",
        "2021-02-29",
        "2021-13-01 00:00:00",
        "2020-02-29 24:30:00",
        "2020-02-29 12:34:56.",
        "2020-02-29 12:34:56.1234567891",
        "2020-02-29 12:34:56+02",
        "2020-2-9",
        " 2020/02/09 7:5 ",
        "0000-01-01",
        "0044-03-15 (BC)",
        "-0043-03-15",
        "12020-02-29",
        "epoch",
        "Europe",
        "1677-09-21 00:12:43.2",
        "2020",
        "abcd-01-01",
        "",
    ];
    let columns = [
        texts_of(&texts, 1, true),
        ints_within(DataType::Date32, (-719_528 - 400, 2_932_896 + 400), 2, true),
        ints_within(DataType::Date32, (-10_000, 30_000), 3, true),
        ints_within(
            DataType::Timestamp(TimeUnit::Microsecond, None),
            (-60_000_000_000_000, 900_000_000_000_000),
            4,
            true,
        ),
        ints_within(DataType::Timestamp(TimeUnit::Nanosecond, None), (i64::MIN.into(), i64::MAX.into()), 5, true),
    ];
    let of_text = |to: DataType| {
        let functions = [Function::ReadMoment, Function::TryReadMoment];
        functions.map(|function| call(function, vec![col(0, &columns)], ty(to.clone()))).to_vec()
    };
    let timestamp = |unit| DataType::Timestamp(unit, None);
    let read = [DataType::Date32, timestamp(TimeUnit::Microsecond), timestamp(TimeUnit::Nanosecond)].map(of_text);
    // Most texts have forms that devices leave to the CPU.
    check_with_host(&columns, &read.concat(), 1);
    let write = |index: usize, phys: Phys| {
        call(Function::WriteMoment, vec![col(index, &columns).widen(phys)], ty(DataType::Utf8))
    };
    // A year before 1 or after 9999.
    check_with_host(&columns, &[write(1, Phys::I32)], 10);
    check(&columns, &[write(2, Phys::I32), write(3, Phys::I64), write(4, Phys::I64)]);
}
