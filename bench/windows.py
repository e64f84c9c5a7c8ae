#!/usr/bin/env python3
"""The time of window functions on the CPU, on a device and in DuckDB, over one table of random rows.

python bench/windows.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--engines cpu,gpu,duckdb]
    [--json FILE]

All engines run each query, with a sum over its values so that no rows are handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = {
    "row_number": "row_number() OVER (PARTITION BY k ORDER BY t)",
    "rank": "rank() OVER (PARTITION BY k ORDER BY t)",
    "lag": "lag(v) OVER (PARTITION BY k ORDER BY t)",
    "running sum": "sum(v) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)",
    "running sum of floats": "sum(x) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)",
    "running maximum": "max(v) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)",
    "moving average of 100 rows": "avg(v) OVER (PARTITION BY k ORDER BY t ROWS 99 PRECEDING)",
    "moving average of 100 floats": "avg(x) OVER (PARTITION BY k ORDER BY t ROWS 99 PRECEDING)",
    "moving maximum of 1000 rows": "max(v) OVER (PARTITION BY k ORDER BY t ROWS 999 PRECEDING)",
    "minimum over a range": "min(v) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 9999 PRECEDING AND 9999 FOLLOWING)",
    "ntile": "ntile(10) OVER (PARTITION BY k ORDER BY t)",
    "sum of partitions": "sum(v) OVER (PARTITION BY k)",
    "row_number of all": "row_number() OVER (ORDER BY t)",
    "moving sum of all": "sum(v) OVER (ORDER BY t ROWS 99 PRECEDING)",
    "moving maximum of all floats": "max(x) OVER (ORDER BY t ROWS 999 PRECEDING)",
    "partitions of texts": "row_number() OVER (PARTITION BY s ORDER BY t)",
}

TABLE = """CREATE TABLE w AS SELECT (hash(i) % {keys})::INTEGER AS k, (i * 999983 % {rows})::INTEGER AS t,
    (hash(i + 13) % 1000)::INTEGER AS v, (hash(i + 17) % 1000) / 8.0 AS x, 'key ' || hash(i) % {keys} AS s
    FROM range({rows}) r(i)"""


def median(run: Callable[[], object], runs: int) -> float:
    """The median of some runs, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """The answer of an engine."""
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return rows


def not_on_device(connection: Any, sql: str) -> list[str]:
    """Why programs of a query do not run on the device."""
    programs = connection.sql(sql).profile["programs"]
    return [program["not_on_device"] for program in programs if program["not_on_device"]]


def near(own: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    """Whether two answers are the same, sums of floats nearly."""
    return own == other or abs(float(own[0][1]) - float(other[0][1])) <= 1e-9 * abs(float(other[0][1]))


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="queries with this in their name")
    parser.add_argument("--engines", default="cpu,duckdb", help="of cpu, gpu, sim and duckdb")
    parser.add_argument("--json", type=Path, help="a file for the times")
    asked = parser.parse_args()
    engines = asked.engines.split(",")

    import duckdb

    import warpmill

    theirs = duckdb.connect(config={"threads": asked.threads})
    theirs.execute(TABLE.format(keys=asked.keys, rows=asked.rows))
    with warpmill.connect() as ours:
        ours.execute(f"SET warpmill.threads = {asked.threads}")
        ours.execute("SET warpmill.fallback = 'error'")
        ours.register("rows", theirs.sql("SELECT * FROM w").to_arrow_table())
        ours.execute("CREATE TABLE w AS SELECT * FROM rows")
        print(f"{'':30} {' '.join(f'{engine:>9}' for engine in engines)}", flush=True)
        report = []
        for name, call in QUERIES.items():
            if asked.only not in name:
                continue
            sql = f"SELECT count(*), sum(f) FROM (SELECT k, t, v, {call} AS f FROM w)"
            times: dict[str, float] = {}
            wanted, notes = None, ""
            for engine in engines:
                connection: Any = theirs if engine == "duckdb" else ours
                if engine != "duckdb":
                    ours.execute(f"SET warpmill.device = '{engine}'")
                for _ in range(2):
                    found = rows_of(connection, sql)
                reasons = not_on_device(ours, sql) if engine in ("gpu", "sim") else []
                notes += "".join(f"  {engine}: {reason}" for reason in reasons)
                notes += "" if wanted is None or near(found, wanted) else f"  {engine}: DIFFERENT"
                wanted = wanted or found
                times[engine] = median(partial(rows_of, connection, sql), asked.runs)
            first = times[engines[0]]
            shares = " ".join(f"{first / times[engine]:6.2f}x" for engine in engines[1:])
            print(f"{name:30} {' '.join(f'{ms:9.2f}' for ms in times.values())}  {shares}{notes}", flush=True)
            report.append({"query": name, "rows": asked.rows, "keys": asked.keys, "ms": times, "notes": notes.strip()})
        if asked.json:
            asked.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
