"""DuckDB, with its SELECTs run by Warpmill where it can: `import warpmill.duckdb as duckdb`.

Everything here is DuckDB's own Python API, from whichever version is installed: the same functions, classes and
exceptions, and real `DuckDBPyConnection`s. Only `connect` and the functions of the default connection differ: their
connections have DuckDB's extension `warpmill` loaded, for which unsigned extensions are allowed.

`accelerate(connection)` does the same to a connection that was opened elsewhere. docs/duckdb.md has the rest.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any

import duckdb as _duckdb

from warpmill.duckdb._extension import accelerate, extension_path, supported_versions

__all__ = [name for name in dir(_duckdb) if not name.startswith("_")]
__all__ += ["accelerate", "extension_path", "supported_versions"]
__version__ = _duckdb.__version__

_lock = threading.Lock()
_default: Any = None


def connect(database: Any = ":memory:", read_only: bool = False, config: dict[str, Any] | None = None) -> Any:
    """Opens a database as `duckdb.connect` does, and loads the extension.

    Raises `duckdb.InvalidInputException` or `duckdb.IOException` with what to do where the extension cannot be loaded.
    """
    if str(database) == ":default:":
        return default_connection()
    settings = {**(config or {}), "allow_unsigned_extensions": "true"}
    connection = _duckdb.connect(database, read_only=read_only, config=settings)
    try:
        return accelerate(connection)
    except BaseException:
        connection.close()
        raise


def default_connection() -> Any:
    """The connection of the module's own functions: in memory, opened when it is first needed."""
    global _default
    with _lock:
        if _default is None:
            _default = connect()
        return _default


def set_default_connection(connection: Any) -> None:
    """Makes `connection` the one of the module's own functions."""
    global _default
    with _lock:
        _default = connection


def _takes_connection(value: Any) -> bool:
    """Whether a function of DuckDB's module runs on the default connection where no other is given."""
    if inspect.isclass(value) or not callable(value):
        return False
    try:
        return "connection" in inspect.signature(value).parameters
    except (TypeError, ValueError):
        return "connection:" in (value.__doc__ or "").partition("->")[0]


@functools.cache
def _functions() -> frozenset[str]:
    own = {"connect", "default_connection", "set_default_connection"}
    names = (name for name in dir(_duckdb) if not name.startswith("_") and name not in own)
    return frozenset(name for name in names if _takes_connection(getattr(_duckdb, name)))


def __getattr__(name: str) -> Any:
    """DuckDB's own, with the accelerated default connection where one is used.

    A function with its connection bound, rather than one of ours around it: DuckDB looks for data frames in the
    variables of whoever calls it.
    """
    value = getattr(_duckdb, name)
    if name not in _functions():
        return value
    bound = functools.partial(value, connection=default_connection())
    functools.update_wrapper(bound, value)
    return bound


def __dir__() -> list[str]:
    return sorted(__all__)
