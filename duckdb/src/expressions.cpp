// Expressions of the plan encoding.
#include "duckdb/execution/expression_executor.hpp"
#include "encode.hpp"
#include "state.hpp"

namespace warpmill {

static const char *ComparisonName(ExpressionType type) {
	switch (type) {
	case ExpressionType::COMPARE_EQUAL:
		return "=";
	case ExpressionType::COMPARE_NOTEQUAL:
		return "<>";
	case ExpressionType::COMPARE_LESSTHAN:
		return "<";
	case ExpressionType::COMPARE_GREATERTHAN:
		return ">";
	case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		return "<=";
	case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		return ">=";
	case ExpressionType::COMPARE_DISTINCT_FROM:
		return "distinct";
	case ExpressionType::COMPARE_NOT_DISTINCT_FROM:
		return "not distinct";
	default:
		return nullptr;
	}
}

static bool IsError(const Expression &expr) {
	return expr.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION &&
	       FunctionName(expr.Cast<BoundFunctionExpression>()) == "error";
}

static bool IsGuard(const Expression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_CASE) {
		auto &cases = expr.Cast<BoundCaseExpression>();
		return Checks(cases).size() == 1 && IsError(*Checks(cases)[0].then_expr) && !Else(cases).IsVolatile();
	}
	return IsError(expr);
}

// The engine's name of a type (crates/warpmill-duckdb/src/types.rs), or null if the engine does not support it. Users can give any name
// to types of their own.
static const char *TypeName(const LogicalType &type) {
	if (type.HasAlias()) {
		return nullptr;
	}
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
		return "BOOLEAN";
	case LogicalTypeId::TINYINT:
		return "TINYINT";
	case LogicalTypeId::SMALLINT:
		return "SMALLINT";
	case LogicalTypeId::INTEGER:
		return "INTEGER";
	case LogicalTypeId::BIGINT:
		return "BIGINT";
	case LogicalTypeId::UTINYINT:
		return "UTINYINT";
	case LogicalTypeId::USMALLINT:
		return "USMALLINT";
	case LogicalTypeId::UINTEGER:
		return "UINTEGER";
	case LogicalTypeId::UBIGINT:
		return "UBIGINT";
	case LogicalTypeId::HUGEINT:
		return "HUGEINT";
	case LogicalTypeId::UHUGEINT:
		return "UHUGEINT";
	case LogicalTypeId::FLOAT:
		return "FLOAT";
	case LogicalTypeId::DOUBLE:
		return "DOUBLE";
	case LogicalTypeId::VARCHAR:
		return StringType::GetCollation(type).empty() ? "VARCHAR" : nullptr;
	case LogicalTypeId::DATE:
		return "DATE";
	case LogicalTypeId::TIMESTAMP:
		return "TIMESTAMP";
	case LogicalTypeId::INTERVAL:
		return "INTERVAL";
	case LogicalTypeId::SQLNULL:
		return "NULL";
	default:
		return nullptr;
	}
}

static bool IsKnown(const LogicalType &type) {
	return TypeName(type) || (type.id() == LogicalTypeId::DECIMAL && !type.HasAlias());
}

void Encoder::Type(const LogicalType &type) {
	if (auto name = TypeName(type)) {
		json.String(name);
	} else if (IsKnown(type)) {
		json.String("DECIMAL(" + to_string(DecimalType::GetWidth(type)) + "," + to_string(DecimalType::GetScale(type)) + ")");
	} else if (type.id() == LogicalTypeId::VARCHAR && !type.HasAlias()) {
		throw Refused {"text with a collation"};
	} else if (type.id() == LogicalTypeId::ENUM) {
		throw Refused {"the type ENUM"};
	} else {
		throw Refused {"the type " + type.ToString()};
	}
}

void Encoder::ColumnType(const LogicalType &type) {
	if (IsKnown(type)) {
		Type(type);
	} else {
		// It is not known yet whether the plan reads the column.
		json.String("another");
	}
}

void Encoder::Compare(ExpressionType type, const Expression &left, const Expression &right) {
	auto name = ComparisonName(type);
	if (!name) {
		throw Refused {"this kind of comparison"};
	}
	Kind("cmp").Key("f").String(name).Key("a").Open('[');
	Expr(left);
	Expr(right);
	json.Close(']').Close('}');
}

void Encoder::Between(const Expression &input, const Expression &lower, const Expression &upper, bool lower_inclusive,
                      bool upper_inclusive) {
	Kind("and").Key("a").Open('[');
	Compare(lower_inclusive ? ExpressionType::COMPARE_GREATERTHANOREQUALTO : ExpressionType::COMPARE_GREATERTHAN, input,
	        lower);
	Compare(upper_inclusive ? ExpressionType::COMPARE_LESSTHANOREQUALTO : ExpressionType::COMPARE_LESSTHAN, input, upper);
	json.Close(']').Close('}');
}

void Encoder::Cast(const Expression &child, const LogicalType &type, bool try_cast) {
	Kind("cast").Key("try").Bool(try_cast).Key("t");
	Type(type);
	json.Key("from");
	Type(TypeOf(child));
	json.Key("a").Open('[');
	Expr(child);
	json.Close(']').Close('}');
}

// Encodes constant expressions as constants. DuckDB computes them itself, so that their values are right for every function. Lambdas and
// states of aggregates also count as constant, but cannot be computed.
bool Encoder::Folded(const Expression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT || IsError(expr) || !expr.IsFoldable() || expr.HasSubquery() ||
	    expr.HasParameter()) {
		return false;
	}
	auto &type = TypeOf(expr);
	if (!IsKnown(type)) {
		throw Refused {"the type " + type.ToString()};
	}
	Value value;
	bool evaluated;
	try {
		evaluated = ExpressionExecutor::TryEvaluateScalar(context, expr, value);
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &) {
		evaluated = false;
	}
	if (!evaluated) {
		throw Refused {"a constant expression that fails: " + expr.ToString()};
	}
	Constant(value, type);
	return true;
}

void Encoder::Constant(const Value &value, const LogicalType &type) {
	Kind("const").Key("t");
	Type(type);
	json.Key("v");
	if (value.IsNull()) {
		json.Null();
	} else {
		switch (type.id()) {
		case LogicalTypeId::DATE:
			json.String(std::to_string(value.GetValueUnsafe<date_t>().days));
			break;
		case LogicalTypeId::TIMESTAMP:
			json.String(std::to_string(value.GetValueUnsafe<timestamp_t>().value));
			break;
		case LogicalTypeId::INTERVAL: {
			auto interval = value.GetValueUnsafe<interval_t>();
			json.String(std::to_string(interval.months) + "," + std::to_string(interval.days) + "," +
			            std::to_string(interval.micros));
			break;
		}
		case LogicalTypeId::FLOAT:
		case LogicalTypeId::DOUBLE: {
			char text[40];
			auto number = type.id() == LogicalTypeId::FLOAT ? value.GetValueUnsafe<float>() : value.GetValueUnsafe<double>();
			snprintf(text, sizeof(text), "%.17g", number);
			json.String(text);
			break;
		}
		default:
			json.String(value.ToString());
		}
	}
	json.Close('}');
}

void Encoder::Expr(const Expression &expr) {
	if (Folded(expr)) {
		return;
	}
	// The error of a scalar subquery's guard against a second row counts as volatile, but the engine supports the guard.
	if (expr.IsVolatile() && !IsGuard(expr)) {
		throw Refused {"a volatile expression: " + expr.ToString()};
	}
	switch (expr.GetExpressionClass()) {
	case ExpressionClass::BOUND_CONSTANT:
		return Constant(ValueOf(expr.Cast<BoundConstantExpression>()), TypeOf(expr));
	case ExpressionClass::BOUND_COLUMN_REF: {
		auto &column = expr.Cast<BoundColumnRefExpression>();
		auto &binding = BindingOf(column);
		Kind("col").Key("b").Open('[').Number(Index(binding.table_index)).Number(Index(binding.column_index)).Close(']');
		json.Key("t");
		Type(TypeOf(expr));
		json.Close('}');
		return;
	}
	case ExpressionClass::BOUND_FUNCTION:
		return Function(expr.Cast<BoundFunctionExpression>());
	case ExpressionClass::BOUND_AGGREGATE:
		return AggregateCall(expr.Cast<BoundAggregateExpression>());
	case ExpressionClass::BOUND_SUBQUERY:
		return Subquery(expr.Cast<BoundSubqueryExpression>());
	case ExpressionClass::BOUND_PARAMETER:
		throw Refused {"a parameter whose value is not known when the query is planned"};
#if WARPMILL_DUCKDB < 20000
	case ExpressionClass::BOUND_COMPARISON: {
		auto &compare = expr.Cast<BoundComparisonExpression>();
		return Compare(expr.GetExpressionType(), *compare.left, *compare.right);
	}
	case ExpressionClass::BOUND_BETWEEN: {
		auto &between = expr.Cast<BoundBetweenExpression>();
		return Between(*between.input, *between.lower, *between.upper, between.lower_inclusive, between.upper_inclusive);
	}
	case ExpressionClass::BOUND_CAST: {
		auto &cast = expr.Cast<BoundCastExpression>();
		return Cast(*cast.child, cast.return_type, cast.try_cast);
	}
#endif
	case ExpressionClass::BOUND_CONJUNCTION:
		Kind(expr.GetExpressionType() == ExpressionType::CONJUNCTION_AND ? "and" : "or");
		Exprs("a", Children(expr.Cast<BoundConjunctionExpression>()));
		json.Close('}');
		return;
	case ExpressionClass::BOUND_CASE: {
		auto &cases = expr.Cast<BoundCaseExpression>();
		Kind("case").Key("t");
		Type(TypeOf(expr));
		json.Key("a").Open('[');
		for (auto &check : Checks(cases)) {
			Expr(*check.when_expr);
			Expr(*check.then_expr);
		}
		Expr(Else(cases));
		json.Close(']').Close('}');
		return;
	}
	case ExpressionClass::BOUND_OPERATOR: {
		const char *kind = nullptr;
		switch (expr.GetExpressionType()) {
		case ExpressionType::OPERATOR_NOT:
			kind = "not";
			break;
		case ExpressionType::OPERATOR_IS_NULL:
			kind = "isnull";
			break;
		case ExpressionType::OPERATOR_IS_NOT_NULL:
			kind = "isnotnull";
			break;
		case ExpressionType::COMPARE_IN:
			kind = "in";
			break;
		case ExpressionType::COMPARE_NOT_IN:
			kind = "notin";
			break;
		case ExpressionType::OPERATOR_COALESCE:
			kind = "coalesce";
			break;
		default:
			throw Refused {"the operator " + ExpressionTypeToString(expr.GetExpressionType())};
		}
		Kind(kind).Key("t");
		Type(TypeOf(expr));
		Exprs("a", Children(expr.Cast<BoundOperatorExpression>()));
		json.Close('}');
		return;
	}
	default:
		throw Refused {"the expression " + expr.ToString()};
	}
}

void Encoder::Function(const BoundFunctionExpression &expr) {
#if WARPMILL_DUCKDB >= 20000
	if (BoundCastExpression::IsCast(expr)) {
		return Cast(BoundCastExpression::Child(expr), TypeOf(expr), BoundCastExpression::IsTryCast(expr));
	}
	if (BoundComparisonExpression::IsComparison(expr)) {
		if (expr.GetExpressionType() == ExpressionType::COMPARE_BETWEEN) {
			return Between(BoundBetweenExpression::Input(expr), BoundBetweenExpression::LowerBound(expr),
			               BoundBetweenExpression::UpperBound(expr), BoundBetweenExpression::LowerInclusive(expr),
			               BoundBetweenExpression::UpperInclusive(expr));
		}
		return Compare(expr.GetExpressionType(), BoundComparisonExpression::Left(expr),
		               BoundComparisonExpression::Right(expr));
	}
#endif
	if (FunctionName(expr) == "/" && !Setting(context, "ieee_floating_point_ops").GetValue<bool>()) {
		throw Refused {"division with ieee_floating_point_ops = false"};
	}
	Kind("fn").Key("f").String(FunctionName(expr)).Key("t");
	Type(TypeOf(expr));
	json.Key("at").Open('[');
	for (auto &child : Children(expr)) {
		Type(TypeOf(*child));
	}
	json.Close(']');
	Exprs("a", Children(expr));
	json.Close('}');
}

void Encoder::AggregateCall(const BoundAggregateExpression &expr) {
	if (IsOrdered(expr)) {
		throw Refused {"an aggregate with ORDER BY"};
	}
	Kind("agg").Key("f").String(FunctionName(expr)).Key("t");
	Type(TypeOf(expr));
	json.Key("distinct").Bool(expr.IsDistinct()).Key("at").Open('[');
	for (auto &child : Children(expr)) {
		Type(TypeOf(*child));
	}
	json.Close(']');
	Exprs("a", Children(expr));
	if (FilterOf(expr)) {
		json.Key("filter");
		Expr(*FilterOf(expr));
	}
	json.Close('}');
}

static const char *BoundaryName(WindowBoundary boundary) {
	switch (boundary) {
	case WindowBoundary::UNBOUNDED_PRECEDING:
		return "unbounded_preceding";
	case WindowBoundary::UNBOUNDED_FOLLOWING:
		return "unbounded_following";
	case WindowBoundary::CURRENT_ROW_RANGE:
		return "current_row_range";
	case WindowBoundary::CURRENT_ROW_ROWS:
		return "current_row_rows";
	case WindowBoundary::EXPR_PRECEDING_ROWS:
		return "preceding_rows";
	case WindowBoundary::EXPR_FOLLOWING_ROWS:
		return "following_rows";
	default:
		throw Refused {"a window of a RANGE or of GROUPS"};
	}
}

void Encoder::Bound(const char *key, WindowBoundary boundary, const unique_ptr<Expression> &rows) {
	json.Key(key).Open('[').String(BoundaryName(boundary));
	Value value;
	if (!rows) {
		json.Null();
	} else if (rows->IsFoldable() && !rows->HasParameter() && ExpressionExecutor::TryEvaluateScalar(context, *rows, value) &&
	           !value.IsNull() && value.DefaultTryCastAs(LogicalType::BIGINT) && value.GetValue<int64_t>() >= 0) {
		json.Number(value.GetValue<int64_t>());
	} else {
		throw Refused {"a window of a number of rows that is not constant"};
	}
	json.Close(']');
}

void Encoder::WindowCall(const BoundWindowExpression &expr) {
	if (FilterOf(expr) || expr.IsVolatile()) {
		throw Refused {"a window function with FILTER, or that is volatile"};
	}
	auto call = CallOf(expr);
	if (call.distinct || call.excludes || call.ordered) {
		throw Refused {"a window function with DISTINCT, EXCLUDE or an order of arguments"};
	}
	json.Open('{').Key("f").String(call.name).Key("aggregate").Bool(call.aggregate);
	json.Key("ignore_nulls").Bool(call.ignore_nulls).Key("t");
	Type(TypeOf(expr));
	json.Key("at").Open('[');
	for (auto &child : call.arguments) {
		Type(TypeOf(*child));
	}
	json.Close(']').Key("a").Open('[');
	for (auto &child : call.arguments) {
		Expr(*child);
	}
	json.Close(']');
	Exprs("partition", Partitions(expr));
	Orders(OrdersOf(expr));
	Bound("start", call.start, *call.start_rows);
	Bound("end", call.end, *call.end_rows);
	json.Close('}');
}

void Encoder::Subquery(const BoundSubqueryExpression &expr) {
	const char *kind = nullptr;
	switch (KindOf(expr)) {
	case SubqueryType::SCALAR:
		kind = "scalar";
		break;
	case SubqueryType::EXISTS:
		kind = "exists";
		break;
	case SubqueryType::NOT_EXISTS:
		kind = "not exists";
		break;
	case SubqueryType::ANY:
		kind = "any";
		break;
	default:
		throw Refused {"this kind of subquery"};
	}
	Kind("subquery").Key("f").String(kind).Key("t");
	Type(TypeOf(expr));
	if (KindOf(expr) == SubqueryType::ANY) {
		auto name = ComparisonName(ComparisonOf(expr));
		if (!name || Children(expr).size() != 1) {
			throw Refused {"IN or ANY with several columns"};
		}
		json.Key("cmp").String(name).Key("target");
		Type(TargetsOf(expr)[0]);
		Exprs("a", Children(expr));
	}
	json.Key("child");
	Operator(*SubqueryOf(expr).plan);
	json.Close('}');
}

} // namespace warpmill
