//! `warpmill_get_TYPE(answer, row, column)`: a value of a result. Decimals are 128-bit integers.

use libduckdb_sys as ffi;

use super::registry::answer;
use super::{BIGINT, INTEGER, Registration, Scalar, ScalarCallback, UBIGINT, data, fail, set_null, set_text, vector};
use crate::engine::{Column, engine};

pub fn register(registration: &Registration) -> Result<(), String> {
    let functions: [(&'static str, ffi::DUCKDB_TYPE, ScalarCallback); 15] = [
        ("warpmill_get_boolean", ffi::DUCKDB_TYPE_DUCKDB_TYPE_BOOLEAN, fixed::<1>),
        ("warpmill_get_tinyint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_TINYINT, fixed::<1>),
        ("warpmill_get_smallint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_SMALLINT, fixed::<2>),
        ("warpmill_get_integer", ffi::DUCKDB_TYPE_DUCKDB_TYPE_INTEGER, fixed::<4>),
        ("warpmill_get_bigint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_BIGINT, fixed::<8>),
        ("warpmill_get_utinyint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_UTINYINT, fixed::<1>),
        ("warpmill_get_usmallint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_USMALLINT, fixed::<2>),
        ("warpmill_get_uinteger", ffi::DUCKDB_TYPE_DUCKDB_TYPE_UINTEGER, fixed::<4>),
        ("warpmill_get_ubigint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_UBIGINT, fixed::<8>),
        ("warpmill_get_hugeint", ffi::DUCKDB_TYPE_DUCKDB_TYPE_HUGEINT, fixed::<16>),
        ("warpmill_get_float", ffi::DUCKDB_TYPE_DUCKDB_TYPE_FLOAT, fixed::<4>),
        ("warpmill_get_double", ffi::DUCKDB_TYPE_DUCKDB_TYPE_DOUBLE, fixed::<8>),
        ("warpmill_get_date", ffi::DUCKDB_TYPE_DUCKDB_TYPE_DATE, fixed::<4>),
        ("warpmill_get_timestamp", ffi::DUCKDB_TYPE_DUCKDB_TYPE_TIMESTAMP, fixed::<8>),
        ("warpmill_get_varchar", ffi::DUCKDB_TYPE_DUCKDB_TYPE_VARCHAR, varchar),
    ];
    functions.iter().try_for_each(|&(name, result, call)| {
        let parameters = &[UBIGINT, BIGINT, INTEGER];
        registration.scalar(&Scalar { name, parameters, more: None, result, volatile: false, call })
    })
}

unsafe extern "C" fn fixed<const WIDTH: usize>(
    info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    output: ffi::duckdb_vector,
) {
    // SAFETY: DuckDB's call; the engine's values of this column have this width.
    unsafe {
        let target = data::<[u8; WIDTH]>(output);
        each(info, input, output, |column, row, at| {
            target.add(at).write_unaligned(column.values.cast::<[u8; WIDTH]>().add(row).read_unaligned());
        });
    }
}

unsafe extern "C" fn varchar(
    info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    output: ffi::duckdb_vector,
) {
    // SAFETY: DuckDB's call; the engine's text lies between two offsets.
    unsafe {
        each(info, input, output, |column, row, at| {
            let (start, end) = (column.offsets.add(row).read(), column.offsets.add(row + 1).read());
            let first = column.values.cast::<u8>().add(usize::try_from(start).unwrap_or(0));
            let text = std::slice::from_raw_parts(first, usize::try_from(end - start).unwrap_or(0));
            set_text(output, at as u64, text);
        });
    }
}

/// Calls `f` with the column, the row in the result, and the row of the chunk, for each non-NULL value.
///
/// SAFETY: called from one of these functions.
unsafe fn each(
    info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    output: ffi::duckdb_vector,
    f: impl Fn(&Column, usize, usize),
) {
    // SAFETY: the caller's promise. Rows are checked against the result's number; a column's view lives as long as the answer.
    unsafe {
        let [answers, rows, columns] = [0, 1, 2].map(|column| vector(input, column));
        let (answers, rows, columns) = (data::<u64>(answers), data::<i64>(rows), data::<i32>(columns));
        let mut known: Option<((u64, i32), Found)> = None;
        for at in 0..usize::try_from(ffi::duckdb_data_chunk_get_size(input)).unwrap_or(0) {
            if (0..3).any(|column| !super::is_valid(vector(input, column), at as u64)) {
                set_null(output, at as u64);
                continue;
            }
            let wanted = (answers.add(at).read(), columns.add(at).read());
            if known.as_ref().is_none_or(|(which, _)| *which != wanted) {
                known = found(wanted.0, wanted.1).map(|found| (wanted, found));
            }
            let row = usize::try_from(rows.add(at).read()).ok();
            let Some((_, (_, column, count))) = &known else { return fail(info, "a result that is not there") };
            let Some(row) = row.filter(|row| row < count) else { return fail(info, "a row that is not there") };
            if !column.validity.is_null() && column.validity.add(row / 8).read() >> (row % 8) & 1 == 0 {
                set_null(output, at as u64);
            } else {
                f(column, row, at);
            }
        }
    }
}

type Found = (std::sync::Arc<super::registry::Answer>, Column, usize);

fn found(key: u64, column: i32) -> Option<Found> {
    let answer = answer(key)?;
    let mut place = Column { values: std::ptr::null(), validity: std::ptr::null(), offsets: std::ptr::null() };
    // SAFETY: a result that lives, and a place for a view of it.
    unsafe {
        if !(engine().answer_column)(answer.0, u64::try_from(column).ok()?, &raw mut place) {
            return None;
        }
        let count = usize::try_from((engine().answer_rows)(answer.0)).ok()?;
        Some((answer, place, count))
    }
}
