// Table functions about Warpmill's queries, its plans, and its cache.
#include "functions.hpp"

#include "duckdb/function/table_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"
#include "plan.hpp"

namespace warpmill {

using Row = vector<Value>;

struct FunctionInfo : public TableFunctionInfo {
	explicit FunctionInfo(shared_ptr<DatabaseState> database) : database(std::move(database)) {
	}
	shared_ptr<DatabaseState> database;
};

// The rows of a call; binding computes them.
struct RowsData : public TableFunctionData {
	explicit RowsData(vector<Row> rows) : rows(std::move(rows)) {
	}
	vector<Row> rows;
};

struct RowsState : public GlobalTableFunctionState {
	idx_t position = 0;
};

static unique_ptr<GlobalTableFunctionState> StartRows(ClientContext &context, TableFunctionInitInput &input) {
	return make_uniq<RowsState>();
}

static void NextRows(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &rows = input.bind_data->Cast<RowsData>().rows;
	auto &state = input.global_state->Cast<RowsState>();
	idx_t count = 0;
	for (; count < STANDARD_VECTOR_SIZE && state.position < rows.size(); count++, state.position++) {
		for (idx_t column = 0; column < rows[state.position].size(); column++) {
			output.SetValue(column, count, rows[state.position][column]);
		}
	}
	output.SetCardinality(count);
}

static shared_ptr<DatabaseState> DatabaseOf(TableFunctionBindInput &input) {
	return input.info->Cast<FunctionInfo>().database;
}

static void Columns(vector<LogicalType> &types, vector<Name> &names,
                    const vector<std::pair<const char *, LogicalType>> &columns) {
	for (auto &column : columns) {
		names.push_back(Name(column.first));
		types.push_back(column.second);
	}
}

// warpmill_explain(sql): whether Warpmill runs the statement, with the plan or the reason.
static unique_ptr<FunctionData> BindExplain(ClientContext &context, TableFunctionBindInput &input,
                                            vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names, {{"accelerated", LogicalType::BOOLEAN}, {"text", LogicalType::VARCHAR}});
	if (input.inputs[0].IsNull()) {
		throw BinderException("warpmill_explain takes the text of a statement, not NULL");
	}
	auto verdict = Examine(context, *DatabaseOf(input), StringValue::Get(input.inputs[0]));
	return make_uniq<RowsData>(vector<Row> {{Value::BOOLEAN(verdict.accelerated), Value(verdict.text)}});
}

// warpmill_last(): the way in which this connection's last query over tables was run.
static unique_ptr<FunctionData> BindLast(ClientContext &context, TableFunctionBindInput &input,
                                         vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names,
	        {{"accelerated", LogicalType::BOOLEAN}, {"reason", LogicalType::VARCHAR}, {"profile", LogicalType::VARCHAR}});
	auto outcome = ConnectionState::Get(context)->LastOutcome();
	auto text = [](const string &value) { return value.empty() ? Value(LogicalType::VARCHAR) : Value(value); };
	return make_uniq<RowsData>(
	    vector<Row> {{Value::BOOLEAN(outcome.accelerated), text(outcome.reason), text(outcome.profile)}});
}

// warpmill_stats(): counters of this database since it was opened.
static unique_ptr<FunctionData> BindStats(ClientContext &context, TableFunctionBindInput &input,
                                          vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names, {{"name", LogicalType::VARCHAR}, {"value", LogicalType::UBIGINT}});
	auto database = DatabaseOf(input);
	auto row = [](const char *name, uint64_t value) -> Row { return {Value(name), Value::UBIGINT(value)}; };
	return make_uniq<RowsData>(vector<Row> {row("queries_accelerated", database->Queries(Ending::ACCELERATED)),
	                                        row("queries_left_to_duckdb", database->Queries(Ending::LEFT)),
	                                        row("queries_failed_at_run_time", database->Queries(Ending::FAILED)),
	                                        row("inputs_scanned", database->inputs_scanned),
	                                        row("inputs_from_cache", database->inputs_from_cache),
	                                        row("inputs_own", database->inputs_own)});
}

// warpmill_status(): the number of queries over tables since this database was opened, by outcome and reason.
static unique_ptr<FunctionData> BindStatus(ClientContext &context, TableFunctionBindInput &input,
                                           vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names,
	        {{"outcome", LogicalType::VARCHAR}, {"reason", LogicalType::VARCHAR}, {"queries", LogicalType::UBIGINT}});
	static const char *const OUTCOMES[] = {"accelerated", "left to DuckDB", "failed, and run by DuckDB"};
	vector<Row> rows;
	for (auto &entry : DatabaseOf(input)->Status()) {
		auto &reason = entry.first.second;
		rows.push_back({Value(OUTCOMES[static_cast<idx_t>(entry.first.first)]),
		                reason.empty() ? Value(LogicalType::VARCHAR) : Value(reason), Value::UBIGINT(entry.second)});
	}
	return make_uniq<RowsData>(std::move(rows));
}

// warpmill_cache(): the engine's cache of table data, as JSON text.
static unique_ptr<FunctionData> BindCache(ClientContext &context, TableFunctionBindInput &input,
                                          vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names, {{"cache", LogicalType::VARCHAR}});
	auto &engine = DatabaseOf(input)->engine;
	auto text = engine.cache_text();
	string copy = text;
	engine.text_free(text);
	return make_uniq<RowsData>(vector<Row> {{Value(copy)}});
}

// warpmill_clear_cache()
static unique_ptr<FunctionData> BindClearCache(ClientContext &context, TableFunctionBindInput &input,
                                               vector<LogicalType> &types, vector<Name> &names) {
	Columns(types, names, {{"cleared", LogicalType::BOOLEAN}});
	DatabaseOf(input)->engine.cache_clear();
	return make_uniq<RowsData>(vector<Row> {{Value::BOOLEAN(true)}});
}

// warpmill(sql): the explicit door. The first stage provides it in every process; with the shim it needs no macro.
static unique_ptr<TableRef> ReplaceExplicit(ClientContext &context, TableFunctionBindInput &input) {
	if (input.inputs[0].IsNull()) {
		throw BinderException("warpmill takes the text of a SELECT, not NULL");
	}
	// The statements that this one plans must not be taken over.
	ConnectionState::Get(context)->is_explicit = true;
	auto &engine = DatabaseOf(input)->engine;
	auto fallback = "CAST(current_setting('warpmill_fallback') AS VARCHAR)";
	auto text = engine.door_first(StringValue::Get(input.inputs[0]).c_str(), fallback);
	string copy = text;
	engine.text_free(text);
#if WARPMILL_DUCKDB >= 20000
	Parser parser(context);
#else
	Parser parser(context.GetParserOptions());
#endif
	parser.ParseQuery(copy);
	return make_uniq<SubqueryRef>(unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0])));
}

void RegisterFunctions(DatabaseInstance &db, const shared_ptr<DatabaseState> &database) {
	ExtensionLoader loader(db, "warpmill");
	auto add = [&](const char *name, vector<LogicalType> arguments, table_function_bind_t bind) {
		TableFunction function(name, std::move(arguments), NextRows, bind, StartRows);
		function.function_info = make_shared_ptr<FunctionInfo>(database);
		loader.RegisterFunction(std::move(function));
	};
	TableFunction explicit_door("warpmill", {LogicalType::VARCHAR}, nullptr, nullptr);
	explicit_door.bind_replace = ReplaceExplicit;
	explicit_door.function_info = make_shared_ptr<FunctionInfo>(database);
	loader.RegisterFunction(std::move(explicit_door));
	add("warpmill_explain", {LogicalType::VARCHAR}, BindExplain);
	add("warpmill_last", {}, BindLast);
	add("warpmill_stats", {}, BindStats);
	add("warpmill_status", {}, BindStatus);
	add("warpmill_cache", {}, BindCache);
	add("warpmill_clear_cache", {}, BindClearCache);
}

} // namespace warpmill
