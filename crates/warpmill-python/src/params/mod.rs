//! Query parameters: `?`, `$1` and `$name` placeholders, and conversion of Python values to SQL values.

mod nested;

use std::collections::HashMap;

use arrow::datatypes::IntervalMonthDayNano;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use warpmill::ScalarValue;
use warpmill::pieces::{Piece, first_piece, push_parameter};

use crate::errors::{BinderError, LimitError};

/// The SQL text with placeholders `$1`, `$2`, ... only, and the values in that order.
pub(crate) fn bind(sql: &str, params: &Bound<'_, PyAny>) -> PyResult<(String, Vec<ScalarValue>)> {
    let mut values = Vec::new();
    let mut names = HashMap::new();
    if let Ok(dict) = params.cast::<PyDict>() {
        for (name, value) in dict.iter() {
            let name: String = name.extract()?;
            values.push(scalar(&value)?);
            names.insert(name.trim_start_matches('$').to_owned(), values.len());
        }
    } else {
        for value in params.try_iter()? {
            values.push(scalar(&value?)?);
        }
    }
    let named = params.cast::<PyDict>().is_ok();
    let types: Vec<_> = values.iter().map(|value| nested::said_type(&value.data_type())).collect();
    let (sql, used) = number_placeholders(sql, &types, |placeholder, position| match placeholder {
        "" if named => Err("? needs a sequence of parameters, not a dict".to_owned()),
        "" => Ok(position),
        name => match name.parse() {
            Ok(number) if !named => Ok(number),
            _ => names.get(name).copied().ok_or_else(|| format!("no value for parameter ${name}")),
        },
    })
    .map_err(BinderError::new_err)?;
    if used > values.len() || (!named && used < values.len()) {
        let given = values.len();
        return Err(BinderError::new_err(format!("the query has {used} parameters, {given} values were given")));
    }
    Ok((sql, values))
}

/// Replaces each placeholder (`?` comes as "", with its position from 1) by `$n`, as a value of its type where `types` has one;
/// returns the largest n too.
/// Strings, quoted names and comments are left alone.
fn number_placeholders(
    sql: &str,
    types: &[Option<String>],
    number: impl Fn(&str, usize) -> Result<usize, String>,
) -> Result<(String, usize), String> {
    let (mut out, mut rest) = (String::with_capacity(sql.len()), sql);
    let (mut marks, mut largest) = (0, 0);
    while let Some((piece, length)) = first_piece(rest) {
        let name_end = rest[length..].find(|c: char| !c.is_alphanumeric() && c != '_');
        let name_end = name_end.map_or(rest.len(), |end| length + end);
        let (kept, placeholder) = match (piece, &rest[..length]) {
            (Piece::Other, "?") => (length, Some("")),
            (Piece::Other, "$") if name_end > length => (name_end, Some(&rest[length..name_end])),
            _ => (length, None),
        };
        match placeholder {
            Some(name) => {
                marks += usize::from(name.is_empty());
                let n = number(name, marks)?;
                largest = largest.max(n);
                match n.checked_sub(1).and_then(|at| types.get(at)?.as_ref()) {
                    Some(ty) => out.push_str(&format!(" CAST(${n} AS {ty})")),
                    None => push_parameter(&mut out, n),
                }
            }
            None => out.push_str(&rest[..kept]),
        }
        rest = &rest[kept..];
    }
    Ok((out, largest))
}

/// Lists and dicts inside each other: one that contains itself has no end.
const MOST_LEVELS: usize = 128;

/// A Python value as an SQL value of the closest type.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    scalar_within(value, 0)
}

/// The same for a value within `levels` lists and dicts.
fn scalar_within(value: &Bound<'_, PyAny>, levels: usize) -> PyResult<ScalarValue> {
    if levels > MOST_LEVELS {
        return Err(LimitError::new_err(format!(
            "a query parameter has more than {MOST_LEVELS} lists or dicts inside each other, which is the limit"
        )));
    }
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(value.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(ScalarValue::Binary(Some(value.as_bytes().to_vec())));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return nested::list(value, levels + 1);
    }
    if let Ok(value) = value.cast::<PyDict>() {
        return nested::structure(value, levels + 1);
    }
    let kind = value.get_type().name()?.to_string();
    match kind.as_str() {
        "Decimal" => decimal(value),
        "UUID" => Ok(ScalarValue::FixedSizeBinary(16, Some(value.getattr("bytes")?.extract()?))),
        "date" => Ok(ScalarValue::Date32(Some(days(value)?))),
        "datetime" | "Timestamp" => timestamp(value),
        "time" => time(value),
        "timedelta" | "Timedelta" => interval(value),
        "NaTType" | "NAType" => Ok(ScalarValue::Null),
        "bytearray" | "memoryview" => {
            let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
            Ok(ScalarValue::Binary(Some(bytes.extract()?)))
        }
        "ndarray" | "Series" if value.getattr("ndim")?.extract::<usize>()? > 0 => nested::list(value, levels + 1),
        // Finer ones than microseconds are integers to item().
        "datetime64" | "timedelta64" if value.call_method0("item")?.is_instance_of::<PyInt>() => {
            scalar_within(&value.call_method1("astype", (format!("{kind}[us]"),))?.call_method0("item")?, levels + 1)
        }
        // NumPy scalars convert to Python by item().
        _ if value.hasattr("item")? => scalar_within(&value.call_method0("item")?, levels + 1),
        _ => Err(PyTypeError::new_err(format!("a value of type {kind} cannot be a query parameter"))),
    }
}

/// BIGINT, or HUGEINT if it does not fit.
fn integer(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if let Ok(value) = value.extract() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    match value.extract::<i128>() {
        Ok(value) if value.unsigned_abs() < 10_u128.pow(38) => Ok(ScalarValue::Decimal128(Some(value), 38, 0)),
        _ => Err(BinderError::new_err(format!("integer parameter {value} has more than 38 digits"))),
    }
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if !value.call_method0("is_finite")?.extract::<bool>()? {
        return Ok(ScalarValue::Float64(Some(value.call_method0("__float__")?.extract()?)));
    }
    let text: String = value.call_method1("__format__", ("f",))?.extract()?;
    let digits: String = text.chars().filter(|c| *c != '.').collect();
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let too_long = || BinderError::new_err(format!("decimal parameter {text} has more than 38 digits"));
    let unscaled: i128 = digits.parse().map_err(|_| too_long())?;
    let precision = digits.trim_start_matches('-').trim_start_matches('0').len().max(scale).max(1);
    if precision > 38 {
        return Err(too_long());
    }
    Ok(ScalarValue::Decimal128(Some(unscaled), precision as u8, scale as i8))
}

/// Days since 1970-01-01 of a `datetime.date`.
fn days(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    let ordinal: i32 = value.call_method0("toordinal")?.extract()?;
    Ok(ordinal - crate::values::EPOCH_ORDINAL)
}

/// Microseconds since the epoch; with a time zone, the instant in UTC.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let zone = value.getattr("tzinfo")?;
    let utc = if zone.is_none() {
        value.clone()
    } else {
        let utc = value.py().import("datetime")?.getattr("timezone")?.getattr("utc")?;
        value.call_method1("astimezone", (utc,))?
    };
    let part = |name: &str| -> PyResult<i64> { utc.getattr(name)?.extract() };
    let seconds = i64::from(days(&utc)?) * 86_400 + part("hour")? * 3600 + part("minute")? * 60 + part("second")?;
    let zone = (!zone.is_none()).then(|| "UTC".into());
    Ok(ScalarValue::TimestampMicrosecond(Some(seconds * 1_000_000 + part("microsecond")?), zone))
}

/// Microseconds of a `datetime.time`.
fn time(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if !value.getattr("tzinfo")?.is_none() {
        return Err(PyTypeError::new_err("a time with a time zone cannot be a query parameter"));
    }
    let part = |name: &str| -> PyResult<i64> { value.getattr(name)?.extract() };
    let seconds = part("hour")? * 3600 + part("minute")? * 60 + part("second")?;
    Ok(ScalarValue::Time64Microsecond(Some(seconds * 1_000_000 + part("microsecond")?)))
}

/// Days, and the microseconds left over, of a `datetime.timedelta`.
fn interval(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let part = |name: &str| -> PyResult<i64> { value.getattr(name)?.extract() };
    let micros = part("seconds")? * 1_000_000 + part("microseconds")?;
    let days = part("days")?.try_into().map_err(|_| PyOverflowError::new_err("a timedelta with too many days"))?;
    Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, micros * 1000))))
}
