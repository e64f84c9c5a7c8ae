"""Casts between all pairs of types, beside DuckDB: constants and columns, `CAST` and `TRY_CAST`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from dialect.lockstep import Answer, answer_of, rows_differ, types_differ

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dialect.lockstep import Engine

#: A value of every type, as a text that is cast to it, and one that most other types can hold.
TYPES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("1", "0"),
    "SMALLINT": ("1", "100"),
    "INTEGER": ("1", "100"),
    "BIGINT": ("1", "100"),
    "HUGEINT": ("1", "100"),
    "UTINYINT": ("1", "100"),
    "USMALLINT": ("1", "100"),
    "UINTEGER": ("1", "100"),
    "UBIGINT": ("1", "100"),
    "FLOAT": ("1", "2.5"),
    "DOUBLE": ("1", "2.5"),
    "DECIMAL(9,2)": ("1", "2.25"),
    "DECIMAL(38,0)": ("1", "100"),
    "VARCHAR": ("1", "0"),
    "BLOB": ("1", "a"),
    "DATE": ("2020-01-01", "1969-12-31"),
    "TIME": ("01:02:03", "23:59:59.5"),
    "TIMESTAMP": ("2020-01-01", "1969-12-31 23:00:00"),
    "TIMESTAMP_S": ("2020-01-01", "1969-12-31 23:00:00"),
    "TIMESTAMP_MS": ("2020-01-01", "1969-12-31 23:00:00"),
    "TIMESTAMP_NS": ("2020-01-01", "1969-12-31 23:00:00"),
    "TIMESTAMPTZ": ("2020-01-01 00:00:00+00", "1969-12-31 23:00:00+00"),
    "INTERVAL": ("1 day", "2 hours"),
}

#: Casts whose answers differ, with reasons.
KNOWN = {
    ("FLOAT", "HUGEINT"): "a HUGEINT is held as DECIMAL(38,0): halves are rounded away from zero, as of decimals",
    ("DOUBLE", "HUGEINT"): "a HUGEINT is held as DECIMAL(38,0): halves are rounded away from zero, as of decimals",
    ("TIMESTAMP_NS", "TIMESTAMP_S"): "DuckDB has all other casts of timestamps, but not this one",
}

PAIRS = [pytest.param(source, target, id=f"{source} to {target}") for source in TYPES for target in TYPES]


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Engine, Engine]]:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        theirs.sql("SET TimeZone = 'UTC'")
        yield ours, theirs


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_cast(engines: tuple[Engine, Engine], source: str, target: str) -> None:
    found = [
        difference
        for difference in (compared(*engines, statement) for statement in statements(source, target))
        if difference
    ]
    if (source, target) in KNOWN:
        assert found, "there is no difference any more"
    else:
        assert not found, "\n".join(found)


#: Joins on casts that can fail, of columns that are also selected: both are columns of one input then.
CASTS_AS_KEYS = [
    f"SELECT {selected} FROM (SELECT x, row_number() OVER (ORDER BY x) AS n FROM t) AS p {kind} JOIN t AS q ON {on}"
    for selected, kind in (
        ("p.x, p.n", "ANTI"),
        ("p.x, p.n", "SEMI"),
        ("p.x, p.n, q.x", "LEFT"),
        ("p.x, p.n, q.x", "FULL"),
        ("p.n, q.y", ""),
    )
    for on in (
        "CAST(p.n AS INTEGER) = q.x",
        "TRY_CAST(p.n AS TINYINT) = TRY_CAST(q.y AS TINYINT)",
        "CAST(p.n AS INTEGER) = q.x AND CAST(p.n AS SMALLINT) = q.y",
    )
]


@pytest.mark.parametrize("statement", CASTS_AS_KEYS)
def test_cast_as_key_of_a_join(statement: str) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for engine in (ours, theirs):
            engine.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 2), (2, NULL), (NULL, 3), (4, 1)) AS v(x, y)")
        assert not compared(ours, theirs, statement)


def statements(source: str, target: str) -> list[str]:
    """Casts of a constant, of a column with a NULL, and of a column of nothing else."""
    first, second = (f"CAST('{text}' AS {source})" for text in TYPES[source])
    rows = f"(VALUES ({first}), ({second}), (NULL)) t(x)"
    nothing = f"(VALUES (CAST(NULL AS {source}))) t(x)"

    def cast(how: str, value: str) -> str:
        # Both engines make their own Python values of intervals.
        return f"CAST({how}({value} AS {target}) AS VARCHAR)" if target == "INTERVAL" else f"{how}({value} AS {target})"

    return [
        f"SELECT {cast(how, value)} AS y{rest}"
        for how in ("CAST", "TRY_CAST")
        for value, rest in ((first, ""), ("x", f" FROM {rows}"), ("x", f" FROM {nothing}"))
    ]


def compared(ours: Engine, theirs: Engine, statement: str) -> str | None:
    """The difference of the answers to a statement."""
    left, right = (answered(engine, statement) for engine in (ours, theirs))
    if left.error or right.error:
        found = None if left.error and right.error else "only one engine fails"
    else:
        found = rows_differ(left, right, statement) or types_differ(left, right)
    return f"{statement}: {found}\n  warpmill: {left}\n  duckdb:   {right}" if found else None


def answered(engine: Engine, statement: str) -> Answer:
    try:
        return answer_of(engine.sql(statement))
    except (duckdb.Error, warpmill.Error) as error:
        return Answer(error=str(error))
