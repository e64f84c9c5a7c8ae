"""Scalar subqueries that may have several rows, in a program: beside DuckDB, and refused where they have several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = [
    """CREATE TABLE rows AS SELECT i % 100 AS k, i AS id, CASE WHEN i % 7 <> 0 THEN i * 3 END AS v,
       i * 0.5 AS f, CAST(i AS DECIMAL(12, 2)) / 4 AS d, 'text ' || (i % 50) AS t,
       'a longer text that is its own: ' || i AS u, DATE '2020-01-01' + CAST(i AS INTEGER) AS day, i % 2 = 0 AS b
       FROM range(5000) AS r(i)""",
    "CREATE TABLE nothing AS SELECT * FROM rows WHERE id < 0",
]

COLUMNS = ["k", "id", "v", "f", "d", "t", "u", "day", "b"]

STATEMENTS = [
    # One row, a row with a NULL, no row.
    *[
        f"SELECT k, (SELECT {column} FROM rows WHERE id = {row}) AS c FROM rows WHERE id < 3"
        for column in COLUMNS
        for row in (23, 7, -1)
    ],
    "SELECT count(*) FROM rows WHERE v = (SELECT v FROM rows WHERE id = 40)",
    "SELECT count(*) FROM rows WHERE t = (SELECT t FROM rows WHERE id = 40)",
    "SELECT count(*) FROM rows WHERE u > (SELECT u FROM rows WHERE id = 40)",
    "SELECT count(*) FROM rows WHERE id > (SELECT id FROM nothing)",
    "SELECT (SELECT f FROM nothing) IS NULL",
    "SELECT k, sum(v) FROM rows WHERE day BETWEEN (SELECT day FROM rows WHERE id = 9) AND"
    " (SELECT day + 1000 FROM rows WHERE id = 9) GROUP BY k HAVING sum(v) > (SELECT id FROM rows WHERE id = 1000)",
    # Equal values of several rows are one, grouped.
    "SELECT count(*) FROM rows WHERE k = (SELECT DISTINCT k FROM rows WHERE k = 5)",
    "SELECT count(*) FROM rows WHERE k = (SELECT k FROM rows WHERE k = 5 GROUP BY k)",
    "SELECT (SELECT a.t FROM rows a JOIN rows b ON a.id = b.v WHERE b.id = 5)",
    "SELECT (SELECT v FROM rows WHERE id = 5 UNION SELECT 15)",
    "SELECT id, (SELECT u FROM rows q WHERE q.id = r.v) FROM rows r WHERE k = 3",
]

SEVERAL = [
    *[f"SELECT (SELECT {column} FROM rows)" for column in COLUMNS],
    "SELECT count(*) FROM rows WHERE id = (SELECT id FROM rows WHERE id < 2)",
    # All of them NULL, all of them equal.
    "SELECT (SELECT v FROM rows WHERE id % 7 = 0)",
    "SELECT (SELECT k FROM rows WHERE k = 5)",
    "SELECT id, (SELECT u FROM rows q WHERE q.k = r.k) FROM rows r WHERE k = 3",
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        for table in TABLES:
            con.execute(table)
        yield con


@pytest.fixture(scope="module", params=["cpu", "sim", "sim:2"])
def ours(request: pytest.FixtureRequest) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device=request.param, device_fallback="error") as con:
        for table in TABLES:
            con.execute(table)
        con.set("fallback", "error")
        yield con


@pytest.mark.parametrize("statement", STATEMENTS)
def test_values(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, statement: str) -> None:
    expected = duck.execute(statement).fetchall()
    assert sorted(ours.execute(statement).fetchall(), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("statement", SEVERAL)
def test_several_rows(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, statement: str) -> None:
    with pytest.raises(duckdb.Error, match="More than one row returned by a subquery"):
        duck.execute(statement).fetchall()
    with pytest.raises(warpmill.ExecutionError, match="More than one row returned by a subquery"):
        ours.execute(statement).fetchall()
    assert ours.execute("SELECT count(*) FROM rows").fetchall() == [(5000,)]
