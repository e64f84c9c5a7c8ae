"""Aggregates of rows beside plain DuckDB: of constants and of a stored table."""

from __future__ import annotations

import math
from typing import Any

import pytest

from beside import assert_both_refuse, pair_with

TABLE = """
    CREATE TABLE t AS SELECT * FROM (VALUES
        (1, NULL, 1.5::DOUBLE, 1.05::DECIMAL(9,2), DATE '2020-01-01', TIME '01:00', 'a', INTERVAL 1 DAY),
        (1, 4, 'nan', -2.11, DATE '2020-01-04', TIME '02:00', 'b', INTERVAL 1 MONTH),
        (2, 3, 2.5, 2.12, NULL, NULL, NULL, NULL),
        (2, 3, -1.0, 2.15, DATE '1960-02-29', TIME '23:59:59.999999', 'c', INTERVAL '1 year 3 hours'),
        (NULL, 9, 0.25, NULL, DATE '2020-01-02', TIME '04:30', 'b', INTERVAL '-5 days')
    ) v(g, i, f, d, day, clock, s, span)
"""

EQUAL = [
    "SELECT any_value(i), any_value(s), first(i), last(g), first(s), last(span), any_value(span) FROM t",
    "SELECT g, any_value(i), first(i), any_value(s) FROM t GROUP BY g ORDER BY g",
    "SELECT first(i ORDER BY g, i, g DESC, i DESC), first(s ORDER BY i DESC, s), first(i ORDER BY 1) FROM t",
    "SELECT first(x), any_value(x), last(x) FROM (VALUES (NULL), (2), (3), (NULL)) v(x)",
    "SELECT corr(1, 1), corr(i, f), corr(g, i), corr(f, 0) FROM t WHERE f = f",
    "SELECT covar_pop(i, g), covar_samp(i, g), covar_samp(1, 1) FROM t",
    "SELECT regr_slope(1, 1), regr_intercept(1, 1), regr_r2(1, 1), regr_r2(0, i), regr_count(i, g) FROM t",
    "SELECT regr_r2(1e230 * x, x), regr_r2(0, 1e230 * x), regr_sxx(0, 2e230 * x) FROM range(5) v(x)",
    "SELECT regr_sxx(i, g), regr_syy(i, g), regr_sxy(i, g), regr_avgx(i, g), regr_avgy(i, g) FROM t",
    "SELECT regr_count(NULL, 1), regr_slope(NULL, 1), corr(NULL, NULL)",
    "SELECT sum(NULL), avg(NULL), product(NULL), fsum(NULL), favg(NULL), count(NULL), string_agg(NULL, ',')",
    "SELECT histogram(NULL), mode(NULL), mad(NULL), median(NULL), quantile_cont(NULL, 0.5), skewness(NULL)",
    "SELECT sum(i > 3), sum(b) FROM (SELECT i, i > 2 AS b FROM t)",
    "SELECT fsum(x)::BIGINT, kahan_sum(x)::BIGINT, favg(x) FROM (VALUES (9007199254740992::DOUBLE), (1), (1)) v(x)",
    "SELECT avg(day), avg(day::TIMESTAMP), avg(day::TIMESTAMP_S), avg(clock), avg(span)::VARCHAR FROM t",
    "SELECT g, avg(day), avg(clock), avg(span)::VARCHAR, avg(DISTINCT clock) FROM t GROUP BY g ORDER BY g",
    "SELECT avg(x)::VARCHAR FROM (VALUES (INTERVAL '-1 year'), (INTERVAL '11 days'), (INTERVAL '1 microsecond')) v(x)",
    "SELECT median(i), median(f), median(d), median(day), median(clock), median(s), median(i > 3) FROM t",
    "SELECT median(span)::VARCHAR, median([i]), median({'i': i}) FROM t WHERE i IS NOT NULL",
    "SELECT g, median(d), mad(d), mad(f), mad(i), mad(day)::VARCHAR, mad(clock)::VARCHAR FROM t GROUP BY g ORDER BY g",
    "SELECT mad(x) FROM (VALUES (-1e308), (1e308)) v(x)",
    "SELECT quantile_cont(i, 0.3), quantile_cont(d, 0.3), quantile_cont(day, 0.3), quantile_cont(clock, 0.9) FROM t",
    "SELECT quantile_cont(i, -0.3), quantile_disc(i, -0.3), quantile_disc(s, 0.5), quantile_disc(s, -1) FROM t",
    "SELECT quantile_cont(i, [0.1, 0.5]), quantile_disc(s, [0.9, 0.1]), quantile_cont(i, []) FROM t",
    "SELECT quantile_cont(x, 0.5), quantile_cont(x, 0.3) FROM (VALUES (-1.05::DECIMAL(9,2)), (0.02)) v(x)",
    "SELECT quantile_cont(x, 0.5) FROM (VALUES (-0.04::DECIMAL(38,2)), (-0.01)) v(x)",
    "SELECT percentile_cont([0.25, 0.5]) WITHIN GROUP (ORDER BY i) FROM t",
    "SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC) FROM t",
    "SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY i DESC) FROM t",
    "SELECT percentile_disc(0) WITHIN GROUP (ORDER BY i DESC) FROM t",
    "SELECT list_aggregate([1, 2, 3], 'quantile_cont', 0.5), list_aggregate([1, 2, 4], 'median')",
    "SELECT skewness(10), kurtosis(10), skewness(i) FROM t",
    "SELECT string_agg('a', ','), string_agg('a', NULL), string_agg(s, NULL::VARCHAR), string_agg(i, ',') FROM t",
    "SELECT string_agg(DISTINCT s, ',' ORDER BY s DESC) FROM t",
    "SELECT string_agg(DISTINCT s, '&' ORDER BY list_position(['b', 'a', 'c'], s)) FROM t",
    "SELECT first(DISTINCT i ORDER BY -i), list(DISTINCT i ORDER BY i DESC) FROM t WHERE i IS NOT NULL",
    "SELECT i1.i, (SELECT string_agg(i::VARCHAR, ',' ORDER BY i1.i + i) FROM t WHERE i <= i1.i) FROM t i1 ORDER BY ALL",
    "SELECT min(i, 2), max(i, 1 + 1), max(s, 999999), arg_min(s, i, 2), arg_max(s, i), arg_max_null(s, i) FROM t",
    "SELECT argmin(i, 1), arg_min(s, 2), arg_max(DISTINCT s, i) FROM t",
    "SELECT g % 2 AS k, any_value(i), any_value(s) FROM t GROUP BY k ORDER BY k",
    "SELECT quantile_cont(i, 0.8 ORDER BY i DESC), quantile_disc(i, [0.0] ORDER BY i DESC) FROM t",
    "SELECT sum(f ORDER BY abs(f)), sum(i ORDER BY i DESC) FROM t WHERE f = f",
    "SELECT count((1, 2)), count(DISTINCT (1, 2)), count(*) FILTER (WHERE 1), count(i) FILTER (i > 3) FROM t",
]

REFUSED = [
    "SELECT count(1, 2)",
    "SELECT count(DISTINCT *) FROM t",
    "SELECT string_agg(i, 2) FROM t",
    "SELECT string_agg(s, s) FROM t GROUP BY s",
    "SELECT quantile_cont(i, NULL) FROM t",
    "SELECT quantile_disc(i, [0.5, NULL]) FROM t",
    "SELECT quantile_cont(i, 1.1) FROM t",
    "SELECT quantile_cont(i, random()) FROM t",
    "SELECT quantile_cont(i, [0.3, -0.3]) FROM t",
    "SELECT max(i, 0) FROM t",
    "SELECT max(i, NULL) FROM t",
    "SELECT min(i, 1000000) FROM t",
    "SELECT arg_min(i, f, -1) FROM t",
    "SELECT arg_max(i, f, NULL) FROM t",
    "SELECT arg_max(i, f, 1000000) FROM t",
    "SELECT kurtosis(x) FROM (VALUES (2e304), (2e305), (2e306), (2e307)) v(x)",
    "SELECT skewness(x) FROM (VALUES (-2e307), (0), (2e307)) v(x)",
    "SELECT skewness(x) FROM (VALUES ('nan'::DOUBLE), (0), (1)) v(x)",
    "SELECT first(DISTINCT i ORDER BY random() * i) FROM t",
    "SELECT string_agg(DISTINCT s, ',' ORDER BY i) FROM t",
    "SELECT list(i ORDER BY NULL) FROM t",
    "SELECT avg(s) FROM t",
    "SELECT sum(span) FROM t",
    "SELECT mad(span) FROM t",
    "SELECT percentile_disc(-0.5) WITHIN GROUP (ORDER BY i) FROM t",
]


pair = pair_with(TABLE)


def normal(rows: list[tuple[Any, ...]]) -> list[Any]:
    """Give `rows` with floats to 12 digits, and NaN equal to itself."""

    def value(x: Any) -> Any:
        if isinstance(x, float):
            return "nan" if math.isnan(x) else float(f"{x:.12g}") + 0.0
        return type(x)(map(value, x)) if isinstance(x, list | tuple) else x

    return [tuple(map(value, row)) for row in rows]


@pytest.mark.parametrize("sql", EQUAL)
def test_same_as_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    ours, theirs = pair
    found, expected = ours.sql(sql), theirs.sql(sql)
    assert normal(found.fetchall()) == normal(expected.fetchall())
    kinds = [[row[1] for row in con.sql(f"DESCRIBE {sql}").fetchall()] for con in pair]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_as_by_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    assert_both_refuse(sql, pair)
