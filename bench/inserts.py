#!/usr/bin/env python3
"""The time of one INSERT of a row beside DuckDB's, into a table with a key on disk.

python bench/inserts.py [--rows 1000000] [--count 1000] [--threads 2] [--json FILE]

Each engine inserts `--count` rows one by one, each by a commit of its own and then within one transaction, into a table
that begins empty and into one of `--rows` rows. Prints a line for each: median and 99th percentile of the elapsed
milliseconds of a statement, its processor time in all threads, and the time of the COMMIT.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

ROW = "({k}, {v}, 'text {s}')"


def processor_seconds() -> float:
    """The processor time of this process."""
    times = os.times()
    return times.user + times.system


def inserted(con: Any, first: int, count: int, *, together: bool) -> dict[str, float]:
    """The times of `count` rows whose keys begin with `first`, in one transaction if `together`."""

    def insert(k: int) -> None:
        con.execute("INSERT INTO t VALUES " + ROW.format(k=k, v=k % 1000, s=k % 50))

    warm = 30
    for k in range(first, first + warm):
        insert(k)
    if together:
        con.execute("BEGIN")
    elapsed, begun = [], processor_seconds()
    for k in range(first + warm, first + warm + count):
        start = time.perf_counter()
        insert(k)
        elapsed.append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    if together:
        con.execute("COMMIT")
    return {
        "median_ms": statistics.median(elapsed),
        "p99_ms": statistics.quantiles(elapsed, n=100)[98],
        "processor_ms": (processor_seconds() - begun) * 1e3 / count,
        "commit_ms": (time.perf_counter() - start) * 1e3,
    }


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="writes the times to this file, too")
    asked = parser.parse_args()

    import duckdb

    import warpmill

    engines = {
        "warpmill": lambda folder: warpmill.connect(folder / "db", device="cpu", threads=asked.threads),
        "duckdb": lambda folder: duckdb.connect(str(folder / "db.duckdb"), config={"threads": asked.threads}),
    }
    found = []
    for rows in (0, asked.rows):
        for name, connect in engines.items():
            with tempfile.TemporaryDirectory() as folder, connect(Path(folder)) as con:
                con.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v INTEGER, s VARCHAR)")
                con.execute(f"INSERT INTO t SELECT i, i % 1000, 'text ' || i % 50 FROM range({rows}) r(i)")
                for together in (False, True):
                    first = rows + (asked.count + 100) * together
                    times = inserted(con, first, asked.count, together=together)
                    found.append({"engine": name, "rows": rows, "one transaction": together, **times})
                    kind = "transaction" if together else "autocommit"
                    print(
                        f"{name:9} {rows:9,} rows  {kind:12}", *(f"{k} {v:.2f}" for k, v in times.items()), flush=True
                    )
    if asked.json:
        asked.json.write_text(json.dumps({"count": asked.count, "threads": asked.threads, "inserts": found}, indent=2))


if __name__ == "__main__":
    main()
