#!/usr/bin/env python3
"""The time of ASOF joins and of joins on ranges beside DuckDB's, over two tables of random rows.

python bench/asof.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--device cpu] [--only ""] [--alone]

Both engines run each query, with sums over its values so that no rows are handed out. Prints a line per query: median
milliseconds of both, and their ratio. Joins on ranges are quadratic for some engines: they run over `--points` rows and
as many ranges.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = {
    "asof, random": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (k, t)",
    "asof, left": "SELECT count(*), sum(r.v) FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t < r.t",
    "asof, in order": "SELECT count(*), sum(r.v) FROM lo l ASOF JOIN ro r USING (k, t)",
    "asof, texts as keys": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (s, t)",
    "asof, no key": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (t)",
    "asof, grouped": """SELECT count(*), sum(x)
        FROM (SELECT l.k, avg(r.v) AS x FROM l ASOF JOIN r USING (k, t) GROUP BY l.k)""",
    "band, by key": "SELECT count(*), sum(r.v) FROM l JOIN r ON l.k = r.k AND r.t BETWEEN l.t - {band} AND l.t",
    "points in ranges": "SELECT count(*), sum(p.v) FROM p JOIN b ON p.t BETWEEN b.lo AND b.hi",
    "band, no key": "SELECT count(*), sum(b.v) FROM p JOIN b ON b.lo BETWEEN p.t - 5 AND p.t + 5",
    "inequality, few": "SELECT count(*), sum(b.v) FROM p JOIN b ON p.t < b.lo AND p.v < 10 AND b.v > 990",
}

TABLES = {
    "{}": """SELECT (hash(i + {seed}) % {keys})::INTEGER AS k, (hash(i * 7 + {seed}) % (10 * {rows}))::BIGINT AS t,
        (hash(i + 13) % 1000)::INTEGER AS v, 'key ' || hash(i + {seed}) % {keys} AS s FROM range({rows}) r(i)""",
    "{}o": "SELECT * FROM {} ORDER BY t",
}
POINTS = {
    "p": """SELECT (hash(i) % (10 * {points}))::BIGINT AS t, (hash(i + 3) % 1000)::INTEGER AS v
        FROM range({points}) r(i)""",
    "b": """SELECT lo, lo + (hash(i + 5) % 20)::BIGINT AS hi, v
        FROM (SELECT i, (hash(i + 9) % (10 * {points}))::BIGINT AS lo, (hash(i + 4) % 1000)::INTEGER AS v
              FROM range({points}) r(i))""",
}


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
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="queries with this in their name")
    parser.add_argument("--alone", action="store_true", help="without DuckDB")
    asked = parser.parse_args()

    import duckdb

    import warpmill

    theirs = duckdb.connect(config={"threads": asked.threads})
    tables = {}
    for seed, name in enumerate(("l", "r")):
        for form, sql in TABLES.items():
            sized = sql.format(name, seed=seed * 1_000_003, keys=asked.keys, rows=asked.rows)
            tables[form.format(name)] = sized
    tables |= {name: sql.format(points=asked.points) for name, sql in POINTS.items()}
    with warpmill.connect(threads=asked.threads, device=asked.device, fallback="error") as ours:
        for name, sql in tables.items():
            theirs.execute(f"CREATE TABLE {name} AS {sql}")
            ours.register("rows", theirs.sql(f"FROM {name}").to_arrow_table())
            ours.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
        for name, form in QUERIES.items():
            if asked.only not in name:
                continue
            sql = form.format(band=10 * asked.keys)
            own = ours.execute(sql).fetchall()
            mine = median(lambda sql=sql: ours.execute(sql).fetchall(), asked.runs)
            if asked.alone:
                print(f"{name:22} {mine:8.1f}  {own[0]}", flush=True)
                continue
            other = theirs.execute(sql).fetchall()
            their = median(lambda sql=sql: theirs.execute(sql).fetchall(), asked.runs)
            # Rows of one key and time are any of them.
            near = own[0][0] == other[0][0] and abs(float(own[0][1]) - float(other[0][1])) <= 1e-2 * abs(
                float(other[0][1])
            )
            print(f"{name:22} {mine:8.1f} {their:8.1f}  {mine / their:5.2f}{'' if near else '  DIFFERENT'}", flush=True)


if __name__ == "__main__":
    main()
