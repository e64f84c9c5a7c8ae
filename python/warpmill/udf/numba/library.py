"""The functions that rewritten code calls, by name. Importing this imports Numba."""

from __future__ import annotations

from warpmill.udf.numba import columns, functions, operators, pointers

#: Names of `rewriting.Library`.
LIBRARY: dict[str, object] = {
    name: value
    for module in (operators, functions, columns, pointers)
    for name, value in vars(module).items()
    if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
}
