"""Benchmarks of the device's kernels alone: decoding, joins, groups, sorts, substring search."""

from __future__ import annotations

import json
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from warpmill import _warpmill

#: Factors of row counts that the simulated device runs in seconds.
SIMULATED = {"decode": 4e-5, "join": 2e-5, "groupby": 3e-5, "sort": 3e-5, "like": 1e-4}


def measure(suite: str, simulated: bool, scale: float | None, runs: int, tune: bool) -> dict[str, Any]:
    """The report of docs/bench.md: `device`, `floor_bytes_per_s`, `measurements`, and how they were asked for."""
    factor = scale if scale is not None else SIMULATED[suite] if simulated else 1.0
    found: dict[str, Any] = json.loads(_warpmill.device_bench(suite, simulated, factor, runs, tune))
    return {"suite": suite, "scale": factor, "runs": runs, **found}


def table(found: dict[str, Any]) -> Table:
    """One line per measurement."""
    title = f"{found['suite']} on {found['device']['name']}, scale {found['scale']:g}, median of {found['runs']} runs"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("what", no_wrap=True)
    for column in ("ms", "G/s", "GB/s", "of floor", "registers"):
        out.add_column(column, justify="right", no_wrap=True)
    out.add_column("target", no_wrap=True)
    out.add_column("answer", no_wrap=True)
    for row in found["measurements"]:
        met = {None: "", True: "green", False: "yellow"}[row["met"]]
        out.add_row(
            row["name"],
            f"{row['median_ms']:.3f}",
            f"{row['giga_items_per_s']:.1f}",
            f"{row['gb_per_s']:.0f}",
            f"{100 * row['floor_fraction']:.1f}%",
            f"{row['registers']}{' spills' if row['local'] else ''}",
            Text(row["target"] or "", style=met),
            Text("right", style="green") if row["verified"] else Text("wrong", style="red"),
        )
    return out
