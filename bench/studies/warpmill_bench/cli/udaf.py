"""``warpmill bench udaf``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

EXAMPLES = "Example: warpmill bench udaf --rows 1000000 --groups 1,1000,100000 --json udaf.json"


def udaf(
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of the table.")] = 10_000_000,
    groups: Annotated[str, typer.Option("--groups", metavar="N,...", help="Numbers of groups.")] = (
        "1,10,100,1000,10000,100000,1000000"
    ),
    distributions: Annotated[
        str,
        typer.Option("--distributions", metavar="NAME,...", help="uniform, or skewed: half of it in one group."),
    ] = "uniform,skewed",
    devices: Annotated[str, typer.Option("--device", metavar="NAME,...", help="cpu, gpu, sim.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of Warpmill and DuckDB.")] = 2,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Timed runs, of which the median counts.")] = 3,
    limit: Annotated[
        float, typer.Option("--limit", help="Seconds beyond which functions are not called group by group.")
    ] = 60.0,
    output: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write all times as JSON.")] = None,
) -> None:
    """Aggregate functions in Python (with and without loops) beside pandas and DuckDB's SQL; results are checked."""
    from warpmill_bench import udaf as study

    numbers = [int(number) for number in groups.split(",")]
    shapes = [name.strip() for name in distributions.split(",")]
    for name in shapes:
        if name not in ("uniform", "skewed"):
            raise typer.BadParameter(f"unknown distribution {name!r}: there are uniform and skewed")
    measured: list[study.Measured] = []
    with Console(stderr=True).status("") as status:
        for one in study.measure(rows, numbers, shapes, devices.split(","), threads, runs, limit):
            measured.append(one)
            status.update(f"{one.function}, {one.groups} groups, {one.distribution}: {one.engine}")
    shown = Table("function", "groups", "distribution", "engine", "ms")
    for one in measured:
        elsewhere = " (not on the device)" if one.reason else ""
        time = one.reason or "" if one.seconds is None else f"{one.seconds * 1000:.1f}{elsewhere}"
        shown.add_row(one.function, str(one.groups), one.distribution, one.engine, time)
    Console(width=None if sys.stdout.isatty() else 160).print(shown)
    if output:
        study.save(measured, output)
