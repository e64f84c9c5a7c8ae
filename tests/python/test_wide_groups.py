"""Groups by integers and texts together, compared with DuckDB: devices compare the integers first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

#: `id` has many values. A text tells its rows apart in `one`, which is of one `id` in every other row.
TABLES = [
    """CREATE TABLE facts AS SELECT (i * 7919) % 70001 AS id, i % 1000 - 500 AS v, 'text ' || (i % 9) AS t,
       CASE WHEN i % 2 = 0 THEN 5 ELSE (i * 31) % 80000 END AS one,
       CASE WHEN i % 3 <> 0 THEN 'a longer text that begins like the others, ' || (i % 2500) END AS u
       FROM range(40000) AS r(i)""",
    "CREATE TABLE names AS SELECT i AS id, 'name ' || (i % 40000) AS n, i % 100 AS k FROM range(80000) AS r(i)",
]

STATEMENTS = [
    "SELECT id, t, count(*), sum(v) FROM facts GROUP BY id, t",
    "SELECT t, id, u, min(v) FROM facts GROUP BY t, id, u",
    "SELECT one, u, count(*), sum(v), max(t) FROM facts GROUP BY one, u",
    "SELECT u, one + 1, count(DISTINCT t) FROM facts GROUP BY u, one + 1",
    "SELECT CAST(one AS DOUBLE), u, sum(v) FROM facts GROUP BY ALL",
    "SELECT n, names.id, k, sum(v) FROM facts JOIN names ON facts.id = names.id GROUP BY n, names.id, k",
    "SELECT names.id, n, sum(v) FROM facts RIGHT JOIN names ON one = names.id GROUP BY names.id, n",
    "SELECT id, n FROM names WHERE id < 0 GROUP BY id, n",
    "SELECT DISTINCT one, u, t FROM facts",
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        for table in TABLES:
            con.execute(table)
        yield con


@pytest.fixture(scope="module", params=["cpu", "sim", "sim:2"])
def ours(request: pytest.FixtureRequest) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device=request.param, device_fallback="allow") as con:
        for table in TABLES:
            con.execute(table)
        yield con


@pytest.mark.parametrize("statement", STATEMENTS)
def test_groups(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, statement: str) -> None:
    expected = duck.execute(statement).fetchall()
    assert sorted(ours.execute(statement).fetchall(), key=repr) == sorted(expected, key=repr)
