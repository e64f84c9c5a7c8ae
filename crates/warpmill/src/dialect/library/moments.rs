//! Functions of dates, moments and intervals.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, IntervalMonthDayNanoArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, exec_err};
use warpmill_ir::scalar::civil::{days_from_civil, days_of_month};

use super::calendar::{DAYS, MONTHS};
use super::own::{Call, Is, Own, Typed, moment_like, typed, whole_like};
use super::parts::{Civil, DAY, add_months};
use crate::dialect::types::{TIMESTAMP, timestamptz};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Boolean, Date32, Float64, Int64, Utf8};
    vec![
        Own::new(
            "date_diff",
            |t| typed(t, &[Is::Text, Is::Moment, Is::Moment], Int64),
            |call| between(call, boundaries),
        ),
        Own::new(
            "date_sub",
            |t| typed(t, &[Is::Text, Is::Moment, Is::Moment], Int64),
            |call| between(call, whole_parts),
        ),
        Own::new(
            "moment_part",
            |t| typed(t, &[Is::Text, Is::Moment], Int64),
            |call| {
                call.integers(|row| match Option::zip(call.text(0, row), call.moment(1, row)) {
                    Some((part, micros)) if is_finite(micros) => part_of(part, micros).map(Some),
                    _ => Ok(None),
                })
            },
        ),
        Own::new(
            "interval_part",
            |t| typed(t, &[Is::Text, Is::Interval], Int64),
            |call| {
                call.integers(|row| match Option::zip(call.text(0, row), interval(call, 1, row)) {
                    Some((part, interval)) => part_of_interval(part, interval).map(Some),
                    None => Ok(None),
                })
            },
        ),
        Own::new(
            "interval_epoch",
            |t| typed(t, &[Is::Interval], Float64),
            |call| {
                call.floats(|row| {
                    Ok(interval(call, 0, row).map(|i| {
                        let years = f64::from(i.months / 12) * 365.25 * 86_400.0;
                        years
                            + (f64::from(i.months % 12) * 30.0 + f64::from(i.days)) * 86_400.0
                            + (i.nanoseconds / 1000) as f64 / 1e6
                    }))
                })
            },
        ),
        Own::new(
            "moment_trunc",
            |t| typed(t, &[Is::Text, Is::Moment], TIMESTAMP),
            |call| {
                moments(call, |row| match Option::zip(call.text(0, row), call.moment(1, row)) {
                    Some((part, micros)) if is_finite(micros) => truncated(part, micros).map(Some),
                    Some((_, micros)) => Ok(Some(micros)),
                    None => Ok(None),
                })
            },
        ),
        Own::new(
            "age",
            |t| typed(t, &[Is::Moment; 2], INTERVAL),
            |call| {
                intervals(call, |row| Ok(Option::zip(call.moment(0, row), call.moment(1, row)).map(|(a, b)| age(a, b))))
            },
        ),
        Own::new("make_timestamp", make_timestamp_types, make_timestamp),
        Own::new(
            "make_timestamp_ms",
            |t| typed(t, &[Is::Whole], TIMESTAMP),
            |call| moments(call, |row| call.integer(0, row).map(|ms| scaled(ms, 1000)).transpose()),
        ),
        Own::new(
            "make_time",
            |t| typed(t, &[Is::Whole, Is::Whole, Is::Number], DataType::Time64(TimeUnit::Microsecond)),
            |call| {
                let rows =
                    (0..call.rows).map(|row| match (call.integer(0, row), call.integer(1, row), call.float(2, row)) {
                        (Some(h), Some(m), Some(s)) => time(h, m, s).map(Some),
                        _ => Ok(None),
                    });
                Ok(Arc::new(rows.collect::<Result<Time64MicrosecondArray>>()?))
            },
        ),
        Own::new("epoch_ms", epoch_types, |call| epoch(call, 1000)),
        Own::new("epoch_us", epoch_types, |call| epoch(call, 1)),
        Own::new(
            "epoch_ns",
            |t| typed(t, &[Is::Moment], Int64),
            |call| {
                call.integers(|row| match call.moment(0, row) {
                    Some(micros) => match micros.checked_mul(1000) {
                        Some(nanos) => Ok(Some(nanos)),
                        None => exec_err!("Could not convert the moment to nanoseconds"),
                    },
                    None => Ok(None),
                })
            },
        ),
        Own::new(
            "last_day",
            |t| typed(t, &[Is::Moment], Date32),
            |call| {
                dates(call, |row| {
                    Ok(call.moment(0, row).filter(|m| is_finite(*m)).map(|micros| {
                        let at = Civil::of(micros);
                        days_from_civil(at.year, at.month, days_of_month(at.year, at.month)) as i32
                    }))
                })
            },
        ),
        Own::new(
            "dayname",
            |t| typed(t, &[Is::Moment], Utf8),
            |call| call.texts(|row| Ok(finite(call, row).map(|at| DAYS[at.weekday() as usize].to_string()))),
        ),
        Own::new(
            "monthname",
            |t| typed(t, &[Is::Moment], Utf8),
            |call| call.texts(|row| Ok(finite(call, row).map(|at| MONTHS[at.month as usize - 1].to_string()))),
        ),
        Own::new(
            "julian",
            |t| typed(t, &[Is::Moment], Float64),
            |call| {
                call.floats(|row| {
                    Ok(finite(call, row).map(|at| (at.days + 2_440_588) as f64 + at.time() as f64 / DAY as f64))
                })
            },
        ),
        Own::new(
            "is_finite_moment",
            |t| typed(t, &[Is::Moment], Boolean),
            |call| call.bools(|row| Ok(call.moment(0, row).map(is_finite))),
        ),
        Own::new("time_bucket", bucket_types, time_bucket),
        Own::new(
            "interval_times",
            |t| typed(t, &[Is::Interval, Is::Whole], INTERVAL),
            |call| {
                intervals(call, |row| match Option::zip(interval(call, 0, row), call.integer(1, row)) {
                    None => Ok(None),
                    Some((i, by)) => {
                        let small = i32::try_from(by).ok();
                        let parts = small.and_then(|by| Some((i.months.checked_mul(by)?, i.days.checked_mul(by)?)));
                        match (parts, i.nanoseconds.checked_mul(by)) {
                            (Some((months, days)), Some(nanos)) => {
                                Ok(Some(IntervalMonthDayNano::new(months, days, nanos)))
                            }
                            _ => exec_err!("Overflow in multiplication of INTERVAL"),
                        }
                    }
                })
            },
        ),
        Own::new("to_millennia", counted, |call| whole(call, |n| months(n, 12_000))),
        Own::new("to_centuries", counted, |call| whole(call, |n| months(n, 1200))),
        Own::new("to_decades", counted, |call| whole(call, |n| months(n, 120))),
        Own::new("to_years", counted, |call| whole(call, |n| months(n, 12))),
        Own::new("to_quarters", counted, |call| whole(call, |n| months(n, 3))),
        Own::new("to_months", counted, |call| whole(call, |n| months(n, 1))),
        Own::new("to_weeks", counted, |call| whole(call, |n| days(n, 7))),
        Own::new("to_days", counted, |call| whole(call, |n| days(n, 1))),
        Own::new("to_hours", counted, |call| whole(call, |n| nanos(n, 3_600_000_000_000))),
        Own::new("to_minutes", counted, |call| whole(call, |n| nanos(n, 60_000_000_000))),
        Own::new("to_microseconds", counted, |call| whole(call, |n| nanos(n, 1000))),
        Own::new("to_seconds", |t| typed(t, &[Is::Number], INTERVAL), |call| of_float(call, 1e6)),
        Own::new("to_milliseconds", |t| typed(t, &[Is::Number], INTERVAL), |call| of_float(call, 1e3)),
    ]
}

/// Whether a timestamp is finite.
fn is_finite(micros: i64) -> bool {
    micros != i64::MAX && micros != -i64::MAX
}

fn finite(call: &Call, row: usize) -> Option<Civil> {
    call.moment(0, row).filter(|micros| is_finite(*micros)).map(Civil::of)
}

fn interval(call: &Call, arg: usize, row: usize) -> Option<IntervalMonthDayNano> {
    let array = &call.args[arg];
    array.is_valid(row).then(|| array.as_primitive::<IntervalMonthDayNanoType>().value(row))
}

fn moments(call: &Call, f: impl Fn(usize) -> Result<Option<i64>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..call.rows).map(f).collect::<Result<TimestampMicrosecondArray>>()?))
}

fn dates(call: &Call, f: impl Fn(usize) -> Result<Option<i32>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..call.rows).map(f).collect::<Result<Date32Array>>()?))
}

fn intervals(call: &Call, f: impl Fn(usize) -> Result<Option<IntervalMonthDayNano>>) -> Result<ArrayRef> {
    Ok(Arc::new((0..call.rows).map(f).collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn counted(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Whole], INTERVAL)
}

fn whole(call: &Call, f: fn(i64) -> Option<IntervalMonthDayNano>) -> Result<ArrayRef> {
    intervals(call, |row| match call.integer(0, row) {
        None => Ok(None),
        Some(count) => match f(count) {
            Some(interval) => Ok(Some(interval)),
            None => exec_err!("Interval value {count} out of range in {}", call.name),
        },
    })
}

fn months(count: i64, by: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(count.checked_mul(by)?.try_into().ok()?, 0, 0))
}

fn days(count: i64, by: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(0, count.checked_mul(by)?.try_into().ok()?, 0))
}

fn nanos(count: i64, by: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(0, 0, count.checked_mul(by)?))
}

fn of_float(call: &Call, by: f64) -> Result<ArrayRef> {
    intervals(call, |row| match call.float(0, row) {
        None => Ok(None),
        Some(count) => {
            let micros = (count * by).round();
            match micros.abs() < 9.2e15 {
                true => Ok(Some(IntervalMonthDayNano::new(0, 0, micros as i64 * 1000))),
                false => exec_err!("Interval value {count} out of range in {}", call.name),
            }
        }
    })
}

fn between(call: &Call, f: fn(&str, i64, i64) -> Result<i64>) -> Result<ArrayRef> {
    call.integers(|row| match (call.text(0, row), call.moment(1, row), call.moment(2, row)) {
        (Some(part), Some(from), Some(to)) if is_finite(from) && is_finite(to) => f(part, from, to).map(Some),
        _ => Ok(None),
    })
}

/// A part's name without its plural and other spellings.
fn canonical(part: &str) -> String {
    let part = part.to_ascii_lowercase();
    match part.as_str() {
        "years" | "y" | "yr" | "yrs" => "year",
        "months" | "mon" | "mons" => "month",
        "days" | "d" | "dayofmonth" => "day",
        "hours" | "h" | "hr" | "hrs" => "hour",
        "minutes" | "m" | "min" | "mins" => "minute",
        "seconds" | "s" | "sec" | "secs" => "second",
        "milliseconds" | "ms" | "msec" | "msecs" => "millisecond",
        "microseconds" | "us" | "usec" | "usecs" => "microsecond",
        "weeks" | "w" | "weekofyear" => "week",
        "quarters" => "quarter",
        "decades" | "dec" | "decs" => "decade",
        "centuries" | "cent" | "c" => "century",
        "millennia" | "mil" | "mils" | "millenium" => "millennium",
        "dow" | "weekday" => "dayofweek",
        "doy" => "dayofyear",
        other => other,
    }
    .to_string()
}

fn unknown<T>(part: &str) -> Result<T> {
    exec_err!("\"{part}\" is not a part of a moment")
}

/// Number of boundaries of a part between two timestamps.
fn boundaries(part: &str, from: i64, to: i64) -> Result<i64> {
    let (a, b) = (Civil::of(from), Civil::of(to));
    let by = |micros: i64| to.div_euclid(micros) - from.div_euclid(micros);
    Ok(match canonical(part).as_str() {
        "year" => b.year - a.year,
        "isoyear" => b.iso_year() - a.iso_year(),
        "month" => b.months() - a.months(),
        "quarter" => b.months().div_euclid(3) - a.months().div_euclid(3),
        "decade" => b.year / 10 - a.year / 10,
        "century" => b.year / 100 - a.year / 100,
        "millennium" => b.year / 1000 - a.year / 1000,
        // Seven days each, on whatever weekday they begin.
        "week" => (b.days - a.days) / 7,
        "day" | "dayofweek" | "isodow" | "dayofyear" | "julian" => b.days - a.days,
        "hour" => by(3_600_000_000),
        "minute" => by(60_000_000),
        "second" | "epoch" => by(1_000_000),
        "millisecond" => by(1000),
        "microsecond" => match to.checked_sub(from) {
            Some(micros) => micros,
            None => return exec_err!("the difference of two moments is out of range"),
        },
        _ => return unknown(part),
    })
}

/// Number of whole parts between two timestamps.
fn whole_parts(part: &str, from: i64, to: i64) -> Result<i64> {
    let Some(micros) = to.checked_sub(from) else { return exec_err!("the difference of two moments is out of range") };
    let in_months = || {
        let (from, to, sign) = if from <= to { (from, to, 1) } else { (to, from, -1) };
        let (a, b) = (Civil::of(from), Civil::of(to));
        let mut count = b.months() - a.months();
        // The last day of a month counts as any later day that the month lacks.
        let last = b.day == days_of_month(b.year, b.month) && a.day > b.day;
        let day = if last { b.day } else { a.day };
        if count > 0 && (b.day, b.time()) < (day, a.time()) {
            count -= 1;
        }
        sign * count
    };
    Ok(match canonical(part).as_str() {
        "year" | "isoyear" => in_months() / 12,
        "month" => in_months(),
        "quarter" => in_months() / 3,
        "decade" => in_months() / 120,
        "century" => in_months() / 1200,
        "millennium" => in_months() / 12_000,
        "week" => micros / (7 * DAY),
        "day" | "dayofweek" | "isodow" | "dayofyear" | "julian" => micros / DAY,
        "hour" => micros / 3_600_000_000,
        "minute" => micros / 60_000_000,
        "second" | "epoch" => micros / 1_000_000,
        "millisecond" => micros / 1000,
        "microsecond" => micros,
        _ => return unknown(part),
    })
}

fn part_of(part: &str, micros: i64) -> Result<i64> {
    let at = Civil::of(micros);
    Ok(match canonical(part).as_str() {
        "year" => at.year,
        "month" => at.month.into(),
        "day" => at.day.into(),
        "decade" => at.year / 10,
        "century" if at.year > 0 => (at.year - 1) / 100 + 1,
        "century" => at.year / 100 - 1,
        "millennium" if at.year > 0 => (at.year - 1) / 1000 + 1,
        "millennium" => at.year / 1000 - 1,
        "quarter" => i64::from(at.month - 1) / 3 + 1,
        "dayofweek" => at.weekday(),
        "isodow" => {
            if at.weekday() == 0 {
                7
            } else {
                at.weekday()
            }
        }
        "week" => at.iso_week(),
        "isoyear" => at.iso_year(),
        "dayofyear" => at.day_of_year().into(),
        "yearweek" => at.iso_year() * 100 + if at.iso_year() < 0 { -at.iso_week() } else { at.iso_week() },
        "era" => i64::from(at.year > 0),
        "hour" => at.hour,
        "minute" => at.minute,
        "second" => at.second,
        "millisecond" => at.second * 1000 + at.micros / 1000,
        "microsecond" => at.second * 1_000_000 + at.micros,
        "timezone" | "timezone_hour" | "timezone_minute" => 0,
        _ => return unknown(part),
    })
}

fn part_of_interval(part: &str, i: IntervalMonthDayNano) -> Result<i64> {
    let micros = i.nanoseconds / 1000;
    let years = i64::from(i.months / 12);
    Ok(match canonical(part).as_str() {
        "year" => years,
        "month" => (i.months % 12).into(),
        "day" => i.days.into(),
        "decade" => years / 10,
        "century" => years / 100,
        "millennium" => years / 1000,
        "quarter" => i64::from(i.months % 12) / 3 + 1,
        "hour" => micros / 3_600_000_000,
        "minute" => micros % 3_600_000_000 / 60_000_000,
        "second" => micros % 60_000_000 / 1_000_000,
        "millisecond" => micros % 60_000_000 / 1000,
        "microsecond" => micros % 60_000_000,
        _ => return exec_err!("\"{part}\" is not a part of an interval"),
    })
}

/// The parts that `date_trunc` of programs has not.
fn truncated(part: &str, micros: i64) -> Result<i64> {
    let at = Civil::of(micros);
    let year = |year: i64| days_from_civil(year, 1, 1) * DAY;
    let down = |unit: i64| micros.div_euclid(unit) * unit;
    Ok(match canonical(part).as_str() {
        "decade" => year(at.year / 10 * 10),
        "century" => year(at.year / 100 * 100),
        "millennium" => year(at.year / 1000 * 1000),
        "year" => year(at.year),
        "quarter" => days_from_civil(at.year, (at.month - 1) / 3 * 3 + 1, 1) * DAY,
        "month" => days_from_civil(at.year, at.month, 1) * DAY,
        "week" | "yearweek" => (at.days - (at.days + 3).rem_euclid(7)) * DAY,
        "isoyear" => {
            let first = days_from_civil(at.iso_year(), 1, 4);
            (first - (first + 3).rem_euclid(7)) * DAY
        }
        "day" | "dayofweek" | "isodow" | "dayofyear" | "julian" => at.days * DAY,
        "hour" => down(3_600_000_000),
        "minute" => down(60_000_000),
        "second" | "epoch" => down(1_000_000),
        "millisecond" => down(1000),
        "microsecond" => micros,
        _ => return unknown(part),
    })
}

/// The difference between two timestamps in years, months, days and time.
fn age(a: i64, b: i64) -> IntervalMonthDayNano {
    let sign = if a < b { -1 } else { 1 };
    let (late, early) = if a < b { (Civil::of(b), Civil::of(a)) } else { (Civil::of(a), Civil::of(b)) };
    let mut time = late.time() - early.time();
    let mut days = i64::from(late.day) - i64::from(early.day);
    let mut months = late.months() - early.months();
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    // Days of the month of the earlier timestamp.
    while days < 0 {
        days += i64::from(days_of_month(early.year, early.month));
        months -= 1;
    }
    IntervalMonthDayNano::new((sign * months) as i32, (sign * days) as i32, sign * time * 1000)
}

fn make_timestamp_types(types: &[DataType]) -> Option<Typed> {
    let parts = [Is::Whole, Is::Whole, Is::Whole, Is::Whole, Is::Whole, Is::Number];
    typed(types, &[Is::Whole], TIMESTAMP).or_else(|| typed(types, &parts, TIMESTAMP))
}

fn make_timestamp(call: &Call) -> Result<ArrayRef> {
    moments(call, |row| {
        if !call.all(row) {
            return Ok(None);
        }
        if call.args.len() == 1 {
            return Ok(call.integer(0, row));
        }
        let of = |i| call.integer(i, row).unwrap_or_default();
        let (year, month, day) = (of(0), of(1), of(2));
        let in_range = (-290_000..=294_000).contains(&year) && (1..=12).contains(&month) && day >= 1;
        if !in_range || day > i64::from(days_of_month(year, month as u32)) {
            return exec_err!("Date out of range: {year}-{month}-{day}");
        }
        let time = time(of(3), of(4), call.float(5, row).unwrap_or_default())?;
        Ok(Some(days_from_civil(year, month as u32, day as u32) * DAY + time))
    })
}

fn time(hour: i64, minute: i64, second: f64) -> Result<i64> {
    let fits = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..60.0).contains(&second);
    match fits {
        true => Ok((hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64),
        false => exec_err!("Time out of range: {hour}:{minute}:{second}"),
    }
}

fn scaled(count: i64, by: i64) -> Result<i64> {
    match count.checked_mul(by).filter(|micros| is_finite(*micros)) {
        Some(micros) => Ok(micros),
        None => exec_err!("Could not convert {count} to TIMESTAMP"),
    }
}

/// The number of a timestamp, or the timestamp of a number.
fn epoch_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [ty] if moment_like(ty) => Some((vec![TIMESTAMP], DataType::Int64)),
        [ty] if whole_like(ty) => Some((vec![DataType::Int64], TIMESTAMP)),
        _ => None,
    }
}

fn epoch(call: &Call, unit: i64) -> Result<ArrayRef> {
    match call.args[0].data_type() {
        DataType::Int64 => moments(call, |row| call.integer(0, row).map(|count| scaled(count, unit)).transpose()),
        _ => call.integers(|row| Ok(call.moment(0, row).map(|micros| rounded(micros, unit)))),
    }
}

/// Microseconds in units of `unit`, rounded half away from zero.
fn rounded(micros: i64, unit: i64) -> i64 {
    micros.saturating_add(micros.signum() * (unit / 2)) / unit
}

/// Buckets of dates are dates.
fn bucket_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [DataType::Interval(_), DataType::Date32] => Some((vec![INTERVAL, DataType::Date32], DataType::Date32)),
        [DataType::Interval(_), DataType::Timestamp(_, Some(_))] => {
            Some((vec![INTERVAL, timestamptz()], timestamptz()))
        }
        types => typed(types, &[Is::Interval, Is::Moment], TIMESTAMP),
    }
}

fn time_bucket(call: &Call) -> Result<ArrayRef> {
    let bucket = |row: usize, micros: i64| -> Result<Option<i64>> {
        let Some(width) = interval(call, 0, row) else { return Ok(None) };
        if !is_finite(micros) {
            return Ok(Some(micros));
        }
        let plain = i128::from(width.days) * i128::from(DAY) + i128::from(width.nanoseconds / 1000);
        match (width.months, plain) {
            (0, plain) if plain > 0 => {
                // A Monday: 2000-01-03.
                let origin = i128::from(days_from_civil(2000, 1, 3) * DAY);
                Ok(i64::try_from((i128::from(micros) - origin).div_euclid(plain) * plain + origin).ok())
            }
            (months @ 1.., 0) => {
                let origin = 2000 * 12;
                let at = Civil::of(micros).months() - origin;
                Ok(Some(add_months(
                    days_from_civil(2000, 1, 1) * DAY,
                    at.div_euclid(months.into()) * i64::from(months),
                )))
            }
            (_, plain) if width.months != 0 && plain != 0 => {
                exec_err!("Month intervals cannot have day or time component")
            }
            _ => exec_err!("Period must be greater than 0"),
        }
    };
    match call.args[1].data_type() {
        DataType::Date32 => dates(call, |row| {
            let Some(days) = call.date(1, row) else { return Ok(None) };
            Ok(bucket(row, i64::from(days) * DAY)?.map(|micros| micros.div_euclid(DAY) as i32))
        }),
        ty => {
            let moments = call.args[1].as_primitive::<TimestampMicrosecondType>();
            let rows = (0..call.rows)
                .map(|row| if moments.is_valid(row) { bucket(row, moments.value(row)) } else { Ok(None) });
            let rows = rows.collect::<Result<TimestampMicrosecondArray>>()?;
            Ok(if matches!(ty, DataType::Timestamp(_, Some(_))) {
                Arc::new(rows.with_timezone("UTC"))
            } else {
                Arc::new(rows)
            })
        }
    }
}
