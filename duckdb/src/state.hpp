// The extension's knowledge of a database and of its connections.
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

// The ending of a query over tables.
enum class Ending : uint8_t {
	ACCELERATED,
	// Not taken over.
	LEFT,
	// Taken over, and then run by DuckDB's own plan all the same.
	FAILED
};

// The way the last query of a connection that read tables was run.
struct Outcome {
	bool accelerated = false;
	// The reason why DuckDB ran it; empty where Warpmill did.
	string reason;
	// The engine's profile, as JSON text.
	string profile;
};

// One per database instance.
class DatabaseState {
public:
	explicit DatabaseState(const wm_engine &engine);

	const wm_engine &engine;
	// A text that no other database of this process has or will have: an address would be another one's after this one is closed.
	const string identity;
	std::atomic<uint64_t> inputs_scanned {0};
	std::atomic<uint64_t> inputs_from_cache {0};
	// Tables of Warpmill's own, read where they are.
	std::atomic<uint64_t> inputs_own {0};

	void Count(Ending ending, const string &reason);
	// Queries of an ending.
	uint64_t Queries(Ending ending);
	// Queries by ending and reason.
	std::map<std::pair<Ending, string>, uint64_t> Status();

	// The key under which the rows that this transaction sees of `table` may be kept and found again, or empty where its
	// snapshot is not known to be a committed version that nobody is changing.
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

// One per connection: its transaction, and what became of its last query.
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

	// Counts a query that Warpmill has run, with the engine's profile.
	void Accelerated(const string &profile);
	// Counts a query that DuckDB runs. Throws in strict mode.
	void NotAccelerated(ClientContext &context, Ending ending, const string &reason);
	Outcome LastOutcome();

	// Statements planned since the query began: a second one is planned inside of the first, for a function that looks at
	// plans, and has to stay as it is.
	idx_t planned = 0;
	bool in_query = false;
	// The explicit door is used: what is planned until the query ends is part of it.
	bool is_explicit = false;

private:
	friend class DatabaseState;
	shared_ptr<DatabaseState> database;
	// The open transaction, under the database's lock.
	MetaTransaction *transaction = nullptr;
	// A transaction was open when the extension was loaded: nothing is known of it.
	bool unknown_transaction;
	// The commits that had been counted when the transaction began.
	uint64_t begun = 0;

	void Report(Outcome outcome);

	std::mutex outcome_lock;
	Outcome outcome;
};

// A setting of this connection.
Value Setting(ClientContext &context, const char *name);
bool IsEnabled(ClientContext &context);
bool IsStrict(ClientContext &context);
// Throws in strict mode: why DuckDB would run a query.
void RequireAllowed(ClientContext &context, Ending ending, const string &reason);

} // namespace warpmill
