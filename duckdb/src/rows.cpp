#include "rows.hpp"

#include "duckdb/common/exception.hpp"
#include "duckdb/common/types/date.hpp"
#include "duckdb/common/types/timestamp.hpp"

namespace warpmill {

ClientProperties ArrowProperties(ClientContext &context) {
	auto properties = context.GetClientProperties();
	properties.arrow_offset_size = ArrowOffsetSize::REGULAR;
	properties.arrow_use_list_view = false;
	properties.produce_arrow_string_view = false;
	properties.arrow_lossless_conversion = false;
	properties.arrow_output_version = ArrowFormatVersion::V1_0;
	return properties;
}

static bool IsFinite(date_t value) {
	return value != date_t::infinity() && value != date_t::ninfinity();
}

static bool IsFinite(timestamp_t value) {
	return value != timestamp_t::infinity() && value != timestamp_t::ninfinity();
}

template <class T>
static void RequireFinite(Vector &vector, idx_t count) {
	UnifiedVectorFormat rows;
#if WARPMILL_DUCKDB >= 20000
	vector.ToUnifiedFormat(rows);
#else
	vector.ToUnifiedFormat(count, rows);
#endif
	auto values = UnifiedVectorFormat::GetData<T>(rows);
	for (idx_t i = 0; i < count; i++) {
		auto row = rows.sel->get_index(i);
		if (rows.validity.RowIsValid(row) && !IsFinite(values[row])) {
			throw InvalidInputException("a date or timestamp is infinite");
		}
	}
}

void RequireFinite(DataChunk &chunk) {
	for (auto &vector : chunk.data) {
		switch (vector.GetType().id()) {
		case LogicalTypeId::DATE:
			RequireFinite<date_t>(vector, chunk.size());
			break;
		case LogicalTypeId::TIMESTAMP:
			RequireFinite<timestamp_t>(vector, chunk.size());
			break;
		default:
			break;
		}
	}
}

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
