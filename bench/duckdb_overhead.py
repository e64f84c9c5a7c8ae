#!/usr/bin/env python3
"""The additional time of a query that DuckDB runs itself because Warpmill refuses it.

python bench/duckdb_overhead.py [--rounds 10] [--runs 60]

A round runs the query in turns with the extension asked and switched off, and takes the difference of the medians. All
rounds are printed: what else the machine does can lengthen one, and shorten another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

REFUSED = "SELECT g, median(a), sum(a) FILTER (WHERE s = 's1') FROM t WHERE a < 100 GROUP BY g ORDER BY g"


def main() -> None:
    """Prints a line of JSON: milliseconds of overhead, by round, and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=60, help="runs of a round, half of them with the extension")
    asked = parser.parse_args()

    import warpmill.duckdb

    con = warpmill.duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i AS a, i % 10 AS g, 's' || i % 3 AS s FROM range(10000) r(i)")
    rounds = []
    for _ in range(asked.rounds):
        times: dict[bool, list[float]] = {True: [], False: []}
        for at in range(asked.runs):
            on = at % 2 == 0
            con.execute(f"SET warpmill_enabled = {on}")
            start = time.perf_counter()
            con.execute(REFUSED).fetchall()
            times[on].append(time.perf_counter() - start)
        rounds.append(round((statistics.median(times[True]) - statistics.median(times[False])) * 1e3, 3))
    print(json.dumps({"query": REFUSED, "rounds_ms": rounds, "median_ms": round(statistics.median(rounds), 3)}))


if __name__ == "__main__":
    main()
