// Warpmill's own databases, attached to DuckDB: ATTACH '...' AS w (TYPE warpmill).
//
// Each transaction of DuckDB in such a database is a transaction of Warpmill. It looks up tables and owns their catalog entries:
// another transaction may find other columns under the same name.
#pragma once

#include <map>
#include <mutex>

#include "compat.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/storage/storage_extension.hpp"
#include "duckdb/transaction/transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"
#include "engine.h"

namespace warpmill {

// Throws the exception for a failure of the engine.
[[noreturn]] void Throw(const wm_engine &engine, wm_failure &failure);
// Throws for an operation that only Warpmill supports in its databases.
[[noreturn]] void NotHere(const char *what);

// A quoted name for SQL texts that the engine runs.
string Quoted(const string &name);
string Qualified(const string &schema, const string &name);

// One version of a table. Plans use it after the end of its transaction, too.
class OwnTable {
public:
	OwnTable(const wm_engine &engine, wm_table *table) : engine(engine), table(table) {
	}
	~OwnTable() {
		engine.table_free(table);
	}
	OwnTable(const OwnTable &) = delete;
	OwnTable &operator=(const OwnTable &) = delete;

	const wm_engine &engine;
	const wm_table *Get() const {
		return table;
	}

private:
	wm_table *const table;
};

class OwnCatalog;
class OwnSchema;

class OwnTransaction : public Transaction {
public:
	OwnTransaction(OwnCatalog &catalog, TransactionManager &manager, ClientContext &context);
	~OwnTransaction() override;

	static OwnTransaction &Get(ClientContext &context, Catalog &catalog);

	// The engine's transaction; begins it at the first call.
	const wm_transaction *Begun();
	// Ends the transaction: commits it, unless there is an error, which is returned.
	ErrorData Commit();

	vector<string> Schemas();
	vector<string> Tables(const string &schema);
	// The entry of a table; null if there is none of that name.
	optional_ptr<CatalogEntry> Table(ClientContext &context, OwnSchema &schema, const string &name);
	// Runs a statement that changes the catalog.
	void Execute(const string &sql);
	// Runs a statement that cannot be rolled back. Throws within BEGIN.
	void ExecuteAlone(ClientContext &context, const char *what, const string &sql);
	// Forgets the entry of a table that has been written. The entry remains valid, as statements may use it.
	void Changed(const string &schema, const string &name);

private:
	OwnCatalog &catalog;
	std::mutex lock;
	wm_transaction *transaction = nullptr;
	std::map<string, unique_ptr<CatalogEntry>> tables;
	vector<unique_ptr<CatalogEntry>> outdated;
};

class OwnTransactionManager : public TransactionManager {
public:
	OwnTransactionManager(AttachedDatabase &db, OwnCatalog &catalog) : TransactionManager(db), catalog(catalog) {
	}
	Transaction &StartTransaction(ClientContext &context) override;
	ErrorData CommitTransaction(ClientContext &context, Transaction &transaction) override;
	void RollbackTransaction(Transaction &transaction) override;
	// Nothing to do: every commit is on disk.
	void Checkpoint(ClientContext &context, bool force) override {
	}

private:
	unique_ptr<OwnTransaction> Take(Transaction &transaction);

	OwnCatalog &catalog;
	std::mutex lock;
	std::map<Transaction *, unique_ptr<OwnTransaction>> transactions;
};

class OwnSchema : public SchemaCatalogEntry {
public:
	OwnSchema(Catalog &catalog, CreateSchemaInfo &info) : SchemaCatalogEntry(catalog, info) {
	}

	void Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	void Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup) override;
	optional_ptr<CatalogEntry> CreateTable(CatalogTransaction transaction, BoundCreateTableInfo &info) override;
	void DropEntry(ClientContext &context, DropInfo &info) override;

	optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) override;
	optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction, CreateFunctionInfo &) override;
	optional_ptr<CatalogEntry> CreateView(CatalogTransaction, CreateViewInfo &) override;
	optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction, CreateSequenceInfo &) override;
	optional_ptr<CatalogEntry> CreateTableFunction(CatalogTransaction, CreateTableFunctionInfo &) override;
	optional_ptr<CatalogEntry> CreateCopyFunction(CatalogTransaction, CreateCopyFunctionInfo &) override;
	optional_ptr<CatalogEntry> CreatePragmaFunction(CatalogTransaction, CreatePragmaFunctionInfo &) override;
	optional_ptr<CatalogEntry> CreateCollation(CatalogTransaction, CreateCollationInfo &) override;
	optional_ptr<CatalogEntry> CreateType(CatalogTransaction, CreateTypeInfo &) override;
	void Alter(CatalogTransaction, AlterInfo &) override;
};

class OwnTableEntry : public TableCatalogEntry {
public:
	OwnTableEntry(Catalog &catalog, OwnSchema &schema, CreateTableInfo &info, shared_ptr<OwnTable> table);

	// Describes a version of a table. Throws if a column has a type that DuckDB does not have.
	static unique_ptr<OwnTableEntry> Make(ClientContext &context, OwnSchema &schema, const string &name,
	                                      shared_ptr<OwnTable> table);

	unique_ptr<BaseStatistics> GetStatistics(ClientContext &context, column_t column) override;
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &data) override;
	TableStorageInfo GetStorageInfo(ClientContext &context) override;
#if WARPMILL_DUCKDB >= 20000
	const ColumnList &GetColumns() const override {
		return columns;
	}
#endif

	const shared_ptr<OwnTable> table;

private:
#if WARPMILL_DUCKDB >= 20000
	ColumnList columns;
#endif
};

class OwnCatalog : public Catalog {
public:
	OwnCatalog(AttachedDatabase &db, const wm_engine &engine, string path, wm_database *database);
	~OwnCatalog() override;

	const wm_engine &engine;
	const wm_database *Get() const {
		return database;
	}
	OwnSchema &Schema(const string &name);

	void Initialize(bool load_builtin) override {
	}
	string GetCatalogType() override {
		return "warpmill";
	}
	bool InMemory() override {
		return false;
	}
	string GetDBPath() override {
		return path;
	}
	DatabaseSize GetDatabaseSize(ClientContext &context) override;
	optional_ptr<CatalogEntry> CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &info) override;
	optional_ptr<SchemaCatalogEntry> LookupSchema(CatalogTransaction transaction, const EntryLookupInfo &lookup,
	                                              OnEntryNotFound if_not_found) override;
	void ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) override;

	PhysicalOperator &PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner, LogicalCreateTable &op,
	                                    PhysicalOperator &plan) override;
	PhysicalOperator &PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
	                             optional_ptr<PhysicalOperator> plan) override;
	PhysicalOperator &PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
	                             PhysicalOperator &plan) override;
	PhysicalOperator &PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
	                             PhysicalOperator &plan) override;
	PhysicalOperator &PlanMergeInto(ClientContext &context, PhysicalPlanGenerator &planner, LogicalMergeInto &op,
	                                PhysicalOperator &plan) override;
	unique_ptr<LogicalOperator> BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
	                                            unique_ptr<LogicalOperator> plan) override;

private:
	void DropSchema(ClientContext &context, DropInfo &info) override;

	const string path;
	wm_database *const database;
	std::mutex lock;
	// All schemas that have been looked up; they remain valid, as statements use them.
	std::map<string, unique_ptr<OwnSchema>> schemas;
};

// The name of the scan of a table, by which the encoder of plans recognizes it.
static constexpr const char *OWN_SCAN = "warpmill_scan";
TableFunction OwnScan();
unique_ptr<FunctionData> OwnScanData(shared_ptr<OwnTable> table, optional_ptr<TableCatalogEntry> entry);
// The table that a scan by OWN_SCAN reads.
shared_ptr<OwnTable> OwnTableOf(const FunctionData &data);

// CREATE TABLE in Warpmill's dialect. Throws if Warpmill does not support one of the columns.
string CreateTableSql(const string &schema, CreateTableInfo &info);
// The type in which values are sent through Arrow: HUGEINT becomes a decimal of 38 digits, and values that do not fit fail.
LogicalType SentAs(const LogicalType &type);
// Throws if a column has a value that Warpmill does not support: infinite dates and timestamps, infinite intervals.
void CheckValues(Vector &vector, idx_t count, const string &column);

void RegisterStorage(DBConfig &config, const wm_engine &engine);

} // namespace warpmill
