"""Q0J to Q4J: joins of SSB's fact table with 0 to 4 dimensions, by selectivity, number of drives and codec.

The micro-benchmark of "The Effectiveness of Compression for GPU-Accelerated Queries on Out-of-Memory Datasets"
(DaMoN 2025, section 4.1). The same six columns of `lineorder` are stored once per codec; every query reads all six, so
that queries differ in the work per row only. A number of drives is a limit of the bandwidth at which a device reads
tables from disk. What the paper found is looked up in what was measured: `warpmill_bench.qj_findings`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich import box
from rich.table import Table

import warpmill
from warpmill.bench.report import machine
from warpmill.cli.units import ratio, size
from warpmill.connection import _bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from warpmill.cli.progress import Reporter

Row = dict[str, Any]

N = TypeVar("N", int, float)

#: One form each: the light encodings alone, codecs over them, and the choice of codecs by samples.
FIXED = ("none", "lz4", "snappy", "zstd", "sampled")

#: In addition a table with both forms, from which each query takes the faster one.
CODECS = (*FIXED, "auto")

#: Unmeasured runs, after which the choice of a program has settled.
SETTLE = 6

#: A dimension, the fact table's key of it, its own key: in the order of their sizes at the paper's scale factor.
DIMENSIONS = (
    ("date", "lo_orderdate", "d_datekey"),
    ("supplier", "lo_suppkey", "s_suppkey"),
    ("part", "lo_partkey", "p_partkey"),
    ("customer", "lo_custkey", "c_custkey"),
)

#: The columns that the fact table keeps, and every query reads.
COLUMNS = (*(key for _, key, _ in DIMENSIONS), "lo_revenue", "lo_quantity")

#: `lo_quantity` is uniform over 1 to this.
QUANTITIES = 50

#: The setting that emulates drives.
LIMIT = "io_bandwidth_limit"

COLORS = {
    "none": "tab:gray",
    "lz4": "tab:blue",
    "snappy": "tab:green",
    "zstd": "tab:red",
    "sampled": "tab:purple",
    "auto": "black",
}


@dataclass(frozen=True)
class Sweep:
    """The points to measure: every combination of these."""

    joins: list[int]
    #: Parts of the fact table's rows that the filter keeps, in steps of 0.02.
    selectivities: list[float]
    #: The numbers of drives; None: the disk's own speed, and for other locations.
    drives: list[int | None]
    #: Bytes per second of one drive.
    drive: float
    runs: int

    def rate(self, drives: int | None) -> float | None:
        """Bytes per second of some drives."""
        return None if drives is None else drives * self.drive


@dataclass
class Store:
    """The tables with a codec, and a session that reads them."""

    codec: str
    con: warpmill.Connection
    #: The fact table's columns, as `Connection.inspect` tells.
    columns: list[dict[str, Any]]
    #: For `sampled`: the bandwidth for which the choice was made.
    storage_bandwidth: float | None = None

    def bytes(self, kind: str) -> int:
        """`plain_bytes`, `light_bytes` or `stored_bytes` of the fact table."""
        return sum(column[kind] for column in self.columns)

    def form_bytes(self, forms: dict[str, str]) -> int:
        """Bytes of the fact table's columns in a form each; chunks that gain nothing from a codec have one form."""
        heavy = {name for name, form in forms.items() if form.startswith("heavy")}
        return sum(
            column["heavy_bytes"] + column["once_bytes"] if column["name"] in heavy else column["stored_bytes"]
            for column in self.columns
        )

    def as_json(self) -> Row:
        """The account of it in the report."""
        kinds = ("plain_bytes", "light_bytes", "stored_bytes")
        return {
            "codec": self.codec,
            "storage_bandwidth": self.storage_bandwidth,
            **{kind: self.bytes(kind) for kind in kinds},
            "ratio": round(self.bytes("plain_bytes") / self.bytes("stored_bytes"), 4),
            "columns": {column["name"]: sorted(column["codecs"]) for column in self.columns},
            "heavy_bytes": sum(column["heavy_bytes"] for column in self.columns),
            "heavy": {column["name"]: sorted(column["heavy"]) for column in self.columns if column["heavy"]},
        }


@dataclass
class Stores:
    """All of them, open."""

    fixed: list[Store]
    #: By the number of drives for whose bandwidth it was chosen.
    sampled: dict[int | None, Store]
    #: The database with both forms.
    auto: Store
    #: The CPU's session over the tables without a codec: the reference for all answers.
    reference: warpmill.Connection

    def at(self, drives: int | None) -> list[Store]:
        """One per codec."""
        return [*self.fixed, self.sampled[drives], self.auto]

    def every(self) -> Iterator[Store]:
        """The distinct values."""
        yield from self.fixed
        yield from {id(store): store for store in self.sampled.values()}.values()
        yield self.auto

    def close(self) -> None:
        """End all sessions."""
        for store in self.every():
            store.con.close()
        self.reference.close()


@dataclass
class Measured:
    """All of a run."""

    rows: list[Row] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)


def sweep(joins: str, selectivities: str, drives: str | None, drive: str, runs: int, limited: bool) -> Sweep:
    """The options of the command line. `limited`: a device reads from disk, which is what can be slowed down."""
    parts = sorted(set(_numbers("--selectivities", selectivities, float)))
    for part in parts:
        if not 0 < part <= 1 or abs(part * QUANTITIES - round(part * QUANTITIES)) > 1e-9:
            raise typer.BadParameter(f"selectivity {part:g}: --selectivities are 0.02, 0.04 ... 1")
    wanted = sorted(set(_numbers("--joins", joins, int)))
    if wanted[0] < 0 or wanted[-1] > len(DIMENSIONS):
        raise typer.BadParameter(f"--joins are from 0 to {len(DIMENSIONS)}")
    try:
        rate = _bytes(drive)
    except ValueError as error:
        raise typer.BadParameter(f"--drive-bandwidth: {error}") from None
    if not rate or rate < 0:
        raise typer.BadParameter("--drive-bandwidth is more than 0")
    counts: list[int | None] = [None]
    if drives is None and limited:
        counts = [1, 2, 4, 8, 12]
    elif drives is not None and drives != "unlimited":
        counts = [*sorted(set(_numbers("--drives", drives, int)))]
        if any(not count or count < 1 for count in counts):
            raise typer.BadParameter("--drives are 1 or more, or unlimited")
        if not limited:
            raise typer.BadParameter("--drives slows down what a device reads from disk: --data-location disk, no CPU")
    return Sweep(wanted, parts, counts, float(rate), runs)


def _numbers(option: str, text: str, kind: type[N]) -> list[N]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: numbers, separated by commas") from None


def query(joins: int, selectivity: float) -> str:
    """QnJ. With four joins it is the paper's listing 1.

    The maxima make each query read all six columns, as in the paper, even where the engine knows that the filter
    keeps every row.
    """
    joined = DIMENSIONS[:joins]
    read = ["lo_quantity", *(key for _, key, _ in DIMENSIONS[joins:])]
    tables = ["lineorder", *(table for table, _, _ in joined)]
    conditions = [f"{key} = {own}" for _, key, own in joined]
    conditions.append(f"lo_quantity < {round(selectivity * QUANTITIES) + 1}")
    maxima = ", ".join(f"max({column})" for column in read)
    return f"SELECT sum(lo_revenue), {maxima} FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}"


def prepare(
    sf: float, base: Path, sweep: Sweep, settings: dict[str, str], bar: Reporter, again: bool, heavy: str = "auto"
) -> tuple[dict[str, Path], dict[int | None, Path]]:
    """Write what is missing: one database per fixed codec, one of codecs by samples per bandwidth, one of both forms.

    `heavy` is the codec of the latter's second form; `auto`: by samples, for the lowest bandwidth.
    """
    folder = base / f"ssb-sf{sf:g}"
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    fixed = {codec: folder / codec for codec in FIXED if codec != "sampled"}
    slowest = min(sweep.drives, key=lambda drives: sweep.rate(drives) or float("inf"))
    both = folder / f"both-{_sampled(sweep.rate(slowest), settings) if heavy == 'auto' else heavy}"
    sampled = {drives: folder / _sampled(sweep.rate(drives), settings) for drives in sweep.drives}
    places = {place: codec for codec, place in fixed.items()} | {both: heavy} | dict.fromkeys(sampled.values(), "auto")
    rates = {sampled[drives]: sweep.rate(drives) for drives in sweep.drives} | {both: sweep.rate(slowest)}
    fixed["auto"] = both
    missing = [place for place in places if not _complete(place)]
    if not missing:
        return fixed, sampled
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    with warpmill.connect(source, device="cpu") as con:
        con.generate("ssb", "lineorder", sf, progress=bar("lineorder"))
        # One result for all, so that rows are in the same order in each database.
        rows = con.sql(f"SELECT {', '.join(COLUMNS)} FROM lineorder")
        for place in missing:
            _write(place, places[place], rates.get(place), sf, rows, settings, bar, light=place == both)
    shutil.rmtree(source)
    return fixed, sampled


def _sampled(rate: float | None, settings: dict[str, str]) -> str:
    """The folder of the choice by samples for a bandwidth: the name contains the parameters of the choice."""
    chosen = f"{rate:.0f}" if rate is not None else settings.get("storage_bandwidth", "default")
    objective = settings.get("codec_objective")
    return f"sampled-{chosen}" + (f"-{objective}" if objective else "")


def _complete(place: Path) -> bool:
    if not place.is_dir():
        return False
    with warpmill.connect(place) as con:
        there = {table.name for table in con.tables()}
    return there >= {"lineorder", *(name for name, _, _ in DIMENSIONS)}


def _write(
    place: Path,
    codec: str,
    rate: float | None,
    sf: float,
    rows: object,
    settings: dict[str, str],
    bar: Reporter,
    *,
    light: bool,
) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with warpmill.connect(place) as con:
        for name, value in settings.items():
            con.set(name, value)
        if rate is not None:
            con.set("storage_bandwidth", round(rate))
        for name, _, _ in DIMENSIONS:
            con.generate("ssb", name, sf, progress=bar(f"{name} ({place.name})"))
        progress = bar(f"lineorder ({place.name})")
        con.create_table("lineorder", rows, replace=True, codec=codec, codec_light=light, progress=progress)


def connect(
    fixed: dict[str, Path], sampled: dict[int | None, Path], sweep: Sweep, location: str, settings: dict[str, str]
) -> Stores:
    """Open all databases. What does not run where it should is an error, not a slower run."""
    strict = {"fallback": "error"}
    if settings.get("device") in ("gpu", "sim"):
        strict["device_fallback"] = "error"

    def store(codec: str, place: Path, rate: float | None = None) -> Store:
        con = warpmill.connect(place)
        for name, value in {**strict, **settings, "device_data": location}.items():
            con.set(name, value)
        return Store(codec, con, con.inspect("lineorder"), rate)

    opened: dict[Path, Store] = {}
    for drives, place in sampled.items():
        opened.setdefault(place, store("sampled", place, sweep.rate(drives)))
    reference = warpmill.connect(fixed["none"], device="cpu")
    return Stores(
        [store(codec, place) for codec, place in fixed.items() if codec != "auto"],
        {drives: opened[place] for drives, place in sampled.items()},
        store("auto", fixed["auto"]),
        reference,
    )


def measure(stores: Stores, sweep: Sweep, told: Callable[[str], None]) -> Measured:
    """Every point of the sweep: at each, a warm-up per codec, and rounds that take the codecs in turn."""
    found = Measured()
    expected = {
        (joins, part): stores.reference.sql(query(joins, part)).fetchall()
        for joins in sweep.joins
        for part in sweep.selectivities
    }
    for drives in sweep.drives:
        rate = sweep.rate(drives)
        at = stores.at(drives)
        for store in at:
            if rate is not None:
                store.con.set(LIMIT, round(rate))
        for joins in sweep.joins:
            for part in sweep.selectivities:
                told(f"Q{joins}J, selectivity {part:g}, {_drives(drives)}")
                rows = _point(at, query(joins, part), expected[joins, part], sweep.runs)
                place = {"query": f"Q{joins}J", "joins": joins, "selectivity": part, "drives": drives}
                rows = [{**place, "bandwidth": rate, **row} for row in rows]
                found.rows += rows
                found.points.append({**place, "bandwidth": rate, **_verdict(rows)})
    return found


def _point(stores: list[Store], sql: str, expected: list[tuple[Any, ...]], runs: int) -> list[Row]:
    rows: list[Row] = []
    ready = []
    for store in stores:
        row: Row = {"codec": store.codec, "runs_s": [], "median_s": None, "verified": False, "error": None}
        rows.append(row)
        try:
            result = store.con.sql(sql)
        except warpmill.Error as error:
            row["error"] = str(error)
            continue
        answer = result.fetchall()
        row["verified"] = answer == expected
        if answer != expected:
            row["error"] = f"{answer!r}, not {expected!r}"
        if store.codec == "auto":
            # The time of a run in some form is known when it has run so; the CPU does not choose.
            for _ in range(SETTLE if choice(result.profile) else 0):
                store.con.sql(sql)
        ready.append((store, row))
    for _ in range(runs):
        for store, row in ready:
            start = time.perf_counter()
            result = store.con.sql(sql)
            row["runs_s"].append(round(time.perf_counter() - start, 6))
            row["moved_bytes"] = moved_bytes(result.profile)
            row["choice"] = choice(result.profile) if store.codec == "auto" else None
    for store, row in ready:
        median = statistics.median(row["runs_s"])
        plain = store.bytes("plain_bytes")
        row["median_s"] = round(median, 6)
        row["gb_per_s"] = round(plain / median / 1e9, 4)
        stored = store.form_bytes((row["choice"] or {}).get("forms", {}))
        row["ratio"] = round(plain / stored, 4)
        row["plain_bytes"], row["stored_bytes"] = plain, stored
        row.update(_kernels(store, sql))
    return rows


def moved_bytes(profile: dict[str, Any]) -> int:
    """Bytes of table segments that a query's last run copied to a device."""
    programs = [program["on_device"] for program in profile.get("programs") or [] if program["on_device"]]
    transfers = [transfer for program in programs for transfer in program["transfers"]]
    kinds = ("segments from", "segments to the device")
    return sum(transfer["bytes"] for transfer in transfers if transfer["what"].startswith(kinds))


def choice(profile: dict[str, Any]) -> Row | None:
    """The form of each column that passed through a device's memory, and what was predicted; None: not on a device."""
    programs = [program["on_device"] for program in profile.get("programs") or [] if program["on_device"]]
    paths = [program["path"] for program in programs if program["path"]]
    if not paths:
        return None
    path = paths[0]
    return {
        "reason": path["reason"],
        "forms": {column["column"]: column["form"] for column in path["columns"] if column["table"] == "lineorder"},
        "predicted_s": path["predicted"],
        "measured_s": path["measured"],
        "fixed": path["fixed"],
    }


def _kernels(store: Store, sql: str) -> Row:
    """The place of a query's run, and, on a device, the time of its kernels in one more run, without decompression."""
    before = store.con.settings().get("warpmill.profile", "on")
    store.con.set("profile", "kernels")
    try:
        programs = store.con.sql(sql).profile.get("programs") or []
    finally:
        store.con.set("profile", before)
    ran = [program["on_device"] for program in programs if program["on_device"]]
    nanos = sum(kernel["nanos"] for program in ran for kernel in program["kernels"])
    return {
        "device": "+".join(sorted({program["device"] for program in programs}, reverse=True)),
        "device_name": ran[0]["device"] if ran else None,
        "kernel_ms": round(nanos / 1e6, 4) if nanos else None,
    }


def _verdict(rows: list[Row]) -> Row:
    """The fastest fixed form, and how much longer the choice between two of them takes, query by query."""
    times = {row["codec"]: row["median_s"] for row in rows if row["median_s"] is not None}
    fixed = {codec: seconds for codec, seconds in times.items() if codec in FIXED}
    best = min(fixed, key=lambda codec: fixed[codec]) if fixed else None

    def over(codec: str) -> float | None:
        return round(times[codec] / fixed[best] - 1, 4) if best and codec in times else None

    return {
        "best": best,
        "auto_over_best": over("auto"),
        "sampled_over_best": over("sampled"),
        "equal_answers": all(row["verified"] for row in rows),
    }


def as_json(
    sf: float, location: str, settings: dict[str, str], sweep: Sweep, stores: Stores, found: Measured, says: list[Row]
) -> Row:
    """The report of docs/bench.md."""
    ran: set[str] = {row["device"] for row in found.rows if row.get("device")}
    names: set[str] = {row["device_name"] for row in found.rows if row.get("device_name")}
    return {
        "suite": "qj",
        "sf": sf,
        "device": "+".join(sorted(ran, reverse=True)),
        "data_location": location,
        "drive_bandwidth": sweep.drive,
        "runs": sweep.runs,
        "settings": settings,
        "machine": {**machine(), "device": next(iter(names), None)},
        "stores": [store.as_json() for store in stores.every()],
        "findings": says,
        "points": found.points,
        "results": [{name: value for name, value in row.items() if name != "device_name"} for row in found.rows],
    }


def failures(found: Measured) -> list[str]:
    """The queries that did not run, or have another answer."""
    return [
        f"{row['query']} with {row['codec']} at selectivity {row['selectivity']:g}, {_drives(row['drives'])}: "
        + row["error"]
        for row in found.rows
        if row["error"]
    ]


def tables(report: Row) -> list[Table]:
    """The stored sizes; then one line per point: effective bandwidth per codec, the best, and the automatic choice."""
    stored = Table(title="the fact table, stored", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("codec", "chosen for", "plain", "stored", "ratio", "columns with a codec"):
        stored.add_column(name)
    for store in report["stores"]:
        chosen = store["storage_bandwidth"]
        heavy = [f"{name} {'+'.join(codecs)}" for name, codecs in store["columns"].items() if codecs != ["none"]]
        heavy += [f"{name} +{'+'.join(codecs)}" for name, codecs in store["heavy"].items()]
        sizes = (size(store["plain_bytes"]), size(store["stored_bytes"] + store["heavy_bytes"]))
        rate = f"{size(chosen)}/s" if chosen else ""
        of = ratio(store["plain_bytes"], store["stored_bytes"])
        stored.add_row(store["codec"], rate, *sizes, of, ", ".join(heavy))
    where = f"{report['device'] or 'nothing'}, data: {report['data_location']}"
    title = f"uncompressed GB/s at scale factor {report['sf']:g}, on {where}, median of {report['runs']} runs"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("drives", "query", "selectivity", *CODECS, "best", "auto / best"):
        out.add_column(name, justify="left" if name in ("query", "best") else "right", no_wrap=True)
    results = {(row["drives"], row["query"], row["selectivity"], row["codec"]): row for row in report["results"]}
    for point in report["points"]:
        place = (point["drives"], point["query"], point["selectivity"])
        rates = [results[(*place, codec)].get("gb_per_s") for codec in CODECS]
        over = point["auto_over_best"]
        out.add_row(
            "-" if place[0] is None else str(place[0]),
            point["query"],
            f"{place[2]:g}",
            *("failed" if rate is None else f"{rate:.3g}" for rate in rates),
            point["best"] or "",
            "" if over is None else f"{1 + over:.2f}x",
        )
    return [stored, out]


def _drives(drives: int | None) -> str:
    return "bandwidth not limited" if drives is None else f"{drives} drive{'s' if drives > 1 else ''}"


def save(report: Row, directory: str) -> list[str]:
    """Write ``qj.json``, ``qj.png`` and ``qj.txt`` (the findings); return their paths."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    (place / "qj.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    lines = [f"{finding['verdict']}: {finding['claim']}\n  {finding['text']}" for finding in report["findings"]]
    (place / "qj.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _plot(report, place / "qj.png")
    return [str(place / f"qj.{kind}") for kind in ("json", "png", "txt")]


def _plot(report: Row, path: Path) -> None:
    """Times by selectivity: a row of panels per number of drives, a panel per query, as in the paper's figure 2."""
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    drives = list(dict.fromkeys(point["drives"] for point in report["points"]))
    queries = list(dict.fromkeys(point["query"] for point in report["points"]))
    figure = Figure(figsize=(3.2 * len(queries) + 1, 2.6 * len(drives) + 0.8), layout="constrained")
    axes = figure.subplots(len(drives), len(queries), sharex=True, squeeze=False)
    for line, count in enumerate(drives):
        for at, name in enumerate(queries):
            panel = axes[line][at]
            for codec in CODECS:
                chosen = [
                    row
                    for row in report["results"]
                    if (row["drives"], row["query"], row["codec"]) == (count, name, codec) and row["median_s"]
                ]
                style = "--" if codec == "auto" else "-"
                parts = [row["selectivity"] for row in chosen]
                times = [row["median_s"] * 1000 for row in chosen]
                panel.plot(parts, times, style, marker=".", color=COLORS[codec], label=codec)
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
            panel.set_title(f"{name}, {_drives(count)}", fontsize=9)
            if line == len(drives) - 1:
                panel.set_xlabel("selectivity")
            if at == 0:
                panel.set_ylabel("ms")
    axes[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
