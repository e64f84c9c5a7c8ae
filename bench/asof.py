#!/usr/bin/env python3
"""The time of ASOF joins and of joins on ranges on the CPU, on a device and in DuckDB, over two tables of random rows.

python bench/asof.py [--rows 1000000] [--keys 10000] [--points 100000] [--runs 5] [--threads 2] [--only ""]
    [--engines cpu,gpu,duckdb] [--json FILE]

All engines run each query, with sums over its values so that no rows are handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed. Joins on ranges are quadratic for some engines: they run over `--points`
rows and as many ranges, and not on devices, which compare all pairs.
"""

from __future__ import annotations

from beside import compare

QUERIES = {
    "asof, random": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (k, t)",
    "asof, left": "SELECT count(*), sum(r.v) FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t < r.t",
    "asof, in order": "SELECT count(*), sum(r.v) FROM lo l ASOF JOIN ro r USING (k, t)",
    "asof, texts as keys": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (s, t)",
    "asof, no key": "SELECT count(*), sum(r.v) FROM l ASOF JOIN r USING (t)",
    "asof, grouped": """SELECT count(*), sum(x)
        FROM (SELECT l.k, avg(r.v) AS x FROM l ASOF JOIN r USING (k, t) GROUP BY l.k)""",
    "band, by key": "SELECT count(*), sum(r.v) FROM l JOIN r ON l.k = r.k AND r.t BETWEEN l.t - 10 * {keys} AND l.t",
    "points in ranges": "SELECT count(*), sum(p.v) FROM p JOIN b ON p.t BETWEEN b.lo AND b.hi",
    "band, no key": "SELECT count(*), sum(b.v) FROM p JOIN b ON b.lo BETWEEN p.t - 5 AND p.t + 5",
    "inequality, few": "SELECT count(*), sum(b.v) FROM p JOIN b ON p.t < b.lo AND p.v < 10 AND b.v > 990",
}

SIDE = """SELECT (hash(i + {seed}) % {{keys}})::INTEGER AS k, (hash(i * 7 + {seed}) % (10 * {{rows}}))::BIGINT AS t,
    (hash(i + 13) % 1000)::INTEGER AS v, 'key ' || hash(i + {seed}) % {{keys}} AS s FROM range({{rows}}) r(i)"""

TABLES = {
    "l": SIDE.format(seed=0),
    "r": SIDE.format(seed=1_000_003),
    "lo": "SELECT * FROM l ORDER BY t",
    "ro": "SELECT * FROM r ORDER BY t",
    "p": """SELECT (hash(i) % (10 * {points}))::BIGINT AS t, (hash(i + 3) % 1000)::INTEGER AS v
        FROM range({points}) r(i)""",
    "b": """SELECT lo, lo + (hash(i + 5) % 20)::BIGINT AS hi, v
        FROM (SELECT i, (hash(i + 9) % (10 * {points}))::BIGINT AS lo, (hash(i + 4) % 1000)::INTEGER AS v
              FROM range({points}) r(i))""",
}


def main() -> None:
    """Print the times."""
    on_ranges = frozenset(name for name in QUERIES if not name.startswith("asof"))
    # Rows of one key and time are any of them.
    compare(__doc__, TABLES, QUERIES, sizes={"points": 100_000}, tolerance=1e-2, only_host=on_ranges)


if __name__ == "__main__":
    main()
