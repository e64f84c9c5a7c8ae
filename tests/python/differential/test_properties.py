"""Tables made by hypothesis: every type, any value. They survive a round trip, and queries answer as DuckDB's do."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpmill
from differential.columns import KINDS, Column, Kind, Table
from trials import trials
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = settings(max_examples=trials(20), deadline=None, derandomize=True)
Rows = list[tuple[Any, ...]]


def anything(kind: Kind) -> st.SearchStrategy[Any]:
    """Values of a type, its extremes among them. Adding 0.0 makes negative zero positive."""
    if kind.family == "int":
        return st.integers(*kind.limits)
    if kind.family == "decimal":
        return st.integers(*kind.limits).map(lambda digits: Decimal(f"{digits}E-{kind.scale}"))
    if kind.family == "float":
        return st.floats(width=32 if kind.width == 32 else 64).map(lambda value: value + 0.0)
    if kind.family == "date":
        return st.dates()
    if kind.family == "timestamp":
        return st.datetimes(dt.datetime.min, dt.datetime.max)
    if kind.family == "bool":
        return st.booleans()
    # DuckDB and Parquet readers alike end strings at no NUL, but some clients do: it is left out.
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table of one to five columns; few different values where it has many rows."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    rows = draw(st.sampled_from((0, 1, 2, 7, 40, 1500)))
    columns = []
    for at, kind in enumerate(kinds):
        domain = draw(st.lists(st.none() | anything(kind), min_size=1, max_size=12))
        if rows <= 40:
            values = draw(st.lists(st.sampled_from(domain), min_size=rows, max_size=rows))
        else:
            step = draw(st.integers(1, 300))
            values = [domain[row // step % len(domain)] for row in range(rows)]
        columns.append(Column(f"c{at}", kind, tuple(values)))
    return Table("t", tuple(columns), rows)


def ours(table: Table, sort_by: list[str] | None = None) -> warpmill.Connection:
    con = warpmill.connect(fallback="error", segment_rows=1024, chunk_rows=64)
    con.create_table("t", table.arrow(), sort_by=sort_by or [])
    return con


def same(table: Table, queries: list[str], con: warpmill.Connection) -> None:
    peer = duckdb.connect(config={"threads": 1})
    peer.register("incoming", table.arrow())
    peer.execute("CREATE TABLE t AS SELECT * FROM incoming")
    for sql in queries:
        expected = peer.execute(sql)
        names = [column[0] for column in expected.description or ()]
        found = difference(con.sql(sql).fetchall(), expected.fetchall(), names, sql)
        assert found is None, f"{sql}: {found}"


@EXAMPLES
@given(tables())
def test_rows_come_back(table: Table) -> None:
    expected = [tuple(row.values()) for row in table.arrow().to_pylist()]
    names = [column.name for column in table.columns]
    with ours(table) as con:
        rows = con.sql("SELECT * FROM t").fetchall()
        # One pipeline over segments in order: rows keep the order of the source.
        assert difference(rows, expected, names, "select * from t") is None
        assert con.sql("SELECT count(*) FROM t").fetchone() == (table.rows,)
    with ours(table, sort_by=names[:1]) as con:
        assert difference(con.sql("SELECT * FROM t").fetchall(), expected, names, "select * from t") is None


@EXAMPLES
@given(tables())
def test_groups_and_extremes(table: Table) -> None:
    queries = []
    for column in table.columns:
        name = column.name
        queries.append(f"SELECT min({name}), max({name}), count({name}), count(DISTINCT {name}) FROM t")
        queries.append(f"SELECT {name}, count(*) FROM t GROUP BY {name}")
        queries.append(f"SELECT DISTINCT {name} FROM t")
    names = ", ".join(column.name for column in table.columns)
    queries.append(f"SELECT {names}, count(*) FROM t GROUP BY {names}")
    with ours(table) as con:
        same(table, queries, con)


@EXAMPLES
@given(tables(), st.lists(st.booleans(), min_size=10, max_size=10))
def test_orders(table: Table, choices: list[bool]) -> None:
    words = [
        f"{at} {'DESC' if choices[at] else 'ASC'} NULLS {'FIRST' if choices[at + 4] else 'LAST'}"
        for at in range(1, len(table.columns) + 1)
    ]
    order = f"SELECT * FROM t ORDER BY {', '.join(words)}"
    with ours(table) as con:
        same(table, [order, f"{order} LIMIT 3", f"{order} LIMIT 5 OFFSET 2"], con)


def joined(name: str) -> list[str]:
    """Joins of a table with itself on one column."""
    return [
        f"SELECT count(*), count(a.{name}), count(b.{name}) FROM t a {kind} JOIN t b ON a.{name} = b.{name}"
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
    ]


def filtered(name: str) -> list[str]:
    """Comparisons of a column with its own values."""
    return [
        f"SELECT count(*), min({name}), max({name}) FROM t WHERE {name} {test} (SELECT {call}({name}) FROM t)"
        for test in ("=", "<>", "<", ">=")
        for call in ("min", "max")
    ] + [
        f"SELECT count(*) FROM t WHERE {name} IN (SELECT {name} FROM t)",
        f"SELECT count(*) FROM t WHERE {name} IS NULL",
    ]


@pytest.mark.parametrize("queries", [joined, filtered])
def test_joins_and_filters(queries: Callable[[str], list[str]]) -> None:
    @EXAMPLES
    @given(tables())
    def check(table: Table) -> None:
        with ours(table) as con:
            same(table, [sql for column in table.columns for sql in queries(column.name)], con)

    check()
