"""Sweeps of `warpmill_bench.golap`: sizes of zones and of chunks, and the pipelines of one scan on a device."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

import warpmill
from warpmill.cli.units import milliseconds, size
from warpmill_bench.golap import (
    MODES,
    SETTLE,
    Facts,
    Place,
    Row,
    Shape,
    against_disk,
    connect,
    counters,
    measure,
    moved,
    prepare_forms,
    ran_on,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from warpmill_bench.disk import Disk

#: The parameters of sweeps: which rows a value counts, the modes to compare, and the values by default.
SIZES: dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]] = {
    "zones": ("rows of a zone", ("none", "minmax", "pruning"), (1024, 4096, 16384, 65536, 1048576)),
    "chunks": (
        "rows of a chunk",
        ("none", "minmax", "pruning", "compression", "both"),
        (16384, 65536, 262144, 1048576),
    ),
}

#: The settings of the pipelines that data passes through on a device.
PIPELINES, BATCH, OVERLAP = "device_pipelines", "device_batch", "device_overlap"

#: The table of that column.
FACTS = Facts("ssb", "commitdate", (), (), (), {})

#: The one column that is scanned: its sum (figure 11), and all of it into the host's memory (figure 12).
COLUMN = "lo_commitdate"
SCANS = {
    "scan": f"SELECT sum({COLUMN}) AS total FROM commitdate",
    "copy": f"SELECT {COLUMN} FROM commitdate",
}


def sized(kind: str, layout: str, value: int) -> Shape:
    """The shape that a value of a sweep means."""
    return Shape(layout, zone_rows=value) if kind == "zones" else Shape(layout, segment_rows=value)


def prepare_sizes(
    kind: str, facts: Facts, layout: str, values: list[int], codec: str, place: Place
) -> dict[int, dict[str, Path]]:
    """The databases by value and form."""
    modes = SIZES[kind][1]
    return {value: prepare_forms(facts, sized(kind, layout, value), codec, modes, place) for value in values}


def sizes(
    facts: Facts,
    queries: dict[str, str],
    layout: str,
    databases: dict[int, dict[str, Path]],
    runs: int,
    settings: dict[str, str],
    disk: Disk,
    told: Callable[[str], None],
) -> list[Row]:
    """Every query in every mode with an existing form, for each size of zones or chunks."""
    rows: list[Row] = []
    for value, forms in databases.items():
        modes = [mode for mode, (form, _) in MODES.items() if form in forms]
        share = stored(facts, layout, "light", forms["light"])["metadata_share"]
        disk.database = forms["light"]
        measured = measure(facts, queries, forms, modes, runs, settings, told, disk)
        common = {"layout": layout, "value": value, "metadata_share": share}
        rows += [{**common, **row} for row in measured]
    return against_disk(rows, disk.gb_per_s)


def commitdate(codec: str, place: Place) -> Path:
    """A table of `lo_commitdate` alone, in row order."""
    folder = place.base / f"ssb-commitdate-{codec}"
    # A batch is a segment at least: 256 KiB of this column.
    with place.writer(folder, codec=codec, segment_rows=131072) as con:
        if not any(table.name == "commitdate" for table in con.tables()):
            first = place.base / f"ssb-{Shape('unclustered').name()}"
            there = first.is_dir()
            with place.writer(
                first if there else place.base / "ssb-commitdate-source", pruning_metadata="none"
            ) as source:
                if not any(table.name == "lineorder" for table in source.tables()):
                    source.generate("ssb", "lineorder", place.sf, progress=place.bar("lineorder"))
                column = source.sql(f"SELECT {COLUMN} FROM lineorder")
                con.create_table("commitdate", column, progress=place.bar(f"commitdate ({codec})"))
                if not there:
                    source.sql("DROP TABLE lineorder")
    return folder


def pipelines(
    database: Path,
    counts: list[int],
    batches: list[int],
    queries: list[str],
    runs: int,
    settings: dict[str, str],
    told: Callable[[str], None],
) -> list[Row]:
    """Both scans for each number of pipelines and batch size, with and without overlap; checked against the CPU."""
    rows: list[Row] = []
    with connect(database, {"device": "cpu"}) as con:
        expected = {}
        for name in queries:
            result = con.sql(SCANS[name])
            expected[name] = {whole: _checked(name, result, whole) for whole in (True, False)}
    strict = {"fallback": "error", "device_fallback": "error"}
    with connect(database, {**strict, **settings}) as con:
        supported(con)
        for name, count, batch in itertools.product(queries, counts, batches):
            told(f"{name}: {count} pipelines, batches of {size(batch)}")
            con.set(PIPELINES, count)
            con.set(BATCH, batch)
            times: dict[str, list[float]] = {"on": [], "off": []}
            found: dict[str, Any] = {}
            same = {}
            for overlap in times:
                con.set(OVERLAP, overlap)
                # Kernels are compiled, and it is known where a codec is undone, after the first point.
                for _ in range(1 if rows else 1 + SETTLE):
                    result = con.sql(SCANS[name])
                # Every value is looked at once; sums suffice where only sizes differ.
                whole = not any(row["query"] == name for row in rows)
                same[overlap] = _checked(name, result, whole) == expected[name][whole]
            for _ in range(runs):
                for overlap, seconds in times.items():
                    con.set(OVERLAP, overlap)
                    start = time.perf_counter()
                    result = con.sql(SCANS[name])
                    seconds.append(time.perf_counter() - start)
                    found[overlap] = result.profile
            for overlap, seconds in times.items():
                profile = found[overlap]
                plain = counters(profile)[0]["plain_bytes"]
                median = statistics.median(seconds)
                rows.append(
                    {
                        "query": name,
                        "pipelines": count,
                        "batch_bytes": batch,
                        "overlap": overlap,
                        "seconds": median,
                        "runs_s": [round(run, 6) for run in seconds],
                        "device": ran_on(profile),
                        "bytes_read": profile["bytes_read"],
                        "moved_bytes": moved(profile),
                        "plain_bytes": plain,
                        "effective_gb_per_s": plain / median / 1e9,
                        "same_answer": same[overlap],
                    }
                )
    return rows


def _checked(name: str, result: warpmill.Relation, whole: bool) -> object:
    """The compared part of a scan's answer: how often there is each value (`whole`), or the number and sum of all."""
    if name == "scan":
        return result.arrow().to_pylist()
    import pyarrow.compute as pc

    column = result.arrow()[COLUMN]
    return sorted(pc.value_counts(column).to_pylist(), key=repr) if whole else (len(column), pc.sum(column).as_py())


def supported(con: warpmill.Connection) -> None:
    """Raise where this build has no such settings."""
    try:
        for name, value in ((PIPELINES, 0), (BATCH, "auto"), (OVERLAP, "on")):
            con.set(name, value)
    except warpmill.Error as error:
        raise warpmill.Error(f"this build cannot sweep pipelines: {error}") from None


def pipelines_table(title: str, rows: list[Row], ratio: float) -> Table:
    """One line per query, number of pipelines and overlap; one column per size of a batch."""
    batches = list(dict.fromkeys(row["batch_bytes"] for row in rows))
    out = Table(title=f"{title}, ratio {ratio:.2f}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in (
        "query",
        "pipelines",
        "overlap",
        *(f"GB/s\n{batch / 2**20:g} MiB" for batch in batches),
        "best",
        "same",
    ):
        out.add_column(name, justify="left" if name == "query" else "right")
    for key in dict.fromkeys((row["query"], row["pipelines"], row["overlap"]) for row in rows):
        here = [row for row in rows if (row["query"], row["pipelines"], row["overlap"]) == key]
        out.add_row(
            key[0],
            str(key[1]),
            key[2],
            *(f"{row['effective_gb_per_s']:.2f}" for row in here),
            milliseconds(min(row["seconds"] for row in here) * 1000),
            "yes" if all(row["same_answer"] for row in here) else "NO",
        )
    return out
