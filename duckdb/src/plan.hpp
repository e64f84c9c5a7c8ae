// The planner hook, which takes over statements for Warpmill.
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
	// The reason against acceleration, or the description of the plan.
	string text;
};

// The hook that DuckDB calls after binding a statement.
void AfterBind(PlannerExtensionInput &input, BoundStatement &statement);

// The verdict on a statement's text, bound in the caller's context.
Verdict Examine(ClientContext &context, DatabaseState &database, const string &sql);

} // namespace warpmill
