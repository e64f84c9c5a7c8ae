//! The C interface. The header is `duckdb/src/engine.h`: both change together. [`ABI`] is a checksum of the header.
//!
//! No panic leaves a function: it becomes an error of the plan, the input or the run.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, OnceLock};

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use crate::Refused;
use crate::attached::abi as attached;
use crate::attached::database::Database;
use crate::attached::scan::Scan;
use crate::attached::table::OwnTable;
use crate::attached::transaction::Transaction;
use crate::cache;
use crate::door::abi as door;
use crate::door::rows::SourceView;
use crate::execute::{Ended, execute, open_device};
use crate::input::{Input, Part, Reading, VectorView};
use crate::output::{ColumnView, Rows};
use crate::plan::Plan;

#[path = "../../../duckdb/src/interface.rs"]
mod interface;

pub use interface::ABI;

/// A plan, or the reason why it is refused.
pub struct PlanHandle {
    plan: Option<Arc<Plan>>,
    refusal: Option<CString>,
    text: OnceLock<CString>,
}

/// One input of one execution, or the reason why there is none.
pub struct InputHandle {
    input: Result<Input, String>,
    error: OnceLock<CString>,
}

impl InputHandle {
    /// Makes the handle of an input, or of the reason why there is none.
    pub(crate) fn of(made: Result<Input, Refused>) -> Self {
        Self { input: made.map_err(|refused| refused.reason), error: OnceLock::new() }
    }

    /// Records the reason why rows are refused.
    fn fail(&self, reason: String) {
        if let Ok(input) = &self.input {
            input.fail(reason);
        }
    }

    fn reason(&self) -> Option<&str> {
        self.input.as_ref().map_or_else(|reason| Some(reason.as_str()), Input::error)
    }
}

/// One execution.
pub struct RunHandle {
    plan: Arc<Plan>,
    inputs: Vec<*mut InputHandle>,
    threads: usize,
    rows: Rows,
    error: CString,
    profile: CString,
}

type Interrupted = unsafe extern "C" fn(*mut c_void) -> bool;

/// The functions of the interface; the header says what each does and which side owns the values that it returns.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct Engine {
    pub abi: u32,
    pub version: extern "C" fn() -> *const c_char,
    pub plan_new: unsafe extern "C" fn(*const c_char, usize, Interrupted, *mut c_void) -> *mut PlanHandle,
    pub plan_refusal: unsafe extern "C" fn(*const PlanHandle) -> *const c_char,
    pub plan_text: unsafe extern "C" fn(*const PlanHandle) -> *const c_char,
    pub plan_columns: unsafe extern "C" fn(*const PlanHandle, usize, *mut *const u32) -> usize,
    pub plan_free: unsafe extern "C" fn(*mut PlanHandle),
    pub input_new: unsafe extern "C" fn(*const PlanHandle, usize, *const c_char) -> *mut InputHandle,
    pub input_missing: unsafe extern "C" fn(*const InputHandle, *mut *const u32) -> usize,
    pub part_new: unsafe extern "C" fn(*const InputHandle) -> *mut Part,
    pub part_push: unsafe extern "C" fn(*const InputHandle, *mut Part, u64, *const VectorView, usize) -> bool,
    pub part_take: unsafe extern "C" fn(*const InputHandle, *mut Part, u64, u64) -> bool,
    pub part_free: unsafe extern "C" fn(*mut Part),
    pub input_error: unsafe extern "C" fn(*const InputHandle) -> *const c_char,
    pub input_free: unsafe extern "C" fn(*mut InputHandle),
    pub run_new: unsafe extern "C" fn(*const PlanHandle, *const *mut InputHandle, u64, u64) -> *mut RunHandle,
    pub run_execute: unsafe extern "C" fn(*mut RunHandle, Interrupted, *mut c_void) -> i32,
    pub run_next: unsafe extern "C" fn(*mut RunHandle, *mut ColumnView) -> u64,
    pub run_error: unsafe extern "C" fn(*const RunHandle) -> *const c_char,
    pub run_profile: unsafe extern "C" fn(*const RunHandle) -> *const c_char,
    pub run_free: unsafe extern "C" fn(*mut RunHandle),
    pub cache_text: extern "C" fn() -> *mut c_char,
    pub cache_clear: extern "C" fn(),
    pub cache_limit: extern "C" fn(u64),
    pub text_free: unsafe extern "C" fn(*mut c_char),
    pub door_first: unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_char,
    pub door_rewrite: unsafe extern "C" fn(*const door::DoorRequest, *mut *mut c_char) -> *mut c_char,
    pub rows_new: unsafe extern "C" fn(*const c_char) -> *mut door::RowsHandle,
    pub rows_push: unsafe extern "C" fn(*mut door::RowsHandle, u64, *const SourceView) -> bool,
    pub rows_merge: unsafe extern "C" fn(*mut door::RowsHandle, *mut door::RowsHandle),
    pub rows_error: unsafe extern "C" fn(*const door::RowsHandle) -> *const c_char,
    pub rows_free: unsafe extern "C" fn(*mut door::RowsHandle),
    pub answer_new:
        unsafe extern "C" fn(*const c_char, u64, *const *mut door::RowsHandle, usize) -> *mut door::AnswerHandle,
    pub answer_error: unsafe extern "C" fn(*const door::AnswerHandle) -> *const c_char,
    pub answer_rows: unsafe extern "C" fn(*const door::AnswerHandle) -> u64,
    pub answer_column: unsafe extern "C" fn(*const door::AnswerHandle, u64, *mut ColumnView) -> bool,
    pub answer_profile: unsafe extern "C" fn(*const door::AnswerHandle) -> *const c_char,
    pub answer_free: unsafe extern "C" fn(*mut door::AnswerHandle),
    pub database_open: unsafe extern "C" fn(*const c_char, bool, *mut attached::Failure) -> *mut Arc<Database>,
    pub database_free: unsafe extern "C" fn(*mut Arc<Database>),
    pub transaction_begin: unsafe extern "C" fn(*const Arc<Database>, *mut attached::Failure) -> *mut Transaction,
    pub transaction_commit: unsafe extern "C" fn(*mut Transaction, *mut attached::Failure) -> bool,
    pub transaction_rollback: unsafe extern "C" fn(*mut Transaction),
    pub transaction_schemas: unsafe extern "C" fn(*const Transaction, *mut attached::Failure) -> *mut attached::Texts,
    pub transaction_tables:
        unsafe extern "C" fn(*const Transaction, *const c_char, *mut attached::Failure) -> *mut attached::Texts,
    pub transaction_execute:
        unsafe extern "C" fn(*const Transaction, *const c_char, bool, *mut attached::Failure) -> bool,
    pub texts_count: unsafe extern "C" fn(*const attached::Texts) -> usize,
    pub texts_get: unsafe extern "C" fn(*const attached::Texts, usize) -> *const c_char,
    pub texts_free: unsafe extern "C" fn(*mut attached::Texts),
    pub table_open:
        unsafe extern "C" fn(*const Transaction, *const c_char, *const c_char, *mut attached::Failure) -> *mut OwnTable,
    pub table_columns: unsafe extern "C" fn(*const OwnTable) -> usize,
    pub table_column: unsafe extern "C" fn(*const OwnTable, usize, *mut attached::ColumnInfo),
    pub table_key: unsafe extern "C" fn(*const OwnTable, usize, *mut *const u32, *mut bool) -> usize,
    pub table_rows: unsafe extern "C" fn(*const OwnTable) -> u64,
    pub table_free: unsafe extern "C" fn(*mut OwnTable),
    pub scan_new: unsafe extern "C" fn(
        *const OwnTable,
        *const u32,
        usize,
        *const attached::BoundView,
        usize,
        *mut attached::Failure,
    ) -> *mut Scan,
    pub scan_schema: unsafe extern "C" fn(*const Scan, *mut FFI_ArrowSchema, *mut attached::Failure) -> bool,
    pub scan_parts: unsafe extern "C" fn(*const Scan, *mut u64) -> u64,
    pub scan_next:
        unsafe extern "C" fn(*const Scan, *mut FFI_ArrowArray, *mut u64, *mut u64, *mut attached::Failure) -> i32,
    pub scan_free: unsafe extern "C" fn(*mut Scan),
    pub append_new: unsafe extern "C" fn(
        *const Transaction,
        *const c_char,
        *const FFI_ArrowSchema,
        *mut attached::Failure,
    ) -> *mut attached::AppendHandle,
    pub append_push:
        unsafe extern "C" fn(*const attached::AppendHandle, *mut FFI_ArrowArray, *mut attached::Failure) -> bool,
    pub append_finish: unsafe extern "C" fn(*const attached::AppendHandle, *mut u64, *mut attached::Failure) -> bool,
    pub append_free: unsafe extern "C" fn(*mut attached::AppendHandle),
    pub input_of_table: unsafe extern "C" fn(*const PlanHandle, usize, *const OwnTable) -> *mut InputHandle,
}

static ENGINE: Engine = Engine {
    abi: ABI,
    version,
    plan_new,
    plan_refusal,
    plan_text,
    plan_columns,
    plan_free,
    input_new,
    input_missing,
    part_new,
    part_push,
    part_take,
    part_free,
    input_error,
    input_free,
    run_new,
    run_execute,
    run_next,
    run_error,
    run_profile,
    run_free,
    cache_text,
    cache_clear,
    cache_limit,
    text_free,
    door_first: door::door_first,
    door_rewrite: door::door_rewrite,
    rows_new: door::rows_new,
    rows_push: door::rows_push,
    rows_merge: door::rows_merge,
    rows_error: door::rows_error,
    rows_free: door::rows_free,
    answer_new: door::answer_new,
    answer_error: door::answer_error,
    answer_rows: door::answer_rows,
    answer_column: door::answer_column,
    answer_profile: door::answer_profile,
    answer_free: door::answer_free,
    database_open: attached::database_open,
    database_free: attached::database_free,
    transaction_begin: attached::transaction_begin,
    transaction_commit: attached::transaction_commit,
    transaction_rollback: attached::transaction_rollback,
    transaction_schemas: attached::transaction_schemas,
    transaction_tables: attached::transaction_tables,
    transaction_execute: attached::transaction_execute,
    texts_count: attached::texts_count,
    texts_get: attached::texts_get,
    texts_free: attached::texts_free,
    table_open: attached::table_open,
    table_columns: attached::table_columns,
    table_column: attached::table_column,
    table_key: attached::table_key,
    table_rows: attached::table_rows,
    table_free: attached::table_free,
    scan_new: attached::scan_new,
    scan_schema: attached::scan_schema,
    scan_parts: attached::scan_parts,
    scan_next: attached::scan_next,
    scan_free: attached::scan_free,
    append_new: attached::append_new,
    append_push: attached::append_push,
    append_finish: attached::append_finish,
    append_free: attached::append_free,
    input_of_table: attached::input_of_table,
};

/// The interface: the only symbol that is looked up by name.
#[unsafe(no_mangle)]
pub extern "C" fn warpmill_duckdb_engine() -> *const Engine {
    &ENGINE
}

/// `text` as a C string, without its zero bytes.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Runs `f`; a panic is a refusal.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    warpmill::caught(f).unwrap_or_else(|panic| Err(panic.into()))
}

/// Frees the value of a handle. A panic while it is dropped is ignored: no caller could handle it.
pub(crate) fn free<T>(handle: Box<T>) {
    let _ = warpmill::caught(|| drop(handle));
}

extern "C" fn version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// SAFETY: `json` has `length` bytes; `interrupted` and `context` come from the shim.
unsafe extern "C" fn plan_new(
    json: *const c_char,
    length: usize,
    interrupted: Interrupted,
    context: *mut c_void,
) -> *mut PlanHandle {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(json.cast::<u8>(), length) };
    let verdict = guarded(|| match std::str::from_utf8(bytes) {
        // SAFETY: the caller's promise.
        Ok(text) => Plan::of(text, || unsafe { interrupted(context) }),
        Err(_) => Err(Refused::new("a plan with text that is not UTF-8")),
    });
    let handle = match verdict {
        Ok(None) => return std::ptr::null_mut(),
        Ok(Some(plan)) => PlanHandle { plan: Some(plan), refusal: None, text: OnceLock::new() },
        Err(refused) => PlanHandle { plan: None, refusal: Some(c_text(&refused.reason)), text: OnceLock::new() },
    };
    Box::into_raw(Box::new(handle))
}

/// SAFETY (here and below): handles come from this interface and have not been freed.
unsafe extern "C" fn plan_refusal(plan: *const PlanHandle) -> *const c_char {
    // SAFETY: see above.
    unsafe { &*plan }.refusal.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn plan_text(plan: *const PlanHandle) -> *const c_char {
    // SAFETY: see `plan_refusal`.
    let handle = unsafe { &*plan };
    let described = || handle.plan.as_ref().map_or(String::new(), |plan| plan.describe());
    let text = || c_text(&guarded(|| Ok(described())).unwrap_or_else(|refused| refused.reason));
    handle.text.get_or_init(text).as_ptr()
}

unsafe extern "C" fn plan_columns(plan: *const PlanHandle, input: usize, columns: *mut *const u32) -> usize {
    // SAFETY: see `plan_refusal`; `columns` is a place for a pointer.
    let (plan, columns) = unsafe { (&*plan, &mut *columns) };
    let needed = plan.plan.as_ref().and_then(|plan| plan.inputs.get(input));
    let list = needed.map_or(&[][..], |needed| &needed.columns);
    *columns = list.as_ptr();
    list.len()
}

unsafe extern "C" fn plan_free(plan: *mut PlanHandle) {
    // SAFETY: see `plan_refusal`.
    free(unsafe { Box::from_raw(plan) });
}

/// The plan of a handle, which the shim uses only when it is not refused.
///
/// SAFETY: see `plan_refusal`.
pub(crate) unsafe fn accepted(plan: *const PlanHandle) -> Arc<Plan> {
    // SAFETY: see `plan_refusal`.
    let plan = unsafe { &*plan }.plan.as_ref();
    Arc::clone(plan.expect("only plans that are not refused are run"))
}

unsafe extern "C" fn input_new(plan: *const PlanHandle, input: usize, key: *const c_char) -> *mut InputHandle {
    // SAFETY: see `plan_refusal`; a key is a string.
    let (plan, key) = unsafe { (accepted(plan), (!key.is_null()).then(|| CStr::from_ptr(key))) };
    let key = key.and_then(|key| key.to_str().ok()).map(str::to_string);
    let made = guarded(|| {
        open_device();
        Ok(Input::new(plan, input, key))
    });
    Box::into_raw(Box::new(InputHandle::of(made)))
}

unsafe extern "C" fn input_missing(input: *const InputHandle, columns: *mut *const u32) -> usize {
    // SAFETY: see `plan_refusal`; `columns` is a place for a pointer.
    let (handle, columns) = unsafe { (&*input, &mut *columns) };
    let missing = handle.input.as_ref().map_or(&[][..], Input::missing);
    *columns = missing.as_ptr();
    missing.len()
}

unsafe extern "C" fn part_new(input: *const InputHandle) -> *mut Part {
    // SAFETY: see `plan_refusal`.
    let handle = unsafe { &*input };
    let part = guarded(|| Ok(handle.input.as_ref().map_or_else(|_| Part::default(), Input::part)));
    Box::into_raw(Box::new(part.unwrap_or_else(|refused| {
        handle.fail(refused.reason);
        Part::default()
    })))
}

unsafe extern "C" fn part_push(
    input: *const InputHandle,
    part: *mut Part,
    rows: u64,
    columns: *const VectorView,
    count: usize,
) -> bool {
    // SAFETY: see `plan_refusal`; there are `count` vectors. The part is this thread's.
    let (handle, part) = unsafe { (&*input, &mut *part) };
    // SAFETY: see above.
    let columns = if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(columns, count) } };
    // SAFETY: the vectors are those of the missing columns, and have this many rows.
    let pushed = guarded(|| unsafe { part.push(rows as usize, columns) });
    pushed.map_err(|refused| handle.fail(refused.reason)).is_ok()
}

/// Hands the rows of a part to its input. A `place` with all bits set means that the rows have no place.
unsafe extern "C" fn part_take(input: *const InputHandle, part: *mut Part, place: u64, least: u64) -> bool {
    // SAFETY: see `part_push`.
    let (handle, part) = unsafe { (&*input, &mut *part) };
    let place = (place != u64::MAX).then_some(place);
    let taken = guarded(|| Ok(handle.input.as_ref().is_ok_and(|input| input.take(part, place, least))));
    taken.unwrap_or_else(|refused| {
        handle.fail(refused.reason);
        false
    })
}

unsafe extern "C" fn part_free(part: *mut Part) {
    // SAFETY: see `plan_refusal`.
    free(unsafe { Box::from_raw(part) });
}

unsafe extern "C" fn input_error(input: *const InputHandle) -> *const c_char {
    // SAFETY: see `plan_refusal`.
    let handle = unsafe { &*input };
    handle.reason().map_or(std::ptr::null(), |reason| handle.error.get_or_init(|| c_text(reason)).as_ptr())
}

unsafe extern "C" fn input_free(input: *mut InputHandle) {
    // SAFETY: see `plan_refusal`.
    free(unsafe { Box::from_raw(input) });
}

unsafe extern "C" fn run_new(
    plan: *const PlanHandle,
    inputs: *const *mut InputHandle,
    threads: u64,
    _memory: u64,
) -> *mut RunHandle {
    // SAFETY: see `plan_refusal`; there is a pointer for each input of the plan.
    let (plan, inputs) = unsafe {
        let plan = accepted(plan);
        let inputs = std::slice::from_raw_parts(inputs, plan.inputs.len());
        (plan, inputs.to_vec())
    };
    let threads = usize::try_from(threads).unwrap_or(0);
    let handle = RunHandle {
        plan,
        inputs,
        threads,
        rows: Rows::default(),
        error: CString::default(),
        profile: CString::default(),
    };
    Box::into_raw(Box::new(handle))
}

unsafe extern "C" fn run_execute(run: *mut RunHandle, interrupted: Interrupted, context: *mut c_void) -> i32 {
    // SAFETY: see `plan_refusal`.
    let run = unsafe { &mut *run };
    let result = guarded(|| {
        let mut reading = None;
        let tables = run.inputs.iter().map(|&input| {
            // SAFETY: inputs outlive the run, and nobody else uses them by now.
            let input = unsafe { &mut *input }.input.as_mut().map_err(|reason| Refused::new(reason.clone()))?;
            let table = input.finish(run.threads)?;
            reading = Some(reading.map_or(input.reading, |all: Reading| all.and(input.reading)));
            Ok(table)
        });
        let tables = tables.collect::<Result<Vec<_>, Refused>>()?;
        let reading = reading.unwrap_or_default();
        // SAFETY: the shim's own function and context.
        match execute(&run.plan, &tables, (run.threads, reading), || unsafe { interrupted(context) })? {
            Ended::Interrupted => Ok(None),
            Ended::Done(batches, profile) => Ok(Some((Rows::new(batches, &run.plan.types)?, profile))),
        }
    });
    match result {
        Ok(Some((rows, profile))) => {
            run.rows = rows;
            run.profile = c_text(&serde_json::to_string(&profile).unwrap_or_default());
            0
        }
        Ok(None) => 2,
        Err(refused) => {
            run.error = c_text(&refused.reason);
            1
        }
    }
}

unsafe extern "C" fn run_next(run: *mut RunHandle, columns: *mut ColumnView) -> u64 {
    // SAFETY: see `plan_refusal`.
    let run = unsafe { &mut *run };
    let Some(batch) = run.rows.next_batch() else { return 0 };
    for (i, view) in batch.views().enumerate() {
        // SAFETY: there is a place for each column of the result.
        unsafe { columns.add(i).write(view) };
    }
    batch.rows() as u64
}

unsafe extern "C" fn run_error(run: *const RunHandle) -> *const c_char {
    // SAFETY: see `plan_refusal`.
    unsafe { &*run }.error.as_ptr()
}

unsafe extern "C" fn run_profile(run: *const RunHandle) -> *const c_char {
    // SAFETY: see `plan_refusal`.
    unsafe { &*run }.profile.as_ptr()
}

unsafe extern "C" fn run_free(run: *mut RunHandle) {
    // SAFETY: see `plan_refusal`.
    free(unsafe { Box::from_raw(run) });
}

extern "C" fn cache_text() -> *mut c_char {
    c_text(&guarded(|| Ok(cache::describe())).unwrap_or_else(|refused| refused.reason)).into_raw()
}

extern "C" fn cache_clear() {
    let _ = warpmill::caught(cache::clear);
}

extern "C" fn cache_limit(bytes: u64) {
    let _ = warpmill::caught(|| cache::set_limit(bytes));
}

/// SAFETY: `text` is from this interface.
unsafe extern "C" fn text_free(text: *mut c_char) {
    // SAFETY: see above.
    drop(unsafe { CString::from_raw(text) });
}
