"""Runs a query on both engines and compares."""

from __future__ import annotations

import decimal
import re
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pyarrow as pa

import warpmill
from differential.queries import Queries, tables
from warpmill.bench.engines import arrow_rows
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from differential.columns import Table
    from differential.queries import Query

#: What DataFusion says of queries that it does not plan: no difference of answers.
REFUSALS = (
    "This feature is not implemented",
    "Physical plan does not support logical expression",
    # A name is an expression without its casts: two that differ in casts only cannot stand in one GROUP BY.
    "Projections require unique expression names",
    "Schema contains duplicate unqualified field name",
    # A constant condition in HAVING.
    "must appear in the GROUP BY clause",
)


@dataclass(frozen=True)
class Case:
    """Tables, a query over them, and the settings of the engine."""

    tables: tuple[Table, ...]
    query: Query
    settings: tuple[tuple[str, object], ...] = ()


@dataclass
class Tally:
    """What became of the queries."""

    counts: Counter[str] = field(default_factory=Counter)
    #: Why queries fell back to DataFusion, or were refused.
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [", ".join(f"{count} {name}" for name, count in self.counts.most_common())]
        return "\n".join(lines + [f"  {count:5} {reason}" for reason, count in self.reasons.most_common(25)])


class Pair:
    """Both engines over the same tables."""

    def __init__(self, made: tuple[Table, ...], settings: tuple[tuple[str, object], ...]) -> None:
        self.ours = warpmill.connect(fallback="error", **dict(settings))  # type: ignore[arg-type]
        self.theirs = duckdb.connect(config={"threads": 1})
        self.tables = made
        for table in made:
            self._load(table)

    def _load(self, table: Table) -> None:
        rows = table.arrow()
        self.theirs.register("incoming", rows)
        self.theirs.execute(f"CREATE TABLE {table.name} AS SELECT * FROM incoming")
        self.theirs.unregister("incoming")
        keys = [table.sort_by] if table.sort_by else []
        first = table.rows - table.appended
        self.ours.create_table(table.name, rows.slice(0, first), sort_by=keys)
        if table.appended:
            self.ours.register("incoming", rows.slice(first))
            self.ours.set("fallback", "allow")
            self.ours.sql(f"INSERT INTO {table.name} SELECT * FROM incoming")
            self.ours.set("fallback", "error")
            self.ours.unregister("incoming")

    def expected(self, query: Query) -> list[tuple[Any, ...]] | str:
        """DuckDB's rows, or its error."""
        try:
            return self.theirs.execute(query.sql()).fetchall()
        except duckdb.Error as error:
            return str(error)

    def actual(self, query: Query, tally: Tally | None = None) -> list[tuple[Any, ...]] | str:
        """Warpmill's rows, or its error; a query that needs a fallback runs again with one."""
        text = query.sql()
        try:
            return self.ours.sql(text).fetchall()
        except warpmill.FallbackError as error:
            if tally is not None:
                tally.counts["fallbacks"] += 1
                tally.reasons["fallback: " + shortened(str(error))] += 1
        except Exception as error:  # whatever is raised, a panic too, is what this test looks for
            return f"{type(error).__name__}: {error}"
        self.ours.set("fallback", "allow")
        try:
            return self.ours.sql(text).fetchall()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            self.ours.set("fallback", "error")

    def judge(self, query: Query, tally: Tally) -> str | None:
        """None if the answers are equal, else how they differ."""
        expected = self.expected(query)
        actual = self.actual(query, tally)
        if isinstance(expected, str):
            # Both refuse, or a query that the generator should not make: nothing to compare.
            tally.counts["refused by both" if isinstance(actual, str) else "refused by duckdb"] += 1
            tally.reasons["duckdb: " + shortened(expected)] += 1
            return None
        if isinstance(actual, str):
            if any(words in actual for words in REFUSALS):
                tally.counts["refused by warpmill"] += 1
                tally.reasons["refused: " + shortened(actual)] += 1
                return None
            found: str | None = actual
        else:
            found = difference(actual, expected, [item.name for item in query.items], query.sql())
        if found is not None and self.inherited(query, actual):
            tally.counts["inherited from datafusion"] += 1
            tally.reasons[f"inherited: {shortened(found)}: {query.sql()}"] += 1
            return None
        tally.counts["equal" if found is None else "different"] += 1
        return found

    def inherited(self, query: Query, actual: list[tuple[Any, ...]] | str) -> bool:
        """Whether DataFusion alone gives Warpmill's answer, or fails as Warpmill does: then its planning is wrong."""
        context = datafusion.SessionContext()
        for table in self.tables:
            rows = table.arrow()
            empty = pa.RecordBatch.from_pylist([], schema=rows.schema)
            context.register_record_batches(table.name, [rows.to_batches() or [empty]])
        try:
            batches = context.sql(query.sql()).collect()
        except Exception as error:  # DataFusion's errors have no type of their own
            # The first words tell the kind of error; what follows may name what only one of the two plans has.
            return isinstance(actual, str) and _kind(actual) in str(error)
        if isinstance(actual, str):
            return False
        theirs = arrow_rows(pa.Table.from_batches(batches)) if batches else []
        return difference(actual, theirs, [item.name for item in query.items], query.sql()) is None


def _kind(error: str) -> str:
    """The words of an error that say what is wrong, without the exception's name and the plan's names."""
    return " ".join(error.partition(": ")[2].split()[:4])


def shortened(text: str) -> str:
    """The part of an error that is the same for errors of one cause."""
    line = " ".join(text.split())
    fallback = re.search(r"does not run (\w+): (?:.*?(\w+)\()?.*: ([^:]*) \(warpmill\.fallback", line)
    return " ".join(part for part in fallback.groups() if part) if fallback else line[:130]


def settings(random: Random) -> tuple[tuple[str, object], ...]:
    """Settings that make the engine take other paths to the same answer."""
    return (
        ("threads", random.choice((1, 2, 4))),
        ("chunk_rows", random.choice((2, 64, 2048, 2048))),
        ("segment_rows", random.choice((1024, 1024, 1048576))),
        ("compaction", random.choice(("none", "full", "binary", "logical", "learning", "smart"))),
        ("join_order", random.choice(("on", "on", "off"))),
    )


def cases(seed: int, queries: int) -> Iterator[Case]:
    """The cases of a seed: one set of tables and settings, many queries."""
    random = Random(seed)
    made = tables(random)
    chosen = settings(random)
    maker = Queries(random, made)
    for _ in range(queries):
        yield Case(tuple(made), maker.query(), chosen)


def run_seed(seed: int, queries: int, tally: Tally) -> list[tuple[Case, str]]:
    """Run a seed; the cases that differ, and how."""
    found = []
    pair: Pair | None = None
    for case in cases(seed, queries):
        pair = pair or Pair(case.tables, case.settings)
        difference_found = pair.judge(case.query, tally)
        if difference_found:
            found.append((case, difference_found))
    return found


def judged(case: Case) -> str | None:
    """Judge one case with engines of its own."""
    with decimal.localcontext(prec=120):
        return Pair(case.tables, case.settings).judge(case.query, Tally())
