// Warpmill's own databases, attached to DuckDB: ATTACH '...' AS w (TYPE warpmill).
//
// A transaction of DuckDB's in such a database is one of Warpmill's. Tables are looked up in it, and the entries that stand for them are the
// transaction's: another one may find other columns under the same name.
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

// Throws the failure of a function of the engine's.
[[noreturn]] void Throw(const wm_engine &engine, wm_failure &failure);
// Refuses what Warpmill alone does with its databases.
[[noreturn]] void NotHere(const char *what);

// A name in SQL texts for the engine.
string Quoted(const string &name);
string Qualified(const string &schema, const string &name);

// One version of a table. Plans hold it beyond its transaction.
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

	// The engine's, begun when it is first needed.
	const wm_transaction *Begun();
	// Ends it. Without an error it is committed.
	ErrorData Commit();

	vector<string> Schemas();
	vector<string> Tables(const string &schema);
	// The entry of a table; null: there is none of that name.
	optional_ptr<CatalogEntry> Table(ClientContext &context, OwnSchema &schema, const string &name);
	// Runs a statement that changes the catalog.
	void Execute(const string &sql);
	// Runs one that no transaction takes back. Throws within BEGIN.
	void ExecuteAlone(ClientContext &context, const char *what, const string &sql);
	// Forgets what is known of a table, which has been written. The entry lives on, as statements may hold it.
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
	// Every commit is on the disk.
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

	// Describes a version of a table. Throws where DuckDB has no type like that of a column.
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
	// All that have been seen: statements hold them.
	std::map<string, unique_ptr<OwnSchema>> schemas;
};

// The scan of a table: named so that the encoder of plans knows it.
static constexpr const char *OWN_SCAN = "warpmill_scan";
TableFunction OwnScan();
unique_ptr<FunctionData> OwnScanData(shared_ptr<OwnTable> table, optional_ptr<TableCatalogEntry> entry);
// The table that a scan by OWN_SCAN reads.
shared_ptr<OwnTable> OwnTableOf(const FunctionData &data);

// CREATE TABLE in Warpmill's words. Throws where Warpmill has no column like one of these.
string CreateTableSql(const string &schema, CreateTableInfo &info);
// A type whose values Arrow holds as they are: HUGEINT has decimals of 38 digits, and values that do not fit fail.
LogicalType SentAs(const LogicalType &type);
// Throws where a value of a column is one that Warpmill has not: infinite dates and moments, intervals without end.
void CheckValues(Vector &vector, idx_t count, const string &column);

void RegisterStorage(DBConfig &config, const wm_engine &engine);

} // namespace warpmill
