"""Queries in Warpmill, on the CPU or on a device, beside DuckDB over the same table, for scripts in this folder."""

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
    """Whether two answers of one row are the same, sums of floats nearly."""

    def same(mine: Any, wanted: Any) -> bool:
        return bool(mine == wanted) or abs(float(mine) - float(wanted)) <= 1e-9 * abs(float(wanted))

    return len(own) == len(other) == 1 and all(map(same, own[0], other[0]))


def compare(doc: str | None, table: str, queries: dict[str, str]) -> None:
    """Print the times of queries over the table ``w``, which DuckDB makes by ``table``, with ``{rows}`` and ``{keys}``.

    Each query has one row as its answer. Options are those of the command line, which ``doc`` explains.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    theirs.execute(table.format(keys=asked.keys, rows=asked.rows))
    with warpmill.connect() as ours:
        ours.execute(f"SET warpmill.threads = {asked.threads}")
        ours.execute("SET warpmill.fallback = 'error'")
        ours.register("rows", theirs.sql("SELECT * FROM w").to_arrow_table())
        ours.execute("CREATE TABLE w AS SELECT * FROM rows")
        print(f"{'':30} {' '.join(f'{engine:>9}' for engine in engines)}", flush=True)
        report = []
        for name, sql in queries.items():
            if asked.only not in name:
                continue
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
