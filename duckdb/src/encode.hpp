// The encoding of a bound plan, which the engine examines and translates (crates/warpmill-duckdb/src/plan).
//
// The plan is taken as the binder leaves it, before subqueries are flattened and before any optimizer has run: it holds the
// fewest kinds of nodes, every expression is typed and every implicit cast is explicit, and nothing in it depends on the
// contents of tables. Column references are (table index, column) pairs, as the binder made them.
#pragma once

#include "attached.hpp"
#include "json.hpp"

namespace warpmill {

// The reason why a plan stays with DuckDB.
struct Refused {
	string reason;
};

// Whether the rows of a scan can be read: those of DuckDB's tables, of Warpmill's own tables, of files and of pandas' frames.
bool IsReadable(const LogicalGet &get);

// A table that the plan reads; several scans of one table are one input.
struct Input {
	// The table of DuckDB; null for other inputs, which have no versions.
	TableCatalogEntry *table;
	// A table of Warpmill's own, in this version; null for other inputs.
	shared_ptr<OwnTable> own;
	LogicalGet *get;
	// The positions in the table of the columns that the plan may read; the engine uses their index in this list.
	vector<idx_t> columns;
};

class Encoder {
public:
	explicit Encoder(ClientContext &context) : context(context) {
	}

	// The plan as text. Throws Refused for unsupported plans.
	string Encode(LogicalOperator &root, const vector<LogicalType> &types);

	vector<Input> inputs;

private:
	void Operator(LogicalOperator &op);
	void Get(LogicalGet &get);
	void Aggregate(LogicalAggregate &op);
	void Join(LogicalComparisonJoin &join);
	void DependentJoin(LogicalDependentJoin &join);
	void SetOperation(LogicalSetOperation &op, const char *kind);
	void Window(LogicalWindow &op);
	void WindowCall(const BoundWindowExpression &expr);
	void Bound(const char *key, WindowBoundary boundary, const unique_ptr<Expression> &rows);
	void Orders(const vector<BoundOrderByNode> &orders);
	void Child(LogicalOperator &op, idx_t index = 0, const char *key = "child");

	void Expr(const Expression &expr);
	void Expr(const unique_ptr<Expression> &expr) {
		Expr(*expr);
	}
	template <class T>
	void Exprs(const char *key, const T &list) {
		json.Key(key).Open('[');
		for (auto &expr : list) {
			Expr(*expr);
		}
		json.Close(']');
	}
	bool Folded(const Expression &expr);
	void Constant(const Value &value, const LogicalType &type);
	void Function(const BoundFunctionExpression &expr);
	void AggregateCall(const BoundAggregateExpression &expr);
	void Subquery(const BoundSubqueryExpression &expr);
	void Compare(ExpressionType type, const Expression &left, const Expression &right);
	void Between(const Expression &input, const Expression &lower, const Expression &upper, bool lower_inclusive,
	             bool upper_inclusive);
	void Cast(const Expression &child, const LogicalType &type, bool try_cast);
	// Throws Refused if the engine does not support the type.
	void Type(const LogicalType &type);
	void ColumnType(const LogicalType &type);
	JsonWriter &Node(const char *op) {
		return json.Open('{').Key("op").String(op);
	}
	JsonWriter &Kind(const char *kind) {
		return json.Open('{').Key("k").String(kind);
	}

	ClientContext &context;
	JsonWriter json;
};

} // namespace warpmill
