//! The part of the C interface that attached databases use; see `duckdb/src/engine.h` for what each function does.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StructArray, make_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use warpmill_format::StatValue;

use super::append::Append;
use super::bounds::{Bound, Comparison};
use super::database::Database;
use super::scan::Scan;
use super::table::OwnTable;
use super::transaction::Transaction;
use super::{Failed, Kind, guarded};
use crate::abi::{InputHandle, PlanHandle, accepted, c_text, free};
use crate::execute::open_device;
use crate::input::Input;

/// An error; see the header.
#[repr(C)]
pub struct Failure {
    kind: i32,
    text: *mut c_char,
}

/// A column; see the header.
#[repr(C)]
pub struct ColumnInfo {
    name: *const c_char,
    ty: *const c_char,
    default: *const c_char,
    nullable: bool,
}

/// A condition; see the header.
#[repr(C)]
pub struct BoundView {
    column: u32,
    comparison: u32,
    kind: u32,
    high: i64,
    low: u64,
    number: f64,
    text: *const c_char,
    length: usize,
}

/// Texts that a function returns; the caller frees them.
pub struct Texts(Vec<CString>);

/// Rows that are being appended to a table.
pub struct AppendHandle {
    append: Append,
    /// The type of a batch: a struct of the columns.
    batch: DataType,
    schema: SchemaRef,
}

/// Runs `done` and gives its value; on an error, writes the error to `failure` and gives `None`.
///
/// SAFETY (here and below): `failure` is a place for an error; texts are C strings, handles come from this interface and have not been freed.
unsafe fn told<T>(failure: *mut Failure, done: impl FnOnce() -> Result<T, Failed>) -> Option<T> {
    match guarded(done) {
        Ok(value) => Some(value),
        Err(failed) => {
            // SAFETY: see above.
            unsafe { failure.write(Failure { kind: failed.kind as i32, text: c_text(&failed.text).into_raw() }) };
            None
        }
    }
}

/// SAFETY: see `told`.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failed> {
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map_err(|_| Failed::new(Kind::Invalid, "text that is not UTF-8"))
}

fn boxed<T>(value: Option<T>) -> *mut T {
    value.map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

pub(crate) unsafe extern "C" fn database_open(
    path: *const c_char,
    read_only: bool,
    failure: *mut Failure,
) -> *mut Arc<Database> {
    // SAFETY: see `told`.
    unsafe { boxed(told(failure, || Ok(Arc::new(Database::open(text(path)?, read_only)?)))) }
}

pub(crate) unsafe extern "C" fn database_free(database: *mut Arc<Database>) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(database) });
}

pub(crate) unsafe extern "C" fn transaction_begin(
    database: *const Arc<Database>,
    failure: *mut Failure,
) -> *mut Transaction {
    // SAFETY: see `told`.
    unsafe { boxed(told(failure, || Transaction::begin(&*database))) }
}

pub(crate) unsafe extern "C" fn transaction_commit(transaction: *mut Transaction, failure: *mut Failure) -> bool {
    // SAFETY: see `told`.
    unsafe { told(failure, || Box::from_raw(transaction).commit()) }.is_some()
}

pub(crate) unsafe extern "C" fn transaction_rollback(transaction: *mut Transaction) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(transaction) });
}

pub(crate) unsafe extern "C" fn transaction_schemas(
    transaction: *const Transaction,
    failure: *mut Failure,
) -> *mut Texts {
    // SAFETY: see `told`.
    let names = unsafe { told(failure, || (*transaction).schemas()) };
    boxed(names.map(texts))
}

pub(crate) unsafe extern "C" fn transaction_tables(
    transaction: *const Transaction,
    schema: *const c_char,
    failure: *mut Failure,
) -> *mut Texts {
    // SAFETY: see `told`.
    let names = unsafe { told(failure, || (*transaction).tables(text(schema)?)) };
    boxed(names.map(texts))
}

pub(crate) unsafe extern "C" fn transaction_execute(
    transaction: *const Transaction,
    sql: *const c_char,
    outside: bool,
    failure: *mut Failure,
) -> bool {
    // SAFETY: see `told`.
    let done = unsafe {
        told(failure, || match outside {
            true => (*transaction).execute_outside(text(sql)?),
            false => (*transaction).execute(text(sql)?),
        })
    };
    done.is_some()
}

fn texts(names: Vec<String>) -> Texts {
    Texts(names.iter().map(|name| c_text(name)).collect())
}

pub(crate) unsafe extern "C" fn texts_count(texts: *const Texts) -> usize {
    // SAFETY: see `told`.
    unsafe { &*texts }.0.len()
}

pub(crate) unsafe extern "C" fn texts_get(texts: *const Texts, index: usize) -> *const c_char {
    // SAFETY: see `told`.
    unsafe { &*texts }.0[index].as_ptr()
}

pub(crate) unsafe extern "C" fn texts_free(texts: *mut Texts) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(texts) });
}

pub(crate) unsafe extern "C" fn table_open(
    transaction: *const Transaction,
    schema: *const c_char,
    name: *const c_char,
    failure: *mut Failure,
) -> *mut OwnTable {
    // SAFETY: see `told`.
    let table = unsafe { told(failure, || (*transaction).table(text(schema)?, text(name)?)) };
    boxed(table.flatten())
}

pub(crate) unsafe extern "C" fn table_columns(table: *const OwnTable) -> usize {
    // SAFETY: see `told`.
    unsafe { &*table }.columns().len()
}

pub(crate) unsafe extern "C" fn table_column(table: *const OwnTable, index: usize, place: *mut ColumnInfo) {
    // SAFETY: see `told`; the pointer leads to a place for the description of a column.
    unsafe {
        let column = &(&*table).columns()[index];
        place.write(ColumnInfo {
            name: column.name.as_ptr(),
            ty: column.ty.as_ptr(),
            default: column.default.as_ref().map_or(std::ptr::null(), |sql| sql.as_ptr()),
            nullable: column.nullable,
        });
    }
}

pub(crate) unsafe extern "C" fn table_key(
    table: *const OwnTable,
    index: usize,
    columns: *mut *const u32,
    is_primary: *mut bool,
) -> usize {
    // SAFETY: see `told`; the other pointers are places for the description of a key.
    unsafe {
        let Some(key) = (&*table).keys().get(index) else { return 0 };
        columns.write(key.columns.as_ptr());
        is_primary.write(key.is_primary);
        key.columns.len()
    }
}

pub(crate) unsafe extern "C" fn table_rows(table: *const OwnTable) -> u64 {
    // SAFETY: see `told`.
    unsafe { &*table }.snapshot().num_rows()
}

pub(crate) unsafe extern "C" fn table_free(table: *mut OwnTable) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(table) });
}

/// The bound of a condition; `None` for a comparison or a kind of value that is not known here.
///
/// SAFETY: the text of the condition has `length` bytes.
unsafe fn bound(view: &BoundView) -> Option<Bound> {
    let value = match view.kind {
        0 => None,
        1 => Some(StatValue::Int(i128::from(view.high) << 64 | i128::from(view.low))),
        2 => Some(StatValue::Float(view.number)),
        3 => {
            // SAFETY: see above.
            let bytes = unsafe { std::slice::from_raw_parts(view.text.cast::<u8>(), view.length) };
            Some(StatValue::Str(std::str::from_utf8(bytes).ok()?.to_string()))
        }
        _ => return None,
    };
    let comparison = match (view.comparison, value) {
        (0, Some(value)) => Comparison::Equal(value),
        (1, Some(value)) => Comparison::Less(value),
        (2, Some(value)) => Comparison::LessOrEqual(value),
        (3, Some(value)) => Comparison::Greater(value),
        (4, Some(value)) => Comparison::GreaterOrEqual(value),
        (5, None) => Comparison::IsNull,
        (6, None) => Comparison::IsNotNull,
        _ => return None,
    };
    Some(Bound { column: view.column as usize, comparison })
}

/// SAFETY: `first` points to `count` values of `T`.
unsafe fn many<'a, T>(first: *const T, count: usize) -> &'a [T] {
    // SAFETY: see above.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, count) } }
}

pub(crate) unsafe extern "C" fn scan_new(
    table: *const OwnTable,
    columns: *const u32,
    count: usize,
    bounds: *const BoundView,
    bound_count: usize,
    failure: *mut Failure,
) -> *mut Scan {
    // SAFETY: see `told`, `many` and `bound`.
    let scan = unsafe {
        let columns = many(columns, count).iter().map(|&column| column as usize).collect();
        let bounds: Vec<Bound> = many(bounds, bound_count).iter().filter_map(|view| bound(view)).collect();
        told(failure, || Scan::new(&*table, columns, &bounds))
    };
    boxed(scan)
}

pub(crate) unsafe extern "C" fn scan_schema(
    scan: *const Scan,
    schema: *mut FFI_ArrowSchema,
    failure: *mut Failure,
) -> bool {
    // SAFETY: see `told`; `schema` points to a place for a schema.
    unsafe {
        let given = told(failure, || Ok(FFI_ArrowSchema::try_from((*scan).schema().as_ref())?));
        given.map(|given| schema.write(given)).is_some()
    }
}

pub(crate) unsafe extern "C" fn scan_parts(scan: *const Scan, finished: *mut u64) -> u64 {
    // SAFETY: see `told`; `finished` points to a place for a number.
    unsafe {
        finished.write((*scan).finished() as u64);
        (*scan).parts() as u64
    }
}

pub(crate) unsafe extern "C" fn scan_next(
    scan: *const Scan,
    rows: *mut FFI_ArrowArray,
    place: *mut u64,
    first: *mut u64,
    failure: *mut Failure,
) -> i32 {
    // SAFETY: see `told`; the other pointers are places for an array and for numbers.
    unsafe {
        match told(failure, || (*scan).next_rows()) {
            Some(Some(next)) => {
                place.write(next.place as u64);
                first.write(next.first);
                rows.write(FFI_ArrowArray::new(&StructArray::from(next.batch).into_data()));
                1
            }
            Some(None) => 0,
            None => -1,
        }
    }
}

pub(crate) unsafe extern "C" fn scan_free(scan: *mut Scan) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(scan) });
}

pub(crate) unsafe extern "C" fn append_new(
    transaction: *const Transaction,
    name: *const c_char,
    schema: *const FFI_ArrowSchema,
    failure: *mut Failure,
) -> *mut AppendHandle {
    // SAFETY: see `told`; the host keeps the schema.
    let handle = unsafe {
        told(failure, || {
            let schema: SchemaRef = Arc::new(Schema::try_from(&*schema)?);
            let append = Append::new(&*transaction, text(name)?.to_string(), &schema)?;
            Ok(AppendHandle { append, batch: DataType::Struct(schema.fields().clone()), schema })
        })
    };
    boxed(handle)
}

/// Appends the rows of an array. The array is taken over, also after an error.
pub(crate) unsafe extern "C" fn append_push(
    append: *const AppendHandle,
    rows: *mut FFI_ArrowArray,
    failure: *mut Failure,
) -> bool {
    // SAFETY: see `told`; the host gives the array away.
    let done = unsafe {
        let (append, rows) = (&*append, FFI_ArrowArray::from_raw(rows));
        told(failure, || {
            let mut data = from_ffi_and_data_type(rows, append.batch.clone())?;
            // DuckDB aligns values of 128 bits to multiples of 8 bytes only.
            data.align_buffers();
            let array = make_array(data);
            let columns = array.as_any().downcast_ref::<StructArray>().map(|rows| rows.columns().to_vec());
            let columns = columns.ok_or_else(|| Failed::new(Kind::Internal, "rows that are no struct"))?;
            append.append.push(RecordBatch::try_new(Arc::clone(&append.schema), columns)?)
        })
    };
    done.is_some()
}

pub(crate) unsafe extern "C" fn append_finish(
    append: *const AppendHandle,
    rows: *mut u64,
    failure: *mut Failure,
) -> bool {
    // SAFETY: see `told`; `rows` points to a place for a number.
    unsafe {
        let done = told(failure, || (*append).append.finish());
        done.map(|count| rows.write(count)).is_some()
    }
}

pub(crate) unsafe extern "C" fn append_free(append: *mut AppendHandle) {
    // SAFETY: see `told`.
    free(unsafe { Box::from_raw(append) });
}

pub(crate) unsafe extern "C" fn input_of_table(
    plan: *const PlanHandle,
    input: usize,
    table: *const OwnTable,
) -> *mut InputHandle {
    // SAFETY: see `told`.
    let (plan, table) = unsafe { (accepted(plan), &*table) };
    let made = crate::abi::guarded(|| {
        open_device();
        Input::of_table(plan, input, table)
    });
    Box::into_raw(Box::new(InputHandle::of(made)))
}
