//! `warpmill_take(names, columns...)`: the aggregate that collects the rows of a table. Its value is a key for `warpmill_run`.

use std::ffi::c_void;

use libduckdb_sys as ffi;

use super::registry::{Rows, put_rows};
use super::{Registration, Type, UBIGINT, VARCHAR, data, registered, set_null, string, vector};
use crate::engine::{Source, borrowed, c_text, engine};

/// The most columns of a table: there is an overload for each number.
const MOST_COLUMNS: usize = 64;

/// A state holds the engine's rows, or null before the first.
type State = *mut *mut c_void;

pub fn register(registration: &Registration) -> Result<(), String> {
    let name = c"warpmill_take";
    // SAFETY: objects of ours, handed to the interface as it wants them.
    unsafe {
        let mut set = ffi::duckdb_create_aggregate_function_set(name.as_ptr());
        for columns in 1..=MOST_COLUMNS {
            let mut function = ffi::duckdb_create_aggregate_function();
            ffi::duckdb_aggregate_function_set_name(function, name.as_ptr());
            ffi::duckdb_aggregate_function_add_parameter(function, Type::new(VARCHAR).0);
            for _ in 0..columns {
                let any = Type::new(ffi::DUCKDB_TYPE_DUCKDB_TYPE_ANY);
                ffi::duckdb_aggregate_function_add_parameter(function, any.0);
            }
            ffi::duckdb_aggregate_function_set_return_type(function, Type::new(UBIGINT).0);
            ffi::duckdb_aggregate_function_set_special_handling(function);
            let (size, init, update) = (Some(size as _), Some(init as _), Some(update as _));
            let (combine, finalize) = (Some(combine as _), Some(finalize as _));
            ffi::duckdb_aggregate_function_set_functions(function, size, init, update, combine, finalize);
            ffi::duckdb_aggregate_function_set_destructor(function, Some(destroy));
            ffi::duckdb_add_aggregate_function_to_set(set, function);
            ffi::duckdb_destroy_aggregate_function(&raw mut function);
        }
        let state = ffi::duckdb_register_aggregate_function_set(registration.connection, set);
        ffi::duckdb_destroy_aggregate_function_set(&raw mut set);
        registered(state, "warpmill_take")
    }
}

unsafe extern "C" fn size(_info: ffi::duckdb_function_info) -> u64 {
    size_of::<*mut c_void>() as u64
}

unsafe extern "C" fn init(_info: ffi::duckdb_function_info, state: ffi::duckdb_aggregate_state) {
    // SAFETY: room for a state.
    unsafe { state.cast::<*mut c_void>().write_unaligned(std::ptr::null_mut()) };
}

unsafe extern "C" fn update(
    info: ffi::duckdb_function_info,
    input: ffi::duckdb_data_chunk,
    states: *mut ffi::duckdb_aggregate_state,
) {
    // SAFETY: DuckDB's call: flat vectors, and a state for each row, which is the same for all as there are no groups.
    unsafe {
        let count = ffi::duckdb_data_chunk_get_size(input);
        let columns = ffi::duckdb_data_chunk_get_column_count(input);
        if count == 0 {
            return;
        }
        let state: State = (*states).cast();
        if (0..usize::try_from(count).unwrap_or(0)).any(|row| (*states.add(row)).cast() != state) {
            return fail(info, "warpmill_take does not take groups");
        }
        let mut rows = state.read_unaligned();
        if rows.is_null() {
            rows = (engine().rows_new)(c_text(&schema(input, columns)).as_ptr());
            state.write_unaligned(rows);
        }
        let sources: Vec<Source> = (1..columns)
            .map(|column| {
                let vector = vector(input, column);
                let (values, validity) = (ffi::duckdb_vector_get_data(vector), ffi::duckdb_vector_get_validity(vector));
                Source { values, validity }
            })
            .collect();
        if !(engine().rows_push)(rows, count, sources.as_ptr()) {
            let error = borrowed((engine().rows_error)(rows)).unwrap_or_default();
            super::run::failed(&error);
            fail(info, &super::run::not_finished(&error));
        }
    }
}

/// SAFETY: `info` is that of an aggregate's call.
unsafe fn fail(info: ffi::duckdb_function_info, message: &str) {
    // SAFETY: the caller's promise; DuckDB copies the text.
    unsafe { ffi::duckdb_aggregate_function_set_error(info, c_text(message).as_ptr()) };
}

/// Lines with a name and a type. The types are those of the vectors, whatever the caller declared.
///
/// SAFETY: the first column is a text with the names of the others.
unsafe fn schema(input: ffi::duckdb_data_chunk, columns: u64) -> String {
    // SAFETY: the caller's promise.
    let names = unsafe { string(vector(input, 0), 0) };
    let mut names = names.split(' ');
    let lines = (1..columns).map(|column| {
        // SAFETY: see above; the type is destroyed on drop.
        let ty = Type(unsafe { ffi::duckdb_vector_get_column_type(vector(input, column)) });
        format!("{} {}", names.next().unwrap_or("?"), name_of(&ty))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn name_of(ty: &Type) -> String {
    // SAFETY: a type of DuckDB's.
    let id = unsafe { ffi::duckdb_get_type_id(ty.0) };
    let name = match id {
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_BOOLEAN => "BOOLEAN",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_TINYINT => "TINYINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_SMALLINT => "SMALLINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_INTEGER => "INTEGER",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_BIGINT => "BIGINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_UTINYINT => "UTINYINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_USMALLINT => "USMALLINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_UINTEGER => "UINTEGER",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_UBIGINT => "UBIGINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_HUGEINT => "HUGEINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_UHUGEINT => "UHUGEINT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_FLOAT => "FLOAT",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_DOUBLE => "DOUBLE",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_VARCHAR => "VARCHAR",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_DATE => "DATE",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_TIMESTAMP => "TIMESTAMP",
        ffi::DUCKDB_TYPE_DUCKDB_TYPE_DECIMAL => {
            // SAFETY: a decimal type.
            let (width, scale) = unsafe { (ffi::duckdb_decimal_width(ty.0), ffi::duckdb_decimal_scale(ty.0)) };
            return format!("DECIMAL({width},{scale})");
        }
        other => return format!("of the kind {other}"),
    };
    name.to_string()
}

unsafe extern "C" fn combine(
    _info: ffi::duckdb_function_info,
    source: *mut ffi::duckdb_aggregate_state,
    target: *mut ffi::duckdb_aggregate_state,
    count: u64,
) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: pairs of states; the rows of the first go to the second.
        unsafe {
            let (from, into): (State, State) = ((*source.add(at)).cast(), (*target.add(at)).cast());
            let (rows, there) = (from.read_unaligned(), into.read_unaligned());
            if rows.is_null() || from == into {
                continue;
            }
            from.write_unaligned(std::ptr::null_mut());
            if there.is_null() {
                into.write_unaligned(rows);
            } else {
                (engine().rows_merge)(there, rows);
            }
        }
    }
}

unsafe extern "C" fn finalize(
    _info: ffi::duckdb_function_info,
    source: *mut ffi::duckdb_aggregate_state,
    result: ffi::duckdb_vector,
    count: u64,
    offset: u64,
) {
    for at in 0..count {
        // SAFETY: as many states as rows of the result.
        unsafe {
            let state: State = (*source.add(usize::try_from(at).unwrap_or(0))).cast();
            let rows = state.read_unaligned();
            state.write_unaligned(std::ptr::null_mut());
            if rows.is_null() {
                set_null(result, offset + at);
            } else {
                let key = put_rows(Rows::new(rows));
                data::<u64>(result).add(usize::try_from(offset + at).unwrap_or(0)).write(key);
            }
        }
    }
}

unsafe extern "C" fn destroy(states: *mut ffi::duckdb_aggregate_state, count: u64) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: states that are not used again.
        unsafe {
            let state: State = (*states.add(at)).cast();
            drop(Rows::new(state.read_unaligned()));
            state.write_unaligned(std::ptr::null_mut());
        }
    }
}
