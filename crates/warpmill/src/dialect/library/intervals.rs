//! Products and quotients of intervals and fractional numbers: fractions of months and days carry over to days of 24 hours.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, Typed, typed};

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("interval_scaled", types, |call| scaled(call, |x, by| x * by)),
        Own::new("interval_divided", types, |call| {
            if (0..call.rows).any(|row| call.all(row) && call.float(1, row) == Some(0.0)) {
                return exec_err!("division of an INTERVAL by zero");
            }
            scaled(call, |x, by| x / by)
        }),
    ]
}

fn types(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Interval, Is::Number], DataType::Interval(IntervalUnit::MonthDayNano))
}

fn scaled(call: &Call, op: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let intervals = call.args[0].as_primitive::<IntervalMonthDayNanoType>();
    let row = |row: usize| match call.float(1, row).filter(|_| intervals.is_valid(row)) {
        None => Ok(None),
        Some(by) => match parts(intervals.value(row), |x| op(x, by)) {
            Some(interval) => Ok(Some(interval)),
            None => exec_err!("Overflow in multiplication of INTERVAL"),
        },
    };
    Ok(Arc::new((0..call.rows).map(row).collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// An interval with each part transformed by `op`, as in PostgreSQL.
fn parts(interval: IntervalMonthDayNano, op: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    const SECONDS: f64 = 86_400.0;
    // To six digits.
    let rounded = |x: f64| (x * 1e6).round_ties_even() / 1e6;
    let (months, days) = (op(interval.months.into()), op(interval.days.into()));
    let days_of_month = rounded(months.fract() * 30.0);
    let mut whole_days = days.trunc() + days_of_month.trunc();
    let mut seconds = rounded((days.fract() + days_of_month.fract()) * SECONDS);
    if seconds.abs() >= SECONDS {
        whole_days += (seconds / SECONDS).trunc();
        seconds %= SECONDS;
    }
    let micros = (op((interval.nanoseconds / 1_000) as f64) + seconds * 1e6).round_ties_even();
    let held = |x: f64| (x.abs() <= f64::from(i32::MAX)).then_some(x as i32);
    let nanos = micros * 1_000.0;
    (nanos.abs() < i64::MAX as f64).then_some(())?;
    Some(IntervalMonthDayNano::new(held(months.trunc())?, held(whole_days)?, (micros as i64).checked_mul(1_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::text::of_interval;

    #[test]
    fn fractions_go_on_to_smaller_units() {
        let of = |months, days, micros: i64| IntervalMonthDayNano::new(months, days, micros * 1_000);
        for (interval, by, product) in [
            (of(14, 2, 2_000_000), 0.5, "7 months 1 day 00:00:01"),
            (of(7, 0, 0), 0.5, "3 months 15 days"),
            (of(-1, 0, 0), 0.33, "-9 days -21:36:00"),
            (of(2, 0, 0), 0.999_999_9, "1 month 29 days 23:59:59.4816"),
            (of(0, 100, 0), 0.29, "29 days"),
            (of(0, 0, 1), 1.5, "00:00:00.000002"),
            (of(1, 10, 0), 2.5, "2 months 40 days"),
        ] {
            assert_eq!(parts(interval, |x| x * by).map(of_interval).as_deref(), Some(product), "{by}");
        }
        assert_eq!(parts(of(0, 1, 0), |x| x * f64::NAN), None);
        assert_eq!(parts(of(1, 0, 0), |x| x * 1e300), None);
    }
}
