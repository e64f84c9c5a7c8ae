#include "operator.hpp"

#include "duckdb/catalog/catalog_entry/duck_table_entry.hpp"
#include "duckdb/common/arrow/arrow_appender.hpp"
#include "duckdb/common/exception.hpp"
#include "duckdb/execution/executor.hpp"
#include "duckdb/main/settings.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/parallel/task_scheduler.hpp"
#include "rows.hpp"

namespace warpmill {

// Rows that a thread gathers before it hands them to the engine: DuckDB's row group.
static constexpr idx_t ROWS_PER_PUSH = 122880;

// What one execution has got of an input.
class InputState : public GlobalSinkState {
public:
	InputState(const Query &query, idx_t index, const string &key)
	    : engine(query.database->engine),
	      input(engine.input_new(query.plan, index, key.empty() ? nullptr : key.c_str())) {
	}
	~InputState() override {
		engine.input_free(input);
	}

	const wm_engine &engine;
	wm_input *const input;
	std::atomic<bool> failed {false};
	std::mutex error_lock;
	string error;

	void Fail(const string &message) {
		std::lock_guard<std::mutex> guard(error_lock);
		if (!failed) {
			error = message;
			failed = true;
		}
	}
};

class InputLocalState : public LocalSinkState {
public:
	unique_ptr<ArrowAppender> rows;
};

// Takes the rows of one scan.
class PhysicalInput : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalInput(PhysicalPlan &plan, shared_ptr<Query> query, idx_t index, TableCatalogEntry *table, idx_t rows)
	    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, {LogicalType::BIGINT}, rows), query(std::move(query)),
	      index(index), table(table) {
	}

	string GetName() const override {
		return "WARPMILL_INPUT";
	}
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return true;
	}

	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		auto key = table ? query->database->VersionKey(context, *table) : string();
		auto state = make_uniq<InputState>(*query, index, key);
		auto cached = state->engine.input_cached(state->input);
		(cached ? query->database->inputs_from_cache : query->database->inputs_scanned)++;
		return std::move(state);
	}
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override {
		return make_uniq<InputLocalState>();
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		auto &state = input.global_state.Cast<InputState>();
		if (state.failed || state.engine.input_cached(state.input)) {
			return SinkResultType::FINISHED;
		}
		auto &local = input.local_state.Cast<InputLocalState>();
		try {
			if (!local.rows) {
				local.rows = make_uniq<ArrowAppender>(children[0].get().types, ROWS_PER_PUSH, ArrowProperties(context.client),
				                                      unordered_map<idx_t, const shared_ptr<ArrowTypeExtensionData>>());
			}
			RequireFinite(chunk);
			local.rows->Append(chunk, 0, chunk.size(), chunk.size());
			if (local.rows->RowCount() >= ROWS_PER_PUSH) {
				Push(state, local);
			}
		} catch (std::exception &ex) {
			state.Fail(ErrorData(ex).RawMessage());
		}
		return state.failed ? SinkResultType::FINISHED : SinkResultType::NEED_MORE_INPUT;
	}
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override {
		auto &state = input.global_state.Cast<InputState>();
		auto &local = input.local_state.Cast<InputLocalState>();
		if (local.rows && !state.failed) {
			Push(state, local);
		}
		return SinkCombineResultType::FINISHED;
	}

	void Build(Pipeline &current, MetaPipeline &meta_pipeline) {
		sink_state.reset();
		meta_pipeline.CreateChildMetaPipeline(current, *this).Build(children[0].get());
	}

	shared_ptr<Query> query;
	const idx_t index;
	// Null for what is not a table.
	TableCatalogEntry *const table;

private:
	static void Push(InputState &state, InputLocalState &local) {
		auto array = local.rows->Finalize();
		local.rows.reset();
		if (!state.engine.input_push(state.input, &array)) {
			auto error = state.engine.input_error(state.input);
			state.Fail(error ? error : "the engine refused rows");
		}
	}
};

// The rows of an execution: the engine's, or those of DuckDB's own plan.
class ResultState : public GlobalSourceState {
public:
	explicit ResultState(const wm_engine &engine) : engine(engine) {
	}
	~ResultState() override {
		if (run) {
			engine.run_free(run);
		}
	}

	const wm_engine &engine;
	bool started = false;
	wm_run *run = nullptr;
	// The batch being handed out, and how much of it is.
	vector<wm_column> columns;
	idx_t rows = 0;
	idx_t position = 0;
	unique_ptr<ColumnDataCollection> kept;
	ColumnDataScanState scan;
};

class PhysicalWarpmill : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalWarpmill(PhysicalPlan &plan, shared_ptr<Query> query, idx_t rows)
	    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, query->types, rows), query(std::move(query)) {
	}

	string GetName() const override {
		return "WARPMILL";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		return Describe(*query);
	}
	bool IsSource() const override {
		return true;
	}
	vector<const_reference<PhysicalOperator>> GetSources() const override {
		return {*this};
	}
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override {
		meta_pipeline.GetState().SetPipelineSource(current, *this);
		for (auto &child : children) {
			child.get().Cast<PhysicalInput>().Build(current, meta_pipeline);
		}
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override {
		return make_uniq<ResultState>(query->database->engine);
	}

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override {
		auto &state = input.global_state.Cast<ResultState>();
		if (!state.started) {
			state.started = true;
			Start(context.client, state);
		}
		if (state.kept) {
			state.kept->Scan(state.scan, chunk);
		} else {
			Next(state, chunk);
		}
		return chunk.size() == 0 ? SourceResultType::FINISHED : SourceResultType::HAVE_MORE_OUTPUT;
	}

private:
	// Runs the query to its end: nothing has been emitted before it is known to have succeeded.
	void Start(ClientContext &context, ResultState &state) const {
		string error;
		if (Execute(context, state, error)) {
			state.columns.resize(types.size());
			query->database->accelerated++;
			ConnectionState::Get(context)->Report(Outcome {true, string(), state.engine.run_profile(state.run)});
			return;
		}
		query->database->failed_at_run_time++;
		ConnectionState::Get(context)->Report(Outcome {false, "failed while it ran: " + error, string()});
		if (IsStrict(context)) {
			throw InvalidInputException("Warpmill could not finish this query (warpmill_fallback is 'error'): %s", error);
		}
		state.kept = query->RunKept(context);
		state.kept->InitializeScan(state.scan);
	}

	bool Execute(ClientContext &context, ResultState &state, string &error) const {
		vector<wm_input *> inputs;
		for (auto &child : children) {
			auto &input = child.get().sink_state->Cast<InputState>();
			if (input.failed) {
				error = input.error;
				return false;
			}
			inputs.push_back(input.input);
		}
		auto threads = NumericCast<uint64_t>(TaskScheduler::GetScheduler(context).NumberOfThreads());
		state.run = state.engine.run_new(query->plan, inputs.data(), threads, 0);
		auto status = state.engine.run_execute(state.run, Interrupted, &context);
		if (status == 2) {
			throw InterruptException();
		}
		error = status == 0 ? string() : state.engine.run_error(state.run);
		return status == 0;
	}

	static bool Interrupted(void *context) {
		try {
#if WARPMILL_DUCKDB >= 20000
			static_cast<ClientContext *>(context)->InterruptCheck();
			return false;
#else
			return static_cast<ClientContext *>(context)->interrupted;
#endif
		} catch (std::exception &) {
			return true;
		}
	}

	static void Next(ResultState &state, DataChunk &chunk) {
		if (state.position == state.rows) {
			state.position = 0;
			state.rows = state.engine.run_next(state.run, state.columns.data());
		}
		auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, state.rows - state.position);
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			CopyColumn(state.columns[i], state.position, count, chunk.data[i]);
		}
		state.position += count;
		SetRows(chunk, count);
	}

	shared_ptr<Query> query;
};

LogicalWarpmill::LogicalWarpmill(TableIndexType table_index, shared_ptr<Query> query,
                                 vector<TableCatalogEntry *> tables)
    : table_index(table_index), query(std::move(query)), tables(std::move(tables)) {
}

vector<ColumnBinding> LogicalWarpmill::GetColumnBindings() {
	return GenerateColumnBindings(table_index, query->types.size());
}

// The plan goes away as DuckDB's own: who reads plans has no use for ours.
void LogicalWarpmill::Serialize(Serializer &serializer) const {
	if (!query->kept) {
		throw SerializationException("the plan of a query that Warpmill runs");
	}
	query->kept->Serialize(serializer);
}

InsertionOrderPreservingMap<string> LogicalWarpmill::ParamsToString() const {
	return Describe(*query);
}

InsertionOrderPreservingMap<string> Describe(const Query &query) {
	InsertionOrderPreservingMap<string> result;
	result["Plan"] = query.database->engine.plan_text(query.plan);
	return result;
}

PhysicalOperator &LogicalWarpmill::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto &result = planner.Make<PhysicalWarpmill>(query, estimated_cardinality);
	for (idx_t i = 0; i < children.size(); i++) {
		auto &scan = planner.CreatePlan(*children[i]);
		auto &input = planner.Make<PhysicalInput>(query, i, tables[i], scan.estimated_cardinality);
		input.children.push_back(scan);
		result.children.push_back(input);
	}
	return result;
}

} // namespace warpmill
