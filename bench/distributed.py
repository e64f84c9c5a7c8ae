"""TPC-H over two workers of one thread each, beside one process of two threads: what the exchanges cost.

    python bench/distributed.py --scale 1 --folder /tmp/tpch

Prints the best of some runs of each query, and the ratio of the sums.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator


def prepared(folder: Path, scale: float) -> Path:
    """The database of TPC-H, made where it is not there."""
    database = folder / f"tpch-{scale:g}"
    if database.exists():
        return database
    with tempfile.TemporaryDirectory(dir=folder) as made, warpmill.connect(database, device="cpu") as con:
        for name in _warpmill.tables("tpch"):
            path = Path(made) / f"{name}.parquet"
            _warpmill.generate_parquet("tpch", name, scale, str(path), 0)
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
    return database


@contextmanager
def workers(count: int) -> Iterator[list[str]]:
    """Addresses of workers of one thread each."""
    command = [sys.executable, "-m", "warpmill", "worker", "--listen", "127.0.0.1:0"]
    command += ["--threads", "1", "--device", "cpu"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        addresses = []
        for process in processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"at (\S+)", line)
            assert found is not None, line
            addresses.append(found[1])
        yield addresses
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def times(con: warpmill.Connection, runs: int) -> dict[str, float]:
    """The seconds of each query, the best of `runs` after one that is not counted."""
    best = {}
    for name, sql in _warpmill.queries("tpch"):
        con.sql(sql).fetchall()
        spent = []
        for _ in range(runs):
            start = time.perf_counter()
            con.sql(sql).fetchall()
            spent.append(time.perf_counter() - start)
        best[name] = min(spent)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the database is made")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    database = prepared(given.folder, given.scale)
    with warpmill.connect(database, threads=given.workers, device="cpu") as con:
        alone = times(con, given.runs)
    with (
        workers(given.workers) as addresses,
        warpmill.connect(database, threads=1, device="cpu", workers=addresses) as con,
    ):
        together = times(con, given.runs)
    print(f"{'query':>6} {'alone':>9} {'together':>9} {'ratio':>6}")
    for name, seconds in alone.items():
        print(f"{name:>6} {seconds * 1e3:7.1f}ms {together[name] * 1e3:7.1f}ms {together[name] / seconds:6.2f}")
    sums = sum(alone.values()), sum(together.values())
    print(f"{'sum':>6} {sums[0] * 1e3:7.1f}ms {sums[1] * 1e3:7.1f}ms {sums[1] / sums[0]:6.2f}")


if __name__ == "__main__":
    main()
