//! Table functions: the scope of a statement's results, and, without the shim, statistics and the cache.

use std::sync::atomic::{AtomicUsize, Ordering};

use libduckdb_sys as ffi;

use super::registry::{COUNTERS, close_scope, last, open_scope};
use super::{BOOLEAN, Registration, Type, UBIGINT, VARCHAR, data, drop_box, registered, set_null, set_text, vector};
use crate::engine::{c_text, engine, owned};

type Bind = unsafe extern "C" fn(ffi::duckdb_bind_info);

/// Advice where an extension cannot make the macro `warpmill`.
const NO_MACRO: &str = "no extension can put FROM warpmill('...') into a database file. Write FROM query(warpmill_sql('...')), \
    or make it for this connection: CREATE TEMP MACRO warpmill(q) AS TABLE FROM query(warpmill_sql(q))";

pub fn register(registration: &Registration) -> Result<(), String> {
    function(registration, "warpmill_scope", &[], bind_scope, init_scope, scope)?;
    if registration.transparent {
        return Ok(());
    }
    let rows: [(&str, &[ffi::DUCKDB_TYPE], Bind); 6] = [
        ("warpmill", &[VARCHAR], bind_error),
        ("warpmill_explain", &[VARCHAR], bind_explain_error),
        ("warpmill_last", &[], bind_last),
        ("warpmill_stats", &[], bind_stats),
        ("warpmill_cache", &[], bind_cache),
        ("warpmill_clear_cache", &[], bind_clear),
    ];
    for (name, parameters, bind) in rows {
        function(registration, name, parameters, bind, init_rows, next_rows)?;
    }
    macros(registration);
    Ok(())
}

fn function(
    registration: &Registration,
    name: &str,
    parameters: &[ffi::DUCKDB_TYPE],
    bind: Bind,
    init: unsafe extern "C" fn(ffi::duckdb_init_info),
    call: unsafe extern "C" fn(ffi::duckdb_function_info, ffi::duckdb_data_chunk),
) -> Result<(), String> {
    // SAFETY: objects of ours, handed to the interface as it wants them.
    unsafe {
        let mut function = ffi::duckdb_create_table_function();
        let text = c_text(name);
        ffi::duckdb_table_function_set_name(function, text.as_ptr());
        for &parameter in parameters {
            ffi::duckdb_table_function_add_parameter(function, Type::new(parameter).0);
        }
        ffi::duckdb_table_function_set_bind(function, Some(bind));
        ffi::duckdb_table_function_set_init(function, Some(init));
        ffi::duckdb_table_function_set_function(function, Some(call));
        let state = ffi::duckdb_register_table_function(registration.connection, function);
        ffi::duckdb_destroy_table_function(&raw mut function);
        registered(state, name)
    }
}

/// Creates the macros of the door in a database in memory, where they do not end up in a user's file.
fn macros(registration: &Registration) {
    let memory = "SELECT database_name FROM duckdb_databases() \
        WHERE database_name = current_database() AND path IS NULL AND NOT internal";
    let Some(name) = registration.first(memory) else { return };
    for (function, text) in [("warpmill", "warpmill_sql"), ("warpmill_explain", "warpmill_explain_sql")] {
        let name = name.replace('"', "\"\"");
        let sql = format!("CREATE MACRO IF NOT EXISTS \"{name}\".main.{function}(q) AS TABLE FROM query({text}(q))");
        // If the database refuses the macro, the functions registered above report an error with advice.
        drop(registration.run(&sql));
    }
}

struct Scope {
    id: u64,
    given: AtomicUsize,
}

impl Drop for Scope {
    fn drop(&mut self) {
        close_scope(self.id);
    }
}

unsafe extern "C" fn bind_scope(info: ffi::duckdb_bind_info) {
    // SAFETY: DuckDB's call.
    unsafe {
        ffi::duckdb_bind_add_result_column(info, c"scope".as_ptr(), Type::new(UBIGINT).0);
        ffi::duckdb_bind_set_cardinality(info, 1, true);
    }
}

/// A scope lives until DuckDB drops its scan, at the end of the statement.
unsafe extern "C" fn init_scope(info: ffi::duckdb_init_info) {
    let scope = Box::new(Scope { id: open_scope(), given: AtomicUsize::new(0) });
    // SAFETY: DuckDB's call; the box is freed by DuckDB.
    unsafe { ffi::duckdb_init_set_init_data(info, Box::into_raw(scope).cast(), Some(drop_box::<Scope>)) };
}

unsafe extern "C" fn scope(info: ffi::duckdb_function_info, output: ffi::duckdb_data_chunk) {
    // SAFETY: DuckDB's call, with the data that `init_scope` made.
    unsafe {
        let scope = &*ffi::duckdb_function_get_init_data(info).cast::<Scope>();
        let first = scope.given.fetch_add(1, Ordering::Relaxed) == 0;
        if first {
            data::<u64>(vector(output, 0)).write(scope.id);
        }
        ffi::duckdb_data_chunk_set_size(output, u64::from(first));
    }
}

/// A value in the result of these functions.
enum Cell {
    Truth(bool),
    Number(u64),
    Text(Option<String>),
}

type Table = Vec<Vec<Cell>>;

/// SAFETY: DuckDB's call of a bind function.
unsafe fn bound(info: ffi::duckdb_bind_info, columns: &[(&str, ffi::DUCKDB_TYPE)], table: Table) {
    // SAFETY: the caller's promise; the box is freed by DuckDB.
    unsafe {
        for &(name, ty) in columns {
            ffi::duckdb_bind_add_result_column(info, c_text(name).as_ptr(), Type::new(ty).0);
        }
        ffi::duckdb_bind_set_cardinality(info, table.len() as u64, true);
        ffi::duckdb_bind_set_bind_data(info, Box::into_raw(Box::new(table)).cast(), Some(drop_box::<Table>));
    }
}

unsafe extern "C" fn bind_last(info: ffi::duckdb_bind_info) {
    let last = last();
    let columns = [("accelerated", BOOLEAN), ("reason", VARCHAR), ("profile", VARCHAR)];
    let row = vec![Cell::Truth(last.accelerated), Cell::Text(last.reason), Cell::Text(last.profile)];
    // SAFETY: DuckDB's call.
    unsafe { bound(info, &columns, vec![row]) };
}

unsafe extern "C" fn bind_stats(info: ffi::duckdb_bind_info) {
    let counters = [
        ("queries_accelerated", &COUNTERS.accelerated),
        ("queries_left_to_duckdb", &COUNTERS.left),
        ("queries_failed_at_run_time", &COUNTERS.failed),
        ("inputs_scanned", &COUNTERS.scanned),
    ];
    let rows = counters
        .map(|(name, value)| vec![Cell::Text(Some(name.to_string())), Cell::Number(value.load(Ordering::Relaxed))]);
    // SAFETY: DuckDB's call.
    unsafe { bound(info, &[("name", VARCHAR), ("value", UBIGINT)], Vec::from(rows)) };
}

unsafe extern "C" fn bind_cache(info: ffi::duckdb_bind_info) {
    // SAFETY: DuckDB's call; the engine's text is ours.
    unsafe {
        let text = owned((engine().cache_text)());
        bound(info, &[("cache", VARCHAR)], vec![vec![Cell::Text(text)]]);
    }
}

unsafe extern "C" fn bind_clear(info: ffi::duckdb_bind_info) {
    // SAFETY: DuckDB's call.
    unsafe {
        (engine().cache_clear)();
        bound(info, &[("cleared", BOOLEAN)], vec![vec![Cell::Truth(true)]]);
    }
}

unsafe extern "C" fn bind_error(info: ffi::duckdb_bind_info) {
    // SAFETY: DuckDB's call; it copies the text.
    unsafe { ffi::duckdb_bind_set_error(info, c_text(NO_MACRO).as_ptr()) };
}

unsafe extern "C" fn bind_explain_error(info: ffi::duckdb_bind_info) {
    let text = NO_MACRO.replace("warpmill_sql", "warpmill_explain_sql").replace("warpmill(", "warpmill_explain(");
    // SAFETY: see above.
    unsafe { ffi::duckdb_bind_set_error(info, c_text(&text).as_ptr()) };
}

unsafe extern "C" fn init_rows(info: ffi::duckdb_init_info) {
    let position = Box::new(AtomicUsize::new(0));
    // SAFETY: DuckDB's call; the box is freed by DuckDB.
    unsafe { ffi::duckdb_init_set_init_data(info, Box::into_raw(position).cast(), Some(drop_box::<AtomicUsize>)) };
}

unsafe extern "C" fn next_rows(info: ffi::duckdb_function_info, output: ffi::duckdb_data_chunk) {
    // SAFETY: DuckDB's call, with the data that the bind and init functions made; there are fewer rows than fit a chunk.
    unsafe {
        let table = &*ffi::duckdb_function_get_bind_data(info).cast::<Table>();
        let position = &*ffi::duckdb_function_get_init_data(info).cast::<AtomicUsize>();
        let first = position.fetch_add(1, Ordering::Relaxed) == 0;
        let rows = if first { &table[..] } else { &[] };
        for (at, row) in rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let vector = vector(output, column as u64);
                match cell {
                    Cell::Truth(value) => data::<bool>(vector).add(at).write(*value),
                    Cell::Number(value) => data::<u64>(vector).add(at).write(*value),
                    Cell::Text(Some(text)) => set_text(vector, at as u64, text.as_bytes()),
                    Cell::Text(None) => set_null(vector, at as u64),
                }
            }
        }
        ffi::duckdb_data_chunk_set_size(output, rows.len() as u64);
    }
}
