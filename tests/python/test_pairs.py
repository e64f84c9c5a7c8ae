"""Functions of pairs of numbers (corr, covar_*, regr_*) in programs, on CPU and simulated device, beside DuckDB."""

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

#: Groups of one row, of no pairs, of constants, of large numbers that differ little, and of many rows.
TABLE = """CREATE TABLE t AS SELECT
    CASE WHEN i < 2500 THEN 0 WHEN i = 2500 THEN 1 WHEN i < 2600 THEN 2 WHEN i < 2700 THEN 3 ELSE i % 40 + 4 END AS g,
    CASE WHEN i % 3 = 0 THEN NULL ELSE 's' || (i % 4) END AS s,
    CASE WHEN i % 7 = 0 OR i BETWEEN 2501 AND 2599 THEN NULL
        WHEN i BETWEEN 2600 AND 2650 THEN 5.25 ELSE i * 7919 % 10007 / 4.0 END AS x,
    CASE WHEN i % 5 = 0 THEN NULL WHEN i BETWEEN 2600 AND 2699 THEN 7
        ELSE 1e6 + i * 48271 % 65537 / 8.0 END::DOUBLE AS y,
    (i * 31 % 1009)::INTEGER AS n, CAST(i * 17 % 977 AS DECIMAL(9, 2)) / 4 AS exact
    FROM range(6000) r(i)"""

FUNCTIONS = [
    *("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2"),
    *("regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
]

FORMS = [
    "SELECT g, {0} FROM t GROUP BY g ORDER BY g",
    "SELECT {0} FROM t",
    "SELECT {0} FROM t WHERE false",
    "SELECT g, {0} FROM t WHERE g > 1000 GROUP BY g",
    "SELECT s, n % 300 AS m, {0} FROM t GROUP BY s, m ORDER BY s, m",
    "SELECT n, {0}, count(*), min(s) FROM t GROUP BY n ORDER BY n",
]

MORE = [
    "SELECT g, corr(y, x) FILTER (WHERE n > 500), regr_count(y, x) FILTER (WHERE false) FROM t GROUP BY g ORDER BY g",
    "SELECT g FROM t GROUP BY g HAVING regr_count(y, x) > 100 ORDER BY g",
    "SELECT corr(n, exact), covar_pop(n, n), regr_slope(exact, 3), corr(x, NULL) FROM t",
    "SELECT sum(c) FROM (SELECT g, covar_pop(y, x) AS c FROM t GROUP BY g)",
    "SELECT g, s, regr_sxy(y, x) FROM t GROUP BY ROLLUP (g, s) ORDER BY ALL",
    "SELECT a.g, corr(a.y, b.x) FROM t a JOIN t b ON a.n = b.n AND a.g = b.g GROUP BY a.g ORDER BY 1",
    "SELECT g, avg(y), corr(y, x), var_pop(x), sum(n) FROM t GROUP BY g ORDER BY g",
]

#: NaN and infinities, and numbers whose squares overflow.
SPECIAL = [
    "(1.0::DOUBLE, 'nan'::DOUBLE), (2, 3)",
    "('inf'::DOUBLE, 1.0::DOUBLE), (2, 3), (4, 5)",
    "(1.0::DOUBLE, 2.0::DOUBLE), ('-inf', 3), ('inf', 7)",
    "(1e200::DOUBLE, 1.0::DOUBLE), (-1e200, 3), (3e200, 5)",
    "(1e-200::DOUBLE, 1.0::DOUBLE), (-1e-200, 3), (3e-200, 5)",
    "(NULL::DOUBLE, 1.0::DOUBLE), (1, NULL), (3, 5)",
    "(NULL::DOUBLE, 1.0::DOUBLE), (1, NULL)",
    "(1e15::DOUBLE, 1e15::DOUBLE), (1e15 + 1, 1e15 + 2), (1e15 + 2, 1e15 + 4)",
]


@pytest.fixture(scope="module", params=["cpu", pytest.param("sim", marks=needs_sim)])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """Both engines with the table; Warpmill must run every query as programs, on one site."""
    with warpmill.connect(device=request.param) as engine, duckdb.connect() as plain:
        for con in (engine, plain):
            con.execute(TABLE)
        engine.execute("SET warpmill.fallback = 'error'")
        yield engine, plain


def near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        alike = math.isnan(one) and math.isnan(other)
        return alike or math.isclose(one, other, rel_tol=1e-8, abs_tol=1e-9)
    return bool(one == other)


def check(both: Both, sql: str) -> None:
    found, expected = (con.execute(sql).fetchall() for con in both)
    assert len(found) == len(expected), sql
    for row, own in zip(expected, found, strict=True):
        assert all(map(near, own, row)), f"{sql}\n{own}\n{row}"


@pytest.mark.parametrize("form", FORMS)
def test_all_functions(both: Both, form: str) -> None:
    check(both, form.format(", ".join(f"{function}(y, x)" for function in FUNCTIONS)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_function(both: Both, function: str) -> None:
    check(both, f"SELECT g, {function}(x, y) FROM t GROUP BY g ORDER BY g")


@pytest.mark.parametrize("sql", MORE)
def test_in_statements(both: Both, sql: str) -> None:
    both[0].execute("SET warpmill.fallback = 'allow'")
    check(both, sql)
    both[0].execute("SET warpmill.fallback = 'error'")


@pytest.mark.parametrize("rows", SPECIAL)
def test_special_numbers(both: Both, rows: str) -> None:
    for con in both:
        con.execute(f"CREATE OR REPLACE TABLE special AS SELECT * FROM (VALUES {rows}) v(y, x)")
    check(both, f"SELECT {', '.join(f'{function}(y, x)' for function in FUNCTIONS)} FROM special")


def test_states_that_are_put_aside() -> None:
    sql = "SELECT k, corr(y, x), regr_intercept(y, x), regr_count(y, x) FROM t GROUP BY k ORDER BY k"
    table = """CREATE TABLE t AS SELECT i % 50000 AS k, (i * 7919 % 10007)::DOUBLE AS x,
        CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 31 % 1009) / 3.0 END::DOUBLE AS y FROM range(200000) r(i)"""
    with warpmill.connect(device="cpu") as engine, duckdb.connect() as plain:
        for con in (engine, plain):
            con.execute(table)
        engine.execute("SET warpmill.fallback = 'error'")
        engine.execute("SET warpmill.memory_limit = '4MB'")
        check((engine, plain), sql)
