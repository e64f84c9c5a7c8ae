"""Runs a query on Warpmill, through one of its doors, and on DuckDB, and compares."""

from __future__ import annotations

import decimal
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import duckdb

import warpmill
import warpmill.duckdb
from differential.columns import HUGE
from differential.known import KNOWN, REFUSALS
from differential.queries import Queries, tables
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from differential.columns import Table
    from differential.queries import Query, Select

#: The engine under test: `warpmill.connect()` on the CPU or on the simulated device, or `warpmill.duckdb`.
Door = Literal["native", "sim", "duckdb"]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Made:
    """A table that holds the rows of a query."""

    name: str
    query: Select


@dataclass(frozen=True)
class Case:
    """Tables, a query over them, and the settings of the engine."""

    tables: tuple[Table, ...]
    query: Query
    settings: tuple[tuple[str, object], ...] = ()
    door: Door = "native"
    #: Tables created by queries first, in this order.
    chain: tuple[Made, ...] = ()
    #: The name of the table that the query becomes; its rows are then read from there.
    into: str = ""

    def statements(self) -> list[str]:
        """The statements to run: the last statement gives the rows that are compared."""
        made = [f"CREATE TABLE {made.name} AS {made.query.sql()}" for made in self.chain]
        text = self.query.sql()
        return [
            *made,
            *([f"CREATE TABLE {self.into} AS {text}", f"SELECT * FROM {self.into}"] if self.into else [text]),
        ]


@dataclass
class Tally:
    """The outcomes of the queries."""

    counts: Counter[str] = field(default_factory=Counter)
    #: The reason why queries fell back to DataFusion, stayed with DuckDB, or were refused.
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [", ".join(f"{count} {name}" for name, count in self.counts.most_common())]
        return "\n".join(lines + [f"  {count:5} {reason}" for reason, count in self.reasons.most_common(25)])


class Native:
    """`warpmill.connect()`, in memory or in a folder, where a fallback is an error until a query needs one."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.folder = tempfile.mkdtemp() if settings.pop("stored", False) else None
        self.settings = settings
        self.con = self._open()

    def _open(self) -> warpmill.Connection:
        return warpmill.connect(self.folder and Path(self.folder, "db"), fallback="error", **self.settings)

    def load(self, table: Table) -> None:
        """Make a table, in one piece or two."""
        rows, first = table.arrow(), table.rows - table.appended
        self.con.create_table(table.name, rows.slice(0, first), sort_by=[table.sort_by] if table.sort_by else [])
        if table.appended:
            self.con.register("incoming", rows.slice(first))
            self._allowed(f"INSERT INTO {table.name} SELECT * FROM incoming")
            self.con.unregister("incoming")

    def make(self, sql: str) -> None:
        """Make a table of a query; one in a folder is then read by a session that knows nothing of it yet."""
        self._allowed(sql)
        if self.folder:
            self.con.close()
            self.con = self._open()

    def run(self, sql: str, tally: Tally) -> Rows:
        """The rows of a query; one that needs a fallback runs again with one."""
        try:
            result = self.con.sql(sql)
        except warpmill.FallbackError as error:
            tally.counts["fallbacks"] += 1
            tally.reasons["fallback: " + shortened(str(error))] += 1
            return self._allowed(sql)
        devices = {program["device"] for program in result.profile.get("programs") or []}
        tally.counts.update(f"on {device}" for device in devices)
        return result.fetchall()

    def _allowed(self, sql: str) -> Rows:
        self.con.set("fallback", "allow")
        try:
            return self.con.sql(sql).fetchall()
        finally:
            self.con.set("fallback", "error")

    def close(self) -> None:
        """Leave nothing behind."""
        self.con.close()
        if self.folder:
            shutil.rmtree(self.folder)


class Host:
    """DuckDB, alone or as `warpmill.duckdb`."""

    def __init__(self, connect: Any) -> None:
        self.con = connect(config={"threads": 1})
        self.con.execute("SET TimeZone = 'UTC'")

    def load(self, table: Table) -> None:
        """Make a table, in one piece or two."""
        rows, first = table.arrow(), table.rows - table.appended
        huge = ", ".join(f"CAST({c.name} AS HUGEINT) AS {c.name}" for c in table.columns if c.kind == HUGE)
        columns = f"* REPLACE ({huge})" if huge else "*"
        for part, how in ((rows.slice(0, first), "CREATE TABLE {} AS"), (rows.slice(first), "INSERT INTO {}")):
            if part.num_rows or "CREATE" in how:
                self.con.register("incoming", part)
                self.con.execute(f"{how.format(table.name)} SELECT {columns} FROM incoming")
                self.con.unregister("incoming")

    def make(self, sql: str) -> None:
        """Make a table of a query."""
        self.con.execute(sql)

    def run(self, sql: str, tally: Tally | None = None) -> Rows:
        """The rows of a query."""
        rows: Rows = self.con.execute(sql).fetchall()
        if tally is not None:
            [(accelerated, reason, _)] = self.con.execute("FROM warpmill_last()").fetchall()
            tally.counts["accelerated" if accelerated else "left to DuckDB"] += 1
            tally.reasons[f"left to DuckDB: {reason}"] += not accelerated
        return rows

    def close(self) -> None:
        """Leave nothing behind."""
        self.con.close()


class Pair:
    """Both engines over the same tables."""

    def __init__(self, case: Case) -> None:
        self.door = case.door
        device = {"device": "sim"} if case.door == "sim" else {}
        native = case.door != "duckdb"
        self.ours = Native({**dict(case.settings), **device}) if native else Host(warpmill.duckdb.connect)
        self.theirs = Host(duckdb.connect)
        #: Tables of queries that were created, and those that one engine refused.
        self.made: set[str] = set()
        self.refused: set[str] = set()
        for table in case.tables:
            self.ours.load(table)
            self.theirs.load(table)

    def judge(self, case: Case, tally: Tally) -> str | None:
        """None if the answers are equal, else the difference."""
        if self.refused & {made.name for made in case.chain}:
            tally.counts["of a table that is not there"] += 1
            return None
        *makes, last = case.statements()
        expected = self._answer(self.theirs, makes, last, None)
        actual = self._answer(self.ours, makes, last, tally)
        # A table that was tried is there, or never will be.
        names = [made.name for made in case.chain] + ([case.into] if case.into else [])
        (self.refused if isinstance(actual, str) or isinstance(expected, str) else self.made).update(names)
        if isinstance(expected, str):
            # Both refuse, or the generator should not have made the query: nothing to compare.
            tally.counts["refused by both" if isinstance(actual, str) else "refused by duckdb"] += 1
            tally.reasons["duckdb: " + shortened(expected)] += 1
            return None
        found: str | None
        if isinstance(actual, str):
            refusal = next((known for known in REFUSALS if known.words.lower() in actual.lower()), None)
            if refusal and self.door != "duckdb":
                tally.counts["refused by warpmill"] += 1
                tally.reasons["refused: " + shortened(actual)] += 1
                return None
            found = actual
        else:
            found = difference(actual, expected, [item.name for item in case.query.items], last)
            found = found or _retyped(actual, expected, self.door)
        tally.counts["equal" if found is None else "different"] += 1
        if found is not None and case.into:
            # A query that reads it would differ, too.
            self.refused.add(case.into)
        return found

    def _answer(self, engine: Native | Host, makes: list[str], last: str, tally: Tally | None) -> Rows | str:
        """The rows of an engine, or its error."""
        try:
            for sql in makes:
                if sql.split()[2] not in self.made:
                    engine.make(sql)
            return engine.run(last, tally)  # type: ignore[arg-type]
        except Exception as error:  # whatever is raised is what this test looks for
            return f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Close both."""
        self.ours.close()
        self.theirs.close()


def _retyped(actual: Rows, expected: Rows, door: Door) -> str | None:
    """Columns with equal values of another kind; natively, a HUGEINT and a DECIMAL(38,0) are one type."""
    allowed = [({"whole Decimal"}, {"int"}), ({"int"}, {"whole Decimal"})]
    # An average of decimals is an output column wherever it is made.
    allowed += [({"Decimal"}, {"float"})] if "averages of decimals" in left_out(door) else []
    for at, column in enumerate(zip(*expected, strict=True)):
        theirs = {_kind(value) for value in column if value is not None}
        ours = {_kind(row[at]) for row in actual if row[at] is not None}
        if theirs != ours and (door == "duckdb" or (ours, theirs) not in allowed):
            return f"column {at + 1} has values of {sorted(ours)}, expected {sorted(theirs)}"
    return None


def _kind(value: object) -> str:
    whole = isinstance(value, decimal.Decimal) and value.as_tuple().exponent == 0
    return "whole Decimal" if whole else type(value).__name__


def shortened(text: str) -> str:
    """The part of an error that is the same for errors of one cause."""
    line = " ".join(text.split())
    fallback = re.search(r"does not run (\w+): (?:.*?(\w+)\()?.*: ([^:]*) \(warpmill\.fallback", line)
    return " ".join(part for part in fallback.groups() if part) if fallback else line[:130]


def settings(random: Random) -> tuple[tuple[str, object], ...]:
    """Settings that make the engine take other paths to the same answer."""
    return (
        ("stored", random.random() < 0.3),
        ("threads", random.choice((1, 2, 4))),
        ("chunk_rows", random.choice((2, 64, 2048, 2048))),
        ("segment_rows", random.choice((1024, 1024, 1048576))),
        ("compaction", random.choice(("none", "full", "binary", "logical", "learning", "smart"))),
        ("join_order", random.choice(("on", "on", "off"))),
    )


def left_out(door: Door) -> frozenset[str]:
    """The features that queries through a door leave out."""
    if door == "duckdb":
        return frozenset()
    # Tables come from Arrow natively, which has no HUGEINT.
    return frozenset(known.name for known in KNOWN) | {"tables of HUGEINT"}


def cases(seed: int, queries: int, door: Door) -> Iterator[Case]:
    """The cases of a seed: one set of tables and settings, many queries, some of which become tables of later ones."""
    random = Random(seed)
    without = left_out(door)
    made = tuple(tables(random, without))
    chosen = settings(random)
    maker = Queries(random, list(made), without)
    chain: list[Made] = []
    for _ in range(queries):
        table = maker.table() if random.random() < 0.15 else None
        query = table or maker.query()
        # The tables that it reads, and the tables that these were made from.
        texts = [query.sql()]
        needed: list[Made] = []
        for step in reversed(chain):
            if any(re.search(rf"\b{step.name}\b", text) for text in texts):
                needed.insert(0, step)
                texts.append(step.query.sql())
        name = f"r{len(chain) + 1}" if table else ""
        yield Case(made, query, chosen, door, tuple(needed), name)
        if table:
            chain.append(Made(name, table))
            maker.remember(name, table)


def run_seed(seed: int, queries: int, door: Door, tally: Tally) -> list[tuple[Case, str]]:
    """Run a seed; the cases that differ, and how."""
    found = []
    pair: Pair | None = None
    try:
        for case in cases(seed, queries, door):
            pair = pair or Pair(case)
            difference_found = pair.judge(case, tally)
            if difference_found:
                found.append((case, difference_found))
    finally:
        if pair:
            pair.close()
    return found


def judged(case: Case) -> str | None:
    """Judge one case with separate engines."""
    with decimal.localcontext(prec=120):
        pair = Pair(case)
        try:
            return pair.judge(case, Tally())
        finally:
            pair.close()
