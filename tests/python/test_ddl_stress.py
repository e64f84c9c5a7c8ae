"""Processes that create, replace, drop, write and read tables of one name at once.

All rows of a table have its generation. An INSERT takes the generation from the table that it was planned for, so
that rows of two generations in one table mean that rows were inserted into the wrong table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from attack.tally import tally

if TYPE_CHECKING:
    from pathlib import Path

WORKER = textwrap.dedent(
    """
    import json, random, sys, time, warpmill
    folder, seed, seconds, role = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    chance, con, made = random.Random(seed), warpmill.connect(folder, threads=1), 0
    end, done = time.monotonic() + seconds, []

    def ddl():
        global made
        made += 1
        rows = f"SELECT {seed * 1_000_000 + made} AS gen, 0 AS op"
        name = chance.choice("ab")
        make = ["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"]
        drop = ["DROP TABLE", "DROP TABLE IF EXISTS"]
        if chance.random() < 0.5:
            return name, f"{chance.choice(make)} {name} AS {rows}"
        return name, f"{chance.choice(drop)} {name}"

    def insert():
        global made
        made += 1
        name = chance.choice("ab")
        return name, f"INSERT INTO {name} SELECT max(gen), {seed * 1_000_000 + made} FROM {name}"

    def read():
        name = chance.choice("ab")
        kinds = [f"SELECT count(DISTINCT gen), count(*) FILTER (WHERE op = 0) FROM {name}", "SHOW TABLES"]
        return name, chance.choice(kinds)

    work = {"ddl": ddl, "insert": insert, "read": read}[role]
    print("ready", flush=True)
    while time.monotonic() < end:
        name, sql = work()
        begin = time.monotonic()
        try:
            rows, outcome = con.sql(sql).fetchall(), "done"
            if role == "read" and sql.startswith("SELECT"):
                assert rows in ([(1, 1)], [(0, 0)]), rows
        except (warpmill.ConflictError, warpmill.CatalogError) as error:
            outcome = type(error).__name__
        done.append({"table": name, "sql": sql, "begin": begin, "end": time.monotonic(), "outcome": outcome,
                     "op": seed * 1_000_000 + made})
    print(json.dumps(done), flush=True)
    """
)


def run(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """The statements of the processes, and their outcomes."""
    roles = ["ddl", "ddl", "insert", "insert", "read"]
    children = []
    for seed, role in enumerate(roles, start=1):
        command = [sys.executable, "-c", WORKER, str(folder), str(seed), str(seconds), role]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    done = []
    for child in children:
        out, error = child.communicate(timeout=60 + 2 * seconds)
        assert child.returncode == 0, error[-3000:]
        done += json.loads(out.splitlines()[-1])
    return done


def test_tables_that_come_and_go_lose_nothing(tmp_path: Path) -> None:
    seconds = float(os.environ.get("WARPMILL_DDL_SECONDS", "4"))
    done = run(tmp_path, seconds)
    outcomes: dict[str, int] = {}
    for one in done:
        kind = f"{one['sql'].split(' ')[0]} {one['outcome']}"
        outcomes[kind] = outcomes.get(kind, 0) + 1
    tally("statements of five processes", outcomes)
    assert outcomes.get("INSERT done", 0) > 0
    assert outcomes.get("CREATE done", 0) > 0
    assert outcomes.get("DROP done", 0) > 0
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE OR REPLACE TABLE last AS SELECT 1 AS a")
        stored = {table.name for table in con.tables()}
        for name in "ab":
            ddl = [one for one in done if one["table"] == name and one["sql"].startswith(("CREATE", "DROP"))]
            since = max(one["end"] for one in ddl)
            late = [one for one in done if one["table"] == name and one["begin"] > since and one["outcome"] == "done"]
            wanted = {one["op"] for one in late if one["sql"].startswith("INSERT")}
            if name not in stored:
                assert not wanted
                continue
            rows = con.sql(f"SELECT gen, op FROM {name}").fetchall()
            assert len({gen for gen, _ in rows}) == 1
            assert wanted <= {op for _, op in rows}
            assert len({op for _, op in rows}) == len(rows)
        assert {table.kind for table in con.tables()} == {"stored"}
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


@pytest.mark.parametrize("stored", [False, True])
def test_a_table_that_is_written_is_not_dropped(tmp_path: Path, stored: bool) -> None:
    """In memory as on disk: acknowledged rows are in the table of that name."""
    import threading

    with warpmill.connect(tmp_path / "db" if stored else None) as con:
        con.register("source", {"a": list(range(20_000))})
        con.sql("CREATE TABLE t AS SELECT * FROM source WHERE a < 0")
        begin = time.monotonic()
        con.sql("INSERT INTO t SELECT * FROM source")
        usual = time.monotonic() - begin
        problems: list[str] = []
        stop = threading.Event()

        def churn() -> None:
            while not stop.is_set():
                for sql in ("DROP TABLE t", "CREATE TABLE t AS SELECT * FROM source WHERE a < 0"):
                    try:
                        con.sql(sql)
                    except (warpmill.ConflictError, warpmill.CatalogError):
                        pass
                    except warpmill.Error as error:
                        problems.append(repr(error))
                # Let a writer run: without a pause no table lives as long as an INSERT takes.
                stop.wait(3 * usual)

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            written = tried = 0
            while tried < 60 or (written == 0 and tried < 2000):
                tried += 1
                try:
                    con.sql("INSERT INTO t SELECT * FROM source")
                    written += 1
                except (warpmill.ConflictError, warpmill.CatalogError):
                    pass
        finally:
            stop.set()
            thread.join()
        assert problems == []
        assert written > 0
        con.sql("CREATE TABLE IF NOT EXISTS t AS SELECT * FROM source WHERE a < 0")
        found = con.sql("SELECT count(*) FROM t").fetchone()
        assert found is not None
        assert found[0] % 20_000 == 0
