//! The explicit door: functions of the stable C interface, in every DuckDB version (`warpmill_duckdb::door` says how they
//! make one query of another).

mod get;
mod plan;
mod registry;
mod run;
mod tables;
mod take;

use std::ffi::CString;

use libduckdb_sys as ffi;

use crate::engine::c_text;

/// The registration of functions: the database's connection, and the mode.
pub struct Registration {
    /// A temporary connection: a permanent one would keep the database open.
    connection: ffi::duckdb_connection,
    /// Whether the shim is loaded, which provides the functions that use the caller's connection.
    transparent: bool,
}

/// Registers the door's functions in a database.
///
/// SAFETY: `database` is DuckDB's, and the C interface has been initialized.
pub unsafe fn register(database: ffi::duckdb_database, transparent: bool) -> Result<(), String> {
    let mut connection = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        if ffi::duckdb_connect(database, &raw mut connection) != ffi::duckdb_state_DuckDBSuccess {
            return Err("it does not open a connection".to_string());
        }
        let registration = Registration { connection, transparent };
        let result = plan::register(&registration)
            .and_then(|()| take::register(&registration))
            .and_then(|()| run::register(&registration))
            .and_then(|()| get::register(&registration))
            .and_then(|()| tables::register(&registration));
        ffi::duckdb_disconnect(&raw mut connection);
        result
    }
}

/// A DuckDB type, destroyed on drop.
struct Type(ffi::duckdb_logical_type);

impl Type {
    fn new(id: ffi::DUCKDB_TYPE) -> Self {
        // SAFETY: an identifier of the interface.
        Self(unsafe { ffi::duckdb_create_logical_type(id) })
    }
}

impl Drop for Type {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { ffi::duckdb_destroy_logical_type(&raw mut self.0) };
    }
}

const UBIGINT: ffi::DUCKDB_TYPE = ffi::DUCKDB_TYPE_DUCKDB_TYPE_UBIGINT;
const BIGINT: ffi::DUCKDB_TYPE = ffi::DUCKDB_TYPE_DUCKDB_TYPE_BIGINT;
const INTEGER: ffi::DUCKDB_TYPE = ffi::DUCKDB_TYPE_DUCKDB_TYPE_INTEGER;
const VARCHAR: ffi::DUCKDB_TYPE = ffi::DUCKDB_TYPE_DUCKDB_TYPE_VARCHAR;
const BOOLEAN: ffi::DUCKDB_TYPE = ffi::DUCKDB_TYPE_DUCKDB_TYPE_BOOLEAN;

type ScalarCallback = unsafe extern "C" fn(ffi::duckdb_function_info, ffi::duckdb_data_chunk, ffi::duckdb_vector);

/// A scalar function to be registered.
struct Scalar {
    name: &'static str,
    parameters: &'static [ffi::DUCKDB_TYPE],
    more: Option<ffi::DUCKDB_TYPE>,
    result: ffi::DUCKDB_TYPE,
    /// It has effects, runs once for each row, and takes NULLs.
    volatile: bool,
    call: ScalarCallback,
}

impl Registration {
    fn scalar(&self, scalar: &Scalar) -> Result<(), String> {
        // SAFETY: objects of ours, handed to the interface as it wants them.
        unsafe {
            let mut function = ffi::duckdb_create_scalar_function();
            let name = c_text(scalar.name);
            ffi::duckdb_scalar_function_set_name(function, name.as_ptr());
            for &parameter in scalar.parameters {
                ffi::duckdb_scalar_function_add_parameter(function, Type::new(parameter).0);
            }
            if let Some(more) = scalar.more {
                ffi::duckdb_scalar_function_set_varargs(function, Type::new(more).0);
            }
            ffi::duckdb_scalar_function_set_return_type(function, Type::new(scalar.result).0);
            if scalar.volatile {
                ffi::duckdb_scalar_function_set_special_handling(function);
                ffi::duckdb_scalar_function_set_volatile(function);
            }
            ffi::duckdb_scalar_function_set_function(function, Some(scalar.call));
            let state = ffi::duckdb_register_scalar_function(self.connection, function);
            ffi::duckdb_destroy_scalar_function(&raw mut function);
            registered(state, scalar.name)
        }
    }

    /// Runs a statement in a separate connection.
    fn run(&self, sql: &str) -> Result<(), String> {
        let text: CString = c_text(sql);
        // SAFETY: the result is destroyed in every case.
        unsafe {
            let mut result = std::mem::zeroed();
            let state = ffi::duckdb_query(self.connection, text.as_ptr(), &raw mut result);
            let error = crate::engine::borrowed(ffi::duckdb_result_error(&raw mut result));
            ffi::duckdb_destroy_result(&raw mut result);
            if state == ffi::duckdb_state_DuckDBSuccess { Ok(()) } else { Err(error.unwrap_or_default()) }
        }
    }

    /// The text in the first row of a query, if any.
    fn first(&self, sql: &str) -> Option<String> {
        let text: CString = c_text(sql);
        // SAFETY: see `run`; the text is freed by the interface's own function.
        unsafe {
            let mut result = std::mem::zeroed();
            let state = ffi::duckdb_query(self.connection, text.as_ptr(), &raw mut result);
            let found = (state == ffi::duckdb_state_DuckDBSuccess).then(|| ffi::duckdb_fetch_chunk(result));
            let value = found.filter(|chunk| !chunk.is_null()).map(|mut chunk| {
                let value = (ffi::duckdb_data_chunk_get_size(chunk) > 0).then(|| string(vector(chunk, 0), 0));
                ffi::duckdb_destroy_data_chunk(&raw mut chunk);
                value
            });
            ffi::duckdb_destroy_result(&raw mut result);
            value.flatten()
        }
    }
}

fn registered(state: ffi::duckdb_state, name: &str) -> Result<(), String> {
    if state == ffi::duckdb_state_DuckDBSuccess { Ok(()) } else { Err(format!("it does not take the function {name}")) }
}

/// SAFETY: the chunk has the column.
unsafe fn vector(chunk: ffi::duckdb_data_chunk, column: u64) -> ffi::duckdb_vector {
    // SAFETY: the caller's promise.
    unsafe { ffi::duckdb_data_chunk_get_vector(chunk, column) }
}

/// The values of a flat vector.
///
/// SAFETY: the vector has values of this type.
unsafe fn data<T>(vector: ffi::duckdb_vector) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { ffi::duckdb_vector_get_data(vector) }.cast()
}

/// Whether a row is not NULL.
///
/// SAFETY: the vector has the row.
unsafe fn is_valid(vector: ffi::duckdb_vector, row: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let validity = ffi::duckdb_vector_get_validity(vector);
        validity.is_null() || ffi::duckdb_validity_row_is_valid(validity, row)
    }
}

/// SAFETY: the vector has the row.
unsafe fn set_null(vector: ffi::duckdb_vector, row: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::duckdb_vector_ensure_validity_writable(vector);
        ffi::duckdb_validity_set_row_invalid(ffi::duckdb_vector_get_validity(vector), row);
    }
}

/// The bytes of a text: its length, then 12 bytes, or its first four and its address.
///
/// SAFETY: a text vector with this row.
unsafe fn bytes<'a>(vector: ffi::duckdb_vector, row: u64) -> &'a [u8] {
    const INLINED: u32 = 12;
    // SAFETY: the caller's promise; the text lives as long as the vector.
    unsafe {
        let entry = data::<[u8; 16]>(vector).add(usize::try_from(row).unwrap_or(0)).cast::<u8>().cast_const();
        let length = entry.cast::<u32>().read_unaligned();
        let start = if length <= INLINED { entry.add(4) } else { entry.add(8).cast::<*const u8>().read_unaligned() };
        std::slice::from_raw_parts(start, length as usize)
    }
}

/// SAFETY: see `bytes`.
unsafe fn string(vector: ffi::duckdb_vector, row: u64) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { bytes(vector, row) }).into_owned()
}

/// SAFETY: a text vector with this row.
unsafe fn set_text(vector: ffi::duckdb_vector, row: u64, text: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { ffi::duckdb_vector_assign_string_element_len(vector, row, text.as_ptr().cast(), text.len() as u64) };
}

/// Fails the query with an error.
///
/// SAFETY: `info` is that of a scalar function's call.
unsafe fn fail(info: ffi::duckdb_function_info, message: &str) {
    // SAFETY: the caller's promise; DuckDB copies the text.
    unsafe { ffi::duckdb_scalar_function_set_error(info, c_text(message).as_ptr()) };
}

/// Frees the data of a callback.
unsafe extern "C" fn drop_box<T>(data: *mut std::ffi::c_void) {
    // SAFETY: it was made by `Box::into_raw` of this type.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}
