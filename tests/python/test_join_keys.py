"""Join keys and conditions of subqueries with columns of several tables, compared with DuckDB: none is lost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = [
    "CREATE TABLE a AS SELECT i AS k, i % 7 AS x FROM range(100) AS r(i)",
    "CREATE TABLE b AS SELECT i AS k, CASE WHEN i % 11 <> 0 THEN i % 5 END AS y FROM range(100) AS r(i)",
    "CREATE TABLE s AS SELECT i AS v FROM range(3) AS r(i)",
    "CREATE TABLE o AS SELECT i AS id, i % 5 AS n, i % 3 AS m FROM range(20) AS r(i)",
    "CREATE TABLE p AS SELECT i AS id, i % 3 AS n FROM range(6) AS r(i)",
    "CREATE TABLE q AS SELECT i AS id, i % 4 + 1 AS n FROM range(6) AS r(i)",
    "CREATE TABLE t AS SELECT CAST(i % 9 AS VARCHAR) AS w, i AS k FROM range(30) AS r(i)",
]

Engines = tuple[warpmill.Connection, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with warpmill.connect(device="cpu") as ours, duckdb.connect() as theirs:
        for statement in TABLES:
            ours.execute(statement)
            theirs.execute(statement)
        yield ours, theirs


def check(engines: Engines, statement: str) -> None:
    found, expected = ([str(row) for row in engine.sql(statement).fetchall()] for engine in engines)
    assert sorted(found) == sorted(expected), statement


CHAIN = "a JOIN b ON a.k = b.k"

STATEMENTS = [
    f"SELECT * FROM {CHAIN} JOIN s ON a.x + b.y = s.v",
    "SELECT * FROM a, b, s WHERE a.k = b.k AND a.x + b.y = s.v",
    "SELECT a.x, b.y FROM a, b, s WHERE a.x = b.y AND greatest(a.x, b.y) = s.v",
    f"SELECT * FROM {CHAIN} LEFT JOIN s ON a.x + b.y = s.v JOIN s AS t ON t.v = s.v",
    f"SELECT * FROM s RIGHT JOIN ({CHAIN}) ON a.x + b.y = s.v JOIN s AS t ON t.v = s.v",
    f"SELECT * FROM s FULL JOIN ({CHAIN}) ON a.x + b.y = s.v JOIN s AS t ON t.v = s.v JOIN a AS c ON c.k = a.k",
    f"SELECT * FROM s RIGHT JOIN ({CHAIN}) ON a.x + b.y = s.v WHERE s.v IN (SELECT x FROM a)",
    f"SELECT count(*) FROM s JOIN ({CHAIN}) ON a.x + b.y = s.v",
    f"SELECT v, (SELECT count(*) FROM s AS t JOIN ({CHAIN}) ON a.x + b.y = t.v) AS n FROM s",
]


@pytest.mark.parametrize("join_order", ["on", "off"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_keys_of_several_tables(engines: Engines, statement: str, join_order: str) -> None:
    engines[0].set("join_order", join_order)
    check(engines, statement)
    engines[0].set("join_order", "on")


#: Subqueries that compare columns of equal names with outer ones.
SUBQUERIES = [
    f"SELECT id FROM o WHERE {condition}"
    for rows, compared in (
        ("p, q WHERE p.id = q.id", "o.n = p.n + q.n"),
        ("p, q WHERE p.id = q.id", "o.n < p.n AND o.m <> q.n"),
        ("p, q WHERE p.id = q.id", "o.n > p.n - q.n"),
        ("p JOIN q ON p.n = q.n WHERE true", "o.n = p.id + q.id"),
        ("p JOIN q ON p.n = q.n WHERE true", "o.m = q.id"),
    )
    for condition in (
        f"EXISTS (SELECT 1 FROM {rows} AND {compared})",
        f"NOT EXISTS (SELECT 1 FROM {rows} AND {compared})",
        f"EXISTS (SELECT 1 FROM {rows} AND {compared}) OR id = 3",
        f"id IN (SELECT p.id FROM {rows} AND {compared})",
        f"id NOT IN (SELECT p.id FROM {rows} AND {compared})",
        f"id >= (SELECT max(p.id) FROM {rows} AND {compared})",
    )
] + ["SELECT id, (SELECT max(p.id) FROM p JOIN q ON p.id = q.id WHERE o.n = p.n AND o.m = q.n) AS x FROM o"]


@pytest.mark.parametrize("statement", SUBQUERIES)
def test_conditions_of_subqueries(engines: Engines, statement: str) -> None:
    check(engines, statement)


def test_what_a_subquery_finds_is_deleted() -> None:
    statement = "DELETE FROM o WHERE EXISTS (SELECT 1 FROM p, q WHERE p.id = q.id AND o.n = p.n + q.n)"
    with warpmill.connect(device="cpu") as ours, duckdb.connect() as theirs:
        for table in TABLES:
            ours.execute(table)
            theirs.execute(table)
        ours.execute(statement)
        theirs.execute(statement)
        check((ours, theirs), "SELECT * FROM o")


#: Joins of texts with numbers: a key is a conversion, named as its column is.
CONVERTED = [
    "SELECT t.w, o.id FROM t JOIN o ON t.w = o.id",
    "SELECT t.w, o.id FROM t LEFT JOIN o ON t.w::INTEGER = o.id",
    "SELECT w FROM t WHERE w::INTEGER IN (SELECT n FROM o)",
    "SELECT w FROM t WHERE w::INTEGER NOT IN (SELECT n FROM o)",
    "SELECT w FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.id = t.w::BIGINT AND o.m = t.k)",
    "SELECT x.w, y.k FROM t AS x JOIN t AS y ON x.w::INTEGER = y.w::INTEGER AND x.w = y.w",
    "SELECT o.id, p.n FROM o JOIN p ON -(o.n::SMALLINT) = -p.n AND -(o.n::SMALLINT)::BIGINT = -p.n",
    "SELECT o.id, p.n FROM o JOIN p ON o.id::VARCHAR::BIGINT = p.id AND o.id = p.id",
]


@pytest.mark.parametrize("statement", CONVERTED)
def test_converted_keys(engines: Engines, statement: str) -> None:
    check(engines, statement)


def statement(generator: random.Random) -> str:
    """A chain of joins, each on columns of up to three tables before it."""
    columns, chain = ["t0.k", "t0.x"], "a AS t0"
    for number in range(1, generator.randint(2, 4)):
        table, own = generator.choice([("a", ["k", "x"]), ("b", ["k", "y"]), ("s", ["v"])])
        some = generator.sample(columns, min(len(columns), generator.randint(1, 3)))
        before = generator.choice([" + ".join(some), f"coalesce({', '.join(some)})", f"greatest({', '.join(some)})"])
        kind = generator.choice(["", "", "LEFT", "RIGHT"])
        chain = f"{chain} {kind} JOIN {table} AS t{number} ON {before} = t{number}.{generator.choice(own)}"
        columns += [f"t{number}.{name}" for name in own]
    where = generator.choice(["", f" WHERE {generator.choice(columns)} IN (SELECT v FROM s)"])
    return f"SELECT count(*), sum({' + '.join(generator.sample(columns, 2))}), min({columns[-1]}) FROM {chain}{where}"


@pytest.mark.parametrize("seed", range(120))
def test_random_chains(engines: Engines, seed: int) -> None:
    check(engines, statement(random.Random(seed)))
