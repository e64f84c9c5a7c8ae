"""``warpmill bench matrix``."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from warpmill.bench.states import Source
from warpmill.cli.bench import CudfPython, Runs, Settings, Threads
from warpmill.cli.doctor import cores
from warpmill.cli.options import pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill_bench.maxbench.cells import Cell
    from warpmill_bench.maxbench.session import Report

EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench matrix --quick --out quick/\n\n"
    "warpmill bench matrix --out h200/ --budget 1500\n\n"
    "warpmill bench matrix --suites tpch,h2o --sizes 1,10 --peers duckdb --out tpch/"
)


def matrix(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where matrix.json goes; a run goes on there.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="CPU and simulated device, tiny sizes, few queries: a minute or two.")
    ] = False,
    suites: Annotated[str | None, typer.Option("--suites", metavar="SUITE,...", help="Only these.")] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", metavar="N,...", help="Instead of the suites' own.")] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", metavar="N,...", help="Only these: of one suite, so with --suites.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="SITE,...", help="Sites of Warpmill: cpu, gpu, sim (default: all)."),
    ] = None,
    peers: Annotated[
        str | None, typer.Option("--peers", metavar="ENGINE,...", help="Other engines (default: all), or none.")
    ] = None,
    sources: Annotated[str | None, typer.Option("--sources", metavar="SOURCE,...", help="tables, parquet.")] = None,
    locations: Annotated[
        str | None, typer.Option("--locations", metavar="PLACE,...", help="device, pinned, host, disk.")
    ] = None,
    states: Annotated[
        str | None, typer.Option("--states", metavar="STATE,...", help="new-process, new-statement, repeated.")
    ] = None,
    runs: Runs = 5,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Timed new processes of each query.")] = 3,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="SECONDS", help="Nothing is begun after that time.")
    ] = None,
    limit: Annotated[float, typer.Option("--limit", metavar="SECONDS", help="Time of a statement.")] = 120.0,
    threads: Threads = None,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Where tables are kept.")] = "data/matrix",
    cudf_python: CudfPython = None,
    set_: Settings = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Remove tables after the last cell that needs them: disks are small.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Print the plan, most important first, and do nothing.")
    ] = False,
) -> None:
    """Suites by engines, states, sources and places of data, each engine in its own process; answers compared."""
    from warpmill.bench import engines
    from warpmill.bench import states as known_states
    from warpmill.cli.progress import bars
    from warpmill_bench.maxbench import cells, session, worker
    from warpmill_bench.suites import SUITES

    sites, missing = session.sites(quick)
    wanted = _names(suites, [one.name for one in SUITES], "suite", QUICK_SUITES if quick else None)
    absent = _absent(wanted, suites is not None)
    choice = cells.Choice(
        suites=tuple(name for name in wanted if name not in absent),
        sites=_names(device, ["cpu", "gpu", "sim"], "site", sites),
        peers=_names(peers, list(cells.PEERS), "engine", tuple(cells.PEERS), none=True),
        sources=tuple(Source(name) for name in _names(sources, list(Source), "source")),
        locations=_names(locations, list(cells.LOCATIONS), "place"),
        states=known_states.states(states),
        sizes=_sizes(sizes),
        queries=_queries(queries, suites),
    )
    plan = cells.quick(choice) if quick else cells.full(choice)
    if list_:
        for name, reason in absent.items():
            typer.echo(f"not measured: suite {name}: {reason}", err=True)
        for cell in plan:
            typer.echo(f"{cell.key} ({', '.join(cell.states)}; {', '.join(cell.queries or ['all queries'])})")
        return
    if find_spec("duckdb") is None:
        raise ValueError("DuckDB is not installed, whose rows all results are compared with: pip install duckdb")
    count = min(threads or cores(), cores())
    engines.use_cores(count)
    end = None if budget is None else time.monotonic() + budget
    chosen = dict(pair(text, "--set") for text in set_ or [])
    how = worker.How(count, min(runs, 3) if quick else runs, 1 if quick else processes, limit, end, cudf_python, chosen)
    command = " ".join(["warpmill", "bench", "matrix", *_typed()])
    report = session.Report.open(Path(out) / "matrix.json", command, quick)
    report.content["threads"] = count
    console = Console(stderr=True)
    with bars(quiet=True) as bar, _progress(console) as progress:
        task = progress.add_task("", total=len(plan))

        def told(text: str) -> None:
            progress.update(task, description=text[:100])

        one = session.Session(
            report, Path(data), how, quick, told, progress.console.print, bar, discard, choice.queries
        )
        lacking = [{"what": f"suite {name}", "reason": reason} for name, reason in absent.items()]
        lacking += missing if device is None else []
        left = one.run(plan, choice, lacking, lambda: progress.advance(task))
    _summary(report, left, len(plan))
    if wrong := one.wrong():
        for row in wrong:
            where = f"{row['engine']} on {row['site']}, {row['source']} from {row['location']}"
            about = f"{row['suite']} {row['size']:g} query {row['query']}"
            typer.echo(f"{about}: {where} ({row['state']}): {row.get('error')}", err=True)
        raise typer.Exit(1)


#: The suites of a quick run.
QUICK_SUITES = ("tpch", "h2o", "clickbench")


def _progress(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=console)


def _typed() -> list[str]:
    """The arguments of the command, as they were typed."""
    return sys.argv[sys.argv.index("matrix") + 1 :] if "matrix" in sys.argv else []


def _names(
    text: str | None, known: list[str], what: str, usual: tuple[str, ...] | None = None, none: bool = False
) -> tuple[str, ...]:
    """The names of a list in the order of the known ones; without a list the usual ones, or all."""
    if text is None:
        return tuple(known) if usual is None else usual
    if none and text == "none":
        return ()
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"unknown {what} {name!r}: there are {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def _absent(names: tuple[str, ...], named: bool) -> dict[str, str]:
    """The suites whose tables and queries cannot be had here, with the reason; `named`: that is an error."""
    from warpmill_bench.suites import JobUnavailableError, TpcdsUnavailableError, job, tpcds

    needed: dict[str, Callable[[], object]] = {"job": job.texts, "tpcds": tpcds.packages}
    absent = {}
    for name in (name for name in names if name in needed):
        try:
            needed[name]()
        except (JobUnavailableError, TpcdsUnavailableError) as error:
            if named:
                raise
            absent[name] = str(error)
    return absent


def _sizes(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        found = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise typer.BadParameter(f"--sizes {text}: numbers, separated by commas") from None
    if any(size <= 0 for size in found):
        raise typer.BadParameter("--sizes are more than 0")
    return found


def _queries(text: str | None, suites: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if suites is None or "," in suites:
        raise typer.BadParameter("--queries are those of one suite: --suites names it")
    from warpmill_bench.suites import queries

    names = tuple(name.strip().lower().lstrip("q") for name in text.split(","))
    try:
        queries(suites, 1.0, names)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return names


def _summary(report: Report, left: list[Cell], cells: int) -> None:
    runs = report.content["runs"]
    failed = sum(row.get("median_ms") is None for row in runs)
    verified = sum(row["verified"] is True for row in runs)
    typer.echo(f"{report.path}: {len(runs)} runs, {verified} with DuckDB's rows, {failed} without times")
    if left:
        typer.echo(f"{len(left)} of {cells} cells are left: the same command goes on with them")
