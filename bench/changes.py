#!/usr/bin/env python3
"""The time of DELETE, UPDATE and MERGE beside DuckDB's, over one stored table.

python bench/changes.py [--rows 10000000] [--runs 3] [--threads 2] [--json FILE]

Both engines change a database on disk, each run a copy of the same one. Rows are near each other (`clustered`: one
range of the key, in whose order the table is) or anywhere (`scattered`). Prints a line per statement: median
milliseconds of both, and their ratio; then the time of a scan of the table as it is afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

STATEMENTS = {
    "delete 1% clustered": "DELETE FROM t WHERE k BETWEEN {middle} AND {middle} + {share} - 1",
    "delete 1% scattered": "DELETE FROM t WHERE h % 100 = 7",
    "update 1% clustered": "UPDATE t SET v = v + 1 WHERE k BETWEEN {middle} AND {middle} + {share} - 1",
    "update 1% scattered": "UPDATE t SET v = v + 1 WHERE h % 100 = 7",
    "update 1% of texts": "UPDATE t SET s = 'other ' || (h % 50) WHERE h % 100 = 7",
    "update all": "UPDATE t SET v = v + 1",
    "delete one row": "DELETE FROM t WHERE k = {middle}",
    "merge 1% scattered": "MERGE INTO t USING (SELECT k, v FROM t WHERE h % 100 = 7) s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = s.v + 1",
    "truncate": "TRUNCATE t",
}

TABLE = """SELECT i::BIGINT AS k, (hash(i) % 1000000)::INTEGER AS h, (hash(i + 1) % 100000)::BIGINT AS v,
    (hash(i + 2) % 10000 / 100.0)::DECIMAL(12,2) AS d,
    (hash(i + 3) % 100000) / 8.0 AS x, 'value ' || hash(i + 4) % 1000 AS s,
    DATE '2000-01-01' + (i // 10000)::INTEGER AS day
    FROM range({rows}) r(i)"""

SCAN = "SELECT count(*), sum(v), sum(d), min(day), count(DISTINCT s) FROM t"


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="statements with this in their name")
    parser.add_argument("--json", type=Path, help="writes the times to this file, too")
    asked = parser.parse_args()

    import duckdb

    import warpmill

    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        given, ours, theirs, work = (Path(folder) / name for name in ("t.parquet", "ours", "theirs.db", "work"))
        with duckdb.connect(str(theirs)) as con:
            con.execute(f"CREATE TABLE t AS {TABLE.format(rows=asked.rows)}")
            con.execute(f"COPY t TO '{given}'")
        with warpmill.connect(str(ours)) as con:
            con.execute(f"CREATE TABLE t AS SELECT * FROM '{given}'")
        given.unlink()

        def run(engine: Any, path: Path, sql: str) -> tuple[list[float], list[float], list[Any]]:
            times, scans, answers = [], [], []
            for _ in range(asked.runs):
                copy = work / path.name
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                if path.is_dir():
                    shutil.copytree(path, copy)
                else:
                    shutil.copy(path, copy)
                with engine(copy) as con:
                    con.execute(SCAN).fetchall()
                    start = time.perf_counter()
                    count = con.execute(sql).fetchall()
                    times.append((time.perf_counter() - start) * 1e3)
                    start = time.perf_counter()
                    answers = [count, con.execute(SCAN).fetchall()]
                    scans.append((time.perf_counter() - start) * 1e3)
            return times, scans, answers

        def own(path: Path) -> Any:
            con = warpmill.connect(str(path))
            con.execute(f"SET warpmill.threads = {asked.threads}")
            con.execute("SET warpmill.device = 'cpu'")
            return con

        def other(path: Path) -> Any:
            return duckdb.connect(str(path), config={"threads": asked.threads})

        for name, text in STATEMENTS.items():
            if asked.only not in name:
                continue
            sql = text.format(middle=asked.rows // 2, share=asked.rows // 100)
            (mine, my_scan, answer), (their, their_scan, wanted) = run(own, ours, sql), run(other, theirs, sql)
            one, two = statistics.median(mine), statistics.median(their)
            scan, scan_two = statistics.median(my_scan), statistics.median(their_scan)
            same = answer == wanted
            print(
                f"{name:22} {one:9.1f} {two:9.1f}  {one / two:6.2f}   "
                f"scan {scan:7.1f} {scan_two:7.1f}  {scan / scan_two:5.2f}"
                f"{'' if same else '  DIFFERENT'}",
                flush=True,
            )
            found.append(
                {
                    "statement": name,
                    "ours_ms": mine,
                    "theirs_ms": their,
                    "ours_scan_ms": my_scan,
                    "theirs_scan_ms": their_scan,
                    "same": same,
                }
            )
    if asked.json:
        asked.json.write_text(json.dumps({"rows": asked.rows, "threads": asked.threads, "statements": found}, indent=1))


if __name__ == "__main__":
    main()
