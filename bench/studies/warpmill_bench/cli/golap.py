"""``warpmill bench golap``: the experiments of GOLAP."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from warpmill import _warpmill
from warpmill.cli.bench import DataDir, DataLocation, Device, DeviceName, GpuMemoryLimit, Queries, Runs, Settings, Sf
from warpmill.cli.bench import Threads as ThreadCount
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars
from warpmill.connection import _bytes

if TYPE_CHECKING:
    from rich.table import Table

    from warpmill_bench.golap import Facts, Row

EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench golap --sf 10 --suites ssb --queries 1.1,1.2,1.3 --layouts clustered --device gpu\n\n"
    "warpmill bench golap --sweep chunks --values 65536,1048576 --layouts clustered\n\n"
    "warpmill bench golap --sf 10 --sweep pipelines --pipelines 1,4,16 --values 1MiB,16MiB,64MiB --device gpu\n\n"
    "warpmill bench golap --sweep coexecution --values 1,10,100 --device gpu"
)


class Sweep(StrEnum):
    """The parameter that is varied, instead of comparing modes."""

    zones = "zones"
    chunks = "chunks"
    pipelines = "pipelines"
    coexecution = "coexecution"


#: Values of sweeps that are not sizes of zones or chunks, by default.
BATCHES, FACTORS = "1MiB,4MiB,16MiB,64MiB", "1,10,100"


@dataclass
class Found:
    """The outcome of an experiment."""

    rows: list[Row]
    tables: list[Table]
    stores: list[Row]
    disk: dict[str, float | None]
    #: More that the report tells.
    more: dict[str, Any]
    #: The text below the tables.
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """The command line."""

    sf: float
    suites: list[str]
    queries: str | None
    layouts: list[str]
    codec: str
    runs: int
    sweep: Sweep | None
    values: str | None
    pipelines: str
    base: Path
    #: The settings of sessions that run queries.
    settings: dict[str, str]
    #: The settings from the command line: sessions that write tables have them, too.
    given: dict[str, str]
    gpu_memory_limit: str | None

    def title(self, what: str) -> str:
        """The title of a table."""
        where = f"on {self.settings['device']}"
        where += f", data: {self.settings['device_data']}" if "device_data" in self.settings else ""
        return f"{what} at scale factor {self.sf:g}, {where}, median of {self.runs} runs"

    def texts(self, facts: Facts, default: tuple[str, ...] | None = None) -> dict[str, str]:
        """The chosen queries of a suite."""
        if self.queries is None:
            return {name: sql for name, sql in facts.queries.items() if default is None or name in default}
        wanted = [name.strip().lower().lstrip("q") for name in self.queries.split(",")]
        for name in wanted:
            if name not in facts.queries:
                raise typer.BadParameter(f"{facts.suite} has no query {name!r} here: it has {', '.join(facts.queries)}")
        return {name: facts.queries[name] for name in wanted}

    def numbers(self, option: str, text: str) -> list[int]:
        """Sizes or counts, as many as there are."""
        try:
            found = [_bytes(part.strip()) or 0 for part in text.split(",")]
        except ValueError as error:
            raise typer.BadParameter(f"{option}: {error}") from None
        if any(number < 1 for number in found):
            raise typer.BadParameter(f"{option}: all are 1 or more")
        return found


def golap(
    sf: Sf = 1.0,
    suites: Annotated[
        str | None,
        typer.Option("--suites", metavar="NAME,...", help="Of ssb, tpch, taxi (default: all; sweeps: ssb)."),
    ] = None,
    queries: Queries = None,
    layouts: Annotated[
        str | None,
        typer.Option(
            "--layouts",
            metavar="NAME,...",
            help="Of unclustered, clustered (by all attributes of dimensions), filtered (by those filtered on). "
            "Default: the first two; --sweep chunks: clustered.",
        ),
    ] = None,
    codec: Annotated[
        str, typer.Option("--codec", metavar="CODEC", help="What facts are compressed with: auto, lz4, zstd, ...")
    ] = "auto",
    runs: Runs = 3,
    threads: ThreadCount = None,
    sweep: Annotated[
        Sweep | None,
        typer.Option("--sweep", help="Vary this instead of comparing modes."),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(
            "--values",
            metavar="N,...",
            help="Of --sweep: rows of zones or chunks, bytes of batches (pipelines), factors of customers.",
        ),
    ] = None,
    pipelines: Annotated[
        str, typer.Option("--pipelines", metavar="N,...", help="Of --sweep pipelines: numbers of data pipelines.")
    ] = "1,2,4,8,16",
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where plots and JSON go.")] = "data/golap",
    data: DataDir = None,
    set_: Settings = None,
    device: Device = None,
    data_location: Annotated[
        DataLocation, typer.Option("--data-location", help="Where a device's data is when a query starts.")
    ] = DataLocation.disk,
    gpu_memory_limit: GpuMemoryLimit = None,
) -> None:
    """GOLAP's experiments: compression and pruning, alone and together; sizes, pipelines, co-execution."""
    from warpmill.bench import engines, report
    from warpmill_bench import golap as suite
    from warpmill_bench import golap_report

    names = _of("--suites", suites, tuple(suite.SUITES), ("ssb",) if sweep else tuple(suite.SUITES))
    if sweep in (Sweep.pipelines, Sweep.coexecution) and names != ["ssb"]:
        raise typer.BadParameter(f"--sweep {sweep.value} is about ssb")
    if values and sweep is None:
        raise typer.BadParameter("--values needs --sweep")
    given = dict(pair(text, "--set") for text in set_ or [])
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    chosen = (device or DeviceName(given.get("device", json.loads(_warpmill.devices())["default"]))).value
    settings = {"threads": str(count), **given, "device": chosen}
    if chosen != "cpu":
        settings["device_data"] = "cache" if data_location is DataLocation.gpu else data_location.value
        if gpu_memory_limit is not None:
            settings["gpu_memory_limit"] = gpu_memory_limit
    elif sweep in (Sweep.pipelines, Sweep.coexecution):
        raise typer.BadParameter(f"--sweep {sweep.value} needs a device: --device gpu or sim")
    asked = Asked(
        sf,
        names,
        queries,
        _of("--layouts", layouts, suite.LAYOUTS, ("clustered",) if sweep is Sweep.chunks else suite.LAYOUTS[:2]),
        codec,
        runs,
        sweep,
        values,
        pipelines,
        Path(data) if data else Path("data") / f"golap-sf{sf:g}",
        settings,
        given,
        gpu_memory_limit,
    )
    fixed = [name for name in names if suite.SUITES[name].cluster != ("auto",)]
    if "filtered" in asked.layouts and fixed:
        raise typer.BadParameter(
            f"--layouts filtered: facts of {', '.join(fixed)} are clustered by what queries filter on already "
            "(--suites ssb)"
        )
    experiment = {None: _modes, Sweep.pipelines: _pipelines, Sweep.coexecution: _coexecution}.get(sweep, _sizes)
    found = experiment(asked)
    console = Console(width=None if sys.stdout.isatty() else 200)
    for table in found.tables:
        console.print(table)
    for line in found.lines:
        typer.echo(line)
    whole = {
        "suite": "golap",
        "experiment": sweep.value if sweep else "modes",
        "sf": sf,
        "threads": count,
        "runs": runs,
        "codec": codec,
        "settings": settings,
        "machine": report.machine(),
        "disk_gb_per_s": found.disk,
        "stores": found.stores,
        **found.more,
        "results": found.rows,
    }
    for written in golap_report.save(whole, out, f"golap-{sweep.value}" if sweep else "golap"):
        typer.echo(written)
    if not all(row["same_answer"] or row.get("stopped") for row in found.rows):
        raise typer.Exit(1)


def _of(option: str, text: str | None, known: tuple[str, ...], default: tuple[str, ...]) -> list[str]:
    chosen = [name.strip() for name in text.split(",")] if text else list(default)
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"{option}: there is no {name!r}, there are {', '.join(known)}")
    return chosen


def _modes(asked: Asked) -> Found:
    """No compression and no pruning, one of them, both (figure 9)."""
    from warpmill_bench import golap as suite
    from warpmill_bench import golap_report
    from warpmill_bench.disk import Disk

    rows: list[Row] = []
    stores: list[Row] = []
    disks: dict[str, float | None] = {}
    for name in asked.suites:
        facts = suite.SUITES[name]
        queries = asked.texts(facts)
        disk = Disk()
        measured: list[Row] = []
        for layout in asked.layouts:
            with bars() as bar:
                place = suite.Place(asked.base, asked.sf, asked.given, bar)
                own = facts.of(layout, queries.values())
                databases = suite.prepare_forms(own, suite.Shape(layout), asked.codec, suite.MODES, place)
            stores += [suite.stored(facts, layout, form, folder) for form, folder in databases.items()]
            disk.database = databases["light"]
            with Console(stderr=True).status("") as status:
                found = suite.measure(
                    facts, queries, databases, suite.MODES, asked.runs, asked.settings, status.update, disk
                )
            measured += [{**row, "layout": layout} for row in found]
        disks[name] = disk.gb_per_s
        rows += suite.against_disk(measured, disks[name])
    rates = ", ".join(f"{name} {rate or 'not known'}" for name, rate in disks.items())
    title = asked.title(f"disk, GB/s: {rates}; GOLAP's modes")
    tables = [golap_report.store_table(stores), golap_report.table(title, rows)]
    means = golap_report.summary(rows)
    return Found(rows, tables, stores, disks, {"summary": means}, golap_report.summary_lines(means))


def _sizes(asked: Asked) -> Found:
    """Zones or chunks of several sizes (figures 13 and 14)."""
    from warpmill_bench import golap as suite
    from warpmill_bench import golap_report, golap_sweeps
    from warpmill_bench.disk import Disk

    kind = (asked.sweep or Sweep.zones).value
    label, _, default = golap_sweeps.SIZES[kind]
    values = asked.numbers("--values", asked.values) if asked.values else list(default)
    rows: list[Row] = []
    disks: dict[str, float | None] = {}
    for name in asked.suites:
        facts = suite.SUITES[name]
        # The paper's queries; all of them take long with many sizes.
        queries = asked.texts(facts, ("1.1", "1.2", "1.3") if name == "ssb" and kind == "chunks" else None)
        disk = Disk()
        for layout in asked.layouts:
            with bars() as bar:
                place = suite.Place(asked.base, asked.sf, asked.given, bar)
                own = facts.of(layout, queries.values())
                databases = golap_sweeps.prepare_sizes(kind, own, layout, values, asked.codec, place)
            with Console(stderr=True).status("") as status:
                rows += golap_sweeps.sizes(
                    facts, queries, layout, databases, asked.runs, asked.settings, disk, status.update
                )
        disks[name] = disk.gb_per_s
    table = golap_report.sweep_table(asked.title(f"GOLAP with several {kind}"), label, rows)
    return Found(rows, [table], [], disks, {"label": label})


def _pipelines(asked: Asked) -> Found:
    """Concurrent reads and decompression, with and without overlap (figures 11 and 12)."""
    from warpmill_bench import golap as suite
    from warpmill_bench import golap_sweeps
    from warpmill_bench.disk import disk_gb_per_s

    counts = asked.numbers("--pipelines", asked.pipelines)
    batches = asked.numbers("--values", asked.values or BATCHES)
    queries = _of("--queries", asked.queries, tuple(golap_sweeps.SCANS), tuple(golap_sweeps.SCANS))
    with bars() as bar:
        database = golap_sweeps.commitdate(asked.codec, suite.Place(asked.base, asked.sf, asked.given, bar))
    store = suite.stored(golap_sweeps.FACTS, "unclustered", "codec", database)
    disk = disk_gb_per_s(database)
    with Console(stderr=True).status("") as status:
        measured = golap_sweeps.pipelines(database, counts, batches, queries, asked.runs, asked.settings, status.update)
    rows = suite.against_disk(measured, disk)
    title = asked.title(f"disk, GB/s: {disk or 'not known'}; scans of {golap_sweeps.COLUMN}")
    table = golap_sweeps.pipelines_table(title, rows, store["ratio"])
    return Found(rows, [table], [store], {"ssb": disk}, {})


def _coexecution(asked: Asked) -> Found:
    """SSB's flight 3 with more customers than fit (figure 15)."""
    from warpmill_bench import golap as suite
    from warpmill_bench import golap_joins

    factors = asked.numbers("--values", asked.values or FACTORS)
    queries = _of("--queries", asked.queries, golap_joins.QUERIES, golap_joins.QUERIES[:3])
    settings = {name: value for name, value in asked.settings.items() if name != "gpu_memory_limit"}
    with bars() as bar:
        place = suite.Place(asked.base, asked.sf, asked.given, bar)
        databases = {factor: golap_joins.prepare(factor, place) for factor in factors}
    with Console(stderr=True).status("") as status:
        rows, missing = golap_joins.measure(
            databases, queries, asked.gpu_memory_limit, asked.runs, settings, status.update
        )
    table = golap_joins.table(asked.title("SSB's flight 3 with more customers"), rows)
    if missing:
        typer.echo(f"this build has no device_join {', '.join(missing)}", err=True)
    return Found(rows, [table], [], {}, {"not_in_this_build": missing})
