"""Common table expressions that are used several times, and views: results computed once, compared with DuckDB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = [
    """CREATE TABLE facts AS SELECT i AS id, i % 7 AS k, CASE WHEN i % 5 <> 0 THEN i % 11 END AS v,
       'name ' || (i % 13) AS t, i / 2 AS d FROM range(9000) AS r(i)""",
    "CREATE TABLE names AS SELECT i AS k, 'name ' || i AS n, i % 2 AS odd FROM range(9) AS r(i)",
]

#: Settings of our engine.
WAYS: dict[str, dict[str, Any]] = {
    "cpu": {"device": "cpu"},
    "spilled": {"device": "cpu", "memory_limit": "1MB"},
    "sim": {"device": "sim", "device_fallback": "allow"},
    "three devices": {"device": "sim:3", "placement": "range"},
}

#: Statements with the number of scans of `facts`, which is lower than in the text.
STATEMENTS = {
    "one table three times": (
        """WITH g AS (SELECT k, sum(v) AS s, count(*) AS n FROM facts GROUP BY k)
           SELECT a.k, a.s, a.n, b.s, b.n, c.s, c.n
           FROM g AS a JOIN g AS b ON a.k = b.k JOIN g AS c ON b.k = c.k + 1""",
        1,
    ),
    "the largest of its groups": (
        """WITH g AS (SELECT k, sum(v) AS s FROM facts GROUP BY k)
           SELECT k, s FROM g WHERE s = (SELECT max(s) FROM g)""",
        1,
    ),
    "groups of groups": (
        """WITH g AS (SELECT k, t, sum(v) AS s FROM facts GROUP BY k, t), h AS (SELECT k, max(s) AS m FROM g GROUP BY k)
           SELECT k, m, 'h' AS what FROM h UNION ALL SELECT k, sum(m), 'i' FROM h GROUP BY k
           UNION ALL SELECT k, min(s), 'g' FROM g GROUP BY k""",
        1,
    ),
    "a join below": (
        """WITH g AS (SELECT n, count(v) AS c FROM facts JOIN names ON facts.k = names.k WHERE odd = 1 GROUP BY n)
           SELECT a.n, a.c, b.c FROM g AS a LEFT JOIN g AS b ON a.c = b.c + 1 ORDER BY ALL""",
        1,
    ),
    "a window": (
        """WITH w AS (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST, id) AS r FROM facts)
           SELECT a.k, a.id, b.id FROM w AS a JOIN w AS b ON a.k = b.k AND a.r = b.r + 1 WHERE a.r < 4 AND b.r < 4""",
        1,
    ),
    "the first rows": (
        """WITH f AS (SELECT id, k FROM facts ORDER BY v DESC NULLS LAST, id LIMIT 10)
           SELECT count(*) FROM f AS a, f AS b WHERE a.k < b.k""",
        1,
    ),
    "other constants": (
        """SELECT a.k, a.s, b.s FROM (SELECT k, sum(v) AS s FROM facts WHERE v > 3 GROUP BY k) AS a
           JOIN (SELECT k, sum(v) AS s FROM facts WHERE v > 4 GROUP BY k) AS b ON a.k = b.k""",
        2,
    ),
    "two zeros": (
        "SELECT (SELECT min(1 / (d * 0.0::DOUBLE)) FROM facts), (SELECT min(1 / (d * -0.0::DOUBLE)) FROM facts)",
        2,
    ),
    "existence, twice": (
        """WITH g AS (SELECT k FROM names WHERE EXISTS (SELECT 1 FROM facts WHERE facts.v = names.k AND id % 3 = 0))
           SELECT count(*), (SELECT max(k) FROM g), (SELECT min(k) FROM g) FROM g""",
        None,
    ),
    "no rows": (
        """WITH g AS (SELECT k, sum(v) AS s FROM facts WHERE id < 0 GROUP BY k)
           SELECT (SELECT sum(s) FROM g), (SELECT min(s) FROM g), (SELECT max(s) FROM g)""",
        1,
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def engines(request: pytest.FixtureRequest) -> Iterator[tuple[warpmill.Connection, duckdb.DuckDBPyConnection]]:
    if WAYS[request.param]["device"] != "cpu" and json.loads(_warpmill.devices())["no_simulated_device"] is not None:
        pytest.skip("no C++ compiler")
    with warpmill.connect(**WAYS[request.param]) as ours, duckdb.connect() as theirs:
        ours.set("segment_rows", "1024")
        for statement in TABLES:
            ours.execute(statement)
            theirs.execute(statement)
        yield ours, theirs


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_is_used_several_times(
    engines: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], name: str, request: pytest.FixtureRequest
) -> None:
    statement, scans = STATEMENTS[name]
    found, expected = ([str(row) for row in engine.sql(statement).fetchall()] for engine in engines)
    assert sorted(found) == sorted(expected)
    if (name, request.node.callspec.params["engines"]) == ("a window", "spilled"):
        return  # DataFusion runs windows there.
    plan = "\n".join(str(row[-1]) for row in engines[0].sql(f"EXPLAIN {statement}").fetchall())
    assert scans is None or plan.count("scan facts") == scans, plan
