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

struct Target {
	OwnCatalog &catalog;
	string schema, table;
	// The statement that creates the table; empty if the table exists.
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
	// The rows with columns in the types in which they are sent.
	DataChunk sent;
};

// Appends rows to a table in the transaction.
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
			CheckValues(chunk.data[i], chunk.size(), target.names[i]);
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
	// Returns the number of rows.
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
	// The type in which each column is sent.
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
