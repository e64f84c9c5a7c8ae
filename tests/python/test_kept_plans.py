"""Cached plans belong to the same statement with its current meaning."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill


def _rows(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


#: Statements whose plans depend on their literals: the plan for the first ones is wrong for the last.
DEPENDENT: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "a condition that the earlier value implied": (
        "SELECT count(*) FROM a x, e y WHERE x.k = y.k AND x.k > 20 AND y.k > 20 AND x.k > {}",
        [(30,), (31,), (12,)],
    ),
    "a cast constant": ("SELECT count(*) FROM b WHERE g <> 2::BIGINT AND g = {}", [(1,), (3,), (2,)]),
    "a view": ("SELECT count(*) FROM v WHERE k > {}", [(60,), (70,), (20,)]),
    "NULL that is rejected or not": (
        "SELECT count(*) FROM a LEFT JOIN e ON a.k = e.k WHERE coalesce(e.k, 0) = {}",
        [(7,), (8,), (0,)],
    ),
    "NULL on both sides": (
        "SELECT count(*) FROM a FULL JOIN e ON a.k = e.k WHERE coalesce(e.k, 15) < {}",
        [(12,), (13,), (20,)],
    ),
    "a condition on both sides of a join": (
        "SELECT count(*) FROM (SELECT * FROM a WHERE k < {}) x LEFT JOIN e ON x.k = e.k WHERE x.k < {}",
        [(20, 40), (21, 41), (40, 20)],
    ),
    "an anti-join": (
        "SELECT count(*) FROM (SELECT * FROM a WHERE k < {}) x WHERE x.k < {} "
        "AND NOT EXISTS (SELECT 1 FROM e WHERE e.k = x.k)",
        [(20, 40), (21, 41), (40, 20)],
    ),
    "a constant branch": (
        "SELECT count(*) FROM (SELECT 5 AS k FROM a UNION ALL SELECT k FROM e) WHERE k > {}",
        [(2,), (3,), (7,)],
    ),
    "branches with conditions": (
        "WITH q AS (SELECT k, g FROM b WHERE k < 50 UNION ALL SELECT k, g FROM b WHERE k >= 50) "
        "SELECT g, count(*) FROM q WHERE k < {} GROUP BY g",
        [(70,), (80,), (20,)],
    ),
    "underscores": (
        "SELECT count(*) FROM b WHERE k < 1_000_000_000 AND (SELECT k FROM a ORDER BY k LIMIT 1 OFFSET {}) > {}",
        [(1, 1), (2, 2), (2, 3), (9, 2)],
    ),
}

FEW = (
    "CREATE TABLE a AS SELECT range AS k FROM range(50)",
    "CREATE TABLE e AS SELECT range * 2 + 10 AS k FROM range(50)",
    "CREATE TABLE b AS SELECT range AS k, range % 7 AS g FROM range(100)",
    "CREATE TEMP VIEW v AS SELECT * FROM b WHERE k > 50",
)


@pytest.mark.parametrize("name", DEPENDENT)
def test_each_statement_has_its_own_plan(tmp_path: Any, name: str) -> None:
    with warpmill.connect(tmp_path / "db") as con, duckdb.connect() as peer:
        for made in FEW:
            con.execute(made)
            peer.execute(made)
        for text in (DEPENDENT[name][0].format(*values) for values in DEPENDENT[name][1]):
            assert _rows(con.sql(text).fetchall()) == _rows(peer.sql(text).fetchall()), text


def test_execute_runs_what_is_prepared_now(tmp_path: Any) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute(FEW[2])
        con.execute("PREPARE p AS SELECT max(k) FROM b WHERE k < $1")
        assert con.sql("EXECUTE p(40)").fetchall() == con.sql("EXECUTE p(40)").fetchall() == [(39,)]
        con.execute("DEALLOCATE p")
        con.execute("PREPARE p AS SELECT min(k) + 1000 FROM b WHERE k < $1")
        assert con.sql("EXECUTE p(40)").fetchall() == [(1000,)]
