#include "operator.hpp"

#include "duckdb/catalog/catalog_entry/duck_table_entry.hpp"
#include "duckdb/common/exception.hpp"
#include "duckdb/execution/column_binding_resolver.hpp"
#include "duckdb/execution/executor.hpp"
#include "duckdb/main/settings.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/parallel/task_scheduler.hpp"
#include "rows.hpp"

namespace warpmill {

bool Interrupted(void *client_context) {
	auto &context = *static_cast<ClientContext *>(client_context);
	try {
#if WARPMILL_DUCKDB >= 20000
		context.InterruptCheck();
		return false;
#else
		return context.interrupted;
#endif
	} catch (std::exception &) {
		return true;
	}
}

// Number of rows that a thread collects before it hands them to the engine, if the scan does not number its batches.
static constexpr idx_t ROWS_PER_PART = 122880;

// The state of an input in one execution.
class InputState : public GlobalSinkState {
public:
	InputState(const Query &query, idx_t index, const string &key)
	    : engine(query.database->engine),
	      input(engine.input_new(query.plan, index, key.empty() ? nullptr : key.c_str())) {
	}
	InputState(const Query &query, idx_t index, const OwnTable &own)
	    : engine(query.database->engine), input(engine.input_of_table(query.plan, index, own.Get())) {
	}
	~InputState() override {
		engine.input_free(input);
	}

	// The columns that the engine has to be given, by their index among those that the plan reads.
	vector<idx_t> Missing() const {
		const uint32_t *columns;
		auto count = engine.input_missing(input, &columns);
		return vector<idx_t>(columns, columns + count);
	}

	const wm_engine &engine;
	wm_input *const input;
	// Records the reason why rows are refused; the first reason is kept.
	void Fail(const string &reason) {
		std::lock_guard<std::mutex> guard(lock);
		if (!failed) {
			failure = reason;
			failed = true;
		}
	}
	string Failure() {
		std::lock_guard<std::mutex> guard(lock);
		return failure;
	}
	// Records the reason that the engine gives.
	void FailAsEngine() {
		auto reason = engine.input_error(input);
		Fail(reason ? reason : "the engine refused rows");
	}

	// The positions of the missing columns in the scan.
	vector<idx_t> columns;
	std::atomic<bool> failed {false};

private:
	std::mutex lock;
	string failure;
};

// Runs a step of reading rows. Its errors end the query on Warpmill only: DuckDB's own plan then runs.
template <class F>
static void Guarded(InputState &state, F step) {
	try {
		step();
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &ex) {
		state.Fail(ErrorData(ex).RawMessage());
	}
}

// The rows that one thread collects.
class InputLocalState : public LocalSinkState {
public:
	explicit InputLocalState(const InputState &state)
	    : engine(state.engine), part(engine.part_new(state.input)), formats(state.columns.size()),
	      vectors(state.columns.size()) {
	}
	~InputLocalState() override {
		engine.part_free(part);
	}

	const wm_engine &engine;
	wm_part *const part;
	idx_t rows = 0;
	// The position of the rows in the table.
	idx_t place = WM_NO_PLACE;
	vector<UnifiedVectorFormat> formats;
	vector<wm_vector> vectors;
};

// A scan of some of the columns of an input.
struct PartialScan {
	PhysicalOperator *scan = nullptr;
	// The columns by their index among those that the plan reads.
	vector<idx_t> columns;
};

// Hands the rows of a scan to the engine.
class PhysicalInput : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalInput(PhysicalPlan &plan, shared_ptr<Query> query, idx_t index, Scanned scanned, PhysicalOperator &scan,
	              PartialScan partial)
	    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, {LogicalType::BIGINT}, scan.estimated_cardinality),
	      query(std::move(query)), index(index), table(scanned.table), own(std::move(scanned.own)),
	      partial(std::move(partial)),
	      in_order(table && scan.type == PhysicalOperatorType::TABLE_SCAN &&
	               scan.SupportsPartitioning(OperatorPartitionInfo::BatchIndex())) {
		children.push_back(scan);
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
	// A table's scan numbers its batches, so that columns that are read at different times have their rows in the same order.
	OperatorPartitionInfo RequiredPartitionInfo() const override {
		return in_order ? OperatorPartitionInfo::BatchIndex() : OperatorPartitionInfo::NoPartitionInfo();
	}

	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override {
		return make_uniq<InputLocalState>(sink_state->Cast<InputState>());
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		auto &state = input.global_state.Cast<InputState>();
		auto &local = input.local_state.Cast<InputLocalState>();
		if (state.failed) {
			return SinkResultType::FINISHED;
		}
		Guarded(state, [&]() { Push(chunk, state, local); });
		return state.failed ? SinkResultType::FINISHED : SinkResultType::NEED_MORE_INPUT;
	}
	SinkNextBatchType NextBatch(ExecutionContext &context, OperatorSinkNextBatchInput &input) const override {
		auto &state = input.global_state.Cast<InputState>();
		Guarded(state, [&]() { Take(state, input.local_state.Cast<InputLocalState>()); });
		return SinkNextBatchType::READY;
	}
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override {
		auto &state = input.global_state.Cast<InputState>();
		Guarded(state, [&]() { Take(state, input.local_state.Cast<InputLocalState>()); });
		return SinkCombineResultType::FINISHED;
	}

	// Finds the columns that the engine has to be given. Returns their scan; null if the engine has all columns.
	PhysicalOperator *Start(ClientContext &context) {
		sink_state.reset();
		if (own) {
			sink_state = make_uniq<InputState>(*query, index, *own);
			query->database->inputs_own++;
			return nullptr;
		}
		auto key = table ? query->database->VersionKey(context, *table) : string();
		auto state = make_uniq<InputState>(*query, index, key);
		auto missing = state->Missing();
		auto scan = &children[0].get();
		state->columns = missing;
		if (partial.scan && Find(missing, state->columns)) {
			scan = partial.scan;
		}
		// The columns that the engine has must not change between this check and the choice of the scan.
		sink_state = std::move(state);
		if (missing.empty()) {
			query->database->inputs_from_cache++;
			return nullptr;
		}
		query->database->inputs_scanned++;
		return scan;
	}

	shared_ptr<Query> query;
	const idx_t index;
	// The table of DuckDB; null for other inputs.
	TableCatalogEntry *const table;
	// A table of Warpmill's own, which needs no scan.
	const shared_ptr<OwnTable> own;

private:
	void Push(DataChunk &chunk, InputState &state, InputLocalState &local) const {
		if (in_order) {
			local.place = local.partition_info.batch_index.GetIndex();
		}
		auto count = query->HasColumns(index) ? state.columns.size() : 0;
		for (idx_t i = 0; i < count; i++) {
			auto &format = local.formats[i];
			Unify(chunk.data[state.columns[i]], chunk.size(), format);
			local.vectors[i] = wm_vector {format.data, format.validity.GetData(), format.sel->data()};
		}
		if (!state.engine.part_push(state.input, local.part, chunk.size(), local.vectors.data(), count)) {
			state.FailAsEngine();
			return;
		}
		local.rows += chunk.size();
		if (!in_order && local.rows >= ROWS_PER_PART) {
			Take(state, local);
		}
	}

	// Finds the columns in the partial scan. Returns false if one is not there.
	bool Find(const vector<idx_t> &missing, vector<idx_t> &places) const {
		vector<idx_t> found;
		for (auto column : missing) {
			auto place = std::find(partial.columns.begin(), partial.columns.end(), column);
			if (place == partial.columns.end()) {
				return false;
			}
			found.push_back(place - partial.columns.begin());
		}
		places = std::move(found);
		return true;
	}

	static void Unify(Vector &vector, idx_t count, UnifiedVectorFormat &format) {
#if WARPMILL_DUCKDB >= 20000
		vector.ToUnifiedFormat(format);
#else
		vector.ToUnifiedFormat(count, format);
#endif
	}

	// Hands the collected rows over, and does a part of the engine's work.
	static void Take(InputState &state, InputLocalState &local) {
		if (state.failed) {
			return;
		}
		auto &least = local.partition_info.min_batch_index;
		if (!state.engine.part_take(state.input, local.part, local.place, least.IsValid() ? least.GetIndex() : 0)) {
			state.FailAsEngine();
		}
		local.rows = 0;
		local.place = WM_NO_PLACE;
	}

	PartialScan partial;
	const bool in_order;
};

// The result's rows: those of the engine, or those of DuckDB's own plan.
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
	// The current batch, and the number of its rows that have been returned.
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
		failure.clear();
		vector<std::pair<PhysicalOperator *, PhysicalOperator *>> scans;
		try {
			for (auto &child : children) {
				if (auto scan = child.get().Cast<PhysicalInput>().Start(current.GetClientContext())) {
					scans.emplace_back(&child.get(), scan);
				}
			}
		} catch (std::exception &ex) {
			// No scan runs: DuckDB's own plan runs when rows are requested.
			failure = ErrorData(ex).RawMessage();
			return;
		}
		for (auto &scan : scans) {
			meta_pipeline.CreateChildMetaPipeline(current, *scan.first).Build(*scan.second);
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
	// Runs the query to its end: no row is returned before the query is known to succeed.
	void Start(ClientContext &context, ResultState &state) const {
		auto connection = ConnectionState::Get(context);
		auto error = failure;
		try {
			if (error.empty() && Execute(context, state, error)) {
				state.columns.resize(types.size());
				connection->Accelerated(state.engine.run_profile(state.run));
				return;
			}
		} catch (InterruptException &) {
			throw;
		} catch (std::exception &ex) {
			error = ErrorData(ex).RawMessage();
		}
		connection->NotAccelerated(context, Ending::FAILED, "failed while it ran: " + error);
		state.kept = query->RunKept(context);
		state.kept->InitializeScan(state.scan);
	}

	bool Execute(ClientContext &context, ResultState &state, string &error) const {
		vector<wm_input *> inputs;
		for (auto &child : children) {
			auto &input = child.get().sink_state->Cast<InputState>();
			if (input.failed) {
				error = input.Failure();
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
	// The reason why no scan runs in this execution.
	string failure;
};

LogicalWarpmill::LogicalWarpmill(TableIndexType table_index, shared_ptr<Query> query, vector<Scanned> scanned)
    : table_index(table_index), query(std::move(query)), scanned(std::move(scanned)) {
}

vector<ColumnBinding> LogicalWarpmill::GetColumnBindings() {
	return GenerateColumnBindings(table_index, query->types.size());
}

// Serializes DuckDB's own plan, since readers of plans do not know this operator.
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
	string plan = query.database->engine.plan_text(query.plan);
	// The remaining text describes programs, which only warpmill_explain shows.
	result["Plan"] = plan.substr(0, plan.find("pipeline 0"));
	return result;
}

// A scan of the columns that the engine does not have now, if it has some of the others. When the query runs, others may be missing.
static PartialScan ScanMissing(ClientContext &context, PhysicalPlanGenerator &planner, const Query &query, idx_t index,
                               TableCatalogEntry *table, LogicalOperator &scan) {
	if (!table || scan.type != LogicalOperatorType::LOGICAL_GET) {
		return PartialScan();
	}
	auto &get = scan.Cast<LogicalGet>();
	auto key = query.database->VersionKey(context, *table);
	if (key.empty() || !get.projection_ids.empty() || HasTableFilters(get)) {
		return PartialScan();
	}
	auto missing = InputState(query, index, key).Missing();
	auto &all = get.GetColumnIds();
	if (missing.empty() || missing.size() >= all.size()) {
		return PartialScan();
	}
	vector<ColumnIndex> ids;
	for (auto column : missing) {
		ids.push_back(all[column]);
	}
	LogicalGet some(get.table_index, get.function, get.bind_data->Copy(), get.returned_types, get.names,
	                get.virtual_columns);
	some.SetColumnIds(std::move(ids));
	some.parameters = get.parameters;
	some.named_parameters = get.named_parameters;
#if WARPMILL_DUCKDB >= 20000
	some.bind_info = get.bind_info;
#endif
	some.estimated_cardinality = get.estimated_cardinality;
	some.has_estimated_cardinality = get.has_estimated_cardinality;
	some.ResolveOperatorTypes();
	return PartialScan {&planner.CreatePlan(static_cast<LogicalOperator &>(some)), std::move(missing)};
}

PhysicalOperator &LogicalWarpmill::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	string failure;
	try {
		return PlanScans(context, planner);
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &ex) {
		failure = ErrorData(ex).RawMessage();
	}
	ConnectionState::Get(context)->NotAccelerated(context, Ending::FAILED, "failed while it was planned: " + failure);
	// The same steps as at the root of a plan in DuckDB's planner.
	auto kept = query->TakeKept(context);
	kept->ResolveOperatorTypes();
	ColumnBindingResolver resolver;
	resolver.VisitOperator(*kept);
	kept->estimated_cardinality = kept->EstimateCardinality(context);
	return planner.CreatePlan(*kept);
}

PhysicalOperator &LogicalWarpmill::PlanScans(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto &result = planner.Make<PhysicalWarpmill>(query, estimated_cardinality);
	for (idx_t i = 0; i < children.size(); i++) {
		auto partial = ScanMissing(context, planner, *query, i, scanned[i].table, *children[i]);
		auto &scan = planner.CreatePlan(*children[i]);
		result.children.push_back(planner.Make<PhysicalInput>(query, i, scanned[i], scan, std::move(partial)));
	}
	return result;
}

} // namespace warpmill
