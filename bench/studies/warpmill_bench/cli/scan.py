"""``warpmill bench scan``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from warpmill.cli.bench import Runs, Settings, Threads
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars

EXAMPLES = "Example: warpmill bench scan --sf 0.2 --suites ssb,taxi --out plots/"


def scan(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the plot and JSON go.")] = "data/scan",
    sf: Annotated[float, typer.Option("--sf", help="Scale factor of every suite.")] = 0.2,
    suites: Annotated[
        str, typer.Option("--suites", metavar="NAME,...", help="Of ssb, tpch, taxi (default: all).")
    ] = "ssb,tpch,taxi",
    runs: Runs = 5,
    threads: Threads = None,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Where tables are kept.")] = "data/scan",
    again: Annotated[bool, typer.Option("--again", help="Write tables that are there already anew.")] = False,
    sampling: Annotated[
        bool,
        typer.Option("--sampling", help="Compare the choices from samples of 1, 5 and 10% with that from all bytes."),
    ] = False,
    set_: Settings = None,
) -> None:
    """Every codec on every column of SSB, TPC-H and taxi trips: ratio, and bandwidth relative to plain memory."""
    from pathlib import Path

    from warpmill.bench import engines
    from warpmill_bench import scan as codecs

    chosen = [name.strip() for name in suites.split(",")]
    for name in chosen:
        if name not in codecs.TABLES:
            raise typer.BadParameter(f"unknown suite {name!r}: there are {', '.join(codecs.TABLES)}")
    settings = dict(pair(text, "--set") for text in set_ or [])
    with bars() as bar:
        imports = codecs.prepare(chosen, sf, Path(data), settings, bar, again)
        sampled = codecs.sampling(chosen, sf, Path(data), settings, bar) if sampling else []
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    bandwidth = codecs.storage_bandwidth(settings)
    with Console(stderr=True).status("") as status:
        rows = codecs.measure(chosen, sf, Path(data), bandwidth, count, runs, status.update)
    title = f"codecs at scale factor {sf:g}, {count} threads, median of {runs} runs, speed / that of plain memory"
    Console(width=None if sys.stdout.isatty() else 200).print(codecs.table(title, rows))
    if sampled:
        Console().print(codecs.sampling_table(sampled))
    asked = {"sf": sf, "threads": count, "runs": runs, "storage_bandwidth": bandwidth}
    for path in codecs.save(codecs.as_json(asked, rows, imports, sampled), out):
        typer.echo(path)
