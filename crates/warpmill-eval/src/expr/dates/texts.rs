//! Conversion of dates and timestamps from and to texts in DuckDB's format: [`warpmill_ir::scalar::moments`].

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_format::Bitmap;
use warpmill_ir::scalar::moments::{Moment, Unrepresentable, put_date, put_moment, put_nanos};
use warpmill_ir::{ColType, Phys};

use super::Clock;
use crate::error::{ExecError, Result};
use crate::expr::call::{Compute, all_valid, rows};
use crate::expr::cast::widen;
use crate::expr::value::{Native, Value};
use crate::memory::Worker;
use crate::vector::Vector;

/// Texts as dates or timestamps.
#[derive(Debug)]
pub(in crate::expr) struct Read {
    clock: Clock,
    /// Whether other texts are NULL instead of errors.
    or_null: bool,
}

impl Read {
    /// A function with result type `ty`.
    pub fn new(ty: &DataType, or_null: bool) -> Result<Self> {
        let unsupported = || ExecError::Unsupported(format!("texts as {ty}"));
        Ok(Self { clock: Clock::of(ty).ok_or_else(unsupported)?, or_null })
    }

    fn value(&self, text: &str) -> Result<Option<i64>, Unrepresentable> {
        Ok(Moment::read(text)?.and_then(|moment| match self.clock {
            Clock::Days => moment.date().map(i64::from),
            Clock::Units(_) => moment.units(self.clock.units_per_day() / 86_400),
        }))
    }

    /// The values of rows, and the validity if some have none.
    fn values<T: Native + TryFrom<i64>>(
        &self,
        input: &Value,
        len: usize,
        valid: Option<&Bitmap>,
    ) -> Result<(Vec<T>, Option<Bitmap>)> {
        let texts = input.texts();
        let mut kept = None;
        let values = rows(len, valid, |row| {
            let text = texts.at(row);
            let value = self.value(text).map_err(|error| ExecError::Unsupported(error.to_string()))?;
            match value.and_then(|value| T::try_from(value).ok()) {
                Some(value) => Ok(value),
                None if self.or_null => {
                    kept.get_or_insert_with(|| Bitmap::new(len, true)).set(row, false);
                    Ok(T::default())
                }
                None => Err(ExecError::Value(format!("cannot convert the text {text:?} to {}", self.name()))),
            }
        })?;
        Ok((values, kept))
    }

    fn name(&self) -> &'static str {
        if self.clock == Clock::Days { "DATE" } else { "TIMESTAMP" }
    }
}

impl Compute for Read {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let phys = if self.clock == Clock::Days { Phys::I32 } else { Phys::I64 };
        let Some(validity) = all_valid(args) else { return Ok(Value::null(phys)) };
        let valid = validity.as_ref();
        let (data, kept) = if phys == Phys::I32 {
            let (values, kept) = self.values::<i32>(&args[0], len, valid)?;
            (i32::wrap(values), kept)
        } else {
            let (values, kept) = self.values::<i64>(&args[0], len, valid)?;
            (i64::wrap(values), kept)
        };
        let validity = match (validity, kept) {
            (Some(mut valid), Some(kept)) => {
                valid.and_assign(&kept);
                Some(valid)
            }
            (valid, kept) => valid.or(kept),
        };
        Ok(Value::rows(Vector::with_validity(data, validity)))
    }

    fn fallible(&self) -> bool {
        true
    }
}

/// Dates or timestamps as texts.
#[derive(Debug)]
pub(in crate::expr) struct Write {
    /// Appends the text of a value.
    put: fn(i64, &mut String),
}

impl Write {
    /// A function of values of type `input`.
    pub fn new(input: &ColType) -> Result<Self> {
        let put = match &input.logical {
            DataType::Date32 => put_date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => put_moment,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => put_nanos,
            other => return Err(ExecError::Unsupported(format!("{other} as texts"))),
        };
        Ok(Self { put })
    }
}

impl Compute for Write {
    fn eval(&self, args: &[Value], len: usize, worker: &mut Worker) -> Result<Value> {
        let Some(validity) = all_valid(args) else { return Ok(Value::null(Phys::Str)) };
        let wide = widen(Phys::I64, args[0].clone());
        let values = wide.side::<i64>();
        let mut line = String::new();
        let texts = rows(len, validity.as_ref(), |row| {
            line.clear();
            (self.put)(values.at(row), &mut line);
            worker.text(&line)
        })?;
        Ok(Value::rows(Vector::with_validity(Native::wrap(texts), validity)))
    }

    fn fallible(&self) -> bool {
        false
    }
}
