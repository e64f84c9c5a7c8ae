"""`warpmill bench matrix` and `model` from end to end, smaller than `--quick`: numbers beside recomputed ones."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extension import packages
from typer.testing import CliRunner

from suites import job
from warpmill import _warpmill
from warpmill_bench import suites
from warpmill_bench.cli import app
from warpmill_bench.maxbench.observations import observe
from warpmill_bench.suites import tpcds

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = json.loads(_warpmill.devices())

SIM = DEVICES["no_simulated_device"] is None

QUERIES = ("1", "6")


def command(*options: object) -> subprocess.CompletedProcess[str]:
    """In its own process, because it binds itself to cores."""
    program = [sys.executable, "-m", "warpmill", "bench", *map(str, options)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def options(folder: Path) -> list[object]:
    small = ["matrix", "--quick", "--suites", "tpch", "--queries", ",".join(QUERIES), "--sizes", "0.01,0.02,0.03"]
    return [*small, "--runs", 2, "--threads", 2, "--out", folder / "out", "--data", folder / "data"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of both commands."""
    folder: Path = tmp_path_factory.mktemp("matrix")
    done = command(*options(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    done = command("model", folder / "out" / "matrix.json")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def matrix(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "out" / "matrix.json").read_text()))


@pytest.fixture(scope="module")
def model(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "out" / "model.json").read_text()))


@pytest.fixture(scope="module")
def growing(matrix: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of a matrix whose times grow with size, which those of small tables need not on a busy machine."""
    names = ("engine", "site", "source", "location", "query", "state")
    shortest: dict[tuple[Any, ...], float] = {}
    for row in matrix["runs"]:
        at = tuple(row[name] for name in names)
        shortest[at] = min(row["median_ms"], shortest.get(at, row["median_ms"]))
    runs = []
    for row in matrix["runs"]:
        time = shortest[tuple(row[name] for name in names)] * (1 + 100 * row["size"])
        runs.append({**row, "median_ms": time, "best_ms": time})
    folder: Path = tmp_path_factory.mktemp("growing")
    (folder / "matrix.json").write_text(json.dumps({**matrix, "runs": runs}))
    done = command("model", folder / "matrix.json")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_engine_has_run_every_query_with_duckdbs_rows(matrix: dict[str, Any]) -> None:
    assert matrix["left"] == []
    runs = matrix["runs"]
    assert [row for row in runs if row["verified"] is False] == []
    hot = [row for row in runs if row["state"] == "repeated"]
    engines = {(row["engine"], row["site"], row["source"], row["location"]) for row in hot}
    wanted = {("warpmill", "cpu", "tables", "host"), ("warpmill", "cpu", "parquet", "kept")}
    wanted |= {(peer, "cpu", "tables", "host") for peer in ("duckdb", "datafusion", "polars")}
    wanted |= {(peer, "cpu", "parquet", "files") for peer in ("warpmill", "duckdb", "datafusion", "polars")}
    if SIM:
        wanted |= {("warpmill", "sim", "tables", place) for place in ("device", "pinned", "host", "disk")}
    assert engines >= wanted
    for at in wanted:
        queries = {row["query"] for row in hot if (row["engine"], row["site"], row["source"], row["location"]) == at}
        assert queries == set(QUERIES), at
    for row in runs:
        assert row.get("median_ms") is not None, row
        assert row["median_ms"] == pytest.approx(statistics.median(row["runs_ms"]), abs=1e-3)
        assert row["verified"] is (None if row["engine"] == "duckdb" else True)
    sizes = {row["size"] for row in hot if row["engine"] == "warpmill" and row["source"] == "tables"}
    assert sizes == {0.01, 0.02, 0.03}


def test_first_runs_have_their_steps(matrix: dict[str, Any]) -> None:
    new = [row for row in matrix["runs"] if row["state"] == "new-process"]
    assert {row["engine"] for row in new} >= {"warpmill", "duckdb"}
    for row in new:
        assert sum(row["steps_ms"].values()) <= row["median_ms"]
    statements = [row for row in matrix["runs"] if row["state"] == "new-statement" and row["engine"] == "warpmill"]
    assert statements
    assert all(row["plans_kept"] == 0 for row in statements)


@pytest.mark.skipif(not SIM, reason="no C++ compiler")
def test_a_device_copies_once_or_for_every_run(matrix: dict[str, Any]) -> None:
    ran = [row for row in matrix["runs"] if row["site"] == "sim" and row["source"] == "tables"]
    for row in [row for row in ran if row["state"] == "repeated"]:
        assert row["devices"] == ["sim"], row["not_on_device"]
        copied = row["transfers"].get("to device", {"bytes": 0})["bytes"]
        assert (copied > 0) == (row["copy_policy"] == "per-query"), row
        assert row["kernel_ms"] > 0
        assert sum(row["operators_ms"].values()) == pytest.approx(row["kernel_ms"], rel=1e-3)
    # More rows are more bytes.
    by_size = {
        row["size"]: row["transfers"]["to device"]["bytes"]
        for row in ran
        if row["location"] == "pinned" and row["query"] == "6"
    }
    assert by_size[0.01] < by_size[0.02] < by_size[0.03]


def test_links_and_filters_are_measured(matrix: dict[str, Any]) -> None:
    links = {row["link"] for row in matrix["links"]}
    assert "memory copy" in links
    assert all(row["best_seconds"] <= row["seconds"] and row["bytes"] >= 4096 for row in matrix["links"])
    filters = {row["size"]: row for row in matrix["filters"] if row["query"] == "6"}
    assert set(filters) == {0.01, 0.02, 0.03}
    for row in filters.values():
        assert 0.015 < row["rows_kept"] / row["rows"] < 0.025
    assert any(row["what"] == "results left on the device" for row in matrix["skipped"])
    assert any("cudf-polars" in row["what"] for row in matrix["skipped"])


def test_lines_are_those_through_the_runs(matrix: dict[str, Any], model: dict[str, Any]) -> None:
    runs = [run for run in observe([matrix]).runs if run.site == "cpu" and run.engine == "warpmill"]
    assert {row["device"] for row in model["lines"]} >= {runs[0].device}
    for query in QUERIES:
        own = [run for run in runs if run.query == ("tpch", query)]
        x, y = np.array([run.input_bytes for run in own]), np.array([run.seconds for run in own])
        (row,) = (one for one in model["lines"] if one["query"] == query and one["device"] == own[0].device)
        assert row["sizes"] == len(own) == 3
        # The best line by another way: a search in b, with the best a for each.
        errors = []
        for b in np.linspace(0, y.min(), 400):
            a = max(((x / y) @ (1 - b / y)) / ((x / y) @ (x / y)), 0.0)
            errors.append((((a * x + b) / y - 1) ** 2).sum())
        own_error = (((row["a"] * x + row["b"]) / y - 1) ** 2).sum()
        assert own_error <= min(errors) + 1e-6
        assert row["median_error"] == pytest.approx(np.median(np.abs((row["a"] * x + row["b"]) / y - 1)))


def test_the_model_says_how_wrong_it_is(growing: Path) -> None:
    model = json.loads((growing / "model.json").read_text())
    assert {row["link"] for row in model["links"]} >= {"memory copy", "PCIe 5.0 (MaxBench)"}
    kinds = {row["held_out"] for row in model["errors"]}
    assert kinds >= {"size (between others)", "size (beyond others)"}
    if SIM:
        assert {row["device"] for row in model["errors"] if row["held_out"] == "copies"} == {"simulated device"}
    for row in model["configurations"]:
        assert row["per_query_seconds"] > row["operators_seconds"] > 0
        assert 0 < row["transfer_share_per_query"] < 1


def test_the_page_is_whole(growing: Path) -> None:
    text = (growing / "report.html").read_text()
    assert text.count("<section") == text.count("</section>") == 12
    for number in ("3", "4", "5", "6", "7", "8", "9"):
        assert f"(Figure {number} of the paper)" in text, number


def test_a_run_goes_on_where_it_ended(folder: Path, matrix: dict[str, Any], tmp_path: Path) -> None:
    shorter = {**matrix, "runs": matrix["runs"][:-3]}
    path = tmp_path / "matrix.json"
    path.write_text(json.dumps(shorter))
    again = [*options(folder)[:-4], "--out", tmp_path, "--data", folder / "data"]
    # No time: nothing is measured, and everything is said to be left.
    done = command(*again, "--budget", 0)
    assert done.returncode == 0, done.stderr
    assert "are left: the same command goes on with them" in done.stdout
    assert len(json.loads(path.read_text())["runs"]) == len(shorter["runs"])
    done = command(*again)
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert found["runs"][: len(shorter["runs"])] == shorter["runs"]

    def keys(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
        names = ("suite", "size", "engine", "site", "source", "location", "query", "state")
        return {tuple(row[name] for name in names) for row in rows}

    assert keys(found["runs"]) == keys(matrix["runs"])
    assert [row["session"] for row in found["runs"][-3:]] == [2, 2, 2]
    assert len(found["sessions"]) == 3


def test_another_machines_report_is_refused(folder: Path, matrix: dict[str, Any], tmp_path: Path) -> None:
    other = {**matrix, "machine": {**matrix["machine"], "cpu": "another CPU"}}
    (tmp_path / "matrix.json").write_text(json.dumps(other))
    done = command(*options(folder)[:-4], "--out", tmp_path, "--data", folder / "data")
    assert done.returncode == 1
    assert "was measured on another machine (cpu: another CPU)" in done.stderr.replace("\n", " ")


def test_wrong_options_are_named(tmp_path: Path) -> None:
    for wrong, message in (
        (["--suites", "tpcx"], "unknown suite 'tpcx'"),
        (["--peers", "oracle"], "unknown engine 'oracle'"),
        (["--sizes", "0"], "more than 0"),
        (["--sizes", "x"], "numbers, separated by commas"),
        (["--queries", "1"], "--suites names it"),
        (["--suites", "tpch", "--queries", "23"], "tpch has no query '23'"),
        (["--peers", "pandas,numpy"], "unknown engine 'numpy'"),
        (["--states", "warm"], "unknown state 'warm'"),
    ):
        done = command("matrix", "--out", tmp_path, "--list", *wrong)
        assert done.returncode in (1, 2), wrong
        assert message in " ".join(done.stderr.replace("\u2502", " ").split()), (wrong, done.stderr)
    listed = command("matrix", "--out", tmp_path, "--list", "--suites", "taxi", "--device", "cpu", "--peers", "none")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[0] == "taxi/1/warpmill:cpu/tables/host (repeated; all queries)"
    assert not (tmp_path / "matrix.json").exists()


def test_nothing_begins_without_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpmill_bench.cli.matrix.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="DuckDB is not installed"):
        CliRunner().invoke(app, ["matrix", "--quick", "--out", str(tmp_path)], catch_exceptions=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "job26",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("clickbench", "h2o", "taxi", "qj", "ssb", "tpcds", "job")
        ),
    ],
)
@pytest.mark.long
def test_all_queries_of_a_suite_have_duckdbs_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "tpcds":
        monkeypatch.setenv(tpcds.VARIABLE, str(packages()))
    if name == "job":
        job.texts()
    suite = suites.suite(name)
    size = {"job26": 1500, "job": 1500, "h2o": 5000, "clickbench": 20_000, "tpcds": 0.02}.get(name, 0.005)
    asked = ["matrix", "--suites", name, "--sizes", size, "--device", "cpu", "--peers", "duckdb", "--sources", "tables"]
    more = ["--states", "repeated", "--runs", 1, "--threads", 2, "--out", tmp_path, "--data", tmp_path / "data"]
    done = command(*asked, *more, "--discard")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "matrix.json").read_text())["runs"]
    ours = [row for row in rows if row["engine"] == "warpmill"]
    assert [row["query"] for row in ours] == [query.name for query in suites.queries(suite.name, size)]
    assert all(row["verified"] is True for row in ours)
    # The tables are not needed any more; the report describes them.
    assert list((tmp_path / "data").iterdir()) == []
    found = json.loads((tmp_path / "matrix.json").read_text())
    assert {row["query"] for row in found["filters"]} == {one.query for one in suite.selections}
    assert found["data"][0]["rows"] >= size if name in ("h2o", "clickbench") else found["data"][0]["rows"] > 0
