#!/usr/bin/env python3
"""The same statements on one GPU and on several of one host, each with its range of the data.

    python bench/gpus.py OUT                                    TPC-H and SSB at scale factor 100 on 1, 2 and 4 GPUs
    python bench/gpus.py OUT --devices 1,2 --tpch 30 --ssb 0    one suite
    python bench/gpus.py OUT --logical                          logical devices of one GPU
    python bench/gpus.py OUT --sim --tpch 0.02 --ssb 0.02       simulated devices: answers only
    python bench/gpus.py OUT --devices 1,2 --exchange           what devices copy from each other, too

Every answer is compared with one device's (exit code 1: one differs). Times are repeated statements, until the rows are
in Python as Arrow, median of --runs after as many that are not counted. `range`: all that can be is in parts; `auto`:
what has been faster of parts and one device. `predicted`: what the cost model expected of parts. `--exchange`: with
empty caches, what comes from the host and from other devices must be together what comes from the host alone with
`device_exchange = 'off'`, and as planned (also exit code 1). OUT gets gpus.json, written anew after every suite and
number of devices. No step begins after --minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import warpmill
from warpmill import _warpmill

#: Runs before `auto` has tried both ways, and kept one.
TRIALS = 6


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Rows in a canonical order: floats rounded to the precision of sums."""

    def value(item: Any) -> Any:
        return float(f"{item:.9g}") if isinstance(item, float) and math.isfinite(item) else item

    found = [tuple(value(item) for item in row) for row in zip(*table.to_pydict().values(), strict=True)]
    return sorted(found, key=lambda row: [(item is None, str(item)) for item in row])


def timed(con: warpmill.Connection, sql: str) -> tuple[float, Any, warpmill.Relation]:
    """Milliseconds until the rows are there, and the rows."""
    begun = time.perf_counter()
    result = con.sql(sql)
    table = result.arrow()
    return (time.perf_counter() - begun) * 1e3, table, result


def measure(con: warpmill.Connection, sql: str, runs: int, before: int) -> dict[str, Any]:
    """One statement, repeated."""
    first, table, _ = timed(con, sql)
    for _ in range(before):
        timed(con, sql)
    times, result = [], None
    for _ in range(runs):
        took, table, result = timed(con, sql)
        times.append(took)
    assert result is not None
    programs = result.profile["programs"]
    segments = [program["segments"] for program in programs]
    predicted = [program["predicted"] for program in programs if program["predicted"]]
    con.execute("SET warpmill.profile = 'kernels'")
    _, _, result = timed(con, sql)
    programs = result.profile["programs"]
    con.execute("SET warpmill.profile = 'on'")
    kernels = sum(kernel["nanos"] for program in programs for kernel in (program["on_device"] or {}).get("kernels", []))
    return {
        "first_ms": first,
        "median_ms": statistics.median(times),
        "min_ms": min(times),
        "in_parts": any(segments),
        "devices": sorted({program["device"] for program in programs}),
        "kernel_ms": kernels / 1e6,
        "predicted": predicted,
        "rows": rows(table),
    }


def exchange(con: warpmill.Connection, sql: str) -> dict[str, Any] | None:
    """Bytes and milliseconds that a statement's data takes to devices with empty caches, from the host and from others.

    None where the statement is not in parts, or ran again with other sizes.
    """
    found: dict[str, Any] = {}
    for way in ("off", "auto"):
        _warpmill.clear_device_caches()
        con.set("device_exchange", way)
        took, _, result = timed(con, sql)
        con.set("device_exchange", "auto")
        programs = [program["on_device"] or {} for program in result.profile["programs"] if program["segments"]]
        if len(programs) != 1 or programs[0]["runs"] != 1:
            return None
        moved = programs[0]["exchange"] or {"traffic": [], "planned": [], "staged_links": []}
        transfers = {transfer["what"]: transfer for transfer in programs[0]["transfers"]}
        host = transfers.get("segments to the device", {"bytes": 0, "nanos": 0})
        peers = transfers.get("data from other devices", {"bytes": 0, "nanos": 0})
        found[way] = {"ms": took, "host": host, "peers": peers, **moved}
    off, auto = found["off"], found["auto"]
    all_there = off["host"]["bytes"] == auto["host"]["bytes"] + auto["peers"]["bytes"]
    found["as_planned"] = all_there and auto["traffic"] == auto["planned"]
    return found


def device_name(arguments: argparse.Namespace, count: int) -> str:
    """The setting for so many devices."""
    if arguments.sim:
        return f"sim:{count}"
    return "gpu:" + ",".join("0" if arguments.logical else str(number) for number in range(count))


def report(suite: str, results: dict[str, dict[str, Any]]) -> None:
    """Milliseconds by query, devices and placement."""
    print(f"\n{suite}: " + ", ".join(results))
    names = list(next(iter(results.values()))["queries"])
    for name in names:
        cells = []
        for found in results.values():
            query = found["queries"].get(name)
            cells.append(f"{query['median_ms']:9.2f}{'p' if query['in_parts'] else ' '}" if query else " " * 10)
        print(f"  {name:6}" + "".join(cells))
    totals = "".join(f"{sum(q['median_ms'] for q in found['queries'].values()):9.2f} " for found in results.values())
    print(f"  {'all':6}{totals}", flush=True)


def main() -> int:
    """Run all requested measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--devices", default="1,2,4", help="how many devices, one after the other; the first is compared with"
    )
    parser.add_argument("--tpch", type=float, default=100, help="scale factor; 0: not")
    parser.add_argument("--ssb", type=float, default=100, help="scale factor; 0: not")
    parser.add_argument("--queries", default="", help="names of queries, all by default")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("/tmp/gpus"), help="where the tables are made")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--logical", action="store_true", help="logical devices of the first GPU")
    parser.add_argument("--sim", action="store_true", help="simulated devices")
    parser.add_argument("--exchange", action="store_true", help="compare what devices copy with what was planned")
    parser.add_argument("--memory", default="", help="gpu_memory_limit of each device")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.devices.split(",")]
    begun, wrong = time.monotonic(), []
    arguments.out.mkdir(parents=True, exist_ok=True)
    written: dict[str, Any] = {
        "command": ["bench/gpus.py", "OUT", *sys.argv[2:]],
        "machine": json.loads(_warpmill.devices()),
        "suites": {},
    }
    for suite, factor in (("tpch", arguments.tpch), ("ssb", arguments.ssb)):
        if factor == 0:
            continue
        folder = arguments.data / f"{suite}-{factor:g}"
        folder.mkdir(parents=True, exist_ok=True)
        with warpmill.connect(folder, device="cpu") as con:
            if arguments.sim:
                con.set("segment_rows", "4096")
            there = {table.name for table in con.tables()}
            for name in _warpmill.tables(suite):
                if name not in there:
                    con.generate(suite, name, factor)
        print(f"{suite} {factor:g}: tables after {time.monotonic() - begun:.0f} s", flush=True)
        wanted = set(filter(None, arguments.queries.split(",")))
        queries = [(name, sql) for name, sql in _warpmill.queries(suite) if not wanted or name in wanted]
        results: dict[str, dict[str, Any]] = {}
        written["suites"][f"{suite} {factor:g}"] = results
        answers: dict[str, Any] = {}
        for count in counts:
            for placement in ["program"] if count == 1 else ["range", "auto"]:
                limits = {"gpu_memory_limit": arguments.memory} if arguments.memory else {}
                device = device_name(arguments, count)
                with warpmill.connect(folder, device=device, placement=placement, **limits) as con:
                    found: dict[str, Any] = {}
                    for name, sql in queries:
                        if time.monotonic() - begun > arguments.minutes * 60:
                            print(f"no time is left for {device} ({placement}) from query {name} on")
                            break
                        before = arguments.runs if placement != "auto" else max(arguments.runs, TRIALS)
                        found[name] = measure(con, sql, arguments.runs, before)
                        answer = found[name].pop("rows")
                        if answers.setdefault(name, answer) != answer:
                            wrong.append(f"{suite} {name} on {device} ({placement})")
                        if placement == "range" and arguments.exchange:
                            moved = exchange(con, sql)
                            found[name]["exchange"] = moved
                            if moved is not None and not moved["as_planned"]:
                                wrong.append(f"{suite} {name} on {device}: bytes between devices")
                results[f"{count} {placement}"] = {"device": device, "placement": placement, "queries": found}
                (arguments.out / "gpus.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
        report(f"{suite} {factor:g}, ms, p: in parts", results)
    for line in wrong:
        print("wrong:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
