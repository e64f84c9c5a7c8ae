#include "versions.hpp"

#include "duckdb/common/enums/undo_flags.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/storage/buffer_manager.hpp"
#include "duckdb/transaction/append_info.hpp"
#include "duckdb/transaction/delete_info.hpp"
#include "duckdb/transaction/duck_transaction.hpp"
#include "duckdb/transaction/duck_transaction_manager.hpp"
#include "duckdb/transaction/local_storage.hpp"
#include "duckdb/transaction/undo_buffer_allocator.hpp"
#include "duckdb/transaction/update_info.hpp"

namespace warpmill {

#if WARPMILL_DUCKDB >= 20000
static const DataTable *TableOf(DuckTableEntry *entry) {
	return &entry->GetStorage();
}
#else
static const DataTable *TableOf(const DataTable *table) {
	return table;
}
#endif

// The tables that a transaction has changed: tables for which it holds appended rows, and tables with older rows in its undo buffer.
// Altering a table creates a new table object.
static Versions::Change ChangeOf(DuckTransaction &transaction) {
	Versions::Change change;
	auto &local = transaction.GetLocalStorage().table_manager;
	{
		lock_guard<mutex> guard(local.table_storage_lock);
		for (auto &entry : local.table_storage) {
			change.tables.insert(&entry.first.get());
		}
	}
	auto &undo = transaction.undo_buffer.allocator;
	for (auto entry = undo.tail; entry; entry = entry->prev) {
		auto handle = undo.buffer_manager.Pin(entry->block);
		const_data_ptr_t at = handle.Ptr();
		for (auto end = at + entry->position; at < end;) {
			auto type = duckdb::Load<UndoFlags>(at);
			auto length = duckdb::Load<uint32_t>(at + sizeof(UndoFlags));
			at += sizeof(UndoFlags) + sizeof(uint32_t);
			switch (type) {
			case UndoFlags::INSERT_TUPLE:
				change.tables.insert(TableOf(reinterpret_cast<const AppendInfo *>(at)->table));
				break;
			case UndoFlags::DELETE_TUPLE:
				change.tables.insert(TableOf(reinterpret_cast<const DeleteInfo *>(at)->table));
				break;
			case UndoFlags::UPDATE_TUPLE:
				change.tables.insert(TableOf(reinterpret_cast<const UpdateInfo *>(at)->table));
				break;
			default:
				// Changes of catalog entries and sequences, which have no rows.
				break;
			}
			at += length;
		}
	}
	change.known = true;
	return change;
}

// DuckDB's transaction manager with reports of its commits. It has no members of its own: it replaces the class of an existing object.
class WatchedManager : public DuckTransactionManager {
public:
	using DuckTransactionManager::DuckTransactionManager;
	ErrorData CommitTransaction(ClientContext &context, Transaction &transaction) override;
};
static_assert(sizeof(WatchedManager) == sizeof(DuckTransactionManager), "it takes the place of one");

ErrorData WatchedManager::CommitTransaction(ClientContext &context, Transaction &transaction) {
	struct Around {
		explicit Around(Versions::Change change_p) : change(std::move(change_p)) {
			Versions::Get().Begin(change);
		}
		~Around() {
			Versions::Get().End(change);
		}
		const Versions::Change change;
	};
	Versions::Change change;
	try {
		change = ChangeOf(transaction.Cast<DuckTransaction>());
	} catch (std::exception &) {
		change = Versions::Change();
	}
	if (change.known && change.tables.empty()) {
		return DuckTransactionManager::CommitTransaction(context, transaction);
	}
	Around around(std::move(change));
	return DuckTransactionManager::CommitTransaction(context, transaction);
}

} // namespace warpmill

// Tables of virtual functions: objects point to the third entry.
extern "C" void *_ZTVN6duckdb22DuckTransactionManagerE[];
extern "C" void *_ZTVN8warpmill14WatchedManagerE[];

namespace warpmill {

optional_idx Versions::Watch(AttachedDatabase &attached) {
	auto &manager = attached.GetTransactionManager();
	auto functions = reinterpret_cast<void ***>(&manager);
	std::lock_guard<std::mutex> guard(lock);
	auto now = __atomic_load_n(functions, __ATOMIC_ACQUIRE);
	if (now == _ZTVN8warpmill14WatchedManagerE + 2) {
		return watched[&manager];
	}
	if (now != _ZTVN6duckdb22DuckTransactionManagerE + 2) {
		return optional_idx();
	}
	__atomic_store_n(functions, _ZTVN8warpmill14WatchedManagerE + 2, __ATOMIC_RELEASE);
	watched[&manager] = ++counted;
	return counted;
}

Versions &Versions::Get() {
	// The object is never destroyed, since databases may exist longer than all other objects.
	static auto versions = new Versions();
	return *versions;
}

uint64_t Versions::Counted() {
	std::lock_guard<std::mutex> guard(lock);
	return counted;
}

string Versions::Of(DataTable &table, uint64_t begun) {
	std::lock_guard<std::mutex> guard(lock);
	auto known = tables.find(&table);
	if (known == tables.end()) {
		// It is not known whether the table was changed after that transaction began.
		known = tables.emplace(&table, Entry()).first;
		known->second.changed = counted;
	}
	auto &entry = known->second;
	if (!entry.identity || entry.table.lock().get() != &table) {
		entry.identity = ++identities;
		entry.table = table.shared_from_this();
		entry.changed = MaxValue(entry.changed, counted);
	}
	auto changed = MaxValue(entry.changed, all_changed);
	if (all_under_way || entry.under_way || changed > begun) {
		return string();
	}
	return to_string(entry.identity) + "." + to_string(changed);
}

void Versions::Begin(const Change &change) {
	std::lock_guard<std::mutex> guard(lock);
	all_under_way += change.known ? 0 : 1;
	for (auto table : change.tables) {
		tables[table].under_way++;
	}
}

void Versions::End(const Change &change) {
	std::lock_guard<std::mutex> guard(lock);
	counted++;
	if (!change.known) {
		all_under_way--;
		all_changed = counted;
	}
	for (auto table : change.tables) {
		auto &entry = tables[table];
		entry.under_way--;
		entry.changed = counted;
	}
	// An entry without a user, or with a deleted table, can be created again when it is needed.
	for (auto entry = tables.begin(); tables.size() > 1024 && entry != tables.end();) {
		entry = entry->second.under_way || entry->second.table.lock() ? std::next(entry) : tables.erase(entry);
	}
}

} // namespace warpmill
