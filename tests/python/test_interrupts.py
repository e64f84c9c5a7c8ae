"""Writing statements that are stopped at any moment: those that raise have written nothing, the others everything."""

from __future__ import annotations

import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from attack.tally import tally
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 30_000
ROUNDS = trials(30, "WARPMILL_INTERRUPTS")


@pytest.fixture
def con(tmp_path: Path) -> Iterator[warpmill.Connection]:
    with warpmill.connect(tmp_path / "db") as con:
        con.register("source", {"a": list(range(ROWS)), "s": [str(i % 977) for i in range(ROWS)]})
        con.sql("CREATE TABLE t AS SELECT * FROM source WHERE a < 0")
        yield con


def count(con: warpmill.Connection, table: str) -> int:
    rows = con.sql(f"SELECT count(*) FROM {table}").fetchone()
    assert rows is not None
    return int(rows[0])


def interrupt(con: warpmill.Connection, after: float) -> threading.Thread:
    def stop() -> None:
        time.sleep(after)
        con.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def raise_signal(_: warpmill.Connection, after: float) -> threading.Thread:
    def stop() -> None:
        time.sleep(after)
        signal.raise_signal(signal.SIGUSR1)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


class StopError(Exception):
    """The exception that the signal handler raises."""


@pytest.fixture
def handler() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise StopError

    before = signal.signal(signal.SIGUSR1, stop)
    yield
    signal.signal(signal.SIGUSR1, before)


def usual(con: warpmill.Connection) -> float:
    """Seconds that an INSERT takes."""
    begin = time.perf_counter()
    con.sql("INSERT INTO t SELECT * FROM source")
    return time.perf_counter() - begin


def test_an_insert_that_was_stopped_is_not_there(con: warpmill.Connection) -> None:
    chance, seconds = random.Random(3), usual(con)
    expected, raised = count(con, "t"), 0
    for _ in range(ROUNDS):
        stopping = interrupt(con, chance.uniform(0, 1.5 * seconds))
        try:
            con.sql("INSERT INTO t SELECT * FROM source")
            expected += ROWS
        except warpmill.InterruptError:
            raised += 1
        stopping.join()
        assert settled(con, "t") == expected
    assert 0 < raised < ROUNDS
    tally("INSERT", {"interrupted, not there": raised, "done, there": ROUNDS - raised})


@pytest.mark.usefixtures("handler")
def test_a_signal_is_heard_and_leaves_all_or_nothing(con: warpmill.Connection) -> None:
    chance, seconds = random.Random(3), usual(con)
    before = count(con, "t")
    for _ in range(ROUNDS):
        # Its handler may raise between the end of the statement and the next line as well.
        with pytest.raises(StopError):  # noqa: PT012
            stopping = raise_signal(con, chance.uniform(0, 1.5 * seconds))
            con.sql("INSERT INTO t SELECT * FROM source")
            stopping.join()
            time.sleep(1)
        stopping.join()
        after = settled(con, "t")
        assert after in (before, before + ROWS)
        before = after
    tally("INSERT and a signal", {"all or nothing": ROUNDS})


def settled(con: warpmill.Connection, table: str) -> int:
    """The rows of a table after all writers have ended: stopped ones may still run, without effect."""
    for _ in range(200):
        try:
            con.sql(f"INSERT INTO {table} SELECT * FROM source WHERE a < 0")
        except warpmill.ConflictError:
            time.sleep(0.01)
        else:
            break
    return count(con, table)


def test_a_table_whose_making_was_stopped_is_not_there(con: warpmill.Connection) -> None:
    chance = random.Random(5)
    raised = 0
    for _ in range(ROUNDS):
        stopping = interrupt(con, chance.uniform(0, 0.05))
        done = False
        try:
            con.sql("CREATE TABLE made AS SELECT * FROM source")
            done = True
        except warpmill.InterruptError:
            raised += 1
        stopping.join()
        if done:
            assert count(con, "made") == ROWS
            con.sql("DROP TABLE made")
        else:
            time.sleep(0.02)
            assert [table.name for table in con.tables() if table.name == "made"] == []
    assert raised > 0
    tally("CREATE TABLE AS", {"interrupted, not there": raised, "done, there": ROUNDS - raised})
