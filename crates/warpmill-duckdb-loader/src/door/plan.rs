//! `warpmill_sql`, `warpmill_explain_sql` and `warpmill_plan`: the texts that replace a query.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use libduckdb_sys as ffi;

use super::registry::{COUNTERS, Outcome, report};
use super::{Registration, Scalar, VARCHAR, fail, set_text, string, vector};
use crate::engine::{Request, c_text, engine, owned};

/// SQL for the fallback setting without the shim, which has its own.
const VARIABLE: &str = "coalesce(CAST(getvariable('warpmill_fallback') AS VARCHAR), 'allow')";

/// Whether the shim is there, too.
static TRANSPARENT: AtomicBool = AtomicBool::new(false);

pub fn register(registration: &Registration) -> Result<(), String> {
    TRANSPARENT.store(registration.transparent, Ordering::Relaxed);
    let text = |name, parameters, call| Scalar { name, parameters, more: None, result: VARCHAR, volatile: false, call };
    registration.scalar(&text("warpmill_sql", &[VARCHAR], sql))?;
    registration.scalar(&text("warpmill_explain_sql", &[VARCHAR], explain_sql))?;
    registration.scalar(&text("warpmill_plan", &[VARCHAR; 5], rewrite))
}

unsafe extern "C" fn sql(_info: ffi::duckdb_function_info, input: ffi::duckdb_data_chunk, output: ffi::duckdb_vector) {
    // SAFETY: DuckDB's call of this function.
    unsafe {
        if TRANSPARENT.load(Ordering::Relaxed) {
            // The shim's own function decides whether to leave the statement unchanged.
            each(input, output, |query| format!("FROM warpmill('{}')", query.replace('\'', "''")));
        } else {
            each(input, output, |query| first(query, VARIABLE));
        }
    }
}

unsafe extern "C" fn explain_sql(
    _info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    output: ffi::duckdb_vector,
) {
    // SAFETY: DuckDB's call of this function.
    unsafe { each(input, output, |query| first(query, "'explain'")) };
}

/// SAFETY: called from a function with one text argument.
unsafe fn each(input: ffi::duckdb_data_chunk, output: ffi::duckdb_vector, f: impl Fn(&str) -> String) {
    // SAFETY: the caller's promise; NULLs are not passed, and rows of NULLs contain valid texts.
    unsafe {
        for row in 0..ffi::duckdb_data_chunk_get_size(input) {
            if super::is_valid(vector(input, 0), row) {
                set_text(output, row, f(&string(vector(input, 0), row)).as_bytes());
            } else {
                super::set_null(output, row);
            }
        }
    }
}

fn first(query: &str, fallback: &str) -> String {
    // SAFETY: texts for the time of the call.
    unsafe { owned((engine().door_first)(c_text(query).as_ptr(), c_text(fallback).as_ptr())) }.unwrap_or_default()
}

/// 20000 for 2.0.0.
fn version() -> u32 {
    // SAFETY: a static string of DuckDB's.
    let text = unsafe { CStr::from_ptr(ffi::duckdb_library_version()) }.to_string_lossy().into_owned();
    let mut parts = text.trim_start_matches('v').split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    parts.by_ref().take(3).fold(0, |number, part| number * 100 + part)
}

unsafe extern "C" fn rewrite(
    info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    output: ffi::duckdb_vector,
) {
    // SAFETY: DuckDB's call of this function, with five texts.
    unsafe {
        for row in 0..ffi::duckdb_data_chunk_get_size(input) {
            if (0..5).any(|column| !super::is_valid(vector(input, column), row)) {
                super::set_null(output, row);
                continue;
            }
            let [query, plan, ieee, fallback, values] =
                [0, 1, 2, 3, 4].map(|column| string(vector(input, column), row));
            match next(&query, &plan, ieee == "true", &fallback, &values) {
                Ok(text) => set_text(output, row, text.as_bytes()),
                Err(error) => return fail(info, &error),
            }
        }
    }
}

fn next(query: &str, plan: &str, ieee: bool, fallback: &str, values: &str) -> Result<String, String> {
    if !["allow", "error", "explain"].contains(&fallback) {
        return Err(format!("warpmill_fallback is 'allow' or 'error', not '{fallback}'"));
    }
    let mut reason = std::ptr::null_mut();
    let [c_query, c_plan, c_fallback, c_values] = [query, plan, fallback, values].map(c_text);
    let request = Request {
        query: c_query.as_ptr(),
        plan: c_plan.as_ptr(),
        fallback: c_fallback.as_ptr(),
        values: if values.is_empty() { std::ptr::null() } else { c_values.as_ptr() },
        version: version(),
        ieee,
    };
    // SAFETY: texts for the time of the call; what comes back is ours.
    let (text, reason) = unsafe {
        let text = owned((engine().door_rewrite)(&raw const request, &raw mut reason)).unwrap_or_default();
        (text, owned(reason))
    };
    if fallback == "explain" && !(text.starts_with("FROM query(warpmill_plan(") || text.starts_with("SELECT true AS "))
    {
        let reason = reason.unwrap_or_else(|| "it reads no table, or is not one SELECT".to_string());
        return Ok(format!("SELECT false AS accelerated, '{}' AS text", reason.replace('\'', "''")));
    }
    let Some(reason) = reason else { return Ok(text) };
    COUNTERS.left.fetch_add(1, Ordering::Relaxed);
    report(Outcome { reason: Some(reason.clone()), ..Outcome::default() });
    if fallback == "error" {
        return Err(format!("Warpmill does not run this query: {reason} (warpmill_fallback is 'error')"));
    }
    Ok(text)
}
