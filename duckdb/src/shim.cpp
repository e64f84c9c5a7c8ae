// The second stage of the extension: C++ against one exact version of DuckDB, loaded by the first stage
// (crates/warpmill-duckdb-loader) into a process that exports DuckDB's own symbols.
#include "duckdb.hpp"
#include "duckdb/main/capi/capi_internal.hpp"
#include "duckdb/main/connection_manager.hpp"
#include "duckdb/planner/extension_callback.hpp"
#include "attached.hpp"
#include "functions.hpp"
#include "plan.hpp"

namespace warpmill {

// Adds the extension's state to connections that are opened after it has been loaded.
class Connections : public ExtensionCallback {
public:
	explicit Connections(shared_ptr<DatabaseState> database) : database(std::move(database)) {
	}
	void OnConnectionOpened(ClientContext &context) override {
		context.registered_state->Insert(ConnectionState::NAME, make_shared_ptr<ConnectionState>(database, false));
	}

private:
	shared_ptr<DatabaseState> database;
};

static void CheckFallback(ClientContext &context, SetScope scope, Value &value) {
	auto text = value.ToString();
	if (text != "allow" && text != "error") {
		throw InvalidInputException("warpmill_fallback is 'allow' or 'error', not '%s'", text);
	}
}

static void Load(DatabaseInstance &db, const wm_engine &engine) {
	auto &config = DBConfig::GetConfig(db);
	config.AddExtensionOption("warpmill_enabled", "Run SELECTs on Warpmill where it can", LogicalType::BOOLEAN,
	                          Value::BOOLEAN(true));
	config.AddExtensionOption("warpmill_fallback",
	                          "What happens to queries that Warpmill does not run: 'allow' leaves them to DuckDB, 'error' "
	                          "refuses them",
	                          LogicalType::VARCHAR, Value("allow"), CheckFallback);
	auto database = make_shared_ptr<DatabaseState>(engine);
	ExtensionCallback::Register(config, make_shared_ptr<Connections>(database));
	for (auto &context : ConnectionManager::Get(db).GetConnectionList()) {
		// Open transactions have not been observed from their beginning, including the one of this LOAD.
		context->registered_state->Insert(ConnectionState::NAME, make_shared_ptr<ConnectionState>(database, true));
	}
	RegisterFunctions(db, database);
	RegisterStorage(config, engine);
	PlannerExtension extension;
	extension.post_bind_function = AfterBind;
	extension.planner_info = make_shared_ptr<PlannerInfo>(database);
	PlannerExtension::Register(config, std::move(extension));
}

} // namespace warpmill

// Returns null, or the reason why the extension cannot run here. `database` is a `duckdb_database`.
extern "C" __attribute__((visibility("default"))) const char *warpmill_shim_load(void *database,
                                                                                  const wm_engine *engine) {
	static std::string error;
	try {
		if (std::string(duckdb::DuckDB::LibraryVersion()) != WARPMILL_DUCKDB_VERSION ||
		    std::string(duckdb::DuckDB::SourceID()) != WARPMILL_DUCKDB_SOURCE) {
			error = "it was built for DuckDB " WARPMILL_DUCKDB_VERSION " (" WARPMILL_DUCKDB_SOURCE "), and this is " +
			        std::string(duckdb::DuckDB::LibraryVersion()) + " (" + duckdb::DuckDB::SourceID() + ")";
			return error.c_str();
		}
		if (engine->abi != WARPMILL_ENGINE_ABI) {
			error = "the engine has interface " + std::to_string(engine->abi) + ", and " +
			        std::to_string(WARPMILL_ENGINE_ABI) + " is needed";
			return error.c_str();
		}
		auto wrapper = static_cast<duckdb::DatabaseWrapper *>(database);
		warpmill::Load(*wrapper->database->instance, *engine);
		return nullptr;
	} catch (std::exception &ex) {
		error = duckdb::ErrorData(ex).Message();
		return error.c_str();
	}
}
