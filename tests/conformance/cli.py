"""The command line: which tests are run, and how."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from conformance.lockstep import CORPUS, FORMS, NATIVE
from conformance.outcome import Outcome
from conformance.report import Tally
from conformance.tasks import DuckFile, NativeFile, SqliteFile, TpcdsQueries
from conformance.tpcds import CORPORA, Queries
from conformance.workers import Pool, Stopped
from suites import tpcds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.workers import Task

ROOT = Path(__file__).resolve().parents[2]
#: The folder of the corpora, which are not part of this repository.
SHARED = Path(os.environ.get("WARPMILL_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
_TPCDS_PART = 11

#: The fast tier runs one of this many files, or queries.
_FAST = {"duckdb": 8, "sqlite": 40, "tpcds": 9}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of the arguments; 0 if there are no differences other than accepted ones."""
    options = _parser().parse_args(arguments)
    os.environ["WARPMILL_DEVICE"] = options.device
    started = time.monotonic()
    plan: list[tuple[str, list[Task]]] = []
    for corpus in options.corpus or [name for name in _TASKS if name not in (FORMS, NATIVE)]:
        plan += _TASKS[corpus](options)
    tallies = {corpus: Tally(corpus, len({task.title for task in tasks})) for corpus, tasks in plan}
    corpora = {id(task): corpus for corpus, tasks in plan for task in tasks}
    tasks = [task for _, of in plan for task in of]
    if not tasks:
        print("conformance: nothing to run", flush=True)
        return 0 if options.corpus is None and not options.files else 2
    with _bar(len(tasks)) as advance:
        for task, result in Pool(options.jobs, options.limit).results(tasks):
            # The remainder of a task whose process died belongs to the same corpus.
            corpus = corpora.setdefault(id(task), CORPORA[task.queries.door] if isinstance(task, TpcdsQueries) else "")
            if isinstance(result, Outcome):
                tallies[corpus].add(result)
            elif isinstance(result, Stopped):
                tallies[corpus].stop(result)
            else:
                advance(task.title)
    bad = _print(list(tallies.values()), options, time.monotonic() - started)
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/conformance", description=__doc__)
    parser.add_argument("--corpus", action="append", choices=list(_TASKS), help="only this one (can be repeated)")
    parser.add_argument("--tier", choices=["full", "fast"], default="full", help="fast: a sample, under two minutes")
    parser.add_argument("--files", metavar="GLOB", help="only files whose path within the corpus matches")
    parser.add_argument("--sample", metavar="N", type=int, help="one of N files of DuckDB's, of N queries of others")
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder of the corpora")
    parser.add_argument("--device", choices=["cpu", "sim", "gpu", "auto"], default="cpu")
    parser.add_argument("--scale", type=float, default=tpcds.SCALE, help="TPC-DS: the scale factor")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--threads", type=int, help="DuckDB's threads, of both sides")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one statement")
    parser.add_argument(
        "--door", choices=["warpmill", "duckdb"], default="warpmill", help="duckdb: the runner's own test"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file")
    parser.add_argument("--brief", action="store_true", help="print one line per corpus, and differences")
    return parser


def _sampled(name: str, sample: int) -> bool:
    return crc32(name.encode()) % sample == 0


def _chosen(root: Path, options: argparse.Namespace) -> list[Path]:
    """The test files of a corpus."""
    files = sorted(path for path in root.rglob("*.test*") if path.is_file())
    names = {path: str(path.relative_to(root)) for path in files}
    return [path for path in files if options.files is None or fnmatch(names[path], options.files)]


def _absent(corpus: str, root: Path) -> list[tuple[str, list[Task]]]:
    print(f"conformance {corpus}: not run, {root} is not here", flush=True)
    return []


def _duckdb(options: argparse.Namespace, corpus: str = CORPUS) -> list[tuple[str, list[Task]]]:
    root = options.shared / "duckdb"
    if not root.is_dir():
        return _absent(corpus, root)
    files = _chosen(root, options)
    sample = options.sample or (_FAST["duckdb"] if options.tier == "fast" else 1)
    if sample > 1:
        files = _some(root, files, sample, options.tier == "fast")
    # Large files first, so that none runs alone at the end.
    files.sort(key=lambda path: -path.stat().st_size)
    if corpus == NATIVE:
        return [(corpus, [NativeFile(root, path, (("device", options.device),)) for path in files])]
    forms = corpus == FORMS
    return [(corpus, [DuckFile(root, path, options.door, options.threads, forms) for path in files])]


def _forms(options: argparse.Namespace) -> list[tuple[str, list[Task]]]:
    return _duckdb(options, FORMS)


def _native(options: argparse.Namespace) -> list[tuple[str, list[Task]]]:
    return _duckdb(options, NATIVE)


def _some(root: Path, files: list[Path], sample: int, types: bool) -> list[Path]:
    """One of `sample` files and at least one of each folder; with `types` all of the folder of that name."""
    chosen = {path for path in files if _sampled(str(path.relative_to(root)), sample)}
    chosen |= {path for path in files if types and path.relative_to(root).parts[0] == "types"}
    for folder in {path.parent for path in files}:
        inside = [path for path in files if path.parent == folder]
        if not chosen & set(inside):
            chosen.add(min(inside, key=lambda path: crc32(path.name.encode())))
    return sorted(chosen)


def _sqlite(options: argparse.Namespace) -> list[tuple[str, list[Task]]]:
    root = options.shared / "sqlite"
    if not root.is_dir():
        return _absent("sqlite", root)
    sample = options.sample or (_FAST["sqlite"] if options.tier == "fast" else 1)
    settings = (("device", options.device),)
    return [("sqlite", [SqliteFile(root, path, settings, sample) for path in _chosen(root, options)])]


def _tpcds(options: argparse.Namespace) -> list[tuple[str, list[Task]]]:
    if options.files is not None:
        return []
    try:
        tables, texts = tpcds.suite(options.scale)
    except tpcds.UnavailableError as reason:
        print(f"conformance tpcds: not run, {reason}", flush=True)
        return []
    sample = options.sample or (_FAST["tpcds"] if options.tier == "fast" else 1)
    numbers = sorted(texts)[::sample]
    parts = [numbers[at : at + _TPCDS_PART] for at in range(0, len(numbers), _TPCDS_PART)]
    plan: list[tuple[str, list[Task]]] = []
    for door, corpus in CORPORA.items():
        made: list[dict[int, str]] = [{number: texts[number] for number in part} for part in parts]
        plan.append((corpus, [TpcdsQueries(Queries(door, tables, part, {"device": options.device})) for part in made]))
    return plan


_TASKS: dict[str, Callable[[argparse.Namespace], list[tuple[str, list[Task]]]]] = {
    CORPUS: _duckdb,
    FORMS: _forms,
    NATIVE: _native,
    "sqlite": _sqlite,
    "tpcds": _tpcds,
}


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on a terminal's stderr: yields what counts a task and shows its title."""
    if not sys.stderr.isatty():
        yield lambda _title: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda title: progress.update(bar, advance=1, description=title)


def _print(tallies: list[Tally], options: argparse.Namespace, seconds: float) -> bool:
    """Prints the figures; returns whether something differs."""
    for tally in tallies:
        print(tally.line())
        lines = tally.details()
        shown = [line for line in lines if line.startswith(("  wrong", "  failed", "  crash", "  hang"))]
        print(*(shown if options.brief else lines), sep="\n", end="\n" if shown or not options.brief else "")
    print(f"conformance: {seconds:.0f} s", flush=True)
    if options.json:
        found: list[dict[str, Any]] = [tally.json() for tally in tallies]
        options.json.write_text(json.dumps({"seconds": round(seconds, 1), "corpora": found}, indent=1))
    return any(tally.bad for tally in tallies)
