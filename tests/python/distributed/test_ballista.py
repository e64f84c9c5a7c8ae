"""TPC-H and SSB on Ballista's executors, beside DuckDB; executors that fail."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from distributed.ballista import Ballista, Program, is_job, rows
from distributed.support import Rows, in_order, stored, within
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def tpch_jobs(tpch: tuple[Path, dict[str, Rows]]) -> Iterator[Ballista]:
    with Ballista(tpch[0], 2) as ballista:
        yield ballista


def wrong_or_here(ballista: Ballista, suite: str, answers: dict[str, Rows]) -> tuple[list[str], list[str]]:
    """Queries with other rows than DuckDB's, and those that are no jobs."""
    wrong, here = [], []
    with ballista.connect() as con:
        for name, sql in _warpmill.queries(suite):
            # The second time, the session has kept the plan.
            if any(in_order(rows(con, sql)) != answers[name] for _ in range(2)):
                wrong.append(name)
            if not is_job(con, sql):
                here.append(name)
    return wrong, here


def test_tpch(tpch_jobs: Ballista, tpch: tuple[Path, dict[str, Rows]]) -> None:
    assert wrong_or_here(tpch_jobs, "tpch", tpch[1]) == ([], [])


def test_ssb_on_four(ssb: tuple[Path, dict[str, Rows]]) -> None:
    with Ballista(ssb[0], 4) as ballista:
        assert wrong_or_here(ballista, "ssb", ssb[1]) == ([], [])


def test_queries_at_the_same_time(tpch_jobs: Ballista, tpch: tuple[Path, dict[str, Rows]]) -> None:
    queries, names = dict(_warpmill.queries("tpch")), ["1", "3", "5", "13", "18", "21"]
    with ThreadPoolExecutor(6) as threads:

        def asked(name: str) -> Rows:
            with tpch_jobs.connect() as con:
                return in_order(rows(con, queries[name]))

        found = list(threads.map(asked, names * 3))
    assert [name for name, got in zip(names * 3, found, strict=True) if got != tpch[1][name]] == []


def test_an_executor_killed_at_random_moments(tpch: tuple[Path, dict[str, Rows]]) -> None:
    """Queries run again, and each has its answer."""
    queries = dict(_warpmill.queries("tpch"))
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    with Ballista(tpch[0], 2) as ballista, ballista.connect() as con:
        for name in ["1", "3", "9", "18"]:
            start = time.monotonic()
            assert in_order(rows(con, queries[name])) == tpch[1][name]
            victim = dice.choice(ballista.executors)
            timer = threading.Timer(dice.uniform(0, time.monotonic() - start), victim.kill)
            timer.start()
            for _ in range(2):
                assert in_order(within(60, lambda name=name: rows(con, queries[name]))) == tpch[1][name]
            timer.join()
            ballista.executors[ballista.executors.index(victim)] = ballista.executor()


def test_errors_of_tasks(tmp_path: Path) -> None:
    database = stored(tmp_path, {"t": "SELECT range AS a, 'x' || range AS s FROM range(5000)"}, 1024)
    with Ballista(database, 2) as ballista, ballista.connect() as con:
        for sql, text in [
            ("SELECT sum(a + 9223372036854775807) FROM t", r"\[FlightSQL\] overflow"),
            ("SELECT max(CAST(s AS INTEGER)) FROM t", r'\[FlightSQL\] cannot convert the text "x'),
        ]:
            with pytest.raises(Exception, match=text):
                within(30, lambda sql=sql: rows(con, sql))
        assert rows(con, "SELECT count(*), min(s) FROM t") == [(5000, "x0")]


#: Takes minutes on one thread, in joins of millions of rows.
SLOW = "SELECT count(*) FROM t x, t y, t z WHERE x.k = y.k AND y.k = z.k AND (x.a * y.a + z.a) % 1000003 = 5"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return stored(tmp_path, {"t": "SELECT i AS a, i % 3 AS k FROM range(60000) r(i)"}, 8192)


def ticks(program: Program) -> int:
    """The processor time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{program.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_cancelled_query_stops(database: Path) -> None:
    with Ballista(database, 2) as ballista, ballista.connect() as con, con.cursor() as cursor:
        assert is_job(con, SLOW)
        timer = threading.Timer(1, cursor.adbc_cancel)
        timer.start()
        cursor.execute(SLOW)
        with pytest.raises(con.Error):
            within(30, cursor.fetchall)
        deadline = time.monotonic() + 10
        while True:
            before = [ticks(executor) for executor in ballista.executors]
            time.sleep(0.5)
            if all(ticks(executor) - one < 10 for executor, one in zip(ballista.executors, before, strict=True)):
                break
            assert time.monotonic() < deadline, "executors still work"
        assert within(10, lambda: rows(con, "SELECT sum(a) FROM t")) == [(1799970000,)]


def test_executors_come_and_go(database: Path) -> None:
    """One that is asked to end does so; queries that it has no part in go on; without any, they fail in time."""
    with Ballista(database, 2) as ballista, ballista.connect() as con:
        assert rows(con, "SELECT sum(a) FROM t") == [(1799970000,)]
        slow = ThreadPoolExecutor(1).submit(lambda: rows(con, SLOW))
        time.sleep(1)
        for _ in range(2):
            other = ballista.executor()
            time.sleep(0.5)
            assert other.stop() == 0
        assert not slow.done()
        for executor in ballista.executors:
            executor.kill()
        with pytest.raises(con.Error, match="no executor"):
            slow.result(timeout=30)


def test_an_executor_that_hangs_while_its_rows_are_read(tmp_path: Path) -> None:
    query = "SELECT i AS a, md5(i::VARCHAR) || md5((i + 1)::VARCHAR) || repeat('x', 400) AS s FROM range(400000) r(i)"
    database = stored(tmp_path, {"t": query}, 65536)
    with Ballista(database, 1) as ballista, ballista.connect() as con, con.cursor() as cursor:
        cursor.execute("SELECT * FROM t WHERE a >= 0")
        reader = cursor.fetch_record_batch()
        reader.read_next_batch()
        os.kill(ballista.executors[0].process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(Exception, match="lost"):
                within(30, lambda: [None for _ in reader])
        finally:
            os.kill(ballista.executors[0].process.pid, signal.SIGCONT)


def test_several_tasks_at_once_and_nothing_left(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with Ballista(database, 0) as ballista, ballista.connect() as con, duckdb.connect() as other:
        ballista.executors.append(ballista.executor("--slots", 3, "--work-dir", folder))
        other.execute(f"CREATE VIEW t AS SELECT * FROM '{database.parent}/t.parquet'")
        queries = [
            "SELECT a, k FROM t WHERE k <> 1 ORDER BY k DESC, a LIMIT 9",
            "SELECT k, sum(a) FROM t GROUP BY k ORDER BY k",
        ]
        time.sleep(1)
        with ThreadPoolExecutor(4) as threads:
            for sql, found in zip(queries * 6, threads.map(lambda sql: rows(con, sql), queries * 6), strict=True):
                assert found == other.execute(sql).fetchall(), sql
        assert is_job(con, queries[0])
        deadline = time.monotonic() + 10
        while any(folder.rglob("*.arrow")):
            assert time.monotonic() < deadline, "rows of finished queries are left"
            time.sleep(0.1)


def test_no_executor(tmp_path: Path) -> None:
    database = stored(tmp_path, {"t": "SELECT range AS a FROM range(5000)"}, 1024)
    with Ballista(database, 0) as ballista, ballista.connect() as con:
        with pytest.raises(Exception, match="no executor has registered"):
            within(30, lambda: rows(con, "SELECT sum(a) FROM t"))
        ballista.executors.append(ballista.executor())
        deadline = time.monotonic() + 20
        while True:
            try:
                assert rows(con, "SELECT sum(a) FROM t") == [(12497500,)]
                break
            except con.Error:
                assert time.monotonic() < deadline
                time.sleep(0.2)


def test_edges(tmp_path: Path) -> None:
    """Results without rows, of one row, with NULLs, of large strings; windows, unions, nested types."""
    tables = {
        "t": "SELECT i AS a, CASE WHEN i % 7 > 0 THEN i % 10 END AS k, repeat('x', i % 900) AS s FROM range(5000) r(i)",
        "u": "SELECT range * 3 AS a, {'x': range, 'y': [range]} AS n FROM range(3000)",
    }
    database = stored(tmp_path, tables, 1024)
    statements = [
        "SELECT * FROM t WHERE a < 0",
        "SELECT a, s FROM t WHERE a = 4999",
        "SELECT k, count(*), sum(a), max(s) FROM t GROUP BY k",
        "SELECT k, a, row_number() OVER (PARTITION BY k ORDER BY a) AS r FROM t QUALIFY r <= 2",
        "SELECT sum(a), count(a) FROM (SELECT a FROM t UNION ALL SELECT a FROM u)",
        "SELECT a FROM t INTERSECT SELECT a FROM u ORDER BY a LIMIT 20",
        "SELECT t.a, u.n FROM t LEFT JOIN u USING (a) ORDER BY t.a DESC LIMIT 30",
        "SELECT count(*) FROM t FULL JOIN u ON t.a = u.a",
        "SELECT count(*) FROM t WHERE a NOT IN (SELECT a FROM u)",
        "SELECT count(*) FROM t, u WHERE t.a < u.a AND u.a < 100",
        "SELECT a FROM t ORDER BY s DESC, a LIMIT 7 OFFSET 3",
    ]
    with duckdb.connect() as other, Ballista(database, 3) as ballista, ballista.connect() as con:
        for name in tables:
            other.execute(f"CREATE VIEW {name} AS SELECT * FROM '{tmp_path}/{name}.parquet'")
        for sql in statements:
            assert in_order(rows(con, sql)) == in_order(other.execute(sql).fetchall()), sql
            assert is_job(con, sql), sql


def test_public_addresses_are_refused(tmp_path: Path) -> None:
    for command in (
        ["ballista-scheduler", "--database", str(tmp_path / "db"), "--listen", "0.0.0.0:0", "--port", "0"],
        ["ballista-executor", "--host", "0.0.0.0"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "warpmill", *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, "--plaintext" in done.stderr) == (1, True), done
