"""The measurement: every engine in turn, query by query, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from warpmill.bench.engines import UnsupportedError
from warpmill.bench.states import State
from warpmill.bench.verify import EXACT, difference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from warpmill.bench.engines import Engine, Measured
    from warpmill.bench.queries import Query
    from warpmill.bench.verify import Tolerance

    Rows = list[tuple[Any, ...]]


@dataclass
class Outcome:
    """One engine on one query in one state."""

    engine: str
    query: str
    state: State = State.REPEATED
    runs_ms: list[float] = field(default_factory=list)
    rows: int | None = None
    #: None: not requested, or the engine is the reference.
    verified: bool | None = None
    fallbacks: int = 0
    #: Timed runs whose plan was kept from an earlier one; None for engines that do not say.
    plans_kept: int | None = None
    #: Timed runs whose optimized plan was that of a statement with other constants.
    from_templates: int = 0
    #: Milliseconds of making or loading kernels, run by run; empty where no program ran on a device.
    prepares_ms: list[float] = field(default_factory=list)
    #: Milliseconds of the steps of new processes: importing the engine, opening tables, the statement.
    steps_ms: dict[str, list[float]] = field(default_factory=dict)
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

    @property
    def prepare_ms(self) -> float | None:
        """The median time of making or loading kernels."""
        return statistics.median(self.prepares_ms) if self.prepares_ms else None

    def add(self, milliseconds: float, measured: Measured) -> None:
        """Count a timed run."""
        self.runs_ms.append(round(milliseconds, 3))
        if measured.kernel_ms is not None:
            self.kernels_ms.append(measured.kernel_ms)
        if measured.prepare_ms is not None:
            self.prepares_ms.append(measured.prepare_ms)
        if measured.plan_cached is not None:
            self.plans_kept = (self.plans_kept or 0) + measured.plan_cached
        self.from_templates += bool(measured.plan_from_template)
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

    @classmethod
    def of(cls, reference: Engine, sql: str) -> Answer:
        """The answer of the reference."""
        given = reference.run(sql)
        return cls(reference.rows(given), given.column_names, sql)

    def judge(self, outcome: Outcome, rows: Rows, run: str, tolerance: Tolerance = EXACT) -> None:
        """Compare the rows of a run; the first difference of any run stays."""
        if outcome.verified is False:
            return
        found = difference(rows, self.rows, self.columns, self.sql, tolerance)
        outcome.verified = found is None
        outcome.error = f"{run}: {found}" if found else None


@dataclass(frozen=True)
class Kept:
    """A run whose rows are compared later with the reference's rows for the same text."""

    outcome: Outcome
    sql: str
    run: str
    rows: Callable[[], Rows]


def measure(
    engines: list[Engine],
    queries: list[Query],
    runs: int,
    reference: Engine | None,
    told: Callable[[str, str], None],
    states: Collection[State] = (State.REPEATED,),
) -> list[Outcome]:
    """Run every query on every engine: one warm-up, then `runs` rounds that take the engines in turn.

    A round has one run of the same text, and one of a text that no engine has seen, as far as `states` asks for them.
    Timing kernels takes time: it is done in as many further runs, whose own times do not count.

    With a `reference`, its rows are what those of every run of the others are compared with, when all rounds of the
    query are over: until then results are kept. `told(query, engine)` hears what comes next.
    """
    wanted = [state for state in (State.NEW_STATEMENT, State.REPEATED) if state in states]
    outcomes: list[Outcome] = []
    for query in queries if wanted else []:
        row = {(e.name, state): Outcome(e.name, query.name, state) for state in wanted for e in engines}
        one = _Measurement(query, row, wanted, reference)
        ready = []
        for engine in engines:
            told(query.name, engine.name)
            if one.warm_up(engine):
                ready.append(engine)
        for number in range(runs):
            for state in reversed(wanted):
                for engine in ready:
                    told(query.name, engine.name)
                    one.run(engine, state, number)
        for engine in ready:
            one.profile(engine, runs)
        one.judge({engine.name: engine.tolerance for engine in engines})
        outcomes.extend(row.values())
    return outcomes


@dataclass
class _Measurement:
    """The runs of one query."""

    query: Query
    row: dict[tuple[str, State], Outcome]
    states: list[State]
    reference: Engine | None
    kept: list[Kept] = field(default_factory=list)

    def warm_up(self, engine: Engine) -> bool:
        """The first run; whether there was one."""
        mine = [self.row[engine.name, state] for state in self.states]
        try:
            engine.admit(self.query.sql)
            result = engine.run(self.query.sql)
        except Exception as error:  # whatever a peer raises: it is reported, and the run goes on
            wrong = not isinstance(error, UnsupportedError) or engine.name == "warpmill"
            for outcome in mine:
                outcome.error = _reason(error)
                if self._compared(engine):
                    outcome.verified = False if wrong else None
            return False
        rows = engine.rows(result)
        measured = engine.measured(result)
        for outcome in mine:
            outcome.rows = len(rows)
            outcome.fallbacks, outcome.bytes_read = measured.fallbacks, measured.bytes_read
        # Rows can be read once; they may be consumed then.
        self._keep(engine, mine[-1], self.query.sql, "the first run", partial(list, rows))
        return True

    def run(self, engine: Engine, state: State, number: int) -> None:
        """A timed run; after one that failed there are no more in this state."""
        outcome = self.row[engine.name, state]
        if outcome.error:
            return
        changed = state is State.NEW_STATEMENT and not engine.fixed_text
        sql = self.query.others[number] if changed else self.query.sql
        engine.ready()
        start = time.perf_counter()
        try:
            result = engine.run(sql)
        except Exception as error:  # as above
            outcome.error = f"a timed run: {_reason(error)}"
            outcome.verified = False if self._compared(engine) else None
            outcome.runs_ms.clear()
            return
        elapsed = (time.perf_counter() - start) * 1000
        measured = engine.measured(result)
        outcome.add(elapsed if measured.elapsed_ms is None else measured.elapsed_ms, measured)
        self._keep(engine, outcome, sql, "a timed run", partial(engine.rows, result))

    def profile(self, engine: Engine, runs: int) -> None:
        """Further runs of the same text, their kernels timed."""
        outcome = self.row.get((engine.name, State.REPEATED))
        if outcome is None or not outcome.devices - {"cpu"}:
            return
        sql = self.query.sql
        first = engine.profiled(sql)
        others = [engine.profiled(sql) for _ in range(runs - 1)] if first is not None else []
        if profiled := [result for result in (first, *others) if result is not None]:
            outcome.add_kernels([engine.measured(result) for result in profiled])
            for result in profiled:
                self._keep(engine, outcome, sql, "a run with its kernels timed", partial(engine.rows, result))

    def judge(self, tolerances: dict[str, Tolerance]) -> None:
        """Compare the rows of all runs that were kept."""
        answers: dict[str, Answer] = {}
        for kept in self.kept:
            if kept.sql not in answers and self.reference:
                answers[kept.sql] = Answer.of(self.reference, kept.sql)
            answers[kept.sql].judge(kept.outcome, kept.rows(), kept.run, tolerances[kept.outcome.engine])

    def _compared(self, engine: Engine) -> bool:
        return self.reference is not None and engine is not self.reference

    def _keep(self, engine: Engine, outcome: Outcome, sql: str, run: str, rows: Callable[[], Rows]) -> None:
        if self._compared(engine):
            self.kept.append(Kept(outcome, sql, run, rows))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:500]
