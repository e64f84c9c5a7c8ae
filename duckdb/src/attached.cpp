// The catalog of an attached database.
#include "attached.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/common/types.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/constraints/not_null_constraint.hpp"
#include "duckdb/parser/constraints/unique_constraint.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"
#include "duckdb/storage/table_storage_info.hpp"

namespace warpmill {

static ExceptionType TypeOfFailure(int32_t kind) {
	switch (kind) {
	case 2:
		return ExceptionType::CATALOG;
	case 3:
		return ExceptionType::CONSTRAINT;
	case 4:
		return ExceptionType::IO;
	case 5:
		return ExceptionType::OUT_OF_MEMORY;
	case 6:
		return ExceptionType::INTERRUPT;
	case 7:
		return ExceptionType::TRANSACTION;
	case 8:
		return ExceptionType::NOT_IMPLEMENTED;
	default:
		// DuckDB closes a database after an internal error of its own kind.
		return ExceptionType::INVALID_INPUT;
	}
}

static ErrorData ErrorOf(const wm_engine &engine, wm_failure &failure) {
	string text = failure.text ? failure.text : "an error without a text";
	if (failure.text) {
		engine.text_free(failure.text);
		failure.text = nullptr;
	}
	return ErrorData(TypeOfFailure(failure.kind), text);
}

void Throw(const wm_engine &engine, wm_failure &failure) {
	auto error = ErrorOf(engine, failure);
	error.Throw();
	throw InvalidInputException(error.RawMessage());
}

string Quoted(const string &name) {
	return "\"" + StringUtil::Replace(name, "\"", "\"\"") + "\"";
}

string Qualified(const string &schema, const string &name) {
	return Quoted(schema) + "." + Quoted(name);
}

void NotHere(const char *what) {
	throw NotImplementedException("%s in a database of Warpmill is not run by DuckDB: open the folder with "
	                              "warpmill.connect()",
	                              what);
}

static vector<string> Taken(const wm_engine &engine, wm_texts *texts, wm_failure &failure) {
	if (!texts) {
		Throw(engine, failure);
	}
	vector<string> result;
	for (idx_t i = 0; i < engine.texts_count(texts); i++) {
		result.push_back(engine.texts_get(texts, i));
	}
	engine.texts_free(texts);
	return result;
}

OwnTransaction::OwnTransaction(OwnCatalog &catalog, TransactionManager &manager, ClientContext &context)
    : Transaction(manager, context), catalog(catalog) {
}

OwnTransaction::~OwnTransaction() {
	if (transaction) {
		catalog.engine.transaction_rollback(transaction);
	}
}

OwnTransaction &OwnTransaction::Get(ClientContext &context, Catalog &catalog) {
	return Transaction::Get(context, catalog).Cast<OwnTransaction>();
}

const wm_transaction *OwnTransaction::Begun() {
	std::lock_guard<std::mutex> guard(lock);
	if (!transaction) {
		wm_failure failure {};
		transaction = catalog.engine.transaction_begin(catalog.Get(), &failure);
		if (!transaction) {
			Throw(catalog.engine, failure);
		}
	}
	return transaction;
}

ErrorData OwnTransaction::Commit() {
	wm_failure failure {};
	auto ended = transaction;
	transaction = nullptr;
	if (!ended || catalog.engine.transaction_commit(ended, &failure)) {
		return ErrorData();
	}
	return ErrorOf(catalog.engine, failure);
}

vector<string> OwnTransaction::Schemas() {
	wm_failure failure {};
	return Taken(catalog.engine, catalog.engine.transaction_schemas(Begun(), &failure), failure);
}

vector<string> OwnTransaction::Tables(const string &schema) {
	wm_failure failure {};
	return Taken(catalog.engine, catalog.engine.transaction_tables(Begun(), schema.c_str(), &failure), failure);
}

static string KeyOf(const string &schema, const string &name) {
	return StringUtil::Lower(schema) + "." + StringUtil::Lower(name);
}

optional_ptr<CatalogEntry> OwnTransaction::Table(ClientContext &context, OwnSchema &schema, const string &name) {
	auto transaction = Begun();
	auto key = KeyOf(Text(schema.name), name);
	{
		std::lock_guard<std::mutex> guard(lock);
		auto known = tables.find(key);
		if (known != tables.end()) {
			return known->second.get();
		}
	}
	wm_failure failure {};
	auto opened = catalog.engine.table_open(transaction, Text(schema.name).c_str(), name.c_str(), &failure);
	if (!opened) {
		if (failure.kind) {
			Throw(catalog.engine, failure);
		}
		return nullptr;
	}
	auto entry = OwnTableEntry::Make(context, schema, name, make_shared_ptr<OwnTable>(catalog.engine, opened));
	std::lock_guard<std::mutex> guard(lock);
	return tables.emplace(key, std::move(entry)).first->second.get();
}

void OwnTransaction::Execute(const string &sql) {
	wm_failure failure {};
	if (!catalog.engine.transaction_execute(Begun(), sql.c_str(), false, &failure)) {
		Throw(catalog.engine, failure);
	}
}

void OwnTransaction::ExecuteAlone(ClientContext &context, const char *what, const string &sql) {
	if (!context.transaction.IsAutoCommit()) {
		throw TransactionException("%s in a database of Warpmill is not part of a transaction: COMMIT or ROLLBACK comes "
		                           "first",
		                           what);
	}
	wm_failure failure {};
	if (!catalog.engine.transaction_execute(Begun(), sql.c_str(), true, &failure)) {
		Throw(catalog.engine, failure);
	}
}

void OwnTransaction::Changed(const string &schema, const string &name) {
	std::lock_guard<std::mutex> guard(lock);
	auto known = tables.find(KeyOf(schema, name));
	if (known != tables.end()) {
		outdated.push_back(std::move(known->second));
		tables.erase(known);
	}
}

Transaction &OwnTransactionManager::StartTransaction(ClientContext &context) {
	auto transaction = make_uniq<OwnTransaction>(catalog, *this, context);
	auto &result = *transaction;
	std::lock_guard<std::mutex> guard(lock);
	transactions[&result] = std::move(transaction);
	return result;
}

unique_ptr<OwnTransaction> OwnTransactionManager::Take(Transaction &transaction) {
	std::lock_guard<std::mutex> guard(lock);
	auto known = transactions.find(&transaction);
	if (known == transactions.end()) {
		throw InvalidInputException("a transaction that has ended");
	}
	auto result = std::move(known->second);
	transactions.erase(known);
	return result;
}

ErrorData OwnTransactionManager::CommitTransaction(ClientContext &context, Transaction &transaction) {
	try {
		return Take(transaction)->Commit();
	} catch (std::exception &ex) {
		return ErrorData(ex);
	}
}

void OwnTransactionManager::RollbackTransaction(Transaction &transaction) {
	// The destructor of the transaction rolls it back.
	Take(transaction);
}

void OwnSchema::Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY) {
		return;
	}
	auto &transaction = OwnTransaction::Get(context, catalog);
	for (auto &name : transaction.Tables(Text(this->name))) {
		optional_ptr<CatalogEntry> entry;
		try {
			entry = transaction.Table(context, *this, name);
		} catch (InterruptException &) {
			throw;
		} catch (std::exception &) {
			// A table that is damaged, or has a column of a type that DuckDB does not have, must not hide other tables.
			continue;
		}
		if (entry) {
			callback(*entry);
		}
	}
}

void OwnSchema::Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	throw NotImplementedException("tables of Warpmill are listed in a transaction");
}

optional_ptr<CatalogEntry> OwnSchema::LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup) {
	if (lookup.GetCatalogType() != CatalogType::TABLE_ENTRY || !transaction.HasContext()) {
		return nullptr;
	}
	if (lookup.GetAtClause()) {
		NotHere("AT");
	}
	auto &context = transaction.GetContext();
	return OwnTransaction::Get(context, catalog).Table(context, *this, lookup.GetEntryName());
}

optional_ptr<CatalogEntry> OwnSchema::CreateTable(CatalogTransaction transaction, BoundCreateTableInfo &info) {
	auto &context = transaction.GetContext();
	auto &own = OwnTransaction::Get(context, catalog);
	auto &base = info.Base();
	own.Execute(CreateTableSql(Text(name), base));
	own.Changed(Text(name), Text(base.GetTableName()));
	return own.Table(context, *this, Text(base.GetTableName()));
}

void OwnSchema::DropEntry(ClientContext &context, DropInfo &info) {
#if WARPMILL_DUCKDB >= 20000
	auto &dropped = Text(info.GetQualifiedName().Name());
#else
	auto &dropped = info.name;
#endif
	if (info.type != CatalogType::TABLE_ENTRY) {
		NotHere("this DROP");
	}
	auto &own = OwnTransaction::Get(context, catalog);
	auto lenient = info.if_not_found == OnEntryNotFound::RETURN_NULL;
	own.Execute((lenient ? "DROP TABLE IF EXISTS " : "DROP TABLE ") + Qualified(Text(name), dropped));
	own.Changed(Text(name), dropped);
}

optional_ptr<CatalogEntry> OwnSchema::CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) {
	NotHere("CREATE INDEX");
}
optional_ptr<CatalogEntry> OwnSchema::CreateFunction(CatalogTransaction, CreateFunctionInfo &) {
	NotHere("CREATE MACRO");
}
optional_ptr<CatalogEntry> OwnSchema::CreateView(CatalogTransaction, CreateViewInfo &) {
	NotHere("CREATE VIEW");
}
optional_ptr<CatalogEntry> OwnSchema::CreateSequence(CatalogTransaction, CreateSequenceInfo &) {
	NotHere("CREATE SEQUENCE");
}
optional_ptr<CatalogEntry> OwnSchema::CreateTableFunction(CatalogTransaction, CreateTableFunctionInfo &) {
	NotHere("CREATE MACRO");
}
optional_ptr<CatalogEntry> OwnSchema::CreateCopyFunction(CatalogTransaction, CreateCopyFunctionInfo &) {
	NotHere("a function of COPY");
}
optional_ptr<CatalogEntry> OwnSchema::CreatePragmaFunction(CatalogTransaction, CreatePragmaFunctionInfo &) {
	NotHere("a PRAGMA");
}
optional_ptr<CatalogEntry> OwnSchema::CreateCollation(CatalogTransaction, CreateCollationInfo &) {
	NotHere("a collation");
}
optional_ptr<CatalogEntry> OwnSchema::CreateType(CatalogTransaction, CreateTypeInfo &) {
	NotHere("CREATE TYPE");
}
void OwnSchema::Alter(CatalogTransaction, AlterInfo &) {
	NotHere("ALTER");
}

OwnTableEntry::OwnTableEntry(Catalog &catalog, OwnSchema &schema, CreateTableInfo &info, shared_ptr<OwnTable> table)
    : TableCatalogEntry(catalog, schema, info), table(std::move(table))
#if WARPMILL_DUCKDB >= 20000
      ,
      columns(info.columns.Copy())
#endif
{
}

static vector<unique_ptr<ParsedExpression>> ParseExpressions(ClientContext &context, const string &sql) {
#if WARPMILL_DUCKDB >= 20000
	Parser parser(context);
	return parser.ParseExpressionList(sql);
#else
	return Parser::ParseExpressionList(sql, context.GetParserOptions());
#endif
}

// The default of a column as DuckDB's expression. A default that only Warpmill can compute becomes an error where it is used.
static unique_ptr<ParsedExpression> DefaultOf(ClientContext &context, const string &column, const string &sql) {
	if (StringUtil::Lower(sql).find("nextval") == string::npos) {
		try {
			auto expressions = ParseExpressions(context, sql);
			if (expressions.size() == 1) {
				return std::move(expressions[0]);
			}
		} catch (std::exception &) {
			// The default becomes an error, see below.
		}
	}
	auto text = "the DEFAULT of column " + Quoted(column) + " is computed by Warpmill only (" + sql + "): give a value, or "
	            "open the folder with warpmill.connect()";
	return std::move(ParseExpressions(context, "error('" + StringUtil::Replace(text, "'", "''") + "')")[0]);
}

unique_ptr<OwnTableEntry> OwnTableEntry::Make(ClientContext &context, OwnSchema &schema, const string &name,
                                              shared_ptr<OwnTable> table) {
	CreateTableInfo info(schema, warpmill::Name(name));
	auto &engine = table->engine;
	for (idx_t i = 0; i < engine.table_columns(table->Get()); i++) {
		wm_column_info column;
		engine.table_column(table->Get(), i, &column);
		LogicalType type;
		try {
			type = TransformStringToLogicalType(column.type, context);
		} catch (InterruptException &) {
			throw;
		} catch (std::exception &ex) {
			throw NotImplementedException("column %s of table %s has the type %s, which DuckDB has not: %s",
			                              Quoted(column.name), Quoted(name), column.type, ErrorData(ex).RawMessage());
		}
		ColumnDefinition definition(warpmill::Name(column.name), std::move(type));
		if (column.default_sql) {
			definition.SetDefaultValue(DefaultOf(context, column.name, column.default_sql));
		}
		info.columns.AddColumn(std::move(definition));
		if (!column.nullable) {
			info.constraints.push_back(make_uniq<NotNullConstraint>(LogicalIndex(i)));
		}
	}
	const uint32_t *columns;
	bool is_primary;
	for (idx_t key = 0; auto count = engine.table_key(table->Get(), key, &columns, &is_primary); key++) {
		if (count == 1) {
			info.constraints.push_back(make_uniq<UniqueConstraint>(LogicalIndex(columns[0]), is_primary));
			continue;
		}
		vector<warpmill::Name> names;
		for (idx_t i = 0; i < count; i++) {
			names.push_back(info.columns.GetColumn(LogicalIndex(columns[i])).Name());
		}
		info.constraints.push_back(make_uniq<UniqueConstraint>(std::move(names), is_primary));
	}
	return make_uniq<OwnTableEntry>(schema.ParentCatalog(), schema, info, std::move(table));
}

unique_ptr<BaseStatistics> OwnTableEntry::GetStatistics(ClientContext &context, column_t column) {
	return nullptr;
}

TableFunction OwnTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &data) {
	data = OwnScanData(table, this);
	return OwnScan();
}

TableStorageInfo OwnTableEntry::GetStorageInfo(ClientContext &context) {
	TableStorageInfo info;
	info.cardinality = table->engine.table_rows(table->Get());
	return info;
}

OwnCatalog::OwnCatalog(AttachedDatabase &db, const wm_engine &engine, string path, wm_database *database)
    : Catalog(db), engine(engine), path(std::move(path)), database(database) {
}

OwnCatalog::~OwnCatalog() {
	engine.database_free(database);
}

OwnSchema &OwnCatalog::Schema(const string &name) {
	std::lock_guard<std::mutex> guard(lock);
	auto &known = schemas[StringUtil::Lower(name)];
	if (!known) {
		CreateSchemaInfo info;
#if WARPMILL_DUCKDB >= 20000
		info.SetSchema(Name(name));
#else
		info.schema = name;
#endif
		known = make_uniq<OwnSchema>(*this, info);
	}
	return *known;
}

DatabaseSize OwnCatalog::GetDatabaseSize(ClientContext &context) {
	return DatabaseSize();
}

optional_ptr<CatalogEntry> OwnCatalog::CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &info) {
#if WARPMILL_DUCKDB >= 20000
	if (info.IsNested()) {
		NotHere("a schema within a schema");
	}
	auto name = Text(info.SchemaName());
#else
	auto name = info.schema;
#endif
	if (info.on_conflict == OnCreateConflict::REPLACE_ON_CONFLICT) {
		NotHere("CREATE OR REPLACE SCHEMA");
	}
	auto &context = transaction.GetContext();
	auto &own = OwnTransaction::Get(context, *this);
	auto lenient = info.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT;
	auto known = own.Schemas();
	auto is_there = std::any_of(known.begin(), known.end(),
	                            [&](const string &other) { return StringUtil::CIEquals(other, name); });
	if (!lenient || !is_there) {
		own.ExecuteAlone(context, "CREATE SCHEMA", (lenient ? "CREATE SCHEMA IF NOT EXISTS " : "CREATE SCHEMA ") + Quoted(name));
	}
	return &Schema(name);
}

void OwnCatalog::DropSchema(ClientContext &context, DropInfo &info) {
#if WARPMILL_DUCKDB >= 20000
	auto name = Text(info.GetQualifiedName().Name());
#else
	auto name = info.name;
#endif
	auto sql = string("DROP SCHEMA ") + (info.if_not_found == OnEntryNotFound::RETURN_NULL ? "IF EXISTS " : "") +
	           Quoted(name) + (info.cascade ? " CASCADE" : "");
	OwnTransaction::Get(context, *this).ExecuteAlone(context, "DROP SCHEMA", sql);
}

optional_ptr<SchemaCatalogEntry> OwnCatalog::LookupSchema(CatalogTransaction transaction, const EntryLookupInfo &lookup,
                                                          OnEntryNotFound if_not_found) {
	auto &name = lookup.GetEntryName();
	if (transaction.HasContext()) {
		for (auto &known : OwnTransaction::Get(transaction.GetContext(), *this).Schemas()) {
			if (StringUtil::CIEquals(known, name)) {
				return &Schema(known);
			}
		}
	}
	if (if_not_found == OnEntryNotFound::RETURN_NULL) {
		return nullptr;
	}
	throw CatalogException(lookup.GetErrorContext(), "Schema with name %s does not exist in the database of Warpmill %s",
	                       Quoted(name), Quoted(Text(GetName())));
}

void OwnCatalog::ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) {
	for (auto &name : OwnTransaction::Get(context, *this).Schemas()) {
		callback(Schema(name));
	}
}

PhysicalOperator &OwnCatalog::PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
                                         PhysicalOperator &plan) {
	NotHere("DELETE");
}

PhysicalOperator &OwnCatalog::PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
                                         PhysicalOperator &plan) {
	NotHere("UPDATE");
}

PhysicalOperator &OwnCatalog::PlanMergeInto(ClientContext &context, PhysicalPlanGenerator &planner,
                                            LogicalMergeInto &op, PhysicalOperator &plan) {
	NotHere("MERGE");
}

unique_ptr<LogicalOperator> OwnCatalog::BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
                                                        unique_ptr<LogicalOperator> plan) {
	NotHere("CREATE INDEX");
}

struct StorageInfo : public StorageExtensionInfo {
	explicit StorageInfo(const wm_engine &engine) : engine(engine) {
	}
	const wm_engine &engine;
};

static unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo> storage, ClientContext &context,
                                  AttachedDatabase &db, const string &name, AttachInfo &info, AttachOptions &options) {
	auto &engine = static_cast<StorageInfo &>(*storage).engine;
	if (!DBConfig::GetConfig(context).CanAccessFile(info.path, FileType::FILE_TYPE_DIR)) {
		throw PermissionException("Cannot attach %s: external access is disabled by configuration", Quoted(info.path));
	}
	for (auto &option : options.options) {
		throw BinderException("ATTACH of a database of Warpmill takes READ_ONLY, not %s", option.first);
	}
	if (info.path.empty()) {
		throw BinderException("ATTACH of a database of Warpmill takes the path of its folder");
	}
	wm_failure failure {};
	auto read_only = options.access_mode == AccessMode::READ_ONLY;
	auto database = engine.database_open(info.path.c_str(), read_only, &failure);
	if (!database) {
		Throw(engine, failure);
	}
	return make_uniq<OwnCatalog>(db, engine, info.path, database);
}

static unique_ptr<TransactionManager> CreateManager(optional_ptr<StorageExtensionInfo> storage, AttachedDatabase &db,
                                                    Catalog &catalog) {
	return make_uniq<OwnTransactionManager>(db, catalog.Cast<OwnCatalog>());
}

void RegisterStorage(DBConfig &config, const wm_engine &engine) {
	auto extension = make_shared_ptr<StorageExtension>();
	extension->attach = Attach;
	extension->create_transaction_manager = CreateManager;
	extension->storage_info = make_shared_ptr<StorageInfo>(engine);
	StorageExtension::Register(config, "warpmill", std::move(extension));
}

} // namespace warpmill
