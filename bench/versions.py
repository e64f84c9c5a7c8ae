"""Two builds of Warpmill on the same queries in one run: `python bench/versions.py OLD NEW --out FILE`.

OLD and NEW are folders that hold a package `warpmill` with its native module (a checkout's `python/`). Both make their
own tables, and take turns, each time in a new process, so that whatever else the machine does falls on both. The figure
of a query is the least of its medians.
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
from typing import Any

SUITES = ("tpch", "ssb")


def child(suite: str, sf: float, threads: int, runs: int, database: str, texts: str) -> None:
    """Measures one build: each query once for warming, then `runs` times; prints medians in milliseconds as JSON."""
    import warpmill

    with warpmill.connect(database, threads=threads, device="cpu") as con:
        known = {row[0] for row in con.execute("SELECT table_name FROM information_schema.tables").fetchall()}
        for table in {"tpch": TPCH, "ssb": SSB}[suite]:
            if table not in known:
                con.generate(suite, table, sf)
        medians = {}
        for name, text in json.loads(Path(texts).read_text()).items():
            con.execute(text).fetchall()
            times = []
            for _ in range(runs):
                started = time.perf_counter()
                con.execute(text).fetchall()
                times.append(1e3 * (time.perf_counter() - started))
            medians[name] = statistics.median(times)
    print(json.dumps(medians))


TPCH = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
SSB = ("date", "supplier", "customer", "part", "lineorder")


def measure(folder: Path, suite: str, options: argparse.Namespace, database: Path, texts: Path) -> dict[str, float]:
    """The medians of one build in a new process."""
    numbers = [str(options.sf), str(options.threads), str(options.runs)]
    command = [sys.executable, __file__, "--child", suite, *numbers, str(database), str(texts)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    medians: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return medians


def compare(suite: str, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The best of both builds' medians by query, over all rounds."""
    builds = {"old": Path(options.old), "new": Path(options.new)}
    from warpmill.bench.queries import texts as known

    texts = scratch / f"{suite}.json"
    texts.write_text(json.dumps(known(suite, options.sf)))
    best: dict[str, dict[str, float]] = {name: {} for name in builds}
    for number in range(options.rounds):
        order = list(builds) if number % 2 == 0 else list(builds)[::-1]
        for name in order:
            medians = measure(builds[name], suite, options, scratch / f"{suite}-{name}", texts)
            for query, ms in medians.items():
                best[name][query] = min(ms, best[name].get(query, ms))
            print(f"{suite} round {number + 1} {name}: {sum(medians.values()):.1f} ms", file=sys.stderr, flush=True)
    sums = {name: sum(times.values()) for name, times in best.items()}
    return {"queries": best, "sums_ms": sums, "new_to_old": sums["new"] / sums["old"]}


def main() -> None:
    """The command."""
    if sys.argv[1:2] == ["--child"]:
        suite, sf, threads, runs, database, texts = sys.argv[2:]
        child(suite, float(sf), int(threads), int(runs), database, texts)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="the folder with the package of the one build")
    parser.add_argument("new", help="of the other")
    parser.add_argument("--out", help="write the report here")
    parser.add_argument("--sf", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sys.path.insert(0, options.new)
    with tempfile.TemporaryDirectory(prefix="warpmill-versions-") as scratch:
        report = {suite: compare(suite, options, Path(scratch)) for suite in SUITES}
    settings = {name: getattr(options, name) for name in ("sf", "threads", "runs", "rounds")}
    report = {"settings": settings, "cores": os.cpu_count(), "suites": report}
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1))
    for suite, found in report["suites"].items():
        old, new = found["sums_ms"]["old"], found["sums_ms"]["new"]
        print(f"{suite}: old {old:.1f} ms, new {new:.1f} ms, {found['new_to_old']:.3f}")


if __name__ == "__main__":
    main()
