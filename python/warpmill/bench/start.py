"""The time that a new process takes: from its start to the first answer, and through a suite's queries.

As a module, ``python -m warpmill.bench.start DATABASE``, it is that process: settings and queries come as JSON on
stdin, what it measured goes to stdout. Times are of the system's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from warpmill.bench.data import Data


def measure(
    data: Data, settings: dict[str, str], names: list[str], runs: int, told: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One start with an empty cache of kernels, then `runs` starts that find all kernels there."""
    # Here, because the process that is measured imports this module, too.
    from warpmill.bench.queries import texts

    known = texts(data.suite, data.sf)
    queries = {name: known[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="warpmill-kernels-") as cache:
        starts = []
        for number in range(runs + 1):
            told(f"start {number + 1} of {runs + 1}")
            starts.append({"kernels": "kept" if number else "none", **_start(data, settings, queries, cache)})
    return starts


def _start(data: Data, settings: dict[str, str], queries: dict[str, str], cache: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "warpmill.bench.start", str(data.database)]
    asked = json.dumps({"settings": settings, "queries": queries})
    environment = {**os.environ, "WARPMILL_CACHE_DIR": cache}
    started = time.monotonic_ns()
    done = subprocess.run(command, input=asked, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"a process that was started failed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    for key in ("imported", "connected", "first_answer", "all_answers"):
        found[f"{key}_ms"] = round((found.pop(key) - started) / 1e6, 3)
    return found


def table(suite: str, sf: float, starts: list[dict[str, Any]]) -> Table:
    """The first start, and the median of the starts that found their kernels."""
    from rich import box
    from rich.table import Table

    from warpmill.cli.units import milliseconds

    queries = len(starts[0]["queries"])
    title = f"a new process, {suite} at scale factor {sf:g}, {queries} queries on {starts[0]['device']}"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("from the process's start to")
    out.add_column("no kernels kept", justify="right")
    out.add_column(f"kernels kept, median of {len(starts) - 1}", justify="right")
    rows = [
        ("the package being imported", "imported_ms"),
        ("the database being open", "connected_ms"),
        ("the first answer", "first_answer_ms"),
        ("the last answer", "all_answers_ms"),
        ("(of which kernels: making or loading)", "prepare_ms"),
    ]
    for title, key in rows:
        later = statistics.median(start[key] for start in starts[1:])
        out.add_row(title, milliseconds(starts[0][key]), milliseconds(later))
    return out


def main() -> None:
    """The process that is measured."""
    import warpmill

    times = {"imported": time.monotonic_ns()}
    asked = json.load(sys.stdin)
    (database,) = sys.argv[1:]
    devices: set[str] = set()
    prepare_nanos, queries = 0, []
    with warpmill.connect(database, **asked["settings"]) as con:
        times["connected"] = time.monotonic_ns()
        for name, sql in asked["queries"].items():
            started = time.monotonic_ns()
            result = con.sql(sql)
            done = time.monotonic_ns()
            times.setdefault("first_answer", done)
            programs = result.profile.get("programs") or []
            devices |= {program["device"] for program in programs}
            made = sum(program["on_device"]["prepare_nanos"] for program in programs if program["on_device"])
            prepare_nanos += made
            queries.append({"query": name, "ms": round((done - started) / 1e6, 3), "prepare_ms": round(made / 1e6, 3)})
        times["all_answers"] = time.monotonic_ns()
    told = {"device": "+".join(sorted(devices, reverse=True)), "prepare_ms": round(prepare_nanos / 1e6, 3)}
    sys.stdout.write(json.dumps({**times, **told, "queries": queries}))


if __name__ == "__main__":
    main()
