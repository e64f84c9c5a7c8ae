//! `date_part`: fields of dates and timestamps.

use arrow::compute::DatePart;
use arrow::datatypes::TimeUnit;
use warpmill_ir::scalar::civil::{FAST, civil, civil_wide, days_from_civil, iso_week, weekday};
use warpmill_ir::{ColType, Phys};

use super::{Clock, arrow_part, like_input};
use crate::error::{ExecError, Result};
use crate::expr::call::Compute;
use crate::expr::cast::{units_per_second, widen};
use crate::expr::value::{Native, Value, map};
use crate::memory::Worker;
use crate::vector::Data;

/// `date_part(field, value)`.
#[derive(Debug)]
pub(in crate::expr) struct Part {
    field: Field,
    from: ColType,
    ty: ColType,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Field {
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    DayOfYear,
    /// Sunday is 0.
    DayOfWeek,
    /// Monday is 1.
    IsoDayOfWeek,
    Hour,
    Minute,
    Second,
    /// Seconds including the fraction, in parts of a second.
    Seconds(i64),
    Epoch,
}

impl Field {
    fn parse(name: &str) -> Option<Self> {
        let quote = |c| c == '\'' || c == '"';
        let bare = name.strip_prefix(quote).and_then(|n| n.strip_suffix(quote)).unwrap_or(name);
        Some(match bare.to_lowercase().as_str() {
            "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
            "isoyear" => Field::IsoYear,
            "qtr" | "quarter" => Field::Quarter,
            "mon" | "mons" | "month" | "months" => Field::Month,
            "w" | "week" | "weeks" => Field::Week,
            "d" | "day" | "days" => Field::Day,
            "doy" => Field::DayOfYear,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
            "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
            "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Field::Seconds(1_000),
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => {
                Field::Seconds(1_000_000)
            }
            "nanosecond" | "nanoseconds" => Field::Seconds(1_000_000_000),
            "epoch" => Field::Epoch,
            _ => return None,
        })
    }

    /// The same field for Arrow's kernel.
    fn arrow(self) -> Option<DatePart> {
        Some(match self {
            Field::Year => DatePart::Year,
            Field::IsoYear => DatePart::YearISO,
            Field::Quarter => DatePart::Quarter,
            Field::Month => DatePart::Month,
            Field::Week => DatePart::Week,
            Field::Day => DatePart::Day,
            Field::DayOfYear => DatePart::DayOfYear,
            Field::DayOfWeek => DatePart::DayOfWeekSunday0,
            Field::IsoDayOfWeek => DatePart::DayOfWeekMonday1,
            Field::Hour => DatePart::Hour,
            Field::Minute => DatePart::Minute,
            Field::Second => DatePart::Second,
            Field::Seconds(_) | Field::Epoch => return None,
        })
    }

    fn is_of_day(self) -> bool {
        matches!(self, Field::Hour | Field::Minute | Field::Second | Field::Seconds(_))
    }
}

impl Part {
    pub fn new(field: &str, from: &ColType, ty: &ColType) -> Result<Self> {
        let unsupported = || ExecError::Unsupported(format!("date_part '{field}' of {}", from.logical));
        let part = Field::parse(field).ok_or_else(unsupported)?;
        if Clock::of(&from.logical).is_none() && part.arrow().is_none() {
            return Err(unsupported());
        }
        Ok(Self { field: part, from: from.clone(), ty: ty.clone() })
    }

    fn ints(&self, data: Vec<i32>) -> Data {
        match self.ty.phys {
            Phys::I32 => i32::wrap(data),
            Phys::I64 => i64::wrap(data.into_iter().map(i64::from).collect()),
            _ => i128::wrap(data.into_iter().map(i128::from).collect()),
        }
    }

    /// Calendar fields of days since 1970-01-01.
    fn of_days(&self, days: &[i32]) -> Vec<i32> {
        let fast = days.iter().fold(true, |fast, day| fast & (*day >= *FAST.start()) & (*day <= *FAST.end()));
        let wide = |f: &dyn Fn(i64) -> i64| days.iter().map(|&d| f(d.into()) as i32).collect();
        match self.field {
            Field::Year if fast => days.iter().map(|&d| civil(d).0).collect(),
            Field::Month if fast => days.iter().map(|&d| civil(d).1 as i32).collect(),
            Field::Day if fast => days.iter().map(|&d| civil(d).2 as i32).collect(),
            Field::Quarter if fast => days.iter().map(|&d| (civil(d).1 as i32 + 2) / 3).collect(),
            Field::Year => wide(&|d| civil_wide(d).0),
            Field::Month => wide(&|d| civil_wide(d).1.into()),
            Field::Day => wide(&|d| civil_wide(d).2.into()),
            Field::Quarter => wide(&|d| (i64::from(civil_wide(d).1) + 2) / 3),
            Field::DayOfYear => wide(&|d| d - days_from_civil(civil_wide(d).0, 1, 1) + 1),
            Field::Week => wide(&|d| iso_week(d).1),
            Field::IsoYear => wide(&|d| iso_week(d).0),
            Field::DayOfWeek => wide(&weekday),
            Field::IsoDayOfWeek => wide(&|d| (weekday(d) + 6) % 7 + 1),
            field => unreachable!("{field:?} is not a field of the calendar"),
        }
    }

    /// Time-of-day fields of timestamps with `per_second` units per second.
    fn of_time(&self, values: &[i64], per_second: i64) -> Vec<i64> {
        let of = |f: &dyn Fn(i64) -> i64| values.iter().map(|&v| f(v)).collect();
        match self.field {
            Field::Hour => of(&|v| v.div_euclid(3600 * per_second).rem_euclid(24)),
            Field::Minute => of(&|v| v.div_euclid(60 * per_second).rem_euclid(60)),
            Field::Second => of(&|v| v.div_euclid(per_second).rem_euclid(60)),
            Field::Seconds(parts) => of(&|v| {
                let of_minute = v.rem_euclid(60 * per_second);
                if parts >= per_second { of_minute * (parts / per_second) } else { of_minute / (per_second / parts) }
            }),
            field => unreachable!("{field:?} is not a field of the time of day"),
        }
    }
}

/// Whole days of timestamps: a separate loop for each unit, since division by a constant compiles to a multiplication.
fn days_of(values: &[i64], unit: TimeUnit) -> Vec<i32> {
    const DAY: i64 = 86_400;
    match unit {
        TimeUnit::Second => values.iter().map(|v| v.div_euclid(DAY) as i32).collect(),
        TimeUnit::Millisecond => values.iter().map(|v| v.div_euclid(DAY * 1_000) as i32).collect(),
        TimeUnit::Microsecond => values.iter().map(|v| v.div_euclid(DAY * 1_000_000) as i32).collect(),
        TimeUnit::Nanosecond => values.iter().map(|v| v.div_euclid(DAY * 1_000_000_000) as i32).collect(),
    }
}

impl Compute for Part {
    fn eval(&self, args: &[Value], _len: usize, worker: &mut Worker) -> Result<Value> {
        let input = &args[0];
        let Some(clock) = Clock::of(&self.from.logical) else {
            let part = self.field.arrow().expect("checked when prepared");
            return arrow_part(input, &self.from, part, &self.ty, worker);
        };
        if self.field == Field::Epoch {
            let wide = widen(Phys::I64, input.clone());
            return Ok(match clock {
                Clock::Days => map::<i64, f64>(&wide, |v| v as f64 * 86_400.0),
                Clock::Units(unit) => {
                    let per_second = units_per_second(unit) as f64;
                    map::<i64, f64>(&wide, |v| v as f64 / per_second)
                }
            });
        }
        let data = match clock {
            Clock::Days if self.field.is_of_day() => self.ints(vec![0; input.vector().len()]),
            Clock::Days => {
                let days = widen(Phys::I32, input.clone());
                self.ints(self.of_days(i32::values(&days.vector().data)))
            }
            Clock::Units(unit) => {
                let wide = widen(Phys::I64, input.clone());
                let values = i64::values(&wide.vector().data);
                match self.field.is_of_day() {
                    false => self.ints(self.of_days(&days_of(values, unit))),
                    true => {
                        let fields = self.of_time(values, units_per_second(unit) as i64);
                        match self.ty.phys {
                            Phys::I32 => i32::wrap(fields.into_iter().map(|v| v as i32).collect()),
                            Phys::I64 => i64::wrap(fields),
                            _ => i128::wrap(fields.into_iter().map(i128::from).collect()),
                        }
                    }
                }
            }
        };
        Ok(like_input(input, data))
    }

    fn fallible(&self) -> bool {
        false
    }

    fn heavy(&self) -> bool {
        !matches!(self.field, Field::Year | Field::Month | Field::Day | Field::Quarter)
    }
}
