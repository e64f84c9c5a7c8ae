"""Statements of DuckDB's test files, natively: row numbers, limits, literals in ORDER BY, recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

TABLES = (
    "CREATE TABLE t AS SELECT (i * 7) % 10 AS k, i AS v FROM range(20) r(i)",
    "CREATE TABLE named AS SELECT 5 AS rowid, 1 AS x",
    "CREATE TABLE empty (i INTEGER)",
)

QUERIES = (
    "SELECT rowid, v FROM t WHERE rowid < 3 ORDER BY rowid",
    "SELECT t.rowid, a.ROWID FROM t JOIN t a ON t.v = a.v ORDER BY 1 LIMIT 3",
    "SELECT * FROM t WHERE rowid = 4",
    "SELECT a.* FROM t a WHERE a.rowid IN (SELECT min(rowid) FROM t GROUP BY k) ORDER BY v",
    "SELECT max(rowid) - min(rowid) AS n FROM t",
    "SELECT rowid FROM named",
    "SELECT count(rowid) FROM empty",
    "SELECT k, count(*) FROM t GROUP BY k HAVING min(rowid) > 5 ORDER BY k",
    "SELECT * FROM (SELECT unnest([1, 2, 3, 4, 5]) AS x LIMIT 3) ORDER BY x DESC",
    "SELECT row_number() OVER (ORDER BY x DESC) AS n, x FROM (SELECT unnest([1, 2, 3, 4, 5]) AS x LIMIT 3) ORDER BY n",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 10)"
    " SELECT * FROM (SELECT * FROM r LIMIT 3) ORDER BY x DESC",
    "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r LIMIT 5",
    "SELECT * FROM RANGE(3)",
    "SELECT count(*) AS n FROM Generate_Series(1, 4)",
    "SELECT coalesce(error(NULL), 1) AS x",
)

REFUSED = (
    "SELECT rowid FROM t, t a",
    "SELECT rowid FROM (SELECT * FROM t)",
    "SELECT v FROM t ORDER BY 'v'",
    "SELECT v FROM t ORDER BY NULL",
    "SELECT v FROM t UNION SELECT k FROM t ORDER BY true",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3 ORDER BY x) SELECT * FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3 LIMIT 2) SELECT * FROM r",
    "SELECT * FROM t JOIN t a USING (t.v)",
    "SELECT error('no ' || 'good')",
)


@pytest.mark.parametrize("folder", [False, True], ids=["memory", "folder"])
def test_as_duckdb(folder: bool, tmp_path: Path) -> None:
    with duckdb.connect() as theirs, warpmill.connect(tmp_path / "db" if folder else None) as ours:
        for statement in TABLES:
            theirs.execute(statement)
            ours.execute(statement)
        for query in QUERIES:
            found, expected = ours.execute(query), theirs.execute(query)
            assert found.columns == [column[0] for column in expected.description], query
            assert found.fetchall() == expected.fetchall(), query
        for query in REFUSED:
            with pytest.raises(duckdb.Error):
                theirs.execute(query).fetchall()
            with pytest.raises(warpmill.Error):
                ours.execute(query)


@pytest.mark.parametrize("folder", [False, True], ids=["memory", "folder"])
def test_duplicates_are_deleted_by_row_number(folder: bool, tmp_path: Path) -> None:
    with duckdb.connect() as theirs, warpmill.connect(tmp_path / "db" if folder else None) as ours:
        rows = []
        for con in (theirs, ours):
            con.execute("CREATE TABLE t AS SELECT i % 7 AS k, i AS v FROM range(100) r(i)")
            con.execute("DELETE FROM t WHERE rowid NOT IN (SELECT min(rowid) FROM t GROUP BY k)")
            con.execute("UPDATE t SET v = -1 WHERE rowid = 0")
            rows.append(con.execute("SELECT * FROM t ORDER BY k").fetchall())
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT sum(t.v) FROM t a LIMIT 1) FROM t",
        "SELECT EXISTS (SELECT rank() OVER (PARTITION BY sum(DISTINCT t.v))) FROM t",
    ],
)
def test_aggregates_of_outer_columns_are_refused(query: str) -> None:
    with warpmill.connect() as con:
        con.execute(TABLES[0])
        with pytest.raises(warpmill.NotSupportedError, match="query around it"):
            con.execute(query)
