"""Processes killed in transactions over keys, sequences, views, macros and schemas: all or nothing is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import warpmill
from attack.tally import tally
from test_kills import hidden
from trials import trials

if TYPE_CHECKING:
    from pathlib import Path

#: Transaction n adds an order with 20 lines, removes that of n - 5, and puts n into everything else.
WRITER = textwrap.dedent(
    """
    import itertools, sys, warpmill
    con = warpmill.connect(sys.argv[1], threads=1)
    print("ready", flush=True)
    done = con.execute("SELECT coalesce(max(n), 0) FROM log").fetchone()[0]
    for n in itertools.count(done + 1):
        con.begin()
        con.execute(f"INSERT INTO orders VALUES ({n}, 'order {n}')")
        con.execute(f"INSERT INTO lines SELECT nextval('s'), {n}, i FROM range(20) r(i)")
        con.execute(f"UPDATE total SET lines = lines + 20, last = {n}")
        if n > 5:
            con.execute(f"DELETE FROM lines WHERE number = {n - 5}")
            con.execute(f"DELETE FROM orders WHERE id = {n - 5}")
            con.execute("UPDATE total SET lines = lines - 20")
        con.execute(f"CREATE OR REPLACE VIEW v AS SELECT {n} AS n")
        con.execute(f"CREATE OR REPLACE MACRO m() AS {n}")
        con.execute(f"CREATE SCHEMA s{n}")
        con.execute(f"CREATE TABLE s{n}.x AS SELECT {n} AS n")
        con.execute(f"DROP SCHEMA s{n - 1} CASCADE")
        con.execute(f"ALTER TABLE r{(n + 1) % 2} RENAME TO r{n % 2}")
        con.execute(f"INSERT INTO log VALUES ({n})")
        con.commit()
    """
)

MADE = [
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE)",
    "CREATE TABLE lines (id INTEGER PRIMARY KEY, number INTEGER REFERENCES orders (id), i INTEGER)",
    "CREATE SEQUENCE s",
    "CREATE TABLE total AS SELECT 0 AS lines, 0 AS last",
    "CREATE TABLE log (n INTEGER)",
    "CREATE VIEW v AS SELECT 0 AS n",
    "CREATE MACRO m() AS 0",
    "CREATE SCHEMA s0",
    "CREATE TABLE s0.x AS SELECT 0 AS n",
    "CREATE TABLE r0 AS SELECT 1 AS a",
]


def check(con: warpmill.Connection, least: int) -> int:
    """Compares everything that the transactions changed; returns how many there were."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return con.execute(sql).fetchall()

    ((done, last),) = rows("SELECT count(*), coalesce(max(n), 0) FROM log")
    assert done == last >= least
    lines = 20 * min(done, 5)
    assert rows("FROM total") == [(lines, done)]
    assert rows("SELECT count(*), count(DISTINCT id) FROM lines") == [(lines, lines)]
    assert rows("SELECT count(*) FROM lines WHERE number NOT IN (SELECT id FROM orders)") == [(0,)]
    assert rows("SELECT id FROM orders ORDER BY id") == [(n,) for n in range(max(done - 4, 1), done + 1)]
    assert rows("SELECT n, m() FROM v") == [(done, done)]
    named = rows("SELECT table_schema, table_name FROM information_schema.tables WHERE table_name IN ('x', 'r0', 'r1')")
    assert sorted(named) == [("main", f"r{done % 2}"), (f"s{done}", "x")]
    assert rows(f"FROM s{done}.x") == [(done,)]
    return int(done)


def test_transactions_are_whole_or_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    chance = random.Random(29)
    with warpmill.connect(folder) as con:
        for statement in MADE:
            con.execute(statement)
    rounds, done = trials(8, "WARPMILL_KILLS"), 0
    for _ in range(rounds):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.02, 0.6))
        assert child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        with warpmill.connect(folder) as con:
            done = check(con, done)
            con.execute("CREATE OR REPLACE TABLE other AS SELECT 1 AS a")
            con.execute("INSERT INTO log SELECT 1 WHERE false")
            # The sequence has it as long as it is there.
            assert hidden(folder) == [".s.sequence.lock"]
    assert done > 0, "no transaction came to its end"
    tally("processes killed in transactions", {"all or nothing": rounds})
