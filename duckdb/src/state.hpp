// The extension's information about a database and its connections.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "compat.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "engine.h"
#include "versions.hpp"

namespace warpmill {

class ConnectionState;

// The outcome of a query over tables.
enum class Ending : uint8_t {
	ACCELERATED,
	// Left to DuckDB.
	LEFT,
	// Taken over, but run by DuckDB's own plan after a failure.
	FAILED
};

// The way in which the last query of a connection that reads tables was run.
struct Outcome {
	bool accelerated = false;
	// The reason why DuckDB has run it; empty if Warpmill has.
	string reason;
	// The engine's profile, as JSON text.
	string profile;
};

// The state of a database instance.
class DatabaseState {
public:
	explicit DatabaseState(const wm_engine &engine);

	const wm_engine &engine;
	// A text that identifies the database in this process forever; its address could be used again after it is closed.
	const string identity;
	std::atomic<uint64_t> inputs_scanned {0};
	std::atomic<uint64_t> inputs_from_cache {0};
	// The number of inputs that are tables of Warpmill's own, read directly.
	std::atomic<uint64_t> inputs_own {0};

	void Count(Ending ending, const string &reason);
	// The number of queries with an outcome.
	uint64_t Queries(Ending ending);
	// The number of queries by outcome and reason.
	std::map<std::pair<Ending, string>, uint64_t> Status();

	// The key under which the rows of `table` that this transaction sees can be kept for later executions; empty if it is not known that
	// its snapshot is a committed version that no transaction is changing.
	//
	// The argument is in docs/duckdb.md, "Never stale".
	string VersionKey(ClientContext &context, TableCatalogEntry &table);

private:
	friend class ConnectionState;
	std::mutex status_lock;
	std::map<std::pair<Ending, string>, uint64_t> status;
	std::mutex lock;
	std::set<ConnectionState *> connections;
};

// The state of a connection: its transaction, and the outcome of its last query.
class ConnectionState : public ClientContextState {
public:
	static constexpr const char *NAME = "warpmill";

	ConnectionState(shared_ptr<DatabaseState> database, bool in_transaction);
	~ConnectionState() override;

	static shared_ptr<ConnectionState> Get(ClientContext &context);

	void QueryBegin(ClientContext &context) override;
	void QueryEnd() override;
	void TransactionBegin(MetaTransaction &transaction, ClientContext &context) override;
	void TransactionCommit(MetaTransaction &transaction, ClientContext &context) override;
	void TransactionRollback(MetaTransaction &transaction, ClientContext &context) override;

	// Counts a query that Warpmill has run, and stores the engine's profile.
	void Accelerated(const string &profile);
	// Counts a query that DuckDB runs. Throws in strict mode.
	void NotAccelerated(ClientContext &context, Ending ending, const string &reason);
	Outcome LastOutcome();

	// The number of statements planned since the query began. A second statement is planned inside of the first, for a function that
	// examines plans, and must not be changed.
	idx_t planned = 0;
	bool in_query = false;
	// Whether the explicit door is used: statements planned before the end of the query are parts of it.
	bool is_explicit = false;

private:
	friend class DatabaseState;
	shared_ptr<DatabaseState> database;
	// The open transaction, under the database's lock.
	MetaTransaction *transaction = nullptr;
	// Whether a transaction was open when the extension was loaded. Its changes are not known.
	bool unknown_transaction;
	// The number of commits that had been counted when the transaction began.
	uint64_t begun = 0;

	void Report(Outcome outcome);

	std::mutex outcome_lock;
	Outcome outcome;
};

// A setting of this connection.
Value Setting(ClientContext &context, const char *name);
bool IsEnabled(ClientContext &context);
bool IsStrict(ClientContext &context);
// Throws in strict mode, with the reason why DuckDB would run a query.
void RequireAllowed(ClientContext &context, Ending ending, const string &reason);

} // namespace warpmill
