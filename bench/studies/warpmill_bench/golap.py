"""``warpmill bench golap``: compression and pruning, with the queries that GOLAP (SIGMOD 2024) is measured with.

The facts of a suite are written in layouts (in the order in which rows come; clustered by all attributes of their
dimensions; clustered by just those that the measured queries filter on), and each in two forms: the light encodings
alone, and a codec over them. Every query runs in five modes, each in a session of its own, so that plans stay: without
both (`none`), with bounds or all metadata to skip rows by (`minmax`, `pruning`), with the codec (`compression`), and
with the codec and all metadata (`both`). Answers have to be the same.
"""

from __future__ import annotations

import re
import statistics
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import warpmill
from warpmill import _warpmill
from warpmill_bench.qj import moved_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from warpmill.cli.progress import Reporter
    from warpmill_bench.disk import Disk

Row = dict[str, Any]

#: Modes: the form of the facts, and the setting ``pruning``.
MODES = {
    "none": ("light", "none"),
    "minmax": ("light", "minmax"),
    "pruning": ("light", "all"),
    "compression": ("codec", "none"),
    "both": ("codec", "all"),
}

#: The last is clustered by what the measured queries filter on only, as the paper's facts are (its section 6.3).
LAYOUTS = ("unclustered", "clustered", "filtered")

#: The causes for which zones are ruled out.
CAUSES = ("minmax", "histogram", "bloom", "sideways", "keys")

#: From this number of rows on, facts are generated again for each form: copying holds all of them in memory as Arrow.
COPIED_ROWS = 200_000_000

#: Unmeasured runs of forms with a codec on a device: the place of decompression has been chosen after them.
SETTLE = 2

#: Aggregation of the trips of each vendor and month, and the average speed by day, as in Google BigQuery's public
#: workload. Predicates on distance (a quarter of all trips, and 2%) and fare (the same).
_TRIPS = """
SELECT vendor_id, date_trunc('month', pickup_datetime) AS month, count(*) AS trips,
    sum(trip_distance) AS miles, sum(total_amount) AS paid
FROM trips
WHERE trip_distance > {}
GROUP BY vendor_id, date_trunc('month', pickup_datetime)
"""
_SPEED = """
SELECT date_trunc('day', pickup_datetime) AS day,
    sum(trip_distance) * 3600 / sum(epoch(dropoff_datetime) - epoch(pickup_datetime)) AS mph
FROM trips
WHERE fare_amount > {}
GROUP BY date_trunc('day', pickup_datetime)
"""
TAXI = {"1.1": _TRIPS.format(3), "1.2": _TRIPS.format(18), "2.1": _SPEED.format("12.5"), "2.2": _SPEED.format(59)}


@dataclass(frozen=True)
class Facts:
    """The fact table of a suite, and how it is laid out."""

    suite: str
    table: str
    sideways: tuple[str, ...]
    cluster: tuple[str, ...]
    #: The other tables that its queries name.
    dimensions: tuple[str, ...]
    queries: dict[str, str]
    #: Before the shape in the names of its folders.
    label: str = ""

    def filtered(self, queries: Iterable[str]) -> Facts:
        """The same with those attributes of dimensions only that some queries filter on.

        Raises `ValueError` where facts are not clustered by attributes.
        """
        if self.cluster != ("auto",):
            raise ValueError(f"the facts of {self.suite} are clustered by the filters of its queries already")
        wheres = [re.split(r"(?i)\b(?:where|group by)\b", f"{sql} WHERE")[1] for sql in queries]
        wanted: list[str] = []
        found: list[str] = []
        for declared in self.sideways:
            reference, attributes = declared.split(":")
            used = [name for name in attributes.split(",") if any(re.search(rf"\b{name}\b", w) for w in wheres)]
            wanted += [f"{reference}:{','.join(used)}"] if used else []
            found += used
        return replace(self, sideways=tuple(wanted), label=f"{'+'.join(found)}-")

    def of(self, layout: str, queries: Iterable[str]) -> Facts:
        """The layout restricted to the attributes of some queries."""
        return self.filtered(queries) if layout == "filtered" else self

    def folder(self, shape: Shape) -> str:
        """The name of the folder of a shape."""
        return f"{self.suite}-{self.label}{shape.name()}"


def _texts(suite: str, names: tuple[str, ...] | None = None) -> dict[str, str]:
    return {name: sql for name, sql in _warpmill.queries(suite) if names is None or name in names}


SUITES = {
    "ssb": Facts(
        "ssb",
        "lineorder",
        (
            "lo_custkey=customer.c_custkey:c_region,c_nation,c_city",
            "lo_suppkey=supplier.s_suppkey:s_region,s_nation,s_city",
            "lo_partkey=part.p_partkey:p_mfgr,p_category,p_brand1",
            "lo_orderdate=date.d_datekey:d_year,d_yearmonthnum,d_yearmonth,d_weeknuminyear",
        ),
        ("auto",),
        ("date", "customer", "supplier", "part"),
        _texts("ssb"),
    ),
    "tpch": Facts(
        "tpch",
        "lineitem",
        ("l_orderkey=orders.o_orderkey:o_orderdate", "l_suppkey=supplier.s_suppkey:s_nationkey"),
        ("o_orderdate",),
        ("region", "nation", "supplier", "customer", "orders"),
        _texts("tpch", ("1", "3", "5")),
    ),
    "taxi": Facts("taxi", "trips", (), ("trip_distance", "fare_amount"), (), TAXI),
}


@dataclass(frozen=True)
class Shape:
    """The options for writing facts."""

    layout: str
    form: str = "light"
    codec: str = "none"
    #: None: the default.
    zone_rows: int | None = None
    segment_rows: int | None = None

    def name(self) -> str:
        """Its folder's name, after the suite."""
        parts = [self.layout, self.form if self.form == "light" else self.codec]
        parts += [f"zones{self.zone_rows}"] if self.zone_rows else []
        parts += [f"segments{self.segment_rows}"] if self.segment_rows else []
        return "-".join(parts)

    def pruning(self) -> str:
        """The metadata of tables: for sweeps of sizes all kinds, even if they take more than 1% of the data."""
        return "all" if self.zone_rows or self.segment_rows else "auto"

    def settings(self) -> dict[str, object]:
        """The settings of a session that writes them."""
        # A zone is no larger than a segment, and a segment of one zone would have no metadata besides its own bounds.
        zones = self.zone_rows
        if self.segment_rows and not zones and self.segment_rows <= 16384:
            zones = max(self.segment_rows // 2, 1024)
        found = {"codec": self.codec, "zone_rows": zones, "segment_rows": self.segment_rows}
        return {name: value for name, value in found.items() if value is not None}


def connect(folder: Path, settings: Mapping[str, object]) -> warpmill.Connection:
    """A session with these settings."""
    con = warpmill.connect(folder)
    for name, value in settings.items():
        con.set(name, value)
    return con


@dataclass(frozen=True)
class Place:
    """The folder, scale factor and command-line settings of tables."""

    base: Path
    sf: float
    settings: dict[str, str]
    bar: Reporter

    def writer(self, folder: Path, **settings: object) -> warpmill.Connection:
        """A session that writes tables. Not on a device: there, rows of a SELECT come in any order."""
        folder.mkdir(parents=True, exist_ok=True)
        return connect(folder, {**self.settings, **settings, "device": "cpu"})


def prepare(facts: Facts, shape: Shape, place: Place) -> Path:
    """The database of a shape, made where it is missing; only the first of a layout is generated and sorted."""
    folder = place.base / facts.folder(shape)
    first = Shape(shape.layout)
    with place.writer(folder, **shape.settings()) as con:
        there = {table.name for table in con.tables()}
        for name in facts.dimensions:
            if name not in there:
                con.generate(facts.suite, name, place.sf, progress=place.bar(f"{name} ({folder.name})"))
        if facts.table in there:
            return folder
        bar = place.bar(f"{facts.table} ({folder.name})")
        if shape != first:
            with place.writer(prepare(facts, first, place)) as source:
                rows = next(table.rows or 0 for table in source.tables() if table.name == facts.table)
                if rows <= COPIED_ROWS:
                    if not shape.segment_rows:
                        # Not sorted again, and so not cut for it.
                        con.set("segment_rows", segment_rows(source, facts.table, rows))
                    copied = source.sql(f"SELECT * FROM {facts.table}")
                    con.create_table(
                        facts.table, copied, sideways=facts.sideways, pruning=shape.pruning(), progress=bar
                    )
                    return folder
        con.set("pruning_metadata", shape.pruning())
        con.set("sideways", "; ".join(f"{facts.table}.{attribute}" for attribute in facts.sideways))
        if shape.layout != "unclustered":
            con.set("cluster", ",".join(facts.cluster))
        con.generate(facts.suite, facts.table, place.sf, progress=bar)
    return folder


def segment_rows(con: warpmill.Connection, table: str, rows: int) -> int | str:
    """Rows of a segment that make as many as `table` has."""
    segments = sum(con.inspect(table)[0]["encodings"].values())
    return next((2**bits for bits in range(20, 15, -1) if -(-rows // 2**bits) == segments), "auto")


def prepare_forms(facts: Facts, shape: Shape, codec: str, modes: Iterable[str], place: Place) -> dict[str, Path]:
    """The databases of the forms that some modes read."""
    forms = dict.fromkeys(MODES[mode][0] for mode in modes)
    shapes = {"light": shape, "codec": replace(shape, form="codec", codec=codec)}
    return {form: prepare(facts, shapes[form], place) for form in forms}


def stored(facts: Facts, layout: str, form: str, folder: Path) -> Row:
    """The sizes of the facts: bytes, codecs by column, and the share of the metadata."""
    with warpmill.connect(folder) as con:
        columns = con.inspect(facts.table)
        found = next(table for table in con.tables() if table.name == facts.table)
    sizes = {kind: sum(column[kind] for column in columns) for kind in ("plain_bytes", "light_bytes", "stored_bytes")}
    codecs = {column["name"]: sorted(column["codecs"]) for column in columns if set(column["codecs"]) != {"none"}}
    return {
        "suite": facts.suite,
        "layout": layout,
        "form": form,
        "rows": found.rows,
        **sizes,
        "ratio": round(sizes["plain_bytes"] / max(sizes["stored_bytes"], 1), 4),
        "codecs": codecs,
        "metadata_share": (found.pruning_bytes or 0) / max(found.stored_bytes or 1, 1),
    }


def counters(profile: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Sums over all scans, and the profile of the largest."""
    sums: dict[str, int] = defaultdict(int)
    largest: dict[str, Any] = {"zones": 0}
    scans = []
    for program in profile["programs"]:
        for pipeline in program["pipelines"]:
            scans += [dict(op["counters"]) for op in pipeline["operators"] if op["name"].startswith("Scan ")]
        for scan in (program["on_device"] or {}).get("scans", []):
            found = scan["pruning"]
            pruned = {f"zones_by_{cause}": found[f"by_{cause}"] for cause in CAUSES}
            counts = {"zones": found["zones"], "zones_pruned": sum(pruned.values()), "pruning_nanos": found["nanos"]}
            scans.append({**pruned, **counts, "plain_bytes": scan["plain_bytes"]})
    for scan in scans:
        for name, value in scan.items():
            sums[name] += value
        if scan.get("zones", 0) > largest["zones"]:
            largest = scan
    return sums, largest


def ran_on(profile: dict[str, Any]) -> str:
    """The devices that ran programs: one device, or several joined by "+"."""
    return "+".join(sorted({program["device"] for program in profile["programs"]}, reverse=True))


def moved(profile: dict[str, Any]) -> int | None:
    """Bytes of tables transferred to a device; None on the CPU."""
    return None if ran_on(profile) == "cpu" else moved_bytes(profile)


def answer(result: warpmill.Relation) -> list[tuple[Any, ...]]:
    """Sorted rows: without ORDER BY, or with equal keys, the order may differ between runs."""
    return sorted(result.fetchall(), key=repr)


def measure(
    facts: Facts,
    queries: dict[str, str],
    databases: dict[str, Path],
    modes: Iterable[str],
    runs: int,
    settings: dict[str, str],
    told: Callable[[str], None],
    disk: Disk,
) -> list[Row]:
    """Every query in every mode, the modes in turn, each in its session; `databases` by form.

    Between queries the disk is measured.
    """
    rows: list[Row] = []
    with ExitStack() as stack:
        sessions = {}
        for mode in modes:
            form, pruning = MODES[mode]
            chosen = {"fallback": "error", **settings, "pruning": pruning}
            sessions[mode] = stack.enter_context(connect(databases[form], chosen))
        for name, sql in queries.items():
            disk.measure()
            answers: dict[str, Any] = {}
            profiles: dict[str, list[dict[str, Any]]] = {mode: [] for mode in sessions}
            times: dict[str, list[float]] = {mode: [] for mode in sessions}
            for mode, con in sessions.items():
                told(f"{facts.suite}: Q{name}, {mode}")
                result = con.sql(sql)
                answers[mode] = answer(result)
                if MODES[mode][0] == "codec" and ran_on(result.profile) != "cpu":
                    for _ in range(SETTLE):
                        con.sql(sql)
            for _ in range(runs):
                for mode, con in sessions.items():
                    start = time.perf_counter()
                    result = con.sql(sql)
                    times[mode].append(time.perf_counter() - start)
                    profiles[mode].append(result.profile)
            decided = {mode: decisions(con, sql, profiles[mode], times[mode]) for mode, con in sessions.items()}
            first = next(iter(sessions))
            plain = counters(profiles[first][-1])[0]["plain_bytes"]
            for mode in sessions:
                row = _row(profiles[mode], times[mode], plain, decided[mode])
                same = answers[mode] == answers[first]
                rows.append({"suite": facts.suite, "query": name, "mode": mode, **row, "same_answer": same})
    return rows


def decisions(
    con: warpmill.Connection, sql: str, profiles: list[dict[str, Any]], times: list[float]
) -> list[tuple[float, float]]:
    """Seconds of the decision on what to prune, and of the whole query, of runs that decide.

    A device's program that runs again does not decide again: there, the same query is run as other statements.
    """
    if ran_on(profiles[-1]) != "cpu":
        runs = len(times)
        profiles, times = [], []
        for number in range(runs):
            start = time.perf_counter()
            result = con.sql(f"SELECT * FROM ({sql}) AS statement_{number}")
            times.append(time.perf_counter() - start)
            profiles.append(result.profile)
    nanos = [counters(profile)[0]["pruning_nanos"] for profile in profiles]
    return [(decided / 1e9, seconds) for decided, seconds in zip(nanos, times, strict=True)]


def _row(profiles: list[dict[str, Any]], times: list[float], plain: int, decided: list[tuple[float, float]]) -> Row:
    _, largest = counters(profiles[-1])
    seconds = statistics.median(times)
    decision = statistics.median(decision for decision, _ in decided)
    return {
        "seconds": seconds,
        "runs_s": [round(run, 6) for run in times],
        "device": ran_on(profiles[-1]),
        "bytes_read": profiles[-1]["bytes_read"],
        "moved_bytes": moved(profiles[-1]),
        "plain_bytes": plain,
        "effective_gb_per_s": plain / seconds / 1e9,
        "zones": largest["zones"],
        "zones_pruned": largest.get("zones_pruned", 0),
        "pruned": largest.get("zones_pruned", 0) / max(largest["zones"], 1),
        "by": {cause: largest.get(f"zones_by_{cause}", 0) for cause in CAUSES},
        "decision_seconds": decision,
        "decision_share": decision / statistics.median(whole for _, whole in decided),
    }


def against_disk(rows: list[Row], disk: float | None) -> list[Row]:
    """Rows with the speedup over the disk's bandwidth, and the time for plain bytes at it; None: unknown."""
    return [
        {
            **row,
            "over_disk": row["effective_gb_per_s"] / disk if disk else None,
            "plain_seconds": row["plain_bytes"] / disk / 1e9 if disk else None,
        }
        for row in rows
    ]
