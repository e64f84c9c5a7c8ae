"""TPC-H over two workers of one thread each, beside one process of two threads: what the exchanges cost.

    python bench/distributed.py --scale 1 --folder /tmp/tpch --ballista

Prints the best of some runs of each query, and the ratios of the sums; with --ballista also for two of Ballista's
executors of one thread each, through their scheduler's Flight SQL server.
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
    from collections.abc import Callable, Iterator


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


@contextmanager
def ballista(database: Path, count: int) -> Iterator[Callable[[str], object]]:
    """A function that runs a query on Ballista's executors of one thread each, and reads its rows."""
    from adbc_driver_flightsql import dbapi

    processes: list[subprocess.Popen[str]] = []

    def start(*options: str) -> list[str]:
        command = [sys.executable, "-m", "warpmill", *options]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        output = processes[-1].stdout
        assert output is not None
        return re.findall(r"on (\S+:\d+)", output.readline())

    try:
        listen = ["--listen", "127.0.0.1:0", "--port", "0"]
        scheduler, flight = start("ballista-scheduler", "--database", str(database), *listen)
        for _ in range(count):
            start("ballista-executor", "--scheduler", scheduler, "--threads", "1", "--device", "cpu")
        time.sleep(2)
        with dbapi.connect(f"grpc://{flight}", autocommit=True) as con, con.cursor() as cursor:

            def run(sql: str) -> object:
                cursor.execute(sql)
                return cursor.fetchall()

            yield run
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def times(run: Callable[[str], object], runs: int) -> dict[str, float]:
    """The seconds of each query, the best of `runs` after one that is not counted."""
    best = {}
    for name, sql in _warpmill.queries("tpch"):
        run(sql)
        spent = []
        for _ in range(runs):
            start = time.perf_counter()
            run(sql)
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
    parser.add_argument("--ballista", action="store_true", help="run on Ballista's executors, too (make ballista)")
    given = parser.parse_args()
    database = prepared(given.folder, given.scale)
    ways = {}
    with warpmill.connect(database, threads=given.workers, device="cpu") as con:
        ways["alone"] = times(lambda sql: con.sql(sql).fetchall(), given.runs)
    with (
        workers(given.workers) as addresses,
        warpmill.connect(database, threads=1, device="cpu", workers=addresses) as con,
    ):
        ways["workers"] = times(lambda sql: con.sql(sql).fetchall(), given.runs)
    if given.ballista:
        with ballista(database, given.workers) as run:
            ways["ballista"] = times(run, given.runs)
    alone, others = ways["alone"], list(ways)[1:]
    print(f"{'query':>6} {'alone':>9}", *(f"{way:>9} {'ratio':>6}" for way in others))
    rows = [(name, {way: seconds[name] for way, seconds in ways.items()}) for name in alone]
    rows.append(("sum", {way: sum(seconds.values()) for way, seconds in ways.items()}))
    for name, spent in rows:
        ratios = (f"{spent[way] * 1e3:7.1f}ms {spent[way] / spent['alone']:6.2f}" for way in others)
        print(f"{name:>6} {spent['alone'] * 1e3:7.1f}ms", *ratios)


if __name__ == "__main__":
    main()
