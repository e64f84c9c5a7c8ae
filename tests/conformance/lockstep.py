"""DuckDB's test files: each statement through plain DuckDB, then through DuckDB with Warpmill."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from conformance.accepted import explained
from conformance.answers import Answer, Failure
from conformance.changed import Changed
from conformance.compare import Difference, Judge
from conformance.doors import DuckDoor, NativeDatabase, WarpmillDuckDoor
from conformance.ordering import Parser
from conformance.outcome import Outcome
from conformance.script import Corpus, Reconnect, Reopen, Script, Step, StopError, Unpack
from conformance.sqllogic import Record, UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CORPUS = "duckdb"
#: The same files through `warpmill.connect()`.
NATIVE = "duckdb-native"
#: The same files with their queries run in other forms, too.
FORMS = "duckdb-forms"
#: The forms that a query's rows are put through: most queries of the files only read a table, which DuckDB does itself.
_DIRECT_FORMS = ("SELECT DISTINCT * FROM (\n{}\n)", "SELECT * FROM (\n{}\n) ORDER BY ALL")
#: The rows as a table, and queries over it.
_TABLE = "conformance_rows"
_TABLE_FORMS = (
    f"SELECT *, count(*) FROM {_TABLE} GROUP BY ALL",
    f"SELECT count(*), min(COLUMNS(*)), max(COLUMNS(*)) FROM {_TABLE}",
    f"SELECT count(*) FROM {_TABLE} l JOIN (SELECT DISTINCT * FROM {_TABLE}) r ON l = r",
)
#: The number of times that plain DuckDB runs a query again to see whether its own answers differ.
_AGAIN = 4
_KEPT_SQL = 4000
#: The columns that DuckDB's Python package gives for statements that change something.
_OF_CHANGES = ((), ("Count",), ("Success",))
#: Errors of `warpmill.connect()` that are mistakes of the engine rather than refusals.
UNTYPED = ("InternalError", "PanicException", "AssertionError", "Error")


@dataclass(frozen=True)
class Doors:
    """The two databases of a file, and the state for comparing their answers."""

    plain: DuckDoor
    ours: DuckDoor | NativeDatabase
    parser: Parser

    def close(self) -> None:
        """Closes both."""
        self.ours.close()
        self.plain.close()


@dataclass
class FileRun:
    """A run of one file: iterate over `outcomes()`, then see `stopped`."""

    path: Path
    root: Path
    folder: Path
    #: `warpmill.duckdb.connect`, or `duckdb.connect` where the runner itself is tested.
    connect: Callable[..., Any]
    #: Called before each statement with its line and the door that runs it.
    progress: Callable[[int, str], None]
    settings: dict[str, Any]
    #: Whether the forms of queries are compared instead of the queries.
    forms: bool = False
    #: The reason why the rest of the file was not run; None if all of it was.
    stopped: str | None = None
    corpus: ClassVar[str] = CORPUS

    def outcomes(self) -> Iterator[Outcome]:
        """The outcomes of the file's records, as they are run."""
        name = str(self.path.relative_to(self.root))
        doors = self._doors()
        script = Script(self.path, Corpus(self.root, "test/sql/", frozenset({"duckdb"})))
        later = False
        try:
            for step in script.steps():
                for outcome in self._step(step, name, doors):
                    yield replace(outcome, later=later) if outcome.bad else outcome
                    later = later or outcome.bad
        except (StopError, UnknownError) as reason:
            self.stopped = str(reason)
        finally:
            doors.close()

    def _doors(self) -> Doors:
        import duckdb

        door = DuckDoor if self.connect is duckdb.connect else WarpmillDuckDoor
        return Doors(
            DuckDoor(duckdb.connect, self.folder / "plain", self.settings),
            door(self.connect, self.folder / "ours", self.settings),
            Parser(duckdb.connect()),
        )

    def _comparable(self, answer: Answer, reference: Answer) -> Answer:  # noqa: ARG002 - for doors of other systems
        """The answer in comparable form."""
        return answer

    def _verdict(self, difference: Difference, answer: Answer) -> str:  # noqa: ARG002 - for doors whose errors tell more
        return "failed" if difference.kind == "fails" else "wrong"

    def _step(self, step: Step, name: str, doors: Doors) -> Iterator[Outcome]:
        if isinstance(step, Record):
            if self.forms:
                yield from self._in_forms(step, name, doors)
            else:
                yield self._record(step, name, doors)
        elif isinstance(step, Reopen):
            yield from self._reopen(step, name, doors)
        elif isinstance(step, Reconnect):
            doors.plain.reconnect()
            doors.ours.reconnect()
        elif isinstance(step, Unpack):
            for door in (doors.plain, doors.ours):
                Path(door.text(step.target)).write_bytes(gzip.decompress(step.source.read_bytes()))

    def _in_forms(self, record: Record, name: str, doors: Doors) -> Iterator[Outcome]:
        """Run the record for its effects, and compare its rows in the other forms."""
        self.progress(record.line, "plain")
        reference = doors.plain.run(record.sql, record.connection)
        self.progress(record.line, "ours")
        answer = doors.ours.run(record.sql, record.connection)
        promise = None if reference.failure else doors.parser.promise(record.sql, reference.names)
        if promise is None or promise.chooses or not reference.rows or answer.failure is not None:
            return
        query = record.sql.strip().rstrip(";")
        for form in _DIRECT_FORMS:
            yield self._record(replace(record, kind="maybe", sql=form.format(query)), name, doors)
        made = replace(record, kind="maybe", sql=f"CREATE OR REPLACE TEMP TABLE {_TABLE} AS\n{query}")
        outcome = self._record(made, name, doors)
        yield outcome
        if outcome.verdict != "equal":
            return
        for form in _TABLE_FORMS:
            yield self._record(replace(made, sql=form), name, doors)
        for door in (doors.plain, doors.ours):
            door.run(f"DROP TABLE {_TABLE}", record.connection)

    def _reopen(self, step: Reopen, name: str, doors: Doors) -> Iterator[Outcome]:
        self.progress(step.line, "plain")
        reference = doors.plain.reopen(step)
        self.progress(step.line, "ours")
        answer = doors.ours.reopen(step)
        sql = f"-- open {step.path or 'again'}"
        if reference.failure is None and answer.failure is None:
            return
        if reference.failure is not None and answer.failure is not None:
            raise StopError("the database cannot be opened")
        verdict = "failed" if answer.failure else "wrong"
        yield Outcome(name, step.line, sql, verdict, "opening", (answer if answer.failure else reference).brief())

    def _record(self, record: Record, name: str, doors: Doors) -> Outcome:
        self.progress(record.line, "plain")
        reference = doors.plain.run(record.sql, record.connection)
        self.progress(record.line, "ours")
        answer = self._comparable(doors.ours.run(record.sql, record.connection), reference)
        fate = doors.ours.fate(record.connection)
        made = Outcome(name, record.line, record.sql[:_KEPT_SQL], "equal", fate=fate)
        made = replace(made, unlike_file=_unlike(record, reference))
        judge = Judge(
            doors.parser,
            lambda sql: self._comparable(doors.ours.run(sql, record.connection), reference),
            lambda sql: doors.plain.run(sql, record.connection),
        )
        difference = judge.difference(record.sql, answer, reference)
        if difference is not None:
            answer, reference = _neutral(answer, doors.ours), _neutral(reference, doors.plain)
            difference = judge.difference(record.sql, answer, reference)
        if difference is None:
            if reference.failure is None or answer.failure is None:
                return made
            words = _neutral(answer, doors.ours).failure != _neutral(reference, doors.plain).failure
            return replace(made, verdict="both fail", other_words=words)
        found = explained(self.corpus, name, record.sql, difference) or self._varies(
            judge, record, reference, difference
        )
        if found is not None:
            return replace(made, verdict="accepted", kind=found, text=difference.text)
        return replace(made, verdict=self._verdict(difference, answer), kind=difference.kind, text=difference.text)

    def _varies(self, judge: Judge, record: Record, reference: Answer, difference: Difference) -> str | None:
        """The name of an accepted difference if plain DuckDB gives another answer on repetition."""
        if difference.kind not in ("rows", "order") or not judge.parser.is_query(record.sql):
            return None
        for _ in range(_AGAIN):
            again = judge.reference_again(record.sql)
            if judge.difference(record.sql, again, reference) is not None:
                return "plain duckdb varies"
        return None


@dataclass
class NativeRun(FileRun):
    """A run of one file through `warpmill.connect()`, with its own errors and type names.

    After a refused statement, the names that it would have changed differ from the reference: differing answers
    about them are attributed to the refusal.
    """

    corpus: ClassVar[str] = NATIVE
    _changed: Changed = field(default_factory=Changed)

    def _record(self, record: Record, name: str, doors: Doors) -> Outcome:
        outcome = super()._record(record, name, doors)
        follows = self._changed.concerns(record.sql)
        if follows and outcome.verdict == "wrong":
            outcome = replace(outcome, verdict="follows")
        if outcome.verdict not in ("equal", "both fail", "accepted") or follows:
            self._changed.note(record.sql)
        return outcome

    def _doors(self) -> Doors:
        import duckdb

        plain = DuckDoor(duckdb.connect, self.folder / "plain", exact=False)
        return Doors(plain, NativeDatabase(self.folder / "ours", self.settings), Parser(duckdb.connect()))

    def _comparable(self, answer: Answer, reference: Answer) -> Answer:
        if answer.failure is not None and reference.failure is not None:
            return replace(answer, failure=replace(answer.failure, kind=reference.failure.kind))
        if reference.names in _OF_CHANGES:
            # Statements that change tables return a number of rows, or nothing.
            return replace(answer, names=reference.names, types=reference.types, rows=answer.rows or reference.rows)
        return replace(answer, types=reference.types)

    def _verdict(self, difference: Difference, answer: Answer) -> str:
        typed = answer.failure is not None and answer.failure.kind not in UNTYPED
        return "refused" if typed else super()._verdict(difference, answer)


def _unlike(record: Record, reference: Answer) -> bool:
    """Whether DuckDB deviates from the expectation of its own file."""
    if record.kind == "maybe":
        return False
    return (reference.failure is not None) != (record.kind == "error")


def _neutral(answer: Answer, door: DuckDoor | NativeDatabase) -> Answer:
    """The answer without the door's folder in its texts."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return door.neutral(value)
        return tuple(map(changed, value)) if isinstance(value, tuple) else value

    failure = answer.failure and Failure(answer.failure.kind, door.neutral(answer.failure.text))
    return replace(answer, names=changed(answer.names), rows=changed(answer.rows), failure=failure)
