"""Queries in Warpmill, on the CPU or on a device, beside DuckDB over the same tables, for scripts in this folder."""

from __future__ import annotations

import argparse
import json
import math
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


def near(own: list[tuple[Any, ...]], other: list[tuple[Any, ...]], tolerance: float) -> bool:
    """Whether two answers of one row are the same, numbers up to a part of them."""

    def same(mine: Any, wanted: Any) -> bool:
        return bool(mine == wanted) or abs(float(mine) - float(wanted)) <= tolerance * abs(float(wanted))

    return len(own) == len(other) == 1 and all(map(same, own[0], other[0]))


def compare(
    doc: str | None,
    tables: dict[str, str],
    queries: dict[str, str],
    *,
    sizes: dict[str, int] | None = None,
    tolerance: float = 1e-9,
    only_host: frozenset[str] = frozenset(),
    in_datafusion: frozenset[str] = frozenset(),
) -> None:
    """Print the times of queries over tables that DuckDB makes by SQL, with ``{rows}``, ``{keys}`` and other ``sizes``.

    Each query has one row as its answer, whose sums may differ between engines by ``tolerance``, a part of them. Those
    of ``only_host`` run on no device, those ``in_datafusion`` in no program either. Options are those of the command
    line, which ``doc`` explains.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for size, usual in {"rows": 1_000_000, "keys": 10_000, **(sizes or {})}.items():
        parser.add_argument(f"--{size}", type=int, default=usual)
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
    with warpmill.connect() as ours:
        ours.execute(f"SET warpmill.threads = {asked.threads}")
        for table, sql in tables.items():
            theirs.execute(f"CREATE TABLE {table} AS {sql.format(**vars(asked))}")
            ours.register("rows", theirs.sql(f"SELECT * FROM {table}").to_arrow_table())
            ours.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
        print(f"{'':30} {' '.join(f'{engine:>9}' for engine in engines)}", flush=True)
        report = []
        for name, form in queries.items():
            if asked.only not in name:
                continue
            sql = form.format(**vars(asked))
            ours.execute(f"SET warpmill.fallback = '{'allow' if name in in_datafusion else 'error'}'")
            times: dict[str, float] = {}
            wanted, notes = None, ""
            for engine in engines:
                on_device = engine in ("gpu", "sim")
                if on_device and name in only_host | in_datafusion:
                    times[engine] = math.nan
                    continue
                connection: Any = theirs if engine == "duckdb" else ours
                if engine != "duckdb":
                    ours.execute(f"SET warpmill.device = '{engine}'")
                for _ in range(2):
                    found = rows_of(connection, sql)
                reasons = not_on_device(ours, sql) if on_device else []
                notes += "".join(f"  {engine}: {reason}" for reason in reasons)
                notes += "" if wanted is None or near(found, wanted, tolerance) else f"  {engine}: DIFFERENT"
                wanted = wanted or found
                times[engine] = median(partial(rows_of, connection, sql), asked.runs)
            first = times[engines[0]]
            shares = " ".join(f"{first / times[engine]:6.2f}x" for engine in engines[1:])
            line = f"{name:30} {' '.join(f'{ms:9.2f}' for ms in times.values())}  {shares}{notes}"
            print(line.replace("nanx", "   ").replace("nan", "  -"), flush=True)
            measured = {engine: ms for engine, ms in times.items() if not math.isnan(ms)}
            figures = {"query": name, "rows": asked.rows, "keys": asked.keys, "ms": measured, "notes": notes.strip()}
            report.append(figures)
        if asked.json:
            asked.json.write_text(json.dumps(report, indent=1))


def compare_by_groups(doc: str | None, table: str, calls: dict[str, str]) -> None:
    """Print the times of aggregates of all rows of a table ``w``, of few groups (``m``) and of many (``k``).

    Their values are summed, so that groups are not handed out.
    """
    groups = {"all rows": "", "few groups": "GROUP BY m", "many groups": "GROUP BY k"}
    queries = {
        f"{call}, {name}": f"SELECT count(*), sum(q::DOUBLE) FROM (SELECT {value} AS q FROM w {group})"
        for call, value in calls.items()
        for name, group in groups.items()
    }
    compare(doc, {"w": table}, queries)
