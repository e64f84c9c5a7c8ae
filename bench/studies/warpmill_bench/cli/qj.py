"""``warpmill bench qj``."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from warpmill import _warpmill
from warpmill.cli.bench import DataLocation, Device, DeviceName, GpuMemoryLimit, Runs, Settings, Threads
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars

EXAMPLES = "Example: warpmill bench qj --sf 30 --device gpu --drives 1,4,12 --out plots/"


def qj(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where plot, JSON and findings go.")] = "data/qj",
    sf: Annotated[float, typer.Option("--sf", help="Scale factor of SSB.")] = 0.01,
    joins: Annotated[str, typer.Option("--joins", metavar="N,...", help="Numbers of joined dimensions.")] = "0,1,2,3,4",
    selectivities: Annotated[
        str, typer.Option("--selectivities", metavar="X,...", help="Parts of rows that the filter keeps, n x 0.02.")
    ] = "0.02,0.1,0.3,0.5,0.7,1",
    drives: Annotated[
        str | None,
        typer.Option(
            "--drives",
            metavar="N,...",
            help="Numbers of emulated drives, or unlimited (default: 1,2,4,8,12 for a device that reads from disk).",
        ),
    ] = None,
    drive: Annotated[str, typer.Option("--drive-bandwidth", metavar="SIZE", help="Bytes/s of a drive.")] = "180MB",
    runs: Runs = 5,
    threads: Threads = None,
    device: Device = None,
    data_location: Annotated[
        DataLocation, typer.Option("--data-location", help="Where data is when a query starts: disk, pinned or host.")
    ] = DataLocation.disk,
    gpu_memory_limit: GpuMemoryLimit = None,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Where tables are kept.")] = "data/qj",
    again: Annotated[bool, typer.Option("--again", help="Write tables that are there already anew.")] = False,
    heavy: Annotated[
        str, typer.Option("--heavy", metavar="CODEC", help="Codec of the second form of the table that auto reads.")
    ] = "auto",
    set_: Settings = None,
) -> None:
    """Q0J to Q4J: joins, selectivity, number of drives and codec against each other; answers compared."""
    from pathlib import Path

    from warpmill.bench import engines
    from warpmill_bench import qj as study
    from warpmill_bench.qj_findings import auto_text, findings

    if data_location is DataLocation.gpu:
        raise typer.BadParameter("--data-location takes disk, pinned or host here: data on the GPU is not moved")
    chosen = device or DeviceName(json.loads(_warpmill.devices())["default"])
    limited = chosen is not DeviceName.cpu and data_location is DataLocation.disk
    sweep = study.sweep(joins, selectivities, drives, drive, runs, limited)
    settings = dict(pair(text, "--set") for text in set_ or [])
    with bars() as bar:
        places = study.prepare(sf, Path(data), sweep, settings, bar, again, heavy)
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    settings |= {"device": chosen.value, "threads": str(count)}
    if gpu_memory_limit is not None:
        settings["gpu_memory_limit"] = gpu_memory_limit
    stores = study.connect(*places, sweep, data_location.value, settings)
    with Console(stderr=True).status("") as status:
        found = study.measure(stores, sweep, status.update)
    report = study.as_json(sf, data_location.value, settings, sweep, stores, found, findings(found.rows))
    stores.close()
    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in study.tables(report):
        console.print(table)
    for finding in report["findings"]:
        console.print(f"finding {finding['finding']}, {finding['verdict']}: {finding['claim']}\n  {finding['text']}")
    console.print(auto_text(found.points))
    for path in study.save(report, out):
        typer.echo(path)
    wrong = study.failures(found)
    for line in wrong:
        typer.echo(line, err=True)
    if wrong:
        raise typer.Exit(1)
