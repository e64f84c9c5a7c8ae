"""BENCHMARKS.md and the table of README.md, written from the results in `bench/results`: `make benchmarks-page`.

A result is a JSON file of one run of one command: when, where and how it was measured, and rows of figures. Rows of the
same table, name and state are a series: the page has the newest figure of each, and the one before. `bench/record.py`
makes a result of a report of `warpmill bench`; docs/bench.md describes the fields.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "BENCHMARKS.md"
README = ROOT / "README.md"

#: The tables of the page, in its order.
TABLES = {
    "cpu": "Own tables on a CPU",
    "parquet": "From Parquet files",
    "gpu": "Queries on a GPU",
    "together": "CPU and GPU together",
    "memory": "Larger than device memory",
    "pruning": "Pruning",
    "parts": "Parts on their own",
    "hosts": "Through other systems",
}

#: The series that README.md shows, by table, name and state.
README_SERIES = (
    ("cpu", "TPC-H SF 1", "new statement"),
    ("parquet", "TPC-H SF 1", "new process"),
    ("parquet", "TPC-H SF 1", "new statement"),
    ("gpu", "SSB SF 100", "new statement"),
    ("gpu", "SSB SF 100", "repeated"),
    ("hosts", "TPC-H SF 30 in DuckDB on a GPU", "repeated"),
    ("hosts", "TPC-H SF 30 in DuckDB on a GPU, kernels kept", "new process"),
)

#: States of the measured statement, in the order of a table's rows.
STATES = ("new process", "new statement", "repeated", "one run")

MOST_LINES = 120
MOST_BYTES = 16_384

#: Folders that exist on one machine only.
_FOLDERS = re.compile(r"(?<![\w.])/(?:home|tmp|work|root|mnt|media|data|usr|opt|var|scratch|Users|private)/|\b[A-Z]:\\")
_COMMIT = re.compile(r"[0-9a-f]{7,40}\+?")

_INTRODUCTION = """# Benchmarks

<!-- Written by `make benchmarks-page` from bench/results. Edit those files, not this one. -->

Times are medians, summed over queries, from SQL text to the last row of the result; *ratio* is the figure by the one
beside it, which was measured in the same run. A *new process* is timed from its start, a *new statement* has other
literals in every run, a *repeated* one the same text. [docs/bench.md](docs/bench.md) says how engines are set up and
how answers are compared. Each command links to its result, which has the method, figures by query and rows that are
not shown here. The previous figure is from the date that it names, and from the same kind of machine unless it names
another.
"""


_BEGIN = "<!-- results -->\n"
_END = "<!-- /results -->"


@dataclass(frozen=True)
class Figure:
    """A row of a result, with the run that it is from."""

    path: Path
    result: dict[str, Any]
    row: dict[str, Any]

    @property
    def series(self) -> tuple[str, str, str]:
        """The table, the name and the state that figures are compared by."""
        return self.result["table"], self.row["what"], self.row["state"]

    @property
    def age(self) -> tuple[str, int]:
        """Orders the figures of a series."""
        return self.result["date"], self.result["run"]

    @property
    def ratio(self) -> float | None:
        """The figure by that of the peer of the same run."""
        peer = self.row.get("peer")
        return None if peer is None else self.row["value"] / peer["value"]


def problems(path: Path) -> list[str]:
    """The missing and wrong fields of a result; an empty list for a complete one."""
    text = path.read_text(encoding="utf-8")
    try:
        result = json.loads(text)
    except ValueError as error:
        return [f"no JSON: {error}"]
    if not isinstance(result, dict):
        return ["no JSON object"]
    found = []
    if len(text.encode()) > MOST_BYTES:
        found.append(f"larger than {MOST_BYTES} bytes: keep what the page or a reader needs")
    if folder := _FOLDERS.search(text):
        found.append(f"names a folder of one machine: {text[folder.start() : folder.start() + 40]!r}")
    if result.get("table") not in TABLES:
        found.append(f"table: none of {', '.join(TABLES)}")
    elif path.parent.name != result["table"]:
        found.append(f"lies in {path.parent.name}, not in {result['table']}")
    if not _is_date(result.get("date")):
        found.append("date: not YYYY-MM-DD")
    elif not path.name.startswith(result["date"]):
        found.append("the file's name does not begin with the date")
    if not _is_count(result.get("run")):
        found.append("run: not a number from 1")
    if "commit" not in result or not (result["commit"] is None or _is_commit(result["commit"])):
        found.append("commit: neither hexadecimal digits nor null")
    found += [f"{key}: no text" for key in ("command", "method") if not _is_text(result.get(key))]
    found += _machine_problems(result.get("machine"))
    rows = result.get("rows")
    if not isinstance(rows, list) or not rows:
        return [*found, "rows: none"]
    return found + [f"row {number}: {what}" for number, row in enumerate(rows, 1) for what in _row_problems(row)]


def _machine_problems(machine: Any) -> list[str]:
    if not isinstance(machine, dict):
        return ["machine: missing"]
    found = [f"machine.{key}: missing" for key in ("cpu", "cores", "memory_gib", "gpus") if key not in machine]
    if not found and not _is_count(machine["cores"]):
        found.append("machine.cores: not a number from 1")
    if not found and not (isinstance(machine["gpus"], list) and all(map(_is_text, machine["gpus"]))):
        found.append("machine.gpus: not a list of names")
    return found


def _row_problems(row: Any) -> list[str]:
    if not isinstance(row, dict):
        return ["no object"]
    found = [f"{key}: no text" for key in ("what", "unit") if not _is_text(row.get(key))]
    if row.get("state") not in STATES:
        found.append(f"state: none of {', '.join(STATES)}")
    if not _is_number(row.get("value")):
        found.append("value: no number above 0")
    peer = row.get("peer", {"name": "none", "value": 1})
    if not (isinstance(peer, dict) and _is_text(peer.get("name")) and _is_number(peer.get("value"))):
        found.append("peer: no name or no value above 0")
    for name, part in (row.get("parts") or {}).items():
        if not (isinstance(part, dict) and _is_number(part.get("value")) and _is_text(part.get("unit"))):
            found.append(f"parts: {name} has no value above 0 or no unit")
    if unknown := set(row) - {"what", "state", "value", "unit", "peer", "parts", "details", "on_page"}:
        found.append(f"unknown: {', '.join(sorted(unknown))}")
    return found


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_commit(value: Any) -> bool:
    return isinstance(value, str) and _COMMIT.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def figures(folder: Path) -> list[Figure]:
    """All rows of all results; a ValueError names results with problems, and series with two figures of one run."""
    paths = sorted(folder.rglob("*.json"))
    if wrong := [f"{path.relative_to(folder)}: {what}" for path in paths for what in problems(path)]:
        raise ValueError("\n".join(wrong))
    results = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    found = [Figure(path.relative_to(folder), result, row) for path, result in results for row in result["rows"]]
    seen: dict[tuple[object, ...], Path] = {}
    for one in found:
        other = seen.setdefault((*one.series, *one.age), one.path)
        if other is not one.path:
            name = " / ".join(one.series)
            raise ValueError(f"{other} and {one.path} have the same run of {name}: give one another run")
    return found


def page(folder: Path) -> str:
    """The text of BENCHMARKS.md; a ValueError if it had more lines than anyone reads."""
    series: dict[tuple[str, str, str], list[Figure]] = {}
    for one in figures(folder):
        series.setdefault(one.series, []).append(one)
    text = _INTRODUCTION
    for table, title in TABLES.items():
        lines = []
        for key in sorted((key for key in series if key[0] == table), key=_place):
            newest, *before = sorted(series[key], key=lambda one: one.age, reverse=True)
            if newest.row.get("on_page", True):
                lines.append(_line(newest, before[0] if before else None))
        if lines:
            text += f"\n## {title}\n\n| what | state | newest | beside | ratio | previous | measured | command |\n"
            text += "|---|---|---:|---:|---:|---|---|---|\n" + "".join(lines)
    if (count := text.count("\n")) > MOST_LINES:
        raise ValueError(f"{count} lines, more than {MOST_LINES}: set on_page to false in rows that matter less")
    return text


def with_results(readme: str, folder: Path) -> str:
    """The text of README.md with the newest figures between its marks; a ValueError without marks or figures."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md has no {_BEGIN.strip()} before {_END}")
    lines = []
    for series in README_SERIES:
        newest = max((one for one in figures(folder) if one.series == series), key=lambda one: one.age, default=None)
        if newest is None:
            raise ValueError(f"there is no figure for the row {' / '.join(series)} of README.md")
        table, what, state = series
        source = what
        if table in ("cpu", "parquet"):
            source += f", {TABLES[table][0].lower()}{TABLES[table][1:]}"
        elif table == "gpu":
            source += " on a GPU"
        peer = newest.row.get("peer")
        unit = newest.row["unit"]
        cells = [
            f"{source}, {state}",
            f"{number(newest.row['value'])} {unit}",
            f"{peer['name']} {number(peer['value'])} {unit}" if peer else "",
            f"{machine(newest)}, {newest.result['date']}",
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    head = "\n| all queries, sums of medians | Warpmill | beside | measured on |\n|---|---:|---:|---|\n"
    return "".join([before, begin, head, *lines, "\n", end, after])


def _place(series: tuple[str, str, str]) -> tuple[list[tuple[int, str]], int]:
    """Orders rows by name, numbers in it by value, then by state."""
    _, what, state = series
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", what)], STATES.index(state)


def _line(newest: Figure, before: Figure | None) -> str:
    row, result = newest.row, newest.result
    unit = row["unit"]
    value = "; ".join(
        [
            f"{number(row['value'])} {unit}",
            *(f"{name} {number(part['value'])} {part['unit']}" for name, part in row.get("parts", {}).items()),
        ]
    )
    peer = row.get("peer")
    beside = f"{peer['name']} {number(peer['value'])}" if peer else ""
    cells = [row["what"], row["state"], value, beside, _ratio(newest), "", "", ""]
    if before:
        ratio = f" ({_ratio(before)})" if before.ratio else ""
        where = [before.result["date"], *([machine(before)] if machine(before) != machine(newest) else [])]
        cells[5] = f"{number(before.row['value'])} {before.row['unit']}{ratio}, {', '.join(where)}"
    cells[6] = f"{result['date']}, {machine(newest)}"
    command = result["command"].replace("|", "\\|")
    cells[7] = f"[`{command}`](bench/results/{newest.path.as_posix()})"
    return f"| {' | '.join(cells)} |\n"


def _ratio(figure: Figure) -> str:
    return "" if figure.ratio is None else number(figure.ratio)


def machine(figure: Figure) -> str:
    """The GPUs of a machine, or its cores and their model."""
    found = figure.result["machine"]
    gpus = found["gpus"]
    if gpus:
        return f"{len(gpus)} x {gpus[0]}" if len(gpus) > 1 else str(gpus[0])
    return f"{found['cores']} cores" + (f" of {found['cpu']}" if found["cpu"] else "")


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.01 else f"{value:.2g}"


def main() -> None:
    """Writes both files, or with --check compares them with what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit code 1 if a file has another text")
    options = parser.parse_args()
    try:
        texts = {PAGE: page(RESULTS), README: with_results(README.read_text(encoding="utf-8"), RESULTS)}
    except ValueError as error:
        sys.exit(str(error))
    for path, text in texts.items():
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is not what bench/results gives: make benchmarks-page")


if __name__ == "__main__":
    main()
