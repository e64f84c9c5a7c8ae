// Rows between DuckDB's vectors and the engine's columns.
#pragma once

#include "compat.hpp"
#include "duckdb/common/types/data_chunk.hpp"
#include "engine.h"

namespace warpmill {

// Rows [from, from + count) of a result column.
void CopyColumn(const wm_column &column, idx_t from, idx_t count, Vector &target);

void SetRows(DataChunk &chunk, idx_t count);

} // namespace warpmill
