// Copies rows of the engine's columns to DuckDB's vectors.
#pragma once

#include "compat.hpp"
#include "duckdb/common/types/data_chunk.hpp"
#include "engine.h"

namespace warpmill {

// Copies rows [from, from + count) of a result column.
void CopyColumn(const wm_column &column, idx_t from, idx_t count, Vector &target);

void SetRows(DataChunk &chunk, idx_t count);

// The values of a flat vector, for writing.
template <class T>
inline T *MutableValues(Vector &vector) {
#if WARPMILL_DUCKDB >= 20000
	return FlatVector::GetDataMutable<T>(vector);
#else
	return FlatVector::GetData<T>(vector);
#endif
}

} // namespace warpmill
