// The differences between the C++ interfaces of the DuckDB versions. WARPMILL_DUCKDB is 10506 for 1.5.6, 20000 for 2.0.0.
#pragma once

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/planner/expression/bound_between_expression.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_comparison_expression.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/joinside.hpp"
#include "duckdb/planner/operator/list.hpp"
#if WARPMILL_DUCKDB >= 20000
#include "duckdb/function/window_function.hpp"
#endif

namespace warpmill {

using namespace duckdb; // NOLINT

// A window function.
struct Windowed {
	string name;
	bool aggregate, ignore_nulls, distinct, excludes, ordered;
	vector<const Expression *> arguments;
	WindowBoundary start, end;
	const unique_ptr<Expression> *start_rows, *end_rows;
};

#if WARPMILL_DUCKDB >= 20000

using Name = Identifier;
inline const string &Text(const Identifier &name) {
	return name.GetIdentifierName();
}
inline idx_t Index(TableIndex index) {
	return index.index;
}
inline idx_t Index(ProjectionIndex index) {
	return index.GetIndex();
}
inline TableIndex NewTableIndex(Binder &binder) {
	return binder.GenerateTableIndex();
}
using TableIndexType = TableIndex;
using BoundFunction = BoundTableFunction;

inline const LogicalType &TypeOf(const Expression &expr) {
	return expr.GetReturnType();
}
inline const string &FunctionName(const BoundFunctionExpression &expr) {
	return Text(expr.Function().GetName());
}
inline const string &FunctionName(const BoundAggregateExpression &expr) {
	return Text(expr.Function().GetName());
}
template <class T>
inline const vector<unique_ptr<Expression>> &Children(const T &expr) {
	return expr.GetChildren();
}
inline const Value &ValueOf(const BoundConstantExpression &expr) {
	return expr.GetValue();
}
inline const ColumnBinding &BindingOf(const BoundColumnRefExpression &expr) {
	return expr.Binding();
}
inline idx_t DepthOf(const BoundColumnRefExpression &expr) {
	return expr.Depth();
}
inline const vector<BoundCaseCheck> &Checks(const BoundCaseExpression &expr) {
	return expr.CaseChecks();
}
inline const Expression &Else(const BoundCaseExpression &expr) {
	return expr.Else();
}
inline const unique_ptr<Expression> &FilterOf(const BoundAggregateExpression &expr) {
	return expr.GetFilter();
}
inline bool IsOrdered(const BoundAggregateExpression &expr) {
	return expr.GetOrderBys() && !expr.GetOrderBys()->orders.empty();
}
inline const BoundStatement &SubqueryOf(const BoundSubqueryExpression &expr) {
	return expr.Subquery();
}
inline SubqueryType KindOf(const BoundSubqueryExpression &expr) {
	return expr.GetSubqueryType();
}
inline ExpressionType ComparisonOf(const BoundSubqueryExpression &expr) {
	return expr.ComparisonType();
}
inline const vector<LogicalType> &TargetsOf(const BoundSubqueryExpression &expr) {
	return expr.GetChildTargets();
}
inline const unique_ptr<Expression> &ConditionOf(const LogicalDependentJoin &join) {
	return join.condition;
}
inline const vector<unique_ptr<Expression>> &Partitions(const BoundWindowExpression &expr) {
	return expr.Partitions();
}
inline const vector<BoundOrderByNode> &OrdersOf(const BoundWindowExpression &expr) {
	return expr.OrderBy();
}
inline const unique_ptr<Expression> &FilterOf(const BoundWindowExpression &expr) {
	return expr.Filter();
}
inline Windowed CallOf(const BoundWindowExpression &expr) {
	auto aggregate = expr.AggregateFunction() != nullptr;
	auto name = aggregate ? Text(expr.AggregateFunction()->GetName()) : Text(expr.WindowFunction()->GetName());
	Windowed call {name, aggregate, expr.IgnoreNulls(), expr.Distinct(),
	               expr.WindowExclude() != WindowExcludeMode::NO_OTHER, !expr.ArgOrders().empty(), {},
	               expr.WindowStart(), expr.WindowEnd(), &expr.StartExpr(), &expr.EndExpr()};
	for (auto &child : expr.GetChildren()) {
		call.arguments.push_back(child.get());
	}
	return call;
}
// Calls `take` for each comparison of two values; the condition is true if all of them are.
template <class F>
inline void ForComparisons(const Expression &expr, F take) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return;
	}
	auto &function = expr.Cast<BoundFunctionExpression>();
	if (expr.GetExpressionType() != ExpressionType::COMPARE_BETWEEN) {
		if (BoundComparisonExpression::IsComparison(expr)) {
			take(expr.GetExpressionType(), BoundComparisonExpression::Left(function),
			     BoundComparisonExpression::Right(function));
		}
		return;
	}
	auto &input = BoundBetweenExpression::Input(function);
	take(BoundBetweenExpression::LowerComparisonType(function), input, BoundBetweenExpression::LowerBound(function));
	take(BoundBetweenExpression::UpperComparisonType(function), input, BoundBetweenExpression::UpperBound(function));
}
inline bool IsTableScan(const LogicalGet &get) {
	return Text(get.function.GetName()) == "seq_scan";
}
inline bool HasTableFilters(const LogicalGet &get) {
	return get.table_filters.HasFilters();
}
inline bool IsOfAnotherTime(const LogicalGet &get) {
	return get.at_clause != nullptr;
}
inline const string &GetFunctionName(const LogicalGet &get) {
	return Text(get.function.GetName());
}

#else

using Name = string;
inline const string &Text(const string &name) {
	return name;
}
inline idx_t Index(idx_t index) {
	return index;
}
inline idx_t NewTableIndex(Binder &binder) {
	return binder.GenerateTableIndex();
}
using TableIndexType = idx_t;
using BoundFunction = TableFunction;

inline const LogicalType &TypeOf(const Expression &expr) {
	return expr.return_type;
}
inline const string &FunctionName(const BoundFunctionExpression &expr) {
	return expr.function.name;
}
inline const string &FunctionName(const BoundAggregateExpression &expr) {
	return expr.function.name;
}
template <class T>
inline const vector<unique_ptr<Expression>> &Children(const T &expr) {
	return expr.children;
}
inline const Value &ValueOf(const BoundConstantExpression &expr) {
	return expr.value;
}
inline const ColumnBinding &BindingOf(const BoundColumnRefExpression &expr) {
	return expr.binding;
}
inline idx_t DepthOf(const BoundColumnRefExpression &expr) {
	return expr.depth;
}
inline const vector<BoundCaseCheck> &Checks(const BoundCaseExpression &expr) {
	return expr.case_checks;
}
inline const Expression &Else(const BoundCaseExpression &expr) {
	return *expr.else_expr;
}
inline const unique_ptr<Expression> &FilterOf(const BoundAggregateExpression &expr) {
	return expr.filter;
}
inline bool IsOrdered(const BoundAggregateExpression &expr) {
	return expr.order_bys && !expr.order_bys->orders.empty();
}
inline const BoundStatement &SubqueryOf(const BoundSubqueryExpression &expr) {
	return expr.subquery;
}
inline SubqueryType KindOf(const BoundSubqueryExpression &expr) {
	return expr.subquery_type;
}
inline ExpressionType ComparisonOf(const BoundSubqueryExpression &expr) {
	return expr.comparison_type;
}
inline const vector<LogicalType> &TargetsOf(const BoundSubqueryExpression &expr) {
	return expr.child_targets;
}
inline const vector<unique_ptr<Expression>> &Partitions(const BoundWindowExpression &expr) {
	return expr.partitions;
}
inline const vector<BoundOrderByNode> &OrdersOf(const BoundWindowExpression &expr) {
	return expr.orders;
}
inline const unique_ptr<Expression> &FilterOf(const BoundWindowExpression &expr) {
	return expr.filter_expr;
}
inline Windowed CallOf(const BoundWindowExpression &expr) {
	auto aggregate = expr.aggregate != nullptr;
	auto name = aggregate ? expr.aggregate->name : StringUtil::Lower(ExpressionTypeToString(expr.GetExpressionType()));
	Windowed call {name, aggregate, expr.ignore_nulls, expr.distinct,
	               expr.exclude_clause != WindowExcludeMode::NO_OTHER, !expr.arg_orders.empty(), {},
	               expr.start, expr.end, &expr.start_expr, &expr.end_expr};
	for (auto &child : expr.children) {
		call.arguments.push_back(child.get());
	}
	for (auto more : {expr.offset_expr.get(), expr.default_expr.get()}) {
		if (more) {
			call.arguments.push_back(more);
		}
	}
	return call;
}
template <class F>
inline void ForComparisons(const Expression &expr, F take) {
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_COMPARISON) {
		auto &compare = expr.Cast<BoundComparisonExpression>();
		take(expr.GetExpressionType(), *compare.left, *compare.right);
	} else if (expr.GetExpressionClass() == ExpressionClass::BOUND_BETWEEN) {
		auto &between = expr.Cast<BoundBetweenExpression>();
		take(between.lower_inclusive ? ExpressionType::COMPARE_GREATERTHANOREQUALTO : ExpressionType::COMPARE_GREATERTHAN,
		     *between.input, *between.lower);
		take(between.upper_inclusive ? ExpressionType::COMPARE_LESSTHANOREQUALTO : ExpressionType::COMPARE_LESSTHAN,
		     *between.input, *between.upper);
	}
}
inline bool IsTableScan(const LogicalGet &get) {
	return get.function.name == "seq_scan";
}
inline bool IsOfAnotherTime(const LogicalGet &get) {
	return false;
}
inline bool HasTableFilters(const LogicalGet &get) {
	return !get.table_filters.filters.empty();
}
inline const string &GetFunctionName(const LogicalGet &get) {
	return get.function.name;
}

#endif

} // namespace warpmill
