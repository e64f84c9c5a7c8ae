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
};

// The only symbol that is looked up by name.
const wm_engine *warpmill_duckdb_engine(void);
}
