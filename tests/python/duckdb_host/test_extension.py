"""The extension itself: loading, settings, statistics, and failures of the engine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def con() -> Iterator[Any]:
    connection = warpmill.duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS a, i % 10 AS g, 's' || i % 3 AS s FROM range(10000) r(i)")
    yield connection
    connection.close()


def last(con: Any) -> tuple[bool, str | None]:
    [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
    return accelerated, reason


def test_the_module_is_duckdb() -> None:
    assert warpmill.duckdb.DuckDBPyConnection is duckdb.DuckDBPyConnection
    assert warpmill.duckdb.BinderException is duckdb.BinderException
    assert type(warpmill.duckdb.connect()) is duckdb.DuckDBPyConnection
    assert set(dir(duckdb)) - {name for name in dir(duckdb) if name.startswith("_")} <= set(dir(warpmill.duckdb))
    assert duckdb.__version__ in warpmill.duckdb.supported_versions()


def test_selects_are_accelerated(con: Any) -> None:
    assert con.execute("SELECT g, sum(a) FROM t GROUP BY g ORDER BY g LIMIT 1").fetchall() == [(0, 4995000)]
    assert last(con) == (True, None)
    [(profile,)] = con.execute("SELECT profile FROM warpmill_last()").fetchall()
    assert '"input_rows":[10000]' in profile
    assert "Warpmill" in str(con.sql("EXPLAIN SELECT sum(a) FROM t").fetchall())


def test_what_stays_has_a_reason(con: Any) -> None:
    con.execute("SELECT * FROM t").fetchall()
    assert last(con) == (False, "rows as they come, in the order of the table")
    con.execute("SELECT median(a) FROM t").fetchall()
    assert last(con) == (False, "the aggregate median(BIGINT)")
    explained = con.execute("FROM warpmill_explain('SELECT median(a) FROM t')").fetchall()
    assert explained == [(False, "the aggregate median(BIGINT)")]
    [(accelerated, text)] = con.execute("FROM warpmill_explain('SELECT sum(a) FROM t')").fetchall()
    assert accelerated
    assert "WarpmillExec" in text


def many_parts(parts: int, first: int) -> str:
    """A query whose planning takes much longer than running it."""
    each = (f"SELECT a + {first + i} AS a FROM t WHERE g <> {i % 10}" for i in range(parts))
    return f"SELECT sum(a) FROM ({' UNION ALL '.join(each)})"


def test_planning_hears_an_interrupt(con: Any) -> None:
    begin = time.monotonic()
    [(accelerated, _)] = con.execute("FROM warpmill_explain($1)", [many_parts(500, 0)]).fetchall()
    whole = time.monotonic() - begin
    assert accelerated
    timer = threading.Timer(whole / 2, con.interrupt)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(duckdb.InterruptException):
        con.execute(many_parts(500, 1)).fetchall()
    assert time.monotonic() - begin < 0.8 * whole
    timer.join()
    # It was no verdict.
    small = "SELECT sum(a) FROM t WHERE g = 3"
    assert con.execute(small).fetchall() == con.execute(small).fetchall()
    assert last(con) == (True, None)
    con.execute(many_parts(500, 1)).fetchall()
    assert last(con) == (True, None)


def test_strict_mode(con: Any) -> None:
    con.execute("SET warpmill_fallback = 'error'")
    assert con.execute("SELECT sum(a) FROM t").fetchall() == [(49995000,)]
    with pytest.raises(duckdb.InvalidInputException, match=r"does not run this query: the aggregate median"):
        con.execute("SELECT median(a) FROM t")
    # Everything that reads no data, and every other statement, is DuckDB's as ever.
    con.execute("SELECT 1").fetchall()
    con.execute("CREATE TABLE u AS SELECT median(a) FROM t")
    con.execute("FROM duckdb_tables()").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="'allow' or 'error', not 'perhaps'"):
        con.execute("SET warpmill_fallback = 'perhaps'")


def test_off(con: Any) -> None:
    con.execute("SET warpmill_enabled = false")
    con.execute("SELECT sum(a) FROM t").fetchall()
    counts = dict(con.execute("FROM warpmill_stats()").fetchall())
    assert counts["queries_accelerated"] == counts["queries_left_to_duckdb"] == 0


def test_a_failure_while_it_runs_is_duckdbs_answer(con: Any) -> None:
    # An infinite date is only found in the rows; there is an answer all the same, from the same snapshot.
    con.execute("CREATE TABLE d AS SELECT DATE '2020-01-01' + i::INTEGER AS x, i FROM range(10) r(i)")
    con.execute("BEGIN")
    con.execute("INSERT INTO d VALUES ('infinity', 10)")
    sql = "SELECT max(year(x)), sum(i), count(*) FROM d"
    assert con.execute(sql).fetchall() == [(2020, 55, 11)]
    accelerated, reason = last(con)
    assert not accelerated
    assert reason == "failed while it ran: a date or timestamp is infinite"
    # Correlated and prepared plans can be run again as well.
    con.execute("PREPARE p AS SELECT count(*) FROM d a WHERE a.i >= (SELECT avg(b.i) FROM d b WHERE b.x <= a.x)")
    assert [con.execute("EXECUTE p").fetchall() for _ in range(3)] == [[(11,)]] * 3
    con.execute("ROLLBACK")
    assert con.execute(sql).fetchall() == [(2020, 45, 10)]
    assert last(con) == (True, None)


def test_errors_are_duckdbs(con: Any) -> None:
    sql = "SELECT max(a * 9223372036854775807) FROM t"
    with pytest.raises(duckdb.OutOfRangeException) as ours:
        con.execute(sql).fetchall()
    con.execute("SET warpmill_enabled = false")
    with pytest.raises(duckdb.OutOfRangeException) as theirs:
        con.execute(sql).fetchall()
    assert str(ours.value) == str(theirs.value)
    # The database is as well as before.
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(10000,)]


def test_the_cache(con: Any) -> None:
    def counts() -> tuple[int, int]:
        found = dict(con.execute("FROM warpmill_stats()").fetchall())
        return found["inputs_scanned"], found["inputs_from_cache"]

    con.execute("SELECT sum(a) FROM t").fetchall()
    con.execute("SELECT sum(a) FROM t").fetchall()
    assert counts() == (1, 1)
    con.execute("SELECT sum(g) FROM t").fetchall()
    con.execute("SELECT sum(a) FROM t WHERE g = 1").fetchall()
    con.execute("SELECT sum(a * g) FROM t").fetchall()
    # Each column is read once.
    assert counts() == (2, 3)
    con.execute("UPDATE t SET a = a + 1 WHERE g = 1")
    assert con.execute("SELECT sum(a) FROM t").fetchall() == [(49996000,)]
    assert counts() == (3, 3)
    con.execute("CALL warpmill_clear_cache()")
    con.execute("SELECT sum(a) FROM t").fetchall()
    assert counts() == (4, 3)
    assert '"rows":10000' in str(con.execute("FROM warpmill_cache()").fetchall())
    # Uncommitted rows are invisible to other connections.
    con.execute("BEGIN")
    con.execute("SELECT sum(a) FROM t").fetchall()
    con.execute("DELETE FROM t")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    con.execute("ROLLBACK")
    assert con.execute("SELECT sum(a) FROM t").fetchall() == [(49996000,)]


def test_accelerate() -> None:
    allowed = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    assert warpmill.duckdb.accelerate(warpmill.duckdb.accelerate(allowed)) is allowed
    allowed.execute("CREATE TABLE t AS SELECT 1 AS a").execute("SELECT sum(a) FROM t").fetchall()
    assert last(allowed) == (True, None)
    with pytest.raises(duckdb.PermissionException, match="allow_unsigned_extensions"):
        warpmill.duckdb.accelerate(duckdb.connect())


def test_a_file_is_free_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    con = warpmill.duckdb.connect(path)
    con.execute("CREATE TABLE t AS SELECT * FROM range(10) r(a)")
    con.execute("SELECT sum(a) FROM t").fetchall()
    con.close()
    code = f"import duckdb; print(duckdb.connect({str(path)!r}).execute('SELECT sum(a) FROM t').fetchone()[0])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == "45"


def test_what_stays_is_the_same_with_the_extension_switched_off(con: Any) -> None:
    # How much longer it takes is measured by bench/duckdb_overhead.py.
    sql = "SELECT g, median(a), sum(a) FILTER (WHERE s = 's1') FROM t WHERE a < 100 GROUP BY g ORDER BY g"
    asked = con.execute(sql).fetchall()
    assert last(con) == (False, "the aggregate median(BIGINT)")
    con.execute("SET warpmill_enabled = false")
    assert con.execute(sql).fetchall() == asked
    assert len(asked) == 10
