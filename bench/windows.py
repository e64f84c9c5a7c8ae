#!/usr/bin/env python3
"""The time of window functions beside DuckDB's, over one table of random rows.

python bench/windows.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2]

Both engines run each query, with a sum over its values so that no rows are handed out. Prints a line per query: median
milliseconds of both, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = {
    "row_number": "row_number() OVER (PARTITION BY k ORDER BY t)",
    "rank": "rank() OVER (PARTITION BY k ORDER BY t)",
    "lag": "lag(v) OVER (PARTITION BY k ORDER BY t)",
    "running sum": "sum(v) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)",
    "moving average of 100 rows": "avg(v) OVER (PARTITION BY k ORDER BY t ROWS 99 PRECEDING)",
    "moving average of 100 floats": "avg(x) OVER (PARTITION BY k ORDER BY t ROWS 99 PRECEDING)",
    "minimum over a range": "min(v) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 9999 PRECEDING AND 9999 FOLLOWING)",
    "ntile": "ntile(10) OVER (PARTITION BY k ORDER BY t)",
    "sum of partitions": "sum(v) OVER (PARTITION BY k)",
    "row_number of all": "row_number() OVER (ORDER BY t)",
    "moving sum of all": "sum(v) OVER (ORDER BY t ROWS 99 PRECEDING)",
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


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="queries with this in their name")
    parser.add_argument("--alone", action="store_true", help="without DuckDB")
    asked = parser.parse_args()

    import duckdb

    import warpmill

    theirs = duckdb.connect(config={"threads": asked.threads})
    theirs.execute(TABLE.format(keys=asked.keys, rows=asked.rows))
    rows = theirs.sql("SELECT * FROM w").to_arrow_table()
    with warpmill.connect() as ours:
        ours.execute(f"SET warpmill.threads = {asked.threads}")
        ours.execute("SET warpmill.device = 'cpu'")
        ours.execute("SET warpmill.fallback = 'error'")
        ours.register("rows", rows)
        ours.execute("CREATE TABLE w AS SELECT * FROM rows")
        for name, call in QUERIES.items():
            if asked.only not in name:
                continue
            sql = f"SELECT count(*), sum(f) FROM (SELECT k, t, v, {call} AS f FROM w)"
            own, other = ours.execute(sql).fetchall(), None
            mine = median(lambda sql=sql: ours.execute(sql).fetchall(), asked.runs)
            if asked.alone:
                print(f"{name:30} {mine:8.1f}", flush=True)
                continue
            other = theirs.execute(sql).fetchall()
            their = median(lambda sql=sql: theirs.execute(sql).fetchall(), asked.runs)
            near = own == other or abs(float(own[0][1]) - float(other[0][1])) <= 1e-9 * abs(float(other[0][1]))
            print(f"{name:30} {mine:8.1f} {their:8.1f}  {mine / their:5.2f}{'' if near else '  DIFFERENT'}", flush=True)


if __name__ == "__main__":
    main()
