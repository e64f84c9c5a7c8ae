"""Medians and quantiles of groups, which programs compute without lists, beside DuckDB."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from simulated import needs_sim

if TYPE_CHECKING:
    from collections.abc import Iterator

    Both = tuple[warpmill.Connection, duckdb.DuckDBPyConnection]

#: Groups of one row, of NULLs only, of equal values, of an odd and an even number of rows, and of very unequal sizes.
TABLE = """CREATE TABLE t AS SELECT
    CASE WHEN i < 4000 THEN 0 WHEN i = 4000 THEN 1 WHEN i < 4100 THEN 2 WHEN i < 4300 THEN 3 ELSE i % 50 + 4 END AS g,
    CASE WHEN i % 3 = 0 THEN NULL ELSE 's' || (i % 4) END AS s,
    CASE WHEN i % 7 = 0 OR i BETWEEN 4001 AND 4099 THEN NULL
        WHEN i < 4300 AND i > 4100 THEN 5 ELSE i * 7919 % 10007 END AS x,
    (i * 31 % 1009)::INTEGER AS n, CAST(i * 17 % 211 AS SMALLINT) AS small, i * 48271 % 65537 / 3.0 - 5000 AS d,
    CAST(i * 17 % 977 AS DECIMAL(9, 2)) / 4 AS exact, DATE '2020-01-01' + CAST(i % 300 AS INTEGER) AS day
    FROM range(9000) r(i)"""

AGGREGATES = [
    "median(x)",
    "median(n), median(d), median(small)",
    "quantile_cont(x, 0.25), quantile_cont(x, 0.5), quantile_cont(x, 0), quantile_cont(x, 1)",
    "quantile_cont(d, 0.9), quantile_cont(n, -0.1), quantile_cont(n, 0.333)",
    "quantile_disc(x, 0.25), quantile_disc(x, 0.5), quantile_disc(x, 0), quantile_disc(x, 1), quantile(n, -0.75)",
    "quantile_disc(day, 0.3), quantile_disc(exact, 0.6)",
    "median(x) FILTER (WHERE n > 500), median(n), count(*), sum(n), min(d)",
    "round(median(d) + median(n), 3) AS a, count(x)",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY d), percentile_disc(0.3) WITHIN GROUP (ORDER BY d DESC)",
]

#: Aggregates that still use lists.
OTHERS = [
    "median(day), median(exact)",
    "quantile_cont(x, [0.25, 0.75]), quantile_cont(n, 1/3.0)",
    "median(x), list(x ORDER BY x)[:2]",
    "median(DISTINCT small)",
    "mad(n)",
]

FORMS = [
    "SELECT g, {0} FROM t GROUP BY g ORDER BY g",
    "SELECT {0} FROM t",
    "SELECT {0} FROM t WHERE false",
    "SELECT g, {0} FROM t WHERE g > 1000 GROUP BY g",
    "SELECT s, g % 3 AS m, {0} FROM t GROUP BY s, m ORDER BY s, m",
]

MORE = [
    "SELECT g FROM t GROUP BY g HAVING median(x) > 5000 ORDER BY g",
    """SELECT g, median(x) AS m FROM t GROUP BY g HAVING count(*) > 100 AND median(x) IS NOT NULL
        ORDER BY m DESC, g LIMIT 7""",
    "SELECT sum(m) FROM (SELECT g, median(n) AS m FROM t GROUP BY g)",
    "SELECT g, s, median(x) FROM t GROUP BY ROLLUP (g, s) ORDER BY ALL",
    "SELECT a.g, median(a.n) FROM t a JOIN t b ON a.n = b.n AND a.g = b.g GROUP BY a.g ORDER BY 1",
    "SELECT g, median(m) FROM (SELECT g, s, median(n) AS m FROM t GROUP BY g, s) GROUP BY g ORDER BY g",
    "SELECT g, (SELECT median(n) FROM t u WHERE u.g = q.g) FROM (SELECT DISTINCT g FROM t) q ORDER BY g",
    "SELECT median(x) FROM (VALUES (1.5::DOUBLE), ('nan'), ('inf'), (NULL), (-2)) v(x)",
    "SELECT median(x) FROM (VALUES (9223372036854775807), (9223372036854775807)) v(x)",
]


def near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-13)
    return bool(one == other)


def assert_same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    assert len(ours) == len(theirs)
    for row, expected in zip(ours, theirs, strict=True):
        assert all(near(one, other) for one, other in zip(row, expected, strict=True)), (row, expected)


@pytest.fixture(scope="module", params=["memory", "stored"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    where = [] if request.param == "memory" else [tmp_path_factory.mktemp("quantiles") / "db"]
    with warpmill.connect(*where, device="cpu") as ours, duckdb.connect() as theirs:
        ours.execute("SET warpmill.segment_rows = 1024")
        ours.execute(TABLE)
        theirs.execute(TABLE)
        yield ours, theirs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("aggregates", [*AGGREGATES, *OTHERS])
def test_answers_are_duckdbs(both: Both, aggregates: str, form: str) -> None:
    ours, theirs = both
    sql = form.format(aggregates)
    assert_same(ours.execute(sql).fetchall(), theirs.execute(sql).fetchall())


@pytest.mark.parametrize("sql", MORE)
def test_answers_of_queries_around_are_duckdbs(both: Both, sql: str) -> None:
    ours, theirs = both
    assert_same(ours.execute(sql).fetchall(), theirs.execute(sql).fetchall())


@needs_sim
def test_devices_run_them(both: Both) -> None:
    ours, _ = both
    for aggregates in ("median(x), median(d), count(*)", "quantile_cont(d, 0.9), quantile_disc(n, 0.25)"):
        sql = f"SELECT g, {aggregates} FROM t GROUP BY g ORDER BY g"
        expected = ours.execute(sql).fetchall()
        ours.execute("SET warpmill.device = 'sim'")
        try:
            found = ours.sql(sql)
            assert_same(found.fetchall(), expected)
            assert {program["device"] for program in found.profile["programs"]} == {"sim"}
        finally:
            ours.execute("SET warpmill.device = 'cpu'")


@pytest.mark.parametrize("aggregates", AGGREGATES)
def test_programs_run_them(both: Both, aggregates: str) -> None:
    ours, _ = both
    ours.execute("SET warpmill.fallback = 'error'")
    try:
        ours.execute(f"SELECT g, {aggregates} FROM t GROUP BY g ORDER BY g").fetchall()
    finally:
        ours.execute("RESET warpmill.fallback")
