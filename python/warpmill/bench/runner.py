"""The measurement: every engine in turn, query by query, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from warpmill.bench.engines import UnsupportedError
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill.bench.engines import Engine, Measured

    Rows = list[tuple[Any, ...]]
    Kept = dict[str, list[tuple[str, Callable[[], Rows]]]]


@dataclass
class Outcome:
    """One engine on one query."""

    engine: str
    query: str
    runs_ms: list[float] = field(default_factory=list)
    rows: int | None = None
    #: None: not asked for, or the engine is the reference.
    verified: bool | None = None
    fallbacks: int = 0
    bytes_read: int | None = None
    #: Milliseconds in kernels, run by run; empty where no program ran on a device.
    kernels_ms: list[float] = field(default_factory=list)
    #: The devices that ran programs in any run, and the device's name.
    devices: set[str] = field(default_factory=set)
    device_name: str | None = None
    #: The reason why programs did not run on the device, one text per program of the last run.
    not_on_device: tuple[str, ...] = ()
    #: Copies between host and device in the last run.
    transfers: tuple[dict[str, Any], ...] = ()
    #: The profile of every run whose kernels were timed, or else of every timed run, for engines that have one.
    profiles: list[dict[str, Any]] = field(default_factory=list)
    #: The reason why there are no times, or how the result differs.
    error: str | None = None

    @property
    def median_ms(self) -> float | None:
        """The median time."""
        return statistics.median(self.runs_ms) if self.runs_ms else None

    @property
    def kernel_ms(self) -> float | None:
        """The median time in kernels."""
        return statistics.median(self.kernels_ms) if self.kernels_ms else None

    def add(self, milliseconds: float, measured: Measured) -> None:
        """Count a timed run."""
        self.runs_ms.append(round(milliseconds, 3))
        if measured.kernel_ms is not None:
            self.kernels_ms.append(measured.kernel_ms)
        self.transfers = measured.transfers
        self.devices |= measured.devices
        self.device_name = measured.device_name or self.device_name
        self.not_on_device = measured.not_on_device
        if measured.profile:
            self.profiles.append(measured.profile)

    def add_kernels(self, profiled: list[Measured]) -> None:
        """Take kernel times, and profiles, from runs in which kernels were timed."""
        self.kernels_ms = [measured.kernel_ms for measured in profiled if measured.kernel_ms is not None]
        self.profiles = [measured.profile for measured in profiled]


@dataclass(frozen=True)
class Answer:
    """The rows that a query must have."""

    rows: Rows
    columns: list[str]
    sql: str

    def judge(self, outcome: Outcome, rows: Rows, run: str) -> None:
        """Compare the rows of a run; the first difference of any run stays."""
        if outcome.verified is False:
            return
        found = difference(rows, self.rows, self.columns, self.sql)
        outcome.verified = found is None
        outcome.error = f"{run}: {found}" if found else None


def measure(
    engines: list[Engine],
    queries: list[tuple[str, str]],
    runs: int,
    reference: Engine | None,
    told: Callable[[str, str], None],
) -> list[Outcome]:
    """Run every query on every engine: one warm-up, then `runs` rounds that take the engines in turn.

    Timing kernels takes time: it is done in as many further runs, whose own times do not count.

    With a `reference`, its rows are what those of every run of the others are compared with, when all rounds of the
    query are over: until then results are kept. `told(query, engine)` hears what comes next.
    """
    outcomes: list[Outcome] = []
    for name, sql in queries:
        answer = None
        if reference:
            given = reference.run(sql)
            answer = Answer(reference.rows(given), given.column_names, sql)
        row = {engine.name: Outcome(engine.name, name) for engine in engines}
        # The rows of the engines that are compared, given once (they may be used up then), and the run they are of.
        kept: Kept = {engine.name: [] for engine in engines if answer and engine is not reference}
        ready = []
        for engine in engines:
            told(name, engine.name)
            outcome = row[engine.name]
            try:
                engine.admit(sql)
                result = engine.run(sql)
            except Exception as error:  # whatever a peer raises: it is reported, and the run goes on
                outcome.error = _reason(error)
                if engine.name in kept:
                    outcome.verified = (
                        False if not isinstance(error, UnsupportedError) or engine.name == "warpmill" else None
                    )
                continue
            rows = engine.rows(result)
            outcome.rows = len(rows)
            measured = engine.measured(result)
            outcome.fallbacks, outcome.bytes_read = measured.fallbacks, measured.bytes_read
            _keep(kept, engine, "the first run", [partial(list, rows)])
            ready.append(engine)
        for _ in range(runs):
            for engine in ready:
                told(name, engine.name)
                engine.ready()
                start = time.perf_counter()
                result = engine.run(sql)
                elapsed = time.perf_counter() - start
                row[engine.name].add(elapsed * 1000, engine.measured(result))
                _keep(kept, engine, "a timed run", [partial(engine.rows, result)])
        for engine in ready:
            if profiled := _profiled(engine, sql, runs) if row[engine.name].devices - {"cpu"} else []:
                row[engine.name].add_kernels([engine.measured(result) for result in profiled])
                _keep(kept, engine, "a run with its kernels timed", [partial(engine.rows, r) for r in profiled])
            for run, get in kept.get(engine.name, []):
                if answer:
                    answer.judge(row[engine.name], get(), run)
        outcomes.extend(row.values())
    return outcomes


def _keep(kept: Kept, engine: Engine, run: str, rows: list[Callable[[], Rows]]) -> None:
    if engine.name in kept:
        kept[engine.name] += [(run, get) for get in rows]


def _profiled(engine: Engine, sql: str, runs: int) -> list[Any]:
    """Results of runs whose kernels were timed: none where there are no kernels."""
    first = engine.profiled(sql)
    others = [engine.profiled(sql) for _ in range(runs - 1)] if first is not None else []
    return [result for result in (first, *others) if result is not None]


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:500]
