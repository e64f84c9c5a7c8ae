#!/usr/bin/env python3
"""The time of window functions on the CPU, on a device and in DuckDB, over one table of random rows.

python bench/windows.py [--rows 1000000] [--keys 10000] [--runs 5] [--threads 2] [--engines cpu,gpu,duckdb]
    [--json FILE]

All engines run each query, with a sum over its values so that no rows are handed out. Prints a line per query: median
milliseconds of each engine, and how many times faster than the first the others are. Kernels are compiled, and data is
copied to the device, before anything is timed.
"""

from __future__ import annotations

from beside import compare

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

# Aggregates that no program has.
IN_DATAFUSION = {
    "median of partitions": "median(v) OVER (PARTITION BY k)",
    "running median": "median(v) OVER (PARTITION BY k ORDER BY t)",
    "running median of all": "median(v) OVER (ORDER BY t)",
    "moving median of 100 rows": "median(x) OVER (ORDER BY t ROWS 99 PRECEDING)",
    "moving mode of 100 rows": "mode(v) OVER (ORDER BY t ROWS 99 PRECEDING)",
    "moving variance of 100 floats": "var_samp(x) OVER (ORDER BY t ROWS 99 PRECEDING)",
    "moving arg_max of 100 rows": "arg_max(v, x) OVER (ORDER BY t ROWS 99 PRECEDING)",
    "moving distinct sum of 10 rows": "sum(DISTINCT v) OVER (ORDER BY t ROWS 9 PRECEDING)",
}

TABLE = """SELECT (hash(i) % {keys})::INTEGER AS k, (i * 999983 % {rows})::INTEGER AS t,
    (hash(i + 13) % 1000)::INTEGER AS v, (hash(i + 17) % 1000) / 8.0 AS x, 'key ' || hash(i) % {keys} AS s
    FROM range({rows}) r(i)"""


def main() -> None:
    """Print the times."""
    sums = {
        name: f"SELECT count(*), sum(f) FROM (SELECT k, t, v, {call} AS f FROM w)"
        for name, call in {**QUERIES, **IN_DATAFUSION}.items()
    }
    compare(__doc__, {"w": TABLE}, sums, in_datafusion=frozenset(IN_DATAFUSION))


if __name__ == "__main__":
    main()
