"""Tables and pictures of `warpmill_bench.mordred`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from warpmill.cli.units import milliseconds, size
from warpmill_bench.mordred import OPTIMIZATIONS, PLACEMENTS, POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from warpmill_bench.mordred import Row

#: The state of the measured statements, in every table's title.
REPEATED = "repeated statements"


def table(title: str, columns: Iterable[str], lines: Iterable[tuple[object, list[str]]]) -> Table:
    """Tables of cells, in sections by the first column; the first two columns, and the named ones, are text."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for position, name in enumerate(columns):
        text = position in (0, 1) or name in ("in the cache", "the slowest", "best other", "not shared")
        out.add_column(name, justify="left" if text else "right", no_wrap=name not in ("in the cache", "not shared"))
    last = None
    for key, cells in lines:
        if last is not None and key != last:
            out.add_section()
        last = key
        out.add_row(*cells)
    return out


def percent(part: float | None) -> str:
    """A part of one."""
    return "-" if part is None else f"{part:.0%}"


def times(factor: float | None) -> str:
    """A factor."""
    return "-" if factor is None else f"{factor:.2f}x"


def of_device(row: Row) -> float | None:
    """The part of all bytes that queries read which a device's kernels read."""
    if row["gpu_bytes"] is None:
        return None
    whole = row["cpu_bytes"] + row["gpu_bytes"]
    return row["gpu_bytes"] / whole if whole else None


def cached(row: Row, most: int = 4) -> str:
    """The fact columns in the cache with the cached fraction; those with the most cached bytes first."""
    if not row.get("cached"):
        return ""
    found = [
        (one["cached_bytes"], one["cached_bytes"] / one["bytes"], name.removeprefix("lo_"))
        for name, one in row["cached"].items()
        if name.startswith("lo_") and one["cached_bytes"]
    ]
    texts = [f"{name} {part:.0%}" for _, part, name in sorted(found, reverse=True)]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def answers(row: Row) -> str:
    """Whether they are the CPU's."""
    return row["error"] or ("yes" if row["same_answer"] else "NO")


def _traffic(row: Row) -> list[str]:
    return [size(row[name]) for name in ("cpu_bytes", "gpu_bytes", "link_bytes")]


TRAFFIC = ("read\nby the CPU", "read\nby the device", "over\nthe link")


def baselines_table(title: str, rows: list[Row]) -> Table:
    """One line per size of the cache and placement."""
    names = (
        "cached",
        "placement",
        "time",
        "first time",
        "of it by\nthe device",
        *TRAFFIC,
        "found in\nthe cache",
        "same",
    )
    lines = (
        (
            row["percent"],
            [
                f"{row['percent']:g}%",
                row["placement"],
                milliseconds(row["ms"]),
                milliseconds(row["first_ms"]),
                percent(of_device(row)),
                *_traffic(row),
                percent(row["hit_rate"]),
                answers(row),
            ],
        )
        for row in rows
    )
    return table(f"placements; {title}; times of {REPEATED}, first times of new ones", names, lines)


def verdicts_table(title: str, rows: list[Row]) -> Table:
    """One line per size of the cache: both sites against one of them."""
    times_of = ("its time", "both", "gain", "of the sum\nof rates", "gain,\nby query")
    names = ("cached", "better site", *times_of, "the slowest", "not shared")
    lines = (
        (
            None,
            [
                f"{row['percent']:g}%",
                row["best"],
                milliseconds(row["best_ms"]),
                milliseconds(row["hybrid_ms"]),
                times(row["speedup"]),
                percent(row["of_sum"]),
                times(row["query_speedup"]),
                f"Q{row['worst_query']} {times(row['worst_query_speedup'])}",
                ", ".join(f"Q{query}" for query in row["not_shared"]),
            ],
        )
        for row in rows
    )
    return table(f"both sites against the better of one alone; {title}; {REPEATED}", names, lines)


#: Columns about a cache, and their cells.
CACHE = ("found in\nthe cache", "hits", "misses", "copies", "copied", "evictions", "replacing")


def _cache(row: Row) -> list[str]:
    if row.get("hits") is None:
        return [""] * len(CACHE)
    counts = [f"{row[name]:,}" for name in ("hits", "misses", "copies")]
    replacing = milliseconds(row["nanos"] / 1e6)
    return [percent(row["hit_rate"]), *counts, size(row["copied_bytes"]), f"{row['evictions']:,}", replacing]


def sizes_table(title: str, rows: list[Row]) -> Table:
    """One line per size of the cache and policy."""
    names = ("cached", "policy", "time", "first time", *CACHE, *TRAFFIC, "same", "in the cache")
    lines = (
        (
            row["percent"],
            [
                f"{row['percent']:g}%",
                row["policy"],
                milliseconds(row["ms"]),
                milliseconds(row["first_ms"]),
                *_cache(row),
                *_traffic(row),
                answers(row),
                cached(row),
            ],
        )
        for row in rows
    )
    return table(f"policies; {title}; times of {REPEATED}, first times of new ones", names, lines)


def workload_table(title: str, rows: list[Row], alone: list[Row]) -> Table:
    """One line per workload, size of the cache and policy; the CPU alone before them."""
    own = ("workload", "policy", "cached", "time", "in programs", "first pass", "new")
    names = (*own, *CACHE, *TRAFFIC, "same", "in the cache")
    lines: list[tuple[object, list[str]]] = []
    for one in alone:
        cells = [one["workload"], "(the CPU)", "", milliseconds(one["ms"])]
        lines.append((one["workload"], cells + [""] * (len(names) - len(cells))))
        for row in rows:
            if row["workload"] != one["workload"]:
                continue
            cells = [row["workload"], row["policy"], f"{row['percent']:g}%"]
            if row["ms"] is None:
                cells += ["-"] * (len(names) - 5) + [answers(row), ""]
                lines.append((one["workload"], cells))
                continue
            cells += [milliseconds(row[name]) for name in ("ms", "run_ms", "first_ms")]
            cells += [f"{row['new_statements']}", *_cache(row), *_traffic(row), answers(row), cached(row)]
            lines.append((one["workload"], cells))
    return table(f"{title}; times of {REPEATED}, the first pass with its new ones", names, lines)


def gains_table(title: str, rows: list[Row], by: str = "workload") -> Table:
    """The semantic policy against the others."""
    names = ("cached",) if by == "percent" else (by, "cached")
    lines = (
        (
            None,
            [
                *([] if by == "percent" else [str(row[by])]),
                f"{row['percent']:g}%",
                row["best_other"],
                times(row["gain"]),
            ],
        )
        for row in rows
    )
    return table(f"semantic against the best other policy; {title}; {REPEATED}", (*names, "best other", "gain"), lines)


def optimizations_table(title: str, rows: list[Row]) -> Table:
    """One line per size of the cache and optimization."""
    names = ("cached", "optimization", "without it", "gain by it", "it alone", "gain\nby it alone", "same")
    lines = []
    for share in dict.fromkeys(row["percent"] for row in rows):
        here = [row for row in rows if row["percent"] == share]
        for row in here:
            if row["variant"] is None:
                cells = [f"{share:g}%", f"({row['optimization']} of them)", milliseconds(row["ms"]), "", "", ""]
                lines.append((share, [*cells, answers(row)]))
        for name in OPTIMIZATIONS:
            of = {row["variant"]: row for row in here if row["optimization"] == name}
            cells = [f"{share:g}%", name]
            for variant in ("without", "alone"):
                cells += [milliseconds(of[variant]["ms"]), times(of[variant]["speedup"])]
            both = [answers(of[variant]) for variant in ("without", "alone")]
            lines.append((share, [*cells, next((text for text in both if text != "yes"), "yes")]))
    return table(f"one optimization at a time; {title}; {REPEATED}", names, lines)


def starts_table(title: str, rows: list[Row]) -> Table:
    """One line per placement: new processes, without and with kernels that were kept."""
    names = ("placement", "kernels", "to the first answer", "to the last", "making or loading kernels")
    lines = []
    for row in rows:
        for kernels in ("none", "kept"):
            of = [one for one in row["starts"] if one["kernels"] == kernels]
            keys = ("first_answer_ms", "all_answers_ms", "prepare_ms")
            medians = [milliseconds(statistics.median(one[key] for one in of)) for key in keys]
            lines.append((row["placement"], [row["placement"], kernels, *medians]))
    return table(f"new processes, each query once; {title}", names, lines)


def save(report: dict[str, Any], directory: str) -> list[str]:
    """Write the report and its pictures; return their paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mordred.json"
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    paths = [str(file)]
    plots: dict[str, Callable[[Row, str], None]] = {
        "baselines": _plot_baselines,
        "sizes": _plot_sizes,
        "skew": _plot_skew,
        "phases": _plot_phases,
        "optimizations": _plot_optimizations,
    }
    for name, found in report["experiments"].items():
        if name in plots and any(row["ms"] is not None for row in found["results"]):
            paths.append(str(folder / f"mordred-{name}.png"))
            plots[name](found, paths[-1])
    return paths


def _figure(width: float, height: float) -> Any:
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _color(name: str, names: Iterable[str]) -> str:
    return f"C{list(names).index(name)}"


def _finish(axes: Any, title: str, label: str, below: str) -> None:
    axes.set(title=title, ylabel=label, xlabel=below)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)


def _lines(axes: Any, rows: list[Row], across: str, by: str, names: Iterable[str], value: str = "ms") -> None:
    """A line per value of `by`."""
    names = list(names)
    for name in names:
        here = [row for row in rows if row[by] == name and row[value] is not None]
        if here:
            xs, ys = [float(row[across]) for row in here], [row[value] for row in here]
            axes.plot(xs, ys, marker=".", label=name, color=_color(name, names))


def _plot_baselines(found: Row, path: str) -> None:
    """Times and the bytes of the link by the size of the cache; the gain of both sites."""
    figure = _figure(15, 4.2)
    left, middle, right = figure.subplots(1, 3)
    below = "% of the columns' bytes in the cache"
    _lines(left, found["results"], "percent", "placement", PLACEMENTS)
    _finish(left, "all queries", "ms", below)
    left.legend(fontsize=8)
    _lines(middle, found["results"], "percent", "placement", PLACEMENTS, "link_bytes")
    _finish(middle, "over the link", "bytes", below)
    verdicts = found["verdicts"]
    xs = [row["percent"] for row in verdicts]
    right.plot(xs, [row["speedup"] for row in verdicts], marker=".", label="times the better site's rate")
    right.plot(xs, [row["of_sum"] for row in verdicts], marker=".", label="part of the sum of both rates")
    right.axhline(1, color="gray", linewidth=1)
    _finish(right, "row segments on both sites", "", below)
    right.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _plot_sizes(found: Row, path: str) -> None:
    """Times by the size of the cache (figure 4.5); traffic (4.6) and cached columns (4.9) at the size next to 20%."""
    rows = found["results"]
    figure = _figure(17, 4.6)
    left, middle, right = figure.subplots(1, 3)
    _lines(left, rows, "percent", "policy", POLICIES)
    _finish(left, "all queries", "ms", "% of the columns' bytes in the cache")
    left.legend(fontsize=8)
    share = min((row["percent"] for row in rows if row["percent"] > 0), key=lambda one: abs(one - 20), default=None)
    here = [row for row in rows if row["percent"] == share and row["ms"] is not None]
    names = [row["policy"] for row in here]
    kinds = (("cpu_bytes", "by the CPU"), ("gpu_bytes", "by the device"), ("link_bytes", "over the link"))
    _stacked(middle, names, {label: [row[kind] for row in here] for kind, label in kinds})
    _finish(middle, f"bytes read, {share or 0:g}% cached", "bytes", "")
    columns = sorted({name for row in here for name in row["cached"] or {}})
    parts = {
        name: [(row["cached"] or {}).get(name, {}).get("cached_bytes", 0) for row in here]
        for name in columns
        if name.startswith("lo_")
    }
    others = [name for name in columns if not name.startswith("lo_")]
    parts["dimensions"] = [
        sum((row["cached"] or {}).get(name, {}).get("cached_bytes", 0) for name in others) for row in here
    ]
    _stacked(right, names, parts)
    _finish(right, f"in the cache, {share or 0:g}% of all columns", "bytes", "")
    figure.savefig(path, dpi=130)


def _stacked(axes: Any, names: list[str], parts: dict[str, list[int]]) -> None:
    bottom = [0.0] * len(names)
    for position, (label, values) in enumerate(parts.items()):
        color = f"C{position}" if position < 10 else None
        axes.bar(range(len(names)), values, bottom=bottom, label=label, color=color)
        bottom = [height + value for height, value in zip(bottom, values, strict=True)]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _plot_skew(found: Row, path: str) -> None:
    """Times by skew, a panel per size of the cache (figure 4.7)."""
    rows = found["results"]
    shares = list(dict.fromkeys(row["percent"] for row in rows))
    figure = _figure(5 * len(shares) + 1, 4.2)
    for axes, share in zip(figure.subplots(1, len(shares), squeeze=False)[0], shares, strict=True):
        _lines(axes, [row for row in rows if row["percent"] == share], "workload", "policy", POLICIES, "run_ms")
        alone = [one for one in found["cpu"] if one["ms"] is not None]
        xs, ys = [float(one["workload"]) for one in alone], [one["run_ms"] for one in alone]
        axes.plot(xs, ys, "--", color="gray", label="the CPU alone")
        _finish(axes, f"{share:g}% cached", "ms in programs", "skew")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _plot_phases(found: Row, path: str) -> None:
    """Times by batch, a panel per size of the cache (figure 4.8)."""
    rows = [row for row in found["results"] if row["ms"] is not None]
    shares = list(dict.fromkeys(row["percent"] for row in rows))
    figure = _figure(9, 4 * len(shares))
    for axes, share in zip(figure.subplots(len(shares), 1, squeeze=False)[:, 0], shares, strict=True):
        for row in rows:
            if row["percent"] == share:
                xs = range(1, len(row["batches_ms"]) + 1)
                color = _color(row["policy"], POLICIES)
                axes.plot(xs, row["batches_ms"], marker=".", label=row["policy"], color=color)
        axes.xaxis.get_major_locator().set_params(integer=True)
        for number in range(found["phase_batches"], found["batches"], found["phase_batches"]):
            axes.axvline(number + 0.5, color="gray", linewidth=1, linestyle=":")
        _finish(axes, f"{share:g}% cached", "ms", "batch")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _plot_optimizations(found: Row, path: str) -> None:
    """Gains of each optimization, a panel per size of the cache (figure 4.11)."""
    rows = found["results"]
    shares = list(dict.fromkeys(row["percent"] for row in rows))
    figure = _figure(9, 3.4 * len(shares))
    for axes, share in zip(figure.subplots(len(shares), 1, squeeze=False)[:, 0], shares, strict=True):
        for place, variant in ((-0.2, "without"), (0.2, "alone")):
            here = [row for row in rows if row["percent"] == share and row["variant"] == variant]
            gains = [row["speedup"] or 0 for row in here]
            label = "all, against all but it" if variant == "without" else "it alone, against none"
            axes.bar([at + place for at in range(len(here))], gains, 0.38, label=label)
        axes.set_xticks(range(len(OPTIMIZATIONS)), list(OPTIMIZATIONS), rotation=15, ha="right", fontsize=8)
        axes.axhline(1, color="gray", linewidth=1)
        _finish(axes, f"{share:g}% cached", "times as fast", "")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
