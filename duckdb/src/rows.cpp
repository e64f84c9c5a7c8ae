#include "rows.hpp"

namespace warpmill {

void CopyColumn(const wm_column &column, idx_t from, idx_t count, Vector &target) {
	auto valid = [&](idx_t row) { return !column.validity || (column.validity[row / 8] >> (row % 8) & 1); };
#if WARPMILL_DUCKDB >= 20000
	auto &validity = FlatVector::ValidityMutable(target);
#else
	auto &validity = FlatVector::Validity(target);
#endif
	validity.Reset();
	if (column.validity) {
		for (idx_t i = 0; i < count; i++) {
			if (!valid(from + i)) {
				validity.SetInvalid(i);
			}
		}
	}
	if (!column.offsets) {
		auto width = GetTypeIdSize(target.GetType().InternalType());
		auto values = static_cast<const_data_ptr_t>(column.values) + from * width;
#if WARPMILL_DUCKDB >= 20000
		memcpy(FlatVector::GetDataMutable(target), values, count * width);
#else
		memcpy(FlatVector::GetData(target), values, count * width);
#endif
		return;
	}
#if WARPMILL_DUCKDB >= 20000
	auto strings = FlatVector::GetDataMutable<string_t>(target);
#else
	auto strings = FlatVector::GetData<string_t>(target);
#endif
	auto bytes = static_cast<const char *>(column.values);
	for (idx_t i = 0; i < count; i++) {
		auto begin = column.offsets[from + i];
		auto length = column.offsets[from + i + 1] - begin;
		strings[i] = valid(from + i) ? StringVector::AddString(target, bytes + begin, length) : string_t();
	}
}

void SetRows(DataChunk &chunk, idx_t count) {
#if WARPMILL_DUCKDB >= 20000
	chunk.SetChildCardinality(count);
#else
	chunk.SetCardinality(count);
#endif
}

} // namespace warpmill
