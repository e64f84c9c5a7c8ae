//! Conversions between logical types: integers are rescaled in specialized loops, all others use Arrow's kernels.

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_format::Bitmap;
use warpmill_ir::{ColType, Phys};

use super::arith::{Int, is_set, scale_of};
use super::value::{Value, map};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::Vector;

pub(super) mod bridge;

/// A conversion, chosen once.
#[derive(Debug)]
pub(super) struct Cast {
    how: How,
    from: ColType,
    to: ColType,
    try_cast: bool,
}

#[derive(Debug)]
enum How {
    /// The same values with another logical type, perhaps in another representation.
    Same,
    Rescale(Rescale),
    /// Unscaled integers to floats: divided by this.
    ToFloat(f64),
    Arrow,
}

/// Integers times or divided by a power of ten (or of time units), within bounds.
#[derive(Debug, Clone)]
struct Rescale {
    factor: i128,
    divide: Option<Rounding>,
    bounds: (i128, i128),
    /// Whether results are proven to be within bounds.
    proven: bool,
    /// Whether the products are proven to fit 64 bits.
    narrow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rounding {
    /// Half away from zero.
    Nearest,
    TowardZero,
    Down,
}

impl Rounding {
    #[inline(always)]
    fn divide(self, value: i128, by: i128) -> i128 {
        let (quotient, rest) = (value / by, value % by);
        match self {
            Rounding::TowardZero => quotient,
            Rounding::Down => quotient - i128::from(rest < 0),
            Rounding::Nearest if rest.abs() >= by - rest.abs() => quotient + value.signum(),
            Rounding::Nearest => quotient,
        }
    }
}

fn is_decimal(logical: &DataType) -> bool {
    matches!(logical, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..))
}

fn is_plain(logical: &DataType) -> bool {
    logical.is_numeric() || *logical == DataType::Boolean
}

fn is_string(logical: &DataType) -> bool {
    matches!(logical, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn units_per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The factor from unscaled integers of `from` to those of `to`, and the rounding, if the cast is a rescaling.
fn rescale(from: &DataType, to: &DataType) -> Option<(i128, Option<Rounding>)> {
    let number = |t: &DataType| t.is_integer() || is_decimal(t);
    Some(match (from, to) {
        (DataType::Date32, DataType::Timestamp(unit, None)) => (86_400 * units_per_second(*unit), None),
        (DataType::Timestamp(unit, None), DataType::Date32) => (86_400 * units_per_second(*unit), Some(Rounding::Down)),
        (DataType::Timestamp(a, zone), DataType::Timestamp(b, other)) if zone == other => {
            let (a, b) = (units_per_second(*a), units_per_second(*b));
            if b >= a { (b / a, None) } else { (a / b, Some(Rounding::TowardZero)) }
        }
        (DataType::Int32, DataType::Date32) | (DataType::Date32, DataType::Int32 | DataType::Int64) => (1, None),
        (from, to) if number(from) && number(to) => {
            let exponent = scale_of(to) - scale_of(from);
            let factor = 10i128.checked_pow(exponent.unsigned_abs())?;
            // To integers Arrow truncates, between decimals it rounds.
            let rounding = if to.is_integer() { Rounding::TowardZero } else { Rounding::Nearest };
            if exponent >= 0 { (factor, None) } else { (factor, Some(rounding)) }
        }
        _ => return None,
    })
}

impl Cast {
    /// A conversion of `from` to `to`.
    pub fn new(from: &ColType, to: &ColType, try_cast: bool) -> Self {
        let how = if from.logical == to.logical || (is_string(&from.logical) && is_string(&to.logical)) {
            How::Same
        } else if let Some((factor, divide)) = rescale(&from.logical, &to.logical) {
            How::Rescale(Rescale::new(factor, divide, from, to))
        } else if matches!(to.logical, DataType::Float32 | DataType::Float64)
            && (from.logical.is_integer() || is_decimal(&from.logical))
        {
            How::ToFloat(10f64.powi(scale_of(&from.logical)))
        } else {
            How::Arrow
        };
        Self { how, from: from.clone(), to: to.clone(), try_cast }
    }

    /// Whether some value may not convert.
    pub fn fallible(&self) -> bool {
        match &self.how {
            How::Same | How::ToFloat(_) => false,
            How::Rescale(rescale) => !rescale.proven && !self.try_cast,
            // Texts and times may fail to convert; numbers and booleans can always be formatted or tested for zero.
            How::Arrow => {
                !self.try_cast
                    && !(is_plain(&self.from.logical) && (is_string(&self.to.logical) || self.to.phys == Phys::Bool))
            }
        }
    }

    /// The converted rows.
    pub fn eval(&self, input: &Value, worker: &mut Worker) -> Result<Value> {
        match &self.how {
            How::Same => Ok(widen(self.to.phys, input.clone())),
            How::Rescale(rescale) => self.rescale(rescale, input),
            How::ToFloat(divisor) => Ok(self.float(*divisor, input)),
            How::Arrow => {
                let converted = bridge::cast(input.vector(), &self.from, &self.to, self.try_cast, worker)?;
                Ok(match input {
                    Value::Rows(_) => Value::rows(converted),
                    Value::Const(_) => Value::Const(converted.into()),
                })
            }
        }
    }

    fn float(&self, divisor: f64, input: &Value) -> Value {
        macro_rules! to {
            ($float:ty) => {
                match self.from.phys {
                    Phys::I32 if divisor == 1.0 => map::<i32, $float>(input, |v| v as $float),
                    Phys::I32 => map::<i32, $float>(input, |v| (f64::from(v) / divisor) as $float),
                    Phys::I64 if divisor == 1.0 => map::<i64, $float>(input, |v| v as $float),
                    Phys::I64 => map::<i64, $float>(input, |v| (v as f64 / divisor) as $float),
                    _ if divisor == 1.0 => map::<i128, $float>(input, |v| v as $float),
                    _ => map::<i128, $float>(input, |v| (v as f64 / divisor) as $float),
                }
            };
        }
        if self.to.phys == Phys::F32 { to!(f32) } else { to!(f64) }
    }

    fn rescale(&self, rescale: &Rescale, input: &Value) -> Result<Value> {
        let vector = input.vector();
        macro_rules! from {
            ($from:ty) => {
                match self.to.phys {
                    Phys::I32 => self.rescaled::<$from, i32>(rescale, vector)?,
                    Phys::I64 => self.rescaled::<$from, i64>(rescale, vector)?,
                    _ => self.rescaled::<$from, i128>(rescale, vector)?,
                }
            };
        }
        let converted = match self.from.phys {
            Phys::I32 => from!(i32),
            Phys::I64 => from!(i64),
            _ => from!(i128),
        };
        Ok(match input {
            Value::Rows(_) => Value::rows(converted),
            Value::Const(_) => Value::Const(converted.into()),
        })
    }

    fn rescaled<S: Int, T: Int>(&self, rescale: &Rescale, input: &Vector) -> Result<Vector> {
        let values = S::values(&input.data);
        if rescale.proven {
            return Ok(Vector { data: T::wrap(rescale.all(values)), validity: input.validity.clone() });
        }
        let mut lost = false;
        let convert = |value: S| {
            let (result, bad) = rescale.checked(value.into());
            (T::truncated(result), bad)
        };
        let out = values.iter().map(|&value| {
            let (result, bad) = convert(value);
            lost |= bad;
            result
        });
        let out: Vec<T> = out.collect();
        if !lost {
            return Ok(Vector { data: T::wrap(out), validity: input.validity.clone() });
        }
        let valid = input.validity.as_ref();
        let bad = |i: usize| is_set(valid, i) && convert(values[i]).1;
        if let Some(i) = (0..values.len()).find(|&i| bad(i)).filter(|_| !self.try_cast) {
            return Err(ExecError::Value(format!(
                "cannot cast {} of type {} to {}: out of range",
                unscaled(values[i].into(), scale_of(&self.from.logical)),
                self.from.logical,
                self.to.logical
            )));
        }
        let kept = Bitmap::from_fn(values.len(), |i| is_set(valid, i) && !bad(i));
        Ok(Vector::with_validity(T::wrap(out), Some(kept)))
    }
}

/// An unscaled decimal as text, for messages.
fn unscaled(value: i128, scale: i32) -> String {
    match u32::try_from(scale).ok().and_then(|s| 10u128.checked_pow(s)) {
        None | Some(1) => value.to_string(),
        Some(one) => {
            let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
            format!("{sign}{}.{:0width$}", digits / one, digits % one, width = scale as usize)
        }
    }
}

impl Rescale {
    fn new(factor: i128, divide: Option<Rounding>, from: &ColType, to: &ColType) -> Self {
        let bounds = ColType::range_of(&to.logical).unwrap_or((i128::MIN, i128::MAX));
        let mut rescale = Self { factor, divide, bounds, proven: false, narrow: false };
        if let Some((lo, hi)) = from.range {
            let ((first, bad), (last, worse)) = (rescale.checked(lo), rescale.checked(hi));
            rescale.proven = !bad && !worse;
            let narrow = |v: i128| i64::try_from(v).is_ok();
            rescale.narrow = rescale.proven && [lo, hi, first, last, factor].into_iter().all(narrow);
        }
        rescale
    }

    /// The result, and whether it is out of bounds.
    #[inline(always)]
    fn checked(&self, value: i128) -> (i128, bool) {
        let (result, overflow) = match self.divide {
            None => value.overflowing_mul(self.factor),
            Some(rounding) => (rounding.divide(value, self.factor), false),
        };
        (result, overflow | (result < self.bounds.0) | (result > self.bounds.1))
    }

    /// All results, proven to be within bounds (rows that are NULL may wrap).
    fn all<S: Int, T: Int>(&self, values: &[S]) -> Vec<T> {
        let factor = self.factor;
        match self.divide {
            None if factor == 1 => values.iter().map(|&v| T::truncated(v.into())).collect(),
            None if self.narrow => {
                let factor = factor as i64;
                values.iter().map(|&v| T::truncated(i64::truncated(v.into()).wrapping_mul(factor).into())).collect()
            }
            None => values.iter().map(|&v| T::truncated(v.into().wrapping_mul(factor))).collect(),
            Some(Rounding::Down) if self.narrow => {
                let factor = factor as i64;
                values.iter().map(|&v| T::truncated(i64::truncated(v.into()).div_euclid(factor).into())).collect()
            }
            Some(rounding) => values.iter().map(|&v| T::truncated(rounding.divide(v.into(), factor))).collect(),
        }
    }
}

/// The same values in another representation.
pub(super) fn widen(phys: Phys, input: Value) -> Value {
    let from = input.vector().data.phys();
    match (from, phys) {
        (from, to) if from == to => input,
        (Phys::I32, Phys::I64) => map::<i32, i64>(&input, i64::from),
        (Phys::I32, Phys::I128) => map::<i32, i128>(&input, i128::from),
        (Phys::I64, Phys::I128) => map::<i64, i128>(&input, i128::from),
        // Proven ranges may allow a narrower representation for a wider type.
        (Phys::I64, Phys::I32) => map::<i64, i32>(&input, |v| v as i32),
        (Phys::I128, Phys::I32) => map::<i128, i32>(&input, |v| v as i32),
        (Phys::I128, Phys::I64) => map::<i128, i64>(&input, |v| v as i64),
        (Phys::F32, Phys::F64) => map::<f32, f64>(&input, f64::from),
        (from, to) => unreachable!("{from:?} held as {to:?}"),
    }
}
