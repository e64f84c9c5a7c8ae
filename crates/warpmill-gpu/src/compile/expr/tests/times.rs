use arrow::datatypes::TimeUnit;

use super::*;

const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

fn columns() -> Vec<Column> {
    let mut columns = vec![
        ints_within(DataType::Date32, (-10_000, 30_000), 1, true),
        ints_within(DataType::Date32, (i32::MIN.into(), i32::MAX.into()), 2, true),
    ];
    for (i, unit) in UNITS.into_iter().enumerate() {
        let logical = DataType::Timestamp(unit, None);
        let second = [1, 1_000, 1_000_000, 1_000_000_000][i];
        columns.push(ints_within(logical.clone(), (-4_000_000_000 * second, 9_000_000_000 * second), 3, true));
        columns.push(ints_within(logical, (i64::MIN.into(), i64::MAX.into()), 4, true));
    }
    columns
}

/// The column, in the representation of its logical type.
fn time(index: usize, columns: &[Column]) -> Expr {
    let phys = if columns[index].ty.logical == DataType::Date32 { Phys::I32 } else { Phys::I64 };
    col(index, columns).widen(phys)
}

#[test]
fn fields() {
    let columns = columns();
    let fields = [
        "year",
        "isoyear",
        "quarter",
        "month",
        "week",
        "day",
        "doy",
        "dow",
        "isodow",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
        "nanosecond",
        "epoch",
    ];
    let mut exprs = vec![];
    for field in fields {
        for index in 0..columns.len() {
            // Nanoseconds of a minute need 64 bits.
            let logical = match field {
                "epoch" => DataType::Float64,
                "nanosecond" | "microsecond" => DataType::Int64,
                _ => DataType::Int32,
            };
            exprs.push(call(Function::DatePart, vec![text(field), time(index, &columns)], ty(logical)));
        }
    }
    check(&columns, &exprs);
}

#[test]
fn truncation_and_intervals() {
    let columns = columns();
    let mut exprs = vec![];
    let periods = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    for (index, column) in columns.iter().enumerate() {
        let natural = ty(column.ty.logical.clone());
        for (i, period) in periods.into_iter().enumerate() {
            if column.ty.logical != DataType::Date32 || i >= 5 {
                exprs.push(call(Function::DateTrunc, vec![text(period), time(index, &columns)], natural.clone()));
            }
        }
        let intervals =
            [(0, 90, 0), (1, 0, 0), (-1, 3, 0), (-13, -1, 7), (12, 0, -1_500_000_001), (0, -1, 86_400_000_000_000)];
        for (months, days, nanos) in intervals {
            let kind = ExprKind::AddInterval { input: time(index, &columns).into(), months, days, nanos };
            exprs.push(Expr { kind, ty: natural.clone() });
        }
    }
    // A date becomes a timestamp.
    let hour = ExprKind::AddInterval { input: time(0, &columns).into(), months: 1, days: 0, nanos: 3_600_000_000_000 };
    exprs.push(expr(hour, DataType::Timestamp(TimeUnit::Nanosecond, None)));
    check(&columns, &exprs);
}
