#include "encode.hpp"

#include "duckdb/catalog/catalog_entry/duck_table_entry.hpp"
#include "duckdb/common/enum_util.hpp"
#include "duckdb/function/table/table_scan.hpp"
#include "state.hpp"

namespace warpmill {

bool IsReadable(const LogicalGet &get) {
	if (IsTableScan(get)) {
		auto table = get.GetTable();
		return table && table->IsDuckTable();
	}
	if (GetFunctionName(get) == OWN_SCAN) {
		return true;
	}
	// Functions whose input can be bound and read twice. An Arrow stream may be empty the second time, and does not always report it.
	static const char *const FUNCTIONS[] = {"read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json",
	                                        "read_json_auto", "read_ndjson", "read_ndjson_auto", "pandas_scan"};
	auto &name = GetFunctionName(get);
	return std::any_of(std::begin(FUNCTIONS), std::end(FUNCTIONS), [&](const char *known) { return name == known; });
}

string Encoder::Encode(LogicalOperator &root, const vector<LogicalType> &types) {
	json.Open('{').Key("version").Number(1).Key("duckdb").Number(WARPMILL_DUCKDB);
	json.Key("may_be_left").Bool(!IsStrict(context)).Key("types").Open('[');
	for (auto &type : types) {
		Type(type);
	}
	json.Close(']').Key("root");
	Operator(root);
	json.Key("inputs").Open('[');
	for (auto &input : inputs) {
		json.Open('{').Key("name").String(input.table ? Text(input.table->name) : GetFunctionName(*input.get));
		json.Key("stored").Bool(input.table != nullptr).Key("own").Bool(input.own != nullptr);
		json.Key("columns").Open('[');
		for (auto column : input.columns) {
			json.Open('[').Number(column).String(Text(input.get->names[column]));
			ColumnType(input.get->returned_types[column]);
			json.Close(']');
		}
		json.Close(']').Close('}');
	}
	json.Close(']').Close('}');
	return std::move(json.text);
}

void Encoder::Child(LogicalOperator &op, idx_t index, const char *key) {
	json.Key(key);
	Operator(*op.children[index]);
}

// Whether DISTINCT compares all columns, and nothing else.
static bool TakesAllColumns(LogicalDistinct &op) {
	vector<ColumnBinding> targets;
	for (auto &target : op.distinct_targets) {
		if (target->GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
			return false;
		}
		targets.push_back(BindingOf(target->Cast<BoundColumnRefExpression>()));
	}
	auto columns = op.children[0]->GetColumnBindings();
	auto is_target = [&](const ColumnBinding &column) {
		return std::find(targets.begin(), targets.end(), column) != targets.end();
	};
	return op.distinct_type == DistinctType::DISTINCT && !op.order_by &&
	       std::all_of(columns.begin(), columns.end(), is_target);
}

void Encoder::Operator(LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		return Get(op.Cast<LogicalGet>());
	case LogicalOperatorType::LOGICAL_PROJECTION: {
		Node("project").Key("table").Number(Index(op.Cast<LogicalProjection>().table_index));
		Exprs("exprs", op.expressions);
		break;
	}
	case LogicalOperatorType::LOGICAL_FILTER:
		Node("filter");
		Exprs("exprs", op.expressions);
		break;
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
		return Aggregate(op.Cast<LogicalAggregate>());
	case LogicalOperatorType::LOGICAL_WINDOW:
		return Window(op.Cast<LogicalWindow>());
	case LogicalOperatorType::LOGICAL_ORDER_BY:
		Node("order");
		Orders(op.Cast<LogicalOrder>().orders);
		break;
	case LogicalOperatorType::LOGICAL_LIMIT: {
		auto &limit = op.Cast<LogicalLimit>();
		Node("limit");
		auto bound = [&](const char *key, const BoundLimitNode &node) {
			switch (node.Type()) {
			case LimitNodeType::UNSET:
				json.Key(key).Null();
				return;
			case LimitNodeType::CONSTANT_VALUE:
				json.Key(key).Number(node.GetConstantValue());
				return;
			default:
				throw Refused {"LIMIT or OFFSET that is not a constant number of rows"};
			}
		};
		bound("limit", limit.limit_val);
		bound("offset", limit.offset_val);
		break;
	}
	case LogicalOperatorType::LOGICAL_DISTINCT:
		if (!TakesAllColumns(op.Cast<LogicalDistinct>())) {
			throw Refused {"DISTINCT ON, or ORDER BY what a DISTINCT does not select"};
		}
		Node("distinct");
		break;
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		return Join(op.Cast<LogicalComparisonJoin>());
	case LogicalOperatorType::LOGICAL_ANY_JOIN: {
		auto &join = op.Cast<LogicalAnyJoin>();
		Node("any_join").Key("type").String(EnumUtil::ToString(join.join_type)).Key("cond");
		Expr(*join.condition);
		Child(op, 0, "left");
		Child(op, 1, "right");
		json.Close('}');
		return;
	}
	case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
		Node("cross");
		Child(op, 0, "left");
		Child(op, 1, "right");
		json.Close('}');
		return;
	case LogicalOperatorType::LOGICAL_DEPENDENT_JOIN:
		return DependentJoin(op.Cast<LogicalDependentJoin>());
	case LogicalOperatorType::LOGICAL_UNION:
		return SetOperation(op.Cast<LogicalSetOperation>(), "union");
	case LogicalOperatorType::LOGICAL_EXCEPT:
		return SetOperation(op.Cast<LogicalSetOperation>(), "except");
	case LogicalOperatorType::LOGICAL_INTERSECT:
		return SetOperation(op.Cast<LogicalSetOperation>(), "intersect");
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE: {
		auto &cte = op.Cast<LogicalMaterializedCTE>();
		Node("cte").Key("index").Number(Index(cte.table_index));
		Child(op, 0, "body");
		Child(op, 1, "child");
		json.Close('}');
		return;
	}
	case LogicalOperatorType::LOGICAL_CTE_REF: {
		auto &ref = op.Cast<LogicalCTERef>();
		if (ref.is_recurring) {
			throw Refused {"a recursive common table expression"};
		}
		Node("cte_ref").Key("table").Number(Index(ref.table_index)).Key("cte").Number(Index(ref.cte_index));
		json.Close('}');
		return;
	}
	case LogicalOperatorType::LOGICAL_EXPRESSION_GET: {
		// Each row of VALUES becomes a projection of a row without columns.
		auto &values = op.Cast<LogicalExpressionGet>();
		if (values.expressions.size() > 100 || values.children[0]->type != LogicalOperatorType::LOGICAL_DUMMY_SCAN) {
			throw Refused {"VALUES with more than 100 rows, or of a LATERAL join"};
		}
		auto table = Index(values.table_index);
		Node("setop").Key("kind").String("union").Key("all").Bool(true).Key("table").Number(table).Key("children").Open('[');
		for (auto &row : values.expressions) {
			Node("project").Key("table").Number(table);
			Exprs("exprs", row);
			json.Key("child");
			Node("dummy").Close('}');
			json.Close('}');
		}
		json.Close(']').Close('}');
		return;
	}
	case LogicalOperatorType::LOGICAL_DUMMY_SCAN:
		Node("dummy").Close('}');
		return;
	default:
		throw Refused {"the operator " + LogicalOperatorToString(op.type)};
	}
	if (op.HasProjectionMap()) {
		throw Refused {"an operator with a projection map"};
	}
	Child(op);
	json.Close('}');
}

void Encoder::Get(LogicalGet &get) {
	auto table = IsTableScan(get) ? get.GetTable().get() : nullptr;
	if (!IsReadable(get)) {
		throw Refused {"a scan by the table function " + GetFunctionName(get)};
	}
	if (!get.children.empty() || !get.projection_ids.empty() || HasTableFilters(get) ||
	    get.extra_info.sample_options || get.ordinality_idx.IsValid() || IsOfAnotherTime(get)) {
		throw Refused {"a scan that does more than read columns"};
	}
	auto own = GetFunctionName(get) == OWN_SCAN ? OwnTableOf(*get.bind_data) : nullptr;
	auto entry = std::find_if(inputs.begin(), inputs.end(), [&](const Input &input) {
		return (table && input.table == table) || (own && input.own == own);
	});
	if (entry == inputs.end()) {
		inputs.push_back(Input {table, own, &get, {}});
		entry = inputs.end() - 1;
	}
	Node("get").Key("table").Number(Index(get.table_index)).Key("input").Number(entry - inputs.begin());
	json.Key("columns").Open('[');
	for (auto &column : get.GetColumnIds()) {
		if (column.IsVirtualColumn() || column.IsRowIdColumn() || column.HasChildren()) {
			// A scan that only counts rows needs a column, too; the plan must not read this one.
			json.Null();
			continue;
		}
		auto position = column.GetPrimaryIndex();
		auto found = std::find(entry->columns.begin(), entry->columns.end(), position);
		json.Number(found - entry->columns.begin());
		if (found == entry->columns.end()) {
			entry->columns.push_back(position);
		}
	}
	json.Close(']').Close('}');
}

void Encoder::Aggregate(LogicalAggregate &op) {
	Node("aggregate").Key("group").Number(Index(op.group_index)).Key("agg").Number(Index(op.aggregate_index));
	if (!op.grouping_functions.empty()) {
		json.Key("groupings").Number(Index(op.groupings_index));
	}
	Exprs("groups", op.groups);
	json.Key("sets").Open('[');
	for (auto &set : op.grouping_sets) {
		json.Open('[');
		for (auto index : set) {
			json.Number(Index(index));
		}
		json.Close(']');
	}
	json.Close(']').Key("grouping_functions").Open('[');
	for (auto &function : op.grouping_functions) {
		json.Open('[');
		for (auto index : function) {
			json.Number(Index(index));
		}
		json.Close(']');
	}
	json.Close(']');
	Exprs("aggs", op.expressions);
	Child(op);
	json.Close('}');
}

void Encoder::Join(LogicalComparisonJoin &join) {
	if (join.HasProjectionMap()) {
		throw Refused {"a join with a projection map"};
	}
	Node("join").Key("type").String(EnumUtil::ToString(join.join_type));
	if (join.join_type == JoinType::MARK) {
		json.Key("mark").Number(Index(join.mark_index));
	}
	if (!join.duplicate_eliminated_columns.empty()) {
		throw Refused {"a join that removes duplicates"};
	}
	json.Key("conds").Open('[');
	for (auto &condition : join.conditions) {
#if WARPMILL_DUCKDB >= 20000
		if (!condition.IsComparison()) {
			Expr(condition.GetJoinExpression());
			continue;
		}
		Compare(condition.GetComparisonType(), condition.GetLHS(), condition.GetRHS());
#else
		Compare(condition.comparison, *condition.left, *condition.right);
#endif
	}
#if WARPMILL_DUCKDB < 20000
	if (join.predicate) {
		Expr(*join.predicate);
	}
#endif
	json.Close(']');
	Child(join, 0, "left");
	Child(join, 1, "right");
	json.Close('}');
}

void Encoder::DependentJoin(LogicalDependentJoin &join) {
	Node("dependent").Key("type").String(EnumUtil::ToString(join.join_type));
	if (join.join_type == JoinType::MARK) {
		json.Key("mark").Number(Index(join.mark_index));
	} else if (join.join_type == JoinType::SINGLE) {
		auto value = join.children[1]->GetColumnBindings().back();
		json.Key("value").Open('[').Number(Index(value.table_index)).Number(Index(value.column_index)).Close(']');
	} else {
		throw Refused {"a LATERAL join"};
	}
#if WARPMILL_DUCKDB >= 20000
	if (join.condition) {
		json.Key("cond");
		Expr(*join.condition);
	}
#else
	if (join.subquery_type == SubqueryType::ANY) {
		auto column = join.children[1]->GetColumnBindings()[0];
		if (join.expression_children.size() != 1 || join.child_types[0] != join.child_targets[0]) {
			throw Refused {"IN with several columns or other types"};
		}
		json.Key("cond");
		BoundColumnRefExpression right(join.child_types[0], column);
		Compare(join.comparison_type, *join.expression_children[0], right);
	}
#endif
	Child(join, 0, "left");
	Child(join, 1, "right");
	json.Close('}');
}

void Encoder::SetOperation(LogicalSetOperation &op, const char *kind) {
	Node("setop").Key("kind").String(kind).Key("all").Bool(op.setop_all);
	json.Key("table").Number(Index(op.table_index)).Key("children").Open('[');
	for (auto &child : op.children) {
		Operator(*child);
	}
	json.Close(']').Close('}');
}

void Encoder::Window(LogicalWindow &op) {
	Node("window").Key("table").Number(Index(op.window_index)).Key("calls").Open('[');
	for (auto &expr : op.expressions) {
		WindowCall(expr->Cast<BoundWindowExpression>());
	}
	json.Close(']');
	Child(op);
	json.Close('}');
}

void Encoder::Orders(const vector<BoundOrderByNode> &orders) {
	json.Key("by").Open('[');
	for (auto &order : orders) {
		json.Open('{').Key("desc").Bool(order.type == OrderType::DESCENDING);
		json.Key("nulls_first").Bool(order.null_order == OrderByNullType::NULLS_FIRST).Key("e");
		Expr(*order.expression);
		json.Close('}');
	}
	json.Close(']');
}

} // namespace warpmill
