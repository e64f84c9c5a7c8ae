#!/usr/bin/env python3
"""The cost of marks of deleted rows: TPC-H before deletions, after them, and after OPTIMIZE.

python bench/deletions.py [--sf 10] [--device gpu] [--runs 5] [--json FILE]

Deletes rows of six tables, scattered and near each other (of lineitem 1.8%), and runs all queries in each state on the
device and on the CPU, whose answers must be the same. Prints the milliseconds of each deletion, and of each query,
repeated, in the three states.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import warpmill
from warpmill import _warpmill

DELETIONS = [
    "DELETE FROM lineitem WHERE l_orderkey % 101 = 7",
    "DELETE FROM lineitem WHERE l_shipdate BETWEEN DATE '1994-03-01' AND DATE '1994-03-20'",
    "DELETE FROM orders WHERE o_orderkey % 257 = 3",
    "DELETE FROM customer WHERE c_custkey = 17 OR c_custkey % 503 = 1",
    "DELETE FROM part WHERE p_partkey % 211 = 5",
    "DELETE FROM partsupp WHERE ps_suppkey % 97 = 9",
    "DELETE FROM supplier WHERE s_suppkey = 10",
]
TABLES = ["lineitem", "orders", "customer", "part", "partsupp", "supplier"]


def comparable(rows: list[tuple[Any, ...]]) -> list[str]:
    """The rows in order, with nine digits of floats."""
    return sorted(repr([float(f"{x:.9g}") if isinstance(x, float) else x for x in row]) for row in rows)


def on(con: Any, device: str) -> None:
    """Lets queries run on a device only."""
    con.execute(f"SET warpmill.device_fallback = '{'allow' if device == 'cpu' else 'error'}'")
    con.execute(f"SET warpmill.device = '{device}'")


def times(con: Any, device: str, runs: int) -> dict[str, float]:
    """The milliseconds of each query, whose answers are the CPU's."""
    found = {}
    for name, sql in _warpmill.queries("tpch"):
        on(con, device)
        own = con.execute(sql).fetchall()
        elapsed = []
        for _ in range(runs):
            start = time.perf_counter()
            con.execute(sql).fetchall()
            elapsed.append((time.perf_counter() - start) * 1e3)
        found[name] = statistics.median(elapsed)
        on(con, "cpu")
        if comparable(own) != comparable(con.execute(sql).fetchall()):
            raise SystemExit(f"query {name}: {device} and the CPU differ")
    return found


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", type=float, default=10)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="writes the times to this file, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warpmill.connect(folder) as con:
        for table in _warpmill.tables("tpch"):
            con.generate("tpch", table, asked.sf)
        states = {"before": times(con, asked.device, asked.runs)}
        deletions = []
        for sql in DELETIONS:
            start = time.perf_counter()
            rows = con.execute(sql).fetchall()[0][0]
            deletions.append({"statement": sql, "rows": rows, "ms": (time.perf_counter() - start) * 1e3})
            print(f"{deletions[-1]['ms']:8.1f}  {rows:9} rows  {sql}", flush=True)
        states["marked"] = times(con, asked.device, asked.runs)
        for table in TABLES:
            con.execute(f"OPTIMIZE {table}")
        states["optimized"] = times(con, asked.device, asked.runs)
    for query in states["before"]:
        print(f"{query:>5}", *(f"{found[query]:9.2f}" for found in states.values()))
    print("  sum", *(f"{sum(found.values()):9.2f}" for found in states.values()))
    if asked.json:
        asked.json.write_text(json.dumps({"sf": asked.sf, "deletions": deletions, "states": states}, indent=1) + "\n")


if __name__ == "__main__":
    main()
