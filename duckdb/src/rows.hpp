// Rows between DuckDB's vectors and the engine's columns.
#pragma once

#include "compat.hpp"
#include "duckdb/common/types/data_chunk.hpp"
#include "duckdb/main/client_properties.hpp"
#include "engine.h"

namespace warpmill {

// The layout in which the engine takes rows, whatever the connection's own settings are.
ClientProperties ArrowProperties(ClientContext &context);

// Throws for dates and timestamps that are infinite, which the engine does not know.
void RequireFinite(DataChunk &chunk);

// Rows [from, from + count) of a result column.
void CopyColumn(const wm_column &column, idx_t from, idx_t count, Vector &target);

void SetRows(DataChunk &chunk, idx_t count);

} // namespace warpmill
