"""SQLite's test files through `warpmill.connect()`: the answers are the file's, or DuckDB's where that has others."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zlib import crc32

from conformance.accepted import explained
from conformance.answers import Answer, Row
from conformance.compare import RELATIVE, Difference, bag_difference
from conformance.doors import DuckDoor, NativeDoor
from conformance.outcome import Outcome
from conformance.script import Corpus, Script, StopError
from conformance.sqllogic import Record, UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CORPUS = "sqlite"
#: The systems of the files that this is: PostgreSQL divides integers without a rest.
_SYSTEMS = frozenset({"postgresql", "duckdb"})


@dataclass
class FileRun:
    """A run of one file: iterate over `outcomes()`, then see `stopped`."""

    path: Path
    root: Path
    folder: Path
    progress: Callable[[int, str], None]
    #: Settings of `warpmill.connect`.
    settings: dict[str, object]
    #: One of this many queries is run; statements are all run.
    sample: int = 1
    stopped: str | None = None

    def outcomes(self) -> Iterator[Outcome]:
        """The outcomes of the file's records, as they are run."""
        import duckdb

        name = str(self.path.relative_to(self.root))
        plain = DuckDoor(duckdb.connect, self.folder / "plain", exact=False)
        ours = NativeDoor(self.settings)
        later = False
        try:
            for step in Script(self.path, Corpus(self.root, "", _SYSTEMS)).steps():
                if not isinstance(step, Record):
                    raise StopError("a directive of DuckDB's")
                if step.kind == "query" and crc32(f"{name}:{step.line}".encode()) % self.sample:
                    continue
                outcome = self._record(step, name, plain, ours)
                yield replace(outcome, later=later) if outcome.bad else outcome
                # Queries have no effects: only statements have consequences.
                later = later or (outcome.bad and step.kind != "query")
        except (StopError, UnknownError) as reason:
            self.stopped = str(reason)
        finally:
            ours.close()
            plain.close()

    def _record(self, record: Record, name: str, plain: DuckDoor, ours: NativeDoor) -> Outcome:
        self.progress(record.line, "plain")
        reference = plain.run(record.sql)
        self.progress(record.line, "ours")
        answer = ours.run(record.sql)
        made = Outcome(name, record.line, record.sql, "equal", fate=ours.fate(None))
        if record.kind == "query":
            like_file = reference.failure is None and _as_in_file(reference, record)
            made = replace(made, unlike_file=not like_file)
            difference = _query_difference(record, answer, reference, like_file)
        else:
            made = replace(made, unlike_file=(reference.failure is None) == (record.kind == "error"))
            difference = _statement_difference(record, answer, reference)
            if answer.failure is not None and reference.failure is None:
                # Declared without keys, the table can be created and the rest of the file runs.
                ours.run(without_keys(record.sql))
        if difference is None:
            both = answer.failure is not None and reference.failure is not None
            return replace(made, verdict="both fail" if both else "equal")
        found = explained(CORPUS, name, record.sql, difference)
        if found is not None:
            return replace(made, verdict="accepted", kind=found, text=difference.text)
        verdict = "failed" if difference.kind == "fails" else "wrong"
        return replace(made, verdict=verdict, kind=difference.kind, text=difference.text)


def _statement_difference(record: Record, answer: Answer, reference: Answer) -> Difference | None:
    if answer.failure is not None and reference.failure is None:
        return Difference("fails", answer.brief())
    if answer.failure is None and reference.failure is not None and record.kind == "error":
        return Difference("succeeds", f"instead of {reference.brief()}")
    return None


def _query_difference(record: Record, answer: Answer, reference: Answer, like_file: bool) -> Difference | None:
    if answer.failure is not None:
        return None if reference.failure is not None else Difference("fails", answer.brief())
    found = formatted(answer, record)
    if like_file or reference.failure is not None:
        equal, expected = _as_in_file(answer, record), list(record.expected or ())
    else:
        expected = formatted(reference, record)
        equal = found == expected
    if not equal:
        return Difference("rows", f"{found[:4]} instead of {expected[:4]}"[:400])
    if reference.failure is not None:
        return None
    # The file's form cuts fractions off.
    unlike = bag_difference(_numbers(answer), _numbers(reference), RELATIVE)
    return None if unlike is None else Difference("values", unlike)


def _numbers(answer: Answer) -> tuple[Row, ...]:
    """The rows with decimals as the numbers that they are: engines may choose another type for the same value."""

    def number(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        return int(value) if value == value.to_integral_value() else float(value)

    return tuple(tuple(map(number, row)) for row in answer.rows)


def without_keys(sql: str) -> str:
    """A CREATE TABLE without its keys, for engines that have none."""
    sql = re.sub(r",\s*(primary\s+key|unique)\s*\([^)]*\)", "", sql, flags=re.IGNORECASE)
    return re.sub(r"\b(primary\s+key|unique)\b", "", sql, flags=re.IGNORECASE)


def formatted(answer: Answer, record: Record) -> list[str]:
    """The values of an answer as the file writes them, in the order that it asks for."""
    types = record.types.ljust(len(answer.names), "T")
    rows = [[_value(value, kind) for value, kind in zip(row, types, strict=False)] for row in answer.rows]
    if record.sort == "rowsort":
        rows.sort()
    values = [value for row in rows for value in row]
    return sorted(values) if record.sort == "valuesort" else values


def _as_in_file(answer: Answer, record: Record) -> bool:
    values, expected = formatted(answer, record), list(record.expected or ())
    hashed = re.fullmatch(r"(\d+) values hashing to ([0-9a-f]{32})", expected[0]) if len(expected) == 1 else None
    if hashed is None:
        return values == expected
    digest = hashlib.md5("".join(f"{value}\n" for value in values).encode(), usedforsecurity=False)
    return len(values) == int(hashed[1]) and digest.hexdigest() == hashed[2]


def _value(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "I":
        return _integer(value)
    if kind == "R":
        return f"{float(value):.3f}"
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return re.sub(r"[^ -~]", "@", text) or "(empty)"


def _integer(value: Any) -> str:
    """A number in the format of C's `%d`; text is its numeric prefix, or 0."""
    if isinstance(value, int | float | Decimal):
        try:
            return str(int(value))
        except (OverflowError, ValueError):
            return str(value)
    match = re.match(r"\s*[-+]?\d+", str(value))
    return str(int(match[0])) if match else "0"
