"""The model of some reports as `model.json`, and as the page `report.html`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

import warpmill
from warpmill_bench.maxbench import columns, errors, figures
from warpmill_bench.maxbench.model import PUBLISHED, fit
from warpmill_bench.maxbench.observations import device_of, observe
from warpmill_bench.maxbench.page import Column, figure, note, page, section, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warpmill_bench.maxbench.characteristics import Characteristics
    from warpmill_bench.maxbench.errors import Prediction
    from warpmill_bench.maxbench.fits import Link
    from warpmill_bench.maxbench.model import Model
    from warpmill_bench.maxbench.observations import Observations

    Row = dict[str, Any]

FORM = 1


class Report:
    """Everything that is said about some reports of `warpmill bench matrix`."""

    def __init__(self, reports: list[Row], more_links: dict[str, Link] | None = None, times: str = "median") -> None:
        self.reports = reports
        self.times = times
        self.seen: Observations = observe(reports, times)
        self.model: Model = fit(self.seen)
        self.predictions: list[Prediction] = [
            *errors.sizes(self.model, self.seen),
            *errors.queries(self.model),
            *errors.devices(self.model),
            *errors.transfers(self.model, self.seen),
            *errors.copies(self.model, self.seen),
        ]
        self._more_links = more_links or {}

    def as_json(self, command: str, date: str, commit: str | None) -> Row:
        """The report for machines."""
        model = self.model
        heads = ("date", "commit", "command", "machine", "quick", "threads")
        return {
            "benchmark": "model",
            "form": FORM,
            "version": warpmill.__version__,
            "date": date,
            "commit": commit,
            "command": command,
            "times": self.times,
            "matrices": [{name: one.get(name) for name in heads} for one in self.reports],
            "links": list(self.links()),
            "lines": list(self.lines()),
            "characteristics": _of(model.characteristics),
            "engines": _of(model.engines),
            "weights": [{"suite": q[0], "query": q[1], "weight": weight} for q, weight in model.weights.items()],
            "selections": list(self.selections()),
            "overlaps": [
                {"device": d, "location": at, "part": one.overlap, "seconds_per_copy": one.each}
                for (d, at), one in model.handling.items()
            ],
            "limits": list(figures.crossings(model)),
            "configurations": list(self.configurations()),
            "errors": errors.summary(self.predictions),
            "left_out": list(model.left_out),
        }

    def links(self) -> Iterator[Row]:
        """Fitted links, and those of the paper and of the command."""
        for one in self.model.links:
            yield {
                "link": one.name,
                "device": one.device,
                "bmax": one.link.bmax,
                "s0": one.link.s0,
                "bytes_at_90_percent": one.link.size_at(0.9),
                "median_error": float(np.median(one.errors)),
                "largest_error": float(one.errors.max()),
                "points": len(one.sizes),
            }
        for name, link in {**PUBLISHED, **self._more_links}.items():
            yield {
                "link": name,
                "bmax": link.bmax,
                "s0": link.s0,
                "bytes_at_90_percent": link.size_at(0.9),
                "points": 0,
            }

    def lines(self) -> Iterator[Row]:
        """Fitted lines."""
        for (query, device), one in self.model.lines.items():
            yield {
                "suite": query[0],
                "query": query[1],
                "device": device,
                "a": one.line.a,
                "b": one.line.b,
                "sizes": len(set(one.inputs)),
                "largest_input": max(one.inputs),
                "median_error": float(np.median(one.errors)),
                "largest_error": float(one.errors.max()),
            }

    def selections(self) -> Iterator[Row]:
        """Filters on the host, and the bandwidth below which they pay."""
        for (query, _), one in self.model.selections.items():
            yield {
                "suite": query[0],
                "query": query[1],
                "kept": one.kept,
                "filter_seconds_per_byte": one.filtering,
                "filter_seconds": one.started,
                "break_even": one.break_even,
            }

    def configurations(self) -> Iterator[Row]:
        """Seconds of each suite's queries at its largest size, on each device over each link."""
        model = self.model
        links = {**figures.links_of(model), **self._more_links}
        for suite in figures.suites_of(model):
            sizes = [size for name, size in self.seen.data_bytes if name == suite]
            data = self.seen.data_bytes[suite, max(sizes)] if sizes else 0.0
            for device in figures.devices_of(model):
                ones = [
                    one
                    for (query, on), one in model.lines.items()
                    if on == device and query[0] == suite and query in model.weights
                ]
                if not ones:
                    continue
                inputs = np.array([model.weights[one.query] * data for one in ones])
                copies = [model.copies(one.query, size) for one, size in zip(ones, inputs, strict=True)]
                computing = sum(float(one.line.seconds(size)) for one, size in zip(ones, inputs, strict=True))
                for name, link in links.items():
                    once, each = float(link.seconds(data)), float(np.sum(link.seconds(inputs, copies)))
                    yield {
                        "suite": suite,
                        "size": max(sizes),
                        "device": device,
                        "link": name,
                        "queries": len(ones),
                        "operators_seconds": computing,
                        "per_query_seconds": computing + each,
                        "per_data_set_seconds": computing + once,
                        "transfer_share_per_query": each / (computing + each),
                        "transfer_share_per_data_set": once / (computing + once),
                    }

    def breakdown(self) -> Iterator[Row]:
        """Table 2: measured times of each query from memory of the host, and their parts."""
        best: dict[tuple[Any, ...], Row] = {}
        for run in self.seen.runs:
            if run.in_place or run.location not in ("pinned", "host"):
                continue
            at = (run.query, run.device, run.location)
            line = self.model.lines.get((run.query, run.device))
            link = self.model.link(run.report, run.site, run.location)
            row: Row = {
                "suite": run.query[0],
                "query": run.query[1],
                "size": run.size,
                "device": run.device,
                "location": run.location,
                "input_bytes": run.copied_bytes,
                "total_ms": 1e3 * run.seconds,
                "computing_ms": 1e3 * float(line.line.seconds(run.input_bytes)) if line else None,
                "copying_ms": 1e3 * float(link.seconds(run.copied_bytes, run.copies)) if link else None,
                "kernels_ms": None if run.kernel_seconds is None else 1e3 * run.kernel_seconds,
            }
            if at not in best or run.size > best[at]["size"]:
                best[at] = row
        fastest: dict[tuple[Any, ...], float] = {}
        for one in best.values():
            same = (one["suite"], one["query"], one["size"])
            fastest[same] = min(fastest.get(same, np.inf), one["total_ms"])
        for one in best.values():
            yield {**one, "slowdown": one["total_ms"] / fastest[one["suite"], one["query"], one["size"]]}

    def engines(self) -> Iterator[Row]:
        """Sums of medians over the queries that all engines and places of a suite, size, source and state have run."""
        groups: dict[tuple[Any, ...], dict[tuple[str, ...], dict[str, float]]] = {}
        for row in self.runs():
            if row.get("median_ms") is not None and row["verified"] is not False:
                at = (row["suite"], row["size"], row["source"], row["state"])
                who = (row["engine"], row["device"].removeprefix(f"{row['engine']} on "), row["location"])
                groups.setdefault(at, {}).setdefault(who, {})[row["query"]] = row["median_ms"]
        for (suite, size, source, state), ones in groups.items():
            common = set.intersection(*(set(queries) for queries in ones.values()))
            sums = {who: sum(queries[name] for name in common) for who, queries in ones.items()}
            for (engine, device, location), total in sums.items() if common else ():
                yield {
                    "suite": suite,
                    "size": size,
                    "source": source,
                    "state": state,
                    "engine": engine,
                    "device": device,
                    "location": location,
                    "queries": len(common),
                    "total_ms": total,
                    "by_fastest": total / min(sums.values()),
                }

    def runs(self) -> Iterator[Row]:
        """All runs of all reports."""
        for report in self.reports:
            for row in report["runs"]:
                yield {**row, "device": device_of(row, report["machine"])}

    def html(self, date: str, commit: str | None) -> str:
        """The page."""
        model, pictures = self.model, list(figures.all_of(self.model, self.seen, self.predictions))
        drawn: dict[str, list[str]] = {}
        for one in pictures:
            drawn.setdefault(one.number, []).append(figure(one))
        machines = [_machine(one) for one in self.reports]
        skipped = [{**row, "machine": number + 1} for number, one in enumerate(self.reports) for row in one["skipped"]]
        count = sum(len(one["runs"]) for one in self.reports)
        introduction = (
            f"<p>Warpmill {escape(warpmill.__version__)}, commit {escape(commit or 'unknown')}, {escape(date)}. "
            f"{count} runs of {len(self.reports)} machine(s), fitted to the {self.times} of each. The model and its "
            "notation are those of "
            "<i>Powerful GPUs or Fast Interconnects</i> (PVLDB 18(11), 2025).</p>"
        )
        if any(run.site == "sim" for run in self.seen.runs):
            introduction += note(
                "The simulated device runs kernels as host code: its times show that the method works, not how fast "
                "a GPU is."
            )
        parts = [
            section("machines", "Machines", table(machines, columns.MACHINE)),
            section(
                "errors",
                "Errors of predictions",
                note(columns.ERRORS),
                table(errors.summary(self.predictions), columns.ERROR),
                *drawn.get("6", []),
            ),
            section(
                "characteristics",
                "Queries and devices",
                *drawn.get("4.4", []),
                *_characteristics(model.characteristics),
                *_engines(model.engines),
            ),
            section("links", "Links", *drawn.get("4", []), table(self.links(), columns.LINK)),
            section(
                "breakdown",
                "Copying and computing, by query",
                note(columns.BREAKDOWN),
                table(self.breakdown(), columns.BREAK),
                *drawn.get("2", []),
            ),
            section("times", "Time by input", *drawn.get("5", []), table(self.lines(), columns.LINE)),
            section(
                "limits",
                "Limits",
                *(text for number in ("7", "8", "9") for text in drawn.get(number, [])),
                table(figures.crossings(model), columns.CROSSING),
            ),
            section(
                "configurations",
                "Any device with any link",
                note(columns.CONFIGURATIONS),
                table(self.configurations(), columns.CONFIGURATION),
            ),
            section(
                "selections",
                "Selective transfers",
                *drawn.get("3", []),
                table(self.selections(), columns.SELECTION, "no query has a filter that was measured"),
            ),
            section("engines", "Engines", note(columns.ENGINES_NOTE), table(self.engines(), columns.ENGINES)),
            section("runs", "All runs", table(self.runs(), columns.RUN)),
            section(
                "missing",
                "What is not measured",
                table(skipped, columns.SKIPPED, "nothing was skipped"),
                table(
                    [{"reason": text} for text in model.left_out],
                    [Column("reason", "not fitted")],
                    "everything was fitted",
                ),
            ),
        ]
        return page("Warpmill, measured like MaxBench", introduction, parts)


def _of(found: Characteristics | None) -> Row | None:
    if found is None:
        return None
    return {
        "queries": dict(zip(found.queries, found.complexity.tolist(), strict=True)),
        "devices": dict(zip(found.devices, found.efficiency.tolist(), strict=True)),
        "singular_values": found.singular_values.tolist(),
        "share_of_first": found.share,
        "median_error": found.median_error,
        "largest_error": found.largest_error,
        "errors_by_rank": list(found.errors_by_rank),
    }


def _characteristics(found: Characteristics | None) -> list[str]:
    if found is None:
        return [note("No query has times at two sizes on any device.")]
    pairs = zip(found.queries, found.complexity, strict=True)
    rows = [{"query": name, "complexity": float(value)} for name, value in pairs]
    return [table(rows, [Column("query", "query"), Column("complexity", "complexity, ns per byte", unit=1e9)])]


def _engines(found: Characteristics | None) -> list[str]:
    if found is None:
        return []
    rows = [
        {"engine": name, "efficiency": float(value)}
        for name, value in zip(found.devices, found.efficiency, strict=True)
    ]
    text = (
        f"Engines on the CPUs in the same way: the first singular value has {100 * found.share:.2f}%, errors are "
        f"{100 * found.median_error:.1f}% in the median."
    )
    return [
        note(text),
        table(rows, [Column("engine", "engine and CPU"), Column("efficiency", "speedup over the slowest")]),
    ]


def _machine(report: Row) -> Row:
    machine = report["machine"]
    memory = machine.get("memory_bytes")
    return {
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "memory": memory / 2**30 if memory else None,
        "gpu": machine.get("gpu") or "none",
        "versions": ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version),
        "commit": report["commit"],
        "date": report["date"],
        "command": report["command"],
    }
