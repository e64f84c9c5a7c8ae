"""DuckDB's answers to the statements of a suite, kept beside its tables, which those of other engines must equal.

Results of more than `MOST_ROWS` rows are not sent between processes: both engines answer a statement about them, which
has the count, the smallest and the largest value and the sum of every column.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isnan
from typing import TYPE_CHECKING, Any

from warpmill.bench import child
from warpmill.bench.engines import TOLERANCES, Setup, UnsupportedError
from warpmill.bench.processes import Served, launch
from warpmill.bench.states import Source
from warpmill.bench.verify import EXACT, Tolerance, difference, equal, order_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from warpmill.bench.data import Data
    from warpmill_bench.suites import Suite

    Rows = list[tuple[Any, ...]]

#: Rows of a result that are compared one by one.
MOST_ROWS = 50_000

#: Sums of floats depend on the order in which they are added.
_SUMS = Tolerance(relative=1e-7, absolute=1e-6, decimals=True)

_NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL.*)$")


@dataclass(frozen=True)
class Answer:
    """The expected result of a statement."""

    columns: list[str]
    count: int
    #: None where there are more than `MOST_ROWS`.
    rows: Rows | None
    #: The statement about the rows, and its row, where there are more.
    digest: str | None = None
    digested: tuple[Any, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The stored form."""

        def encoded(row: Iterable[Any]) -> list[Any]:
            return [child.encoded(value) for value in row]

        rows = None if self.rows is None else [encoded(row) for row in self.rows]
        digested = None if self.digested is None else encoded(self.digested)
        return {"columns": self.columns, "count": self.count, "rows": rows, "digest": self.digest, "digested": digested}

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Answer:
        """The answer that was kept."""
        rows = None if found["rows"] is None else [decoded(row) for row in found["rows"]]
        digested = None if found["digested"] is None else decoded(found["digested"])
        return cls(found["columns"], found["count"], rows, found["digest"], digested)


class Answers:
    """DuckDB's answers over a suite's Parquet files."""

    def __init__(self, suite: Suite, data: Data, threads: int, seconds: float) -> None:
        self._suite = suite
        self._setup = Setup(data, Source.PARQUET, threads)
        self._seconds = seconds
        self._kept: Path = data.database.with_name(f"answers-{suite.name}.json")
        known = json.loads(self._kept.read_text(encoding="utf-8")) if self._kept.exists() else {}
        self._known = {sql: Answer.of_json(found) for sql, found in known.items()}
        #: Statements that DuckDB does not run, and why.
        self.unknown: dict[str, str] = {}

    def learn(self, statements: Iterable[str], deadline: float | None = None) -> None:
        """Ask DuckDB for unknown answers, in a process that ends before this returns.

        Answers after the `deadline`, a value of `time.monotonic`, stay unknown.
        """
        missing = [sql for sql in dict.fromkeys(statements) if sql not in self._known and sql not in self.unknown]
        if not missing:
            return
        left = partial(_left, deadline)
        if left() <= 0:
            return
        with _served(self._setup, lambda: max(min(self._seconds, left()), 0.0)) as ask:
            for sql in missing:
                if left() <= 0:
                    break
                try:
                    self._known[sql] = self._of(sql, ask)
                except UnsupportedError as error:
                    if left() <= 0:
                        break
                    self.unknown[sql] = str(error)
        kept = {sql: answer.as_json() for sql, answer in self._known.items()}
        unfinished = self._kept.with_suffix(".partial")
        unfinished.write_text(json.dumps(kept), encoding="utf-8")
        unfinished.rename(self._kept)

    def digest(self, sql: str) -> str | None:
        """The statement about the rows of a result that is too large to be sent."""
        return self._known[sql].digest if sql in self._known else None

    def _of(self, sql: str, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
        reply = ask({"name": "", "sql": sql, "most_rows": MOST_ROWS})
        if reply["rows"] is not None:
            return Answer(reply["columns"], reply["count"], [decoded(row) for row in reply["rows"]])
        described = ask({"name": "", "sql": f"DESCRIBE {sql}", "most_rows": MOST_ROWS})["rows"]
        digest = digest_of(sql, [(row[0], row[1]) for row in described])
        (row,) = ask({"name": "", "sql": digest, "most_rows": 1})["rows"]
        return Answer(reply["columns"], reply["count"], None, digest, decoded(row))

    def difference(self, query: str, sql: str, engine: str, reply: dict[str, Any], counted: bool = False) -> str | None:
        """None where an engine's reply has the rows that it must have, else what differs; `learn` comes first.

        `counted`: rows that are too many to be sent are compared by their number only.
        """
        if sql in self.unknown:
            return None
        answer = self._known[sql]
        if reply["count"] != answer.count:
            return f"{reply['count']} rows, expected {answer.count}"
        if query in self._suite.any_rows or (answer.rows is None and counted):
            return None
        tolerance = TOLERANCES.get(engine, EXACT)
        if answer.rows is None:
            digested, expected = reply.get("digested"), answer.digested
            if digested is None or expected is None:
                return "the statement about its rows was not answered"
            pairs = zip(decoded(digested), expected, strict=True)
            wrong = [at for at, (own, right) in enumerate(pairs) if not _near(own, right, tolerance)]
            return f"the rows differ in number {wrong[0] + 1} of {answer.digest}" if wrong else None
        rows, expected_rows = [decoded(row) for row in reply["rows"]], answer.rows
        if query in self._suite.nan_is_null:
            rows, expected_rows = without_nan(rows), without_nan(expected_rows)
        return compared(rows, expected_rows, answer.columns, sql, tolerance)


def compared(rows: Rows, expected: Rows, columns: list[str], sql: str, tolerance: Tolerance = EXACT) -> str | None:
    """As `difference` of the package says, but that of a result with OFFSET only sort keys count.

    Rows of equal keys may lie on either side of its start. COUNT(*) as a sort key is the last column.
    """
    text = sql.replace("COUNT(*) DESC", f"{len(columns)} DESC")
    keys = order_keys(text, columns)
    if re.search(r"(?i)\boffset\s+\d+\s*$", text) and keys and len(rows) == len(expected):
        rows = [tuple(row[key] for key in keys) for row in rows]
        expected = [tuple(row[key] for key in keys) for row in expected]
        return difference(rows, expected, [columns[key] for key in keys], text, tolerance)
    return difference(rows, expected, columns, text, tolerance)


def digest_of(sql: str, columns: list[tuple[str, str]]) -> str:
    """A statement with one row about all rows of another; columns have the names and types that DuckDB gives them."""
    parts = ["count(*)"]
    for name, kind in columns:
        quoted = '"' + name.replace('"', '""') + '"'
        parts += [f"count({quoted})", f"min({quoted})", f"max({quoted})"]
        if _NUMBERS.match(kind):
            parts.append(f"sum(CAST({quoted} AS DOUBLE))")
    named = [f"{part} AS a{at}" for at, part in enumerate(parts)]
    return f"SELECT {', '.join(named)} FROM ({sql}) AS all_rows"


def decoded(row: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a row that a process sent."""
    return tuple(child.decoded(value) for value in row)


def without_nan(rows: Rows) -> Rows:
    """Rows with NaN replaced by NULL."""
    return [tuple(None if isinstance(value, float) and isnan(value) else value for value in row) for row in rows]


def _near(own: Any, right: Any, tolerance: Tolerance) -> bool:
    if isinstance(own, float) and isinstance(right, float):
        return equal(own, right, replace(_SUMS, relative=max(_SUMS.relative, tolerance.relative)))
    return equal(own, right, tolerance)


def _left(deadline: float | None) -> float:
    """Seconds until a value of `time.monotonic`."""
    return inf if deadline is None else deadline - time.monotonic()


@contextmanager
def _served(setup: Setup, seconds: Callable[[], float]) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """A process of DuckDB; another one after a statement that ended it."""
    how = launch("duckdb", setup)
    opened = [Served(replace(how, opening={**how.opening, "arrow": True}))]

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        if opened[-1].over:
            opened[-1].close()
            opened[-1] = Served(replace(how, opening={**how.opening, "arrow": True}))
        return opened[-1].answer_within(seconds(), request)

    try:
        yield ask
    finally:
        opened[-1].close()
