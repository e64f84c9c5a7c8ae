"""``warpmill bench``: measure against other engines, and check their answers."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from warpmill import _warpmill
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    help="Measure Warpmill against other engines in one run, and compare the answers.", no_args_is_help=True
)

EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench {suite} --sf 1 --against duckdb --verify\n\n"
    "warpmill bench {suite} --sf 10 --queries {queries} --runs 9 --against duckdb,datafusion,polars --json out.json"
)

Sf = Annotated[float, typer.Option("--sf", help="Scale factor.")]
Queries = Annotated[str | None, typer.Option("--queries", metavar="N,...", help="Only these queries (default: all).")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Timed runs of each query, after one that warms up.")]
Against = Annotated[
    str | None, typer.Option("--against", metavar="ENGINE,...", help="Peers: duckdb, datafusion, polars.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of every engine (default: all).")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of Warpmill. Repeatable.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Compare every result with DuckDB's.")]
JsonFile = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the report here as well.")]
DataDir = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="Where tables are kept (default: data/<suite>-sf<N>).")
]


class DeviceName(StrEnum):
    """Values of `warpmill.device`."""

    auto = "auto"
    cpu = "cpu"
    gpu = "gpu"
    sim = "sim"


class CopyPolicy(StrEnum):
    """The time when segments are copied to the device."""

    per_dataset = "per-dataset"
    per_query = "per-query"


class DataLocation(StrEnum):
    """The place where data is when a query starts."""

    gpu = "gpu"
    pinned = "pinned"
    host = "host"
    disk = "disk"


class ProfileLevel(StrEnum):
    """The amount of a profile that is written."""

    summary = "summary"
    transfers = "transfers"
    operators = "operators"


Device = Annotated[DeviceName | None, typer.Option("--device", help="Where Warpmill's programs run (default: auto).")]
GpuMemoryLimit = Annotated[
    str | None, typer.Option("--gpu-memory-limit", metavar="SIZE", help="Most GPU memory to use, such as 16GB.")
]
Copies = Annotated[
    CopyPolicy | None,
    typer.Option(
        "--copy-policy",
        help="Copy data to the device once (per-dataset, the default with data on the GPU), or, timed, for every run.",
    ),
]
Location = Annotated[
    DataLocation | None,
    typer.Option(
        "--data-location",
        help="Where data is when a query starts: GPU memory (default), pinned or pageable host memory, table files.",
    ),
]
ProfileFile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write profiles of runs with timed kernels. FILE.trace.json: for chrome://tracing.",
    ),
]
Level = Annotated[
    ProfileLevel,
    typer.Option("--profile-level", help="What a profile has: sums; transfers as well; kernels and operators as well."),
]


@dataclass(frozen=True)
class Plan:
    """The options of a benchmark of queries."""

    suite: str
    sf: float
    queries: str | None
    runs: int
    against: str | None
    threads: int | None
    verify: bool
    json_file: str | None
    directory: str | None
    settings: list[str] | None
    device: DeviceName | None
    gpu_memory_limit: str | None
    location: DataLocation | None
    copy_policy: CopyPolicy | None
    profile: str | None
    level: ProfileLevel

    def data(self) -> tuple[DataLocation, CopyPolicy]:
        """The place where data is, and when it is copied: one follows from the other where only one is said."""
        per_query = self.copy_policy is CopyPolicy.per_query
        location = self.location or (DataLocation.host if per_query else DataLocation.gpu)
        policy = CopyPolicy.per_dataset if location is DataLocation.gpu else CopyPolicy.per_query
        if self.copy_policy not in (None, policy):
            raise typer.BadParameter(
                f"--data-location {location.value} is --copy-policy {policy.value}: only data on the GPU stays there"
            )
        return location, policy

    def chosen_settings(self) -> dict[str, str]:
        """Settings of Warpmill's session."""
        chosen = dict(pair(text, "--set") for text in self.settings or [])
        location, _ = self.data()
        if location is not DataLocation.gpu:
            chosen["device_data"] = location.value
        if self.device is not None:
            chosen["device"] = self.device.value
        if self.gpu_memory_limit is not None:
            chosen["gpu_memory_limit"] = self.gpu_memory_limit
        return chosen


@app.command("tpch", epilog=EXAMPLES.format(suite="tpch", queries="1,6,18"))
def tpch(
    sf: Sf = 1.0,
    queries: Queries = None,
    runs: Runs = 5,
    against: Against = None,
    threads: Threads = None,
    verify: Verify = False,
    json_file: JsonFile = None,
    data: DataDir = None,
    set_: Settings = None,
    device: Device = None,
    gpu_memory_limit: GpuMemoryLimit = None,
    data_location: Location = None,
    copy_policy: Copies = None,
    profile: ProfileFile = None,
    profile_level: Level = ProfileLevel.operators,
) -> None:
    """TPC-H: 22 queries over 8 tables."""
    where = (device, gpu_memory_limit, data_location, copy_policy, profile, profile_level)
    _run(Plan("tpch", sf, queries, runs, against, threads, verify, json_file, data, set_, *where))


@app.command("ssb", epilog=EXAMPLES.format(suite="ssb", queries="1.1,4.3"))
def ssb(
    sf: Sf = 1.0,
    queries: Queries = None,
    runs: Runs = 5,
    against: Against = None,
    threads: Threads = None,
    verify: Verify = False,
    json_file: JsonFile = None,
    data: DataDir = None,
    set_: Settings = None,
    device: Device = None,
    gpu_memory_limit: GpuMemoryLimit = None,
    data_location: Location = None,
    copy_policy: Copies = None,
    profile: ProfileFile = None,
    profile_level: Level = ProfileLevel.operators,
) -> None:
    """Star Schema Benchmark: 13 queries over 5 tables."""
    where = (device, gpu_memory_limit, data_location, copy_policy, profile, profile_level)
    _run(Plan("ssb", sf, queries, runs, against, threads, verify, json_file, data, set_, *where))


def _chosen(suite: str, names: str | None) -> list[tuple[str, str]]:
    known = _warpmill.queries(suite)
    if names is None:
        return known
    wanted = [name.strip().lower().lstrip("q") for name in names.split(",")]
    texts = dict(known)
    for name in wanted:
        if name not in texts:
            raise typer.BadParameter(f"{suite} has no query {name!r}: it has {', '.join(texts)}")
    return [(name, texts[name]) for name in wanted]


def _run(plan: Plan) -> None:
    from warpmill.bench import engines, report, trace
    from warpmill.bench.data import prepare
    from warpmill.bench.runner import measure

    queries = _chosen(plan.suite, plan.queries)
    chosen = plan.chosen_settings()
    if plan.profile and chosen.get("profile", "on") in ("off", "false", "0"):
        raise typer.BadParameter("--profile needs the setting profile=on")
    peers = [name.strip() for name in plan.against.split(",")] if plan.against else []
    for name in peers:
        if name not in engines.PEERS:
            raise typer.BadParameter(f"unknown engine {name!r}: --against takes {', '.join(engines.PEERS)}")
    with bars() as bar:
        data = prepare(plan.suite, plan.sf, plan.directory, bool(peers) or plan.verify, bar)
    count = min(plan.threads or cores(), cores())
    engines.use_cores(count)
    console = Console(stderr=True)
    with console.status("") as status:
        ours = engines.Warpmill(data, count, chosen)
        everyone: list[engines.Engine] = [ours]
        for name in peers:
            status.update(f"loading {name}")
            everyone.append(engines.load(name, data, count))
        reference = next((engine for engine in everyone if engine.name == "duckdb"), None) if plan.verify else None
        if plan.verify and reference is None:
            status.update("loading duckdb")
            reference = engines.load("duckdb", data, count)
        outcomes = measure(everyone, queries, plan.runs, reference, lambda q, e: status.update(f"query {q}: {e}"))
    ran = report.device(outcomes) or "cpu"
    title = f"{plan.suite} at scale factor {plan.sf:g}, {count} threads, on {ran}, median of {plan.runs} runs"
    # A pipe has no width: let lines be as long as they are.
    Console(width=None if sys.stdout.isatty() else 160).print(report.table(title, outcomes))
    for line in [*report.problems(outcomes), *report.not_on_device(outcomes)]:
        typer.echo(line, err=True)
    for sql, reason in ours.reasons.items():
        name = next(name for name, text in queries if text == sql)
        typer.echo(f"warpmill {name} needed a fallback: {reason}", err=True)
    if plan.json_file:
        found = report.as_json(plan.suite, plan.sf, count, outcomes)
        location, policy = plan.data()
        report.save({**found, "data_location": location.value, "copy_policy": policy.value}, plan.json_file)
    if plan.profile:
        trace.save(plan.profile, plan.level.value, plan.suite, plan.sf, count, outcomes)
    if report.failed(outcomes):
        raise typer.Exit(1)


@app.command("ingest", epilog="Example: warpmill bench ingest --sf 1 --json ingest.json")
def ingest(
    sf: Sf = 1.0,
    runs: Runs = 3,
    threads: Threads = None,
    json_file: JsonFile = None,
    data: DataDir = None,
) -> None:
    """Parquet, CSV and Arrow into tables on disk, in MB/s, against DuckDB's CREATE TABLE AS."""
    from warpmill.bench import engines, report
    from warpmill.bench import ingest as loading

    with bars() as bar:
        sources, base = loading.prepare(sf, data, bar)
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    with Console(stderr=True).status("") as status:
        measured = loading.measure(sources, base, count, runs, lambda s, e: status.update(f"{s}: {e}"))
    title = f"{loading.TABLE} at scale factor {sf:g}, {count} threads, median of {runs} runs"
    Console(width=None if sys.stdout.isatty() else 160).print(loading.table(title, measured))
    if json_file:
        report.save(loading.as_json(sf, count, measured), json_file)


@app.command("parquet", epilog="Example: warpmill bench parquet --sf 10 --device gpu --json parquet.json")
def parquet(
    sf: Sf = 1.0,
    runs: Runs = 5,
    json_file: JsonFile = None,
    data: DataDir = None,
    device: Device = None,
    gpu_memory_limit: GpuMemoryLimit = None,
) -> None:
    """Columns of Parquet files, decoded by a device and by the CPU: GB/s by codec and kind of column."""
    from pathlib import Path

    from warpmill.bench import parquet as files
    from warpmill.bench import report

    with bars() as bar:
        paths = files.prepare(sf, Path(data or "data/parquet"), bar)
    where = (device or DeviceName.gpu).value
    with Console(stderr=True).status("") as status:
        rows = files.measure(paths, where, gpu_memory_limit or "unlimited", runs, status.update)
    title = f"Parquet at scale factor {sf:g}, median of {runs} runs"
    Console(width=None if sys.stdout.isatty() else 160).print(files.table(title, rows))
    if json_file:
        report.save(files.as_json({"sf": sf, "runs": runs}, rows), json_file)


@app.command("scan", epilog="Example: warpmill bench scan --sf 0.2 --suites ssb,taxi --out plots/")
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
    from warpmill.bench import scan as codecs

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


Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", min=0.0, help="Factor of all row counts (default: 1; on the simulated device nearly none)."
    ),
]
Tune = Annotated[bool, typer.Option("--tune", help="Try several launch shapes where there is a choice.")]
KernelDevice = Annotated[DeviceName, typer.Option("--device", help="gpu, or sim, whose times mean nothing.")]


#: Suites of single kernels, and what they measure.
KERNELS = {
    "decode": "Decoding on the device: every encoding and width, fused with a sum or written out; answers checked.",
    "join": "Hash and direct-address joins on the device; answers checked.",
    "groupby": "Grouping with one sum on the device, from few groups to very many; answers checked.",
    "sort": "Radix sort and prefix sums on the device; answers checked.",
    "like": "LIKE '%a%b%' over strings of 50 bytes on the device; answers checked.",
}


def _kernel_suite(suite: str) -> Callable[..., None]:
    """The command of one of `KERNELS`."""

    def measure(
        device: KernelDevice = DeviceName.gpu,
        scale: Scale = None,
        runs: Runs = 5,
        tune: Tune = False,
        json_file: JsonFile = None,
    ) -> None:
        from warpmill.bench import kernels, report

        if device is DeviceName.cpu:
            raise typer.BadParameter("--device takes gpu or sim here: there are no kernels on the CPU")
        with Console(stderr=True).status(suite):
            found = kernels.measure(suite, device is DeviceName.sim, scale, runs, tune)
        Console(width=None if sys.stdout.isatty() else 200).print(kernels.table(found))
        if json_file:
            report.save({**found, "machine": report.machine()}, json_file)
        if not all(row["verified"] for row in found["measurements"]):
            raise typer.Exit(1)

    return measure


for _suite, _help in KERNELS.items():
    app.command(_suite, help=_help, epilog=f"Example: warpmill bench {_suite} --json {_suite}.json")(
        _kernel_suite(_suite)
    )


@app.command("start", epilog="Example: warpmill bench start tpch --sf 1 --device gpu --json start.json")
def start(
    suite: Annotated[str, typer.Argument(help="tpch or ssb.")] = "tpch",
    sf: Sf = 1.0,
    queries: Queries = None,
    runs: Runs = 3,
    device: Device = None,
    json_file: JsonFile = None,
    data: DataDir = None,
    set_: Settings = None,
) -> None:
    """New processes, each to its first answer and through all queries: with no compiled kernel kept, then with all."""
    from warpmill.bench import report
    from warpmill.bench import start as starting
    from warpmill.bench.data import prepare

    if suite not in ("tpch", "ssb"):
        raise typer.BadParameter(f"there is no suite {suite!r}: there are tpch and ssb")
    names = [name for name, _ in _chosen(suite, queries)]
    settings = dict(pair(text, "--set") for text in set_ or [])
    if device is not None:
        settings["device"] = device.value
    with bars() as bar:
        found = prepare(suite, sf, data, False, bar)
    with Console(stderr=True).status("") as status:
        measured = starting.measure(found, settings, names, runs, status.update)
    Console(width=None if sys.stdout.isatty() else 160).print(starting.table(suite, sf, measured))
    if json_file:
        report.save(
            {"suite": suite, "sf": sf, "settings": settings, "machine": report.machine(), "starts": measured}, json_file
        )


@app.command("qj", epilog="Example: warpmill bench qj --sf 30 --device gpu --drives 1,4,12 --out plots/")
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
    from warpmill.bench import qj as study
    from warpmill.bench.qj_findings import auto_text, findings

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


@app.command("compaction", epilog="Example: warpmill bench compaction --rows 5000000 --out plots/")
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
    from warpmill.bench import compaction as micro

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
