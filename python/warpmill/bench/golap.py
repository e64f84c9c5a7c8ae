"""``warpmill bench golap``: what pruning saves of the queries that GOLAP (SIGMOD 2024) is measured with.

Facts are imported twice: in the order in which they come, and clustered by attributes of their dimensions. Each query
runs in three modes: all rows read (``none``), rows skipped by bounds (``minmax``), by all metadata (``pruning``). The
answers have to be the same.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill.cli.units import milliseconds

if TYPE_CHECKING:
    from warpmill.cli.progress import Reporter

Row = dict[str, Any]

#: Modes, and the setting ``pruning`` of each.
MODES = {"none": "none", "minmax": "minmax", "pruning": "all"}

#: What rules zones out.
CAUSES = ("minmax", "histogram", "bloom", "sideways", "keys")


@dataclass(frozen=True)
class Facts:
    """The fact table of a suite, and how it is laid out."""

    suite: str
    table: str
    sideways: tuple[str, ...]
    cluster: tuple[str, ...]
    #: Queries by number; None: all.
    queries: tuple[str, ...] | None


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
        None,
    ),
    "tpch": Facts(
        "tpch",
        "lineitem",
        ("l_orderkey=orders.o_orderkey:o_orderdate", "l_suppkey=supplier.s_suppkey:s_nationkey"),
        ("o_orderdate",),
        ("1", "3", "5"),
    ),
}


def queries(facts: Facts) -> list[tuple[str, str]]:
    """Names and texts of the suite's queries."""
    return [(name, sql) for name, sql in _warpmill.queries(facts.suite) if not facts.queries or name in facts.queries]


def prepare(facts: Facts, layout: str, sf: float, base: Path, bar: Reporter, zone_rows: int | None = None) -> Path:
    """The database of a layout, made where it is missing."""
    zones = f"-{zone_rows}" if zone_rows else ""
    database = base / f"{facts.suite}-{layout}{zones}"
    files = base / "parquet"
    files.mkdir(parents=True, exist_ok=True)
    with warpmill.connect(database) as con:
        if zone_rows:
            con.set("zone_rows", zone_rows)
        there = {table.name for table in con.tables()}
        for name in _warpmill.tables(facts.suite):
            if name not in there and name != facts.table:
                con.generate(facts.suite, name, sf, progress=bar(name))
        if facts.table not in there:
            path = files / f"{facts.table}.parquet"
            if not path.exists():
                _warpmill.generate_parquet(facts.suite, facts.table, sf, str(path), 0, bar(f"{path.name}"))
            con.create_table(
                facts.table,
                path,
                cluster=facts.cluster if layout == "clustered" else (),
                sideways=facts.sideways,
                progress=bar(f"{facts.table} ({layout})"),
            )
    return database


def _counters(profile: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Sums over all scans, and what the profile says of the largest."""
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


def measure(
    facts: Facts, layout: str, database: Path, runs: int, threads: int, settings: dict[str, str], told: Any
) -> list[Row]:
    """Every query in every mode, the modes in turn."""
    rows: list[Row] = []
    with warpmill.connect(database, threads=threads, fallback="error", **settings) as con:
        for name, sql in queries(facts):
            times: dict[str, list[float]] = {mode: [] for mode in MODES}
            answers: dict[str, Any] = {}
            profiles: dict[str, Any] = {}
            for mode, setting in MODES.items():
                told(f"{facts.suite} {layout}: Q{name}, {mode}")
                con.set("pruning", setting)
                answers[mode] = con.sql(sql).fetchall()
            for _ in range(runs):
                for mode, setting in MODES.items():
                    con.set("pruning", setting)
                    con.sql(sql)  # plans anew: the setting has changed
                    start = time.perf_counter()
                    result = con.sql(sql)
                    times[mode].append(time.perf_counter() - start)
                    profiles.setdefault(mode, []).append(result.profile)
            for mode in MODES:
                sums, largest = _counters(profiles[mode][-1])
                seconds = statistics.median(times[mode])
                decision = statistics.median(_counters(profile)[0]["pruning_nanos"] for profile in profiles[mode])
                rows.append(
                    {
                        "suite": facts.suite,
                        "layout": layout,
                        "query": name,
                        "mode": mode,
                        "seconds": seconds,
                        "same_answer": answers[mode] == answers["none"],
                        "bytes_read": profiles[mode][-1]["bytes_read"],
                        "plain_bytes": sums["plain_bytes"],
                        "effective_gb_per_s": sums["plain_bytes"] / seconds / 1e9,
                        "zones": largest["zones"],
                        "zones_pruned": largest.get("zones_pruned", 0),
                        "pruned": largest.get("zones_pruned", 0) / max(largest["zones"], 1),
                        "by": {cause: largest.get(f"zones_by_{cause}", 0) for cause in CAUSES},
                        "decision_share": decision / 1e9 / seconds,
                    }
                )
    return rows


def table(rows: list[Row]) -> Table:
    """One line per layout and query: times, pruned zones, share of the decision."""
    out = Table(box=box.SIMPLE_HEAD)
    columns = ("layout", "query", *MODES, "none / pruning", "pruned minmax", "pruned all", "by", "decision", "same")
    for name in columns:
        out.add_column(name, justify="left" if name in ("layout", "query", "by") else "right", no_wrap=True)
    for key in dict.fromkeys((row["suite"], row["layout"], row["query"]) for row in rows):
        modes = {row["mode"]: row for row in rows if (row["suite"], row["layout"], row["query"]) == key}
        ours = modes["pruning"]
        out.add_row(
            f"{key[0]} {key[1]}",
            key[2],
            *(milliseconds(modes[mode]["seconds"] * 1000) for mode in MODES),
            f"{modes['none']['seconds'] / ours['seconds']:.2f}",
            f"{modes['minmax']['pruned']:.3f}",
            f"{ours['pruned']:.3f}",
            ", ".join(f"{count} {cause}" for cause, count in ours["by"].items() if count),
            f"{ours['decision_share']:.2%}",
            "yes" if all(row["same_answer"] for row in modes.values()) else "NO",
        )
    return out


def sweep_table(rows: list[Row]) -> Table:
    """One line per zone size: metadata, mean part of pruned zones per mode, the decision's largest share."""
    out = Table(box=box.SIMPLE_HEAD)
    for name in ("zone rows", "layout", "metadata", "pruned minmax", "pruned all", "none / pruning", "decision, most"):
        out.add_column(name, justify="right")
    for key in dict.fromkeys((row["zone_rows"], row["layout"]) for row in rows):
        of = {mode: [r for r in rows if (r["zone_rows"], r["layout"], r["mode"]) == (*key, mode)] for mode in MODES}
        speed = [n["seconds"] / p["seconds"] for n, p in zip(of["none"], of["pruning"], strict=True)]
        out.add_row(
            f"{key[0]:,}",
            key[1],
            f"{of['none'][0]['metadata_share']:.2%}",
            f"{statistics.mean(row['pruned'] for row in of['minmax']):.3f}",
            f"{statistics.mean(row['pruned'] for row in of['pruning']):.3f}",
            f"{statistics.geometric_mean(speed):.2f}",
            f"{max(row['decision_share'] for row in of['pruning']):.2%}",
        )
    return out


def metadata_share(database: Path, name: str) -> float:
    """Bytes of a table's pruning metadata by those of its segments."""
    with warpmill.connect(database) as con:
        found = next(table for table in con.tables() if table.name == name)
        return (found.pruning_bytes or 0) / max(found.stored_bytes or 1, 1)


def save(report: dict[str, Any], directory: str) -> list[str]:
    """Write ``golap.json`` and a PNG per suite; return their paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "golap.json"
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    paths = [str(file)]
    for suite in dict.fromkeys(row["suite"] for row in report["results"]):
        path = folder / f"golap-{suite}.png"
        _plot([row for row in report["results"] if row["suite"] == suite], path)
        paths.append(str(path))
    return paths


def _plot(rows: list[Row], path: Path) -> None:
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    layouts = list(dict.fromkeys(row["layout"] for row in rows))
    figure = Figure(figsize=(11, 3.4 * len(layouts)), layout="constrained")
    panels = figure.subplots(len(layouts), 2, squeeze=False)
    colors = dict(zip(MODES, ("tab:gray", "tab:orange", "tab:blue"), strict=True))
    for line, layout in zip(panels, layouts, strict=True):
        names = list(dict.fromkeys(row["query"] for row in rows))
        for axes, value, label in (
            (line[0], "effective_gb_per_s", "effective GB/s"),
            (line[1], "pruned", "part of zones pruned"),
        ):
            for at, mode in enumerate(MODES):
                chosen = {r["query"]: r[value] for r in rows if r["layout"] == layout and r["mode"] == mode}
                places = [i + (at - 1) * 0.27 for i in range(len(names))]
                axes.bar(places, [chosen[name] for name in names], 0.26, label=mode, color=colors[mode])
            axes.set_xticks(range(len(names)), names, fontsize=8)
            axes.set(title=layout, ylabel=label)
            axes.grid(axis="y", alpha=0.3)
            if value == "pruned":
                axes.set_ylim(0, 1)
        line[0].legend()
    figure.savefig(path, dpi=150)
