#!/usr/bin/env python3
"""Scans of a Parquet file in a store, with room to keep all of it on the host and without.

python bench/remote_parquet.py [--delay SECONDS] [--rows N] [--limits 4GB,64MB] [--runs 5] [--device sim]

The store is a server of the tests, in this process, which answers each request after `--delay` seconds. The
file has five columns of 64 bits that do not compress, in 16 row groups. What a query reads of the store beyond
what the file has was read twice.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))

GROUPS = 16
QUERY = "SELECT max(c0), max(c1), max(c2), max(c3), sum(k) FROM t"


def make_file(path: Path, rows: int) -> bytes:
    """The content of a file, written to `path`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    noise = [pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(os.urandom(8 * rows))]) for _ in range(4)]
    table = pa.table({f"c{number}": values for number, values in enumerate(noise)} | {"k": pa.array(range(rows))})
    pq.write_table(table, path, row_group_size=rows // GROUPS, use_dictionary=False, compression="none")
    return path.read_bytes()


def main() -> None:
    """Prints a line of JSON for each limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that an answer takes at least")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--limits", default="4GB,64MB", help="values of warpmill.memory_limit, half of which is room")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", default="sim")
    asked = parser.parse_args()

    import warpmill
    from stores.server import serve

    os.environ["NO_PROXY"] = "127.0.0.1"
    store, server = serve()
    with tempfile.TemporaryDirectory() as folder:
        content = make_file(Path(folder) / "x.parquet", asked.rows)
    store.objects["bench/x.parquet"], store.delay = content, asked.delay
    for limit in asked.limits.split(","):
        settings = store.settings(device=asked.device, device_fallback="error", memory_limit=limit)
        seconds, read, rows = [], 0, set()
        with warpmill.connect(**settings) as con:
            con.register_file("t", "s3://bench/x.parquet")
            # Kernels are compiled, and the footer is read.
            con.sql(QUERY).fetchall()
            for _ in range(asked.runs):
                before, started = store.sent, time.perf_counter()
                rows.add(tuple(con.sql(QUERY).fetchall()))
                seconds.append(time.perf_counter() - started)
                read = store.sent - before
        report = {"memory_limit": limit, "delay": asked.delay, "read": round(read / len(content), 3)}
        print(json.dumps(report | {"seconds": round(statistics.median(seconds), 3), "answers": len(rows)}), flush=True)
    server.shutdown()


if __name__ == "__main__":
    main()
