"""BENCHMARKS.md and the table of README.md come from bench/results; results are complete; reports become results."""

from __future__ import annotations

import copy
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def load(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "bench"))


page, record = load("page"), load("record")

RESULT: dict[str, Any] = {
    "table": "cpu",
    "date": "2026-01-02",
    "run": 1,
    "machine": {"cpu": "A", "cores": 2, "memory_gib": 8, "gpus": []},
    "commit": None,
    "command": "warpmill bench x | tee",
    "method": "medians of 5",
    "rows": [{"what": "X", "state": "repeated", "value": 50, "unit": "ms", "peer": {"name": "DuckDB", "value": 200}}],
}


def put(folder: Path, name: str = "x", **other: Any) -> Path:
    result = copy.deepcopy(RESULT) | other
    path = folder / str(result["table"]) / f"{result['date']}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def test_the_page_is_what_the_results_give() -> None:
    assert page.PAGE.read_text() == page.page(page.RESULTS), "make benchmarks-page"
    assert page.PAGE.read_text().count("\n") <= 120


def test_the_readme_has_the_newest_figures(tmp_path: Path) -> None:
    text = page.README.read_text()
    assert text == page.with_results(text, page.RESULTS), "make benchmarks-page"
    assert text.count("\n") <= 90
    with pytest.raises(ValueError, match="no figure for the row"):
        page.with_results(text, tmp_path)
    with pytest.raises(ValueError, match="no <!-- results -->"):
        page.with_results("# Warpmill", page.RESULTS)


def test_the_results_are_complete_and_small() -> None:
    paths = [path for path in page.RESULTS.rglob("*") if path.is_file()]
    assert {path.suffix for path in paths} == {".json"}
    assert {str(path): page.problems(path) for path in paths if page.problems(path)} == {}
    assert sum(path.stat().st_size for path in paths) < 500_000


def test_commands_of_the_page_are_there() -> None:
    # Scripts, modules and examples that commands name are in this checkout.
    for one in page.figures(page.RESULTS):
        command = one.result["command"]
        for script in re.findall(r"\bbench/\w+\.py", command):
            assert (ROOT / script).is_file(), one.path
        for module in re.findall(r"-m (warpmill_bench\.\w+)", command):
            assert (ROOT / "bench/studies" / module.replace(".", "/")).with_suffix(".py").is_file(), one.path
        for package, example in re.findall(r"-p ([\w-]+) --example (\w+)", command):
            assert (ROOT / "crates" / package / "examples" / f"{example}.rs").is_file(), one.path


def test_links_of_the_page_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)", page.PAGE.read_text())
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_a_line_has_the_newest_figure_and_the_one_before(tmp_path: Path) -> None:
    put(tmp_path)
    faster = [{**RESULT["rows"][0], "value": 40, "parts": {"kernels": {"value": 3.14159, "unit": "ms"}}}]
    gpu = {**RESULT["machine"], "gpus": ["H200", "H200"]}
    put(tmp_path, "y", date="2026-01-03", machine=gpu, rows=faster)
    put(tmp_path, "old", date="2025-12-31")
    lines = [line for line in page.page(tmp_path).splitlines() if line.startswith("| X")]
    link = "[`warpmill bench x \\| tee`](bench/results/cpu/2026-01-03-y.json)"
    assert lines == [
        "| X | repeated | 40.0 ms; kernels 3.14 ms | DuckDB 200 | 0.20 | 50.0 ms (0.25), 2026-01-02, 2 cores of A"
        f" | 2026-01-03, 2 x H200 | {link} |"
    ]


def test_rows_are_in_the_order_of_their_numbers_and_states(tmp_path: Path) -> None:
    row = RESULT["rows"][0]
    many = [("SF 10", "repeated"), ("SF 2", "repeated"), ("SF 10", "new process"), ("hidden", "repeated")]
    put(tmp_path, rows=[{**row, "what": what, "state": state, "on_page": what != "hidden"} for what, state in many])
    lines = [line.split(" | ")[:2] for line in page.page(tmp_path).splitlines() if re.match(r"\| (SF|hidden)", line)]
    assert lines == [["| SF 2", "repeated"], ["| SF 10", "new process"], ["| SF 10", "repeated"]]


def test_a_page_that_is_too_long_is_refused(tmp_path: Path) -> None:
    put(tmp_path, rows=[{**RESULT["rows"][0], "what": f"X {i}"} for i in range(120)])
    with pytest.raises(ValueError, match="on_page"):
        page.page(tmp_path)


def test_two_figures_of_one_run_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "b")
    with pytest.raises(ValueError, match="the same run of cpu / X / repeated"):
        page.page(tmp_path)
    put(tmp_path, "b", run=2)
    assert "50.0 ms (0.25), 2026-01-02" in page.page(tmp_path)


@pytest.mark.parametrize("field", ["table", "date", "run", "machine", "commit", "command", "method", "rows"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    path = put(tmp_path)
    path.write_text(json.dumps({key: value for key, value in RESULT.items() if key != field}))
    assert any(field in problem for problem in page.problems(path))
    with pytest.raises(ValueError, match=r"2026-01-02-x\.json"):
        page.page(tmp_path)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"date": "2026-1-2"}, "date"),
        ({"run": 0}, "run"),
        ({"run": True}, "run"),
        ({"commit": "main"}, "commit"),
        ({"command": "python x --out /tmp/w/report.json"}, "folder of one machine"),
        ({"method": "in /home/someone/data"}, "folder of one machine"),
        ({"machine": {"cpu": None, "cores": 2, "gpus": []}}, "memory_gib"),
        ({"machine": {**RESULT["machine"], "gpus": "H200"}}, "gpus"),
        ({"rows": []}, "rows: none"),
        ({"rows": [{**RESULT["rows"][0], "state": "hot"}]}, "row 1: state"),
        ({"rows": [{**RESULT["rows"][0], "value": 0}]}, "row 1: value"),
        ({"rows": [{**RESULT["rows"][0], "value": "fast"}]}, "row 1: value"),
        ({"rows": [{**RESULT["rows"][0], "peer": {"name": "DuckDB"}}]}, "row 1: peer"),
        ({"rows": [{**RESULT["rows"][0], "parts": {"kernels": 3}}]}, "row 1: parts"),
        ({"rows": [{**RESULT["rows"][0], "on-page": False}]}, "row 1: unknown: on-page"),
        ({"method": "x" * 20_000}, "larger than"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, other: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in page.problems(put(tmp_path, **other)))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cpu" / "2026-01-02-x.json"
    path.parent.mkdir()
    path.write_text("{")
    assert page.problems(path)[0].startswith("no JSON")


def report(**other: Any) -> dict[str, Any]:
    def one(engine: str, query: str, ms: float) -> dict[str, Any]:
        states = {state: {"runs_ms": [ms], "median_ms": ms} for state in ("new-statement", "repeated")}
        return {"engine": engine, "query": query, "kernel_ms": 0.25 if engine == "warpmill" else None, "states": states}

    sums = {"warpmill": 3.0, "duckdb": 30.0}
    found: dict[str, Any] = {
        "suite": "tpch",
        "sf": 1.0,
        "threads": 2,
        "machine": {"cpu": "Intel(R) Xeon(R) Processor", "cores": 16, "memory_bytes": 2**33, "gpu": "NVIDIA H100 80GB"},
        "totals_by_state_ms": {"new-statement": sums, "repeated": sums},
        "results": [one(e, q, ms) for e, q, ms in (("warpmill", "1", 1), ("warpmill", "2", 2), ("duckdb", "1", 30))],
    }
    return found | other


def test_a_report_becomes_a_result(tmp_path: Path) -> None:
    def keep() -> dict[str, Any]:
        made = record.record(report(), tmp_path, "gpu", "warpmill bench tpch", "2026-01-02", "TPC-H SF 1", "medians")
        result: dict[str, Any] = json.loads(made.read_text())
        return result

    first = keep()
    assert first["machine"] == {"cpu": "Intel Xeon", "cores": 16, "memory_gib": 8, "gpus": ["H100"]}
    new, repeated = first["rows"]
    assert new["state"] == "new statement"
    assert repeated["peer"] == {"name": "DuckDB", "value": 30.0}
    assert repeated["parts"] == {"kernels": {"value": 0.5, "unit": "ms"}}
    assert repeated["details"] == {"1": [1, 30], "2": [2, None]}
    # The same on the same day is another run of the series.
    assert keep()["run"] == 2
    assert "3.00 ms (0.10), 2026-01-02" in page.page(tmp_path)


def test_a_report_of_several_gpus_becomes_a_result(tmp_path: Path) -> None:
    def way(*times: float) -> dict[str, Any]:
        return {"queries": {str(number): {"median_ms": time} for number, time in enumerate(times, 1)}}

    ways = {"1 program": way(4, 6), "2 range": way(4, 1), "2 auto": way(3, 5), "4 auto": way(1)}
    gpus = [{"name": "NVIDIA H100 80GB HBM3"}] * 2
    found = {"machine": {"gpus": gpus}, "suites": {"tpch 100": ways}, "cores": 32, "memory_gib": 256}
    path = record.record(found, tmp_path, "gpu", "python bench/gpus.py", "2026-01-02", "several GPUs", "medians")
    result = json.loads(path.read_text())
    assert result["machine"] == {"cpu": None, "cores": 32, "memory_gib": 256, "gpus": ["H100", "H100"]}
    # Four did not run every query.
    assert [(row["what"], row["value"], row.get("on_page", True)) for row in result["rows"]] == [
        ("TPC-H SF 100 on two GPUs, in parts wherever possible", 5, False),
        ("TPC-H SF 100 on two GPUs", 8, True),
    ]
    assert "8.00 ms | one GPU 10.0 | 0.80" in page.page(tmp_path)


def test_a_report_without_sums_is_refused(tmp_path: Path) -> None:
    unfinished = report(totals_by_state_ms={"repeated": {"warpmill": None}})
    with pytest.raises(ValueError, match="no sum"):
        record.record(unfinished, tmp_path, "gpu", "warpmill bench", "2026-01-02", "X", "medians")
    with pytest.raises(ValueError, match="folder of one machine"):
        record.record(report(), tmp_path, "gpu", "warpmill bench --json /tmp/x/y.json", "2026-01-02", "X", "medians")
    assert list(tmp_path.rglob("*.json")) == []


def test_the_command_checks_the_page() -> None:
    command = [sys.executable, str(ROOT / "bench/page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
