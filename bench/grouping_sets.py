#!/usr/bin/env python3
"""The time of ROLLUP, CUBE and GROUPING SETS on the CPU, on a device and in DuckDB, over one table of random rows.

python bench/grouping_sets.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--engines cpu,gpu,duckdb]
    [--json FILE]

All engines run each query, with sums over its groups so that they are not handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed.
"""

from __future__ import annotations

from beside import compare

TABLE = """SELECT (hash(i) % {keys})::INTEGER AS k, (hash(i + 7) % 12)::INTEGER AS m,
    (hash(i + 9) % 5)::INTEGER AS y, (hash(i + 13) % 1000)::INTEGER AS v,
    (hash(i + 17) % 100000 / 100.0)::DECIMAL(9, 2) AS d, (hash(i + 19) % 1000) / 8.0 AS x,
    'country ' || hash(i + 21) % 50 AS c FROM range({rows}) r(i)"""

SETS = {
    "rollup of three": ("y, m, c", "ROLLUP (y, m, c)"),
    "rollup to many groups": ("c, m, k", "ROLLUP (c, m, k)"),
    "cube of three": ("y, m, c", "CUBE (y, m, c)"),
    "cube of four": ("y, m, c, v", "CUBE (y, m, c, v)"),
    "sets beside each other": ("y, m, c", "GROUPING SETS ((y), (m), (c))"),
    "sets and a total": ("k, c", "GROUPING SETS ((k), (c), ())"),
}

CALLS = {
    "": "count(*) AS n, sum(v) AS s, avg(d) AS a, max(x) AS g",
    ", distinct": "count(DISTINCT m) AS n, sum(v) AS s, avg(d) AS a, max(x) AS g",
}


def main() -> None:
    """Print the times."""
    queries = {}
    for name, (keys, sets) in SETS.items():
        for suffix, calls in CALLS.items():
            if not suffix or "rollup" in name:
                group = f"SELECT {keys}, {calls} FROM w GROUP BY {sets}"
                queries[name + suffix] = f"SELECT count(*), sum(n), sum(s), sum(a::DOUBLE), sum(g) FROM ({group})"
    compare(__doc__, {"w": TABLE}, queries)


if __name__ == "__main__":
    main()
