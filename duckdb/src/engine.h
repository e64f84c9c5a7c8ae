// The engine's C interface: what the shim asks of the library that holds Warpmill (crates/warpmill-duckdb/src/abi.rs).
// Strings are UTF-8. Everything that is returned stays valid until its owner is freed.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

#ifndef WARPMILL_ENGINE_ABI
#error "duckdb/build.py defines WARPMILL_ENGINE_ABI: a checksum of this file"
#endif
// Rows in any order.
#define WM_NO_PLACE UINT64_MAX

// A plan and the verdict on it. Immutable, shared between threads.
struct wm_plan;
// The rows of a table for one execution.
struct wm_input;
// Rows of an input that one thread gathers.
struct wm_part;
// One execution of a plan, used by one thread.
struct wm_run;

// One column of a result batch, in DuckDB's own physical layout.
struct wm_column {
	const void *values;      // fixed-width values, or the bytes of strings
	const uint8_t *validity; // one bit per row, least significant first; null: no NULLs
	const int32_t *offsets;  // rows + 1 offsets into `values`; null: fixed width
};

// A column of a chunk: DuckDB's unified format.
struct wm_vector {
	const void *values;
	const uint64_t *validity;  // by value; null: no NULLs
	const uint32_t *selection; // the value of each row; null: its own
};

// A column of a chunk: DuckDB's flat vector.
struct wm_source {
	const void *values;
	const uint64_t *validity; // null: no NULLs
};
struct wm_rows;
struct wm_answer;
struct wm_door_request {
	const char *query;
	const char *plan;
	const char *fallback;
	const char *values; // null: not asked for yet
	uint32_t version;
	bool ieee;
};

// Warpmill's own databases (crates/warpmill-duckdb/src/attached). One ATTACH; shared between threads.
struct wm_database;
// One transaction of DuckDB's; shared between threads, but for its end. Nothing that is made of it outlives it, tables excepted.
struct wm_transaction;
// One version of a table. Immutable, shared between threads.
struct wm_table;
// A scan of a table; shared between threads.
struct wm_scan;
// Rows that are written to a table; shared between threads.
struct wm_append;
struct wm_texts;
// Of Arrow's C data interface, as DuckDB declares them.
struct ArrowSchema;
struct ArrowArray;

// An error, written by functions that give null, false or -1. The text is freed by text_free.
// Kinds: 1 invalid input, 2 catalog, 3 constraint, 4 files, 5 memory, 6 interrupted, 7 another writer, 8 not implemented, 9 internal.
struct wm_failure {
	int32_t kind;
	char *text;
};

// A column of a table: its name, DuckDB's name of its type, the SQL of its default (null: none).
struct wm_column_info {
	const char *name;
	const char *type;
	const char *default_sql;
	bool nullable;
};

// A condition that all rows fulfil which the host needs.
// Comparisons of the column with the value: 0 =, 1 <, 2 <=, 3 >, 4 >=; 5 IS NULL, 6 IS NOT NULL.
// Kinds of values: 0 none, 1 whole numbers, as they are stored, in 128 bits, 2 floating-point numbers, 3 texts.
struct wm_bound {
	uint32_t column;
	uint32_t comparison;
	uint32_t kind;
	int64_t high;
	uint64_t low;
	double number;
	const char *text;
	size_t length;
};

// Gives true when the host wants the query to stop.
typedef bool (*wm_interrupted)(void *context);

struct wm_engine {
	uint32_t abi;
	const char *(*version)();

	// Plans: takes the shim's encoding of a bound plan (docs/duckdb.md says where it is specified). Null: interrupted.
	wm_plan *(*plan_new)(const char *json, size_t length, wm_interrupted interrupted, void *context);
	const char *(*plan_refusal)(const wm_plan *plan); // null: Warpmill runs it
	const char *(*plan_text)(const wm_plan *plan);
	size_t (*plan_columns)(const wm_plan *plan, size_t input, const uint32_t **columns);
	void (*plan_free)(wm_plan *plan);

	// The rows of one input of one execution. With a `key` (text that names a table and a version of its contents) columns are kept
	// for later executions, and found again: then they are not missing.
	wm_input *(*input_new)(const wm_plan *plan, size_t input, const char *key);
	// Columns that have to come: indices into plan_columns. One entry where rows have to be counted only.
	size_t (*input_missing)(const wm_input *input, const uint32_t **columns);
	// Rows of the missing columns, gathered by one thread at a time: a vector for each of them. False: failed, see input_error.
	wm_part *(*part_new)(const wm_input *input);
	bool (*part_push)(const wm_input *input, wm_part *part, uint64_t rows, const wm_vector *columns, size_t count);
	// Takes the rows over; the part is empty then. They come after those of all lower places and each place comes once; all below
	// `least` have come, or will not. Or WM_NO_PLACE, for all parts of the input.
	bool (*part_take)(const wm_input *input, wm_part *part, uint64_t place, uint64_t least);
	void (*part_free)(wm_part *part);
	const char *(*input_error)(const wm_input *input); // null: none
	void (*input_free)(wm_input *input);

	// Runs. The inputs are used up, not taken over. `threads` and `memory` of 0: the engine's own default.
	wm_run *(*run_new)(const wm_plan *plan, wm_input *const *inputs, uint64_t threads, uint64_t memory);
	// 0: done. 1: failed, see run_error. 2: interrupted.
	int32_t (*run_execute)(wm_run *run, wm_interrupted interrupted, void *context);
	// The next rows: their number, 0 at the end.
	uint64_t (*run_next)(wm_run *run, wm_column *columns);
	const char *(*run_error)(const wm_run *run);
	const char *(*run_profile)(const wm_run *run);
	void (*run_free)(wm_run *run);

	// The cache of table data, shared by the databases of a process. Rows as JSON text, freed by text_free.
	char *(*cache_text)(void);
	void (*cache_clear)(void);
	void (*cache_limit)(uint64_t bytes);
	void (*text_free)(char *text);

	// The explicit door (crates/warpmill-duckdb/src/door). Texts that are returned are freed by text_free.
	// The first text for a query; `fallback` is SQL that gives 'allow', 'error' or 'explain'.
	char *(*door_first)(const char *query, const char *fallback);
	// The next text; `*reason`: null, or why DuckDB runs the query.
	char *(*door_rewrite)(const wm_door_request *request, char **reason);
	// Rows of one table, used by one thread at a time. Schema: lines of a name, a space, and a type.
	wm_rows *(*rows_new)(const char *schema);
	bool (*rows_push)(wm_rows *rows, uint64_t count, const wm_source *columns); // false: see rows_error
	void (*rows_merge)(wm_rows *rows, wm_rows *other);                          // `other` is handed over
	const char *(*rows_error)(const wm_rows *rows);
	void (*rows_free)(wm_rows *rows);
	// Runs a plan; the rows are handed over, null where there are none.
	wm_answer *(*answer_new)(const char *plan, uint64_t threads, wm_rows *const *rows, size_t count);
	const char *(*answer_error)(const wm_answer *answer); // null: none
	uint64_t (*answer_rows)(const wm_answer *answer);
	bool (*answer_column)(const wm_answer *answer, uint64_t column, wm_column *place); // decimals: 128 bits
	const char *(*answer_profile)(const wm_answer *answer);
	void (*answer_free)(wm_answer *answer);

	// Warpmill's own databases.
	wm_database *(*database_open)(const char *path, bool read_only, wm_failure *failure);
	void (*database_free)(wm_database *database); // transactions and tables keep what they need of it
	wm_transaction *(*transaction_begin)(const wm_database *database, wm_failure *failure);
	// Both end it; it is freed.
	bool (*transaction_commit)(wm_transaction *transaction, wm_failure *failure);
	void (*transaction_rollback)(wm_transaction *transaction);
	wm_texts *(*transaction_schemas)(const wm_transaction *transaction, wm_failure *failure);
	wm_texts *(*transaction_tables)(const wm_transaction *transaction, const char *schema, wm_failure *failure);
	// Runs a statement without rows. `outside`: one that no transaction takes back, in one that has done nothing else.
	bool (*transaction_execute)(const wm_transaction *transaction, const char *sql, bool outside, wm_failure *failure);
	size_t (*texts_count)(const wm_texts *texts);
	const char *(*texts_get)(const wm_texts *texts, size_t index);
	void (*texts_free)(wm_texts *texts);
	// Null without a failure, whose kind stays as it is: there is no such table.
	wm_table *(*table_open)(const wm_transaction *transaction, const char *schema, const char *name, wm_failure *failure);
	size_t (*table_columns)(const wm_table *table);
	void (*table_column)(const wm_table *table, size_t index, wm_column_info *place);
	// The columns of a key, of which there are that many; 0: there are no more keys.
	size_t (*table_key)(const wm_table *table, size_t index, const uint32_t **columns, bool *is_primary);
	uint64_t (*table_rows)(const wm_table *table);
	void (*table_free)(wm_table *table);
	// Columns by their positions. Row segments and zones that have no row within the bounds are left out.
	wm_scan *(*scan_new)(const wm_table *table, const uint32_t *columns, size_t count, const wm_bound *bounds,
	                     size_t bound_count, wm_failure *failure);
	bool (*scan_schema)(const wm_scan *scan, ArrowSchema *schema, wm_failure *failure);
	// The number of parts that threads take one by one, and of those that have been read.
	uint64_t (*scan_parts)(const wm_scan *scan, uint64_t *finished);
	// The rows of the next part, which are the caller's, its place, and the number of its first row in the table. 1: there is one, 0: there
	// is none, -1: failed.
	int32_t (*scan_next)(const wm_scan *scan, ArrowArray *rows, uint64_t *place, uint64_t *first, wm_failure *failure);
	void (*scan_free)(wm_scan *scan);
	// Appends to the table that SQL calls `name`. Columns are matched by position.
	wm_append *(*append_new)(const wm_transaction *transaction, const char *name, const ArrowSchema *schema,
	                         wm_failure *failure);
	bool (*append_push)(const wm_append *append, ArrowArray *rows, wm_failure *failure); // the rows are handed over
	bool (*append_finish)(const wm_append *append, uint64_t *rows, wm_failure *failure);
	void (*append_free)(wm_append *append); // without append_finish nothing is written
	// An input of an execution that is read where it is: nothing of it is missing.
	wm_input *(*input_of_table)(const wm_plan *plan, size_t input, const wm_table *table);
};

// The only symbol that is looked up by name.
const wm_engine *warpmill_duckdb_engine(void);
}
