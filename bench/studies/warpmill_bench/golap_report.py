"""Tables and pictures of `warpmill_bench.golap`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from warpmill.cli.units import milliseconds, ratio, size
from warpmill_bench.golap import MODES

if TYPE_CHECKING:
    from warpmill_bench.golap import Row

COLORS = {
    "none": "tab:blue",
    "minmax": "tab:purple",
    "pruning": "tab:green",
    "compression": "tab:orange",
    "both": "tab:red",
}


def modes_of(rows: list[Row]) -> list[str]:
    """Modes that were measured, in their order."""
    return [mode for mode in MODES if any(row["mode"] == mode for row in rows)]


def store_table(stores: list[Row]) -> Table:
    """One line per suite, layout and form: the sizes of the facts."""
    out = Table(title="the facts, stored", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("facts", "rows", "plain", "stored", "ratio", "metadata", "columns with a codec"):
        out.add_column(name, justify="left" if name in ("facts", "columns with a codec") else "right")
    for store in stores:
        out.add_row(
            f"{store['suite']} {store['layout']}, {store['form']}",
            f"{store['rows']:,}",
            size(store["plain_bytes"]),
            size(store["stored_bytes"]),
            ratio(store["plain_bytes"], store["stored_bytes"]),
            f"{store['metadata_share']:.2%}",
            ", ".join(f"{name} {'+'.join(codecs)}" for name, codecs in store["codecs"].items()),
        )
    return out


def table(title: str, rows: list[Row]) -> Table:
    """One line per layout, query and mode."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    left = ("facts", "query", "mode", "by", "on")
    for name in (*left[:3], "time", "GB/s", "/ disk", "plain / disk", "read", "pruned", "by", "decision", "on", "same"):
        out.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    last = None
    for row in rows:
        key = (row["suite"], row["layout"], row["query"])
        if last is not None and key != last:
            out.add_section()
        last = key
        out.add_row(
            f"{row['suite']} {row['layout']}",
            row["query"],
            row["mode"],
            milliseconds(row["seconds"] * 1000),
            f"{row['effective_gb_per_s']:.2f}",
            "-" if row["over_disk"] is None else f"{row['over_disk']:.2f}x",
            "-" if row["plain_seconds"] is None else milliseconds(row["plain_seconds"] * 1000),
            size(row["bytes_read"] if row["moved_bytes"] is None else row["moved_bytes"]),
            f"{row['pruned']:.3f}",
            ", ".join(f"{count} {cause}" for cause, count in row["by"].items() if count),
            f"{row['decision_share']:.2%}",
            row["device"],
            "yes" if row["same_answer"] else "NO",
        )
    return out


def sweep_table(title: str, label: str, rows: list[Row]) -> Table:
    """One line per layout and size: mean effective bandwidth and mean part of pruned zones of each mode."""
    modes = modes_of(rows)
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    pruning = [mode for mode in modes if MODES[mode][1] != "none"]
    for name in ("facts", label, "metadata", *(f"GB/s\n{mode}" for mode in modes)):
        out.add_column(name, justify="left" if name == "facts" else "right")
    for name in (*(f"pruned\n{mode}" for mode in pruning), "decision,\nmost", "\nsame"):
        out.add_column(name, justify="right")
    for key in dict.fromkeys((row["suite"], row["layout"], row["value"]) for row in rows):
        here = [row for row in rows if (row["suite"], row["layout"], row["value"]) == key]
        of = {mode: [row for row in here if row["mode"] == mode] for mode in modes}
        out.add_row(
            f"{key[0]} {key[1]}",
            f"{key[2]:,}",
            f"{here[0]['metadata_share']:.2%}",
            *(f"{statistics.geometric_mean(row['effective_gb_per_s'] for row in of[mode]):.2f}" for mode in modes),
            *(f"{statistics.mean(row['pruned'] for row in of[mode]):.3f}" for mode in pruning),
            f"{max(row['decision_share'] for row in here):.2%}",
            "yes" if all(row["same_answer"] for row in here) else "NO",
        )
    return out


def summary(rows: list[Row]) -> list[Row]:
    """Per suite and layout: geometric means of effective bandwidths by mode, pruned parts, the decisions' share."""
    found = []
    for suite, layout in dict.fromkeys((row["suite"], row["layout"]) for row in rows):
        here = [row for row in rows if (row["suite"], row["layout"]) == (suite, layout)]
        of = {mode: [row for row in here if row["mode"] == mode] for mode in modes_of(here)}
        rates = {mode: statistics.geometric_mean(row["effective_gb_per_s"] for row in of[mode]) for mode in of}
        disk = [row["over_disk"] for row in of["both"] if row["over_disk"] is not None]
        pairs = list(zip(of["minmax"], of["pruning"], strict=True))
        found.append(
            {
                "suite": suite,
                "layout": layout,
                "queries": len(of["none"]),
                "effective_gb_per_s": {mode: round(rate, 4) for mode, rate in rates.items()},
                "over_none": {mode: round(rate / rates["none"], 4) for mode, rate in rates.items()},
                "both_over_disk": round(statistics.geometric_mean(disk), 4) if disk else None,
                "pruned": {mode: round(statistics.mean(row["pruned"] for row in of[mode]), 4) for mode in of},
                "pruned_at_least_as_much_as_minmax": sum(all_["pruned"] >= bound["pruned"] for bound, all_ in pairs),
                "largest_decision_share": max(row["decision_share"] for row in here),
            }
        )
    return found


def summary_lines(found: list[Row]) -> list[str]:
    """The same for people."""
    lines = []
    for one in found:
        rates = ", ".join(
            f"{mode} {rate:.2f} GB/s ({one['over_none'][mode]:.2f}x)"
            for mode, rate in one["effective_gb_per_s"].items()
        )
        disk = "" if one["both_over_disk"] is None else f"; both: {one['both_over_disk']:.2f} times the disk"
        lines.append(f"{one['suite']} {one['layout']}, geometric means: {rates}{disk}")
        lines.append(
            f"  all metadata pruned at least as much as bounds in {one['pruned_at_least_as_much_as_minmax']} of "
            f"{one['queries']} queries (means: {one['pruned']['pruning']:.3f}, {one['pruned']['minmax']:.3f}); "
            f"decisions took at most {one['largest_decision_share']:.2%}"
        )
    return lines


def save(report: dict[str, Any], directory: str, name: str) -> list[str]:
    """Write the report and its pictures, named so; return their paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    paths = [str(file)]
    rows = report["results"]
    if report["experiment"] == "modes":
        for suite in dict.fromkeys(row["suite"] for row in rows):
            paths.append(str(folder / f"{name}-{suite}.png"))
            _plot([row for row in rows if row["suite"] == suite], report["disk_gb_per_s"].get(suite), paths[-1])
    else:
        paths.append(str(folder / f"{name}.png"))
        plots = {"pipelines": _plot_pipelines, "coexecution": _plot_joins}
        plots.get(report["experiment"], _plot_sizes)(report, paths[-1])
    return paths


def _figure(width: float, height: float) -> Any:
    # The object interface needs no display and leaves no global state.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _plot(rows: list[Row], disk: float | None, path: str) -> None:
    """Effective bandwidth and pruned zones by query and mode, a line of panels per layout (the paper's figure 9)."""
    layouts = list(dict.fromkeys(row["layout"] for row in rows))
    names = list(dict.fromkeys(row["query"] for row in rows))
    modes = modes_of(rows)
    figure = _figure(13, 3.4 * len(layouts))
    panels = figure.subplots(len(layouts), 2, squeeze=False)
    width = 0.84 / len(modes)
    for line, layout in zip(panels, layouts, strict=True):
        for axes, value, label in (
            (line[0], "effective_gb_per_s", "effective GB/s"),
            (line[1], "pruned", "part of zones pruned"),
        ):
            for at, mode in enumerate(modes):
                chosen = {r["query"]: r[value] for r in rows if r["layout"] == layout and r["mode"] == mode}
                places = [i + (at - (len(modes) - 1) / 2) * width for i in range(len(names))]
                axes.bar(places, [chosen[name] for name in names], width * 0.95, label=mode, color=COLORS[mode])
            axes.set_xticks(range(len(names)), names, fontsize=8)
            axes.set(title=layout, ylabel=label)
            axes.grid(axis="y", alpha=0.3)
            if value == "pruned":
                axes.set_ylim(0, 1)
            elif disk:
                axes.axhline(disk, color="tab:red", linestyle="--", linewidth=1, label="the disk")
        line[0].legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _plot_sizes(report: dict[str, Any], path: str) -> None:
    """Effective bandwidth and pruned zones by size of a zone or chunk (figures 13 and 14)."""
    rows = report["results"]
    groups = list(dict.fromkeys((row["suite"], row["layout"]) for row in rows))
    sizes = list(dict.fromkeys(row["value"] for row in rows))
    figure = _figure(11, 3.4 * len(groups))
    panels = figure.subplots(len(groups), 2, squeeze=False)
    for line, (suite, layout) in zip(panels, groups, strict=True):
        here = [row for row in rows if (row["suite"], row["layout"]) == (suite, layout)]
        for axes, value, label in (
            (line[0], "effective_gb_per_s", "effective GB/s, geometric mean"),
            (line[1], "pruned", "part of zones pruned, mean"),
        ):
            mean = statistics.mean if value == "pruned" else statistics.geometric_mean
            for mode in modes_of(here):
                points = [[r[value] for r in here if r["mode"] == mode and r["value"] == size_] for size_ in sizes]
                axes.plot(sizes, [mean(point) for point in points], marker=".", label=mode, color=COLORS[mode])
            axes.set_xscale("log", base=2)
            axes.set(title=f"{suite} {layout}", ylabel=label, xlabel=report["label"])
            axes.grid(alpha=0.3)
            axes.set_ylim(bottom=0)
        disk = report["disk_gb_per_s"].get(suite)
        if disk:
            line[0].axhline(disk, color="tab:red", linestyle="--", linewidth=1, label="the disk")
        line[0].legend(fontsize=8)
    figure.savefig(path, dpi=130)


def _plot_pipelines(report: dict[str, Any], path: str) -> None:
    """Effective bandwidth by bytes of a batch, a line per number of pipelines (figures 11 and 12)."""
    rows = report["results"]
    queries = list(dict.fromkeys(row["query"] for row in rows))
    counts = list(dict.fromkeys(row["pipelines"] for row in rows))
    figure = _figure(5.6 * len(queries), 4)
    panels = figure.subplots(1, len(queries), squeeze=False)[0]
    for axes, query in zip(panels, queries, strict=True):
        for at, count in enumerate(counts):
            for overlap, style in (("on", "-"), ("off", ":")):
                here = [
                    row for row in rows if (row["query"], row["pipelines"], row["overlap"]) == (query, count, overlap)
                ]
                axes.plot(
                    [row["batch_bytes"] / 2**20 for row in here],
                    [row["effective_gb_per_s"] for row in here],
                    style,
                    marker=".",
                    color=f"C{at}",
                    label=f"{count} pipeline{'s' if count > 1 else ''}" + (", no overlap" if overlap == "off" else ""),
                )
        disk = report["disk_gb_per_s"].get("ssb")
        if disk:
            axes.axhline(disk, color="tab:red", linestyle="--", linewidth=1, label="the disk")
            bound = disk * report["stores"][0]["ratio"]
            axes.axhline(bound, color="tab:green", linestyle=":", linewidth=1, label="the disk, by the ratio")
        axes.set_xscale("log", base=2)
        axes.set(title=query, xlabel="MiB of a batch", ylabel="effective GB/s")
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    panels[0].legend(fontsize=7)
    figure.savefig(path, dpi=130)


def _plot_joins(report: dict[str, Any], path: str) -> None:
    """Times by the factor of customers, a panel per query, a line per strategy (figure 15)."""
    rows = [row for row in report["results"] if row["seconds"] is not None]
    queries = list(dict.fromkeys(row["query"] for row in report["results"]))
    figure = _figure(3.6 * len(queries), 3.6)
    panels = figure.subplots(1, len(queries), squeeze=False)[0]
    for axes, query in zip(panels, queries, strict=True):
        for strategy in dict.fromkeys(row["strategy"] for row in rows):
            here = [row for row in rows if (row["query"], row["strategy"]) == (query, strategy)]
            factors, times = [row["factor"] for row in here], [row["seconds"] * 1000 for row in here]
            axes.plot(factors, times, marker=".", label=strategy)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(title=f"Q{query}", xlabel="factor of customers")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("ms")
    if rows:
        panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=130)
