#!/usr/bin/env python3
"""The time of correlations and regressions of groups on the CPU, on a device and in DuckDB, over random rows.

python bench/pairs.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--engines cpu,gpu,duckdb] [--json FILE]

All engines run each query, with sums over its groups so that they are not handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed.
"""

from __future__ import annotations

from beside import compare_by_groups

TABLE = """SELECT (hash(i) % {keys})::INTEGER AS k, (hash(i + 7) % 12)::INTEGER AS m,
    CASE WHEN i % 11 = 0 THEN NULL ELSE (hash(i + 13) % 100000) / 4.0 END::DOUBLE AS x,
    (hash(i + 19) % 1000003) / 8.0 AS y FROM range({rows}) r(i)"""

CALLS = {
    "a correlation": "corr(y, x)",
    "a covariance": "covar_samp(y, x)",
    "a regression": "regr_slope(y, x) + regr_intercept(y, x) + regr_r2(y, x)",
    "a deviation": "stddev(x)",
}

if __name__ == "__main__":
    compare_by_groups(__doc__, TABLE, CALLS)
