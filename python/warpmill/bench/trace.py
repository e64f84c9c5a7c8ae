"""The profiles of a benchmark's runs, as JSON or as a trace that browsers show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpmill.bench.report import machine, with_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warpmill.bench.runner import Outcome

#: Rows of the trace.
_TRACKS = {1: "query", 2: "programs", 3: "transfers", 4: "kernels", 5: "host"}

#: Microseconds between two runs.
_GAP = 50.0


#: The amount of a profile that is written, from little to all.
LEVELS = ("summary", "transfers", "operators")


def save(path: str, level: str, suite: str, sf: float, threads: int, outcomes: list[Outcome]) -> None:
    """Write profiles, as much as `level` says; a name that ends in ``.trace.json`` asks for Chrome's trace format."""
    profiled = [outcome for outcome in outcomes if outcome.profiles]
    if path.endswith(".trace.json"):
        report: dict[str, Any] = {"displayTimeUnit": "ns", "traceEvents": list(_events(profiled))}
    else:
        queries = [
            {"query": outcome.query, "runs": [reduced(run, level) for run in outcome.profiles]} for outcome in profiled
        ]
        report = {
            "level": level,
            "suite": suite,
            "sf": sf,
            "threads": threads,
            "machine": machine(),
            "queries": queries,
        }
    Path(path).write_text(json.dumps(report) + "\n", encoding="utf-8")


def reduced(run: dict[str, Any], level: str) -> dict[str, Any]:
    """A run's profile as far as a level goes: sums, then every transfer, then every kernel and operator."""
    return {**run, "programs": [_reduced(program, LEVELS.index(level)) for program in run["programs"]]}


def _reduced(program: dict[str, Any], depth: int) -> dict[str, Any]:
    out = {key: value for key, value in program.items() if key != "pipelines" or depth == 2}
    ran = program["on_device"]
    if ran is None:
        return out
    kept = {key: value for key, value in ran.items() if key not in ("kernels", "transfers")}
    kept["kernel_nanos"] = sum(kernel["nanos"] for kernel in ran["kernels"])
    kept["kernel_count"] = len(ran["kernels"])
    kept["transferred_bytes"] = sum(transfer["bytes"] for transfer in ran["transfers"])
    if depth >= 1:
        kept["transfers"] = [with_rate(transfer) for transfer in ran["transfers"]]
    if depth == 2:
        kept["kernels"] = ran["kernels"]
    return {**out, "on_device": kept}


def _events(outcomes: list[Outcome]) -> Iterator[dict[str, Any]]:
    for track, name in _TRACKS.items():
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
    at = 0.0
    for outcome in outcomes:
        for number, run in enumerate(outcome.profiles, 1):
            planning, execution = run["planning_nanos"] / 1e3, run["execution_nanos"] / 1e3
            title = f"query {outcome.query}, run {number}"
            yield _event(1, title, at, planning + execution, {"plan_cached": run["plan_cached"]})
            yield _event(1, "planning", at, planning, {})
            start = at + planning
            for program in run["programs"]:
                yield from _program(program, start)
                start += program["wall_nanos"] / 1e3
            at += planning + execution + _GAP


def _program(program: dict[str, Any], start: float) -> Iterator[dict[str, Any]]:
    """The parts of a program in their order. Durations are measured; starts are those of work without pauses."""
    told = {key: program[key] for key in ("not_on_device", "bytes_read", "peak_memory")}
    yield _event(2, program["device"], start, program["wall_nanos"] / 1e3, told)
    ran = program["on_device"]
    if ran is None:
        return
    at = start
    for transfer in ran["transfers"]:
        yield _event(3, transfer["what"], at, transfer["nanos"] / 1e3, transfer)
        at += transfer["nanos"] / 1e3
    for kernel in ran["kernels"]:
        yield _event(4, kernel["label"], at, kernel["nanos"] / 1e3, kernel)
        at += kernel["nanos"] / 1e3
    at = start
    steps = {"waiting for other programs": "wait", "queueing": "queue", "waiting for the device": "sync"}
    for title, step in {**steps, "reading rows": "fetch"}.items():
        duration = ran[f"{step}_nanos"] / 1e3
        yield _event(5, title, at, duration, {})
        at += duration
    host = ran["host_nanos"] / 1e3
    yield _event(5, "rows on the host", start + program["wall_nanos"] / 1e3 - host, host, {})


def _event(track: int, name: str, start: float, duration: float, told: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": round(start, 3), "dur": round(duration, 3)}
    return {"name": name, "ph": "X", "pid": 1, "tid": track, **times, "args": told}
