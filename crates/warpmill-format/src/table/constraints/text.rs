//! Texts of keys for errors, in DuckDB's format.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Schema, TimeUnit, UInt32Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::enums;

/// The key of `row` in the columns of a key: `a: 1, b: x`.
pub(super) fn key(schema: &Schema, columns: &[usize], values: &[ArrayRef], row: usize) -> String {
    let part = |(column, array): (&usize, &ArrayRef)| {
        let field = schema.field(*column);
        let text = match enums::members(field.data_type()) {
            Some(members) => member(&members, array, row),
            None => value(array, row),
        };
        format!("{}: {text}", field.name())
    };
    columns.iter().zip(values).map(part).collect::<Vec<_>>().join(", ")
}

/// The ENUM member at the position in row `row` of `positions`.
fn member(members: &[String], positions: &ArrayRef, row: usize) -> String {
    let position = positions.as_primitive::<UInt32Type>().value(row);
    members.get(position as usize).cloned().unwrap_or_else(|| position.to_string())
}

/// A value that is not NULL.
fn value(array: &ArrayRef, row: usize) -> String {
    const MOMENT: &str = "%Y-%m-%d %H:%M:%S%.f";
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::Timestamp(unit, Some(_)) => {
            let utc = arrow::compute::cast(array, &DataType::Timestamp(*unit, None));
            utc.map_or_else(|_| String::new(), |utc| format!("{}+00", value(&utc, row)))
        }
        DataType::Date64 => {
            let moment = arrow::compute::cast(array, &DataType::Timestamp(TimeUnit::Millisecond, None));
            moment.map_or_else(|_| String::new(), |moment| value(&moment, row))
        }
        DataType::Float32 | DataType::Float64 => shown(array, row, "").to_lowercase(),
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => {
            let text = shown(array, row, MOMENT);
            if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text }
        }
        _ => shown(array, row, ""),
    }
}

fn shown(array: &dyn Array, row: usize, moment: &'static str) -> String {
    let options = FormatOptions::default();
    let options = if moment.is_empty() { options } else { options.with_timestamp_format(Some(moment)) };
    match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).try_to_string().unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Bytes as text: non-printable and non-ASCII bytes in hexadecimal.
fn bytes(value: &[u8]) -> String {
    let part = |&byte: &u8| match byte {
        b' '..=b'~' if byte != b'\\' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    value.iter().map(part).collect()
}
