"""All cells of a plan, one after the other, within a time; a report that is written after every query.

A run that ended early goes on where it was: what the report has already is not measured again.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import warpmill
from warpmill.bench.engines import IN_MEMORY, EngineUnavailableError
from warpmill.bench.report import machine
from warpmill.bench.states import Source, State
from warpmill.cli.doctor import versions
from warpmill_bench import suites
from warpmill_bench.maxbench import links, worker
from warpmill_bench.maxbench.answers import Answers
from warpmill_bench.maxbench.cells import NEVER, cannot
from warpmill_bench.suites.making import prepare_within
from warpmill_bench.suites.tables import place, prepare, sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from warpmill.bench.data import Data
    from warpmill.bench.queries import Query
    from warpmill.cli.progress import Reporter
    from warpmill_bench.maxbench.cells import Cell, Choice
    from warpmill_bench.maxbench.worker import How

    Row = dict[str, Any]

#: The version of the report's form.
FORM = 1


@dataclass
class Report:
    """The report of a matrix, and its file."""

    path: Path
    content: Row
    _done: set[tuple[Any, ...]] = field(default_factory=set)

    @classmethod
    def open(cls, path: Path, command: str, quick: bool) -> Report:
        """The report that is there, or a new one. A `ValueError` where it is of another machine, or of another form."""
        here = {**machine(), "gpu": gpu_name()}
        here["versions"] |= versions(("pandas",))
        began = {"date": datetime.date.today().isoformat(), "commit": commit(), "command": command}
        if not path.exists():
            content: Row = {
                "benchmark": "matrix",
                "form": FORM,
                "version": warpmill.__version__,
                **began,
                "quick": quick,
                "machine": here,
                "links": [],
                "data": [],
                "filters": [],
                "runs": [],
                "skipped": [],
                "sessions": [],
            }
        else:
            content = load(path)
            kept = content["machine"]
            if differs := [key for key in ("cpu", "cores", "gpu") if kept.get(key) != here[key]]:
                raise ValueError(
                    f"{path} was measured on another machine ({differs[0]}: {kept.get(differs[0])}): give another --out"
                )
        content["sessions"].append({**began, "seconds": 0.0})
        found = cls(path, content)
        found._done = {_key(row) for row in content["runs"]}
        return found

    def has(self, cell: Cell, query: str, state: State) -> bool:
        """Whether a run is there already."""
        return _key({**cell.as_json(), "query": query, "state": state.value}) in self._done

    def add(self, row: Row) -> None:
        """Take a run, and write the file."""
        self.content["runs"].append({**row, "session": len(self.content["sessions"]) - 1})
        self._done.add(_key(row))
        self.save()

    def skip(self, what: str, reason: str) -> bool:
        """Say that something is not measured, and why; whether that is new."""
        one = {"what": what, "reason": reason}
        if one in self.content["skipped"]:
            return False
        self.content["skipped"].append(one)
        return True

    def save(self) -> None:
        """Write the file; a reader never sees a part of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        lines = [f'"{name}": {_lines(value)}' for name, value in self.content.items()]
        partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        partial.rename(self.path)


def load(path: Path) -> Row:
    """A report of a matrix. A `ValueError` says why a file is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict) or content.get("benchmark") != "matrix":
        raise ValueError(f"{path} is no report of `warpmill bench matrix`")
    if content.get("form") != FORM:
        raise ValueError(f"{path} has the form {content.get('form')}, this version reads {FORM}")
    return content


def _lines(value: Any) -> str:
    """JSON with a row of a list a line."""
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n]"


def _key(row: Row) -> tuple[Any, ...]:
    fields = ("suite", "size", "engine", "site", "source", "location", "query", "state")
    return tuple(row[name] for name in fields)


@dataclass
class Session:
    """One run of the command."""

    report: Report
    data: Path
    how: How
    quick: bool
    #: Hears titles of cells and of steps within; a line that people should read.
    told: Callable[[str], None]
    said: Callable[[str], None]
    bar: Reporter
    #: Whether tables are removed after the last cell that needs them.
    discard: bool = False
    #: Only these queries.
    queries: tuple[str, ...] | None = None
    _answers: dict[tuple[str, float], Answers] = field(default_factory=dict)
    #: Engines that are not there, with the reason.
    _missing: dict[str, str] = field(default_factory=dict)

    def run(self, cells: list[Cell], choice: Choice, missing: list[Row], advanced: Callable[[], None]) -> list[Cell]:
        """Measure; the cells that are left because the time is over. `missing`: sites and suites that are not here."""
        begun = time.monotonic()
        for what, reason in [*NEVER, *((one["what"], one["reason"]) for one in missing)]:
            self._skip(what, reason)
        self._excuse(choice)
        self._links(choice)
        left: list[Cell] = []
        for number, cell in enumerate(cells):
            if self.how.late:
                left.append(cell)
                continue
            self.told(cell.key)
            if not self._cell(cell):
                left.append(cell)
            elif self.discard:
                self._discard(cell, cells[number + 1 :])
            advanced()
            self.report.content["sessions"][-1]["seconds"] = round(time.monotonic() - begun, 1)
        for name, size in dict.fromkeys((cell.suite, cell.size) for cell in cells):
            self._filters_of(name, size)
        self.report.content["sessions"][-1]["seconds"] = round(time.monotonic() - begun, 1)
        self.report.content["left"] = [cell.key for cell in left]
        self.report.save()
        return left

    def wrong(self) -> list[Row]:
        """Runs whose rows differ from DuckDB's, and queries that Warpmill did not run."""
        return [
            row
            for row in self.report.content["runs"]
            if row["verified"] is False
            or (row["engine"] == "warpmill" and row.get("median_ms") is None and row["state"] != "new-statement")
        ]

    def _excuse(self, choice: Choice) -> None:
        """Print the combinations that some engines do not support."""
        for peer in IN_MEMORY if {State.NEW_PROCESS} <= set(choice.states) else ():
            if peer in choice.peers and Source.TABLES in choice.sources:
                self._skip(f"new processes of {peer} from tables", "its tables are in memory only")
        for peer, suite, source in product(choice.peers, choice.suites, choice.sources):
            if reason := cannot(peer, suite, source):
                self._skip(f"{peer} on {suite} from {source.value}", reason)

    def _links(self, choice: Choice) -> None:
        if self.report.content["links"] or self.how.late:
            return
        self.told("links")
        with self._timed("links"):
            found, skipped = links.measure(self.data, self.quick, "gpu" in choice.sites, self.how.left)
        self.report.content["links"] = found
        for one in skipped if not self.how.late else ():
            self._skip(one["what"], one["reason"])
        self.report.save()

    def _prepared(self, cell: Cell) -> tuple[Data, Answers] | None:
        """The tables of a cell, and the answers of its queries; None where there was no time to make them."""
        at = cell.suite, cell.size
        # The tables of other engines, and DuckDB's answers, come from Parquet files.
        own = cell.engine if cell.source is Source.TABLES else None
        data = self._made(*at, tables=own == "warpmill", duckdb=own == "duckdb")
        if data is None:
            return None
        if at not in self._answers:
            self._answers[at] = Answers(suites.suite(cell.suite), data, self.how.threads, 10 * self.how.seconds)
        one = {"suite": cell.suite, "size": cell.size}
        others = [row for row in self.report.content["data"] if not one.items() <= row.items()]
        self.report.content["data"] = [*others, {**one, **sizes(data)}]
        return data, self._answers[at]

    def _made(self, name: str, size: float, tables: bool, duckdb: bool) -> Data | None:
        """The tables of a suite at a size; None where there was no time to make them."""
        with self._timed("tables"):
            if self.how.deadline is not None:
                self.told(f"{name}/{size:g}: tables")
                if not prepare_within(self.how.left, self.data, name, size, tables=tables, duckdb=duckdb):
                    return None
            return prepare(self.data, name, size, self.bar, tables=tables, duckdb=duckdb)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Count the seconds of a part of the session in the report."""
        begun = time.monotonic()
        try:
            yield
        finally:
            parts = self.report.content["sessions"][-1].setdefault("parts", {})
            parts[part] = round(parts.get(part, 0.0) + time.monotonic() - begun, 1)

    def _discard(self, cell: Cell, later: list[Cell]) -> None:
        """Remove tables that no later cell needs; their bytes are in the report."""
        folder = place(self.data, cell.suite, cell.size)
        if folder not in {place(self.data, other.suite, other.size) for other in later}:
            self._filters_of(cell.suite, cell.size)
            shutil.rmtree(folder, ignore_errors=True)
            self._answers = {at: one for at, one in self._answers.items() if place(self.data, *at) != folder}

    def _cell(self, cell: Cell) -> bool:
        """Measure the missing runs of a cell; returns whether it is complete."""
        if cell.engine in self._missing:
            return True
        count = self.how.runs if State.NEW_STATEMENT in cell.states else 0
        queries = suites.queries(cell.suite, cell.size, cell.queries, count)
        complete = True
        for states in _together(cell):
            part = replace(cell, states=states)
            wanted = {
                (query.name, state)
                for query in queries
                for state in states
                if self._can_be(query, state, cell) and not self.report.has(cell, query.name, state)
            }
            if wanted:
                names = {name for name, _ in wanted}
                complete &= self._measured(part, [query for query in queries if query.name in names], wanted)
        return complete

    def _can_be(self, query: Query, state: State, cell: Cell) -> bool:
        """Whether a state applies to a query: without literals it is never a new statement."""
        if state is not State.NEW_STATEMENT or query.others or cell.engine == "cudf-polars":
            return True
        self._skip(f"query {query.name} of {cell.suite} as a new statement", "it has no literals that could be others")
        return False

    def _measured(self, cell: Cell, queries: list[Query], wanted: set[tuple[str, State]]) -> bool:
        prepared = self._prepared(cell)
        if prepared is None:
            return False
        data, answers = prepared
        try:
            with self._timed("answers"):
                answers.learn((query.sql for query in queries), self.how.deadline)
            for row in worker.measure(
                cell, data, queries, self.how, answers, lambda step: self.told(f"{cell.key}: {step}")
            ):
                wanted.discard((row["query"], State(row["state"])))
                if not self.report.has(cell, row["query"], State(row["state"])):
                    self.report.add(row)
        except EngineUnavailableError as error:
            self._missing[cell.engine] = str(error)
            self._skip(cell.engine, str(error))
            return True
        return not wanted

    def _filters_of(self, name: str, size: float) -> None:
        """The filters of selective transfers at a size that was measured."""
        rows = self.report.content["filters"]
        done = {row["query"] for row in rows if (row["suite"], row["size"]) == (name, size)}
        chosen = [one for one in suites.suite(name).selections if one.query not in done]
        chosen = [one for one in chosen if self.queries is None or one.query in self.queries]
        gone = self.discard and (name, size) not in self._answers
        if not chosen or self.how.late or gone:
            return
        data = self._made(name, size, tables=True, duckdb=False)
        if data is None:
            return
        totals = {one.query: _rows(data.parquet[one.table]) for one in chosen}
        self.told(f"{name}/{size:g}: filters")
        with self._timed("filters"):
            for query, row in worker.filters(data, {one.query: one.sql for one in chosen}, self.how, self.told):
                rows.append({"suite": name, "size": size, "query": query, "rows": totals[query], **row})
                self.report.save()

    def _skip(self, what: str, reason: str) -> None:
        if self.report.skip(what, reason):
            self.said(f"not measured: {what}: {reason}")


def _together(cell: Cell) -> list[tuple[State, ...]]:
    """The states of a cell in the groups that are measured in one go: new processes, and one process for the others."""
    new = tuple(state for state in cell.states if state is State.NEW_PROCESS)
    return [states for states in (new, tuple(state for state in cell.states if state not in new)) if states]


def _rows(path: Path) -> int:
    import pyarrow.parquet

    return int(pyarrow.parquet.ParquetFile(path).metadata.num_rows)


def gpu_name() -> str | None:
    """The first GPU's name."""
    from warpmill import _warpmill

    gpus = json.loads(_warpmill.devices())["gpus"]
    return str(gpus[0]["name"]) if gpus else None


def commit() -> str | None:
    """The commit of the checkout that this package is in, with a plus sign where files differ from it."""

    def git(*arguments: str) -> str:
        folder = str(Path(__file__).parent)
        try:
            done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    found = git("rev-parse", "--short=12", "HEAD")
    return f"{found}{'+' if git('status', '--porcelain', '--untracked-files=no') else ''}" if found else None


def sites(quick: bool) -> tuple[tuple[str, ...], list[Row]]:
    """The sites of Warpmill here, the CPU and one device at most, and those that are missing with the reason.

    A quick run has the simulated device, on every machine: its plan is the same everywhere.
    """
    from warpmill import _warpmill

    found = json.loads(_warpmill.devices())
    if found["gpus"] and not quick:
        return ("cpu", "gpu"), []
    missing: list[Row] = [] if quick else [{"what": "the GPU", "reason": found["no_gpu"]}]
    if found["no_simulated_device"]:
        return ("cpu",), [*missing, {"what": "the simulated device", "reason": found["no_simulated_device"]}]
    return ("cpu", "sim"), missing
