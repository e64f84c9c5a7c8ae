"""``warpmill bench lancelot``: what several devices keep, and copy from each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from warpmill import _warpmill
from warpmill.cli.bench import DataDir, Device, DeviceName, GpuMemoryLimit, JsonFile, Runs, Settings, Sf
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars
from warpmill.cli.units import size

HELP = (
    "Lancelot's policies: what several devices keep of the data of their parts, and copy from each other.\n\n"
    "SSB, with facts sorted by date, of which each device runs its range. Copies of dimensions are on one device, on "
    "all, or as weights say; queries ask for all months alike, or for recent ones more often. Bytes are those of a "
    "pass of all queries: from the host, from other devices (in all, and by source and destination), and found on the "
    "device itself.\n\n"
    "Every answer is compared with the CPU's, and what was copied with what was planned (exit code 1: one differs)."
)

EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench lancelot --sf 0.01 --device sim --devices 2,4 --count 6 --runs 1   (times mean nothing)\n\n"
    "warpmill bench lancelot --sf 100 --device gpu --devices 2 --percents 10,40"
)


def _numbers(option: str, text: str, least: float, most: float) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option}: {text!r} are no numbers") from None
    if not all(least <= number <= most for number in found):
        raise typer.BadParameter(f"{option}: all are from {least:g} to {most:g}")
    return list(dict.fromkeys(found))


def lancelot(
    sf: Sf = 1.0,
    devices: Annotated[
        str, typer.Option("--devices", metavar="N,...", help="How many devices, one number after the other.")
    ] = "2",
    percents: Annotated[
        str,
        typer.Option(
            "--percents", metavar="PERCENT,...", help="Copies on each device, in percent of all tables' bytes."
        ),
    ] = "10,50",
    policies: Annotated[
        str, typer.Option("--policies", metavar="NAME,...", help="Of auto, always, never.")
    ] = "auto,always,never",
    count: Annotated[int, typer.Option("--count", min=1, help="Queries of a workload.")] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Of the queries that are drawn.")] = 1,
    logical: Annotated[bool, typer.Option("--logical", help="Logical devices of the first GPU.")] = False,
    runs: Runs = 3,
    json_file: JsonFile = None,
    data: DataDir = None,
    set_: Settings = None,
    device: Device = None,
    gpu_memory_limit: GpuMemoryLimit = None,
) -> None:
    """Lancelot's policies."""
    from warpmill.bench import report
    from warpmill_bench import lancelot as suite
    from warpmill_bench import mordred
    from warpmill_bench.golap import Place

    given = dict(pair(text, "--set") for text in set_ or [])
    chosen = device.value if device else given.get("device", json.loads(_warpmill.devices())["default"])
    if chosen not in (DeviceName.gpu, DeviceName.sim):
        raise typer.BadParameter(f"--device: this is about several devices, gpu or sim, not {chosen}")
    counts = [int(number) for number in _numbers("--devices", devices, 2, 16)]
    shares = _numbers("--percents", percents, 0, 100)
    names = list(dict.fromkeys(policies.split(",")))
    for name in names:
        if name not in suite.POLICIES:
            raise typer.BadParameter(f"--policies: there is no {name!r}, there are {', '.join(suite.POLICIES)}")
    base = Path(data) if data else Path("data") / f"mordred-sf{sf:g}"
    with bars() as bar:
        database = mordred.prepare(Place(base, sf, given, bar), mordred.segment_rows(sf))
    facts = mordred.facts(database)
    settings = {"threads": str(cores()), **given, "device": chosen}
    if gpu_memory_limit is not None:
        settings["gpu_memory_limit"] = gpu_memory_limit
    with Console(stderr=True).status("") as status:
        study = mordred.Study(database, facts.pop("types"), settings, {}, runs, status.update)
        rows = suite.policies(study, counts, shares, names, (count, seed), logical)
    console = Console(width=None if sys.stdout.isatty() else 250)
    console.print(_table(f"SSB at scale factor {sf:g} on {chosen}, {count} queries", rows))
    whole: dict[str, Any] = {"suite": "lancelot", "sf": sf, "runs": runs, "device": chosen, "settings": settings}
    whole |= {"machine": report.machine(), "facts": facts, "count": count, "seed": seed, "results": rows}
    whole |= {"wrong": study.wrong, "errors": study.errors}
    if json_file:
        report.save(whole, json_file)
    for row in study.wrong + study.errors:
        typer.echo(f"another answer, or none: {row['statement']} ({row['settings']})", err=True)
    strays = [row for row in rows if row["error"] is None and not row["as_planned"]]
    for row in strays:
        typer.echo(
            f"not as planned: {row['traffic']} for {row['planned']} ({row['workload']}, {row['policy']})", err=True
        )
    if study.wrong or study.errors or strays:
        raise typer.Exit(1)


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    """A line for each workload, number of devices, size and policy."""
    table = Table(title=title)
    for name in (
        "workload",
        "devices",
        "copies on each",
        "policy",
        "ms",
        "from host",
        "from devices",
        "own",
        "in parts",
    ):
        table.add_column(name, justify="left" if name in ("workload", "policy") else "right")
    for row in rows:
        own = [row["workload"], str(row["devices"]), f"{row['percent']:g}%", row["policy"]]
        if row["error"] is not None:
            table.add_row(*own, "did not run")
            continue
        read = [size(row[name]) for name in ("host_bytes", "peer_bytes", "own_bytes")]
        table.add_row(*own, f"{row['ms']:.1f}", *read, f"{row['queries_in_parts']} of {row['queries']}")
    return table
