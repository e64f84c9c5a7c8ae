"""``warpmill bench compaction``."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from warpmill import _warpmill

EXAMPLES = "Example: warpmill bench compaction --rows 5000000 --out plots/"


def compaction(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where plots and JSON go.")] = "data/compaction",
    rows: Annotated[
        int, typer.Option("--rows", min=10_000, help="Rows of the probe side; the paper has 20 million.")
    ] = (1_000_000),
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="Timed runs of each point, of which the median counts.")
    ] = 3,
    experiments: Annotated[
        str | None, typer.Option("--experiments", metavar="NAME,...", help="Only these (default: all).")
    ] = None,
) -> None:
    """The chunk compaction micro-benchmark: six strategies over joins, tuple lengths and filters, on one thread."""
    from warpmill_bench import compaction as micro

    known = _warpmill.compaction_experiments()
    chosen = [name.strip() for name in experiments.split(",")] if experiments else known
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"unknown experiment {name!r}: there are {', '.join(known)}")
    measured: list[micro.Row] = []
    with Console(stderr=True).status("") as status:
        for name in chosen:
            status.update(name)
            measured += json.loads(_warpmill.compaction(name, rows, runs))
    Console(width=None if sys.stdout.isatty() else 160).print(micro.table(measured))
    for path in micro.save(measured, out):
        typer.echo(path)
