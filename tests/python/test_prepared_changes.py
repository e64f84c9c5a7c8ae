"""PREPARE of statements that change rows, compared with DuckDB."""

from __future__ import annotations

import threading
from typing import Any

import duckdb
import pytest

import warpmill

#: Statements to prepare, with the values for EXECUTE.
CHANGES = {
    "DELETE FROM t WHERE i = $1": ["(1)", "(7)", "(NULL)"],
    "UPDATE t SET v = v * $2 WHERE i >= $1": ["(2, 10)", "(1, -1)", "(1, 2 + 3)"],
    "UPDATE t SET v = ? WHERE i = ?": ["(5, 1)", "(NULL, 2)"],
    "INSERT INTO t VALUES ($1, $2) RETURNING i + v AS s": ["(10, 1)", "(11, NULL)"],
    "INSERT OR REPLACE INTO k VALUES ($1, $2)": ["(1, 'z')", "(2, 'y')"],
    "INSERT INTO k VALUES ($1, 'q') ON CONFLICT (i) DO UPDATE SET s = $2": ["(1, 'w')", "(5, 'w')"],
    "DELETE FROM t WHERE i IN (SELECT i FROM k) RETURNING v": ["", ""],
    "WITH ins AS (INSERT INTO t VALUES ($1, $2) RETURNING i) SELECT * FROM ins": ["(7, 77)", "(8, NULL)"],
    "WITH gone AS (DELETE FROM t WHERE i = $1 RETURNING v), "
    "new AS (INSERT INTO k SELECT 40 + v, 'n' FROM gone RETURNING i) "
    "SELECT * FROM new UNION ALL SELECT v FROM gone ORDER BY 1": ["(1)", "(1)"],
    "WITH x(i) AS (VALUES ($1)) DELETE FROM t WHERE i IN (FROM x)": ["(2)"],
    "WITH x AS (SELECT $1 AS i, $2 AS v) INSERT INTO t SELECT * FROM x": ["(20, 21)"],
    "INSERT INTO t SELECT i + $1, v FROM t": ["(100)"],
    "TRUNCATE t": [""],
}
SETUP = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, NULL)) r(i, v)",
    "CREATE TABLE k (i INTEGER PRIMARY KEY, s VARCHAR)",
    "INSERT INTO k VALUES (1, 'a'), (3, 'c')",
)


def both() -> tuple[Any, Any]:
    pair = (warpmill.connect(), duckdb.connect())
    for con in pair:
        for statement in SETUP:
            con.execute(statement)
    return pair


@pytest.mark.parametrize("change", CHANGES)
def test_same(change: str) -> None:
    ours, theirs = both()
    returns = "RETURNING" in change
    for con in (ours, theirs):
        con.execute(f"PREPARE p AS {change}")
    for values in CHANGES[change]:
        found, expected = (con.execute(f"EXECUTE p{values}").fetchall() for con in (ours, theirs))
        if returns:
            assert found == expected
        for table in ("t", "k"):
            rows = [sorted(con.execute(f"FROM {table}").fetchall(), key=repr) for con in (ours, theirs)]
            assert rows[0] == rows[1], (values, table)
    for con in (ours, theirs):
        con.execute("DEALLOCATE p")
        with pytest.raises((warpmill.Error, duckdb.Error)):
            con.execute(f"EXECUTE p{CHANGES[change][0]}")
        con.close()


@pytest.mark.parametrize(
    "statement",
    [
        "PREPARE p AS DELETE FROM nothing",
        "PREPARE p AS DELETE FROM t WHERE nothing = 1",
        "PREPARE p AS UPDATE t SET nothing = 1",
        "EXECUTE deleting",
        "EXECUTE deleting(1, 2)",
        "EXECUTE deleting(i)",
    ],
)
def test_refused(statement: str) -> None:
    ours, theirs = both()
    for con in (ours, theirs):
        con.execute("PREPARE deleting AS DELETE FROM t WHERE i = $1")
        with pytest.raises((warpmill.Error, duckdb.Error)) as refused:
            con.execute(statement)
        assert not isinstance(refused.value, warpmill.InternalError)
        con.execute("EXECUTE Deleting(1)")
        assert len(con.execute("FROM t").fetchall()) == 2
        con.close()


def test_one_name_is_one_statement() -> None:
    for con in both():
        con.execute("PREPARE p AS DELETE FROM t WHERE i = $1")
        con.execute("PREPARE p AS SELECT 42 AS x")
        assert con.execute("EXECUTE p").fetchall() == [(42,)]
        con.execute("PREPARE p AS UPDATE t SET v = 0")
        con.execute("EXECUTE p")
        assert con.execute("SELECT DISTINCT v FROM t").fetchall() == [(0,)]
        con.close()


def test_changes_are_part_of_a_transaction() -> None:
    for con in both():
        con.execute("PREPARE p AS WITH ins AS (INSERT INTO t VALUES ($1, 0) RETURNING i) SELECT * FROM ins")
        con.execute("BEGIN")
        assert con.execute("EXECUTE p(9)").fetchall() == [(9,)]
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(4,)]
        con.execute("ROLLBACK")
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
        con.close()


def test_changes_among_ctes_run_alone() -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER)")
        con.execute("PREPARE p AS WITH ins AS (INSERT INTO t VALUES ($1) RETURNING i) SELECT * FROM ins")
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                cursor = con.cursor()
                for at in range(10):
                    cursor.execute(f"EXECUTE p({number * 10 + at})").fetchall()
                    cursor.execute("SELECT count(*) FROM t").fetchall()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert con.execute("SELECT count(DISTINCT i) FROM t").fetchall() == [(30,)]


def test_merge_is_prepared_too() -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20)) r(i, v)")
        con.execute(
            "PREPARE p AS MERGE INTO t USING (SELECT $1 AS i, $2 AS v) n ON t.i = n.i "
            "WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT VALUES (n.i, n.v)"
        )
        assert con.execute("EXECUTE p(1, 100)").fetchall() == [(1,)]
        assert con.execute("EXECUTE p(9, 90)").fetchall() == [(1,)]
        assert con.execute("FROM t ORDER BY i").fetchall() == [(1, 100), (2, 20), (9, 90)]
