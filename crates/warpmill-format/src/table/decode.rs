//! Decodes columns of row segments to Arrow arrays, for rewriting and for DataFusion.

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::TableSnapshot;
use super::encoder::in_column;
use crate::Result;
use crate::segment::arrays::{self, Strings, decode};

/// A column of one row segment, in the table's type.
///
/// # Errors
/// Damage, more data than fit one array.
pub(crate) fn column_array(table: &TableSnapshot, segment: usize, column: usize) -> Result<ArrayRef> {
    let field = table.schema().field(column);
    let array = match table.dictionary(column) {
        Some(_) => strings(table, segment, column),
        None => arrays::array(&*table.segment(segment, column)?, field.data_type()),
    };
    array.map_err(|error| in_column(error, field.name()))
}

/// The codes of a dictionary column in one row segment, and its NULLs.
pub(crate) fn column_codes(
    table: &TableSnapshot,
    segment: usize,
    column: usize,
) -> Result<(Vec<u32>, Option<NullBuffer>)> {
    let opened = table.segment(segment, column)?;
    let codes = decode(opened.rows(), |start, out: &mut [u32]| opened.decode_codes(start, out));
    Ok((codes, arrays::nulls(&opened)))
}

/// The strings of a dictionary column.
fn strings(table: &TableSnapshot, segment: usize, column: usize) -> Result<ArrayRef> {
    let dictionary = table.dictionary(column).expect("a column with a dictionary");
    let (codes, nulls) = column_codes(table, segment, column)?;
    let mut strings = Strings::new(codes.len());
    for (row, &code) in codes.iter().enumerate() {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        strings.append(valid.then(|| dictionary.get(code)))?;
    }
    Ok(strings.finish())
}
