"""BEGIN, COMMIT and ROLLBACK: sessions see their own changes, others all of them or none."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event
    from pathlib import Path


@pytest.fixture(params=["memory", "database"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    place = () if request.param == "memory" else (str(tmp_path / "db"),)
    with warpmill.connect(*place) as con:
        con.execute("CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(10) r(i)")
        yield con


def rows(con: warpmill.Connection, sql: str) -> list[tuple[Any, ...]]:
    return con.sql(sql).fetchall()


def count(con: warpmill.Connection, table: str = "t") -> int:
    found: int = con.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
    return found


#: Statements that run on both sides, with the state of all tables compared after each. `?`: it fails on both.
STEPS = """
BEGIN
INSERT INTO t VALUES (100, 1), (101, 2)
UPDATE t SET k = 7 WHERE i < 3
DELETE FROM t WHERE i = 5
CREATE TABLE u AS SELECT k, count(*) AS n FROM t GROUP BY k
INSERT INTO u VALUES (50, 50)
ROLLBACK
? ROLLBACK
? COMMIT
BEGIN TRANSACTION
CREATE TABLE u (x INTEGER NOT NULL, y VARCHAR)
INSERT INTO u VALUES (1, 'a'), (2, NULL)
INSERT INTO t SELECT x, x FROM u
TRUNCATE t
INSERT INTO t VALUES (1, 1)
COMMIT
START TRANSACTION
DROP TABLE u
DROP TABLE IF EXISTS u
CREATE TABLE u AS SELECT 'new' AS z
INSERT INTO u VALUES ('newer')
END
BEGIN
DROP TABLE u
CREATE TABLE v AS SELECT 1 AS a
DROP TABLE v
CREATE OR REPLACE TABLE t AS SELECT 42 AS single
ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 3
INSERT INTO t VALUES (43, 4)
ABORT
BEGIN
CREATE OR REPLACE TABLE t AS SELECT 42 AS single
ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 3
CREATE TABLE v AS SELECT 1 AS a
INSERT INTO v SELECT single FROM t
COMMIT
BEGIN
COMMIT
BEGIN
MERGE INTO v USING (SELECT 42 AS a) AS n ON v.a = n.a WHEN MATCHED THEN DELETE
INSERT INTO v VALUES (5) RETURNING a + 1
UPDATE v SET a = a + 1
COMMIT
""".strip().splitlines()


def test_statements_are_those_of_duckdb(con: warpmill.Connection) -> None:
    peer = duckdb.connect()
    peer.execute("CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(10) r(i)")
    for step in STEPS:
        sql = step.removeprefix("? ")
        if step.startswith("?"):
            with pytest.raises(duckdb.Error):
                peer.execute(sql)
            with pytest.raises(warpmill.Error):
                con.execute(sql)
        else:
            expected, found = peer.execute(sql).fetchall(), con.execute(sql).fetchall()
            # Numbers of rows, and rows of RETURNING.
            assert found == expected or not sql.startswith(("INSERT", "UPDATE", "DELETE", "MERGE")), sql
        tables = sorted(name for (name,) in peer.execute("SHOW TABLES").fetchall())
        assert sorted(name for (name,) in rows(con, "SHOW TABLES")) == tables, sql
        for table in tables:
            query = f"SELECT * FROM {table} ORDER BY ALL"
            assert rows(con, query) == peer.execute(query).fetchall(), (sql, table)


def test_others_see_the_commit_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE a AS SELECT 1 AS x")
        con.execute("CREATE TABLE gone AS SELECT 1 AS x")
        con.begin()
        con.execute("INSERT INTO a VALUES (2)")
        con.execute("CREATE TABLE b AS SELECT * FROM a")
        con.execute("DROP TABLE gone")
        assert (count(con, "a"), count(con, "b")) == (2, 2)
        assert count(other, "a") == 1
        assert [name for (name,) in rows(other, "SHOW TABLES")] == ["a", "gone"]
        # A table that one transaction has written cannot be written by another, until the first ends.
        with pytest.raises(warpmill.ConflictError):
            other.execute("INSERT INTO a VALUES (3)")
        with pytest.raises(warpmill.ConflictError):
            other.execute("DROP TABLE gone")
        assert con.in_transaction
        assert not other.in_transaction
        con.commit()
        assert not con.in_transaction
        assert (count(other, "a"), count(other, "b")) == (2, 2)
        assert [name for (name,) in rows(other, "SHOW TABLES")] == ["a", "b"]
        other.execute("INSERT INTO a VALUES (3)")
        assert count(con, "a") == 3
        assert [entry.name for entry in (tmp_path / "db").iterdir() if entry.name.startswith(".")] == []


def test_what_is_read_stays_and_conflicts_are_told(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE a AS SELECT 1 AS x")
        con.execute("CREATE TABLE b AS SELECT 1 AS x")
        con.begin()
        assert count(con, "a") == 1
        other.execute("INSERT INTO a VALUES (2)")
        other.execute("INSERT INTO b VALUES (2)")
        # `a` was read before, `b` was not.
        assert (count(con, "a"), count(con, "b")) == (1, 2)
        con.execute("INSERT INTO b VALUES (3)")
        con.commit()
        assert (count(other, "a"), count(other, "b")) == (2, 3)
        for change in ["INSERT INTO a VALUES (3)", "DROP TABLE a", "CREATE OR REPLACE TABLE a AS SELECT 1"]:
            con.begin()
            before = count(con, "a")
            other.execute("INSERT INTO a VALUES (4)")
            with pytest.raises(warpmill.ConflictError, match="since the transaction began"):
                con.execute(change)
            con.rollback()
            assert count(con, "a") == before + 1


def test_what_is_no_part_of_it(con: warpmill.Connection) -> None:
    con.execute("CREATE VIEW w AS SELECT 1 AS x")
    con.execute("CREATE MACRO m(x) AS x + 1")
    con.execute("CREATE SEQUENCE s")
    for sql in [
        "BEGIN READ ONLY",
        "ROLLBACK TO SAVEPOINT a",
    ]:
        con.begin()
        with pytest.raises(warpmill.NotSupportedError):
            con.execute(sql)
        con.rollback()
    con.begin()
    assert rows(con, "SELECT m(x), nextval('s') FROM w") == [(2, 1)]
    con.execute("INSERT INTO t VALUES (10, 10)")
    con.rollback()
    assert count(con) == 10


@pytest.mark.parametrize(
    "failing",
    [
        "SELEC 1",
        "SELECT missing FROM t",
        "SELECT * FROM missing",
        "INSERT INTO t SELECT i, (CASE WHEN i < 5 THEN '1' ELSE 'x' END)::INTEGER FROM range(10) r(i)",
        "CREATE TABLE t (i INTEGER)",
        "DROP TABLE missing",
        "BEGIN",
        "DROP SCHEMA missing",
        "WITH new AS (INSERT INTO t VALUES (1, 1) RETURNING i) SELECT i // (SELECT error('no')) FROM new",
    ],
)
def test_an_error_aborts_it(con: warpmill.Connection, failing: str) -> None:
    for ends_with_commit in [False, True]:
        con.begin()
        con.execute("INSERT INTO t VALUES (10, 10)")
        with pytest.raises(warpmill.Error):
            con.execute(failing)
        for sql in ["SELECT 1", "SELECT count(*) FROM t", "INSERT INTO t VALUES (1, 1)"]:
            with pytest.raises(warpmill.ExecutionError, match="aborted"):
                con.execute(sql)
        with pytest.raises(warpmill.ExecutionError, match="aborted"):
            con.create_table("x", con.cursor().table("t"))
        assert con.in_transaction
        # DuckDB says nothing to a COMMIT that keeps nothing.
        if ends_with_commit:
            with pytest.raises(warpmill.ExecutionError, match="nothing was committed"):
                con.commit()
        else:
            con.rollback()
        assert count(con) == 10


def test_temporary_tables_take_part(con: warpmill.Connection) -> None:
    con.begin()
    con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
    con.execute("CREATE TEMP TABLE IF NOT EXISTS mine AS SELECT 2 AS x")
    con.execute("INSERT INTO mine VALUES (3)")
    assert rows(con, "FROM mine ORDER BY x") == [(1,), (3,)]
    con.rollback()
    with pytest.raises(warpmill.CatalogError):
        con.execute("FROM mine")
    con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
    con.begin()
    con.execute("INSERT INTO mine VALUES (3)")
    con.execute("DROP TABLE t")
    con.commit()
    assert rows(con, "FROM mine ORDER BY x") == [(1,), (3,)]
    with pytest.raises(warpmill.CatalogError):
        con.execute("FROM t")


def test_a_table_that_comes_and_goes_leaves_a_frame_of_its_name(con: warpmill.Connection) -> None:
    con.register("frame", con.sql("SELECT 1 AS x").arrow())
    con.begin()
    con.execute("CREATE OR REPLACE TABLE frame AS SELECT 2 AS x")
    assert rows(con, "FROM frame") == [(2,)]
    con.execute("DROP TABLE frame")
    con.commit()
    assert rows(con, "FROM frame") == [(1,)]


def test_plans_that_were_kept_are_of_the_right_rows(con: warpmill.Connection) -> None:
    query = "SELECT sum(i) FROM t WHERE k = 1"
    before = rows(con, query)
    assert rows(con, query) == before == [(12,)]
    con.begin()
    assert rows(con, query) == [(12,)]
    for at, expected in [(100, 112), (200, 312)]:
        con.execute(f"INSERT INTO t VALUES ({at}, 1)")
        assert rows(con, query) == [(expected,)]
        assert rows(con, query) == [(expected,)]
        assert rows(con, "SELECT sum(i) FROM t WHERE k = 2") == [(15,)]
    con.rollback()
    assert rows(con, query) == [(12,)]
    con.execute("INSERT INTO t VALUES (1000, 1)")
    assert rows(con, query) == [(1012,)]


def test_python_calls(con: warpmill.Connection) -> None:
    assert con.commit() is con
    with pytest.raises(warpmill.ExecutionError, match="no transaction is active"):
        con.rollback()
    con.begin().executemany("INSERT INTO t VALUES (?, ?)", [(10, 1), (11, 2)])
    con.create_table("frame", con.sql("SELECT 1 AS x").arrow())
    assert con.cursor().in_transaction
    con.rollback()
    assert count(con) == 10
    with pytest.raises(warpmill.CatalogError):
        con.table("frame").fetchall()
    con.execute("BEGIN; DELETE FROM t; COMMIT")
    assert count(con) == 0


def test_a_session_that_ends_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "db"
    with warpmill.connect(str(place)) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        con.begin()
        con.execute("INSERT INTO t VALUES (2)")
        con.execute("CREATE TABLE u AS SELECT 1 AS x")
    with warpmill.connect(str(place)) as con:
        assert [name for (name,) in rows(con, "SHOW TABLES")] == ["t"]
        con.execute("INSERT INTO t VALUES (2)")
    assert [entry.name for entry in place.iterdir()] == ["t"]


def move(place: str, begun: Event) -> None:
    """Move amounts from one table to another for ever, in transactions."""
    with warpmill.connect(place) as con:
        begun.set()
        while True:
            con.begin()
            con.execute("UPDATE a SET x = x - 1")
            con.execute("CREATE TABLE IF NOT EXISTS log (n INTEGER)")
            con.execute("INSERT INTO log VALUES (1)")
            con.execute("UPDATE b SET x = x + 1")
            con.commit()


def test_processes_that_are_killed_have_moved_all_or_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE a AS SELECT 0 AS x")
        con.execute("CREATE TABLE b AS SELECT 0 AS x")
    context = multiprocessing.get_context("spawn")
    moved = 0
    for turn in range(12):
        begun = context.Event()
        process = context.Process(target=move, args=(place, begun))
        process.start()
        assert begun.wait(60)
        time.sleep(0.15 + 0.13 * turn)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with warpmill.connect(place) as con:
            ((a, b),) = rows(con, "SELECT (SELECT x FROM a), (SELECT x FROM b)")
            assert a == -b
            logged = count(con, "log") if con.sql("SHOW TABLES").fetchall()[-1:] == [("log",)] else 0
            assert logged == b
            moved = b
        # Machines that are busy take longer.
        if turn >= 3 and moved > 0:
            break
    assert moved > 0


def test_threads_take_turns(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE a AS SELECT 0 AS x")
        con.execute("CREATE TABLE b AS SELECT 0 AS x")
    done = []

    def work() -> None:
        with warpmill.connect(place) as con:
            for _ in range(8):
                with contextlib.suppress(warpmill.ConflictError):
                    con.begin()
                    con.execute("UPDATE a SET x = x + 1")
                    con.execute("UPDATE b SET x = x + 1")
                    con.commit()
                    done.append(1)
                if con.in_transaction:
                    con.rollback()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with warpmill.connect(place) as con:
        assert rows(con, "SELECT a.x, b.x FROM a, b") == [(len(done), len(done))]
    assert done


#: Statements with changes among their CTEs, one after the other, on both sides.
CHANGES = """
WITH new AS (INSERT INTO t VALUES (100, 1), (101, 2) RETURNING i, k) SELECT * FROM new ORDER BY ALL
WITH gone AS (DELETE FROM t WHERE i < 3 RETURNING i) SELECT count(*), sum(i) FROM gone
WITH up AS (UPDATE t SET k = k + 10 WHERE i > 90 RETURNING i AS a, k) SELECT a, k FROM up ORDER BY ALL
WITH new(x) AS (INSERT INTO t VALUES (200, 9) RETURNING i) SELECT x, (SELECT count(*) FROM t) AS n FROM new
WITH new AS (INSERT INTO t VALUES (300, 300)) SELECT count(*) FROM t
WITH few AS (SELECT i FROM t WHERE i > 100), gone AS (DELETE FROM t WHERE i IN (FROM few) RETURNING *) FROM gone
WITH a AS (INSERT INTO t VALUES (1, 1) RETURNING i), b AS (INSERT INTO t SELECT i + 1, 5 FROM a RETURNING i) FROM a, b
WITH a AS (INSERT INTO t VALUES (7, 7) RETURNING k) UPDATE t SET k = a.k FROM a WHERE t.i <= 2 RETURNING i, t.k
WITH a AS (INSERT INTO t VALUES (8, 8) RETURNING i) DELETE FROM t WHERE i IN (SELECT i FROM a) RETURNING i
WITH a AS (INSERT INTO t VALUES (9, 9) RETURNING i) INSERT INTO t SELECT i + 1000, 0 FROM a
WITH a AS (DELETE FROM t WHERE i = -1 RETURNING i) SELECT count(*) FROM a
""".strip().splitlines()


def test_changes_among_ctes(con: warpmill.Connection) -> None:
    peer = duckdb.connect()
    peer.execute("CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(10) r(i)")
    for sql in CHANGES:
        assert sorted(rows(con, sql)) == sorted(peer.execute(sql).fetchall()), sql
        query = "SELECT * FROM t ORDER BY ALL"
        assert rows(con, query) == peer.execute(query).fetchall(), sql
    # Nothing is left of their rows.
    assert rows(con, "SHOW TABLES") == [("t",)]
    before = count(con)
    with pytest.raises(warpmill.Error):
        con.execute("WITH a AS (DELETE FROM t RETURNING i) SELECT error('no') FROM a")
    assert not con.in_transaction
    assert count(con) == before
    # Within a transaction, they are part of it.
    con.begin()
    con.execute("WITH a AS (DELETE FROM t RETURNING i) SELECT count(*) FROM a")
    assert count(con) == 0
    con.rollback()
    assert count(con) == before
    with pytest.raises(warpmill.NotSupportedError):
        con.execute("WITH RECURSIVE a AS (INSERT INTO t VALUES (1, 2) RETURNING i) SELECT * FROM a")
    assert con.sql("WITH a AS (INSERT INTO t VALUES (?, ?) RETURNING i) SELECT i + ? FROM a", [1, 2, 3]).fetchall() == [
        (4,)
    ]


#: On both sides: CTEs of a change, names that hide others, sequences.
NESTED = """
WITH a AS (WITH src AS (SELECT 99 AS x) INSERT INTO t SELECT x, 0 FROM src RETURNING i) FROM a
WITH ids AS (SELECT nextval('s') AS id), b AS (INSERT INTO t SELECT id, 1 FROM ids RETURNING i) SELECT id, i FROM ids, b
WITH few AS (SELECT count(*) AS n FROM t), b AS (INSERT INTO t VALUES (5, 5) RETURNING i) SELECT n FROM few, b
WITH src AS (SELECT 1 AS x), b AS (INSERT INTO t WITH src AS (SELECT 98 AS x) SELECT x, 0 FROM src RETURNING i) FROM b
""".strip().splitlines()


def test_each_cte_is_computed_once(con: warpmill.Connection) -> None:
    peer = duckdb.connect()
    peer.execute("CREATE TABLE t AS SELECT i, i % 3 AS k FROM range(10) r(i)")
    for side in (con, peer):
        side.execute("CREATE SEQUENCE s")
        side.execute("CREATE TABLE src AS SELECT 1 AS x")
    for sql in NESTED:
        assert rows(con, sql) == peer.execute(sql).fetchall(), sql
        query = "SELECT * FROM t ORDER BY ALL"
        assert rows(con, query) == peer.execute(query).fetchall(), sql


def test_prepared_statements_are_part_of_it(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE t (i INTEGER)")
        con.execute("PREPARE ins AS INSERT INTO t VALUES ($1)")
        con.execute("PREPARE sel AS SELECT count(*) FROM t")
        con.execute("EXECUTE ins(0)")
        assert rows(con, "EXECUTE sel") == [(1,)]
        con.begin()
        con.execute("EXECUTE ins(1)")
        con.execute("INSERT INTO t VALUES (2)")
        con.execute("EXECUTE ins(3)")
        assert rows(con, "EXECUTE sel") == [(4,)]
        assert count(other) == 1
        con.rollback()
        assert rows(con, "EXECUTE sel") == [(1,)] == rows(other, "SELECT count(*) FROM t")
        con.begin().execute("PREPARE late AS SELECT sum(i) FROM t")
        con.execute("INSERT INTO t VALUES (50)")
        assert rows(con, "EXECUTE late") == [(50,)]
        con.rollback()
        assert rows(con, "EXECUTE late") == [(0,)]
        con.execute("EXECUTE ins(7)")
        assert rows(con, "EXECUTE late") == [(7,)]


def test_names_that_are_taken(tmp_path: Path) -> None:
    place = tmp_path / "db"
    with warpmill.connect(str(place)) as con, warpmill.connect(str(place)) as other:
        con.execute("CREATE TABLE y (a INTEGER)")
        con.begin()
        con.execute("INSERT INTO y VALUES (1)")
        con.execute("CREATE TABLE x AS SELECT 1 AS a")
        other.execute("CREATE TABLE x AS SELECT 2 AS a")
        with pytest.raises(warpmill.ConflictError):
            con.commit()
        assert not con.in_transaction
        assert (count(con, "y"), rows(con, "FROM x")) == (0, [(2,)])
        # Of two transactions that create the same table, the later one fails.
        for side in (con, other):
            side.begin().execute("CREATE TABLE IF NOT EXISTS log (n INTEGER)")
            side.execute("INSERT INTO log VALUES (1)")
        other.execute("INSERT INTO y VALUES (5)")
        con.commit()
        with pytest.raises(warpmill.ConflictError):
            other.commit()
        assert (count(con, "log"), count(other, "log"), count(con, "y")) == (1, 1, 0)
        (place / "files").mkdir()
        (place / "files" / "some.csv").write_text("a")
        con.begin().execute("INSERT INTO y VALUES (1)")
        with pytest.raises(warpmill.CatalogError, match="exists already"):
            con.execute("CREATE TABLE files AS SELECT 1 AS a")
        con.rollback()
        assert count(con, "y") == 0


def test_a_database_may_be_called_like_a_schema(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "odd.schema")) as con:
        con.execute("CREATE SCHEMA s")
        con.begin()
        con.execute("CREATE TABLE a AS SELECT 1 AS x")
        con.execute("CREATE TABLE s.b AS SELECT 1 AS x")
        con.commit()
        assert rows(con, "SELECT * FROM a, s.b") == [(1, 1)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["odd.schema"]


SLOW = "SELECT count(*) FROM range(100000) a(i), range(100000) b(j) WHERE (a.i * b.j) % 7 = 3"


def interrupted(con: warpmill.Connection, sql: str) -> None:
    timer = threading.Timer(0.5, con.interrupt)
    timer.start()
    with pytest.raises(warpmill.InterruptError):
        con.execute(sql)
    timer.join()


def test_an_interrupt_leaves_no_half_of_a_statement(con: warpmill.Connection) -> None:
    slow = f"WITH a AS (INSERT INTO t VALUES (1000, 1) RETURNING i) SELECT i, ({SLOW}) FROM a"
    interrupted(con, slow)
    assert not con.in_transaction
    assert count(con) == 10
    con.begin().execute("INSERT INTO t VALUES (2000, 1)")
    interrupted(con, slow)
    with pytest.raises(warpmill.ExecutionError, match="nothing was committed"):
        con.commit()
    assert count(con) == 10


def test_statements_of_other_threads_are_in_no_transaction_of_a_statement(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE u (i INTEGER)")
    done = []

    def insert() -> None:
        other = con.cursor()
        for i in range(20):
            other.execute(f"INSERT INTO u VALUES ({i})")
            done.append(i)

    thread = threading.Thread(target=insert)
    thread.start()
    for _ in range(5):
        with pytest.raises(warpmill.Error):
            con.execute("WITH a AS (INSERT INTO t VALUES (1, 1) RETURNING i) SELECT error('no') FROM a")
        con.execute(
            "WITH a AS (INSERT INTO t VALUES (1, 1) RETURNING i), b AS (DELETE FROM t WHERE i = 1) SELECT * FROM a"
        )
    thread.join()
    assert count(con, "u") == len(done) == 20
