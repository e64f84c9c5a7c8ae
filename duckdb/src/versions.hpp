// Versions of tables: the number of the last commit that has changed a table's rows.
#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "compat.hpp"
#include "duckdb/storage/data_table.hpp"

namespace warpmill {

// The versions of the tables of all observed databases in the process. docs/duckdb.md, "Never stale", proves that a version
// identifies the rows that a transaction sees.
class Versions {
public:
	static Versions &Get();

	// Observes the commits of a database from now on. Returns the number of commits that had been counted when this began: commits of
	// transactions that began earlier may go unnoticed. None if they cannot be observed.
	optional_idx Watch(AttachedDatabase &attached);

	// The number of commits that have been counted.
	uint64_t Counted();

	// The version of a table that a transaction sees. The transaction has taken its snapshot, and began when `begun` commits had been
	// counted. Empty if the version is not known.
	string Of(DataTable &table, uint64_t begun);

	// The tables that a commit changes. If they are not `known`, it may change all tables.
	struct Change {
		bool known = false;
		std::unordered_set<const DataTable *> tables;
	};
	// Called before and after a commit.
	void Begin(const Change &change);
	void End(const Change &change);

private:
	struct Entry {
		// The number that distinguishes the table from later ones at the same address. 0 if no version has been requested.
		uint64_t identity = 0;
		weak_ptr<DataTable> table;
		// The number of the last commit that changed the table, or of a later one.
		uint64_t changed = 0;
		// The number of current commits that change the table.
		uint64_t under_way = 0;
	};

	std::mutex lock;
	uint64_t counted = 1;
	uint64_t identities = 0;
	// The same numbers for commits that may have changed any table.
	uint64_t all_changed = 0;
	uint64_t all_under_way = 0;
	std::unordered_map<const DataTable *, Entry> tables;
	// The observed databases by their transaction managers, with the numbers of commits at the beginning.
	std::unordered_map<const TransactionManager *, uint64_t> watched;
};

} // namespace warpmill
