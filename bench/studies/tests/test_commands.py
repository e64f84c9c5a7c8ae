"""The commands that the package adds to ``warpmill bench``: all are found; those that have no other tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from warpmill import _warpmill
from warpmill.cli import app
from warpmill.cli.bench import STUDIES
from warpmill.udf.numba import missing

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

DEVICES = json.loads(_warpmill.devices())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_every_study_is_found_and_explains_itself() -> None:
    shown = run("--help")
    assert shown.exit_code == 0
    assert "Not installed" not in shown.output
    for name in STUDIES:
        done = run(name, "--help")
        assert done.exit_code == 0, done.output
        assert "usage" in done.output.lower()
        assert name in shown.output
    assert run("decode", "--device", "cpu").exit_code == 2


@pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")
@pytest.mark.parametrize("suite", ["decode", "join", "groupby", "sort", "like"])
def test_kernels_alone_have_their_answers_checked(suite: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run(suite, "--device", "sim", "--runs", "1", "--json", report)
    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert found["device"]["kind"] == "sim"
    assert found["measurements"]
    assert all(row["suite"] == suite and row["verified"] for row in found["measurements"])


@pytest.mark.slow
def test_compaction_draws_what_it_measured(tmp_path: Path) -> None:
    done = run("compaction", "--rows", "20000", "--runs", "1", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "compaction.json").read_text())["results"]
    assert {row["strategy"] for row in rows} == {"none", "full", "binary", "logical", "learning", "smart"}
    for name in ("reducing_factor", "tuple_length", "learned_thresholds", "chunk_rows", "filter_and_joins"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000, name
    assert run("compaction", "--experiments", "none").exit_code == 2


def test_udaf_checks_its_answers(tmp_path: Path) -> None:
    report = tmp_path / "udaf.json"
    done = run("udaf", "--rows", 20_000, "--groups", "1,100", "--runs", 1, "--json", report)
    assert done.exit_code == 0, done.output
    rows = json.loads(report.read_text())
    # Expressions are run in one way more than functions that are none.
    assert len(rows) == 2 * 2 * (6 + 7 + 4 * 5)
    assert all(row["seconds"] is None or row["seconds"] > 0 for row in rows)
    assert {row["engine"] for row in rows if row["seconds"] is None} <= {"warpmill cpu numba"}
    assert missing() is not None or all(row["seconds"] for row in rows)
    done = run("udaf", "--rows", 20_000, "--groups", "10000", "--runs", 1, "--limit", 0.1, "--json", report)
    assert {row["engine"] for row in json.loads(report.read_text()) if row["seconds"] is None} == {
        "pandas apply",
        "warpmill cpu called",
        *(["warpmill cpu numba"] if missing() else []),
    }
    assert run("udaf", "--distributions", "zipf").exit_code == 2


def test_scan_reads_every_column_through_every_codec(tmp_path: Path) -> None:
    place = str(tmp_path / "data")
    asked = ["--sf", "0.002", "--suites", "taxi,ssb", "--runs", "2", "--sampling", "--data", place, "--out", place]
    done = run("scan", *asked)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "data" / "scan.png").stat().st_size > 10_000
    report = json.loads((tmp_path / "data" / "scan.json").read_text())
    assert len(report["results"]) == 7 * (17 + 18)
    assert all(len(row["runs_s"]) == 2 and row["median_s"] > 0 for row in report["results"])
    stored = {(row["column"], row["codec"]): row["stored_bytes"] for row in report["results"]}
    assert stored["tip_amount", "zstd"] < stored["tip_amount", "none"]
    assert {(row["suite"], row["objective"]) for row in report["sampling"]} == {
        (suite, objective) for suite in ("taxi", "ssb") for objective in ("time", "size")
    }
    assert all(0.3 < row["mean"] <= row["max"] for row in report["sampling"])
