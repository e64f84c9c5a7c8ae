"""GOLAP's co-execution: SSB's flight 3 with ever more customers, where the join with them exceeds the device's memory.

`customer` is generated with so many times its rows, and the facts refer to all of them: the rows of each customer
before are spread over as many new ones (section 6.5 of the paper). Every strategy of ``device_join`` that the build
has runs under a memory limit that the hash build exceeds; answers have to be those of the CPU back end.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

import warpmill
from warpmill.cli.units import milliseconds, size
from warpmill_bench.golap import SUITES, Place, Row, Shape, answer, connect, counters, ran_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Ways of doing a join whose build does not fit; a build of Warpmill may lack some.
STRATEGIES = ("partitioned", "hybrid", "cpu", "naive", "fallback")

#: No limit: everything fits.
UNLIMITED = "unlimited"

#: Memory limits that are tried, until the build does not fit: from this, by half.
LARGEST, SMALLEST = 1 << 30, 1 << 20

#: Seconds after which a run is stopped: with little memory, there may be very many parts.
PATIENCE = 60.0

QUERIES = ("3.1", "3.2", "3.3", "3.4")


def prepare(factor: int, place: Place) -> Path:
    """The database of a factor, made where it is missing."""
    folder = place.base / f"ssb-customers-{factor}"
    # The memory that data passes through has room for a chunk of each column at least: small ones make small limits.
    rows = min(max(1 << round(6e6 * place.sf / 1024).bit_length(), 16384), 1 << 20)
    with place.writer(folder, segment_rows=rows) as con:
        there = {table.name for table in con.tables()}
        for name, times in (("date", 1), ("supplier", 1), ("customer", factor)):
            if name not in there:
                con.generate("ssb", name, place.sf * times, progress=place.bar(f"{name} ({folder.name})"))
        if "lineorder" in there:
            return folder
        first = place.base / f"ssb-{Shape('unclustered').name()}"
        source = place.writer(first if first.is_dir() else place.base / "ssb-customers-source")
        with source:
            if not any(table.name == "lineorder" for table in source.tables()):
                source.generate("ssb", "lineorder", place.sf, progress=place.bar("lineorder"))
            key = f"CAST((lo_custkey - 1) * {factor} + lo_orderkey % {factor} + 1 AS INT) AS lo_custkey"
            facts = source.sql(f"SELECT {key}, lo_suppkey, lo_orderdate, lo_revenue FROM lineorder")
            con.create_table("lineorder", facts, progress=place.bar(f"lineorder ({folder.name})"))
    return folder


def strategies(con: warpmill.Connection) -> tuple[list[str], list[str]]:
    """The strategies that this build has, and the ones that it lacks."""
    there, missing = [], []
    for name in STRATEGIES:
        try:
            con.set("device_join", name)
        except warpmill.Error:
            missing.append(name)
        else:
            there.append(name)
    con.set("device_join", "auto")
    return there, missing


def how(profile: dict[str, Any]) -> tuple[str, str]:
    """The strategies used by the joins (`fits`: no build was too large), or why they did not run on the device."""
    joins = [p["on_device"]["join"] for p in profile["programs"] if p["on_device"] and p["on_device"].get("join")]
    reasons = [program["not_on_device"] for program in profile["programs"] if program["not_on_device"]]
    if joins:
        return "+".join(sorted({join["strategy"] for join in joins})), "; ".join(reasons)
    return ("fits", "") if not reasons else ("cpu", "; ".join(reasons))


@contextmanager
def patience(con: warpmill.Connection) -> Iterator[None]:
    """Stops what the connection runs when it takes too long: `warpmill.InterruptError`."""
    timer = threading.Timer(PATIENCE, con.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def exceeded(con: warpmill.Connection, sql: str) -> int | None:
    """The largest power of two that is too small a memory limit for the builds; None: nothing runs with less."""
    # This strategy reads everything once, even with little memory.
    con.set("device_join", "hybrid")
    limit = LARGEST
    while limit >= SMALLEST:
        con.set("gpu_memory_limit", limit)
        try:
            with patience(con):
                way, _ = how(con.sql(sql).profile)
        except warpmill.InterruptError:
            return None
        if way != "fits":
            return limit if way == "hybrid" else None
        limit //= 2
    return None


def measure(
    databases: dict[int, Path],
    queries: list[str],
    limit: str | None,
    runs: int,
    settings: dict[str, str],
    told: Callable[[str], None],
) -> tuple[list[Row], list[str]]:
    """Every query with each factor (of `databases`) and strategy, in turn; and the strategies that are not there."""
    rows: list[Row] = []
    missing: list[str] = []
    for factor, database in databases.items():
        with connect(database, {"device": "cpu"}) as con:
            customers = next(table.rows for table in con.tables() if table.name == "customer")
            expected = {name: answer(con.sql(SUITES["ssb"].queries[name])) for name in queries}
        # Fallbacks are allowed for strategies that use the CPU. A separate session without a limit, because a new limit
        # invalidates plans, and other strategies do not.
        chosen = {"fallback": "error", **settings}
        with connect(database, chosen) as free, connect(database, chosen) as con:
            there, missing = strategies(con)
            for name in queries:
                sql = SUITES["ssb"].queries[name]
                told(f"factor {factor}, Q{name}: a memory limit")
                given = limit if limit is not None else exceeded(con, sql)
                con.set("gpu_memory_limit", "unlimited" if given is None else given)
                told(f"factor {factor}, Q{name}")
                runners = {UNLIMITED: free, **dict.fromkeys(there, con)}
                found = _strategies(runners, sql, expected[name], runs)
                for row in found:
                    within = None if row["strategy"] == UNLIMITED else given
                    rows.append({"query": name, "factor": factor, "customers": customers, "limit": within, **row})
    return rows, missing


def _strategies(runners: dict[str, warpmill.Connection], sql: str, expected: object, runs: int) -> list[Row]:
    """One query with each strategy, in the session that is said."""
    rows: dict[str, Row] = {}
    profiles: dict[str, dict[str, Any]] = {}

    def run(strategy: str) -> warpmill.Relation:
        if strategy != UNLIMITED:
            runners[strategy].set("device_join", strategy)
        return runners[strategy].sql(sql)

    for strategy in runners:
        row: Row = {"strategy": strategy, "seconds": None, "runs_s": [], "same_answer": None}
        row |= {"error": None, "stopped": False}
        rows[strategy] = row
        try:
            with patience(runners[strategy]):
                row["same_answer"] = answer(run(strategy)) == expected
        except warpmill.InterruptError:
            row |= {"error": f"stopped after {PATIENCE:g} s", "stopped": True}
        except warpmill.Error as error:
            row["error"] = str(error)
    for _ in range(runs):
        for strategy, row in rows.items():
            if row["error"] is None:
                start = time.perf_counter()
                result = run(strategy)
                row["runs_s"].append(round(time.perf_counter() - start, 6))
                profiles[strategy] = result.profile
    for strategy, profile in profiles.items():
        devices = [program["on_device"] for program in profile["programs"] if program["on_device"]]
        way, reason = how(profile)
        rows[strategy] |= {
            "seconds": statistics.median(rows[strategy]["runs_s"]),
            "device": ran_on(profile),
            "ran": way,
            "reason": reason,
            "mapped_bytes": sum(one["mapped_bytes"] for one in devices),
            "bytes_again": sum(one["bytes_again"] for one in devices),
            "bytes_read": profile["bytes_read"],
            "plain_bytes": counters(profile)[0]["plain_bytes"],
        }
    return list(rows.values())


def table(title: str, rows: list[Row]) -> Table:
    """One line per factor, query and strategy."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    left = ("query", "strategy", "on", "went")
    for name in ("factor", "customers", *left[:2], "limit", "time", *left[2:], "read", "again", "on the host", "same"):
        out.add_column(name, justify="left" if name in left else "right")
    last = None
    for row in rows:
        if last is not None and last != (row["factor"], row["query"]):
            out.add_section()
        last = (row["factor"], row["query"])
        cells = [f"{row['factor']}", f"{row['customers']:,}", row["query"], row["strategy"]]
        cells.append(
            "" if row["limit"] is None else row["limit"] if isinstance(row["limit"], str) else size(row["limit"])
        )
        if row["seconds"] is None:
            out.add_row(*cells, "failed", "", row["error"] or "", "", "", "", "")
            continue
        out.add_row(
            *cells,
            milliseconds(row["seconds"] * 1000),
            row["device"],
            row["ran"],
            size(row["bytes_read"]),
            size(row["bytes_again"]),
            size(row["mapped_bytes"]),
            "yes" if row["same_answer"] else "NO",
        )
    return out
