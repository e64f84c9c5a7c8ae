// The engine's C interface: what the shim asks of the library that holds Warpmill (crates/warpmill-duckdb/src/abi.rs).
// Strings are UTF-8. Everything that is returned stays valid until its owner is freed.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct ArrowArray;

#define WARPMILL_ENGINE_ABI 1

// A plan and the verdict on it. Immutable, shared between threads.
struct wm_plan;
// The rows of a table for one execution.
struct wm_input;
// One execution of a plan, used by one thread.
struct wm_run;

// One column of a result batch, in DuckDB's own physical layout.
struct wm_column {
	const void *values;      // fixed-width values, or the bytes of strings
	const uint8_t *validity; // one bit per row, least significant first; null: no NULLs
	const int32_t *offsets;  // rows + 1 offsets into `values`; null: fixed width
};

// Gives true when the host wants the query to stop.
typedef bool (*wm_interrupted)(void *context);

struct wm_engine {
	uint32_t abi;
	const char *(*version)();

	// Plans: takes the shim's encoding of a bound plan (docs/duckdb.md says where it is specified).
	wm_plan *(*plan_new)(const char *json, size_t length);
	const char *(*plan_refusal)(const wm_plan *plan); // null: Warpmill runs it
	const char *(*plan_text)(const wm_plan *plan);
	size_t (*plan_columns)(const wm_plan *plan, size_t input, const uint32_t **columns);
	void (*plan_free)(wm_plan *plan);

	// The rows of one input of one execution; may be filled by many threads. With a `key` (text that names a table and a
	// version of its contents) rows are kept for later executions, and found again: then nothing has to be pushed.
	wm_input *(*input_new)(const wm_plan *plan, size_t input, const char *key);
	bool (*input_cached)(const wm_input *input);
	// Takes the array over, which is a struct of the input's columns. False: failed, see input_error.
	bool (*input_push)(wm_input *input, ArrowArray *array);
	const char *(*input_error)(const wm_input *input); // null: none
	void (*input_free)(wm_input *input);

	// Runs. The inputs are read, not taken over. `threads` and `memory` of 0: the engine's own default.
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
};

// The only symbol that is looked up by name.
const wm_engine *warpmill_duckdb_engine(void);
}
