"""The script of measurements on a GPU: every step is recorded, failures do not stop later steps."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "gpu_session.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_session", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_session"] = module
    spec.loader.exec_module(module)
    return module


session = load()


def test_a_step_that_fails_or_hangs_does_not_stop_the_rest(tmp_path: Path) -> None:
    def python(text: str) -> list[str]:
        return [sys.executable, "-c", text]

    at = session.Session(tmp_path / "out", tmp_path / "data", "cpu", 1.0)
    (at.data / "big").mkdir(parents=True)
    begun = time.monotonic()
    hang = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    todo = [
        session.Step("fails", 30, [python("print('so far'); exit(3)"), python("print('never')")], ["big"]),
        session.Step("hangs", 1, [python(hang)]),
        session.Step("missing", 30, [python("exit(1)")], needs=python("exit(2)")),
        session.Step("works", 30, [python("print(1)"), python("print(2)")]),
    ]
    assert session.run_all(todo, at, 5, False, False) == 2
    assert time.monotonic() - begun < 60
    records = {record["step"]: record for record in json.loads((at.out / "summary.json").read_text())}
    assert [record["rc"] for record in records.values()] == [3, None, 0, 0]
    assert [record["timed_out"] for record in records.values()] == [False, True, False, False]
    assert "not there" in records["missing"]["skipped"]
    log = (at.out / "fails.log").read_text()
    assert "so far" in log
    assert "never\n" not in log
    assert (at.out / "works.log").read_text().splitlines()[1::2] == ["1", "2"]
    # The data that only that step needed is gone; steps that are done are not done again.
    assert not (at.data / "big").exists()
    works = session.Step("works", 30, [python("exit(1)")])
    assert session.run_all([works], at, 5, False, False) == 0
    assert session.run_all([works], at, 5, False, True) == 1
    assert session.run_all([session.Step("late", 30, [python("print(1)")])], at, 0, False, False) == 1


def test_steps_are_chosen_by_name() -> None:
    every = session.steps(session.Session(Path("out"), Path("data"), "gpu", 1.0))
    names = [step.name for step in every]
    assert len(names) == len(set(names))
    assert [step.name for step in session.chosen(every, "qj,tpch-sf1")] == [
        "tpch-sf1",
        "qj-disk",
        "qj-drives",
        "qj-pinned",
    ]
    assert [step.name for step in session.chosen(every, "tpch-sf10")] == ["tpch-sf10"]
    assert session.chosen(every, None) == every
    with pytest.raises(SystemExit, match="no step 'tpcds'"):
        session.chosen(every, "tpcds")


def test_effective_bandwidth_counts_the_columns_of_a_query(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    command = [
        sys.executable,
        str(SCRIPT),
        str(out),
        "--data",
        str(data),
        "--device",
        "cpu",
        "--scale",
        "0.001",
        "--keep",
    ]
    done = subprocess.run([*command, "--steps", "tpch-sf30-disk-lz4"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + (out / "tpch-sf30-disk-lz4.log").read_text()
    found = json.loads((out / "tpch-sf30-disk-lz4-effective.json").read_text())
    assert [query["query"] for query in found["queries"]] == ["1", "3", "5", "6"]
    # Query 6 reads four columns of lineitem: a date, and three decimals.
    (six,) = (query for query in found["queries"] if query["query"] == "6")
    manifests = list((data / "tpch-sf30-lz4" / "warpmill" / "lineitem").glob("*.manifest"))
    assert manifests
    rows = 180_000
    assert 4 * rows * 4 * 0.98 < six["plain_bytes"] < 4 * rows * 16 * 1.02
    assert six["ratio"] > 1
    assert six["effective_gb_per_s"] == pytest.approx(six["plain_bytes"] / six["median_ms"] / 1e6, abs=0.001)
    assert six["moved_bytes"] == 0
