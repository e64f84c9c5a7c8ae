"""Codecs on the CPU: what each column of SSB, TPC-H and taxi trips shrinks to, and how fast it is read back.

The same rows are written as tables that differ in their codec only. A column is read whole: decompressed, decoded
vector by vector, added up. Beside it, in the same rounds, as many bytes of plain memory are added up: times are
relative to that.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill.bench.report import machine
from warpmill.cli.units import ratio, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill.cli.progress import Reporter

Row = dict[str, Any]

#: The tables whose columns are read.
TABLES = {"ssb": ("lineorder",), "tpch": ("lineitem", "orders"), "taxi": ("trips",)}

#: The forms of tables: the light encodings alone, each codec, and the automatic choice.
CODECS = ("none", "lz4", "snappy", "zstd", "deflate", "gdeflate", "auto")

#: Parts of a column that `sampling` compares with all of it.
SAMPLES = (0.01, 0.05, 0.1)

COLORS = {
    "none": "tab:gray",
    "lz4": "tab:blue",
    "snappy": "tab:green",
    "zstd": "tab:red",
    "deflate": "tab:orange",
    "gdeflate": "tab:purple",
    "auto": "black",
}


def prepare(
    suites: list[str], sf: float, base: Path, settings: dict[str, str], bar: Reporter, again: bool
) -> list[dict[str, Any]]:
    """Write missing databases, one per suite and codec; returns the seconds for each new table."""
    imports = []
    for suite in suites:
        for codec in CODECS:
            place = folder(base, suite, sf, codec)
            if again:
                shutil.rmtree(place, ignore_errors=True)
            with warpmill.connect(place) as con:
                for name, value in {**settings, "codec": codec}.items():
                    con.set(name, value)
                there = {table.name for table in con.tables()}
                for table in TABLES[suite]:
                    if table in there:
                        continue
                    start = time.perf_counter()
                    con.generate(suite, table, sf, progress=bar(f"{suite} {table} ({codec})"))
                    seconds = round(time.perf_counter() - start, 3)
                    imports.append({"suite": suite, "table": table, "codec": codec, "seconds": seconds})
    return imports


def folder(base: Path, suite: str, sf: float, codec: str) -> Path:
    """The database of a suite's tables with a codec."""
    return base / f"{suite}-sf{sf:g}" / codec


def measure(
    suites: list[str], sf: float, base: Path, bandwidth: float, threads: int, runs: int, told: Callable[[str], None]
) -> list[Row]:
    """One row per column and codec."""
    rows: list[Row] = []
    for suite in suites:
        for table in TABLES[suite]:
            places = [folder(base, suite, sf, codec) / table for codec in CODECS]
            stored = [_warpmill.inspect(str(place), bandwidth) for place in places]
            for at, column in enumerate(stored[0]):
                told(f"{table}.{column['name']}")
                plain, scans = _warpmill.scan_column([str(place) for place in places], at, runs, threads)
                read = column["plain_bytes"] / statistics.median(plain)
                for codec, found, times in zip(CODECS, stored, scans, strict=True):
                    rows.append(_row(suite, table, codec, found[at], times, read))
    return rows


def storage_bandwidth(settings: dict[str, str]) -> float:
    """The storage's bandwidth in the cost model, under these settings."""
    with warpmill.connect() as con:
        for name, value in settings.items():
            con.set(name, value)
        return float(con.settings()["warpmill.storage_bandwidth"])


def sampling(suites: list[str], sf: float, base: Path, settings: dict[str, str], bar: Reporter) -> list[Row]:
    """The quality of choices from samples: what is reached, relative to choosing by all bytes (GOLAP, table 1).

    For `size` that is the stored bytes of each column, for `time` the seconds of its scan by the cost model.
    """
    bandwidth = storage_bandwidth(settings)
    rows: list[Row] = []
    for suite in suites:
        for objective in ("time", "size"):
            reached: dict[float, list[float]] = {}
            for part in (*SAMPLES, 1.0):
                place = folder(base, suite, sf, f"auto-{objective}-{part:g}")
                asked = {"codec": "auto", "codec_objective": objective, "codec_sample": f"{part:g}"}
                with warpmill.connect(place) as con:
                    for name, value in {**settings, **asked}.items():
                        con.set(name, value)
                    there = {table.name for table in con.tables()}
                    for table in TABLES[suite]:
                        if table not in there:
                            con.generate(suite, table, sf, progress=bar(f"{suite} {table} ({objective}, {part:.0%})"))
                columns = [c for table in TABLES[suite] for c in _warpmill.inspect(str(place / table), bandwidth)]
                reached[part] = [
                    c["stored_bytes"] if objective == "size" else c["plain_bytes"] / c["predicted_bytes_per_s"]
                    for c in columns
                ]
            for part in SAMPLES:
                off = [found / best for found, best in zip(reached[part], reached[1.0], strict=True)]
                kept = {"suite": suite, "objective": objective, "sample": part}
                rows.append({**kept, "mean": round(statistics.mean(off), 4), "max": round(max(off), 4)})
    return rows


def sampling_table(rows: list[Row]) -> Table:
    """One line per suite and objective."""
    out = Table(
        title="choices from samples / from all bytes: mean (largest)", title_justify="left", box=box.SIMPLE_HEAD
    )
    out.add_column("suite")
    out.add_column("objective")
    for part in SAMPLES:
        out.add_column(f"{part:.0%}", justify="right")
    found = {(row["suite"], row["objective"], row["sample"]): row for row in rows}
    for suite, objective in dict.fromkeys((row["suite"], row["objective"]) for row in rows):
        cells = [found[suite, objective, part] for part in SAMPLES]
        out.add_row(suite, objective, *(f"{cell['mean']:.3f} ({cell['max']:.3f})" for cell in cells))
    return out


def _row(suite: str, table: str, codec: str, found: dict[str, Any], times: list[float], read: float) -> Row:
    median = statistics.median(times)
    rate = found["plain_bytes"] / median
    kept = ("type", "rows", "encodings", "codecs", "plain_bytes", "light_bytes", "stored_bytes")
    return {
        "suite": suite,
        "table": table,
        "column": found["name"],
        "codec": codec,
        **{name: found[name] for name in kept},
        "runs_s": [round(seconds, 6) for seconds in times],
        "median_s": round(median, 6),
        "gb_per_s": round(rate / 1e9, 3),
        "of_plain_read": round(rate / read, 4),
        "plain_read_gb_per_s": round(read / 1e9, 3),
        "decompress_gb_per_s": round(found["decompress_bytes_per_s"] / 1e9, 3)
        if found["decompress_bytes_per_s"]
        else None,
        "predicted_gb_per_s": round(found["predicted_bytes_per_s"] / 1e9, 3),
    }


def as_json(
    asked: dict[str, Any], rows: list[Row], imports: list[dict[str, Any]], sampled: list[Row]
) -> dict[str, Any]:
    """The report of docs/bench.md."""
    return {
        "suite": "scan",
        **asked,
        "machine": machine(),
        "imports": imports,
        "sampling": sampled,
        "results": rows,
    }


def table(title: str, rows: list[Row]) -> Table:
    """One line per column: its ratio with each codec, and the bandwidth relative to reading plain memory."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("column", no_wrap=True)
    out.add_column("plain", justify="right", no_wrap=True)
    for codec in CODECS:
        out.add_column(f"{codec}\nratio", justify="right", no_wrap=True)
        out.add_column("\nspeed", justify="right", no_wrap=True)
    out.add_column("chosen", no_wrap=True)
    for name, group in _columns(rows).items():
        cells = []
        for codec in CODECS:
            cells += [
                ratio(group[codec]["plain_bytes"], group[codec]["stored_bytes"]),
                f"{group[codec]['of_plain_read']:.2f}",
            ]
        out.add_row(name, size(group["none"]["plain_bytes"]), *cells, ", ".join(group["auto"]["codecs"]))
    for suite in dict.fromkeys(row["suite"] for row in rows):
        out.add_section()
        cells = []
        chosen = [row for row in rows if row["suite"] == suite]
        plain = sum(row["plain_bytes"] for row in chosen if row["codec"] == "none")
        for codec in CODECS:
            of_codec = [row for row in chosen if row["codec"] == codec]
            seconds = sum(row["median_s"] for row in of_codec)
            reading = sum(row["plain_bytes"] / row["plain_read_gb_per_s"] / 1e9 for row in of_codec)
            cells += [ratio(plain, sum(row["stored_bytes"] for row in of_codec)), f"{reading / seconds:.2f}"]
        out.add_row(f"all of {suite}", size(plain), *cells, "")
    return out


def _columns(rows: list[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(f"{row['table']}.{row['column']}", {})[row["codec"]] = row
    return found


def save(report: dict[str, Any], directory: str) -> list[str]:
    """Write ``scan.json`` and ``scan.png``; return their paths."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    (place / "scan.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    _plot(report["results"], place / "scan.png")
    return [str(place / "scan.json"), str(place / "scan.png")]


def _plot(rows: list[Row], path: Path) -> None:
    """Ratio against speed, a point per column and codec, a panel per suite."""
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    suites = list(dict.fromkeys(row["suite"] for row in rows))
    figure = Figure(figsize=(5.5 * len(suites) + 0.5, 5), layout="constrained")
    for at, suite in enumerate(suites):
        axes = figure.add_subplot(1, len(suites), at + 1)
        for codec in CODECS:
            points = [row for row in rows if row["suite"] == suite and row["codec"] == codec]
            ratios = [row["plain_bytes"] / row["stored_bytes"] for row in points]
            speeds = [row["of_plain_read"] for row in points]
            if codec == "auto":
                axes.scatter(ratios, speeds, s=60, facecolors="none", edgecolors=COLORS[codec], label=codec)
            else:
                axes.scatter(ratios, speeds, s=18, color=COLORS[codec], label=codec)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.set(title=suite, xlabel="plain / stored bytes", ylabel="bandwidth / that of plain memory")
        axes.legend()
    figure.savefig(path, dpi=150)
