"""The command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import warpmill
from warpmill import _warpmill
from warpmill.cli import app
from warpmill.cli import bench as bench_commands
from warpmill.cli.statements import complete, split

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

DEVICES = json.loads(_warpmill.devices())


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [3, 1, 2], "s": ["x", "y", None]}), path)
    return path


def test_sql_prints_a_table() -> None:
    done = run("sql", "SELECT 1 AS one")
    assert done.exit_code == 0, done.output
    assert "one" in done.output
    assert "1 row" in done.output


def test_sql_formats(source: Path, tmp_path: Path) -> None:
    query = f"SELECT a, s FROM '{source}' ORDER BY a"
    assert run("sql", query, "--format", "csv").output == "a,s\n1,y\n2,\n3,x\n"
    lines = run("sql", query, "--format", "json").output.splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1, "s": "y"}, {"a": 2, "s": None}, {"a": 3, "s": "x"}]
    out = tmp_path / "out.parquet"
    assert run("sql", query, "--format", "parquet", "--output", out).exit_code == 0
    assert pq.read_table(out)["a"].to_pylist() == [1, 2, 3]


def test_sql_takes_named_files_and_several_statements(source: Path) -> None:
    done = run(
        "sql", "CREATE TABLE u AS SELECT a FROM t; SELECT sum(a) FROM u;", "--table", f"t={source}", "--format", "csv"
    )
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "6"


def test_sql_reads_stdin() -> None:
    assert run("sql", "-", "--format", "csv", stdin="SELECT 5 AS five;\n").output == "five\n5\n"


def test_errors_go_to_stderr_without_a_traceback(tmp_path: Path) -> None:
    for arguments in (
        ["sql", "SELEC"],
        ["sql", "SELECT * FROM nowhere"],
        ["import", str(tmp_path / "missing.parquet"), str(tmp_path / "db" / "t")],
        ["inspect", "t", "--database", str(tmp_path / "none")],
        ["generate", "tpcds", "--sf", "1", "--out", str(tmp_path / "db")],
        ["generate", "ssb", "--sf", "-1", "--out", str(tmp_path / "db")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "warpmill", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, (arguments, done)
        assert done.stderr.strip().splitlines()[-1].startswith("error: "), done.stderr
        assert "Traceback" not in done.stderr


def test_usage_errors_exit_with_2() -> None:
    assert run("sql", "SELECT 1", "--format", "xml").exit_code == 2
    assert run("sql", "SELECT 1", "--table", "noequals").exit_code == 2
    assert run("bench", "tpch", "--queries", "99").exit_code == 2
    assert run("bench", "tpch", "--against", "oracle").exit_code == 2
    assert run("bench", "tpch", "--data-location", "gpu", "--copy-policy", "per-query").exit_code == 2
    assert run("bench", "tpch", "--data-location", "disk", "--copy-policy", "per-dataset").exit_code == 2
    assert run("bench", "start", "tpcz").exit_code == 2
    assert run("bench", "tpch", "--states", "warm").exit_code == 2
    assert run("bench", "tpch", "--runs", "1000").exit_code == 2
    assert run("bench", "tpch", "--against", "cudf-polars").exit_code == 2
    assert run("bench", "ssb", "--against", "cudf-polars", "--source", "parquet").exit_code == 2
    assert run("bench", "tpch", "--profile", "p.json", "--states", "new-process").exit_code == 2
    assert run("bench", "ingest", "--sources", "xml").exit_code == 2


def test_import_and_inspect(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "db" / "t"
    done = run("import", source, target, "--sort-by", "a", "--json")
    assert done.exit_code == 0, done.output
    (table,) = json.loads(done.output)["tables"]
    assert (table["name"], table["rows"]) == ("t", 3)
    assert run("sql", "SELECT a FROM t", "--database", target.parent, "--format", "csv").output == "a\n1\n2\n3\n"
    again = run("import", source, target)
    assert again.exit_code == 1
    assert run("import", source, target, "--replace").exit_code == 0
    columns = json.loads(run("inspect", target, "--json").output)["columns"]
    assert [column["name"] for column in columns] == ["a", "s"]
    assert "encodings" in run("inspect", "t", "--database", target.parent).output


def test_generate(tmp_path: Path) -> None:
    done = run("generate", "ssb", "--sf", "0.001", "--out", tmp_path / "ssb", "--json")
    assert done.exit_code == 0, done.output
    rows = {table["name"]: table["rows"] for table in json.loads(done.output)["tables"]}
    assert rows["date"] == 2556
    assert set(rows) == {"date", "supplier", "customer", "part", "lineorder"}
    assert run("generate", "tpch", "--sf", "0.001", "--out", tmp_path / "tpch", "--parquet").exit_code == 0
    assert pq.read_metadata(tmp_path / "tpch" / "nation.parquet").num_rows == 25


def test_doctor() -> None:
    done = run("doctor", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["machine"]["cores"] >= 1
    assert found["software"]["warpmill"] == warpmill.__version__
    devices = found["devices"]
    assert devices["default"] in ("cpu", "gpu")
    assert bool(devices["gpus"]) == (devices["no_gpu"] is None)
    shown = run("doctor").output
    assert all(part in shown for part in ("cores", "NVRTC", "simulated device", "queries run on"))


@pytest.mark.long
def test_doctor_measures_the_machine(tmp_path: Path) -> None:
    """In separate processes: the profile is read once per process."""
    file = tmp_path / "rates" / "hardware.json"
    environment = {**os.environ, "WARPMILL_HARDWARE": str(file), "COLUMNS": "200"}

    def doctor(*options: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "warpmill", "doctor", *options]
        return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)

    assert "assumptions; `warpmill doctor --calibrate`" in " ".join(doctor().stdout.split())
    done = doctor("--calibrate", "--folder", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    hardware = json.loads(done.stdout)["hardware"]
    assert (hardware["origin"], hardware["file"]) == ("file", str(file))
    profile = json.loads(file.read_text())
    assert profile == hardware["profile"]
    assert {"values", "near", "copy", "host_codecs"} <= set(profile["measured"]), (profile, done.stderr)
    assumed = json.loads(json.dumps(profile))
    for rate in ("values", "near", "far", "copy"):
        assert 1e4 < profile["cpu"][rate] < 1e13, profile
    assert list(tmp_path.iterdir()) == [file.parent], "temporary files are gone"
    shown = doctor().stdout
    assert f"measured, in {file}" in " ".join(shown.split())
    for damaged, reason in (
        (b"{", "EOF"),
        (json.dumps({**assumed, "machine": {"cpu": "Z9", "threads": 3}}).encode(), "another machine"),
    ):
        file.write_bytes(damaged)
        refused = json.loads(doctor("--json").stdout)["hardware"]
        assert refused["origin"] == "refused"
        assert reason in refused["reason"]
    environment["WARPMILL_HARDWARE"] = ""
    done = doctor("--calibrate")
    assert done.returncode == 1
    assert "WARPMILL_HARDWARE is empty" in done.stderr
    assert "not a folder" in " ".join(doctor("--calibrate", "--folder", str(file)).stderr.replace("│", " ").split())
    assert doctor("--folder", str(tmp_path)).returncode == 2


def test_doctor_shows_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"ordinal": 0, "name": "NVIDIA Z9", "arch": "sm_120", "driver": "12.8"}
    gpu |= {"memory_bytes": 80_000_000_000, "free_bytes": 79_000_000_000}
    found: dict[str, Any] = {"gpus": [gpu], "no_gpu": None, "nvrtc": {"version": "13.0", "path": "/lib/[x]/nvrtc.so"}}
    lost = {"source": 1, "destination": 0, "staged": "a pattern [1 MiB] has not arrived"}
    found |= {"links": [{"source": 0, "destination": 1, "staged": None}, lost]}
    found |= {"nvcomp": None, "no_nvcomp": "nvCOMP 6 cannot be loaded"}
    found |= {"no_nvrtc": "NVRTC 13.0 needs a newer driver", "no_simulated_device": "no compiler", "default": "cpu"}
    monkeypatch.setattr(_warpmill, "devices", lambda: json.dumps(found))
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("doctor").output
    for part in ("NVIDIA Z9", "capability 12.0", "79.0 GB of 80.0 GB free", "CUDA 12.8", "/lib/[x]/nvrtc.so"):
        assert part in shown, (part, shown)
    assert "1 of 2 direct, checked with a pattern" in shown
    assert "GPU 1 to 0 through the host: a pattern [1 MiB] has not arrived" in shown
    assert "NVRTC 13.0 needs a newer driver" in shown
    assert "the host undoes zstd and deflate" in shown
    assert "nvCOMP 6 cannot be loaded" in shown
    assert "the CPU, unless" in shown


def test_shell_reads_a_pipe(source: Path) -> None:
    text = ".timer on\nSELECT sum(a)\nFROM t;\n.tables\n.schema t\n.mode csv\nSELECT 'a;b' AS x;\n"
    text += ".nonsense\n.help\n.quit\n"
    done = run("shell", "--table", f"t={source}", stdin=text)
    assert done.exit_code == 1, "a command has failed"
    for part in ("6", " ms", "t  [", "    a Int64", "x\na;b", "'.nonsense' is no command", ".schema"):
        assert part in done.output, (part, done.output)


def test_shell_goes_on_after_an_error() -> None:
    done = run("shell", stdin="SELEC;\nSELECT 42 AS answer;\n")
    assert "42" in done.output
    assert done.exit_code == 1


def test_shell_goes_on_after_an_error_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(self: warpmill.Connection) -> list[warpmill.TableInfo]:
        del self
        raise warpmill.InternalError("internal error: no such luck")

    monkeypatch.setattr(warpmill.Connection, "tables", panics)
    done = run("shell", stdin=".schema nothing\n.tables\nSELECT 42 AS answer;\n")
    for part in ("error: ", "no such luck", "42"):
        assert part in done.output, (part, done.output)


def test_statements_are_split_outside_strings_and_comments() -> None:
    assert split("a; b 'x;y' ; -- c;\n d \"e;f\" /* ; */;; ;") == ["a", "b 'x;y'", '-- c;\n d "e;f" /* ; */']
    assert split(" -- nothing;\n") == []
    assert complete("select 1;")
    assert complete("select 1; -- done")
    assert not complete("select 1")
    assert not complete("select 'a;")
    assert not complete("select 1; select 2")


def test_every_command_explains_itself() -> None:
    for command in ("sql", "shell", "import", "generate", "inspect", "serve", "doctor", "bench"):
        done = run(command, "--help")
        assert done.exit_code == 0
        assert "Usage" in done.output


def test_bench_lists_what_is_installed_and_says_how_to_install_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_commands, "studies", dict)
    shown = " ".join(run("bench", "--help").output.split())
    assert "tpch" in shown
    assert "Not installed: compaction, decode, " in shown
    done = run("bench", "golap", "--sf", 1)
    assert done.exit_code == 2
    assert bench_commands.INSTALL in " ".join(done.output.replace("│", " ").split())
    assert "No such command" in run("bench", "nothing").output


@pytest.mark.parametrize("suite", [pytest.param("tpch", marks=pytest.mark.long), "ssb"])
def test_bench_compares_with_duckdb(suite: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = [sys.executable, "-m", "warpmill", "bench", suite, "--sf", "0.1", "--runs", "2", "--threads", "2"]
    options = ["--verify", "--against", "duckdb", "--json", str(report), "--data", str(tmp_path / "data")]
    # New processes are tested elsewhere.
    states = ["--states", "new-statement,repeated"]
    done = subprocess.run([*program, *options, *states], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(report.read_text())
    assert set(found) == {
        *("suite", "sf", "threads", "device", "data_location", "copy_policy", "machine", "totals_ms", "results"),
        *("source", "processes", "new_statement", "totals_by_state_ms"),
    }
    ours = [row for row in found["results"] if row["engine"] == "warpmill"]
    assert len(ours) == (22 if suite == "tpch" else 13)
    for row in ours:
        assert row["verified"] is True
        assert len(row["runs_ms"]) == 2
        new, repeated = row["states"]["new-statement"], row["states"]["repeated"]
        assert (new["verified"], new["plans_kept"], len(new["runs_ms"])) == (True, 0, 2)
        assert (repeated["verified"], repeated["plans_kept"], repeated["runs_ms"]) == (True, 2, row["runs_ms"])
    assert sum(row["fallbacks"] for row in ours) == 0
    assert set(found["totals_ms"]) == {"warpmill", "duckdb"}


def bench(*options: object) -> str:
    program = [sys.executable, "-m", "warpmill", "bench", "ssb", "--sf", "0.01", "--runs", "2", "--queries", "1.1,2.1"]
    states = ["--states", "repeated"]
    done = subprocess.run([*program, *states, *map(str, options)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")
def test_bench_on_a_device_times_kernels(tmp_path: Path) -> None:
    report, profile, trace = (tmp_path / name for name in ("report.json", "profile.json", "run.trace.json"))
    where = ["--data", tmp_path / "data", "--device", "sim", "--gpu-memory-limit", "1GB"]
    bench(*where, "--verify", "--json", report, "--profile", profile)
    found = json.loads(report.read_text())
    assert found["device"] == "sim"
    for row in found["results"]:
        assert (row["device"], row["verified"], row["not_on_device"]) == ("sim", True, [])
        assert row["kernel_ms"] > 0

    def copies(profile: Path, kind: str) -> list[bool]:
        runs = [run for query in json.loads(profile.read_text())["queries"] for run in query["runs"]]
        transfers = [[t["what"] for p in run["programs"] for t in p["on_device"]["transfers"]] for run in runs]
        return [kind in what for what in transfers]

    assert copies(profile, "segments to the device") == [False] * 4
    bench(*where, "--copy-policy", "per-query", "--profile", profile)
    assert copies(profile, "segments from host memory") == [True] * 4
    bench(*where, "--data-location", "pinned", "--profile", profile, "--profile-level", "transfers", "--json", report)
    assert copies(profile, "segments from pinned memory") == [True] * 4
    found = json.loads(report.read_text())
    assert (found["data_location"], found["copy_policy"]) == ("pinned", "per-query")
    for row in found["results"]:
        (copied,) = (t for t in row["transfers"] if t["what"] == "segments from pinned memory")
        assert copied["bytes"] > 100_000
        assert copied["gb_per_s"] > 0
    levels = {}
    for level in ("summary", "transfers", "operators"):
        bench(*where, "--profile", profile, "--profile-level", level)
        (program,) = json.loads(profile.read_text())["queries"][0]["runs"][0]["programs"]
        assert program["on_device"]["kernel_nanos"] > 0
        levels[level] = {"kernels", "transfers"} & set(program["on_device"])
    assert levels == {"summary": set(), "transfers": {"transfers"}, "operators": {"kernels", "transfers"}}
    bench(*where, "--profile", trace)
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"query 1.1, run 1", "rows to the host", "pipeline 1: scan lineorder"} <= {e["name"] for e in events}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


@pytest.mark.skipif(DEVICES["default"] == "gpu", reason="there is a GPU")
def test_bench_counts_programs_that_the_device_did_not_run(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    output = bench("--data", tmp_path / "data", "--device", "gpu", "--json", report)
    assert "2 program(s) did not run on the device:" in output
    found = json.loads(report.read_text())
    assert found["device"] == "cpu"
    for row in found["results"]:
        assert row["kernel_ms"] is None
        assert len(row["not_on_device"]) == 1


@pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")
def test_bench_start_times_new_processes(tmp_path: Path) -> None:
    report = tmp_path / "start.json"
    options = ["--sf", "0.01", "--queries", "1.1", "--runs", "1", "--device", "sim", "--data", tmp_path / "data"]
    done = run("bench", "start", "ssb", *options, "--json", report)
    assert done.exit_code == 0, done.output
    cold, kept = json.loads(report.read_text())["starts"]
    assert (cold["kernels"], kept["kernels"], kept["device"]) == ("none", "kept", "sim")
    for start in (cold, kept):
        assert 0 < start["imported_ms"] < start["connected_ms"] < start["first_answer_ms"] <= start["all_answers_ms"]
    # Compiling takes a second, loading cached kernels a few milliseconds.
    assert kept["prepare_ms"] < cold["prepare_ms"] / 2
