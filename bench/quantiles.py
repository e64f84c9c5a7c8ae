#!/usr/bin/env python3
"""The time of medians and quantiles of groups on the CPU, on a device and in DuckDB, over one table of random rows.

python bench/quantiles.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--engines cpu,gpu,duckdb]
    [--json FILE]

All engines run each query, with sums over its groups so that they are not handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed.
"""

from __future__ import annotations

from beside import compare_by_groups

TABLE = """SELECT (hash(i) % {keys})::INTEGER AS k, (hash(i + 7) % 12)::INTEGER AS m,
    (hash(i + 13) % 100000)::INTEGER AS v, (hash(i + 19) % 1000003) / 8.0 AS x FROM range({rows}) r(i)"""

CALLS = {
    "median of numbers": "median(v)",
    "median of floats": "median(x)",
    "a quantile": "quantile_cont(x, 0.9)",
    "an element": "quantile_disc(v, 0.25)",
    "median beside others": "median(v) + sum(v) / count(*) + max(x)",
}

if __name__ == "__main__":
    compare_by_groups(__doc__, TABLE, CALLS)
