"""The progress of queries: on terminals and in notebooks only, after half a second, and gone at the end."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import warpmill
from warpmill import progress

from .support import Terminal

if TYPE_CHECKING:
    from pathlib import Path

#: A query that takes seconds: each row of a scan has many partners.
SLOW = "SELECT count(*) FROM t a JOIN t b ON a.g = b.g WHERE a.i + b.i > 3"

MAKE = "SET warpmill.progress = '{mode}'"


class View:
    """A progress display that records its calls."""

    def __init__(self, notes: list[Any]) -> None:
        self._notes = notes

    def show(self, done: int, total: int, seconds: float) -> None:
        self._notes.append((done, total, seconds))

    def close(self) -> None:
        self._notes.append("closed")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(progress, "_view", lambda: lambda: View(found))
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    return found


@pytest.fixture
def slow(con: warpmill.Connection) -> warpmill.Connection:
    con.register("source", pl.DataFrame({"i": range(60_000), "g": [i % 12 for i in range(60_000)]}))
    con.sql("CREATE TABLE t AS SELECT * FROM source")
    con.set("threads", 1)
    return con


def test_rows_of_scans_are_shown(slow: warpmill.Connection, notes: list[Any]) -> None:
    slow.set("progress", "on")
    notes.clear()
    rows = slow.sql(SLOW).fetchall()
    assert notes[-1] == "closed"
    shown = notes[:-1]
    assert all(0 <= done <= total for done, total, _ in shown)
    assert [done for done, _, _ in shown] == sorted(done for done, _, _ in shown)
    # Both scans are known from the beginning, whichever starts first.
    assert {total for _, total, _ in shown if total} == {120_000}
    assert rows[0][0] > 0


def test_modes(slow: warpmill.Connection, notes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, attended, expected in [
        ("off", True, False),
        ("auto", False, False),
        ("auto", True, True),
        ("on", False, True),
    ]:
        monkeypatch.setattr(progress, "attended", attended)
        slow.sql(MAKE.format(mode=mode))
        notes.clear()
        slow.sql(SLOW)
        assert bool(notes) == expected, (mode, attended)
    with pytest.raises(warpmill.SettingError, match="on, off or auto"):
        slow.set("progress", "perhaps")
    assert slow.settings()["warpmill.progress"] == "on"


def test_short_queries_show_nothing(
    con: warpmill.Connection, notes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_DELAY", 0.5)
    con.set("progress", "on")
    con.sql("SELECT 1")
    assert notes == []


def test_a_query_that_fails_or_is_stopped_leaves_nothing(slow: warpmill.Connection, notes: list[Any]) -> None:
    slow.set("progress", "on")
    with pytest.raises(warpmill.ExecutionError):
        slow.sql("SELECT count(*) FROM t a JOIN t b ON a.g = b.g WHERE CAST('x' || (a.i + b.i) AS INT) > 3")
    assert notes == [] or notes[-1] == "closed"
    notes.clear()
    stopper = threading.Timer(0.3, slow.interrupt)
    stopper.start()
    with pytest.raises(warpmill.InterruptError):
        slow.sql(SLOW)
    stopper.join()
    assert notes[-1] == "closed"
    assert progress._SHOWN.acquire(blocking=False), "the place is free again"
    progress._SHOWN.release()


def test_only_one_of_several_queries_is_shown(slow: warpmill.Connection, notes: list[Any]) -> None:
    slow.set("progress", "on")
    notes.clear()
    threads = [threading.Thread(target=slow.sql, args=(SLOW,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each display is closed before the next: rows never decrease in between.
    assert notes[-1] == "closed"


def test_files_that_are_read_count_as_scans(con: warpmill.Connection, notes: list[Any], tmp_path: Path) -> None:
    pl.DataFrame({"i": range(300_000), "g": [i % 4 for i in range(300_000)]}).write_parquet(tmp_path / "f.parquet")
    con.set("progress", "on")
    con.set("column_cache", "off")
    notes.clear()
    con.sql(f"SELECT g, count(DISTINCT i), median(i) FROM '{tmp_path}/f.parquet' GROUP BY g")
    totals = {note[1] for note in notes if note != "closed"}
    assert totals <= {0, 300_000}


@pytest.mark.parametrize("terminal", [False, True])
def test_scripts_and_pipes_get_no_bars(terminal: bool, tmp_path: Path) -> None:
    code = f"""
import warpmill
con = warpmill.connect(threads=1)
con.sql("CREATE TABLE t AS SELECT i, i % 12 AS g FROM range(60000) r(i)")
con.sql("{SLOW}")
con.set("progress", "on")
print("now")
con.sql("{SLOW}")
print("done")
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    if terminal:
        shown = Terminal(str(script), folder=tmp_path)
        assert shown.end() == 0
        before, _, after = shown.seen.partition("now")
        assert "rows" not in before
        assert "of 120,000 rows" in after
        return
    import subprocess

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("now\ndone\n", "")


def test_it_costs_nothing_that_can_be_measured(con: warpmill.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    con.sql("CREATE TABLE t AS SELECT i FROM range(1000) r(i)")

    def fastest() -> float:
        best = float("inf")
        for _ in range(300):
            begin = time.perf_counter()
            con.sql("SELECT sum(i) FROM t")
            best = min(best, time.perf_counter() - begin)
        return best

    without = fastest()
    monkeypatch.setattr(progress, "_view", lambda: lambda: View([]))
    assert fastest() < 1.5 * without + 50e-6
