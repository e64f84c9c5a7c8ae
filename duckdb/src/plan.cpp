#include "plan.hpp"

#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/planner.hpp"
#include "encode.hpp"

namespace warpmill {

// Whether an operator is the root of a query. Other statements (INSERT, CREATE TABLE AS, COPY, ...) are left to DuckDB with the SELECT
// in them: DuckDB guarantees the order of the rows that they store.
static bool IsQuery(const LogicalOperator &root) {
	switch (root.type) {
	case LogicalOperatorType::LOGICAL_PROJECTION:
	case LogicalOperatorType::LOGICAL_FILTER:
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
	case LogicalOperatorType::LOGICAL_ORDER_BY:
	case LogicalOperatorType::LOGICAL_LIMIT:
	case LogicalOperatorType::LOGICAL_DISTINCT:
	case LogicalOperatorType::LOGICAL_UNION:
	case LogicalOperatorType::LOGICAL_EXCEPT:
	case LogicalOperatorType::LOGICAL_INTERSECT:
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
	case LogicalOperatorType::LOGICAL_ANY_JOIN:
	case LogicalOperatorType::LOGICAL_GET:
		return true;
	default:
		return false;
	}
}

static bool ReadsData(LogicalOperator &op);

// Whether a subquery of an expression reads data.
static bool ReadsData(Expression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_SUBQUERY) {
		auto &plan = SubqueryOf(expr.Cast<BoundSubqueryExpression>()).plan;
		if (plan && ReadsData(*plan)) {
			return true;
		}
	}
	bool reads = false;
	ExpressionIterator::EnumerateChildren(expr, [&](Expression &child) { reads = reads || ReadsData(child); });
	return reads;
}

// Whether a plan reads data other than computed rows and the catalog.
static bool ReadsData(LogicalOperator &op) {
	if (op.type == LogicalOperatorType::LOGICAL_GET) {
		auto &get = op.Cast<LogicalGet>();
		auto &name = GetFunctionName(get);
		return IsTableScan(get) || IsReadable(get) || name.find("read_") == 0 || name.find("arrow_scan") != string::npos;
	}
	bool reads = std::any_of(op.children.begin(), op.children.end(), [](auto &child) { return ReadsData(*child); });
	if (!reads) {
		LogicalOperatorVisitor::EnumerateExpressions(
		    op, [&](unique_ptr<Expression> *expr) { reads = reads || ReadsData(**expr); });
	}
	return reads;
}

// The engine's plan, and the tables of its inputs.
struct Accepted {
	wm_plan *plan = nullptr;
	vector<Input> inputs;
};

static string Refusal(ClientContext &context, DatabaseState &database, LogicalOperator &root,
                      const vector<LogicalType> &types, Accepted &accepted) {
	Encoder encoder(context);
	string text;
	try {
		text = encoder.Encode(root, types);
	} catch (Refused &refused) {
		return refused.reason;
	}
	auto &engine = database.engine;
	auto plan = engine.plan_new(text.data(), text.size(), Interrupted, &context);
	if (!plan) {
		throw InterruptException();
	}
	if (auto refusal = engine.plan_refusal(plan)) {
		string reason = refusal;
		engine.plan_free(plan);
		return reason;
	}
	accepted.plan = plan;
	accepted.inputs = std::move(encoder.inputs);
	return string();
}

// Binds the source of a table function again, since the kept plan uses the first one. Throws Refused if the result is different.
static unique_ptr<FunctionData> BindAgain(ClientContext &context, Binder &binder, const LogicalGet &get,
                                          BoundFunction &function) {
	auto parameters = get.parameters;
	auto named_parameters = get.named_parameters;
	auto input_types = get.input_table_types;
	auto input_names = get.input_table_names;
	TableFunctionRef ref;
#if WARPMILL_DUCKDB >= 20000
	ref.bind_info = get.bind_info;
#endif
	TableFunctionBindInput input(parameters, named_parameters, input_types, input_names, function.function_info.get(),
	                             &binder, function, ref);
	vector<LogicalType> types;
	vector<Name> names;
	unique_ptr<FunctionData> data;
	try {
		data = function.bind ? function.bind(context, input, types, names) : nullptr;
	} catch (std::exception &ex) {
		throw Refused {"a scan by " + GetFunctionName(get) + " that cannot be bound twice: " + ErrorData(ex).RawMessage()};
	}
	if (!data || types != get.returned_types) {
		throw Refused {"a scan by " + GetFunctionName(get) + " that cannot be bound twice"};
	}
	if (function.get_virtual_columns) {
		// This call is part of binding.
		function.get_virtual_columns(context, data.get());
	}
	return data;
}

// The scan of an input: the columns that the engine needs, for every row that the transaction sees.
static unique_ptr<LogicalOperator> Scan(ClientContext &context, Binder &binder, const wm_engine &engine,
                                        const wm_plan *plan, const Input &input, idx_t index) {
	auto &get = *input.get;
	auto function = get.function;
	auto data = input.table || input.own ? get.bind_data->Copy() : BindAgain(context, binder, get, function);
	auto scan = make_uniq<LogicalGet>(NewTableIndex(binder), std::move(function), std::move(data), get.returned_types,
	                                  get.names, get.virtual_columns);
	const uint32_t *columns;
	auto count = engine.plan_columns(plan, index, &columns);
	vector<ColumnIndex> ids;
	for (idx_t i = 0; i < count; i++) {
		ids.emplace_back(input.columns[columns[i]]);
	}
	if (ids.empty()) {
		ids.emplace_back(get.GetAnyColumn());
	}
	scan->SetColumnIds(std::move(ids));
	scan->parameters = get.parameters;
	scan->named_parameters = get.named_parameters;
#if WARPMILL_DUCKDB >= 20000
	scan->bind_info = get.bind_info;
#endif
	return std::move(scan);
}

static void Replace(PlannerExtensionInput &input, const shared_ptr<DatabaseState> &database,
                    unique_ptr<LogicalOperator> &slot, const vector<LogicalType> &types, Accepted &accepted) {
	auto &binder = input.binder;
	vector<unique_ptr<LogicalOperator>> scans;
	vector<Scanned> scanned;
	for (idx_t i = 0; i < accepted.inputs.size(); i++) {
		scans.push_back(Scan(input.context, binder, database->engine, accepted.plan, accepted.inputs[i], i));
		scanned.push_back(Scanned {accepted.inputs[i].table, accepted.inputs[i].own});
	}
	auto query = make_shared_ptr<Query>(database, binder.shared_from_this(), types);
	auto root = make_uniq<LogicalWarpmill>(NewTableIndex(binder), query, std::move(scanned));
	root->children = std::move(scans);
	// The following steps do not fail.
	query->plan = accepted.plan;
	accepted.plan = nullptr;
	query->kept = std::move(slot);
	slot = std::move(root);
}

// Replaces the SELECT in `slot`, or leaves it unchanged and returns the reason. Without `types`, the types of the plan are used.
static string TakeOver(PlannerExtensionInput &input, const shared_ptr<DatabaseState> &database,
                       unique_ptr<LogicalOperator> &slot, vector<LogicalType> types) {
	Accepted accepted;
	string reason;
	try {
		if (types.empty()) {
			slot->ResolveOperatorTypes();
			types = slot->types;
		}
		reason = Refusal(input.context, *database, *slot, types, accepted);
		if (accepted.plan) {
			Replace(input, database, slot, types, accepted);
			return string();
		}
	} catch (Refused &refused) {
		reason = refused.reason;
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &ex) {
		reason = "an error while it was examined: " + ErrorData(ex).RawMessage();
	}
	if (accepted.plan) {
		// The plan has not been handed over.
		database->engine.plan_free(accepted.plan);
	}
	return reason;
}

void AfterBind(PlannerExtensionInput &input, BoundStatement &statement) {
	auto &context = input.context;
	auto state = ConnectionState::Get(context);
	if (!state || !statement.plan || state->is_explicit || !IsEnabled(context)) {
		return;
	}
	if (state->in_query && state->planned++ > 0) {
		return;
	}
	auto explained = statement.plan->type == LogicalOperatorType::LOGICAL_EXPLAIN;
	auto &slot = explained ? statement.plan->children[0] : statement.plan;
	if (!IsQuery(*slot) || !ReadsData(*slot)) {
		return;
	}
	auto &database = static_cast<PlannerInfo &>(*input.info).database;
	auto reason = TakeOver(input, database, slot, explained ? vector<LogicalType>() : statement.types);
	if (reason.empty()) {
		return;
	}
	if (explained) {
		RequireAllowed(context, Ending::LEFT, reason);
	} else {
		state->NotAccelerated(context, Ending::LEFT, reason);
	}
}

Verdict Examine(ClientContext &context, DatabaseState &database, const string &sql) {
#if WARPMILL_DUCKDB >= 20000
	Parser parser(context);
#else
	Parser parser(context.GetParserOptions());
#endif
	parser.ParseQuery(sql);
	auto &statements = parser.statements;
	if (statements.size() != 1) {
		throw InvalidInputException("warpmill_explain takes one statement");
	}
	auto binder = Binder::CreateBinder(context);
	auto statement = binder->Bind(*statements[0]);
	if (!IsQuery(*statement.plan)) {
		return Verdict {false, "not a SELECT"};
	}
	if (!ReadsData(*statement.plan)) {
		return Verdict {false, "a query without tables"};
	}
	Accepted accepted;
	auto reason = Refusal(context, database, *statement.plan, statement.types, accepted);
	if (!accepted.plan) {
		return Verdict {false, reason};
	}
	string text = database.engine.plan_text(accepted.plan);
	database.engine.plan_free(accepted.plan);
	return Verdict {true, text};
}

} // namespace warpmill
