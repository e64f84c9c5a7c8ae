"""LIMIT and OFFSET by queries and in percent, beside plain DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = """
    CREATE TABLE t AS SELECT i AS a, i % 3 AS b FROM range(10) r(i);
    CREATE TABLE none AS SELECT 1 AS k WHERE false;
    CREATE VIEW v AS SELECT a FROM t ORDER BY a LIMIT (SELECT 2);
    CREATE SEQUENCE numbers
"""

EQUAL = [
    "SELECT a FROM t ORDER BY a LIMIT (SELECT min(a) + 2 FROM t)",
    "SELECT a FROM t ORDER BY a OFFSET (SELECT max(a) - 1 FROM t)",
    "SELECT a FROM t ORDER BY a DESC LIMIT (SELECT 3) OFFSET (SELECT 1)",
    "SELECT a FROM t ORDER BY a LIMIT (SELECT k FROM none)",
    "SELECT a FROM t ORDER BY a OFFSET (SELECT k FROM none)",
    "SELECT a FROM t ORDER BY a LIMIT (SELECT 100) OFFSET (SELECT 100)",
    "SELECT a FROM t ORDER BY a LIMIT (SELECT 0)",
    "SELECT k FROM none LIMIT (SELECT 1)",
    "SELECT a + 1 AS k FROM t ORDER BY b, a DESC LIMIT (SELECT 4)",
    "SELECT * FROM t ORDER BY ALL LIMIT (SELECT 2) OFFSET (SELECT 1)",
    "WITH x AS (SELECT 3 AS k) SELECT a FROM t ORDER BY 1 LIMIT (SELECT k FROM x)",
    "SELECT sum(a) FROM (SELECT a FROM t ORDER BY a LIMIT (SELECT 4))",
    "SELECT * FROM v ORDER BY a",
    "SELECT a FROM t ORDER BY a LIMIT 1.25",
    "SELECT a FROM t ORDER BY a LIMIT nextval('numbers')",
    "SELECT a FROM t ORDER BY a LIMIT nextval('numbers')",
    "SELECT a FROM t ORDER BY a LIMIT 20 %",
    "SELECT a FROM t ORDER BY a DESC LIMIT 25 PERCENT",
    "SELECT a FROM t ORDER BY a LIMIT 30% OFFSET 2",
    "SELECT a FROM t ORDER BY a LIMIT 99.9 %",
    "SELECT a FROM t ORDER BY a LIMIT 0 %",
    "SELECT a FROM t ORDER BY a LIMIT 100 %",
    "SELECT a FROM t ORDER BY a LIMIT NULL %",
    "SELECT a FROM t ORDER BY a LIMIT (SELECT max(a) * 5 FROM t) %",
    "SELECT a FROM t ORDER BY b, a LIMIT 50% OFFSET (SELECT 1)",
    "SELECT k FROM none LIMIT 50 %",
    "SELECT a FROM t UNION ALL SELECT a FROM t ORDER BY a LIMIT 10%",
    "SELECT (SELECT a FROM t ORDER BY a DESC LIMIT 10 %)",
    "SELECT a FROM t ORDER BY a LIMIT 7 % 4",
]

REFUSED = [
    "SELECT a FROM t LIMIT -1",
    "SELECT a FROM t LIMIT (SELECT -1)",
    "SELECT a FROM t OFFSET (SELECT -1)",
    "SELECT a FROM t LIMIT 120 %",
    "SELECT a FROM t LIMIT -1 %",
    "SELECT a FROM t LIMIT (SELECT 'x')",
    "SELECT a FROM t LIMIT (SELECT b FROM none)",
]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[warpmill.Connection, duckdb.DuckDBPyConnection]]:
    with warpmill.connect(device="cpu") as ours, duckdb.connect() as theirs:
        for sql in TABLES.split(";"):
            ours.execute(sql)
            theirs.execute(sql)
        yield ours, theirs


@pytest.mark.parametrize("sql", EQUAL)
def test_rows_are_those_of_duckdb(both: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], sql: str) -> None:
    ours, theirs = both
    assert ours.execute(sql).fetchall() == theirs.execute(sql).fetchall()


@pytest.mark.parametrize("sql", REFUSED)
def test_what_duckdb_refuses_is_refused(both: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], sql: str) -> None:
    ours, theirs = both
    with pytest.raises(duckdb.Error):
        theirs.execute(sql).fetchall()
    with pytest.raises(warpmill.Error):
        ours.execute(sql).fetchall()


def test_a_query_that_is_limited_by_rows_of_another_is_prepared(
    both: tuple[warpmill.Connection, duckdb.DuckDBPyConnection],
) -> None:
    ours, _ = both
    sql = "SELECT a FROM t ORDER BY a LIMIT (SELECT ?::INTEGER) OFFSET (SELECT ?::INTEGER)"
    assert ours.execute(sql, [2, 3]).fetchall() == [(3,), (4,)]
    assert ours.execute(sql, [1, 0]).fetchall() == [(0,)]
