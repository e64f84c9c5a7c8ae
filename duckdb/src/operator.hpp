// The operator that takes the place of a SELECT: DuckDB's own scans below, rows of the engine above.
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "attached.hpp"
#include "state.hpp"

namespace warpmill {

// Whether a client wants its query to stop: for the engine, which asks while it plans and runs.
bool Interrupted(void *client_context);

// An accelerated query: the engine's plan, and DuckDB's own to fall back to.
class Query {
public:
	Query(shared_ptr<DatabaseState> database, shared_ptr<Binder> binder, vector<LogicalType> types);
	~Query();

	// Whether the plan reads any column of the input: if not, its rows are counted.
	bool HasColumns(idx_t input) const {
		const uint32_t *columns;
		return database->engine.plan_columns(plan, input, &columns) > 0;
	}

	// Runs DuckDB's own plan in the caller's transaction.
	unique_ptr<ColumnDataCollection> RunKept(ClientContext &context);
	// Takes DuckDB's own plan, as its planner leaves it.
	unique_ptr<LogicalOperator> TakeKept(ClientContext &context);

	const shared_ptr<DatabaseState> database;
	// Null until it is handed over, which nothing follows that fails.
	wm_plan *plan = nullptr;
	const vector<LogicalType> types;
	// Null once it has been taken.
	unique_ptr<LogicalOperator> kept;

private:

	std::mutex lock;
	shared_ptr<Binder> binder;
	unique_ptr<PhysicalPlan> kept_physical;
};

// The table that a child of the operator scans.
struct Scanned {
	// Null for what is not a table of DuckDB's.
	TableCatalogEntry *table;
	// A table of Warpmill's own, which the engine reads where it is; null for all others.
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
	// Of each child.
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
