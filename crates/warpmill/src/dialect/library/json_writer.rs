//! Values of columns as JSON.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use serde_json::Value;

use crate::dialect::enums;
use crate::dialect::types::digits;
use crate::dialect::written;

/// Appends the value in row `row` of a column.
pub(super) fn write(array: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    if array.data_type().is_null() || array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into(), out),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row), out),
        ty if digits(ty).is_some() => out.push_str(&ScalarValue::try_from_array(array, row)?.to_string()),
        DataType::List(_) => list(&array.as_list::<i32>().value(row), out)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), out)?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row), out)?,
        ty if enums::is_enum(ty) => out.push_str(&Value::from(text(array, row)?).to_string()),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            out.push('{');
            for (i, (field, column)) in fields.iter().zip(columns).enumerate() {
                separated(i, out);
                out.push_str(&Value::from(field.name().as_str()).to_string());
                out.push(':');
                write(column, row, out)?;
            }
            out.push('}');
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            out.push('{');
            for i in 0..entries.len() {
                separated(i, out);
                let key = text(entries.column(0), i)?;
                out.push_str(&Value::from(key).to_string());
                out.push(':');
                write(entries.column(1), i, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&Value::from(text(array, row)?).to_string()),
    }
    Ok(())
}

/// An object of keys and their values.
///
/// # Errors
/// A key that is NULL.
pub(super) fn object(keys: &ArrayRef, values: &ArrayRef) -> Result<String> {
    let mut out = String::from("{");
    for i in 0..keys.len().min(values.len()) {
        separated(i, &mut out);
        if keys.is_null(i) {
            return exec_err!("json_group_object key cannot be NULL");
        }
        out.push_str(&Value::from(text(keys, i)?).to_string());
        out.push(':');
        write(values, i, &mut out)?;
    }
    out.push('}');
    Ok(out)
}

fn separated(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}

fn float(value: f64, out: &mut String) {
    let size = value.abs();
    out.push_str(&match value {
        x if x.is_nan() => "NaN".to_string(),
        x if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
        x if size != 0.0 && !(1e-6..1e21).contains(&size) => format!("{x:e}"),
        x if x == x.trunc() => format!("{x:.1}"),
        x => x.to_string(),
    });
}

fn list(elements: &ArrayRef, out: &mut String) -> Result<()> {
    out.push('[');
    for i in 0..elements.len() {
        separated(i, out);
        write(elements, i, out)?;
    }
    out.push(']');
    Ok(())
}

/// A value as a cast writes it.
fn text(array: &ArrayRef, row: usize) -> Result<String> {
    Ok(written::text(array, row)?.unwrap_or_default())
}
