//! `warpmill_run(plan, threads, scope, keys...)`, which runs a plan over collected rows, and `warpmill_rows(answer)`.

use std::sync::atomic::Ordering;

use libduckdb_sys as ffi;

use super::registry::{Answer, COUNTERS, Outcome, Rows, answer, put_answer, report, take_rows};
use super::{BIGINT, Registration, Scalar, UBIGINT, VARCHAR, data, fail, is_valid, string, vector};
use crate::engine::{borrowed, c_text, engine};

pub fn register(registration: &Registration) -> Result<(), String> {
    registration.scalar(&Scalar {
        name: "warpmill_run",
        parameters: &[VARCHAR, UBIGINT, UBIGINT],
        more: Some(UBIGINT),
        result: UBIGINT,
        volatile: true,
        call: run,
    })?;
    registration.scalar(&Scalar {
        name: "warpmill_rows",
        parameters: &[UBIGINT],
        more: None,
        result: BIGINT,
        volatile: false,
        call: rows,
    })
}

/// The error of a query that failed during execution.
pub fn not_finished(error: &str) -> String {
    format!(
        "Warpmill could not finish this query: {error}. The query itself, without warpmill('...'), is run by DuckDB"
    )
}

/// Counts a query that failed during execution, and records the reason.
pub fn failed(error: &str) {
    COUNTERS.failed.fetch_add(1, Ordering::Relaxed);
    report(Outcome { reason: Some(format!("failed while it ran: {error}")), ..Outcome::default() });
}

unsafe extern "C" fn run(info: ffi::duckdb_function_info, input: ffi::duckdb_data_chunk, output: ffi::duckdb_vector) {
    // SAFETY: DuckDB's call of this function.
    unsafe {
        for row in 0..ffi::duckdb_data_chunk_get_size(input) {
            match one(input, row) {
                Ok(key) => data::<u64>(output).add(usize::try_from(row).unwrap_or(0)).write(key),
                Err(error) => {
                    failed(&error);
                    return fail(info, &not_finished(&error));
                }
            }
        }
    }
}

/// SAFETY: a row of a call.
unsafe fn one(input: ffi::duckdb_data_chunk, row: u64) -> Result<u64, String> {
    // SAFETY: the caller's promise; rows that are taken are handed over.
    unsafe {
        if (0..3).any(|column| !is_valid(vector(input, column), row)) {
            return Err("warpmill_run without a plan".to_string());
        }
        let number = |column| data::<u64>(vector(input, column)).add(usize::try_from(row).unwrap_or(0)).read();
        let mut inputs = Vec::new();
        for column in 3..ffi::duckdb_data_chunk_get_column_count(input) {
            let rows = match is_valid(vector(input, column), row) {
                true => take_rows(number(column)).ok_or("the rows of a table are gone")?,
                false => Rows::new(std::ptr::null_mut()),
            };
            inputs.push(rows);
        }
        COUNTERS.scanned.fetch_add(inputs.len() as u64, Ordering::Relaxed);
        let (plan, scope) = (c_text(&string(vector(input, 0), row)), number(2));
        let inputs: Vec<_> = inputs.into_iter().map(Rows::into_raw).collect();
        let made = Answer((engine().answer_new)(plan.as_ptr(), number(1), inputs.as_ptr(), inputs.len()));
        if let Some(error) = borrowed((engine().answer_error)(made.0)) {
            return Err(error);
        }
        let profile = borrowed((engine().answer_profile)(made.0));
        let key = put_answer(scope, made).ok_or("the statement has ended")?;
        COUNTERS.accelerated.fetch_add(1, Ordering::Relaxed);
        report(Outcome { accelerated: true, reason: None, profile });
        Ok(key)
    }
}

unsafe extern "C" fn rows(info: ffi::duckdb_function_info, input: ffi::duckdb_data_chunk, output: ffi::duckdb_vector) {
    // SAFETY: DuckDB's call of this function.
    unsafe {
        for row in 0..ffi::duckdb_data_chunk_get_size(input) {
            let at = usize::try_from(row).unwrap_or(0);
            let Some(found) = answer(data::<u64>(vector(input, 0)).add(at).read()) else {
                return fail(info, "warpmill_rows of a result that is not there");
            };
            let count = i64::try_from((engine().answer_rows)(found.0)).unwrap_or(i64::MAX);
            data::<i64>(output).add(at).write(count);
        }
    }
}
