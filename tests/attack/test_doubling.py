"""Statements of a few letters whose plans would double with each level: planned in time, or refused before they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Callable


def _columns(n: int) -> str:
    return "CREATE TABLE t AS SELECT " + ", ".join(f"{k} AS i{k}" for k in range(n))


def _names(n: int) -> str:
    return ", ".join(f"i{k}" for k in range(n))


def _types(n: int) -> list[str]:
    types = [f"CREATE TYPE a{k} AS STRUCT(x a{k - 1}, y a{k - 1})" for k in range(1, n)]
    return ["CREATE TYPE a0 AS STRUCT(x INTEGER, y INTEGER)", *types, f"CREATE TABLE t (c a{n - 1})"]


def _macros(n: int) -> list[str]:
    macros = [f"CREATE MACRO m{k}(x) AS m{k - 1}(x) + m{k - 1}(x)" for k in range(1, n)]
    return ["CREATE MACRO m0(x) AS x + 1", *macros, f"SELECT m{n - 1}(1)"]


def _table_macros(n: int) -> list[str]:
    join = "SELECT a.i FROM m{k}() a JOIN m{k}() b ON a.i = b.i"
    macros = [f"CREATE MACRO m{k}() AS TABLE {join.format(k=k - 1)}" for k in range(1, n)]
    return ["CREATE MACRO m0() AS TABLE SELECT 1 AS i", *macros, f"SELECT count(*) FROM m{n - 1}()"]


def _laterals(n: int) -> list[str]:
    chain = "".join(f", LATERAL (SELECT t{k - 1}.x + 1 AS x) t{k}" for k in range(1, n))
    return [f"SELECT count(*) FROM (SELECT 1 AS x) t0{chain}"]


ROWS = "CREATE TABLE t AS SELECT i FROM range(5) r(i)"


def _listed(item: str) -> Callable[[int], list[str]]:
    return lambda n: [ROWS, "SELECT " + ", ".join(item.format(k=k) for k in range(n)) + " FROM t"]


def _nested(before: str, after: str) -> Callable[[int], list[str]]:
    return lambda n: [ROWS, f"SELECT {before * n}i{after * n} FROM t"]


#: The statements for a number, a number with which they are answered, and whether a larger one is refused.
DOUBLING: dict[str, tuple[Callable[[int], list[str]], int, bool]] = {
    "types": (_types, 8, True),
    "macros": (_macros, 8, True),
    "table macros": (_table_macros, 6, True),
    "cube": (lambda n: [_columns(n), f"SELECT count(*) FROM t GROUP BY CUBE ({_names(n)})"], 12, True),
    "rollups": (
        lambda n: [
            _columns(n),
            "SELECT count(*) FROM t GROUP BY " + ", ".join(f"ROLLUP (i{k})" for k in range(n)),
        ],
        10,
        True,
    ),
    "cubes": (
        lambda n: [_columns(n), f"SELECT count(*) FROM t GROUP BY GROUPING SETS (CUBE ({_names(n)}), (i0))"],
        10,
        True,
    ),
    "laterals": (_laterals, 8, True),
    "lambdas": (_nested("list_transform([", "], x -> x)[1]"), 6, True),
    "comprehensions": (_nested("[x + 1 for x in [", "]][1]"), 6, True),
    "calls of coalesce": (_nested("coalesce(abs(", "), 1)"), 8, True),
    # These become one call.
    "coalesce": (_nested("coalesce(", ", 1)"), 60, False),
    "ifnull": (_nested("ifnull(", ", 1)"), 60, False),
    "full joins": (
        lambda n: [
            "SELECT count(*) FROM (SELECT 1 AS x) t0"
            + "".join(f" FULL JOIN (SELECT 1 AS x) t{k} USING (x)" for k in range(1, n))
        ],
        30,
        False,
    ),
    # These name the rows before them, not each other's.
    "values of subqueries": (_listed("(SELECT u.i + {k} FROM t u WHERE u.i < t.i ORDER BY u.i LIMIT 1)"), 30, False),
    "exists": (_listed("EXISTS (SELECT 1 FROM t u WHERE u.i < t.i + {k})"), 30, False),
    "in": (_listed("t.i IN (SELECT u.i + {k} FROM t u WHERE u.i < t.i)"), 30, False),
    "conditions of columns": (
        lambda n: [_columns(n), "SELECT count(*) FROM t WHERE COLUMNS(*) >= 0"],
        1000,
        False,
    ),
}


@pytest.mark.parametrize("kind", DOUBLING)
def test_nothing_doubles(kind: str) -> None:
    make, answered, refused = DOUBLING[kind]

    def run(size: int) -> None:
        with warpmill.connect() as con:
            for statement in make(size):
                con.execute(statement).fetchall()

    begin = time.monotonic()
    run(answered)
    if refused:
        with pytest.raises(warpmill.LimitError, match="limit"):
            run(60)
    assert time.monotonic() - begin < 20
