#pragma once

#include "state.hpp"

namespace warpmill {

// The extension's table functions.
void RegisterFunctions(DatabaseInstance &db, const shared_ptr<DatabaseState> &database);

} // namespace warpmill
