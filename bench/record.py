"""A result for BENCHMARKS.md, made of a report of `warpmill bench tpch` or `ssb`, or of `bench/gpus.py`.

    warpmill bench tpch --sf 1 --against duckdb --verify --json report.json
    python bench/record.py report.json --table cpu --command "warpmill bench tpch --sf 1 --against duckdb --verify"
    make benchmarks-page

Sums and figures by query are kept, single runs are not. Reports of `bench/gpus.py` do not have the host: `--cores` and
`--memory-gib` say it. Other results are written by hand (docs/bench.md).
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import page

SUITES = {"tpch": "TPC-H", "ssb": "SSB"}

#: Numbers in names of series.
WORDS = {1: "one", 2: "two", 4: "four", 8: "eight"}


def rows(report: dict[str, Any], what: str) -> list[dict[str, Any]]:
    """A row for each state that the report has sums of; a ValueError where there is none."""
    found = []
    for state, sums in report["totals_by_state_ms"].items():
        ours = sums.get("warpmill")
        if ours is None:
            continue
        row: dict[str, Any] = {"what": what, "state": state.replace("-", " "), "value": ours, "unit": "ms"}
        others = [name for name, value in sums.items() if name != "warpmill" and value]
        if others:
            row["peer"] = {"name": names(others[0]), "value": sums[others[0]]}
        kernels = [one["kernel_ms"] for one in report["results"] if one["engine"] == "warpmill"]
        if state == "repeated" and kernels and None not in kernels and sum(kernels) > 0:
            row["parts"] = {"kernels": {"value": round(sum(kernels), 3), "unit": "ms"}}
        row["details"] = queries(report, state, ["warpmill", *others[:1]])
        found.append(row)
    if not found:
        raise ValueError("the report has no sum: did every query run?")
    return found


def rows_of_gpus(report: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each suite, number of GPUs and placement, beside one GPU; a ValueError without any."""
    found = []
    for name, ways in report["suites"].items():
        suite, sf = name.split()
        times = {way: {query: one["median_ms"] for query, one in of["queries"].items()} for way, of in ways.items()}
        one_gpu = times.pop("1 program")
        for way, by_query in times.items():
            count, placement = way.split()
            if by_query.keys() != one_gpu.keys():
                continue
            row: dict[str, Any] = {
                "what": f"{SUITES[suite]} SF {sf} on {WORDS[int(count)]} GPUs",
                "state": "repeated",
                "value": round(sum(by_query.values()), 3),
                "unit": "ms",
                "peer": {"name": "one GPU", "value": round(sum(one_gpu.values()), 3)},
                "details": {query: [round(one_gpu[query], 2), round(by_query[query], 2)] for query in one_gpu},
            }
            if placement == "range":
                row |= {"what": f"{row['what']}, in parts wherever possible", "on_page": False}
            found.append(row)
    if not found:
        raise ValueError("the report has no sum: did every query run on several GPUs?")
    return found


def names(engine: str) -> str:
    """The engine's name as text."""
    return {"duckdb": "DuckDB", "datafusion": "DataFusion", "polars": "Polars"}.get(engine, engine)


def queries(report: dict[str, Any], state: str, engines: list[str]) -> dict[str, Any]:
    """The medians of each query: a number, or ours and the peer's."""
    found: dict[str, dict[str, float]] = {}
    for one in report["results"]:
        median = one["states"].get(state, {}).get("median_ms")
        if one["engine"] in engines and median is not None:
            found.setdefault(one["query"], {})[one["engine"]] = round(median, 2)
    if len(engines) == 1:
        return {query: by[engines[0]] for query, by in found.items()}
    return {query: [by.get(engine) for engine in engines] for query, by in found.items()}


def machine(report: dict[str, Any]) -> dict[str, Any]:
    """The machine of a report, without facts that do not affect speed."""
    found = report["machine"]
    if "suites" in report:
        gpus = [short(gpu["name"]) for gpu in found["gpus"]]
        return {"cpu": None, "cores": report.get("cores"), "memory_gib": report.get("memory_gib"), "gpus": gpus}
    gpus = [short(found["gpu"])] if found.get("gpu") else []
    cpu = re.sub(r"\((?:R|TM)\)", "", found["cpu"]).removesuffix(" Processor").strip() if found["cpu"] else None
    memory = round(found["memory_bytes"] / 2**30) if found["memory_bytes"] else None
    return {"cpu": cpu, "cores": found["cores"], "memory_gib": memory, "gpus": gpus}


def short(gpu: str) -> str:
    """The name of a GPU without its maker and its memory."""
    return gpu.removeprefix("NVIDIA ").split()[0]


def commit() -> str | None:
    """The commit of this checkout, with a plus sign where files differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(page.ROOT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    found = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"{found}{'+' if changed else ''}" if found else None


def record(
    report: dict[str, Any],
    folder: Path,
    table: str,
    command: str,
    date: str,
    what: str,
    method: str,
    measured: str | None = None,
) -> Path:
    """Writes the result and returns its path; a ValueError if it would not be complete. `measured` is a commit."""
    made = rows_of_gpus(report) if "suites" in report else rows(report, what)
    earlier = [one for one in page.figures(folder) if one.result["date"] == date]
    series = {(table, row["what"], row["state"]) for row in made}
    run = 1 + max((one.result["run"] for one in earlier if one.series in series), default=0)
    result = {
        "table": table,
        "date": date,
        "run": run,
        "machine": machine(report),
        "commit": measured,
        "command": command,
        "method": method,
        "rows": made,
    }
    name = "-".join(re.findall(r"[a-z0-9.]+", what.lower()))
    path = folder / table / f"{date}-{name}{f'-{run}' if run > 1 else ''}.json"
    while path.exists():
        path = path.with_stem(f"{path.stem}-more")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(result), encoding="utf-8")
    if wrong := page.problems(path):
        path.unlink()
        raise ValueError("; ".join(wrong))
    return path


def text(result: dict[str, Any]) -> str:
    """A result as JSON, a row a line."""
    head = json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=2, ensure_ascii=False)
    lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    return f'{head[:-2]},\n  "rows": [\n{lines}\n  ]\n}}\n'


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--table", choices=page.TABLES, required=True)
    parser.add_argument("--command", required=True, help="the command that wrote the report")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--what", help="name of the series; default: suite and scale factor")
    parser.add_argument("--cores", type=int, help="cores of the host, for reports that do not have them")
    parser.add_argument("--memory-gib", type=int, help="its memory, for reports that do not have it")
    parser.add_argument("--commit", help="the commit that was measured; default: this checkout's; 'unknown'")
    parser.add_argument("--method", help="how it was measured; default: threads and runs")
    options = parser.parse_args()
    report = json.loads(options.report.read_text(encoding="utf-8"))
    if "suites" in report:
        report |= {"cores": options.cores, "memory_gib": options.memory_gib}
        what, method = options.what or "several GPUs", "medians; details: one GPU, several"
    else:
        what = options.what or f"{SUITES[report['suite']]} SF {report['sf']:g}"
        runs = max(len(state["runs_ms"]) for one in report["results"] for state in one["states"].values())
        verified = any(state["verified"] for one in report["results"] for state in one["states"].values())
        compared = "answers compared" if verified else "answers not compared"
        method = f"{report['threads']} threads, sums of medians of {runs}; {compared}"
    method = options.method or method
    measured = None if options.commit == "unknown" else options.commit or commit()
    try:
        print(record(report, page.RESULTS, options.table, options.command, options.date, what, method, measured))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
