// INSERT and CREATE TABLE AS into attached databases.
#include "attached.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/arrow/arrow_wrapper.hpp"
#include "duckdb/common/vector_operations/vector_operations.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/planner/operator/logical_create_table.hpp"
#include "duckdb/planner/operator/logical_insert.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"
#include "rows.hpp"

namespace warpmill {

// A type whose values Arrow holds as they are: HUGEINT has decimals of 38 digits, and values that do not fit fail.
static LogicalType SentAs(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::HUGEINT:
		return LogicalType::DECIMAL(38, 0);
	case LogicalTypeId::LIST:
		return LogicalType::LIST(SentAs(ListType::GetChildType(type)));
	case LogicalTypeId::ARRAY:
		return LogicalType::ARRAY(SentAs(ArrayType::GetChildType(type)), ArrayType::GetSize(type));
	case LogicalTypeId::MAP:
		return LogicalType::MAP(SentAs(MapType::KeyType(type)), SentAs(MapType::ValueType(type)));
	case LogicalTypeId::STRUCT: {
		child_list_t<LogicalType> fields;
		for (auto &field : StructType::GetChildTypes(type)) {
			fields.emplace_back(field.first, SentAs(field.second));
		}
		return LogicalType::STRUCT(std::move(fields));
	}
	default:
		return type;
	}
}

// Whether values have an interval, a date or a moment in them, of which DuckDB has some that others have not.
static bool HasMoments(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return true;
	case LogicalTypeId::LIST:
		return HasMoments(ListType::GetChildType(type));
	case LogicalTypeId::ARRAY:
		return HasMoments(ArrayType::GetChildType(type));
	case LogicalTypeId::MAP:
		return HasMoments(MapType::KeyType(type)) || HasMoments(MapType::ValueType(type));
	case LogicalTypeId::STRUCT: {
		auto &fields = StructType::GetChildTypes(type);
		return std::any_of(fields.begin(), fields.end(), [](auto &field) { return HasMoments(field.second); });
	}
	default:
		return false;
	}
}

static void CheckMoment(const Value &value, const string &column) {
	if (value.IsNull()) {
		return;
	}
	auto &type = value.type();
	bool infinite = false;
	switch (type.id()) {
	case LogicalTypeId::INTERVAL: {
		auto micros = value.GetValueUnsafe<interval_t>().micros;
		if (micros > NumericLimits<int64_t>::Maximum() / 1000 || micros < NumericLimits<int64_t>::Minimum() / 1000) {
			throw OutOfRangeException("the interval %s in column %s has more nanoseconds than Warpmill stores",
			                          value.ToString(), Quoted(column));
		}
		return;
	}
	case LogicalTypeId::DATE:
		infinite = !Value::IsFinite(value.GetValueUnsafe<date_t>());
		break;
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ: {
		auto moment = value.GetValueUnsafe<int64_t>();
		infinite = moment == NumericLimits<int64_t>::Maximum() || moment == -NumericLimits<int64_t>::Maximum();
		break;
	}
	case LogicalTypeId::LIST:
	case LogicalTypeId::MAP:
		for (auto &child : ListValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	case LogicalTypeId::ARRAY:
		for (auto &child : ArrayValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	case LogicalTypeId::STRUCT:
		for (auto &child : StructValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	default:
		return;
	}
	if (infinite) {
		throw OutOfRangeException("the value %s in column %s is infinite, which Warpmill has not", value.ToString(),
		                          Quoted(column));
	}
}

// Values of one physical type, NULLs apart.
template <class T, class F>
static bool AnyOf(Vector &vector, idx_t count, F test) {
	UnifiedVectorFormat format;
#if WARPMILL_DUCKDB >= 20000
	vector.ToUnifiedFormat(format);
#else
	vector.ToUnifiedFormat(count, format);
#endif
	auto values = UnifiedVectorFormat::GetData<T>(format);
	for (idx_t row = 0; row < count; row++) {
		auto index = format.sel->get_index(row);
		if (format.validity.RowIsValid(index) && test(values[index])) {
			return true;
		}
	}
	return false;
}

// Whether a column has to be looked at value by value.
static bool IsSuspect(Vector &vector, idx_t count) {
	auto &type = vector.GetType();
	if (!HasMoments(type)) {
		return false;
	}
	switch (type.id()) {
	case LogicalTypeId::DATE:
		return AnyOf<date_t>(vector, count, [](date_t date) { return !Value::IsFinite(date); });
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return AnyOf<int64_t>(vector, count, [](int64_t moment) {
			return moment == NumericLimits<int64_t>::Maximum() || moment == -NumericLimits<int64_t>::Maximum();
		});
	default:
		return true;
	}
}

struct Target {
	OwnCatalog &catalog;
	string schema, table;
	// Makes the table; empty: it is there.
	string create;
	vector<string> names;
};

class AppendState : public GlobalSinkState {
public:
	explicit AppendState(const wm_engine &engine) : engine(engine) {
	}
	~AppendState() override {
		if (append) {
			engine.append_free(append);
		}
	}

	const wm_engine &engine;
	wm_append *append = nullptr;
	uint64_t rows = 0;
	bool told = false;
};

class AppendLocalState : public LocalSinkState {
public:
	// Columns of types that are sent as others.
	DataChunk sent;
};

// Writes rows to a table in the transaction.
class PhysicalAppend : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalAppend(PhysicalPlan &plan, Target target, const vector<LogicalType> &rows, idx_t estimate, bool parallel)
	    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, {LogicalType::BIGINT}, estimate),
	      target(std::move(target)), parallel(parallel) {
		for (auto &type : rows) {
			sent.push_back(SentAs(type));
			is_cast = is_cast || sent.back() != type;
		}
	}

	string GetName() const override {
		return "WARPMILL_INSERT";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Table"] = Qualified(target.schema, target.table);
		return result;
	}
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return parallel;
	}
	bool SinkOrderDependent() const override {
		return !parallel;
	}
	bool IsSource() const override {
		return true;
	}

	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		auto &engine = target.catalog.engine;
		auto &transaction = OwnTransaction::Get(context, target.catalog);
		if (!target.create.empty()) {
			transaction.Execute(target.create);
			transaction.Changed(target.schema, target.table);
		}
		auto state = make_uniq<AppendState>(engine);
		auto properties = Properties(context);
		ArrowSchemaWrapper schema;
		ArrowConverter::ToArrowSchema(&schema.arrow_schema, sent, target.names, properties);
		wm_failure failure {};
		auto name = Qualified(target.schema, target.table);
		state->append = engine.append_new(transaction.Begun(), name.c_str(), &schema.arrow_schema, &failure);
		if (!state->append) {
			Throw(engine, failure);
		}
		return std::move(state);
	}
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override {
		auto local = make_uniq<AppendLocalState>();
		if (is_cast) {
			local->sent.Initialize(Allocator::DefaultAllocator(), sent);
		}
		return std::move(local);
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		auto &state = input.global_state.Cast<AppendState>();
		auto &local = input.local_state.Cast<AppendLocalState>();
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			auto &column = chunk.data[i];
			for (idx_t row = 0; row < (IsSuspect(column, chunk.size()) ? chunk.size() : 0); row++) {
				CheckMoment(column.GetValue(row), target.names[i]);
			}
		}
		auto &rows = is_cast ? Cast(context.client, chunk, local.sent) : chunk;
		ArrowArray array;
		ArrowConverter::ToArrowArray(rows, &array, Properties(context.client), {});
		wm_failure failure {};
		if (!state.engine.append_push(state.append, &array, &failure)) {
			Throw(state.engine, failure);
		}
		return SinkResultType::NEED_MORE_INPUT;
	}
	SinkFinalizeType Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override {
		auto &state = input.global_state.Cast<AppendState>();
		wm_failure failure {};
		if (!state.engine.append_finish(state.append, &state.rows, &failure)) {
			Throw(state.engine, failure);
		}
		OwnTransaction::Get(context, target.catalog).Changed(target.schema, target.table);
		return SinkFinalizeType::READY;
	}

protected:
	// The number of rows.
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override {
		auto &state = sink_state->Cast<AppendState>();
		if (state.told) {
			return SourceResultType::FINISHED;
		}
		state.told = true;
		MutableValues<int64_t>(chunk.data[0])[0] = NumericCast<int64_t>(state.rows);
		SetRows(chunk, 1);
		return SourceResultType::HAVE_MORE_OUTPUT;
	}

private:
	static ClientProperties Properties(ClientContext &context) {
		return ClientProperties("UTC", ArrowOffsetSize::REGULAR, false, false, false, ArrowFormatVersion::V1_0, &context);
	}

	DataChunk &Cast(ClientContext &context, DataChunk &chunk, DataChunk &result) const {
		result.Reset();
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			if (chunk.data[i].GetType() == sent[i]) {
				result.data[i].Reference(chunk.data[i]);
			} else {
				VectorOperations::Cast(context, chunk.data[i], result.data[i], chunk.size());
			}
		}
		SetRows(result, chunk.size());
		return result;
	}

	const Target target;
	// Of each column.
	vector<LogicalType> sent;
	bool is_cast = false;
	const bool parallel;
};

PhysicalOperator &OwnCatalog::PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                         optional_ptr<PhysicalOperator> plan) {
	if (op.return_chunk) {
		NotHere("INSERT ... RETURNING");
	}
	if (op.on_conflict_info.action_type != OnConflictAction::THROW) {
		NotHere("INSERT ... ON CONFLICT");
	}
	if (!plan) {
		NotHere("INSERT without rows");
	}
	auto &rows = op.column_index_map.empty() ? *plan : planner.ResolveDefaultsProjection(op, *plan);
	Target target {*this, Text(op.table.ParentSchema().name), Text(op.table.name), string(), {}};
	for (auto &column : op.table.GetColumns().Logical()) {
		target.names.push_back(Text(column.Name()));
	}
	auto parallel = !PhysicalPlanGenerator::PreserveInsertionOrder(context, rows);
	auto &append = planner.Make<PhysicalAppend>(std::move(target), rows.types, op.estimated_cardinality, parallel);
	append.children.push_back(rows);
	return append;
}

PhysicalOperator &OwnCatalog::PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner,
                                                LogicalCreateTable &op, PhysicalOperator &plan) {
	auto &info = op.info->Base();
	auto schema = Text(op.schema.name);
	Target target {*this, schema, Text(info.GetTableName()), CreateTableSql(schema, info), {}};
	for (auto &column : info.columns.Logical()) {
		target.names.push_back(Text(column.Name()));
	}
	auto parallel = !PhysicalPlanGenerator::PreserveInsertionOrder(context, plan);
	auto &append = planner.Make<PhysicalAppend>(std::move(target), plan.types, op.estimated_cardinality, parallel);
	append.children.push_back(plan);
	return append;
}

} // namespace warpmill
