"""Predictions against runs that the model has not seen: other sizes, other devices, copies per query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from warpmill_bench.maxbench import characteristics, fits
from warpmill_bench.maxbench.fits import FitError, Line, line
from warpmill_bench.maxbench.model import copied, handling, operator_times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warpmill_bench.maxbench.model import Model
    from warpmill_bench.maxbench.observations import Observations, Query

#: The mark of hold-outs for which only devices of another kind are left: CPUs for GPUs, or GPUs for CPUs.
ANOTHER = "of another kind"

#: Copies with what other runs tell about their overlap and their cost.
HANDLED = "copies with overlap and cost"

#: Queries that are measured on a device that is held out: they tell how fast it is.
PROBES = 3


@dataclass(frozen=True)
class Prediction:
    """A prediction of a run that was no part of the fit."""

    #: "size", "query", "device", "transfers", "copies" or `HANDLED`; of "query" and "device" also with `ANOTHER`.
    held_out: str
    query: Query
    device: str
    location: str
    input_bytes: float
    measured: float
    predicted: float
    #: Whether the size lies between measured sizes; None where that does not apply.
    between: bool | None = None

    @property
    def error(self) -> float:
        """Predicted by measured, less 1."""
        return self.predicted / self.measured - 1


def sizes(model: Model, seen: Observations) -> list[Prediction]:
    """Each size of each query and device, predicted by the line through the other sizes: two at least."""
    found = []
    for (query, device), points in operator_times(seen.runs, model.links).items():
        inputs = sorted({size for size, _ in points})
        for size in inputs if len(inputs) > 2 else []:
            others = [(x, y) for x, y in points if x != size]
            fitted = line(*zip(*others, strict=True))
            between = inputs[0] < size < inputs[-1]
            found += [
                Prediction("size", query, device, "in place", size, seconds, float(fitted.seconds(size)), between)
                for x, seconds in points
                if x == size
            ]
    return found


def queries(model: Model) -> list[Prediction]:
    """Each query on each of Warpmill's devices, predicted from its lines on other devices and from all other queries.

    The other queries tell how long this device takes for a second of the others' slopes and intercepts, and what every
    query takes besides.
    """
    found: list[Prediction] = []
    for device in model.characteristics.devices if model.characteristics else ():
        others, kind = _relatives(model, device)
        shared = [
            query for query, on in model.lines if on == device and any((query, name) in model.lines for name in others)
        ]
        if len(shared) <= PROBES:
            continue
        complexity = _complexities(model, shared, others)
        points = [
            (at, (complexity[at] * size, _b(model, query, others), 1.0), size, seconds)
            for at, query in enumerate(shared)
            for size, seconds in zip(*_points(model, query, device), strict=True)
        ]
        for at, query in enumerate(shared):
            rest = [(column, seconds) for owner, column, _, seconds in points if owner != at]
            weights = fits.parts(*zip(*rest, strict=True))
            found += [
                Prediction(f"query{kind}", query, device, "in place", size, seconds, float(np.dot(weights, column)))
                for owner, column, size, seconds in points
                if owner == at
            ]
    return found


def _points(model: Model, query: Query, device: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    one = model.lines[query, device]
    return one.inputs, one.seconds


def _complexities(model: Model, queries: list[Query], devices: list[str]) -> Any:
    """Seconds per byte on some devices; 0 where none of them has a slope."""
    slopes = np.array([[_a(model, query, name) for name in devices] for query in queries])
    rows, columns = np.isfinite(slopes).any(1), np.isfinite(slopes).any(0)
    found = np.zeros(len(queries))
    if rows.any():
        names = [" ".join(query) for query, there in zip(queries, rows, strict=True) if there]
        on = [name for name, there in zip(devices, columns, strict=True) if there]
        found[rows] = characteristics.characterize(slopes[rows][:, columns], names, on).complexity
    return found


def _relatives(model: Model, device: str) -> tuple[list[str], str]:
    """The other devices of a device's kind; without any, all others, and words that say so."""
    assert model.characteristics is not None
    others = [name for name in model.characteristics.devices if name != device]
    alike = [name for name in others if (name in model.behind_links) == (device in model.behind_links)]
    return (alike, "") if alike else (others, f" {ANOTHER}")


def devices(model: Model) -> list[Prediction]:
    """All queries but a few probes on each of Warpmill's devices, predicted from the other devices of its kind.

    Complexities are those of the other devices alone; how fast this one is follows from the probes' slopes, and its
    intercepts from theirs.
    """
    if model.characteristics is None or len(model.characteristics.devices) < 2:
        return []
    found: list[Prediction] = []
    for held_out in model.characteristics.devices:
        found += _without(model, held_out)
    return found


def _without(model: Model, held_out: str) -> list[Prediction]:
    assert model.characteristics is not None
    others, kind = _relatives(model, held_out)
    shared = [
        query
        for query, device in model.lines
        if device == held_out
        and model.lines[query, device].line.a > 0
        and any((query, name) in model.lines and model.lines[query, name].line.a > 0 for name in others)
    ]
    if len(shared) <= PROBES:
        return []
    slopes = np.array([[_a(model, query, name) for name in others] for query in shared])
    try:
        known = characteristics.characterize(slopes, [" ".join(query) for query in shared], others)
    except FitError:
        return []
    own = np.array([_a(model, query, held_out) for query in shared])
    probes = probe_rows(known.complexity)
    speed = characteristics.efficiency_by_probes(known.complexity[probes], own[probes])
    fixed = np.array([_b(model, query, others) for query in shared])
    ratio = _ratio([model.lines[shared[at], held_out].line.b for at in probes], fixed[probes])
    found = []
    for at, query in enumerate(shared):
        if at in probes:
            continue
        predicted = Line(float(known.complexity[at]) / speed, float(fixed[at]) * ratio)
        one = model.lines[query, held_out]
        found += [
            Prediction(f"device{kind}", query, held_out, "in place", size, seconds, float(predicted.seconds(size)))
            for size, seconds in zip(one.inputs, one.seconds, strict=True)
        ]
    return found


def probe_rows(complexity: Any) -> list[int]:
    """The queries that are probes: at equal distances in the order of complexity, but for an eighth at each end."""
    order = np.argsort(complexity)
    return sorted({int(order[round(part * (len(order) - 1))]) for part in np.linspace(0.125, 0.875, PROBES)})


def _a(model: Model, query: Query, device: str) -> float:
    one = model.lines.get((query, device))
    return one.line.a if one is not None and one.line.a > 0 else np.nan


def _b(model: Model, query: Query, devices: list[str]) -> float:
    """The mean intercept of a query on some devices."""
    return float(np.mean([model.lines[query, on].line.b for on in devices if (query, on) in model.lines]))


def _ratio(own: list[float], others: Any) -> float:
    """The sum of intercepts by that of others; 1 where there are none."""
    return float(np.sum(own) / np.sum(others)) if np.sum(others) > 0 else 1.0


def transfers(model: Model, seen: Observations) -> list[Prediction]:
    """The time of all copies within a query, predicted by the link as it was measured alone."""
    return [
        Prediction("transfers", run.query, run.device, run.location, run.input_bytes, run.copied_seconds, one.copying)
        for one in copied(model, seen)
        if (run := one.run).copied_seconds > 0
    ]


def copies(model: Model, seen: Observations) -> list[Prediction]:
    """Runs that copy their input, predicted from operators in place and links measured alone.

    Copying and computing one after the other, as MaxBench has it; and with overlap and a cost of each copy, which are
    taken from runs of other queries at other sizes.
    """
    found, runs = [], copied(model, seen)
    for one in runs:
        run = one.run
        total = one.computing + one.copying
        first = Prediction("copies", run.query, run.device, run.location, run.input_bytes, run.seconds, total)
        found.append(first)
        others = [
            other
            for other in runs
            if other.run.query != run.query and (other.run.query[0], other.run.size) != (run.query[0], run.size)
        ]
        how = handling(others).get((run.device, run.location))
        if how is not None:
            total = float(how.total(one.computing, one.copying, run.copies))
            found.append(replace(first, held_out=HANDLED, predicted=total))
    return found


def summary(predictions: Iterable[Prediction]) -> list[dict[str, Any]]:
    """Number, median, 90th percentile and largest of the absolute errors, by what is held out, device and location."""
    groups: dict[tuple[str, str, str], list[Prediction]] = {}
    for one in predictions:
        kind = (
            one.held_out if one.between is None else f"{one.held_out} ({'between' if one.between else 'beyond'} others)"
        )
        groups.setdefault((kind, one.device, one.location), []).append(one)
    rows = []
    for (kind, device, location), ones in sorted(groups.items()):
        errors = np.abs([one.error for one in ones])
        rows.append(
            {
                "held_out": kind,
                "device": device,
                "location": location,
                "predictions": len(ones),
                "median_error": float(np.median(errors)),
                "p90_error": float(np.quantile(errors, 0.9)),
                "largest_error": float(errors.max()),
                "median_signed": float(np.median([one.error for one in ones])),
            }
        )
    return rows
