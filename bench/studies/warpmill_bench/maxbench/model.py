"""The cost model fitted to observations: links, lines, characteristics, weights, selections; its predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from warpmill_bench.maxbench import characteristics, fits, limits
from warpmill_bench.maxbench.fits import FitError, Handling, Line, Link
from warpmill_bench.maxbench.observations import BACK, LINKS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warpmill_bench.maxbench.characteristics import Characteristics
    from warpmill_bench.maxbench.observations import Observation, Observations, Query

#: Links of MaxBench's machines: peak bandwidths of its section 5.4, and s0 from the sizes that reach 90% there.
PUBLISHED = {
    "PCIe 3.0 (MaxBench)": Link(12.32e9, 0.43e6 / 9),
    "PCIe 4.0 (MaxBench)": Link(22.89e9, 0.62e6 / 9),
    "PCIe 5.0 (MaxBench)": Link(57.52e9, 1.2e6 / 9),
    "NVLink 4.0 (MaxBench)": Link(413.45e9, 280e6 / 9),
}


@dataclass(frozen=True)
class FittedLink:
    """A link of a machine, and how well its curve fits."""

    name: str
    device: str
    link: Link
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    report: int

    @property
    def title(self) -> str:
        """The name with the device."""
        return f"{self.name} ({self.device})"

    @property
    def errors(self) -> Any:
        """Relative errors of times, by size."""
        return np.abs(self.link.seconds(self.sizes) / np.asarray(self.seconds) - 1)


@dataclass(frozen=True)
class FittedLine:
    """A query on a device, and how well its line fits."""

    query: Query
    device: str
    line: Line
    inputs: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def errors(self) -> Any:
        """Relative errors, by size."""
        return np.abs(self.line.seconds(self.inputs) / np.asarray(self.seconds) - 1)


@dataclass(frozen=True)
class Model:
    """Everything that was fitted."""

    links: tuple[FittedLink, ...]
    lines: dict[tuple[Query, str], FittedLine]
    #: The characteristics of Warpmill's devices; None where there are no slopes.
    characteristics: Characteristics | None
    #: The characteristics of engines on the CPUs.
    engines: Characteristics | None
    #: Input of a query by the bytes of its suite's data set, at the largest size.
    weights: dict[Query, float]
    selections: dict[tuple[Query, int], limits.Selection]
    #: Bytes of a copy in the mean, at the largest size.
    messages: dict[Query, float]
    #: Overlap of copying and computing, and the cost of each copy, by device and location.
    handling: dict[tuple[str, str], Handling]
    #: Warpmill's devices whose memory is not the host's.
    behind_links: tuple[str, ...]
    #: The combinations that could not be fitted, with reasons.
    left_out: tuple[str, ...]

    def link(self, report: int, site: str, location: str) -> Link | None:
        """The measured link from a location to a site."""
        return self._named(report, LINKS.get((site, location)))

    def back(self, report: int, site: str) -> Link | None:
        """The measured link of results."""
        return self._named(report, BACK.get(site))

    def _named(self, report: int, name: str | None) -> Link | None:
        return next((one.link for one in self.links if (one.report, one.name) == (report, name)), None)

    def copies(self, query: Query, size: float) -> float:
        """The number of copies of so many bytes of a query's input; 1 where none was seen."""
        return max(size / self.messages.get(query, np.inf), 1.0)

    def workload(self, suite: str, device: str) -> limits.Workload | None:
        """The queries of a suite on a device, as far as all have a slope there; None where none has."""
        at = [
            (self.weights[query], one.line.a)
            for (query, on), one in self.lines.items()
            if on == device and query[0] == suite and query in self.weights
        ]
        if not at:
            return None
        weights, slopes = zip(*at, strict=True)
        return limits.Workload(weights, slopes)


def fit(seen: Observations) -> Model:
    """Fit everything that the observations determine."""
    left = list(seen.left_out)
    links = _links(seen, left)
    lines = fit_lines(operator_times(seen.runs, links), left)
    ours = _characteristics(lines, seen.devices("warpmill"), left)
    cpus = [name for name in seen.devices() if seen.site(name) == "cpu"]
    engines = _characteristics(lines, cpus, [])
    if engines and len(engines.devices) < 2:
        engines = None
    behind = tuple(name for name in seen.devices("warpmill") if seen.site(name) != "cpu")
    model = Model(
        links, lines, ours, engines, _weights(seen), _selections(seen), _messages(seen), {}, behind, tuple(left)
    )
    return replace(model, handling=handling(copied(model, seen)))


def operator_times(
    runs: Iterable[Observation], links: tuple[FittedLink, ...]
) -> dict[tuple[Query, str], list[tuple[float, float]]]:
    """Input bytes and seconds of operators: runs that copy no input, less the copy of the result."""
    found: dict[tuple[Query, str], list[tuple[float, float]]] = {}
    for run in runs:
        if not run.in_place:
            continue
        back = next((one.link for one in links if (one.report, one.name) == (run.report, BACK.get(run.site))), None)
        copying = float(back.seconds(run.result_bytes)) if back else 0.0
        # A copy of a result that is predicted to take longer than the run is none.
        seconds = run.seconds - copying if copying < run.seconds / 2 else run.seconds
        found.setdefault((run.query, run.device), []).append((run.input_bytes, seconds))
    return found


def fit_lines(
    times: dict[tuple[Query, str], list[tuple[float, float]]], left: list[str]
) -> dict[tuple[Query, str], FittedLine]:
    """A line for each query and device; combinations without one are added to `left`."""
    lines: dict[tuple[Query, str], FittedLine] = {}
    for (query, device), points in times.items():
        inputs, seconds = zip(*sorted(points), strict=True)
        try:
            lines[query, device] = FittedLine(query, device, fits.line(inputs, seconds), inputs, seconds)
        except FitError as error:
            left.append(f"{' '.join(query)} on {device}: {error}")
    return lines


def slope_matrix(lines: dict[tuple[Query, str], FittedLine], devices: list[str]) -> tuple[list[Query], list[str], Any]:
    """Queries, devices and slopes, NaN where a query has no slope there; without queries and devices that have none."""
    queries = list(dict.fromkeys(query for query, device in lines if device in devices))
    slopes = np.full((len(queries), len(devices)), np.nan)
    for (query, device), one in lines.items():
        if device in devices and one.line.a > 0:
            slopes[queries.index(query), devices.index(device)] = one.line.a
    rows, columns = np.isfinite(slopes).any(1), np.isfinite(slopes).any(0)
    kept = [query for query, there in zip(queries, rows, strict=True) if there]
    return kept, [name for name, there in zip(devices, columns, strict=True) if there], slopes[rows][:, columns]


def _characteristics(
    lines: dict[tuple[Query, str], FittedLine], devices: list[str], left: list[str]
) -> Characteristics | None:
    queries, there, slopes = slope_matrix(lines, devices)
    for (query, device), one in lines.items():
        if device in devices and one.line.a <= 0:
            left.append(f"{' '.join(query)} on {device}: its time does not grow with its input: no slope")
    if not queries:
        return None
    return characteristics.characterize(slopes, [" ".join(query) for query in queries], there)


def _links(seen: Observations, left: list[str]) -> tuple[FittedLink, ...]:
    found = []
    for one in seen.transfers:
        try:
            curve = fits.link(one.sizes, one.seconds)
        except FitError as error:
            left.append(f"link {one.link} ({one.device}): {error}")
            continue
        found.append(FittedLink(one.link, one.device, curve, one.sizes, one.seconds, one.report))
    return tuple(found)


def _weights(seen: Observations) -> dict[Query, float]:
    largest: dict[Query, tuple[float, float]] = {}
    for run in seen.runs:
        known = seen.data_bytes.get((run.query[0], run.size))
        if known and run.size >= largest.get(run.query, (0.0, 0.0))[0]:
            largest[run.query] = (run.size, run.input_bytes / known)
    return {query: weight for query, (_, weight) in largest.items()}


def _messages(seen: Observations) -> dict[Query, float]:
    largest: dict[Query, tuple[float, float]] = {}
    for run in seen.runs:
        if run.copies and not run.in_place and run.size >= largest.get(run.query, (0.0, 0.0))[0]:
            largest[run.query] = (run.size, run.copied_bytes / run.copies)
    return {query: mean for query, (_, mean) in largest.items()}


def _selections(seen: Observations) -> dict[tuple[Query, int], limits.Selection]:
    points: dict[tuple[Query, int], list[tuple[float, float, float]]] = {}
    for one in seen.filters:
        points.setdefault((one.query, one.report), []).append((one.input_bytes, one.seconds, one.kept))
    found = {}
    for at, measured in points.items():
        inputs, seconds, kept = zip(*measured, strict=True)
        largest = max(inputs)
        sigma = limits.kept_at(inputs, kept, largest)
        if len(set(inputs)) > 1:
            curve = fits.line(inputs, seconds)
            found[at] = limits.Selection(sigma, curve.a, curve.b)
        else:
            found[at] = limits.Selection(sigma, float(np.median(seconds)) / largest)
    return found


@dataclass(frozen=True)
class Copied:
    """A run that copies its input, and the parts that its time is predicted from."""

    run: Observation
    #: Seconds of the operators in place, and of the copies over their link.
    computing: float
    copying: float


def copied(model: Model, seen: Observations) -> list[Copied]:
    """The runs that copy their input over a measured link.

    Operators take the time that the query's line has. Without a line, they take what they take in place at this size.
    """
    times = operator_times(seen.runs, model.links)
    found = []
    for run in seen.runs:
        link = model.link(run.report, run.site, run.location)
        if link is None or run.in_place or not run.copied_bytes:
            continue
        one = model.lines.get((run.query, run.device))
        at = [seconds for size, seconds in times.get((run.query, run.device), []) if size == run.input_bytes]
        if one is None and not at:
            continue
        computing = float(one.line.seconds(run.input_bytes)) if one else float(np.median(at))
        found.append(Copied(run, computing, float(link.seconds(run.copied_bytes, run.copies))))
    return found


def handling(runs: Iterable[Copied]) -> dict[tuple[str, str], Handling]:
    """The handling of copies by device and location that copies per query."""
    points: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    for one in runs:
        at = (one.run.device, one.run.location)
        points.setdefault(at, []).append((one.computing, one.copying, one.run.copies, one.run.seconds))
    return {at: fits.handling(*zip(*measured, strict=True)) for at, measured in points.items()}
