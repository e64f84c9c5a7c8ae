"""Statements of DuckDB's test files, natively: row numbers, limits, literals in ORDER BY, recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from simulated import needs_sim

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
    "SELECT v FROM t EXCEPT TABLE empty ORDER BY 1",
    "SELECT * FROM ((VALUES (1), (2), (42)) EXCEPT TABLE empty) q(x) ORDER BY 1",
    "WITH a AS (TABLE named), b AS (SELECT x + 1 AS y, x FROM a) TABLE b UNION ALL TABLE a ORDER BY ALL",
    "SELECT count(*) AS n FROM (TABLE t) x",
    "WITH c AS (SELECT 42::INTEGER AS a, 'x' AS b) FROM (DESCRIBE TABLE c)",
    "WITH c AS (SELECT 42 AS a), d AS (SELECT a, a + 1 AS e FROM c) SELECT column_name FROM (DESCRIBE d)",
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT column_name FROM (DESCRIBE r)",
    "WITH c AS (SELECT * FROM range(3) r(i)) SELECT column_name, min, max FROM (SUMMARIZE TABLE c)",
    "SELECT column_name FROM (DESCRIBE TABLE t)",
    "WITH c AS (SELECT k AS j FROM t) SELECT DISTINCT j FROM c WHERE j = "
    "(WITH c AS (SELECT max(j) AS j FROM c) SELECT j FROM c)",
    "WITH c AS (SELECT 1 AS j) SELECT (WITH c AS (SELECT j + 1 AS j FROM c) SELECT max(c.j) FROM c) AS x, c.j FROM c",
    "WITH c AS (SELECT 1 AS j) SELECT * FROM c, "
    "(WITH c AS (SELECT c.j + 1 AS i FROM c) SELECT c.i, d.i AS e FROM c, c d) q",
    "SELECT count(*) AS n FROM range(100) USING SAMPLE 100% (bernoulli)",
    "SELECT count(*) AS n FROM t USING SAMPLE 5 ROWS (reservoir)",
    # The end of these queries differs from the end of their longest relation.
    "SELECT count(*) AS n FROM range(9223372036854775807) r(i), empty",
    "SELECT count(*) AS n FROM range(9223372036854775807) r(i) JOIN empty e ON e.i = r.i",
    "SELECT count(*) AS n FROM range(9223372036854775807) r(i) WHERE i IN (SELECT i FROM empty)",
    "WITH c AS MATERIALIZED (SELECT r.i FROM range(9223372036854775807) r(i), empty e) "
    "SELECT (SELECT count(*) FROM c JOIN c d USING (i)) AS n",
    "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r WHERE i % 50 = 0 LIMIT 4",
)

#: Statements with effects, and a query that shows these.
DONE = (
    ('CREATE TABLE made(a, "B c") AS SELECT k, v FROM t WHERE v < 3', 'SELECT a, "B c" FROM made ORDER BY ALL'),
    ("CREATE TABLE fewer(a) AS SELECT 1, 2 AS b", "SELECT * FROM fewer"),
    ("CREATE RECURSIVE VIEW numbers(n) AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 4", "FROM numbers"),
    (
        "CREATE OR REPLACE RECURSIVE VIEW numbers(m) AS SELECT 5 UNION ALL SELECT m + 1 FROM numbers WHERE m < 7",
        "FROM numbers",
    ),
    ("WITH x AS (SELECT 7 AS i) INSERT INTO empty SELECT i FROM x", "FROM empty"),
    (
        "WITH RECURSIVE x(i) AS (SELECT 8 UNION ALL SELECT i + 1 FROM x WHERE i < 9) INSERT INTO empty (FROM x)",
        "FROM empty",
    ),
    ("EXPLAIN ANALYZE CREATE TABLE analyzed AS SELECT k, count(*) AS n FROM t GROUP BY k", "FROM analyzed ORDER BY k"),
    (
        "EXPLAIN CREATE TABLE explained AS SELECT 1 AS x",
        "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'explained'",
    ),
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
    "CREATE TABLE more(a, b, c) AS SELECT 1, 2",
    "CREATE TABLE twice(a, a) AS SELECT 1, 2",
    "CREATE RECURSIVE VIEW numbers AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers",
    "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1 AS x",
    "WITH c AS (SELECT 1 AS x), c AS (SELECT 2 AS x) FROM c",
    "(DESCRIBE TABLE nothing)",
    "WITH c AS (SELECT 1 AS x) (DESCRIBE TABLE c)",
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


@pytest.mark.parametrize("folder", [False, True], ids=["memory", "folder"])
def test_done_as_duckdb(folder: bool, tmp_path: Path) -> None:
    with duckdb.connect() as theirs, warpmill.connect(tmp_path / "db" if folder else None) as ours:
        for statement in TABLES:
            theirs.execute(statement)
            ours.execute(statement)
        for statement, query in DONE:
            rows = []
            for con in (ours, theirs):
                con.execute(statement).fetchall()
                rows.append(con.execute(query).fetchall())
            assert rows[0] == rows[1], statement


def test_an_analyzed_table_has_a_profile() -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i, i % 10 AS k FROM range(1000) r(i)")
        rows = dict(
            con.execute("EXPLAIN ANALYZE CREATE TABLE made AS SELECT k, sum(i) AS s FROM t GROUP BY k").fetchall()
        )
        assert "aggregate" in str(rows).lower()
        assert any("rows" in text for text in rows.values())
        assert con.execute("SELECT count(*) FROM made").fetchall() == [(10,)]


@needs_sim
def test_a_device_reads_no_input_that_gets_nowhere() -> None:
    with warpmill.connect(device="sim") as con:
        con.execute("CREATE TABLE empty (i INTEGER); CREATE TABLE t AS SELECT 1 AS i; SET device_fallback = 'error'")
        for query in (
            "SELECT count(*) FROM range(9223372036854775807) r(i), empty",
            "SELECT count(*) FROM range(9223372036854775807) r(i) JOIN empty e ON e.i = r.i JOIN t ON t.i = r.i",
        ):
            assert con.execute(query).fetchall() == [(0,)]
