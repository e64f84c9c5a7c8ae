// The operator that replaces a SELECT: its children are DuckDB's own scans, and its rows come from the engine.
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "attached.hpp"
#include "state.hpp"

namespace warpmill {

// Whether a client has interrupted its query. The engine asks while it plans and runs.
bool Interrupted(void *client_context);

// An accelerated query: the engine's plan, and DuckDB's own plan, which runs if the engine fails.
class Query {
public:
	Query(shared_ptr<DatabaseState> database, shared_ptr<Binder> binder, vector<LogicalType> types);
	~Query();

	// Whether the plan reads any column of the input; otherwise its rows are only counted.
	bool HasColumns(idx_t input) const {
		const uint32_t *columns;
		return database->engine.plan_columns(plan, input, &columns) > 0;
	}

	// Runs DuckDB's own plan in the caller's transaction.
	unique_ptr<ColumnDataCollection> RunKept(ClientContext &context);
	// Returns DuckDB's own plan after the steps of its planner; can be called once.
	unique_ptr<LogicalOperator> TakeKept(ClientContext &context);

	const shared_ptr<DatabaseState> database;
	// The engine's plan; null until it is handed over, which is the last step.
	wm_plan *plan = nullptr;
	const vector<LogicalType> types;
	// DuckDB's own plan; null after it has been taken.
	unique_ptr<LogicalOperator> kept;

private:

	std::mutex lock;
	shared_ptr<Binder> binder;
	unique_ptr<PhysicalPlan> kept_physical;
};

// The table that a child of the operator scans.
struct Scanned {
	// The table of DuckDB; null for other inputs.
	TableCatalogEntry *table;
	// A table of Warpmill's own, which the engine reads directly; null for other inputs.
	shared_ptr<OwnTable> own;
};

struct LogicalWarpmill : public LogicalExtensionOperator {
	LogicalWarpmill(TableIndexType table_index, shared_ptr<Query> query, vector<Scanned> scanned);

	vector<ColumnBinding> GetColumnBindings() override;
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override;
	void Serialize(Serializer &serializer) const override;
	string GetName() const override {
		return "WARPMILL";
	}
	string GetExtensionName() const override {
		return "warpmill";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	TableIndexType table_index;
	shared_ptr<Query> query;
	// The table of each child.
	vector<Scanned> scanned;

protected:
	void ResolveTypes() override {
		types = query->types;
	}

private:
	PhysicalOperator &PlanScans(ClientContext &context, PhysicalPlanGenerator &planner);
};

// The description of the operator in EXPLAIN.
InsertionOrderPreservingMap<string> Describe(const Query &query);

} // namespace warpmill
