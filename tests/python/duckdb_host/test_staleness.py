"""Never a stale or torn answer: both doors against DuckDB's own, in the same transaction, while everything changes."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pandas
import pytest

import warpmill.duckdb
from trials import trials

if TYPE_CHECKING:
    from pathlib import Path

#: Steps of each walk; other DuckDB versions take fewer (test_clients.py).
STEPS = trials(100, "WARPMILL_TEST_STEPS")

QUERY = "SELECT count(*), sum(v), min(v), max(s), count(DISTINCT k) FROM {table}"


def answers(con: Any, table: str, explicitly: bool = True) -> tuple[list[Any], Any]:
    """The answers of the transparent door (and of the explicit one), and that of DuckDB, in one transaction."""
    query = QUERY.format(table=table)
    ours = [con.execute(query).fetchall()]
    if explicitly:
        ours.append(con.execute(f"FROM warpmill('{query}')").fetchall())
    con.execute("SET warpmill_enabled = false")
    theirs = con.execute(query).fetchall()
    con.execute("SET warpmill_enabled = true")
    return ours, theirs


def stats(con: Any) -> dict[str, int]:
    return dict(con.execute("FROM warpmill_stats()").fetchall())


class Walk:
    """Random statements of several connections; tables of the main database, an attached one, and a temporary one."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.main = warpmill.duckdb.connect(str(folder / "main.db"))
        self.connections = [self.main, *(self.main.cursor() for _ in range(3))]
        self.open = [False] * len(self.connections)
        self.attached = False
        for table in ("a", "b"):
            self.create(self.main, table)

    def create(self, con: Any, table: str) -> None:
        con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT i AS k, i * 3 AS v, 's' || i AS s FROM range(50) r(i)")

    def step(self) -> None:
        at = self.random.randrange(len(self.connections))
        con = self.connections[at]
        table = self.random.choice(["a", "b", *(["other.c"] if self.attached else [])])
        try:
            self.change(at, con, table)
        except duckdb.Error as error:
            # Conflicts of concurrent transactions: open ones are aborted.
            if "onflict" not in str(error) and "ransaction" not in str(error) and "does not exist" not in str(error):
                raise
            if self.open[at]:
                con.execute("ROLLBACK")
                self.open[at] = False

    def change(self, at: int, con: Any, table: str) -> None:
        number = self.random.randrange(1000)
        kind = self.random.choices(
            ["begin", "commit", "rollback", "insert", "update", "same", "delete", "alter", "replace", "attach", "many"],
            [6, 6, 4, 14, 14, 3, 8, 2, 1, 3, 4],
        )[0]
        if kind == "begin" and not self.open[at]:
            con.execute("BEGIN")
            self.open[at] = True
        elif kind in ("commit", "rollback") and self.open[at]:
            self.open[at] = False
            con.execute(kind)
        elif kind == "insert":
            con.execute(f"INSERT INTO {table}(k, v, s) VALUES (?, ?, ?)", [number, number, f"n{number}"])
        elif kind == "update":
            con.execute(f"UPDATE {table} SET v = v + 1, s = s || '.' WHERE k % 7 = {number % 7}")
        elif kind == "same":
            con.execute(f"UPDATE {table} SET v = v")
        elif kind == "delete":
            con.execute(f"DELETE FROM {table} WHERE k % 11 = {number % 11}")
        elif kind == "alter":
            column = f"x{number}"
            con.execute(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER DEFAULT {number}")
            con.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        elif kind == "replace" and table != "other.c":
            self.create(con, table)
        elif kind == "many":
            con.execute(f"INSERT INTO {table}(k, v, s) SELECT i, i, 'm' || i FROM range(500) r(i)")
        elif kind == "attach" and not any(self.open):
            if self.attached:
                con.execute("DETACH other")
            else:
                con.execute(f"ATTACH '{self.folder / 'other.db'}' AS other")
                self.create(con, "other.c")
            self.attached = not self.attached

    def close(self) -> None:
        for con in self.connections:
            con.close()


@pytest.mark.trials
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_thousand_steps(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    compared = 0
    for step in range(STEPS):
        walk.step()
        con = walk.random.choice(walk.connections)
        tables = ["a", "b", *(["other.c"] if walk.attached else [])]
        for table in tables:
            try:
                # The explicit door, too, after each step: at one of the tables.
                ours, theirs = answers(con, table, table == tables[step % len(tables)])
            except duckdb.Error as error:
                con.execute("ROLLBACK")
                walk.open[walk.connections.index(con)] = False
                con.execute("SET warpmill_enabled = true")
                if "ransaction" not in str(error) and "does not exist" not in str(error):
                    raise
                continue
            assert all(answer == theirs for answer in ours), (step, table, ours, theirs)
            compared += 1
    counts = stats(walk.main)
    walk.close()
    assert compared > 1.8 * STEPS
    # Most answers were ours, and the cache was there to be wrong.
    assert counts["queries_accelerated"] > 1.8 * STEPS
    assert counts["inputs_from_cache"] > STEPS / 10
    assert counts["queries_failed_at_run_time"] == 0


@pytest.mark.parametrize("where", ["memory", "file"])
def test_writers_and_readers(tmp_path: Path, where: str) -> None:
    """Sums that every commit moves, read in transactions that see one version."""
    con = warpmill.duckdb.connect(":memory:" if where == "memory" else str(tmp_path / "x.db"))
    con.execute("CREATE TABLE a AS SELECT i AS k, i AS v, 's' || i % 3 AS s FROM range(3000) r(i)")
    end = time.monotonic() + 3
    wrong: list[Any] = []
    reads = [0]

    def write(writer: Any) -> None:
        at = 0
        while time.monotonic() < end:
            writer.execute("BEGIN")
            writer.execute("UPDATE a SET v = v + 1 WHERE k % 5 = ?", [at % 5])
            writer.execute("INSERT INTO a VALUES (?, 1, 'w')", [at])
            writer.execute("ROLLBACK" if at % 4 == 0 else "COMMIT")
            at += 1
            time.sleep(0.004 if at % 8 else 0.05)

    def read(reader: Any) -> None:
        while time.monotonic() < end:
            reader.execute("BEGIN")
            ours, theirs = answers(reader, "a")
            reader.execute("COMMIT")
            reads[0] += 1
            if any(answer != theirs for answer in ours):
                wrong.append((ours, theirs))

    threads = [threading.Thread(target=write, args=(con.cursor(),))]
    threads += [threading.Thread(target=read, args=(con.cursor(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = stats(con)
    con.close()
    assert not wrong, wrong[:3]
    assert reads[0] > 20
    assert counts["queries_accelerated"] >= reads[0]
    assert counts["inputs_from_cache"] > 0


def test_what_did_not_change_stays(tmp_path: Path) -> None:
    """A commit makes a new version of the tables that it changes, and of no others."""
    con = warpmill.duckdb.connect(str(tmp_path / "x.db"))
    other = con.cursor()
    con.execute("CREATE TABLE a AS SELECT i AS v FROM range(3000) r(i); CREATE TABLE b AS SELECT * FROM a")
    query = "SELECT sum(v), count(*) FROM {}"

    def is_read(table: str, expected: int) -> bool:
        before = stats(con)["inputs_scanned"]
        [(total, _)] = con.execute(query.format(table)).fetchall()
        assert total == expected
        return stats(con)["inputs_scanned"] > before

    def check(*, a_is_read: bool, b_is_read: bool) -> None:
        assert is_read("a", a) == a_is_read
        assert is_read("b", b) == b_is_read
        if not con_is_open:
            assert not is_read("b", b)

    con_is_open = False
    a = b = sum(range(3000))
    check(a_is_read=True, b_is_read=True)
    for statement, change in (
        ("INSERT INTO b VALUES (1)", 1),
        ("UPDATE b SET v = v + 1 WHERE v = 7", 1),
        ("DELETE FROM b WHERE v = 10", -10),
        ("BEGIN; INSERT INTO b VALUES (5); UPDATE b SET v = v + 2 WHERE v = 20; COMMIT", 7),
    ):
        other.execute(statement)
        b += change
        check(a_is_read=False, b_is_read=True)
    # Neither rolled-back nor open changes.
    other.execute("BEGIN; INSERT INTO b VALUES (1); ROLLBACK; BEGIN; INSERT INTO b VALUES (1000)")
    check(a_is_read=False, b_is_read=False)
    other.execute("COMMIT")
    b += 1000
    check(a_is_read=False, b_is_read=True)
    # Other tables are created and dropped; a column added by another connection makes it a new table.
    other.execute("CREATE TABLE c AS SELECT * FROM a; DROP TABLE c; CHECKPOINT")
    check(a_is_read=False, b_is_read=False)
    other.execute("ALTER TABLE b ADD COLUMN w INTEGER DEFAULT 3")
    check(a_is_read=False, b_is_read=True)
    other.append("b", pandas.DataFrame({"v": [4], "w": [1]}))
    b += 4
    check(a_is_read=False, b_is_read=True)
    # A snapshot from before a commit is not that version, and is not taken for the next one.
    con.execute("BEGIN")
    assert not is_read("a", a)
    other.execute("INSERT INTO b VALUES (1, 1)")
    con_is_open = True
    check(a_is_read=False, b_is_read=True)
    con.execute("COMMIT")
    con_is_open = False
    b += 1
    check(a_is_read=False, b_is_read=True)
    con.close()


def test_databases_one_after_the_other() -> None:
    """A database that is closed leaves nothing to the next one, wherever in memory that is."""
    for round_ in range(20):
        con = warpmill.duckdb.connect()
        con.execute(f"CREATE TABLE a AS SELECT i + {round_} AS v FROM range(100) r(i)")
        assert con.execute("SELECT sum(v) FROM a").fetchall() == [(4950 + 100 * round_,)]
        assert con.execute("SELECT sum(v) FROM a").fetchall() == [(4950 + 100 * round_,)]
        assert stats(con)["inputs_from_cache"] == 1
        con.close()
