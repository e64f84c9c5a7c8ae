// Scans of tables in attached databases.
#include "attached.hpp"

#include "duckdb/common/arrow/arrow_wrapper.hpp"
#include "duckdb/common/vector_operations/vector_operations.hpp"
#include "duckdb/execution/partition_info.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/storage/statistics/node_statistics.hpp"
#include "rows.hpp"

namespace warpmill {

// A condition by which rows are left out without reading them.
struct OwnBound {
	wm_bound bound;
	string text;
};

struct ScanData : public TableFunctionData {
	ScanData(shared_ptr<OwnTable> table, optional_ptr<TableCatalogEntry> entry)
	    : table(std::move(table)), entry(entry) {
	}
	unique_ptr<FunctionData> Copy() const override {
		auto copy = make_uniq<ScanData>(table, entry);
		copy->bounds = bounds;
		return std::move(copy);
	}
	bool Equals(const FunctionData &other_p) const override {
		auto &other = other_p.Cast<ScanData>();
		return table == other.table && bounds.empty() && other.bounds.empty();
	}

	const shared_ptr<OwnTable> table;
	// The entry of the table; valid in the transaction that has bound the scan.
	const optional_ptr<TableCatalogEntry> entry;
	vector<OwnBound> bounds;
};

unique_ptr<FunctionData> OwnScanData(shared_ptr<OwnTable> table, optional_ptr<TableCatalogEntry> entry) {
	return make_uniq<ScanData>(std::move(table), entry);
}

shared_ptr<OwnTable> OwnTableOf(const FunctionData &data) {
	return data.Cast<ScanData>().table;
}

class OwnScanState : public GlobalTableFunctionState {
public:
	OwnScanState(ClientContext &context, const ScanData &data, const vector<ColumnIndex> &columns);
	~OwnScanState() override {
		engine.scan_free(scan);
	}
	idx_t MaxThreads() const override {
		uint64_t finished;
		return MaxValue<idx_t>(1, engine.scan_parts(scan, &finished));
	}

	const shared_ptr<OwnTable> table;
	const wm_engine &engine;
	wm_scan *scan = nullptr;
	// For each column of the output its index among the columns that are read; none for the row number.
	vector<optional_idx> places;
	ArrowTableSchema schema;
	vector<LogicalType> types;
};

OwnScanState::OwnScanState(ClientContext &context, const ScanData &data, const vector<ColumnIndex> &columns)
    : table(data.table), engine(table->engine) {
	vector<uint32_t> read;
	for (auto &column : columns) {
		if (column.IsVirtualColumn() || column.IsRowIdColumn()) {
			places.emplace_back();
			continue;
		}
		places.emplace_back(read.size());
		read.push_back(NumericCast<uint32_t>(column.GetPrimaryIndex()));
	}
	vector<wm_bound> bounds;
	for (auto &known : data.bounds) {
		auto bound = known.bound;
		bound.text = known.text.data();
		bound.length = known.text.size();
		bounds.push_back(bound);
	}
	wm_failure failure {};
	scan = engine.scan_new(table->Get(), read.data(), read.size(), bounds.data(), bounds.size(), &failure);
	if (!scan) {
		Throw(engine, failure);
	}
	ArrowSchemaWrapper given;
	if (!engine.scan_schema(scan, &given.arrow_schema, &failure)) {
		engine.scan_free(scan);
		Throw(engine, failure);
	}
	try {
		ArrowTableFunction::PopulateArrowTableSchema(context, schema, given.arrow_schema);
		types = schema.GetTypes();
	} catch (...) {
		engine.scan_free(scan);
		throw;
	}
}

// The part that a thread is reading.
class OwnScanLocalState : public LocalTableFunctionState {
public:
	unique_ptr<ArrowScanLocalState> rows;
	DataChunk chunk;
	idx_t count = 0;
	idx_t position = 0;
	idx_t place = 0;
	idx_t first = 0;
};

static unique_ptr<GlobalTableFunctionState> StartScan(ClientContext &context, TableFunctionInitInput &input) {
	return make_uniq<OwnScanState>(context, input.bind_data->Cast<ScanData>(), input.column_indexes);
}

static unique_ptr<LocalTableFunctionState> StartScanHere(ExecutionContext &context, TableFunctionInitInput &input,
                                                         GlobalTableFunctionState *global) {
	auto local = make_uniq<OwnScanLocalState>();
	auto &types = global->Cast<OwnScanState>().types;
	if (!types.empty()) {
		local->chunk.Initialize(Allocator::DefaultAllocator(), types);
	}
	return std::move(local);
}

// Takes the next part that has rows. Returns false after the last part.
static bool NextPart(ClientContext &context, OwnScanState &state, OwnScanLocalState &local) {
	while (local.position == local.count) {
		auto taken = make_uniq<ArrowArrayWrapper>();
		wm_failure failure {};
		uint64_t place, first;
		auto status = state.engine.scan_next(state.scan, &taken->arrow_array, &place, &first, &failure);
		if (status < 0) {
			Throw(state.engine, failure);
		}
		if (status == 0) {
			return false;
		}
		local.count = NumericCast<idx_t>(taken->arrow_array.length);
		local.position = 0;
		local.place = place;
		local.first = first;
		// Each part gets a state of its own, since the state finds dictionaries by their address.
		local.rows = make_uniq<ArrowScanLocalState>(std::move(taken), context);
	}
	return true;
}

static void NextOwnRows(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &state = input.global_state->Cast<OwnScanState>();
	auto &local = input.local_state->Cast<OwnScanLocalState>();
	if (!NextPart(context, state, local)) {
		return;
	}
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, local.count - local.position);
	if (!state.types.empty()) {
		local.chunk.Reset();
		SetRows(local.chunk, count);
		local.rows->chunk_offset = local.position;
		ArrowTableFunction::ArrowToDuckDB(*local.rows, state.schema.GetColumns(), local.chunk, true);
	}
	for (idx_t i = 0; i < output.ColumnCount(); i++) {
		auto &target = output.data[i];
		if (!state.places[i].IsValid()) {
			// Columns that only count rows may have any type, and are not read.
			if (target.GetType().id() == LogicalTypeId::BIGINT) {
				auto numbers = MutableValues<int64_t>(target);
				for (idx_t row = 0; row < count; row++) {
					numbers[row] = NumericCast<int64_t>(local.first + local.position + row);
				}
			}
			continue;
		}
		auto &source = local.chunk.data[state.places[i].GetIndex()];
		if (source.GetType() == target.GetType()) {
			target.Reference(source);
		} else {
			VectorOperations::Cast(context, source, target, count);
		}
	}
	local.position += count;
	SetRows(output, count);
}

static unique_ptr<NodeStatistics> CountRows(ClientContext &context, const FunctionData *data) {
	auto &table = *data->Cast<ScanData>().table;
	auto rows = NumericCast<idx_t>(table.engine.table_rows(table.Get()));
	return make_uniq<NodeStatistics>(rows, rows);
}

static double Progress(ClientContext &context, const FunctionData *data, const GlobalTableFunctionState *global) {
	auto &state = global->Cast<OwnScanState>();
	uint64_t finished;
	auto all = state.engine.scan_parts(state.scan, &finished);
	return all ? 100.0 * static_cast<double>(finished) / static_cast<double>(all) : 100.0;
}

static OperatorPartitionData Place(ClientContext &context, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw InternalException("a scan of a table of Warpmill has no partitions");
	}
	return OperatorPartitionData(input.local_state->Cast<OwnScanLocalState>().place);
}

// The value of a constant in the form of the column's bounds. Returns false for NULL, and for types without bounds.
static bool ValueOfBound(const Value &value, OwnBound &bound) {
	if (value.IsNull() || value.type().HasAlias()) {
		return false;
	}
	auto &type = value.type();
	switch (type.id()) {
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
		bound.bound.kind = 2;
		bound.bound.number = value.GetValue<double>();
		return true;
	case LogicalTypeId::VARCHAR:
		bound.bound.kind = 3;
		bound.text = StringValue::Get(value);
		return StringType::GetCollation(type).empty();
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::HUGEINT:
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		break;
	default:
		return false;
	}
	bound.bound.kind = 1;
	auto set = [&](int64_t number) {
		bound.bound.high = number < 0 ? -1 : 0;
		bound.bound.low = static_cast<uint64_t>(number);
	};
	switch (type.InternalType()) {
	case PhysicalType::BOOL:
		set(value.GetValueUnsafe<bool>());
		return true;
	case PhysicalType::INT8:
		set(value.GetValueUnsafe<int8_t>());
		return true;
	case PhysicalType::INT16:
		set(value.GetValueUnsafe<int16_t>());
		return true;
	case PhysicalType::INT32:
		set(value.GetValueUnsafe<int32_t>());
		return true;
	case PhysicalType::INT64:
		set(value.GetValueUnsafe<int64_t>());
		return true;
	case PhysicalType::UINT8:
		set(value.GetValueUnsafe<uint8_t>());
		return true;
	case PhysicalType::UINT16:
		set(value.GetValueUnsafe<uint16_t>());
		return true;
	case PhysicalType::UINT32:
		set(value.GetValueUnsafe<uint32_t>());
		return true;
	case PhysicalType::UINT64:
		bound.bound.high = 0;
		bound.bound.low = value.GetValueUnsafe<uint64_t>();
		return true;
	case PhysicalType::INT128: {
		auto number = value.GetValueUnsafe<hugeint_t>();
		bound.bound.high = number.upper;
		bound.bound.low = number.lower;
		return true;
	}
	default:
		return false;
	}
}

// The number of a comparison in the interface to the engine, optionally with its sides exchanged.
static bool Number(ExpressionType type, bool exchanged, uint32_t &number) {
	switch (type) {
	case ExpressionType::COMPARE_EQUAL:
		number = 0;
		return true;
	case ExpressionType::COMPARE_LESSTHAN:
		number = exchanged ? 3 : 1;
		return true;
	case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		number = exchanged ? 4 : 2;
		return true;
	case ExpressionType::COMPARE_GREATERTHAN:
		number = exchanged ? 1 : 3;
		return true;
	case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		number = exchanged ? 2 : 4;
		return true;
	default:
		return false;
	}
}

// The position in the table of the column that an expression consists of.
static bool IsColumn(const LogicalGet &get, const Expression &expr, uint32_t &position) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
		return false;
	}
	auto binding = BindingOf(expr.Cast<BoundColumnRefExpression>());
	auto &columns = get.GetColumnIds();
	if (Index(binding.table_index) != Index(get.table_index) || Index(binding.column_index) >= columns.size()) {
		return false;
	}
	auto &column = columns[Index(binding.column_index)];
	if (column.IsVirtualColumn() || column.IsRowIdColumn() || column.HasChildren()) {
		return false;
	}
	position = NumericCast<uint32_t>(column.GetPrimaryIndex());
	return true;
}

static void AddComparison(const LogicalGet &get, ScanData &data, ExpressionType type, const Expression &left,
                          const Expression &right) {
	auto exchanged = left.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT;
	auto &column = exchanged ? right : left;
	auto &constant = exchanged ? left : right;
	OwnBound bound {};
	if (constant.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT && TypeOf(column) == TypeOf(constant) &&
	    Number(type, exchanged, bound.bound.comparison) && IsColumn(get, column, bound.bound.column) &&
	    ValueOfBound(ValueOf(constant.Cast<BoundConstantExpression>()), bound)) {
		data.bounds.push_back(std::move(bound));
	}
}

// Adds the smallest and the greatest value of a list of constants as bounds.
static void AddList(const LogicalGet &get, ScanData &data, const vector<unique_ptr<Expression>> &parts) {
	const Expression *least = nullptr, *greatest = nullptr;
	for (idx_t i = 1; i < parts.size(); i++) {
		if (parts[i]->GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
			return;
		}
		auto &value = ValueOf(parts[i]->Cast<BoundConstantExpression>());
		if (value.IsNull()) {
			// NULL is equal to no value.
			continue;
		}
		if (!least || value < ValueOf(least->Cast<BoundConstantExpression>())) {
			least = parts[i].get();
		}
		if (!greatest || value > ValueOf(greatest->Cast<BoundConstantExpression>())) {
			greatest = parts[i].get();
		}
	}
	if (least) {
		AddComparison(get, data, ExpressionType::COMPARE_GREATERTHANOREQUALTO, *parts[0], *least);
		AddComparison(get, data, ExpressionType::COMPARE_LESSTHANOREQUALTO, *parts[0], *greatest);
	}
}

// Records conditions by which rows can be left out without reading them. DuckDB evaluates all of them, too.
static void Pushdown(ClientContext &context, LogicalGet &get, FunctionData *data_p,
                     vector<unique_ptr<Expression>> &filters) {
	auto &data = data_p->Cast<ScanData>();
	for (auto &filter : filters) {
		auto type = filter->GetExpressionType();
		if (type == ExpressionType::COMPARE_IN && filter->GetExpressionClass() == ExpressionClass::BOUND_OPERATOR) {
			AddList(get, data, Children(filter->Cast<BoundOperatorExpression>()));
			continue;
		}
		if (filter->GetExpressionClass() == ExpressionClass::BOUND_OPERATOR) {
			if (type != ExpressionType::OPERATOR_IS_NULL && type != ExpressionType::OPERATOR_IS_NOT_NULL) {
				continue;
			}
			OwnBound bound {};
			bound.bound.comparison = type == ExpressionType::OPERATOR_IS_NULL ? 5 : 6;
			auto &children = Children(filter->Cast<BoundOperatorExpression>());
			if (children.size() == 1 && IsColumn(get, *children[0], bound.bound.column)) {
				data.bounds.push_back(std::move(bound));
			}
			continue;
		}
		ForComparisons(*filter, [&](ExpressionType comparison, const Expression &left, const Expression &right) {
			AddComparison(get, data, comparison, left, right);
		});
	}
}

#if WARPMILL_DUCKDB >= 20000
static optional_ptr<TableCatalogEntry> EntryOf(optional_ptr<const FunctionData> data) {
	return data->Cast<ScanData>().entry;
}
#else
static BindInfo EntryOf(const optional_ptr<FunctionData> data) {
	auto entry = data->Cast<ScanData>().entry;
	return entry ? BindInfo(*entry) : BindInfo(ScanType::EXTERNAL);
}
#endif

TableFunction OwnScan() {
	TableFunction function(OWN_SCAN, {}, NextOwnRows, nullptr, StartScan, StartScanHere);
	function.projection_pushdown = true;
	function.pushdown_complex_filter = Pushdown;
	function.cardinality = CountRows;
	function.table_scan_progress = Progress;
	function.get_partition_data = Place;
	function.verify_serialization = false;
#if WARPMILL_DUCKDB >= 20000
	function.get_table_entry = EntryOf;
#else
	function.get_bind_info = EntryOf;
#endif
	return function;
}

} // namespace warpmill
