"""Window functions of DuckDB's plans, with DuckDB's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Calls over the table `t`, whose `k` is unique. `o` has ties and NULLs, `f` NaN, infinities and zeros of both signs.
CALLS = [
    "rank() OVER (PARTITION BY g ORDER BY o)",
    "rank() OVER (ORDER BY o DESC NULLS LAST)",
    "rank() OVER (PARTITION BY s, g ORDER BY d DESC, o NULLS FIRST)",
    "dense_rank() OVER (PARTITION BY g ORDER BY s)",
    "row_number() OVER (PARTITION BY g ORDER BY k DESC)",
    "percent_rank() OVER (PARTITION BY g ORDER BY o)",
    "cume_dist() OVER (PARTITION BY g ORDER BY o)",
    "rank() OVER (ORDER BY f)",
    "count(*) OVER (PARTITION BY f)",
    "count(*) OVER ()",
    "count(o) OVER (PARTITION BY g)",
    "sum(i) OVER (PARTITION BY g)",
    "sum(i) OVER (PARTITION BY g ORDER BY o)",
    "sum(i) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "sum(d) OVER (PARTITION BY s)",
    "sum(d) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)",
    "avg(d) OVER (PARTITION BY g)",
    "avg(o) OVER (PARTITION BY s ORDER BY k)",
    "sum(h) OVER (PARTITION BY g)",
    "min(d) OVER (PARTITION BY s ORDER BY o)",
    "max(s) OVER (PARTITION BY g)",
    "max(dt) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "min(o) OVER (ORDER BY k ROWS BETWEEN 2 FOLLOWING AND 5 FOLLOWING)",
    "lag(d) OVER (PARTITION BY g ORDER BY k)",
    "lag(s, 3) OVER (ORDER BY k)",
    "lead(o, 2) OVER (PARTITION BY s ORDER BY k DESC)",
    "lag(i, 1, -1) OVER (PARTITION BY g ORDER BY k)",
    "lead(d, 2, 0.5) OVER (ORDER BY k)",
    "first_value(o) OVER (PARTITION BY g ORDER BY k)",
    "last_value(s) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "first_value(o IGNORE NULLS) OVER (PARTITION BY g ORDER BY k)",
    "sum(x) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "avg(x) OVER (PARTITION BY g)",
    "stay + sum(stay) OVER (PARTITION BY g)",
    "sum(i) OVER (PARTITION BY g) * 1.5 / rank() OVER (PARTITION BY g ORDER BY k)",
]

#: Complete queries: operators above, below, and next to windows.
QUERIES = [
    "SELECT * FROM (SELECT g, k, rank() OVER (PARTITION BY g ORDER BY d DESC, k) AS r FROM t) WHERE r <= 3 ORDER BY g, r",
    "SELECT g, sum(d) AS s, rank() OVER (ORDER BY sum(d) DESC) AS r FROM t GROUP BY g ORDER BY r, g",
    "SELECT s, sum(d) * 100 / sum(sum(d)) OVER () AS share FROM t GROUP BY s ORDER BY s",
    "SELECT g, s, sum(i), rank() OVER (PARTITION BY grouping(g) + grouping(s) ORDER BY sum(i) DESC) AS r "
    "FROM t GROUP BY ROLLUP (g, s) ORDER BY ALL",
    "WITH w AS (SELECT g, o, row_number() OVER (PARTITION BY g ORDER BY k) AS n FROM t) "
    "SELECT a.g, count(*), sum(a.o - b.o) FROM w a JOIN w b ON a.g = b.g AND a.n = b.n + 1 GROUP BY a.g ORDER BY a.g",
    "SELECT k, avg(d) OVER (PARTITION BY g) AS m FROM t WHERE d > (SELECT avg(d) FROM t) AND g IN (SELECT g FROM t WHERE k = 5) ORDER BY k",
    "SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY s ORDER BY d DESC, k) = 1 ORDER BY k",
    "SELECT g, max(r) FROM (SELECT g, rank() OVER (ORDER BY o) AS r FROM t WHERE g > (SELECT min(g) FROM t)) GROUP BY g ORDER BY g",
    "SELECT k, sum(i) OVER w, count(*) OVER w FROM t WINDOW w AS (PARTITION BY s ORDER BY k) ORDER BY k",
    "SELECT k, rank() OVER (PARTITION BY g ORDER BY o) r FROM t WHERE i < 0 ORDER BY k",
]


@pytest.fixture(scope="module")
def con() -> Iterator[Any]:
    connection = warpmill.duckdb.connect()
    connection.execute(
        """CREATE TABLE t AS SELECT i AS k, i::INTEGER AS i, (i * 7919 % 5)::SMALLINT AS g, 's' || (i * 31 % 3) AS s,
            CASE WHEN i % 6 = 0 THEN NULL ELSE (i * 13 % 20)::INTEGER END AS o, (i * 37 % 101)::DECIMAL(12,2) / 4 AS d,
            (i * 10000000000000000)::HUGEINT AS wide, DATE '2020-01-01' + (i * 17 % 50)::INTEGER AS dt, i / 8.0 AS x, 1 AS stay,
            ['0.0', '-0.0', 'nan', 'inf', '-inf', NULL, '1.5'][1 + i % 7]::DOUBLE AS f, (i * 123456789)::BIGINT AS h
        FROM range(400) r(i);
        ALTER TABLE t DROP wide; ALTER TABLE t ALTER d TYPE DECIMAL(12,2); ALTER TABLE t ALTER x TYPE DOUBLE"""
    )
    connection.execute("SET warpmill_fallback = 'error'")
    yield connection
    connection.close()


def check(con: Any, sql: str) -> None:
    con.execute("SET warpmill_enabled = false")
    theirs = con.execute(sql)
    expected = [str(column[1]) for column in theirs.description], theirs.fetchall()
    con.execute("SET warpmill_enabled = true")
    ours = con.execute(sql)
    assert repr(([str(column[1]) for column in ours.description], ours.fetchall())) == repr(expected)
    assert con.execute("SELECT accelerated FROM warpmill_last()").fetchall() == [(True,)]


@pytest.mark.parametrize("call", CALLS)
def test_calls(con: Any, call: str) -> None:
    check(con, f"SELECT k, {call} AS v FROM t ORDER BY k")
    check(con, f"SELECT v, count(*), min(k) FROM (SELECT k, {call} AS v FROM t) GROUP BY v ORDER BY 3")
    check(con, f"SELECT k, {call} AS v FROM (FROM t WHERE k < 1) t ORDER BY k")


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(con: Any, sql: str) -> None:
    check(con, sql)


def test_the_plan_says_what_runs_where(con: Any) -> None:
    sql = "SELECT g, rank() OVER (ORDER BY sum(d)) AS r FROM t GROUP BY g ORDER BY r"
    [(accelerated, text)] = con.execute("FROM warpmill_explain(?)", [sql]).fetchall()
    assert accelerated
    assert "WindowAggExec" not in text
    assert "WarpmillExec" in text


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT k, rank() OVER (ORDER BY k) FROM t", "rows as they come"),
        ("SELECT k, row_number() OVER () FROM t ORDER BY k", "row_number without an order"),
        (
            "SELECT k, sum(i) OVER (ORDER BY k RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t ORDER BY k",
            "a RANGE or of GROUPS",
        ),
        ("SELECT k, sum(DISTINCT g) OVER (PARTITION BY s) FROM t ORDER BY k", "DISTINCT, EXCLUDE"),
        ("SELECT k, sum(i) FILTER (WHERE g = 1) OVER (PARTITION BY s) FROM t ORDER BY k", "with FILTER"),
        (
            "SELECT k, sum(i) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) FROM t ORDER BY k",
            "DISTINCT, EXCLUDE",
        ),
        ("SELECT k, sum(x) OVER (ORDER BY k ROWS 2 PRECEDING) FROM t ORDER BY k", r"the window function sum\(DOUBLE\)"),
        ("SELECT k, ntile(4) OVER (ORDER BY k) FROM t ORDER BY k", "ntile"),
        ("SELECT k, median(i) OVER (PARTITION BY g) FROM t ORDER BY k", r"the window function median\(INTEGER\)"),
        ("SELECT k, lag(i, g) OVER (ORDER BY k) FROM t ORDER BY k", "not constant"),
    ],
)
def test_what_stays_says_why(con: Any, sql: str, reason: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=reason):
        con.execute(sql)
