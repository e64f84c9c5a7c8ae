"""One cell: an engine's process, its queries in their states, every answer compared."""

from __future__ import annotations

import math
import statistics
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpmill.bench.engines import IN_MEMORY, EngineUnavailableError, Measured, Setup, UnsupportedError, of_profile
from warpmill.bench.processes import Launch, Served, launch, once
from warpmill.bench.states import Source, State
from warpmill_bench.maxbench.answers import MOST_ROWS
from warpmill_bench.maxbench.cells import NO_SQL, PANDAS
from warpmill_bench.maxbench.profiles import bytes_copied, operators, transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from warpmill.bench.data import Data
    from warpmill.bench.queries import Query
    from warpmill_bench.maxbench.answers import Answers
    from warpmill_bench.maxbench.cells import Cell

    Row = dict[str, Any]

#: Unmeasured runs: afterwards plans are cached and data are resident.
WARM = 2

#: The same where every run copies its input: the first ones take up to ten times as long as later ones.
WARM_COPIED = 6

#: The same for Parquet files with cached columns, which the background encodes during the first runs.
WARM_KEPT = 4


@dataclass(frozen=True)
class How:
    """The options of all cells."""

    threads: int
    runs: int
    processes: int
    #: Seconds that a statement may take.
    seconds: float
    #: The value of `time.monotonic` after which nothing is started; None: never.
    deadline: float | None = None
    cudf_python: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """Seconds until the deadline; infinite without one."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def within(self, seconds: float) -> float:
        """So many seconds, but not more than are left."""
        return max(min(seconds, self.left), 0.0)


class LateError(Exception):
    """The time was over before a process had answered: that is no property of the engine."""


def launched(cell: Cell, data: Data, how: How) -> Launch:
    """The process of a cell's engine."""
    chosen = {**how.settings, **cell.settings} if cell.engine == "warpmill" else {}
    found = launch(cell.engine, Setup(data, cell.source, how.threads, chosen, how.cudf_python))
    extra: Row = {}
    if cell.engine == "duckdb":
        extra["arrow"] = True
    elif cell.engine in IN_MEMORY:
        extra["in_memory"] = cell.source is Source.TABLES
        if cell.engine == "pandas":
            extra["queries"] = PANDAS[cell.suite]
    return replace(found, opening={**found.opening, **extra}, limit=how.seconds)


def measure(
    cell: Cell, data: Data, queries: list[Query], how: How, answers: Answers, told: Callable[[str], None]
) -> Iterator[Row]:
    """Rows for each query and state, as soon as available; runs that the deadline ends are missing.

    Raises `EngineUnavailableError` where the engine is not installed.
    """
    try:
        yield from _measured(cell, data, queries, how, answers, told)
    except LateError:
        return


def _measured(
    cell: Cell, data: Data, queries: list[Query], how: How, answers: Answers, told: Callable[[str], None]
) -> Iterator[Row]:
    answers.learn((query.sql for query in queries), how.deadline)
    if how.late:
        return
    if State.NEW_PROCESS in cell.states:
        yield from _new_processes(cell, data, queries, how, answers, told)
    states: list[State] = [state for state in (State.NEW_STATEMENT, State.REPEATED) if state in cell.states]
    if not states or how.late:
        return
    if State.NEW_STATEMENT in states:
        answers.learn((sql for query in queries for sql in query.others), how.deadline)
        if how.late:
            return
    with _Process(launched(cell, data, how), how) as process:
        for query in queries:
            if how.late:
                return
            told(f"query {query.name}")
            yield from _Query(cell, query, how, answers, process).measure(states)


class _Process:
    """The process of an engine; another one after a statement that ended it. Raises `LateError` at the deadline."""

    def __init__(self, launched: Launch, how: How) -> None:
        self._launched, self._how = launched, how
        self._served = self._started()

    def _started(self) -> Served:
        with _no_later(self._how):
            return _Opened(self._launched, self._how.left)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._served.close()

    def ask(self, name: str, sql: str, most_rows: int | None = None) -> Row:
        """The reply to a statement; `UnsupportedError` where there is none."""
        most_rows = MOST_ROWS if most_rows is None else most_rows
        if self._served.over:
            self._served.close()
            self._served = self._started()
        seconds = self._how.within(self._how.seconds)
        with _no_later(self._how):
            return self._served.answer_within(seconds, {"name": name, "sql": sql, "most_rows": most_rows})


class _Opened(Served):
    """A process that is ended if it does not open its tables within a time: some engines read all of them."""

    def __init__(self, launched: Launch, seconds: float) -> None:
        self._seconds = seconds
        super().__init__(launched)

    def _ask(self, request: Row) -> Row:
        if "engine" not in request or math.isinf(self._seconds):
            return super()._ask(request)
        timer = threading.Timer(max(self._seconds, 0.0), self._process.kill)
        timer.start()
        try:
            return super()._ask(request)
        finally:
            timer.cancel()


@contextmanager
def _no_later(how: How) -> Iterator[None]:
    """Failures after the deadline are `LateError`: what failed may have been ended for it."""
    try:
        yield
    except (UnsupportedError, EngineUnavailableError) as error:
        if how.late:
            raise LateError from error
        raise


class _Query:
    """The runs of one query in a process."""

    def __init__(self, cell: Cell, query: Query, how: How, answers: Answers, process: _Process) -> None:
        self._cell, self._query, self._how = cell, query, how
        self._answers, self._process = answers, process
        #: The first difference of any run, by state.
        self._wrong: dict[State, str] = {}
        #: The reason why rows that are too many to be sent are compared by their number only.
        self._counted: str | None = None

    def measure(self, states: list[State]) -> Iterator[Row]:
        """A row for each state; none for new statements of a query that has no literals."""
        try:
            first = self._warm_up(states)
        except UnsupportedError as error:
            for state in states:
                yield {**self._row(state), "error": str(error)}
            return
        # The literals of a query that is no SQL stay.
        fixed = self._cell.engine in NO_SQL
        for state in states:
            texts = [self._query.sql] * self._how.runs
            if state is State.NEW_STATEMENT and not fixed:
                texts = list(self._query.others[: self._how.runs])
            if not texts:
                continue
            row = {**self._row(state), **first}
            try:
                row |= self._timed(state, texts)
                if state is State.REPEATED and self._cell.engine == "warpmill":
                    row |= self._profiled()
            except UnsupportedError as error:
                yield {**row, "runs_ms": [], "median_ms": None, "best_ms": None, "error": f"a timed run: {error}"}
                continue
            yield {**row, **self._verdict(state)}

    def _warm_up(self, states: list[State]) -> Row:
        """The first runs; bytes that the very first one copied stay on the device, where data stays there."""
        reply = self._ask(self._query.sql, states[-1], digest=True)
        found: Row = {"rows": reply["count"], "first_ms": _ms(reply)}
        if reply["profile"]:
            found["first_to_device_bytes"] = bytes_copied(of_profile(reply["profile"]).transfers, "to device")
        for _ in range(_warm(self._cell) - 1):
            self._process.ask(self._query.name, self._query.sql, 0)
        return found

    def _timed(self, state: State, texts: list[str]) -> Row:
        times, measured = [], Measured()
        kept = templates = 0
        for sql in texts:
            reply = self._ask(sql, state)
            times.append(_ms(reply))
            measured = of_profile(reply["profile"])
            kept += bool(measured.plan_cached)
            templates += bool(measured.plan_from_template)
        row: Row = {"runs_ms": times, "median_ms": round(statistics.median(times), 3), "best_ms": min(times)}
        if self._cell.engine != "warpmill":
            return row
        return {
            **row,
            "plans_kept": kept,
            "plans_from_templates": templates,
            "fallbacks": measured.fallbacks,
            "bytes_read": measured.bytes_read,
            "devices": sorted(measured.devices),
            "device_name": measured.device_name,
            "not_on_device": list(measured.not_on_device),
            "transfers": transfers(measured.transfers),
        }

    def _profiled(self) -> Row:
        """Kernels and copies timed, in further runs: the times of the median one by kernel time."""
        self._set("kernels")
        try:
            runs = [self._ask(self._query.sql, State.REPEATED)["profile"] for _ in range(self._how.runs)]
        finally:
            self._set(self._how.settings.get("profile", "on"))
        runs.sort(key=lambda profile: of_profile(profile).kernel_ms or 0.0)
        profile = runs[len(runs) // 2]
        measured = of_profile(profile)
        timed = transfers(measured.transfers)
        found: Row = {"kernel_ms": measured.kernel_ms, "operators_ms": operators(profile)}
        return found | ({"transfers": timed} if timed else {})

    def _set(self, profile: str) -> None:
        self._process.ask("", f"SET warpmill.profile = '{profile}'", 0)

    def _ask(self, sql: str, state: State, digest: bool = False) -> Row:
        """A run with compared rows; `digest`: by a statement over them, where there are too many to send."""
        reply = self._process.ask(self._query.name, sql)
        about = self._answers.digest(sql) if digest else None
        if about is not None and reply["rows"] is None:
            reply["digested"] = self._digested(about)
        counted = "digested" not in reply or reply["digested"] is None
        wrong = self._answers.difference(self._query.name, sql, self._cell.engine, reply, counted)
        if wrong:
            self._wrong.setdefault(state, wrong)
        return reply

    def _digested(self, about: str) -> list[Any] | None:
        """The row of aggregates over all rows; None where the engine cannot run that statement."""
        if self._cell.engine in NO_SQL:
            self._counted = "the engine takes no SQL"
            return None
        try:
            (row,) = self._process.ask(self._query.name, about, 1)["rows"]
        except UnsupportedError as error:
            self._counted = str(error)
            return None
        return list(row)

    def _verdict(self, state: State) -> Row:
        wrong = self._wrong.get(state)
        # DuckDB is the reference; its own tables are compared with its own reading of files.
        unknown = self._answers.unknown.get(self._query.sql)
        same = None if self._cell.engine == "duckdb" or self._counted or unknown else True
        found: Row = {"verified": same if wrong is None else False}
        if unknown:
            found["not_compared"] = f"DuckDB did not run it: {unknown}"
        if wrong:
            found["error"] = wrong
        return found | ({"rows_counted_only": self._counted} if self._counted else {})

    def _row(self, state: State) -> Row:
        return {**self._cell.as_json(), "query": self._query.name, "state": state.value, "verified": None}


def _warm(cell: Cell) -> int:
    """The number of unmeasured runs."""
    if cell.location == "kept":
        return WARM_KEPT
    return WARM_COPIED if cell.source is Source.TABLES and cell.copy_policy == "per-query" else WARM


def _new_processes(
    cell: Cell, data: Data, queries: list[Query], how: How, answers: Answers, told: Callable[[str], None]
) -> Iterator[Row]:
    """Processes that are started for one query each, after one that warms up files."""
    for query in queries:
        if how.late:
            return
        row: Row = {**cell.as_json(), "query": query.name, "state": State.NEW_PROCESS.value, "verified": None}
        times, steps, wrong = [], [], None
        try:
            for number in range(how.processes + 1):
                told(f"query {query.name}, process {number + 1} of {how.processes + 1}")
                started = _without_arrow(launched(cell, data, how))
                with _no_later(how):
                    reply = once(replace(started, limit=how.within(started.limit or how.seconds)), query, MOST_ROWS)
                wrong = wrong or answers.difference(query.name, query.sql, cell.engine, reply, counted=True)
                if number:
                    times.append(round((reply["answered"] - reply["started"]) / 1e6, 3))
                    steps.append(_steps(reply))
        except UnsupportedError as error:
            yield {**row, "error": str(error)}
            continue
        row |= {"runs_ms": times, "median_ms": round(statistics.median(times), 3), "best_ms": min(times)}
        row["steps_ms"] = {name: round(statistics.median(one[name] for one in steps), 3) for name in steps[0]}
        unknown = answers.unknown.get(query.sql)
        row["verified"] = wrong is None if (cell.engine != "duckdb" and not unknown) or wrong else None
        if unknown:
            row["not_compared"] = f"DuckDB did not run it: {unknown}"
        yield {**row, **({"error": wrong} if wrong else {})}


def _without_arrow(how: Launch) -> Launch:
    """DuckDB with Python rows: a new process would have to import Arrow before it answers."""
    return replace(how, opening={key: value for key, value in how.opening.items() if key != "arrow"})


def _steps(reply: Row) -> dict[str, float]:
    imported, opened = reply["imported"] - reply["started"], reply["opened"] - reply["imported"]
    return {"import": imported / 1e6, "open": opened / 1e6, "statement": _ms(reply)}


def _ms(reply: Row) -> float:
    return round(float(reply["answered"] - reply["begun"]) / 1e6, 3)


def filters(data: Data, statements: dict[str, str], how: How, told: Callable[[str], None]) -> Iterator[tuple[str, Row]]:
    """Filters that a host could apply before rows are copied, run by Warpmill's CPU back end: times and rows."""
    opening = launch("warpmill", Setup(data, Source.TABLES, how.threads, {**how.settings, "device": "cpu"}))
    try:
        process = _Process(replace(opening, limit=how.seconds), how)
    except LateError:
        return
    with process:
        for name, sql in statements.items():
            if how.late:
                return
            told(f"filter of query {name}")
            try:
                process.ask(name, sql, 0)
                replies = [process.ask(name, sql, 0) for _ in range(how.runs)]
            except LateError:
                return
            times = [_ms(reply) for reply in replies]
            read = of_profile(replies[-1]["profile"]).bytes_read
            yield (
                name,
                {
                    "runs_ms": times,
                    "median_ms": round(statistics.median(times), 3),
                    "rows_kept": replies[-1]["count"],
                    "bytes_read": read,
                },
            )


__all__ = ["EngineUnavailableError", "How", "filters", "launched", "measure"]
