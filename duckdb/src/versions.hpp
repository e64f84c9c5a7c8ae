// Versions of tables: which commit was the last one that has changed a table's rows.
#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "compat.hpp"
#include "duckdb/storage/data_table.hpp"

namespace warpmill {

// Of all databases of the process, as far as they are watched. The argument why a version names what a transaction sees is in
// docs/duckdb.md, "Never stale".
class Versions {
public:
	static Versions &Get();

	// Watches the commits of a database from now on. Gives the number of commits that had been counted when that began: commits of
	// transactions that began earlier may go unseen. None: they cannot be watched.
	optional_idx Watch(AttachedDatabase &attached);

	// Commits that have been counted.
	uint64_t Counted();

	// The version of a table that a transaction sees, which began when `begun` commits had been counted and has taken its snapshot;
	// empty where it is not known.
	string Of(DataTable &table, uint64_t begun);

	// The tables that a commit changes. Not `known`: anything.
	struct Change {
		bool known = false;
		std::unordered_set<const DataTable *> tables;
	};
	// Before and after a commit.
	void Begin(const Change &change);
	void End(const Change &change);

private:
	struct Entry {
		// Tells it from others that lie at the same address later. None: nobody has asked for it.
		uint64_t identity = 0;
		weak_ptr<DataTable> table;
		// The number of the last commit that changed it, or a later one.
		uint64_t changed = 0;
		// Commits under way that change it.
		uint64_t under_way = 0;
	};

	std::mutex lock;
	uint64_t counted = 1;
	uint64_t identities = 0;
	// As in Entry, of commits that may have changed anything.
	uint64_t all_changed = 0;
	uint64_t all_under_way = 0;
	std::unordered_map<const DataTable *, Entry> tables;
	// By their transaction managers.
	std::unordered_map<const TransactionManager *, uint64_t> watched;
};

} // namespace warpmill
