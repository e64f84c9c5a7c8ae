//! The part of the C interface that the explicit door uses; see `duckdb/src/engine.h` for what each function does.

use std::ffi::{CStr, CString, c_char};

use super::answer::Answer;
use super::rows::{Rows, SourceView};
use super::{Request, Rewritten, first_text, rewrite};
use crate::abi::{c_text, free, guarded};
use crate::output::ColumnView;

/// Rows of one table, or the reason why there are none.
pub struct RowsHandle {
    rows: Option<Rows>,
    error: CString,
}

/// A result, or the reason why there is none.
pub struct AnswerHandle {
    answer: Option<Answer>,
    error: CString,
    profile: CString,
}

/// SAFETY (here and below): texts are C strings, handles come from this interface and have not been freed.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    // SAFETY: see above. DuckDB's text is UTF-8.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

pub(crate) unsafe extern "C" fn door_first(query: *const c_char, fallback: *const c_char) -> *mut c_char {
    // SAFETY: see `text`.
    let (query, fallback) = unsafe { (text(query), text(fallback)) };
    let first = guarded(|| Ok(first_text(query, fallback)));
    // Without a first text, DuckDB gets the query itself.
    c_text(first.as_deref().unwrap_or(query)).into_raw()
}

/// The arguments of a call of `warpmill_plan`; see the header.
#[repr(C)]
pub struct DoorRequest {
    query: *const c_char,
    plan: *const c_char,
    fallback: *const c_char,
    /// Null if the values have not been requested yet.
    values: *const c_char,
    version: u32,
    ieee: bool,
}

pub(crate) unsafe extern "C" fn door_rewrite(request: *const DoorRequest, reason: *mut *mut c_char) -> *mut c_char {
    // SAFETY: see `text`; `reason` is a place for a pointer.
    let (request, fallback, reason) = unsafe {
        let given = &*request;
        let values = (!given.values.is_null()).then(|| text(given.values));
        let (query, plan) = (text(given.query), text(given.plan));
        let request = Request { query, plan, ieee: given.ieee, version: given.version, values };
        (request, text(given.fallback), &mut *reason)
    };
    let rewritten = guarded(|| Ok(rewrite(request, fallback)));
    let (text, why) = match rewritten {
        Ok(Rewritten::Text(text)) => (text, None),
        Ok(Rewritten::Left(text, why)) => (text, why),
        Err(refused) => (request.query.to_string(), Some(refused.reason)),
    };
    *reason = why.map_or(std::ptr::null_mut(), |why| c_text(&why).into_raw());
    c_text(&text).into_raw()
}

pub(crate) unsafe extern "C" fn rows_new(schema: *const c_char) -> *mut RowsHandle {
    // SAFETY: see `text`.
    let rows = guarded(|| Rows::new(unsafe { text(schema) }));
    let handle = match rows {
        Ok(rows) => RowsHandle { rows: Some(rows), error: CString::default() },
        Err(refused) => RowsHandle { rows: None, error: c_text(&refused.reason) },
    };
    Box::into_raw(Box::new(handle))
}

pub(crate) unsafe extern "C" fn rows_push(rows: *mut RowsHandle, count: u64, columns: *const SourceView) -> bool {
    // SAFETY: see `text`.
    let handle = unsafe { &mut *rows };
    let Some(rows) = &mut handle.rows else { return false };
    let pushed = guarded(|| {
        // SAFETY: there is a view for each column, and each has this many rows.
        unsafe {
            let columns = std::slice::from_raw_parts(columns, rows.columns());
            rows.push(usize::try_from(count).unwrap_or(0), columns)
        }
    });
    if let Err(refused) = &pushed {
        handle.error = c_text(&refused.reason);
        handle.rows = None;
    }
    pushed.is_ok()
}

pub(crate) unsafe extern "C" fn rows_merge(rows: *mut RowsHandle, other: *mut RowsHandle) {
    // SAFETY: see `text`; `other` is handed over.
    let (into, from) = unsafe { (&mut *rows, Box::from_raw(other)) };
    match (&mut into.rows, from.rows) {
        (Some(rows), Some(more)) => {
            if let Err(panic) = warpmill::caught(|| rows.merge(more)) {
                into.error = c_text(&panic.to_string());
                into.rows = None;
            }
        }
        (rows @ Some(_), None) => {
            *rows = None;
            into.error = from.error;
        }
        (None, _) => {}
    }
}

pub(crate) unsafe extern "C" fn rows_error(rows: *const RowsHandle) -> *const c_char {
    // SAFETY: see `text`.
    unsafe { &*rows }.error.as_ptr()
}

pub(crate) unsafe extern "C" fn rows_free(rows: *mut RowsHandle) {
    // SAFETY: see `text`.
    free(unsafe { Box::from_raw(rows) });
}

pub(crate) unsafe extern "C" fn answer_new(
    plan: *const c_char,
    threads: u64,
    inputs: *const *mut RowsHandle,
    count: usize,
) -> *mut AnswerHandle {
    // SAFETY: see `text`; inputs are handed over, and are null for tables without rows.
    let (plan, inputs) = unsafe {
        let inputs = std::slice::from_raw_parts(inputs, count).iter();
        (text(plan), inputs.map(|&rows| (!rows.is_null()).then(|| Box::from_raw(rows))).collect::<Vec<_>>())
    };
    let answer = guarded(|| {
        let rows = inputs.into_iter().map(|handle| match handle.map(|handle| *handle) {
            None => Ok(None),
            Some(RowsHandle { rows: Some(rows), .. }) => Ok(Some(rows)),
            Some(RowsHandle { error, .. }) => Err(crate::Refused::new(error.to_string_lossy())),
        });
        Answer::new(plan, usize::try_from(threads).unwrap_or(0), rows.collect::<Result<_, _>>()?)
    });
    let handle = match answer {
        Ok(answer) => {
            AnswerHandle { profile: c_text(&answer.profile), answer: Some(answer), error: CString::default() }
        }
        Err(refused) => AnswerHandle { answer: None, error: c_text(&refused.reason), profile: CString::default() },
    };
    Box::into_raw(Box::new(handle))
}

pub(crate) unsafe extern "C" fn answer_error(answer: *const AnswerHandle) -> *const c_char {
    // SAFETY: see `text`.
    let handle = unsafe { &*answer };
    if handle.answer.is_some() { std::ptr::null() } else { handle.error.as_ptr() }
}

pub(crate) unsafe extern "C" fn answer_rows(answer: *const AnswerHandle) -> u64 {
    // SAFETY: see `text`.
    unsafe { &*answer }.answer.as_ref().map_or(0, Answer::rows) as u64
}

pub(crate) unsafe extern "C" fn answer_column(answer: *const AnswerHandle, at: u64, column: *mut ColumnView) -> bool {
    // SAFETY: see `text`; `column` is a place for a view.
    let (answer, place) = unsafe { ((*answer).answer.as_ref(), column) };
    let column = |answer: &Answer| answer.column(usize::try_from(at).ok()?);
    let view = answer.and_then(|answer| warpmill::caught(|| column(answer)).ok().flatten());
    if let Some(view) = view {
        // SAFETY: see above.
        unsafe { place.write(view) };
    }
    view.is_some()
}

pub(crate) unsafe extern "C" fn answer_profile(answer: *const AnswerHandle) -> *const c_char {
    // SAFETY: see `text`.
    unsafe { &*answer }.profile.as_ptr()
}

pub(crate) unsafe extern "C" fn answer_free(answer: *mut AnswerHandle) {
    // SAFETY: see `text`.
    free(unsafe { Box::from_raw(answer) });
}
