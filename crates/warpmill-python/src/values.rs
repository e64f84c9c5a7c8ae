//! Conversion of Arrow values to Python objects, for `fetchall` and similar methods; needs no Arrow package in Python.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList, PyTuple};
use warpmill::{is_row, value_text};

use crate::errors::{EngineError, Error};

/// `datetime.date(1970, 1, 1).toordinal()`.
pub(crate) const EPOCH_ORDINAL: i32 = 719_163;

type Values<'py> = PyResult<Vec<Bound<'py, PyAny>>>;

/// Rows `offset .. offset + count` of a batch, as tuples.
pub(crate) fn rows<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    offset: usize,
    count: usize,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let columns: Vec<_> =
        batch.columns().iter().map(|column| values(py, &column.slice(offset, count))).collect::<PyResult<_>>()?;
    (0..count).map(|row| PyTuple::new(py, columns.iter().map(|column| &column[row]))).collect()
}

fn values<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => each(py, array, |row| array.as_boolean().value(row).into_bound_py_any(py)),
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Float16 => {
            let column = array.as_primitive::<Float16Type>();
            each(py, array, |row| column.value(row).to_f64().into_bound_py_any(py))
        }
        DataType::Float32 => numbers::<Float32Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Utf8 => each(py, array, |row| array.as_string::<i32>().value(row).into_bound_py_any(py)),
        DataType::LargeUtf8 => each(py, array, |row| array.as_string::<i64>().value(row).into_bound_py_any(py)),
        DataType::Utf8View => each(py, array, |row| array.as_string_view().value(row).into_bound_py_any(py)),
        DataType::FixedSizeBinary(16) => uuids(py, array),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let column = converted(array, &DataType::LargeBinary)?;
            each(py, array, |row| Ok(PyBytes::new(py, column.as_binary::<i64>().value(row)).into_any()))
        }
        DataType::Decimal32(..) => {
            decimals(py, array, |row| array.as_primitive::<Decimal32Type>().value_as_string(row))
        }
        DataType::Decimal64(..) => {
            decimals(py, array, |row| array.as_primitive::<Decimal64Type>().value_as_string(row))
        }
        // HUGEINT.
        DataType::Decimal128(38, 0) => {
            let whole = array.as_primitive::<Decimal128Type>();
            each(py, array, |row| whole.value(row).into_bound_py_any(py))
        }
        DataType::Decimal128(..) => {
            decimals(py, array, |row| array.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Decimal256(..) => {
            decimals(py, array, |row| array.as_primitive::<Decimal256Type>().value_as_string(row))
        }
        DataType::Date32 => dates(py, array, |row| i64::from(array.as_primitive::<Date32Type>().value(row))),
        DataType::Date64 => {
            dates(py, array, |row| array.as_primitive::<Date64Type>().value(row).div_euclid(86_400_000))
        }
        DataType::Timestamp(_, zone) => timestamps(py, array, zone.as_deref()),
        DataType::Time32(_) | DataType::Time64(_) => times(py, array),
        DataType::Duration(_) => durations(py, array),
        DataType::Interval(_) => intervals(py, array),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => lists(py, array),
        DataType::Struct(_) => structs(py, array),
        DataType::Map(entries, _) => maps(py, array, has_plain_keys(entries.data_type())),
        DataType::Dictionary(_, value) => values(py, &converted(array, value)?),
        _ => texts(py, array),
    }
}

/// None for NULLs, otherwise `value` of each row.
fn each<'py>(py: Python<'py>, array: &ArrayRef, value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>) -> Values<'py> {
    (0..array.len()).map(|row| if array.is_null(row) { Ok(py.None().into_bound(py)) } else { value(row) }).collect()
}

fn numbers<'py, T: ArrowPrimitiveType>(py: Python<'py>, array: &ArrayRef) -> Values<'py>
where
    T::Native: IntoPyObject<'py>,
{
    let column = array.as_primitive::<T>();
    each(py, array, |row| column.value(row).into_bound_py_any(py))
}

fn uuids<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let uuid = py.import("uuid")?.getattr("UUID")?;
    let column = array.as_fixed_size_binary();
    each(py, array, |row| uuid.call((), Some(&[("bytes", PyBytes::new(py, column.value(row)))].into_py_dict(py)?)))
}

fn decimals<'py>(py: Python<'py>, array: &ArrayRef, text: impl Fn(usize) -> String) -> Values<'py> {
    let decimal = py.import("decimal")?.getattr("Decimal")?;
    each(py, array, |row| decimal.call1((text(row),)))
}

fn dates<'py>(py: Python<'py>, array: &ArrayRef, day: impl Fn(usize) -> i64) -> Values<'py> {
    let from_ordinal = py.import("datetime")?.getattr("date")?.getattr("fromordinal")?;
    moments(py, array, |row| from_ordinal.call1((day(row) + i64::from(EPOCH_ORDINAL),)))
}

/// Converts each row by `value`; as a text outside of the years 1 to 9999, which Python's types support.
fn moments<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> Values<'py> {
    each(py, array, |row| match value(row) {
        Err(error) if error.is_instance_of::<PyOverflowError>(py) || error.is_instance_of::<PyValueError>(py) => {
            value_text(array, row).map_err(|error| PyErr::from(EngineError(error.into())))?.into_bound_py_any(py)
        }
        made => made,
    })
}

fn timestamps<'py>(py: Python<'py>, array: &ArrayRef, zone: Option<&str>) -> Values<'py> {
    // Python's datetime has microseconds: finer ones are cut off.
    let micros = converted(array, &DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into)))?;
    let micros = converted(&micros, &DataType::Int64)?;
    let module = py.import("datetime")?;
    let delta = module.getattr("timedelta")?;
    let zoned = match zone {
        None => None,
        Some(name) => Some(py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,)).or_else(|_| offset(py, name))?),
    };
    let utc = zoned.as_ref().map(|_| module.getattr("timezone")?.getattr("utc")).transpose()?;
    let epoch = module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
    moments(py, array, |row| {
        let time = epoch.add(delta.call1((0, 0, micros.as_primitive::<Int64Type>().value(row)))?)?;
        match &zoned {
            None => Ok(time),
            Some(zone) => time.call_method1("astimezone", (zone,)),
        }
    })
}

/// A time zone given as `+HH:MM`.
fn offset<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let parsed = py.import("datetime")?.getattr("datetime")?.call_method1("strptime", (name, "%z"))?;
    parsed.getattr("tzinfo")
}

fn times<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let micros = converted(&converted(array, &DataType::Time64(TimeUnit::Microsecond))?, &DataType::Int64)?;
    let time = py.import("datetime")?.getattr("time")?;
    each(py, array, |row| {
        let micros = micros.as_primitive::<Int64Type>().value(row);
        let seconds = micros / 1_000_000;
        time.call1((seconds / 3600, seconds / 60 % 60, seconds % 60, micros % 1_000_000))
    })
}

fn durations<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let micros = converted(&converted(array, &DataType::Duration(TimeUnit::Microsecond))?, &DataType::Int64)?;
    let delta = py.import("datetime")?.getattr("timedelta")?;
    each(py, array, |row| delta.call1((0, 0, micros.as_primitive::<Int64Type>().value(row))))
}

/// Intervals; a month counts as 30 days, as in DuckDB.
fn intervals<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let whole = converted(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let whole = whole.as_primitive::<IntervalMonthDayNanoType>();
    let delta = py.import("datetime")?.getattr("timedelta")?;
    moments(py, array, |row| {
        let interval = whole.value(row);
        let days = 30 * i64::from(interval.months) + i64::from(interval.days);
        delta.call1((days, 0, interval.nanoseconds / 1_000))
    })
}

fn lists<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let element = |row| match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        _ => array.as_fixed_size_list().value(row),
    };
    let is_array = matches!(array.data_type(), DataType::FixedSizeList(..));
    each(py, array, |row| {
        let values = values(py, &element(row))?;
        Ok(if is_array { PyTuple::new(py, values)?.into_any() } else { PyList::new(py, values)?.into_any() })
    })
}

fn structs<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let fields = array.as_struct();
    let columns: Vec<_> = fields.columns().iter().map(|column| values(py, column)).collect::<PyResult<_>>()?;
    if is_row(fields.fields()) {
        return each(py, array, |row| Ok(PyTuple::new(py, columns.iter().map(|column| &column[row]))?.into_any()));
    }
    each(py, array, |row| {
        let dict = PyDict::new(py);
        for (name, column) in fields.column_names().iter().zip(&columns) {
            dict.set_item(name, &column[row])?;
        }
        Ok(dict.into_any())
    })
}

/// Whether all keys of maps are hashable in Python.
fn has_plain_keys(entries: &DataType) -> bool {
    matches!(entries, DataType::Struct(fields) if fields.first().is_some_and(|key| !key.data_type().is_nested()))
}

/// Maps as dictionaries; with unhashable keys, as lists of their keys and values.
fn maps<'py>(py: Python<'py>, array: &ArrayRef, plain_keys: bool) -> Values<'py> {
    let maps = array.as_map();
    let offsets = maps.value_offsets();
    // The maps of a list are a slice of all maps.
    let (first, last) = (offsets[0] as usize, offsets[maps.len()] as usize);
    let part = |entries: &ArrayRef| values(py, &entries.slice(first, last - first));
    let (keys, elements) = (part(maps.keys())?, part(maps.values())?);
    each(py, array, |row| {
        let dict = PyDict::new(py);
        let entries = offsets[row] as usize - first..offsets[row + 1] as usize - first;
        if !plain_keys {
            dict.set_item("key", &keys[entries.clone()])?;
            dict.set_item("value", &elements[entries])?;
            return Ok(dict.into_any());
        }
        for at in entries {
            dict.set_item(&keys[at], &elements[at])?;
        }
        Ok(dict.into_any())
    })
}

/// Types without a Python counterpart (unions) come as text.
fn texts<'py>(py: Python<'py>, array: &ArrayRef) -> Values<'py> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(arrow_error)?;
    each(py, array, |row| formatter.value(row).to_string().into_bound_py_any(py))
}

fn converted(array: &ArrayRef, kind: &DataType) -> PyResult<ArrayRef> {
    if array.data_type() == kind {
        return Ok(Arc::clone(array));
    }
    // A timestamp that microseconds cannot represent is an error.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, kind, &options).map_err(arrow_error)
}

/// An Arrow error on its way to Python.
pub(crate) fn arrow_error(error: ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}
