//! Lists and dicts as SQL values.

use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpmill::ScalarValue;

use super::scalar_within;
use crate::errors::BinderError;

/// A list of values with their common type, which are within this many lists and dicts.
pub(super) fn list(values: &Bound<'_, PyAny>, levels: usize) -> PyResult<ScalarValue> {
    let mut elements = vec![];
    for value in values.try_iter()? {
        elements.push(scalar_within(&value?, levels)?);
    }
    let mut ty = DataType::Null;
    for element in &elements {
        let found = element.data_type();
        ty = common(&ty, &found).ok_or_else(|| {
            BinderError::new_err(format!(
                "a list parameter has values of types {ty} and {found}, which have none in common"
            ))
        })?;
    }
    let cast = |element: &ScalarValue| match element.is_null() {
        true => ScalarValue::try_from(&ty),
        false => element.cast_to(&ty),
    };
    let elements = elements.iter().map(cast).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&elements, &ty)))
}

/// A struct with a field for each key; its values are within this many lists and dicts.
pub(super) fn structure(values: &Bound<'_, PyDict>, levels: usize) -> PyResult<ScalarValue> {
    if values.is_empty() {
        return Err(BinderError::new_err("an empty dict cannot be a query parameter: a STRUCT has fields"));
    }
    let (mut fields, mut columns) = (vec![], Vec::<ArrayRef>::new());
    for (key, value) in values.iter() {
        let value = scalar_within(&value, levels)?;
        fields.push(Field::new(key.str()?.extract::<String>()?, value.data_type(), true));
        columns.push(value.to_array().map_err(failed)?);
    }
    let made = StructArray::try_new(Fields::from(fields), columns, None);
    Ok(ScalarValue::Struct(Arc::new(made.map_err(failed)?)))
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    BinderError::new_err(error.to_string())
}

/// The common type of two types; `None` if there is none.
fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Boolean, Date32, Decimal128, Float64, Int64, List, Null, Struct, Timestamp, Utf8};
    Some(match (a, b) {
        (a, b) if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Int64, Boolean) | (Boolean, Int64) => Int64,
        (Float64, Int64 | Boolean | Decimal128(..)) | (Int64 | Boolean | Decimal128(..), Float64) => Float64,
        (Decimal128(p, s), Decimal128(q, t)) => {
            let (scale, whole) = ((*s).max(*t), (p - *s as u8).max(q - *t as u8));
            Decimal128((whole + scale as u8).min(38), scale)
        }
        (Decimal128(p, s), Int64) | (Int64, Decimal128(p, s)) => {
            let whole = (p - *s as u8).max(19);
            Decimal128((whole + *s as u8).min(38), *s)
        }
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => Timestamp(*unit, None),
        (List(a), List(b)) => List(Arc::new(Field::new_list_field(common(a.data_type(), b.data_type())?, true))),
        (Struct(a), Struct(b)) if a.iter().map(|field| field.name()).eq(b.iter().map(|field| field.name())) => {
            let both = a.iter().zip(b);
            let field = |(a, b): (&Arc<Field>, &Arc<Field>)| {
                Some(Field::new(a.name(), common(a.data_type(), b.data_type())?, true))
            };
            Struct(both.map(field).collect::<Option<Vec<_>>>()?.into())
        }
        (Utf8, other) | (other, Utf8) if !other.is_nested() && !other.is_binary() => Utf8,
        _ => return None,
    })
}

/// The SQL name of a parameter's type if its position does not imply it: of lists, times and intervals.
pub(super) fn said_type(ty: &DataType) -> Option<String> {
    let said = matches!(ty, DataType::List(_) | DataType::Time64(_) | DataType::Interval(_));
    if said { type_name(ty) } else { None }
}

fn type_name(ty: &DataType) -> Option<String> {
    Some(match ty {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 => "VARCHAR".into(),
        DataType::Binary => "BLOB".into(),
        DataType::FixedSizeBinary(16) => "UUID".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ".into(),
        DataType::Interval(_) => "INTERVAL".into(),
        DataType::Decimal128(width, scale) => format!("DECIMAL({width}, {scale})"),
        DataType::List(element) => format!("{}[]", type_name(element.data_type())?),
        _ => return None,
    })
}
