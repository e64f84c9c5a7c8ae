"""``warpmill bench``: measure against other engines, and check their answers."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from warpmill.bench.states import Source, State, states
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair
from warpmill.cli.progress import bars

if TYPE_CHECKING:
    from warpmill.bench.queries import Query

#: Benchmarks that the package `warpmill-bench` brings, besides this one's.
STUDIES = [
    "compaction",
    "decode",
    "golap",
    "groupby",
    "join",
    "like",
    "matrix",
    "model",
    "mordred",
    "nvcomp",
    "nvcomp-check",
    "qj",
    "scan",
    "sort",
    "udaf",
]

#: The command that installs them from the repository.
INSTALL = "pip install ./bench/studies"


@cache
def studies() -> dict[str, Any]:
    """The commands of installed packages: of each `typer.Typer` in the entry point group ``warpmill.bench``."""
    found: dict[str, Any] = {}
    for entry in entry_points(group="warpmill.bench"):
        found.update(typer.main.get_group(entry.load()).commands)
    return found


class Benchmarks(TyperGroup):
    """The benchmarks of this package and of packages that are installed beside it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All that can be run."""
        return [*super().list_commands(ctx), *studies()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a benchmark. Says how a study that is not installed can be."""
        found = super().get_command(ctx, cmd_name) or studies().get(cmd_name)
        if found is None and cmd_name in STUDIES:
            raise typer.BadParameter(f"{cmd_name} is in the package warpmill-bench, in the repository: {INSTALL}")
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands, and what is not installed."""
        missing = [name for name in STUDIES if name not in studies()]
        if missing:
            self.epilog = f"Not installed: {', '.join(missing)} (in the repository: {INSTALL})"
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=Benchmarks,
    help="Measure Warpmill against other engines in one run, and compare the answers.",
    no_args_is_help=True,
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
    str | None,
    typer.Option("--against", metavar="ENGINE,...", help="Peers: duckdb, datafusion, polars, cudf-polars (tpch)."),
]
States = Annotated[
    str | None,
    typer.Option(
        "--states",
        metavar="STATE,...",
        help="What an engine has seen of a query before: new-process, new-statement, repeated (default: all).",
    ),
]
From = Annotated[
    Source, typer.Option("--source", help="Own tables of every engine, or the same Parquet files for all.")
]
Processes = Annotated[
    int,
    typer.Option("--processes", min=1, help="New processes for each query and engine, after one that warms up files."),
]
CudfPython = Annotated[
    str | None,
    typer.Option("--cudf-python", metavar="PYTHON", help="The Python that has cudf-polars (default: this one)."),
]
CudfExecutor = Annotated[
    str | None, typer.Option("--cudf-executor", metavar="NAME", help="in-memory or streaming (default: cudf-polars').")
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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of a benchmark of queries."""

    suite: str
    sf: float
    queries: str | None
    states: str | None
    source: Source
    runs: int
    processes: int
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
    cudf_python: str | None = None
    cudf_executor: str | None = None

    def peers(self) -> list[str]:
        """The other engines."""
        from warpmill.bench.engines import PEERS

        known = [name for name in PEERS if name != "cudf-polars" or self.suite == "tpch"]
        names = [name.strip() for name in self.against.split(",")] if self.against else []
        for name in names:
            if name not in known:
                raise typer.BadParameter(f"unknown engine {name!r}: --against takes {', '.join(known)}")
        if "cudf-polars" in names and self.source is not Source.PARQUET:
            raise typer.BadParameter("cudf-polars has no tables of its own: add --source parquet")
        return names

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
    states_: States = None,
    source: From = Source.TABLES,
    runs: Runs = 5,
    processes: Processes = 3,
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
    cudf_python: CudfPython = None,
    cudf_executor: CudfExecutor = None,
) -> None:
    """TPC-H: 22 queries over 8 tables."""
    _run(
        Plan(
            suite="tpch",
            sf=sf,
            queries=queries,
            states=states_,
            source=source,
            runs=runs,
            processes=processes,
            against=against,
            threads=threads,
            verify=verify,
            json_file=json_file,
            directory=data,
            settings=set_,
            device=device,
            gpu_memory_limit=gpu_memory_limit,
            location=data_location,
            copy_policy=copy_policy,
            profile=profile,
            level=profile_level,
            cudf_python=cudf_python,
            cudf_executor=cudf_executor,
        )
    )


@app.command("ssb", epilog=EXAMPLES.format(suite="ssb", queries="1.1,4.3"))
def ssb(
    sf: Sf = 1.0,
    queries: Queries = None,
    states_: States = None,
    source: From = Source.TABLES,
    runs: Runs = 5,
    processes: Processes = 3,
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
    _run(
        Plan(
            suite="ssb",
            sf=sf,
            queries=queries,
            states=states_,
            source=source,
            runs=runs,
            processes=processes,
            against=against,
            threads=threads,
            verify=verify,
            json_file=json_file,
            directory=data,
            settings=set_,
            device=device,
            gpu_memory_limit=gpu_memory_limit,
            location=data_location,
            copy_policy=copy_policy,
            profile=profile,
            level=profile_level,
        )
    )


def _chosen(suite: str, sf: float, names: str | None, new_statements: int = 0) -> list[Query]:
    from warpmill.bench.queries import chosen

    try:
        return chosen(suite, sf, names, new_statements)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _states(text: str | None) -> tuple[State, ...]:
    try:
        return states(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _run(plan: Plan) -> None:
    from warpmill.bench import engines, processes, report, trace
    from warpmill.bench.cudf import CudfPolars
    from warpmill.bench.data import prepare
    from warpmill.bench.runner import measure

    wanted = _states(plan.states)
    queries = _chosen(plan.suite, plan.sf, plan.queries, plan.runs if State.NEW_STATEMENT in wanted else 0)
    settings = plan.chosen_settings()
    if plan.profile and settings.get("profile", "on") in ("off", "false", "0"):
        raise typer.BadParameter("--profile needs the setting profile=on")
    if plan.profile and State.REPEATED not in wanted:
        raise typer.BadParameter("--profile needs the state repeated")
    peers = plan.peers()
    tables, new_processes = plan.source is Source.TABLES, State.NEW_PROCESS in wanted
    with bars() as bar:
        data = prepare(
            plan.suite,
            plan.sf,
            plan.directory,
            bar,
            tables=tables,
            parquet=bool(peers) or plan.verify or not tables,
            duckdb=tables and new_processes and "duckdb" in peers,
        )
    count = min(plan.threads or cores(), cores())
    engines.use_cores(count)
    setup = engines.Setup(data, plan.source, count, settings, plan.cudf_python, plan.cudf_executor)
    console = Console(stderr=True)
    with console.status("") as status, ExitStack() as opened:

        def told(query: str, engine: str) -> None:
            status.update(f"query {query}: {engine}")

        # Before any engine is loaded here: two processes would share the device's memory, and the machine's.
        names = ["warpmill", *peers] if new_processes else []
        started = processes.measure(names, setup, queries, plan.processes, told)
        ours = engines.Warpmill(setup)
        everyone: list[engines.Engine] = [ours]
        for name in peers if set(wanted) - {State.NEW_PROCESS} else []:
            status.update(f"loading {name}")
            everyone.append(engines.load(name, setup, queries))
        reference = next((engine for engine in everyone if engine.name == "duckdb"), None) if plan.verify else None
        if plan.verify and reference is None:
            status.update("loading duckdb")
            reference = engines.load("duckdb", setup, queries)
        for engine in everyone:
            opened.callback(engine.close)
        if reference:
            processes.judge(started, reference)
        outcomes = [one.outcome for one in started]
        outcomes += measure(everyone, queries, plan.runs, reference, told, wanted)
    ran = report.device(outcomes) or "cpu"
    title = f"{plan.suite} at scale factor {plan.sf:g} from {plan.source.value}, {count} threads, on {ran}"
    # A pipe has no width: let lines be as long as they are.
    screen = Console(width=None if sys.stdout.isatty() else 160)
    for table in report.tables(title, outcomes):
        screen.print(table)
    for line in [*report.plans(outcomes), *report.problems(outcomes), *report.not_on_device(outcomes)]:
        typer.echo(line, err=True)
    for name in peers if new_processes else []:
        if not processes.can_start(name, setup):
            typer.echo(f"{name} has its tables in memory only: no new process finds them", err=True)
    for sql, reason in ours.reasons.items():
        name = next(query.name for query in queries if query.sql == sql)
        typer.echo(f"warpmill {name} needed a fallback: {reason}", err=True)
    if plan.json_file:
        found = report.as_json(plan.suite, plan.sf, count, outcomes)
        found["machine"]["versions"] |= {e.name: e.version for e in everyone if isinstance(e, CudfPolars)}
        location, policy = plan.data()
        where = {"data_location": location.value, "copy_policy": policy.value, "source": plan.source.value}
        report.save({**found, **where, "processes": plan.processes if new_processes else 0}, plan.json_file)
    if plan.profile:
        repeated = report.by_state(outcomes).get(State.REPEATED, [])
        trace.save(plan.profile, plan.level.value, plan.suite, plan.sf, count, repeated)
    if report.failed(outcomes):
        raise typer.Exit(1)


@app.command("ingest", epilog="Example: warpmill bench ingest --sf 1 --sources parquet,csv --json ingest.json")
def ingest(
    sf: Sf = 1.0,
    sources: Annotated[
        str | None,
        typer.Option(metavar="FORM,...", help="Forms of the rows: parquet, csv, arrow, polars, pandas (default: all)."),
    ] = None,
    tables: Annotated[
        str | None, typer.Option(metavar="TABLE,...", help="Only these tables of TPC-H (default: all 8).")
    ] = None,
    runs: Runs = 3,
    threads: Threads = None,
    json_file: JsonFile = None,
    data: DataDir = None,
) -> None:
    """CREATE TABLE AS of TPC-H's tables, from Parquet, CSV and frames, against DuckDB; checksums compared."""
    from warpmill.bench import engines, report
    from warpmill.bench import ingest as loading

    forms = _listed(sources, loading.SOURCES, "source")
    names = _listed(tables, loading.TABLES, "table")
    with bars() as bar:
        rows, base = loading.prepare(sf, data, names, "csv" in forms, bar)
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    with Console(stderr=True).status("") as status:
        measured = loading.measure(rows, forms, base, count, runs, lambda s, e: status.update(f"{s}: {e}"))
    what = names[0] if len(names) == 1 else f"{len(names)} tables"
    title = f"CREATE TABLE AS, {what} of TPC-H at scale factor {sf:g}, {count} threads, median of {runs} runs"
    Console(width=None if sys.stdout.isatty() else 160).print(loading.table(title, measured))
    for line in loading.problems(measured):
        typer.echo(line, err=True)
    if json_file:
        report.save(loading.as_json(sf, count, names, measured), json_file)
    if loading.failed(measured):
        raise typer.Exit(1)


def _listed(text: str | None, known: tuple[str, ...], what: str) -> list[str]:
    """The names of a list in the order of the known names; all of these without a list."""
    wanted = known if text is None else tuple(name.strip() for name in text.split(","))
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"unknown {what} {name!r}: there are {', '.join(known)}")
    return [name for name in known if name in wanted]


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
    names = [query.name for query in _chosen(suite, sf, queries)]
    settings = dict(pair(text, "--set") for text in set_ or [])
    if device is not None:
        settings["device"] = device.value
    with bars() as bar:
        found = prepare(suite, sf, data, bar)
    with Console(stderr=True).status("") as status:
        measured = starting.measure(found, settings, names, runs, status.update)
    Console(width=None if sys.stdout.isatty() else 160).print(starting.table(suite, sf, measured))
    if json_file:
        report.save(
            {"suite": suite, "sf": sf, "settings": settings, "machine": report.machine(), "starts": measured}, json_file
        )
