"""Processes killed at any moment: the next write removes their leftovers, and keeps files of live processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import warpmill
from attack.tally import tally
from trials import trials

if TYPE_CHECKING:
    from pathlib import Path

WRITER = textwrap.dedent(
    """
    import itertools, sys, warpmill
    folder, files, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    con = warpmill.connect(folder, threads=1)
    con.register("source", {"a": list(range(40_000)), "s": [str(i % 977) for i in range(40_000)]})
    print("ready", flush=True)
    for i in itertools.count(seed):
        name = ["t", "u", "s.t"][i % 3]
        con.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM source")
        con.sql(f"INSERT INTO {name} SELECT * FROM source")
        con.sql(f"CREATE OR REPLACE VIEW v AS SELECT count(*) AS n, {i} AS i FROM {name}")
        con.sql(f"COPY {name} TO '{files}/out{i % 2}.{['csv', 'parquet'][i % 2]}'")
        con.sql(f"DROP TABLE {name}")
    """
)


def spawn(folder: Path, files: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(files), str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def hidden(folder: Path) -> list[str]:
    """The leftovers of interrupted work, in a folder and in those of its schemas; partly written files, too."""
    names = [
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.startswith(".") or "#" in path.name
    ]
    return [name for name in names if not name.endswith("LOCK")]


def test_what_killed_processes_leave_goes_with_the_next_write(tmp_path: Path) -> None:
    folder, files = tmp_path / "db", tmp_path / "files"
    files.mkdir()
    chance = random.Random(17)
    with warpmill.connect(folder) as con:
        con.sql("CREATE SCHEMA s")
        con.sql("CREATE TABLE kept AS SELECT 1 AS a")
    left, rounds = 0, trials(8, "WARPMILL_KILLS")
    for round_ in range(rounds):
        child = spawn(folder, files, round_)
        time.sleep(chance.uniform(0.01, 0.4))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        left += len(hidden(folder)) + len(hidden(files))
        with warpmill.connect(folder) as con:
            con.sql("INSERT INTO kept VALUES (1)")
            con.sql("CREATE OR REPLACE TABLE s.other AS SELECT 1 AS a")
            con.sql(f"COPY kept TO '{files}/next.parquet'")
            assert hidden(folder) == []
            assert hidden(files) == []
            assert con.sql("SELECT count(*) FROM kept").fetchone() == (round_ + 2,)
            for table in con.tables():
                if table.kind == "stored" and table.name in ("t", "u"):
                    assert con.sql(f"SELECT count(*) FROM {table.qualified}").fetchone() in ((40_000,), (80_000,))
            for file in files.glob("out*"):
                found = con.sql(f"SELECT count(*) FROM '{file}'").fetchone()
                assert found == (80_000,), file
    assert left > 0, "no process was killed at work"
    tally("processes killed", {"whole and tidied": rounds})


def test_live_writers_keep_what_they_are_at(tmp_path: Path) -> None:
    folder, files = tmp_path / "db", tmp_path / "files"
    files.mkdir()
    with warpmill.connect(folder) as con:
        con.sql("CREATE SCHEMA s")
        con.sql("CREATE TABLE kept AS SELECT 1 AS a")
        child = spawn(folder, files, 0)
        try:
            end = time.monotonic() + 4
            writes = 0
            while time.monotonic() < end:
                con.sql("INSERT INTO kept VALUES (1)")
                con.sql("CREATE OR REPLACE TABLE s.other AS SELECT 1 AS a")
                con.sql(f"COPY kept TO '{files}/next.parquet'")
                writes += 1
            # It would have failed if one of its files had been removed.
            assert child.poll() is None
            assert writes > 5
        finally:
            child.kill()
            child.wait()


CHANGER = textwrap.dedent(
    """
    import itertools, sys, warpmill
    con = warpmill.connect(sys.argv[1], threads=1)
    con.sql("SET warpmill.segment_rows = 4096")
    con.sql("SET warpmill.keep_versions = 3")
    print("ready", flush=True)
    for i in itertools.count(int(sys.argv[2])):
        con.sql("UPDATE t SET a = a + 1, s = 'step ' || (a + 1) WHERE part < 3")
        con.sql("DELETE FROM t WHERE part = 3 AND k % 7 = 0")
        con.sql("MERGE INTO t USING lost ON t.k = lost.k WHEN NOT MATCHED THEN INSERT VALUES (lost.k, 3, 0, 'new')")
        con.sql("OPTIMIZE t")
    """
)


def test_changes_are_whole_or_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    chance = random.Random(23)
    with warpmill.connect(folder) as con:
        con.sql("SET warpmill.segment_rows = 4096")
        con.sql("CREATE TABLE t AS SELECT i AS k, i % 4 AS part, 0 AS a, 'step 0' AS s FROM range(20000) r(i)")
        con.sql("CREATE TABLE lost AS SELECT i AS k FROM range(20000) r(i) WHERE i % 4 = 3 AND i % 7 = 0")
    rounds = trials(8, "WARPMILL_KILLS")
    whole = set()
    for round_ in range(rounds):
        child = subprocess.Popen(
            [sys.executable, "-c", CHANGER, str(folder), str(round_)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.01, 0.5))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        with warpmill.connect(folder) as con:
            steps = con.sql("SELECT DISTINCT a, s FROM t WHERE part < 3").fetchall()
            assert len(steps) == 1
            assert steps[0][1] == f"step {steps[0][0]}"
            count = con.sql("SELECT count(*) FROM t").fetchone()
            assert count in ((20_000,), (20_000 - 715,)), count
            whole.add(steps[0][0])
    assert len(whole) > 1, "no process was killed after a change"
    tally("processes killed at changes", {"old or new version": rounds})
