//! Dates and timestamps: fields, truncation, intervals.

use arrow::compute::{DatePart, date_part};
use arrow::datatypes::{DataType, TimeUnit};
use warpmill_ir::scalar::civil;
use warpmill_ir::{ColType, Phys};

use super::arith::is_set;
use super::call::{Compute, all_valid};
use super::cast::{bridge, units_per_second, widen};
use super::value::{Native, Value};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::{Data, Vector};

mod part;
mod texts;

pub(super) use part::Part;
pub(super) use texts::{Read, Write};

const NANOS: i128 = 1_000_000_000;

/// Unit of a date or timestamp, by units per day.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Clock {
    Days,
    Units(TimeUnit),
}

impl Clock {
    /// The clock of a date or timestamp without a time zone (UTC counts as none).
    fn of(logical: &DataType) -> Option<Self> {
        match logical {
            DataType::Date32 => Some(Clock::Days),
            DataType::Date64 => Some(Clock::Units(TimeUnit::Millisecond)),
            DataType::Timestamp(unit, None) => Some(Clock::Units(*unit)),
            DataType::Timestamp(unit, Some(zone)) if matches!(&**zone, "UTC" | "+00:00" | "Z" | "+00") => {
                Some(Clock::Units(*unit))
            }
            _ => None,
        }
    }

    fn units_per_day(self) -> i64 {
        match self {
            Clock::Days => 1,
            Clock::Units(unit) => 86_400 * units_per_second(unit) as i64,
        }
    }
}

/// `f` of every value as 64-bit integers, into representation `phys`; `None` where a valid row has no result.
fn convert(
    input: &Value,
    phys: Phys,
    valid: Option<&warpmill_format::Bitmap>,
    f: impl Fn(i64) -> Option<i64>,
) -> Option<Data> {
    let wide = widen(Phys::I64, input.clone());
    let values = i64::values(&wide.vector().data);
    let mut failed = false;
    let results = values.iter().enumerate().map(|(i, &value)| match f(value) {
        Some(result) => result,
        None => {
            failed |= is_set(valid, i);
            0
        }
    });
    let data = match phys {
        Phys::I32 => {
            let results: Vec<i64> = results.collect();
            let out: Vec<i32> = results.iter().map(|&v| v as i32).collect();
            let lost = |i: usize| i64::from(out[i]) != results[i] && is_set(valid, i);
            failed |= (0..out.len()).any(lost);
            i32::wrap(out)
        }
        Phys::I128 => i128::wrap(results.map(i128::from).collect()),
        _ => i64::wrap(results.collect()),
    };
    (!failed).then_some(data)
}

fn like_input(input: &Value, data: Data) -> Value {
    let vector = Vector { data, validity: input.vector().validity.clone() };
    match input {
        Value::Rows(_) => Value::rows(vector),
        Value::Const(_) => Value::Const(vector.into()),
    }
}

/// A date or timestamp plus a constant interval.
#[derive(Debug)]
pub(super) struct AddInterval {
    clock: Clock,
    phys: Phys,
    months: i32,
    days: i32,
    nanos: i64,
}

impl AddInterval {
    pub fn new(ty: &ColType, months: i32, days: i32, nanos: i64) -> Result<Self> {
        let clock = Clock::of(&ty.logical)
            .ok_or_else(|| ExecError::Unsupported(format!("an interval added to {}", ty.logical)))?;
        Ok(Self { clock, phys: ty.phys, months, days, nanos })
    }
}

impl Compute for AddInterval {
    fn eval(&self, args: &[Value], _len: usize, _worker: &mut Worker) -> Result<Value> {
        let Some(validity) = all_valid(args) else { return Ok(Value::null(self.phys)) };
        let per_day = self.clock.units_per_day();
        let offset = match self.clock {
            // A date keeps whole days only.
            Clock::Days => i128::from(self.nanos) / (86_400 * NANOS),
            Clock::Units(unit) => i128::from(self.nanos).div_euclid(NANOS / units_per_second(unit)),
        };
        let offset = offset + i128::from(self.days) * i128::from(per_day);
        let add = |value: i64| -> Option<i64> {
            let value = match self.months {
                0 => value,
                months => {
                    let (day, rest) = (value.div_euclid(per_day), value.rem_euclid(per_day));
                    civil::add_months(day, months).checked_mul(per_day)?.checked_add(rest)?
                }
            };
            value.checked_add(i64::try_from(offset).ok()?)
        };
        match convert(&args[0], self.phys, validity.as_ref(), add) {
            Some(data) => Ok(like_input(&args[0], data)),
            None => Err(ExecError::Value("overflow in addition of an interval to a date or timestamp".into())),
        }
    }

    fn fallible(&self) -> bool {
        true
    }

    fn heavy(&self) -> bool {
        self.months != 0
    }
}

/// `date_trunc(granularity, value)`.
#[derive(Debug)]
pub(super) struct Trunc {
    granularity: Granularity,
    phys: Phys,
}

#[derive(Debug)]
enum Granularity {
    /// Multiples of a number of units.
    Units(i64),
    /// Multiples of 1, 3 or 12 months, with the number of clock units per day.
    Months(i64, i64),
    Week(i64),
}

impl Trunc {
    pub fn new(field: &str, input: &DataType, ty: &ColType) -> Result<Self> {
        let unsupported = || ExecError::Unsupported(format!("date_trunc to '{field}' of {input}"));
        let (per_day, per_second) = match (input, Clock::of(input)) {
            (_, Some(clock @ Clock::Units(unit))) => (clock.units_per_day(), units_per_second(unit) as i64),
            (_, Some(clock)) => (clock.units_per_day(), 0),
            (DataType::Time32(unit) | DataType::Time64(unit), None) => (0, units_per_second(*unit) as i64),
            _ => return Err(unsupported()),
        };
        let granularity = match field.to_lowercase().as_str() {
            "microsecond" => Granularity::Units(per_second / 1_000_000),
            "millisecond" => Granularity::Units(per_second / 1_000),
            "second" => Granularity::Units(per_second),
            "minute" => Granularity::Units(60 * per_second),
            "hour" => Granularity::Units(3600 * per_second),
            _ if per_day == 0 => return Err(unsupported()),
            "day" => Granularity::Units(per_day),
            "week" => Granularity::Week(per_day),
            "month" => Granularity::Months(1, per_day),
            "quarter" => Granularity::Months(3, per_day),
            "year" => Granularity::Months(12, per_day),
            _ => return Err(unsupported()),
        };
        Ok(Self { granularity, phys: ty.phys })
    }
}

impl Compute for Trunc {
    fn eval(&self, args: &[Value], _len: usize, _worker: &mut Worker) -> Result<Value> {
        let input = &args[0];
        let Some(validity) = all_valid(args) else { return Ok(Value::null(self.phys)) };
        let valid = validity.as_ref();
        let data = match self.granularity {
            // Already multiples of a coarser unit.
            Granularity::Units(0 | 1) => return Ok(widen(self.phys, input.clone())),
            Granularity::Units(units) => convert(input, self.phys, valid, |v| v.checked_sub(v.rem_euclid(units))),
            Granularity::Week(per_day) => convert(input, self.phys, valid, |v| {
                let day = v.div_euclid(per_day);
                (day - (civil::weekday(day) + 6) % 7).checked_mul(per_day)
            }),
            Granularity::Months(group, per_day) => convert(input, self.phys, valid, |v| {
                let (year, month, _) = civil::civil_wide(v.div_euclid(per_day));
                let month = (i64::from(month) - 1) / group * group + 1;
                civil::days_from_civil(year, month as u32, 1).checked_mul(per_day)
            }),
        };
        match data {
            Some(data) => Ok(like_input(input, data)),
            None => Err(ExecError::Value("overflow in date_trunc".into())),
        }
    }

    fn fallible(&self) -> bool {
        true
    }
}

/// Fields of types that the calendar above does not support (zoned timestamps, times), by Arrow's kernel.
fn arrow_part(input: &Value, from: &ColType, part: DatePart, ty: &ColType, worker: &mut Worker) -> Result<Value> {
    let array = bridge::to_arrow(input.vector(), from)?;
    let fields = date_part(&array, part).map_err(|error| ExecError::Unsupported(error.to_string()))?;
    let fields = bridge::from_arrow(&fields, ty, worker)?;
    Ok(match input {
        Value::Rows(_) => Value::rows(fields),
        Value::Const(_) => Value::Const(fields.into()),
    })
}
