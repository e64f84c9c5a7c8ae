"""``warpmill bench mordred``: the experiments of Mordred."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import warpmill
from warpmill import _warpmill
from warpmill.cli.bench import DataDir, Device, DeviceName, GpuMemoryLimit, JsonFile, Queries, Runs, Settings, Sf
from warpmill.cli.bench import Threads as ThreadCount
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from warpmill_bench.mordred import Row, Study

HELP = (
    "Mordred's experiments: the CPU and a device on the same queries, and what the device has copies of.\n\n"
    "SSB, with facts sorted by date. All data is in page-locked memory of the host; the device's has copies of some "
    "row segments, which a policy chooses, and chooses anew after so many queries. Compared are the CPU alone, the "
    "device alone (what has no copy travels), operators on either site, and row segments that both claim from one "
    "queue: these against the better site, and against the sum of both sites' rates.\n\n"
    "Every answer is compared with the CPU's (exit code 1: one differs, or a query did not run). Times are of repeated "
    "statements, whose plans and kernels are there; first times, of new statements, are beside them."
)

EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench mordred --sf 100 --device gpu --what baselines\n\n"
    "warpmill bench mordred --sf 100 --device gpu --what sizes --points 10,20,40 --policies lfu_segment,semantic\n\n"
    "warpmill bench mordred --sf 20 --device gpu --what skew,phases --at 10,20 --skew 0,1,2 --rounds 10\n\n"
    "warpmill bench mordred --sf 0.01 --device sim --queries 1.1,4.1 --points 0,50 --runs 1   (times mean nothing)"
)


class What(StrEnum):
    """The experiments."""

    baselines = "baselines"
    sizes = "sizes"
    skew = "skew"
    phases = "phases"
    optimizations = "optimizations"
    starts = "starts"


#: The experiments that run by default: processes that start are measured by `warpmill bench start`, too.
USUAL = [what for what in What if what is not What.starts]


@dataclass(frozen=True)
class Asked:
    """The command line, as far as experiments differ by it."""

    study: Study
    sf: float
    points: list[float]
    at: list[float]
    placements: list[str]
    policies: list[str]
    thetas: list[float]
    #: Batches, the queries of each, and a seed.
    shape: tuple[int, int, int]
    #: Bytes of all columns; 0: not known, because no experiment needs them.
    all_bytes: int
    title: str


def mordred(
    sf: Sf = 1.0,
    what: Annotated[
        str | None,
        typer.Option(
            "--what",
            metavar="NAME,...",
            help="Experiments. baselines: placements by size of the cache. sizes: policies by size of the cache, with "
            "traffic and what is cached. skew, phases: policies, with queries that ask for some dates more often, or "
            "for other dates after a while. optimizations: without each, and with each alone. starts: new processes. "
            "Default: all but starts.",
        ),
    ] = None,
    points: Annotated[
        str,
        typer.Option("--points", metavar="PERCENT,...", help="Sizes of the cache in percent of the columns' bytes."),
    ] = "0,25,50,75,100",
    at: Annotated[
        str,
        typer.Option("--at", metavar="PERCENT,...", help="The same for skew, phases and optimizations."),
    ] = "20",
    placements: Annotated[
        str | None,
        typer.Option(
            "--placements",
            metavar="NAME,...",
            help="Of cpu, gpu_streaming (all data travels), gpu (what has no copy travels), operator_by_data, "
            "operator_by_cost, segment_ungrouped, segment (default: all).",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="NAME,...",
            help="Of lru_column, lfu_column, lru2_column, lru_segment, lfu_segment, lru2_segment, semantic "
            "(default: all).",
        ),
    ] = None,
    skew: Annotated[
        str,
        typer.Option("--skew", metavar="X,...", help="Of --what skew: exponents of Zipf's distribution over months."),
    ] = "0,0.5,1,1.5,2",
    queries: Queries = None,
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=1, help="Of skew and phases: batches of queries, copies replaced after each."),
    ] = 10,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Queries of a batch.")] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Of the queries that are drawn.")] = 1,
    runs: Runs = 5,
    threads: ThreadCount = None,
    segment_rows: Annotated[
        int | None,
        typer.Option(
            "--segment-rows",
            metavar="N",
            help="Rows of a segment of the facts (default: 1048576, fewer where that makes less than 64 segments).",
        ),
    ] = None,
    json_file: JsonFile = None,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where plots and JSON go.")] = "data/mordred",
    data: DataDir = None,
    set_: Settings = None,
    device: Device = None,
    gpu_memory_limit: GpuMemoryLimit = None,
) -> None:
    """Mordred's experiments."""
    from warpmill.bench import engines, report
    from warpmill_bench import mordred as suite
    from warpmill_bench import mordred_report
    from warpmill_bench.golap import Place

    wanted = [What(name) for name in _of("--what", what, tuple(What), tuple(USUAL))]
    given = dict(pair(text, "--set") for text in set_ or [])
    chosen = device.value if device else given.get("device", json.loads(_warpmill.devices())["default"])
    if chosen not in (DeviceName.gpu, DeviceName.sim):
        raise typer.BadParameter(f"--device: this is about one device beside the CPU, gpu or sim, not {chosen}")
    sizes, shares = _numbers("--points", points, 100), _numbers("--at", at, 100)
    thetas = _numbers("--skew", skew)
    places = _of("--placements", placements, tuple(suite.PLACEMENTS), tuple(suite.PLACEMENTS))
    chooses = _of("--policies", policies, suite.POLICIES, suite.POLICIES)
    if segment_rows is not None and (segment_rows % 1024 or not 1024 <= segment_rows <= 1 << 20):
        raise typer.BadParameter("--segment-rows: a multiple of 1024 up to 1048576")
    texts = dict(_warpmill.queries("ssb"))
    names = _of("--queries", queries.lower().replace("q", "") if queries else None, tuple(texts), tuple(texts))
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    base = Path(data) if data else Path("data") / f"mordred-sf{sf:g}"
    with bars() as bar:
        database = suite.prepare(Place(base, sf, given, bar), segment_rows or suite.segment_rows(sf))
    facts = suite.facts(database)
    settings = {"threads": str(count), **given, "device": chosen}
    if gpu_memory_limit is not None:
        settings["gpu_memory_limit"] = gpu_memory_limit
    console = Console(width=None if sys.stdout.isatty() else 250)
    whole: Row = {"suite": "mordred", "sf": sf, "threads": count, "runs": runs, "device": chosen, "settings": settings}
    whole |= {"machine": report.machine(), "facts": facts, "queries": names, "experiments": {}}
    types = facts.pop("types")
    all_bytes, fits = 0, None
    with Console(stderr=True).status("") as status:
        told = _counted(status.update)
        study = suite.Study(database, types, settings, {name: texts[name] for name in names}, runs, told)
        if any(one is not What.starts for one in wanted):
            try:
                all_bytes, fits = suite.column_bytes(study)
            except warpmill.Error:
                wanted = [one for one in wanted if one is What.starts]
        title = f"SSB at scale factor {sf:g}, {facts['segments']} row segments, on {chosen}, median of {runs}"
        shape = (rounds, batch, seed)
        whole |= {"column_bytes": all_bytes, "column_bytes_fit": fits, "wrong": study.wrong, "errors": study.errors}
        asked = Asked(study, sf, sizes, shares, places, chooses, thetas, shape, all_bytes, title)
        for one in wanted:
            whole["experiments"][one.value], tables = EXPERIMENTS[one](asked)
            for table in tables:
                console.print(table)
            # Saves the report after each experiment: a run that is cut off keeps it.
            mordred_report.save(whole, out)
    if fits is False:
        typer.echo("the device has no room for copies of all columns: percents are of the room that it has", err=True)
    for written in mordred_report.save(whole, out):
        typer.echo(written)
    if json_file:
        report.save(whole, json_file)
    for row in study.wrong:
        typer.echo(f"another answer than the CPU's: {row['statement']}\n  {_short(row)}", err=True)
    for row in study.errors:
        typer.echo(f"did not run: {row['statement']}\n  {row['error']}\n  {_short(row)}", err=True)
    if study.wrong or study.errors:
        raise typer.Exit(1)


def _short(row: Row) -> str:
    """The settings of a failed run, as short text."""
    more = f"; {row['rows']} rows for {row['expected_rows']}, {row['first_difference']}" if "rows" in row else ""
    return " ".join(f"{name}={value}" for name, value in row["settings"].items()) + more


def _counted(update: Callable[[str], None]) -> Callable[[str], None]:
    """Says how many steps there have been."""
    steps = 0

    def told(text: str) -> None:
        nonlocal steps
        steps += 1
        update(f"{steps}: {text}")

    return told


def _of(option: str, text: str | None, known: tuple[str, ...], default: tuple[str, ...]) -> list[str]:
    chosen = [name.strip() for name in text.split(",")] if text else list(default)
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"{option}: there is no {name!r}, there are {', '.join(known)}")
    return list(dict.fromkeys(chosen))


def _numbers(option: str, text: str, most: float | None = None) -> list[float]:
    try:
        found = [float(part.strip().removesuffix("%")) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option}: {text!r} are no numbers") from None
    if not all(0 <= number <= (most or 10) for number in found):
        raise typer.BadParameter(f"{option}: all are from 0 to {most or 10:g}")
    return list(dict.fromkeys(found))


def _baselines(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred as suite
    from warpmill_bench import mordred_report as shown

    rows = suite.baselines(asked.study, asked.points, asked.placements, asked.all_bytes)
    verdicts = suite.verdicts(rows)
    tables = [shown.baselines_table(asked.title, rows)]
    tables += [shown.verdicts_table(asked.title, verdicts)] if verdicts else []
    return {"kind": "repeated", "first": "new statement", "results": rows, "verdicts": verdicts}, tables


def _sizes(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred as suite
    from warpmill_bench import mordred_report as shown
    from warpmill_bench import mordred_workloads as workloads

    rows = suite.sizes(asked.study, asked.points, asked.policies, asked.all_bytes)
    gains = workloads.gains(rows, "percent")
    tables = [shown.sizes_table(asked.title, rows)]
    tables += [shown.gains_table(asked.title, gains, "percent")] if gains else []
    return {"kind": "repeated", "first": "new statement", "results": rows, "gains": gains}, tables


def _skew(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred_workloads as workloads

    sizes = (asked.at, asked.all_bytes)
    rows, alone = workloads.skew(asked.study, asked.thetas, sizes, asked.policies, asked.shape)
    return _workload(asked, "skew of what is asked for", rows, alone)


def _phases(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred_workloads as workloads

    rows, alone = workloads.changing(asked.study, (asked.at, asked.all_bytes), asked.policies, asked.shape)
    found, tables = _workload(asked, "a workload that changes", rows, alone)
    return {**found, "phase_batches": workloads.phase_batches(asked.shape[0])}, tables


def _workload(asked: Asked, what: str, rows: list[Row], alone: list[Row]) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred_report as shown
    from warpmill_bench import mordred_workloads as workloads

    batches, batch, seed = asked.shape
    gains = workloads.gains(rows)
    tables = [shown.workload_table(f"{what}; {asked.title}", rows, alone)]
    tables += [shown.gains_table(asked.title, gains)] if gains else []
    common: dict[str, Any] = {"batches": batches, "batch": batch, "seed": seed, "cpu": alone, "gains": gains}
    return {"kind": "repeated", "first": "new and repeated statements", **common, "results": rows}, tables


def _optimizations(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill_bench import mordred as suite
    from warpmill_bench import mordred_report as shown

    rows = suite.optimizations(asked.study, asked.at, asked.all_bytes)
    settings = {name: {"without": less, "alone": only} for name, (less, only) in suite.OPTIMIZATIONS.items()}
    table = shown.optimizations_table(asked.title, rows)
    found = {"all": suite.ALL, "none": suite.NONE, "settings": settings, "results": rows}
    return {"kind": "repeated", "first": "new statement", **found}, [table]


def _starts(asked: Asked) -> tuple[Row, list[Table]]:
    from warpmill.bench import start
    from warpmill.bench.data import Data
    from warpmill_bench import mordred as suite
    from warpmill_bench import mordred_report as shown

    study, rows = asked.study, []
    data = Data("ssb", asked.sf, study.database, {})
    for name in asked.placements:
        study.told(f"new processes, {name}")
        settings: dict[str, Any] = {**study.settings, **suite.PLACEMENTS[name]}
        settings["threads"] = int(settings["threads"])
        starts = start.measure(data, settings, list(study.queries), study.runs, study.told)
        rows.append({"placement": name, "starts": starts})
    return {"kind": "new process", "results": rows}, [shown.starts_table(asked.title, rows)]


EXPERIMENTS: dict[What, Callable[[Asked], tuple[Row, list[Table]]]] = {
    What.baselines: _baselines,
    What.sizes: _sizes,
    What.skew: _skew,
    What.phases: _phases,
    What.optimizations: _optimizations,
    What.starts: _starts,
}
