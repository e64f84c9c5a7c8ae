"""Engines in processes of their own, and the measurement of new ones: from a process's start to the last row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpmill.bench import child
from warpmill.bench.engines import (
    IN_MEMORY,
    TOLERANCES,
    TRIAL_SECONDS,
    EngineUnavailableError,
    Measured,
    UnsupportedError,
    of_profile,
)
from warpmill.bench.runner import Answer, Outcome
from warpmill.bench.states import Source, State
from warpmill.bench.verify import EXACT
from warpmill.cli.doctor import memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill.bench.engines import Engine, Setup
    from warpmill.bench.queries import Query

    Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Launch:
    """The command that starts an engine's process, and the first request to it."""

    command: list[str]
    opening: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    #: Seconds that a process may take; None: no limit.
    limit: float | None = None

    def variables(self) -> dict[str, str]:
        """The environment of the process."""
        return {**os.environ, **self.environment}


def launch(name: str, setup: Setup) -> Launch:
    """The process of an engine."""
    # Without the script's own folder in `sys.path`: it has modules of the same names.
    python = setup.cudf_python if name == "cudf-polars" and setup.cudf_python else sys.executable
    databases = {"warpmill": setup.data.database, "duckdb": setup.data.duckdb}
    database = databases.get(name) if setup.source is Source.TABLES else None
    opening: dict[str, Any] = {
        "engine": name,
        "database": None if database is None else str(database.absolute()),
        "tables": setup.files,
        "threads": setup.threads,
        "settings": {"fallback": "allow", **setup.settings},
    }
    if name == "cudf-polars":
        (folder,) = {path.absolute().parent for path in setup.data.parquet.values()}
        opening |= {"folder": str(folder), "sf": setup.data.sf, "executor": setup.cudf_executor}
    polars = name == "polars"
    if polars:
        # A bad plan could take the machine.
        opening["memory_limit"] = int((memory() or 8 << 30) * 0.6)
    return Launch(
        [python, "-P", child.__file__],
        opening,
        {"POLARS_MAX_THREADS": str(setup.threads)} if polars else {},
        TRIAL_SECONDS if polars else None,
    )


class Served:
    """A process of an engine that answers one statement after the other."""

    def __init__(self, how: Launch) -> None:
        # All other output of the process: the reason of an early end is read from it.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the process
        try:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                how.command, text=True, env=how.variables(), stdin=pipe, stdout=pipe, stderr=self._said
            )
        except OSError as error:
            self._said.close()
            raise EngineUnavailableError(f"{how.command[0]} does not start: {error}") from error
        self.opened = self._ask(how.opening)
        if "error" in self.opened:
            self.close()
            raise unavailable(how, self.opened)

    def answer(self, name: str, sql: str) -> dict[str, Any]:
        """The reply to a query; `UnsupportedError` for an error reply."""
        reply = self._ask({"name": name, "sql": sql})
        if "error" in reply:
            raise UnsupportedError(reply["error"])
        return reply

    def answer_within(self, seconds: float, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; `UnsupportedError` after a timeout, for which the process is ended."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            reply = self._ask(request)
        finally:
            timer.cancel()
        if late.is_set():
            self._process.wait()
            raise UnsupportedError(f"took more than {seconds:g} s")
        if "error" in reply:
            raise UnsupportedError(reply["error"])
        return reply

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Requests that the process did not read before its end.
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A process that is over gives no reply.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line:
            return _reply(line)
        code = self._process.wait()
        self._said.seek(0)
        return {"error": ended(code, self._said.read()), "missing": False}


def unavailable(how: Launch, reply: dict[str, Any]) -> EngineUnavailableError:
    """The error of an engine that did not open its tables."""
    name, python = how.opening["engine"], how.command[0]
    if reply.get("missing"):
        hint = " (--cudf-python names the Python that has it)" if name == "cudf-polars" else ""
        return EngineUnavailableError(f"{name} is not installed for {python}{hint}: {reply['error']}")
    return EngineUnavailableError(f"{name} did not open its tables in a process of {python}: {reply['error']}")


def ended(code: int, said: str) -> str:
    """The reason of a process's early end: its last words, or the signal."""
    lines = said.strip().splitlines()
    return lines[-1][:300] if lines else f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"


def once(how: Launch, query: Query, most_rows: int | None = None) -> dict[str, Any]:
    """Start a process for one query: its start time, and its reply with rows (unless too many) and times."""
    asked = {"name": query.name, "sql": query.sql, "most_rows": most_rows}
    requests = "".join(json.dumps(line) + "\n" for line in (how.opening, asked))
    started = time.monotonic_ns()
    try:
        variables = how.variables()
        done = subprocess.run(
            how.command, input=requests, capture_output=True, text=True, env=variables, timeout=how.limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"took more than {how.limit:g} s") from None
    except OSError as error:
        raise EngineUnavailableError(f"{how.command[0]} does not start: {error}") from error
    replies = [_reply(line) for line in done.stdout.splitlines()]
    if not replies or "error" in replies[0]:
        raise unavailable(how, replies[0] if replies else {"error": ended(done.returncode, done.stderr)})
    if len(replies) < 2:
        raise UnsupportedError(ended(done.returncode, done.stderr))
    if "error" in replies[1]:
        raise UnsupportedError(replies[1]["error"])
    return {"started": started, **replies[0], **replies[1]}


def rows_of(reply: dict[str, Any]) -> Rows:
    """The rows of a reply."""
    return [tuple(child.decoded(value) for value in row) for row in reply["rows"]]


def _reply(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": f"replied {line[:200]!r}", "missing": False}


@dataclass
class Started:
    """One engine on one query in new processes, and the rows of all of them."""

    query: Query
    outcome: Outcome
    answers: list[Rows] = field(default_factory=list)


def can_start(name: str, setup: Setup) -> bool:
    """Whether a new process of an engine finds tables."""
    return setup.source is Source.PARQUET or name not in IN_MEMORY


def measure(
    names: list[str], setup: Setup, queries: list[Query], runs: int, told: Callable[[str, str], None]
) -> list[Started]:
    """Start processes for every query: one that warms up, then `runs` rounds that take the engines in turn.

    The first finds files in no cache and kernels not compiled, perhaps; those that are timed find both. Raises
    `EngineUnavailableError` where an engine is not installed.
    """
    launches = {name: launch(name, setup) for name in names if can_start(name, setup)}
    measured: list[Started] = []
    for query in queries:
        row = {name: Started(query, Outcome(name, query.name, State.NEW_PROCESS)) for name in launches}
        for number in range(runs + 1):
            for name, how in launches.items():
                one = row[name]
                if one.outcome.error:
                    continue
                told(query.name, f"{name}, process {number + 1} of {runs + 1}")
                try:
                    reply = once(how, query)
                except UnsupportedError as error:
                    one.outcome.error = str(error)
                    continue
                one.answers.append(rows_of(reply))
                one.outcome.rows = len(one.answers[0])
                if number:
                    count(one.outcome, reply)
        measured += row.values()
    return measured


def count(outcome: Outcome, reply: dict[str, Any]) -> None:
    """Count a timed process."""
    started = reply["started"]
    measured = of_profile(reply["profile"]) if reply["profile"] else Measured()
    outcome.add((reply["answered"] - started) / 1e6, measured)
    outcome.fallbacks, outcome.bytes_read = measured.fallbacks, measured.bytes_read
    steps = [("import", started, "imported"), ("open", "imported", "opened"), ("statement", "begun", "answered")]
    for title, begun, done in steps:
        since = begun if isinstance(begun, int) else reply[begun]
        outcome.steps_ms.setdefault(title, []).append(round((reply[done] - since) / 1e6, 3))


def judge(measured: list[Started], reference: Engine) -> None:
    """Compare the rows of all processes with those of the reference."""
    answers: dict[str, Answer] = {}
    for one in measured:
        if one.outcome.engine == reference.name:
            continue
        if one.outcome.error:
            one.outcome.verified = False if one.outcome.engine == "warpmill" else None
            continue
        if one.query.name not in answers:
            answers[one.query.name] = Answer.of(reference, one.query.sql)
        for rows in one.answers:
            answers[one.query.name].judge(one.outcome, rows, "a new process", TOLERANCES.get(one.outcome.engine, EXACT))
