//! Lists, structs and maps as texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::casts;
use super::field_names::is_row;
use super::operators::strict_cast;
use super::types::is_float;
use super::{enums, states};

/// Whether a type has parts, which [`texts`] writes.
pub(super) fn has_parts(ty: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    matches!(ty, List(_) | LargeList(_) | FixedSizeList(..) | Struct(_) | Map(..))
}

/// Every value as a cast to VARCHAR writes it.
pub(super) fn texts(array: &ArrayRef) -> Result<StringArray> {
    (0..array.len()).map(|row| text(array, row)).collect()
}

/// The value of a row in the form of a cast to VARCHAR; `None` for NULL.
///
/// # Errors
/// A value too large for its text form.
pub fn text(array: &ArrayRef, row: usize) -> Result<Option<String>> {
    if array.data_type().is_null() || array.is_null(row) {
        return Ok(None);
    }
    let list = |elements: ArrayRef| {
        let parts = (0..elements.len()).map(|i| part(&elements, i)).collect::<Result<Vec<_>>>()?;
        Ok(Some(format!("[{}]", parts.join(", "))))
    };
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        ty if enums::is_enum(ty) => {
            let texts = enums::texts(&array.slice(row, 1))?;
            Ok(texts.is_valid(0).then(|| texts.value(0).to_string()))
        }
        ty if states::is_bare(ty) => text(array.as_struct().column(0), row),
        DataType::Struct(fields) if is_row(fields) => {
            let parts = array.as_struct().columns().iter().map(|column| part(column, row));
            Ok(Some(format!("({})", parts.collect::<Result<Vec<_>>>()?.join(", "))))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let parts = columns.map(|(field, column)| Ok(format!("'{}': {}", field.name(), part(column, row)?)));
            Ok(Some(format!("{{{}}}", parts.collect::<Result<Vec<_>>>()?.join(", "))))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let parts = (0..entries.len())
                .map(|i| Ok(format!("{}={}", part(entries.column(0), i)?, part(entries.column(1), i)?)));
            Ok(Some(format!("{{{}}}", parts.collect::<Result<Vec<_>>>()?.join(", "))))
        }
        ty => {
            let one = array.slice(row, 1);
            let written = match casts::is_written_otherwise(ty) || is_float(ty) {
                true => casts::written(&one)?,
                false => strict_cast(&one, &DataType::Utf8)?,
            };
            Ok(Some(written.as_string::<i32>().value(0).to_string()))
        }
    }
}

/// A nested value; texts that could be read as something else are quoted.
fn part(array: &ArrayRef, row: usize) -> Result<String> {
    let Some(text) = text(array, row)? else { return Ok("NULL".into()) };
    if has_parts(array.data_type()) && !enums::is_enum(array.data_type()) {
        return Ok(text);
    }
    let special = |c: char| matches!(c, ',' | '[' | ']' | '(' | ')' | '{' | '}' | '\'' | '"' | '\\' | ':' | '=');
    let space = |c: char| c.is_ascii_whitespace();
    let quoted = text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.contains(special)
        || text.starts_with(space)
        || text.ends_with(space);
    Ok(if quoted { format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'")) } else { text })
}

/// [`texts`] as a column.
pub(super) fn column(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(texts(array)?))
}
