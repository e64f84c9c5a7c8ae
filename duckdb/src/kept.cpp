// DuckDB's own plan of an accelerated query, which runs when the engine fails.
#include "duckdb/execution/executor.hpp"
#include "duckdb/execution/operator/helper/physical_result_collector.hpp"
#include "duckdb/main/client_data.hpp"
#include "duckdb/main/prepared_statement_data.hpp"
#include "duckdb/main/query_profiler.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/planner/subquery/flatten_dependent_join.hpp"
#if WARPMILL_DUCKDB >= 20000
#include "duckdb/planner/subquery/recursive_dependent_join_planner.hpp"
#endif
#include "operator.hpp"

namespace warpmill {

class CollectorState : public GlobalSinkState {
public:
	CollectorState(ClientContext &context, const vector<LogicalType> &types)
	    : rows(make_uniq<ColumnDataCollection>(context, types)) {
		rows->InitializeAppend(append);
	}
	unique_ptr<ColumnDataCollection> rows;
	ColumnDataAppendState append;
};

// Collects the rows of a plan, in the plan's order.
class RowCollector : public PhysicalResultCollector {
public:
	RowCollector(PhysicalPlan &plan, PreparedStatementData &data) : PhysicalResultCollector(plan, data) {
	}
	unique_ptr<QueryResult> GetResult(GlobalSinkState &state) const override {
		throw InvalidInputException("rows of a kept plan are taken from its state");
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		return make_uniq<CollectorState>(context, types);
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		auto &state = input.global_state.Cast<CollectorState>();
		state.rows->Append(state.append, chunk);
		return SinkResultType::NEED_MORE_INPUT;
	}
	bool SinkOrderDependent() const override {
		return true;
	}
};

// Gives the context another profiler for a while: an executor resets the profiler that it finds, and operators of the plan that is
// being profiled still report to that one.
class ProfilerAside {
public:
	explicit ProfilerAside(ClientContext &context) : profiler(ClientData::Get(context).profiler) {
		aside = profiler;
		profiler = make_shared_ptr<QueryProfiler>(context);
	}
	~ProfilerAside() {
		profiler = aside;
	}

private:
	shared_ptr<QueryProfiler> &profiler;
	shared_ptr<QueryProfiler> aside;
};

Query::Query(shared_ptr<DatabaseState> database, shared_ptr<Binder> binder, vector<LogicalType> types)
    : database(std::move(database)), types(std::move(types)), binder(std::move(binder)) {
}

Query::~Query() {
	if (plan) {
		database->engine.plan_free(plan);
	}
}

// Does the steps of DuckDB's planner that follow binding.
unique_ptr<LogicalOperator> Query::TakeKept(ClientContext &context) {
	if (!kept) {
		throw InvalidInputException("the plan of this query has been used: prepare it again");
	}
#if WARPMILL_DUCKDB >= 20000
	RecursiveDependentJoinPlanner::Plan(*binder, kept);
#endif
	auto logical = FlattenDependentJoins::DecorrelateIndependent(*binder, std::move(kept));
	if (logical->RequireOptimizer()) {
		Optimizer optimizer(*binder, context);
		logical = optimizer.Optimize(std::move(logical));
	}
	return logical;
}

unique_ptr<ColumnDataCollection> Query::RunKept(ClientContext &context) {
	std::lock_guard<std::mutex> guard(lock);
	if (!kept_physical) {
		PhysicalPlanGenerator generator(context);
		kept_physical = generator.Plan(TakeKept(context));
	}
	PreparedStatementData data(StatementType::SELECT_STATEMENT);
	data.types = types;
	data.physical_plan = std::move(kept_physical);
	auto &physical = *data.physical_plan;
	unique_ptr<ColumnDataCollection> rows;
	try {
		unique_ptr<ProfilerAside> aside;
		if (QueryProfiler::Get(context).IsEnabled()) {
			aside = make_uniq<ProfilerAside>(context);
		}
		RowCollector collector(physical, data);
		Executor executor(context);
		executor.Initialize(collector);
		while (!executor.ExecutionIsFinished()) {
#if WARPMILL_DUCKDB >= 20000
			auto worked = executor.WorkOnTasks();
#else
			auto worked = executor.GetCompletedPipelines();
			executor.WorkOnTasks();
			worked = executor.GetCompletedPipelines() - worked;
#endif
			if (!worked && !executor.ExecutionIsFinished()) {
				executor.WaitForTask();
			}
		}
		if (executor.HasError()) {
			auto error = executor.GetError();
			executor.CancelTasks();
			error.Throw();
		}
		rows = std::move(collector.sink_state->Cast<CollectorState>().rows);
		executor.CancelTasks();
	} catch (...) {
		kept_physical = std::move(data.physical_plan);
		throw;
	}
	kept_physical = std::move(data.physical_plan);
	return rows;
}

} // namespace warpmill
