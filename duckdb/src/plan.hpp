// The planner hook: which statements Warpmill takes over.
#pragma once

#include "duckdb/planner/planner_extension.hpp"
#include "operator.hpp"

namespace warpmill {

struct PlannerInfo : public PlannerExtensionInfo {
	explicit PlannerInfo(shared_ptr<DatabaseState> database) : database(std::move(database)) {
	}
	shared_ptr<DatabaseState> database;
};

// The verdict on a plan, without running it.
struct Verdict {
	bool accelerated;
	// The reason why not, or the way it is.
	string text;
};

// Called by DuckDB after every statement that it has bound.
void AfterBind(PlannerExtensionInput &input, BoundStatement &statement);

// The verdict on a statement's text, bound in the caller's context.
Verdict Examine(ClientContext &context, DatabaseState &database, const string &sql);

} // namespace warpmill
