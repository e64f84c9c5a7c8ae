"""The report's pictures, one for each figure of the MaxBench paper, as SVG within the page."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator, NullFormatter

from warpmill_bench.maxbench import limits
from warpmill_bench.maxbench.model import PUBLISHED
from warpmill_bench.maxbench.observations import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from warpmill_bench.maxbench.errors import Prediction
    from warpmill_bench.maxbench.fits import Link
    from warpmill_bench.maxbench.model import Model
    from warpmill_bench.maxbench.observations import Observations

mpl.use("Agg")

#: Text as text, and ids that are the same in every run.
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
}

#: The part of the input that a filter keeps.
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"

#: Queries that share a panel at most.
_BARS = 60

POLICIES = {"per query": False, "per data set": True}


@dataclass(frozen=True)
class Picture:
    """A figure of the report."""

    #: The paper's number.
    number: str
    title: str
    caption: str
    svg: str


def all_of(model: Model, seen: Observations, predictions: Sequence[Prediction]) -> Iterator[Picture]:
    """The names that have measurements."""
    with mpl.rc_context(_STYLE):
        yield from _operators(seen)
        yield from _perceived(model, seen)
        yield from _bandwidths(model, seen)
        yield from _lines(model)
        yield from _predicted(predictions)
        yield from _slopes(model)
        yield from _speedups(model)
        yield from _shares_by_bandwidth(model)
        yield from _shares_by_efficiency(model)


def links_of(model: Model) -> dict[str, Link]:
    """Links to devices, by name: measured ones, and those of the paper's machines."""
    wanted = set(LINKS.values())
    own = {one.title: one.link for one in model.links if one.name in wanted}
    return {**own, **PUBLISHED}


def suites_of(model: Model) -> list[str]:
    """The suites whose queries have lines."""
    return list(dict.fromkeys(query[0] for query, _ in model.lines))


def devices_of(model: Model) -> list[str]:
    """Warpmill's devices that have memory behind a link, as far as they have slopes; without any, its CPUs."""
    known = model.characteristics.devices if model.characteristics else ()
    return [name for name in known if name in model.behind_links] or list(known)


def _operators(seen: Observations) -> Iterator[Picture]:
    """Figure 2."""
    for device in seen.devices("warpmill"):
        largest: dict[tuple[str, str], Any] = {}
        for run in seen.of(device):
            if run.in_place and run.operators and run.size >= largest.get(run.query, run).size:
                largest[run.query] = run
        if not largest:
            continue
        runs = list(largest.values())[:_BARS]
        kinds = list(dict.fromkeys(kind for run in runs for kind in sorted(run.operators)))
        canvas, panel = _panel(max(5.0, 0.22 * len(runs) + 2), 3)
        names = [" ".join(run.query) for run in runs]
        floor = np.zeros(len(runs))
        for kind in kinds:
            parts = np.array([100 * run.operators.get(kind, 0.0) / sum(run.operators.values()) for run in runs])
            panel.bar(names, parts, bottom=floor, label=kind)
            floor += parts
        panel.tick_params(axis="x", rotation=90)
        panel.set_ylabel("% of time in operators")
        panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        where = "kernels (one runs all operators of a pipeline: where the pipeline's rows come from)"
        what = "operators, summed over workers" if seen.site(device) == "cpu" else where
        yield _picture(canvas, "2", f"Operators on {device}", f"Time of {what}, by kind, at each query's largest size.")


def _perceived(model: Model, seen: Observations) -> Iterator[Picture]:
    """Figure 3."""
    if not model.selections:
        return
    reports = sorted({report for _, report in model.selections})
    for report in reports:
        chosen = {query: one for (query, at), one in model.selections.items() if at == report}
        inputs = {one.query: one.input_bytes for one in seen.filters if one.report == report}
        links = {one.title: one.link for one in model.links if one.report == report and one.name in LINKS.values()}
        links |= PUBLISHED
        canvas, panel = _panel(max(6.0, 0.9 * len(chosen) + 3), 3.2)
        names = [f"{' '.join(query)}\n{SIGMA} = {one.kept:.2g}" for query, one in chosen.items()]
        width = 0.8 / (2 * len(links))
        at = np.arange(len(chosen))
        for number, (name, link) in enumerate(links.items()):
            sizes = np.array([inputs[query] for query in chosen])
            own = link.bandwidth(sizes) / 1e9
            seen_as = np.array([float(one.perceived(inputs[query], link)) / 1e9 for query, one in chosen.items()])
            panel.bar(at + (2 * number) * width, own, width, color=f"C{number}", alpha=0.4)
            panel.bar(at + (2 * number + 1) * width, seen_as, width, color=f"C{number}", label=name)
        panel.set_yscale("log")
        panel.set_xticks(at + 0.4 - width / 2, names)
        panel.set_ylabel("GB/s")
        panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        yield _picture(
            canvas,
            "3",
            "Actual and perceived bandwidth of selective transfers" + (f", machine {report + 1}" if report else ""),
            "Pale: the link's bandwidth at the size of the input. Full: input bytes by the time in which the host "
            "filters it and what is left of it is copied. Filtering pays where the full bar is the higher one.",
        )


def _bandwidths(model: Model, seen: Observations) -> Iterator[Picture]:
    """Figure 4."""
    if not model.links:
        return
    canvas, panel = _panel(7, 3.6)
    for number, one in enumerate(model.links):
        sizes = np.array(one.sizes)
        panel.plot(sizes, sizes / np.array(one.seconds) / 1e9, "o", ms=3, color=f"C{number}")
        fine = np.geomspace(sizes.min(), sizes.max(), 100)
        label = f"{one.title}: {one.link.bmax / 1e9:.3g} GB/s, s0 = {_bytes(one.link.s0)}"
        panel.plot(fine, one.link.bandwidth(fine) / 1e9, color=f"C{number}", lw=1, label=label)
    timed = [run for run in seen.runs if run.copied_seconds > 0 and not run.in_place]
    for number, (device, location) in enumerate(dict.fromkeys((run.device, run.location) for run in timed)):
        own = [run for run in timed if (run.device, run.location) == (device, location)]
        rates = [run.copied_bytes / run.copied_seconds / 1e9 for run in own]
        label = f"queries on {device}, {location}"
        panel.plot(
            [run.copied_bytes / max(run.copies, 1) for run in own],
            rates,
            "x",
            ms=4,
            color=f"C{(number + 5) % 10}",
            label=label,
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("bytes of a transfer; those of a query in the mean")
    panel.set_ylabel("GB/s")
    panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    yield _picture(
        canvas,
        "4",
        "Bandwidth by size",
        "Dots: measured alone. Curves: B(s) = Bmax s / (s + s0). Crosses: within queries, as the engine times them.",
    )


def _lines(model: Model) -> Iterator[Picture]:
    """Figure 5."""
    for suite in suites_of(model):
        devices = list(dict.fromkeys(on for query, on in model.lines if query[0] == suite))
        queries = list(dict.fromkeys(query for query, _ in model.lines if query[0] == suite))
        columns = min(6, len(queries))
        rows = -(-len(queries) // columns)
        canvas = Canvas(figsize=(max(2.0 * columns, 4), 1.6 * rows + 0.5))
        panels = canvas.subplots(rows, columns, squeeze=False)
        for number, query in enumerate(queries):
            panel = panels[number // columns][number % columns]
            for at, device in enumerate(devices):
                one = model.lines.get((query, device))
                if one is None:
                    continue
                inputs = np.array(one.inputs)
                panel.plot(inputs / 1e6, np.array(one.seconds) * 1e3, "o", ms=2.5, color=f"C{at}")
                fine = np.geomspace(inputs.min(), inputs.max(), 50)
                panel.plot(fine / 1e6, one.line.seconds(fine) * 1e3, color=f"C{at}", lw=1, label=device)
            panel.set_title(query[1], fontsize=8)
            panel.set_xscale("log")
            panel.set_yscale("log")
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_locator(LogLocator(numticks=4))
                axis.set_minor_formatter(NullFormatter())
            panel.tick_params(labelsize=6)
        for empty in panels.flat[len(queries) :]:
            empty.axis("off")
        handles, labels = panels[0][0].get_legend_handles_labels()
        canvas.legend(handles, labels, fontsize=7, ncols=2, loc="outside upper center")
        canvas.supxlabel("MB of input", fontsize=8)
        canvas.supylabel("ms of operators", fontsize=8)
        yield _picture(canvas, "5", f"Time by input, {suite}", "Points: medians. Lines: T(s) = a s + b.")


def _predicted(predictions: Sequence[Prediction]) -> Iterator[Picture]:
    """Figure 6."""
    kinds = list(dict.fromkeys(one.held_out for one in predictions))
    if not kinds:
        return
    canvas = Canvas(figsize=(3.1 * len(kinds) + 1, 3.4))
    panels = canvas.subplots(1, len(kinds), squeeze=False)[0]
    for panel, kind in zip(panels, kinds, strict=True):
        ones = [one for one in predictions if one.held_out == kind]
        for number, device in enumerate(dict.fromkeys((one.device, one.location) for one in ones)):
            own = [one for one in ones if (one.device, one.location) == device]
            x, y = [1e3 * one.measured for one in own], [1e3 * one.predicted for one in own]
            panel.plot(x, y, "o", ms=2.5, color=f"C{number}", label=", ".join(device), alpha=0.7)
        ends = np.array(panel.get_xlim())
        ends = np.array([min(1e3 * one.measured for one in ones), max(1e3 * one.measured for one in ones)])
        panel.plot(ends, ends, "k-", lw=0.8)
        panel.fill_between(ends, 0.9 * ends, 1.1 * ends, color="k", alpha=0.1)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(f"held out: {kind}", fontsize=8)
        panel.set_xlabel("measured ms")
        panel.legend(fontsize=5)
    panels[0].set_ylabel("predicted ms")
    yield _picture(
        canvas, "6", "Measured and predicted", "Each point is a run that the prediction has not seen; the band is 10%."
    )


def _slopes(model: Model) -> Iterator[Picture]:
    """Characteristics, which the paper has in its text."""
    found = model.characteristics
    if found is None:
        return
    canvas = Canvas(figsize=(max(5.0, 0.2 * len(found.queries) + 3), 3))
    left, right = canvas.subplots(1, 2, width_ratios=[max(len(found.queries), 6), max(len(found.devices), 4)])
    order = np.argsort(found.complexity)
    left.bar([found.queries[at] for at in order], found.complexity[order] * 1e9)
    left.tick_params(axis="x", rotation=90, labelsize=6)
    left.set_yscale("log")
    left.set_ylabel("ns per byte")
    left.set_title("complexity, on the slowest device", fontsize=8)
    right.bar(found.devices, found.efficiency, color="C1")
    right.tick_params(axis="x", rotation=45)
    right.set_title("efficiency, slowest: 1", fontsize=8)
    caption = (
        f"The first singular value has {100 * found.share:.2f}% of the slope matrix; its entries differ from "
        f"complexity / efficiency by {100 * found.median_error:.1f}% in the median."
    )
    yield _picture(canvas, "4.4", "Characteristic complexity and efficiency", caption)


def _speedups(model: Model) -> Iterator[Picture]:
    """Figure 7."""
    links, devices = links_of(model), devices_of(model)
    suites = [suite for suite in suites_of(model) if all(model.workload(suite, name) for name in devices)]
    if not devices or not suites:
        return
    canvas = Canvas(figsize=(1.2 + (1.1 + 0.55 * len(devices)) * len(suites), 1 + 2 * (0.6 + 0.3 * len(links))))
    panels = canvas.subplots(2, len(suites), squeeze=False)
    for row, (policy, once) in enumerate(POLICIES.items()):
        for column, suite in enumerate(suites):
            works = [model.workload(suite, name) for name in devices]
            totals = np.array(
                [[float(work.total(link.bmax, once)) for work in works if work] for link in links.values()]
            )
            speedups = totals.max() / totals
            panel = panels[row][column]
            panel.imshow(speedups, cmap="Greens", aspect="auto", norm=mpl.colors.LogNorm(1, max(speedups.max(), 1.01)))
            for (y, x), value in np.ndenumerate(speedups):
                panel.text(
                    x,
                    y,
                    f"{value:.3g}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="w" if value > speedups.max() ** 0.6 else "k",
                )
            panel.grid(visible=False)
            panel.set_xticks(range(len(devices)), devices if row else [""] * len(devices), rotation=90, fontsize=6)
            panel.set_yticks(range(len(links)), links if not column else [""] * len(links), fontsize=6)
            panel.set_title(f"{suite}, {policy}", fontsize=8)
    yield _picture(
        canvas,
        "7",
        "Speedup over the slowest configuration",
        "As data grows without end; links by devices, copies per query and per data set.",
    )


def _shares_by_bandwidth(model: Model) -> Iterator[Picture]:
    """Figure 8."""
    rates = np.geomspace(1e8, 1e12, 200)
    yield from _shares(
        model,
        "8",
        "Operators' part of the time, by bandwidth",
        "As data grows without end. Dashed: copies per data set. Dotted: links.",
        lambda panel, suite: _by_bandwidth(panel, model, suite, rates),
        "GB/s of the link",
        "% of time in operators",
    )


def _by_bandwidth(panel: Any, model: Model, suite: str, rates: Any) -> None:
    for number, device in enumerate(devices_of(model)):
        work = model.workload(suite, device)
        for policy, once in POLICIES.items() if work else ():
            assert work is not None
            label = device if policy == "per query" else None
            share = 100 * (1 - work.transfer_share(rates, once))
            panel.plot(rates / 1e9, share, "--" if once else "-", color=f"C{number}", label=label, lw=1)
    for link in links_of(model).values():
        panel.axvline(link.bmax / 1e9, color="k", lw=0.6, ls=":")
    panel.set_xscale("log")


def _shares_by_efficiency(model: Model) -> Iterator[Picture]:
    """Figure 9."""
    yield from _shares(
        model,
        "9",
        "Transfers' part of the time, by efficiency",
        "As data grows without end, copies per query, for a device so much faster than the slowest. Dotted: devices.",
        lambda panel, suite: _by_efficiency(panel, model, suite),
        "efficiency",
        "% of time in transfers",
    )


def _by_efficiency(panel: Any, model: Model, suite: str) -> None:
    found = model.characteristics
    assert found is not None
    efficiency = {name: found.efficiency[found.devices.index(name)] for name in devices_of(model)}
    slowest = min(efficiency, key=lambda name: float(efficiency[name]))
    work, unit = model.workload(suite, slowest), float(efficiency[slowest])
    speeds = np.geomspace(0.5 * unit, 10 * max(efficiency.values()), 200)
    for number, (name, link) in enumerate(links_of(model).items()):
        if work is not None:
            shares = [100 * float(work.on(float(speed) / unit).transfer_share(link.bmax)) for speed in speeds]
            panel.plot(speeds, shares, color=f"C{number}", label=name, lw=1)
    for speed in efficiency.values():
        panel.axvline(speed, color="k", lw=0.6, ls=":")
    panel.set_xscale("log")


def _shares(model: Model, number: str, title: str, caption: str, draw: Any, x: str, y: str) -> Iterator[Picture]:
    suites = suites_of(model)
    if not devices_of(model) or not suites:
        return
    canvas = Canvas(figsize=(2.4 * len(suites) + 2.5, 2.8))
    panels = canvas.subplots(1, len(suites), squeeze=False, sharey=True)[0]
    for panel, suite in zip(panels, suites, strict=True):
        draw(panel, suite)
        panel.set_ylim(0, 100)
        panel.set_title(suite, fontsize=8)
        panel.set_xlabel(x)
    panels[0].set_ylabel(y)
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, fontsize=6, loc="outside right upper")
    yield _picture(canvas, number, title, caption)


def crossings(model: Model) -> Iterator[dict[str, Any]]:
    """Bandwidths beyond which operators take longer than transfers, by suite, device and policy."""
    for suite in suites_of(model):
        for device in devices_of(model):
            work = model.workload(suite, device)
            for policy, once in POLICIES.items() if work else ():
                assert work is not None
                yield {"suite": suite, "device": device, "policy": policy, "gb_per_s": work.crossing(once) / 1e9}


def query_limits(model: Model) -> Iterator[dict[str, Any]]:
    """Each query's part of time in transfers over each link, as data grows without end (equation 9)."""
    links = links_of(model)
    for (query, device), one in model.lines.items():
        if device in devices_of(model) and one.line.a > 0:
            shares = {name: limits.transfer_share(one.line.a, link.bmax) for name, link in links.items()}
            yield {"suite": query[0], "query": query[1], "device": device, **shares}


def _panel(width: float, height: float) -> tuple[Any, Any]:
    canvas = Canvas(figsize=(width, height))
    return canvas, canvas.subplots()


def _picture(canvas: Any, number: str, title: str, caption: str) -> Picture:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"{number} {title}"}), io.StringIO() as out:
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
    # Within HTML: without XML header; as wide as its text needs, and at most as wide as the page.
    text = text[text.index("<svg") :]
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', text)
    size = f'style="width:{1.3 * float(width[1]):.0f}px;max-width:100%;height:auto"' if width else ""
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf"\1 {size}", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    # Ids count from 1 in every picture, and a page has several.
    own = re.sub(r"[^a-z0-9]+", "-", f"{number} {title}".lower())
    text = re.sub(r'\bid="', f'id="{own}-', text)
    text = re.sub(r"url\(#", f"url(#{own}-", text).replace('href="#', f'href="#{own}-')
    return Picture(number, title, caption, text)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
