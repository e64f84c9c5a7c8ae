"""The connection of the module: ``warpmill.sql(...)`` without one of the caller's own. Its tables are in memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from warpmill.connection import connect

if TYPE_CHECKING:
    from warpmill.connection import Connection
    from warpmill.reading import Paths
    from warpmill.relation import Params, Relation

_lock = threading.Lock()
_opened: list[Connection] = []


def default_connection() -> Connection:
    """The connection that the functions of the module use, opened when the first of them is called."""
    with _lock:
        if not _opened:
            _opened.append(connect())
        return _opened[0]


def sql(query: str, params: Params = None) -> Relation:
    """Run statements on the module's connection: see `Connection.sql`."""
    return default_connection().sql(query, params)


def execute(query: str, params: Params = None) -> Relation:
    """Run statements on the module's connection: see `Connection.execute`."""
    return default_connection().execute(query, params)


def read_parquet(path: Paths, **options: object) -> Relation:
    """The rows of Parquet files: see `Connection.read_parquet`."""
    return default_connection().read_parquet(path, **options)


def read_csv(path: Paths, **options: object) -> Relation:
    """The rows of CSV files: see `Connection.read_csv`."""
    return default_connection().read_csv(path, **options)


def read_json(path: Paths, **options: object) -> Relation:
    """The rows of JSON files: see `Connection.read_json`."""
    return default_connection().read_json(path, **options)
