"""Subqueries in ON of outer joins, of rows, and in lists, beside plain DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

    Both = tuple[warpmill.Connection, duckdb.DuckDBPyConnection]

TABLES = """
    CREATE TABLE l (a INTEGER, x INTEGER);
    INSERT INTO l VALUES (1, 1), (2, 2), (3, NULL), (NULL, 4), (2, 2);
    CREATE TABLE r (b INTEGER, y INTEGER);
    INSERT INTO r VALUES (1, 5), (3, 6), (7, 7), (NULL, NULL), (3, 6);
    CREATE TABLE s AS SELECT i AS k FROM range(8) q(i) WHERE i % 2 = 0;
    CREATE TABLE lists AS SELECT * FROM (VALUES (1, [1, 2, NULL]), (2, [3, 4]), (3, NULL), (4, [])) v(id, list)
"""

#: Conditions on rows of both sides.
CONDITIONS = [
    "EXISTS (SELECT 1 FROM s WHERE k = a + b)",
    "NOT EXISTS (SELECT 1 FROM s WHERE k = a + b)",
    "a = b AND EXISTS (SELECT 1 FROM s WHERE k = a + b)",
    "x + y IN (SELECT k FROM s WHERE k > a)",
    "a < (SELECT max(k) FROM s WHERE k < b)",
    "EXISTS (SELECT 1 FROM s WHERE k = a) AND EXISTS (SELECT 1 FROM s WHERE k = a + b) AND y > 0",
    "(a, b) = ANY (SELECT k, k + 1 FROM s)",
    "false AND EXISTS (SELECT 1 FROM s WHERE k = a + b)",
]

JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]

EQUAL = [
    *(f"SELECT * FROM l {join} r ON {condition} ORDER BY ALL" for join in JOINS for condition in CONDITIONS),
    *(f"SELECT * FROM l SEMI JOIN r ON {condition} ORDER BY ALL" for condition in CONDITIONS),
    *(f"SELECT * FROM l ANTI JOIN r ON {condition} ORDER BY ALL" for condition in CONDITIONS),
    "SELECT count(*) FROM l FULL JOIN r ON EXISTS (SELECT 1 FROM s WHERE k = a + b) LEFT JOIN s ON k = a",
    "SELECT * FROM (SELECT a FROM l WHERE a > 9) l LEFT JOIN r ON EXISTS (SELECT 1 FROM s WHERE k = a + b)",
    "SELECT l.a, z.v FROM (VALUES (1), (2)) l(a) LEFT JOIN LATERAL (SELECT l.a + 1 AS v) z ON true ORDER BY ALL",
    "SELECT * FROM l, LATERAL (VALUES (a), (x + 1)) v(y) ORDER BY ALL",
    "SELECT a, (SELECT max(c) FROM (VALUES (a, 1), (x, 2)) v(c, d)) FROM l ORDER BY ALL",
    "SELECT typeof((SELECT l.a + 1)) FROM (VALUES (1::SMALLINT)) l(a)",
    "SELECT (SELECT q.n + 1) FROM (SELECT sum(a) AS n FROM l) q",
    "SELECT s.v, r.s.v FROM (VALUES (1)) s(v) LEFT JOIN (VALUES ({'v': 2})) r(s) ON s.v = 1",
    *(
        f"SELECT {row} {op} {which} (SELECT * FROM (VALUES {rows}) v(p, q))"
        for row in ("(1, 2)", "(NULL, 2)", "(1, NULL)", "row(0, 5)")
        for op in ("=", "<>", "<", "<=", ">", ">=")
        for which in ("ANY", "ALL")
        for rows in ("(1, 2)", "(1, 2), (1, 3)", "(1, NULL::INTEGER), (0, 1)", "(NULL, NULL)")
    ),
    "SELECT (1, 2) < ALL (SELECT k, k FROM s WHERE k > 100), (1, 2) < ANY (SELECT k, k FROM s WHERE k > 100)",
    "SELECT a, x FROM l WHERE (a, x) >= ANY (SELECT b, y FROM r) ORDER BY ALL",
    "SELECT id, 3 = ANY (list), 2 = ANY (list), NULL = ANY (list) FROM lists ORDER BY id",
    "SELECT id, 3 IN list, 2 IN list, 3 NOT IN list FROM lists ORDER BY id",
]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with warpmill.connect(device="cpu") as ours, duckdb.connect() as theirs:
        for sql in TABLES.split(";"):
            ours.execute(sql)
            theirs.execute(sql)
        yield ours, theirs


@pytest.mark.parametrize("sql", EQUAL)
def test_rows_are_those_of_duckdb(both: Both, sql: str) -> None:
    ours, theirs = both
    assert ours.execute(sql).fetchall() == theirs.execute(sql).fetchall()


def test_rows_of_sides_that_vary_are_drawn_once(both: Both) -> None:
    ours, _ = both
    pairs = ours.execute(
        """SELECT l.n, r.b FROM (SELECT a, random() AS n FROM l) l FULL JOIN r
        ON EXISTS (SELECT 1 FROM s WHERE k = a + b)"""
    ).fetchall()
    assert len({n for n, _ in pairs if n is not None}) == 5
