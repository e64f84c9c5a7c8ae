"""TPC-H's queries once each in new processes without kept kernels: on the CPU, and with a device beside it (auto).

    python bench/first_runs.py --scales 1,10,30 --runs 5 --folder /tmp/tpch

Prints the sums of all runs, the ratio of their medians, and the queries that take 8 ms more or less with the device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import warpmill
from distributed import prepared
from warpmill import _warpmill


def once(database: str, device: str) -> None:
    """Print the milliseconds of each query, and end without waiting for the device."""
    spent = {}
    with warpmill.connect(database, device=device) as con:
        for name, sql in _warpmill.queries("tpch"):
            start = time.perf_counter()
            con.sql(sql).fetchall()
            spent[name] = round((time.perf_counter() - start) * 1e3, 1)
        print(json.dumps(spent), flush=True)
        os._exit(0)


def measured(database: Path, device: str) -> dict[str, float]:
    """The milliseconds of each query in a new process with an empty cache of kernels."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "CUDA_CACHE_DISABLE": "1"}
        environment.pop("WARPMILL_CACHE_DIR", None)
        command = [sys.executable, __file__, "--once", str(database), device]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        spent: dict[str, float] = json.loads(done.stdout)
        return spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", default="1", help="scale factors of TPC-H")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where databases are made")
    parser.add_argument("--once", nargs=2, metavar=("DATABASE", "DEVICE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        once(*given.once)
    for scale in given.scales.split(","):
        database = prepared(given.folder, float(scale))
        runs: dict[str, list[dict[str, float]]] = {"cpu": [], "auto": []}
        for _ in range(given.runs):
            for device, found in runs.items():
                found.append(measured(database, device))
        sums = {device: sorted(round(sum(run.values()), 1) for run in found) for device, found in runs.items()}
        medians = {device: statistics.median(found) for device, found in sums.items()}
        print(f"SF {scale}: {sums}, ratio {medians['auto'] / medians['cpu']:.3f}", flush=True)
        for query in runs["cpu"][0]:
            cpu, auto = (statistics.median(run[query] for run in found) for found in runs.values())
            if abs(auto - cpu) > 8:
                print(f"  query {query}: {cpu:.1f} and {auto:.1f} ms")


if __name__ == "__main__":
    main()
