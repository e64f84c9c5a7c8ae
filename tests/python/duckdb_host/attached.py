"""Connections of DuckDB's with an attached database of Warpmill's, and comparisons of tables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def attached(folder: Path) -> Iterator[Any]:
    """A connection of DuckDB's with the database in `folder` attached as `w`."""
    connection = warpmill.duckdb.connect()
    connection.execute(f"ATTACH '{folder}' AS w (TYPE warpmill)")
    yield connection
    connection.close()


def rows(con: Any, sql: str) -> list[Any]:
    return list(con.execute(sql).fetchall())


def assert_equal(con: Any, left: str, right: str) -> None:
    """Assert that two tables have the same columns, types and rows, by DuckDB's own comparison: NaN equals itself."""
    described = [rows(con, f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})") for table in (left, right)]
    assert described[0] == described[1]
    counts = rows(con, f"SELECT (SELECT count(*) FROM {left}), (SELECT count(*) FROM {right})")
    assert counts[0][0] == counts[0][1]
    for one, other in ((left, right), (right, left)):
        assert rows(con, f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})") == [(0,)], (one, other)
