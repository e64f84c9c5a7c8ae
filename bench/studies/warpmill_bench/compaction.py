"""The chunk compaction micro-benchmark: its rows as plots, JSON and a table.

Every row is one strategy on one workload (crate ``warpmill-bench``); strategies on the same workload
have the same result, which the benchmark checks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from warpmill.cli.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes

Row = dict[str, Any]

#: Marker and colour of each strategy, the same in all plots.
STYLES = {
    "none": ("x", "tab:gray"),
    "full": ("s", "tab:brown"),
    "binary": ("v", "tab:orange"),
    "logical": ("^", "tab:green"),
    "learning": ("D", "tab:blue"),
    "smart": ("o", "tab:red"),
}


def save(rows: list[Row], directory: str) -> list[str]:
    """Write ``compaction.json`` and one PNG per experiment; return their paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "compaction.json"
    report.write_text(json.dumps({"results": rows}, indent=1) + "\n", encoding="utf-8")
    plots: dict[str, Callable[[list[Row], Path], None]] = {
        "reducing_factor": _reducing_factor,
        "tuple_length": _tuple_length,
        "learned_thresholds": _thresholds,
        "chunk_rows": _chunk_rows,
        "filter_and_joins": _filter_and_joins,
    }
    paths = [str(report)]
    for name, plot in plots.items():
        chosen = [row for row in rows if row["experiment"] == name]
        if chosen:
            plot(chosen, folder / f"{name}.png")
            paths.append(str(folder / f"{name}.png"))
    return paths


def table(rows: list[Row]) -> Table:
    """One line per workload: the time of each strategy, smart against the best, binary against logical."""
    out = Table(box=box.SIMPLE_HEAD)
    out.add_column("workload", no_wrap=True)
    for strategy in STYLES:
        out.add_column(strategy, justify="right", no_wrap=True)
    out.add_column("smart / best", justify="right")
    out.add_column("binary / logical", justify="right")
    for workload in dict.fromkeys(_workload(row) for row in rows):
        times = {row["strategy"]: row["seconds"] for row in rows if _workload(row) == workload}
        best = min(times.values())
        out.add_row(
            workload,
            *(milliseconds(times[name] * 1000) if name in times else "" for name in STYLES),
            f"{times['smart'] / best:.2f}" if "smart" in times else "",
            f"{times['binary'] / times['logical']:.2f}" if {"binary", "logical"} <= times.keys() else "",
        )
    return out


def _workload(row: Row) -> str:
    parts = [row["experiment"], f"{row['joins']} joins", f"CRF {row['reducing_factor']}", f"{row['probe_bytes']} B"]
    if row["experiment"] == "learned_thresholds":
        parts.append(f"S2 {row['build_bytes'][1]} B")
    if row["experiment"] == "chunk_rows":
        parts.append(f"chunks of {row['chunk_rows']}")
    if row["selectivity"] is not None:
        parts.append(f"filter {row['selectivity']:g}")
    return ", ".join(parts)


def _lines(axes: Axes, rows: Iterable[Row], x: str) -> None:
    """One line per strategy: milliseconds over `x`."""
    rows = list(rows)
    for strategy, (marker, color) in STYLES.items():
        points = sorted((row[x], row["seconds"] * 1000) for row in rows if row["strategy"] == strategy)
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, color=color, label=strategy)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _figure(panels: int) -> tuple[Any, list[Axes]]:
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * panels + 0.5, 4), layout="constrained")
    return figure, [figure.add_subplot(1, panels, at + 1) for at in range(panels)]


def _reducing_factor(rows: list[Row], path: Path) -> None:
    joins = sorted({row["joins"] for row in rows})
    figure, panels = _figure(len(joins))
    for axes, count in zip(panels, joins, strict=True):
        _lines(axes, (row for row in rows if row["joins"] == count), "reducing_factor")
        axes.set_xscale("log", base=2)
        axes.set(title=f"{count} joins", xlabel="chunk reducing factor", ylabel="ms")
    panels[0].legend()
    figure.savefig(path, dpi=150)


def _single(rows: list[Row], path: Path, x: str, label: str, title: str, base: int | None) -> None:
    figure, (axes,) = _figure(1)
    _lines(axes, rows, x)
    if base:
        axes.set_xscale("log", base=base)
    axes.set(title=title, xlabel=label, ylabel="ms")
    axes.legend()
    figure.savefig(path, dpi=150)


def _tuple_length(rows: list[Row], path: Path) -> None:
    _single(rows, path, "probe_bytes", "bytes of a probe tuple", "4 joins, reducing factor 8", None)


def _chunk_rows(rows: list[Row], path: Path) -> None:
    _single(rows, path, "chunk_rows", "rows of a full chunk", "3 joins, reducing factor 8", 2)


def _filter_and_joins(rows: list[Row], path: Path) -> None:
    _single(rows, path, "selectivity", "part that the filter keeps", "filter before 3 joins", 10)


def _thresholds(rows: list[Row], path: Path) -> None:
    learning = [row for row in rows if row["thresholds"]]
    figure, panels = _figure(max(len(learning), 1))
    for axes, row in zip(panels, learning, strict=False):
        shares = row["thresholds"]
        thresholds = sorted({share["threshold"] for share in shares})
        compactors = sorted({share["compactor"] for share in shares})
        width = 0.8 / max(len(compactors), 1)
        for at, compactor in enumerate(compactors):
            chosen = {share["threshold"]: share["share"] for share in shares if share["compactor"] == compactor}
            places = [place + at * width for place in range(len(thresholds))]
            axes.bar(places, [chosen.get(t, 0.0) for t in thresholds], width, label=f"after join {compactor + 1}")
        axes.set_xticks([place + 0.4 - width / 2 for place in range(len(thresholds))], [str(t) for t in thresholds])
        title = f"{row['strategy']}, S2 tuples of {row['build_bytes'][1]} bytes"
        axes.set(title=title, xlabel="threshold (rows)", ylabel="share of choices")
        axes.legend()
    figure.savefig(path, dpi=150)
