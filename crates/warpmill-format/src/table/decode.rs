//! Decodes columns of row segments to Arrow arrays, for rewriting and for DataFusion.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::TableSnapshot;
use super::encoder::in_column;
use crate::segment::arrays::{self, Strings, decode};
use crate::{Dictionary, Result, Segment};

/// A column of one row segment, in the table's type.
///
/// # Errors
/// Damage, more data than fit one array.
pub(crate) fn column_array(table: &TableSnapshot, segment: usize, column: usize) -> Result<ArrayRef> {
    let opened = table.segment(segment, column)?;
    column_rows(table, &opened, column, 0..opened.rows())
}

/// Some rows of a column of the row segment `opened`, which begin with a vector.
///
/// # Errors
/// The errors of [`column_array`].
pub(crate) fn column_rows(
    table: &TableSnapshot,
    opened: &Segment,
    column: usize,
    rows: Range<usize>,
) -> Result<ArrayRef> {
    let field = table.schema().field(column);
    let array = match table.dictionary(column) {
        Some(dictionary) => strings(dictionary, opened, rows),
        None => arrays::range(opened, field.data_type(), rows),
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
    Ok(codes(&opened, 0..opened.rows()))
}

/// The codes of some rows, and their nulls.
fn codes(opened: &Segment, rows: Range<usize>) -> (Vec<u32>, Option<NullBuffer>) {
    let codes = decode(rows.clone(), |start, out: &mut [u32]| opened.decode_codes(start, out));
    (codes, arrays::nulls(opened, rows))
}

/// The strings of a column with a dictionary.
fn strings(dictionary: &Dictionary, opened: &Segment, rows: Range<usize>) -> Result<ArrayRef> {
    let (codes, nulls) = codes(opened, rows);
    let mut strings = Strings::new(codes.len());
    for (row, &code) in codes.iter().enumerate() {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        strings.append(valid.then(|| dictionary.get(code)))?;
    }
    Ok(strings.finish())
}
