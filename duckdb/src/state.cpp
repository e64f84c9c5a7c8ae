#include "state.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/transaction/meta_transaction.hpp"
#include "duckdb/transaction/transaction.hpp"

namespace warpmill {

static string NextIdentity() {
	static std::atomic<uint64_t> next {0};
	// The counter's address distinguishes shims: each DuckDB version in a process has its own, which is never unloaded.
	return to_string(reinterpret_cast<uintptr_t>(&next)) + "." + to_string(next++);
}

DatabaseState::DatabaseState(const wm_engine &engine) : engine(engine), identity(NextIdentity()) {
}

// Largest number of reasons that are counted separately; some contain names and expressions of queries.
static constexpr idx_t REASONS = 256;

void DatabaseState::Count(Ending ending, const string &reason) {
	std::lock_guard<std::mutex> guard(status_lock);
	auto key = std::make_pair(ending, reason);
	if (status.size() >= REASONS && !status.count(key)) {
		key.second = "other reasons";
	}
	status[key]++;
}

uint64_t DatabaseState::Queries(Ending ending) {
	uint64_t count = 0;
	for (auto &entry : Status()) {
		count += entry.first.first == ending ? entry.second : 0;
	}
	return count;
}

std::map<std::pair<Ending, string>, uint64_t> DatabaseState::Status() {
	std::lock_guard<std::mutex> guard(status_lock);
	return status;
}

string DatabaseState::VersionKey(ClientContext &context, TableCatalogEntry &table) {
	auto &attached = table.ParentCatalog().GetAttached();
	if (attached.IsTemporary() || attached.IsSystem() || table.temporary || !table.IsDuckTable()) {
		return string();
	}
	// Takes the transaction's snapshot of this database, if there is none yet.
	Transaction::Get(context, attached);
	auto state = ConnectionState::Get(context);
	auto since = Versions::Get().Watch(attached);
	if (!state || !since.IsValid()) {
		return string();
	}
	{
		std::lock_guard<std::mutex> guard(lock);
		for (auto connection : connections) {
			if (connection->unknown_transaction || (connection->transaction && connection->begun < since.GetIndex())) {
				return string();
			}
		}
	}
	// The rest only uses the state of this thread's connection.
	if (!state->transaction || state->transaction->ModifiedDatabase() == &attached) {
		return string();
	}
	auto version = Versions::Get().Of(table.GetStorage(), state->begun);
	if (version.empty()) {
		return string();
	}
	return identity + "/" + to_string(attached.oid) + "/" + to_string(table.oid) + "/" + version;
}

ConnectionState::ConnectionState(shared_ptr<DatabaseState> database_p, bool in_transaction)
    : database(std::move(database_p)), unknown_transaction(in_transaction) {
	std::lock_guard<std::mutex> guard(database->lock);
	database->connections.insert(this);
}

ConnectionState::~ConnectionState() {
	std::lock_guard<std::mutex> guard(database->lock);
	database->connections.erase(this);
}

shared_ptr<ConnectionState> ConnectionState::Get(ClientContext &context) {
	return context.registered_state->Get<ConnectionState>(NAME);
}

void ConnectionState::QueryBegin(ClientContext &context) {
	in_query = true;
	planned = 0;
	is_explicit = false;
}

void ConnectionState::QueryEnd() {
	in_query = false;
	planned = 0;
	is_explicit = false;
}

// The connection's own database is observed before anything reads it.
static void WatchDefault(ClientContext &context) {
	try {
		if (auto catalog = Catalog::GetCatalogEntry(context, Name())) {
			Versions::Get().Watch(catalog->GetAttached());
		}
	} catch (std::exception &) {
		// The database has been detached: nothing reads it.
	}
}

void ConnectionState::TransactionBegin(MetaTransaction &next, ClientContext &context) {
	WatchDefault(context);
	std::lock_guard<std::mutex> guard(database->lock);
	transaction = &next;
	unknown_transaction = false;
	begun = Versions::Get().Counted();
}

void ConnectionState::TransactionCommit(MetaTransaction &, ClientContext &context) {
	std::lock_guard<std::mutex> guard(database->lock);
	transaction = nullptr;
	unknown_transaction = false;
}

void ConnectionState::TransactionRollback(MetaTransaction &ended, ClientContext &context) {
	TransactionCommit(ended, context);
}

void ConnectionState::Accelerated(const string &profile) {
	database->Count(Ending::ACCELERATED, string());
	Report(Outcome {true, string(), profile});
}

void ConnectionState::NotAccelerated(ClientContext &context, Ending ending, const string &reason) {
	database->Count(ending, reason);
	Report(Outcome {false, reason, string()});
	RequireAllowed(context, ending, reason);
}

void ConnectionState::Report(Outcome next) {
	std::lock_guard<std::mutex> guard(outcome_lock);
	outcome = std::move(next);
}

Outcome ConnectionState::LastOutcome() {
	std::lock_guard<std::mutex> guard(outcome_lock);
	return outcome;
}

Value Setting(ClientContext &context, const char *name) {
	Value value;
	if (!context.TryGetCurrentSetting(Name(name), value)) {
		return Value();
	}
	return value;
}

bool IsEnabled(ClientContext &context) {
	auto value = Setting(context, "warpmill_enabled");
	return !value.IsNull() && value.GetValue<bool>();
}

bool IsStrict(ClientContext &context) {
	auto value = Setting(context, "warpmill_fallback");
	return !value.IsNull() && value.ToString() == "error";
}

void RequireAllowed(ClientContext &context, Ending ending, const string &reason) {
	if (IsStrict(context)) {
		throw InvalidInputException("Warpmill %s this query: %s (warpmill_fallback is 'error')",
		                            ending == Ending::FAILED ? "could not finish" : "does not run", reason);
	}
}

} // namespace warpmill
