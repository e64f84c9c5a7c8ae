"""Python functions of groups as machine code of Numba (docs/udf.md): lists, dictionaries, tuples, other functions.

The function's tree is rewritten first (`rewriting`), so that whatever Numba would compute otherwise than Python raises
an exception there: operators check for 64 bits, columns for NULLs. An exception gives the group up, as in the functions
that Warpmill compiles itself, and Python is asked. Importing this package does not import Numba.
"""

from __future__ import annotations

import importlib.util

from warpmill.udf.numba.translation import NumbaTranslator

__all__ = ["NumbaTranslator", "missing"]


def missing() -> str | None:
    """The reason why nothing can be compiled with Numba: it is not installed."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed (pip install 'warpmill[numba]')"
    return None
