"""The report of a benchmark run: a table for people, JSON for machines."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

import warpmill
from warpmill.bench.runner import Outcome
from warpmill.bench.states import State
from warpmill.cli.doctor import cores, cpu_model, memory, versions
from warpmill.cli.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The way in which a statement is made new.
NEW_STATEMENT = "other literals in every run"


def totals(outcomes: list[Outcome]) -> dict[str, float | None]:
    """Sum of an engine's medians in one state; None where it did not run every query."""
    sums: dict[str, float | None] = {}
    for outcome in outcomes:
        before, median = sums.get(outcome.engine, 0.0), outcome.median_ms
        sums[outcome.engine] = None if before is None or median is None else round(before + median, 3)
    return sums


def by_state(outcomes: list[Outcome]) -> dict[State, list[Outcome]]:
    """The outcomes of each state that was measured, in the order of the report."""
    found = {state: [outcome for outcome in outcomes if outcome.state is state] for state in State}
    return {state: ones for state, ones in found.items() if ones}


def as_json(suite: str, sf: float, threads: int, outcomes: list[Outcome]) -> dict[str, Any]:
    """The report of docs/bench.md: a row of an engine and a query is of repeated runs, and has all states."""
    rows: dict[tuple[str, str], dict[State, Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.engine, outcome.query), {})[outcome.state] = outcome
    results = []
    for (engine, query), states in rows.items():
        outcome = states.get(State.REPEATED) or Outcome(engine, query)
        row: dict[str, Any] = {
            "engine": engine,
            "query": query,
            "runs_ms": outcome.runs_ms,
            "median_ms": _rounded(outcome.median_ms, 3),
            "rows": next((one.rows for one in states.values() if one.rows is not None), None),
            "verified": outcome.verified,
            "fallbacks": outcome.fallbacks,
            "bytes_read": outcome.bytes_read,
            "device": device([outcome]),
            "kernel_ms": _rounded(outcome.kernel_ms, 4),
            "transfers": [with_rate(transfer) for transfer in outcome.transfers],
            "not_on_device": list(outcome.not_on_device),
            "states": {state.value: _state(states[state]) for state in State if state in states},
        }
        if outcome.error:
            row["error"] = outcome.error
        results.append(row)
    states_totals = {state.value: totals(ones) for state, ones in by_state(outcomes).items()}
    return {
        "suite": suite,
        "sf": sf,
        "threads": threads,
        "device": device(outcomes) or "cpu",
        "machine": {**machine(), "gpu": next((o.device_name for o in outcomes if "gpu" in o.devices), None)},
        "totals_ms": states_totals.get(State.REPEATED.value, {}),
        "totals_by_state_ms": states_totals,
        "new_statement": NEW_STATEMENT,
        "results": results,
    }


def _state(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {
        "runs_ms": outcome.runs_ms,
        "median_ms": _rounded(outcome.median_ms, 3),
        "verified": outcome.verified,
        "fallbacks": outcome.fallbacks,
        "plans_kept": outcome.plans_kept,
        "plans_from_templates": outcome.from_templates,
        "device": device([outcome]),
        "prepare_ms": _rounded(outcome.prepare_ms, 3),
    }
    if outcome.steps_ms:
        found["steps_ms"] = {step: round(statistics.median(times), 3) for step, times in outcome.steps_ms.items()}
    if outcome.error:
        found["error"] = outcome.error
    return found


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def with_rate(transfer: dict[str, Any]) -> dict[str, Any]:
    """A transfer with its GB/s; None where it was not timed."""
    nanos = transfer["nanos"]
    return {**transfer, "gb_per_s": round(transfer["bytes"] / nanos, 3) if nanos else None}


def device(outcomes: list[Outcome]) -> str | None:
    """The devices that ran Warpmill's programs: one device, or several joined by "+"; None where no program ran."""
    return "+".join(sorted(set().union(*(outcome.devices for outcome in outcomes)), reverse=True)) or None


def machine() -> dict[str, Any]:
    """The machine, and the versions of the engines on it."""
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_bytes": memory(),
        "versions": {"warpmill": warpmill.__version__, **versions(("duckdb", "datafusion", "polars"))},
    }


def save(report: dict[str, Any], path: str) -> None:
    """Write the JSON file."""
    Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def tables(title: str, outcomes: list[Outcome]) -> Iterator[Table]:
    """A table for each state that was measured, and one of the sums where there are several."""
    states = by_state(outcomes)
    for state, ones in states.items():
        runs = max(len(one.runs_ms) for one in ones)
        yield table(f"{state.words}: {title}, median of {runs}", ones)
    if len(states) > 1:
        yield _sums(f"sums of medians: {title}", states)


def _sums(title: str, states: dict[State, list[Outcome]]) -> Table:
    engines = list(dict.fromkeys(outcome.engine for ones in states.values() for outcome in ones))
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("state", no_wrap=True)
    for name in (*engines, *(f"/ {peer}" for peer in engines[1:])):
        out.add_column(name, justify="right", no_wrap=True)
    for state, ones in states.items():
        sums = totals(ones)
        ours, theirs = sums.get(engines[0]), [sums.get(peer) for peer in engines[1:]]
        ratios = [_ratio(ours, other) for other in theirs]
        out.add_row(state.words, *(milliseconds(one) for one in (ours, *theirs)), *ratios)
    return out


def table(title: str, outcomes: list[Outcome]) -> Table:
    """One state: a line per query, a column per engine, ratios of Warpmill to each peer."""
    engines = list(dict.fromkeys(outcome.engine for outcome in outcomes))
    peers = engines[1:]
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("query", no_wrap=True)
    for engine in engines:
        out.add_column(engine, justify="right", no_wrap=True)
    for peer in peers:
        out.add_column(f"/ {peer}", justify="right", no_wrap=True)
    kernels = any(outcome.kernels_ms for outcome in outcomes)
    if kernels:
        out.add_column("kernels", justify="right", no_wrap=True)
    out.add_column("rows", justify="right")
    out.add_column("fallbacks", justify="right")
    out.add_column("verified")
    for query in dict.fromkeys(outcome.query for outcome in outcomes):
        row = {outcome.engine: outcome for outcome in outcomes if outcome.query == query}
        ours = row[engines[0]]
        out.add_row(
            query,
            *(_time(row[engine]) for engine in engines),
            *(_ratio(ours.median_ms, row[peer].median_ms) for peer in peers),
            *([milliseconds(ours.kernel_ms)] if kernels else []),
            "" if ours.rows is None else f"{ours.rows:,}",
            str(ours.fallbacks),
            _verdict(list(row.values())),
        )
    sums = totals(outcomes)
    out.add_section()
    out.add_row(
        "total",
        *(milliseconds(sums[engine]) for engine in engines),
        *(_ratio(sums[engines[0]], sums[peer]) for peer in peers),
        *([milliseconds(sum(outcome.kernel_ms or 0.0 for outcome in outcomes))] if kernels else []),
        "",
        str(sum(outcome.fallbacks for outcome in outcomes)),
        "",
        style="bold",
    )
    return out


def problems(outcomes: list[Outcome]) -> list[str]:
    """The queries that failed or gave other answers, with the states in which they did."""
    found: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.error:
            kind = "differs from duckdb" if outcome.runs_ms else "did not run"
            about = f"{outcome.engine} {outcome.query} {kind}"
            found.setdefault((about, outcome.error), []).append(outcome.state.words)
    return [f"{about} ({', '.join(states)}): {error}" for (about, error), states in found.items()]


def plans(outcomes: list[Outcome]) -> list[str]:
    """The number of runs of each state that found a plan, for engines that report it."""
    lines = []
    for state, ones in by_state(outcomes).items():
        said = [one for one in ones if one.plans_kept is not None]
        for engine in dict.fromkeys(one.engine for one in said):
            mine = [one for one in said if one.engine == engine]
            kept, runs = sum(one.plans_kept or 0 for one in mine), sum(len(one.runs_ms) for one in mine)
            how = f" ({NEW_STATEMENT})" if state is State.NEW_STATEMENT else ""
            line = f"{state.words}{how}: {engine} had kept the plan in {kept} of {runs} runs"
            if others := sum(one.from_templates for one in mine):
                line += f", and that of other constants in {others}"
            lines.append(line)
    return lines


def not_on_device(outcomes: list[Outcome]) -> list[str]:
    """The number of programs that did not run on the device that was asked for, reason by reason, in the last state."""
    queries: dict[str, list[str]] = {}
    last = next(reversed(by_state(outcomes).values()), [])
    for outcome in last:
        for reason in outcome.not_on_device:
            queries.setdefault(reason, []).append(outcome.query)
    count = sum(len(names) for names in queries.values())
    if not count:
        return []
    lines = [f"{count} program(s) did not run on the device:"]
    for reason, names in queries.items():
        lines.append(f"  {len(names)} (query {', '.join(dict.fromkeys(names))}): {reason}")
    return lines


def failed(outcomes: list[Outcome]) -> bool:
    """Whether Warpmill failed a query, or any result is wrong."""
    return any(
        outcome.verified is False or (outcome.engine == "warpmill" and outcome.median_ms is None)
        for outcome in outcomes
    )


def _time(outcome: Outcome) -> Text:
    if outcome.median_ms is None:
        return Text("did not run", style="red")
    return Text(milliseconds(outcome.median_ms), style="red" if outcome.error else "")


def _ratio(ours: float | None, theirs: float | None) -> Text:
    if not ours or not theirs:
        return Text("-")
    return Text(f"{ours / theirs:.2f}x", style="green" if ours <= theirs else "yellow")


def _verdict(row: list[Outcome]) -> Text:
    asked = [outcome for outcome in row if outcome.verified is not None]
    if not asked:
        return Text("")
    wrong = [outcome.engine for outcome in asked if not outcome.verified]
    return Text("differs: " + ", ".join(wrong), style="red") if wrong else Text("equal", style="green")
