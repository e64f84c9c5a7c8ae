"""Tables that are made within a time, and sessions that end with it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from warpmill_bench import suites
from warpmill_bench.suites import making
from warpmill_bench.suites.tables import place

if TYPE_CHECKING:
    from pathlib import Path


def made(seconds: float, base: Path, size: float = 3000, name: str = "h2o") -> bool:
    return making.prepare_within(seconds, base, name, size, tables=True, duckdb=True)


def test_tables_are_made_in_time_or_by_the_next_call(tmp_path: Path) -> None:
    assert not made(0.0, tmp_path)
    assert made(120, tmp_path)
    data = suites.prepare(tmp_path, "h2o", 3000, lambda _: lambda _done, _total: None)
    assert data.duckdb.exists()
    assert sorted(path.name for path in data.parquet.values()) == ["x.parquet"]


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    place(tmp_path, "h2o", 3000).write_text("a file is in the folder's place")
    with pytest.raises(ValueError, match=r"the tables of h2o 3000 were not made: (NotADirectory|FileExists)Error"):
        made(120, tmp_path)


@pytest.mark.long
def test_a_session_ends_with_its_time(tmp_path: Path) -> None:
    # The tables alone take longer.
    command = [sys.executable, "-m", "warpmill", "bench", "matrix", "--quick", "--suites", "taxi", "--sizes", "10"]
    command += ["--device", "cpu", "--peers", "none", "--sources", "tables", "--states", "repeated"]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, "--budget", "6", "--out", tmp_path, "--data", tmp_path / "data"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 30
    assert "1 of 1 cells are left: the same command goes on with them" in done.stdout
    found = json.loads((tmp_path / "matrix.json").read_text())
    assert found["runs"] == []
    (session,) = found["sessions"]
    assert 0 < session["parts"]["tables"] < 20
