"""Bins, histograms of given bins and the most frequent values beside plain DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill
from beside import assert_both_refuse, normal, pair_with

TABLE = """
    CREATE TABLE obs AS SELECT n::BIGINT AS n, n / 4 AS f, n::VARCHAR AS s, n % 3 AS g FROM (VALUES
        (0), (5), (7), (12), (20), (23), (24), (25), (26), (28), (31), (34), (36), (41), (47), (NULL)
    ) v(n)
"""

BINS = [
    "0::BIGINT, 10::BIGINT",
    "1000000::BIGINT, 1000010::BIGINT",
    "99::BIGINT, 101::BIGINT",
    "(-10)::BIGINT, 10::BIGINT",
    "(-17)::BIGINT, (-3)::BIGINT",
    "(-30)::BIGINT, (-15)::BIGINT",
    "0::BIGINT, 1734::BIGINT",
    "1::BIGINT, 6000000::BIGINT",
    "3::BIGINT, 3::BIGINT",
    "(-9223372036854775808)::BIGINT, 9223372036854775807::BIGINT",
    "0::TINYINT, 90::TINYINT",
    "1::UBIGINT, 100::TINYINT",
    "1::HUGEINT, 100000000000000000000::HUGEINT",
    "1::BIGINT, 6.347::DOUBLE",
    "0.0::DOUBLE, 3.974::DOUBLE",
    "-1.0::DOUBLE, 1.0::DOUBLE",
    "1.5::DOUBLE, 1.5::DOUBLE",
    "1e-9::DOUBLE, 3e-7::DOUBLE",
    "0.5::FLOAT, 100::FLOAT",
    "1::DECIMAL(4, 1), 100::DECIMAL(4, 1)",
    "'inf'::DOUBLE, 'inf'::DOUBLE",
    "DATE '1992-01-01', DATE '2000-01-05'",
    "DATE '1960-02-01', TIMESTAMP '1960-03-03 12:00:00'",
    "TIMESTAMP '1992-01-01 12:23:37', TIMESTAMP '2000-01-01 04:03:21'",
    "TIMESTAMP '1992-01-01 12:23:37', TIMESTAMP '1992-12-01 04:03:21'",
    "TIMESTAMP '1992-01-01 01:23:37.999', TIMESTAMP '1992-01-01 23:03:21.3'",
    "TIMESTAMP '1992-01-01 01:23:37.999', TIMESTAMP '1992-01-01 01:53:21.3'",
    "TIMESTAMP '1992-01-01 01:23:01.2', TIMESTAMP '1992-01-01 01:23:01.943'",
    "TIMESTAMP '2024-06-21 15:00:00', TIMESTAMP '2024-07-21 09:00:00'",
    "TIMESTAMP '2024-06-21 15:00:00.123456', TIMESTAMP '2024-06-21 15:00:00.123458'",
    "NULL, 10::BIGINT",
    "1::BIGINT, NULL",
]

EQUAL = [
    "SELECT equi_width_bins(0::BIGINT, 10::BIGINT, NULL::BIGINT, true)",
    "SELECT equi_width_bins(0::BIGINT, 10::BIGINT, 2, NULL::BOOLEAN)",
    "SELECT len(equi_width_bins(0::BIGINT, 2000000::BIGINT, 1000000, true))",
    "SELECT n, equi_width_bins(n, 50::BIGINT, 3, n % 2 = 0) FROM obs ORDER BY ALL",
    "SELECT equi_width_bins(min(f), max(f), 4, true) FROM obs",
    "SELECT histogram(n, [10, 20, 30, 40, 50]), histogram(n, [10, 40, 30, 20, 10]) FROM obs",
    "SELECT histogram(n, []), histogram_exact(n, []), histogram(n, [10.5, 20]) FROM obs",
    "SELECT histogram(n::INTEGER, [20]), histogram(n::UTINYINT, [20]) FROM obs",
    "SELECT histogram(n::DECIMAL(9, 2), [10.5, 20]), histogram_exact(n, ['20', '5']) FROM obs",
    "SELECT histogram(f, [1, 5, 10]), histogram(f::FLOAT, [1, 5, 20]), histogram_exact(f, [5, 6]) FROM obs",
    "SELECT histogram(s, ['2', '4']), histogram_exact(s, ['5', '7', 'x']) FROM obs",
    "SELECT histogram(n > 20, [false]), histogram_exact(n > 20, [false, true]) FROM obs",
    "SELECT g, histogram(n, [10, 30]) FROM obs GROUP BY g ORDER BY g",
    "SELECT g, histogram_exact(n, CASE WHEN g = 0 THEN [12] ELSE [7, 5] END) FROM obs GROUP BY g ORDER BY g",
    "SELECT histogram(n, [10]) FILTER (WHERE n > 5), histogram(n, [10]) FILTER (WHERE n > 50) FROM obs",
    "SELECT histogram(n, [10]) FROM obs WHERE n > 50",
    "SELECT g, histogram(n, [10]) FROM obs WHERE false GROUP BY g",
    "SELECT map_keys(h), map_values(h) FROM (SELECT histogram([n], [[10], [20]]) AS h FROM obs)",
    "SELECT map_keys(h), map_values(h) FROM (SELECT histogram({'i': n}, [{'i': 10}, {'i': 60}]) AS h FROM obs)",
    "SELECT histogram(d, [DATE '2000-01-02', DATE '2001-01-01']) FROM (VALUES (DATE '2000-01-01'), (NULL)) v(d)",
    "SELECT histogram(x, ['-inf'::DOUBLE, 0, 'inf'])"
    " FROM (VALUES (-1e308), (-0.5), (0), ('inf'::DOUBLE), ('-inf'), (-0.0)) v(x)",
    "SELECT n, histogram(n, [20]) OVER (ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM obs ORDER BY n",
    "SELECT g, histogram(n, [20]) OVER (PARTITION BY g) FROM obs ORDER BY ALL",
    "SELECT unnest(map_keys(h)) AS bin, is_histogram_other_bin(bin)"
    " FROM (SELECT histogram(n, [10, 40]) AS h FROM obs) ORDER BY bin",
    "SELECT is_histogram_other_bin(NULL), is_histogram_other_bin([[1]]), is_histogram_other_bin([]::INT[][])",
    "SELECT is_histogram_other_bin({'i': NULL::INT[]}), is_histogram_other_bin({'a': 1, 'b': NULL})",
    "SELECT is_histogram_other_bin(x), is_histogram_other_bin(x::VARCHAR)"
    " FROM (VALUES (127::TINYINT), (1), (NULL)) v(x)",
    "SELECT is_histogram_other_bin('inf'::FLOAT), is_histogram_other_bin(true), is_histogram_other_bin(''::BLOB)",
    "SELECT histogram(g), histogram(n % 2) FROM obs",
    "SELECT approx_top_k(n // 20, 2), list_sort(approx_top_k(g, 10)), approx_top_k([n // 20], 1) FROM obs",
    "SELECT approx_top_k(s, 3) FILTER (WHERE n > 50), approx_top_k(n, 0) FILTER (WHERE n > 50) FROM obs",
    "SELECT n > 20, approx_top_k(n // 20, 1 ORDER BY n) FROM obs GROUP BY ALL ORDER BY ALL",
    "SELECT n FROM obs WINDOW w AS (ORDER BY n) QUALIFY row_number() OVER w = 1",
    "SELECT n, n AS m FROM obs UNION ALL BY NAME SELECT g, n FROM obs ORDER BY ALL",
]

REFUSED = [
    "SELECT equi_width_bins(10, 0, 2, true)",
    "SELECT equi_width_bins(0, 10, 0, true)",
    "SELECT equi_width_bins(0, 10, -1, false)",
    "SELECT equi_width_bins(0, 10, 1000001, true)",
    "SELECT equi_width_bins(0.0, 'inf'::DOUBLE, 5, true)",
    "SELECT equi_width_bins('nan'::DOUBLE, 1.0, 5, false)",
    "SELECT equi_width_bins('a'::VARCHAR, 'z'::VARCHAR, 2, true)",
    "SELECT equi_width_bins(TIME '01:00', TIME '02:00', 2, true)",
    "SELECT equi_width_bins(true, true, 2, true)",
    "SELECT equi_width_bins(0, 10, 2)",
    "SELECT equi_width_bins(0::UTINYINT, 255::UTINYINT, 10, true)",
    "SELECT histogram(n, [10, NULL]) FROM obs",
    "SELECT histogram(n, NULL::BIGINT[]) FROM obs",
    "SELECT histogram(n, NULL) FROM obs",
    "SELECT histogram(n, 20) FROM obs",
    "SELECT histogram(n, [20], 3) FROM obs",
    "SELECT histogram_exact(n) FROM obs",
    "SELECT is_histogram_other_bin(1, 2)",
    "SELECT approx_top_k(n, 0) FROM obs",
    "SELECT approx_top_k(n, NULL) FROM obs",
    "SELECT approx_top_k(n, 1000000) FROM obs",
    "SELECT approx_top_k(n, g) FROM obs",
    "SELECT n FROM obs QUALIFY row_number() OVER w = 1 WINDOW w AS (ORDER BY n)",
    "SELECT n, n FROM obs UNION ALL BY NAME SELECT g FROM obs",
    "SELECT g FROM obs UNION BY NAME SELECT n, N FROM obs",
    "SELECT n, n FROM obs UNION ALL SELECT 1, 2 UNION ALL BY NAME SELECT 3 AS z",
    "SELECT 3 AS z UNION ALL BY NAME (SELECT 1 AS x, 2 AS x UNION ALL SELECT 1, 2)",
]

MESSAGES = [
    ("SELECT equi_width_bins(10, 0, 2, true)", "max value is smaller than min value"),
    ("SELECT equi_width_bins(0, 10, 0, true)", "there must be > 0 bins"),
    ("SELECT equi_width_bins(0, 10, 1000001, true)", "max bin count of 1000000 exceeded"),
    ("SELECT equi_width_bins(0.0, 'inf'::DOUBLE, 5, true)", "does not support infinite or nan"),
    ("SELECT equi_width_bins('a'::VARCHAR, 'z'::VARCHAR, 2, true)", 'Unsupported type "VARCHAR" for equi_width_bins'),
    ("SELECT histogram(n, [10, NULL]) FROM obs", "Histogram bin entry cannot be NULL"),
    ("SELECT histogram(n, NULL::BIGINT[]) FROM obs", "Histogram bin list cannot be NULL"),
    ("SELECT histogram(n, NULL) FROM obs", "Histogram bin list cannot be NULL"),
]

SUMMARIZED = [
    "VALUES (1.0::DOUBLE / 0.0), (2.0)",
    "VALUES ('nan'::DOUBLE), ('nan')",
    "VALUES ('-inf'::DOUBLE), ('inf')",
    "VALUES ('nan'::FLOAT), (1.5)",
    "VALUES (NULL::DOUBLE)",
]


pair = pair_with(TABLE)


def check(pair: tuple[Any, Any], sql: str) -> None:
    """Compare rows and types."""
    found, expected = (con.sql(sql).fetchall() for con in pair)
    assert normal(found, 12) == normal(expected, 12)
    kinds = [[row[1] for row in con.sql(f"DESCRIBE {sql}").fetchall()] for con in pair]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("ends", BINS)
@pytest.mark.parametrize("nice", ["true", "false"])
def test_bins_are_those_of_duckdb(pair: tuple[Any, Any], ends: str, nice: str) -> None:
    for count in (1, 2, 5, 7, 20):
        check(pair, f"SELECT equi_width_bins({ends}, {count}, {nice}) AS bins")


@pytest.mark.parametrize("sql", EQUAL)
def test_same_as_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    check(pair, sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_as_by_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    assert_both_refuse(sql, pair)


@pytest.mark.parametrize(("sql", "message"), MESSAGES)
def test_errors_say_what_duckdb_says(pair: tuple[Any, Any], sql: str, message: str) -> None:
    ours, theirs = pair
    with pytest.raises(duckdb.Error, match=message):
        theirs.sql(sql).fetchall()
    with pytest.raises(warpmill.Error, match=message):
        ours.sql(sql).fetchall()


def test_many_values_in_many_groups(pair: tuple[Any, Any]) -> None:
    check(
        pair,
        "SELECT k, histogram(x, [100, 1000, 50000]) AS h, histogram_exact(x, [k, 7]) AS e"
        " FROM (SELECT i AS x, i % 1000 AS k FROM range(100000) r(i)) GROUP BY k ORDER BY k",
    )


@pytest.mark.parametrize("rows", SUMMARIZED)
def test_summaries_of_numbers_that_are_not_finite(pair: tuple[Any, Any], rows: str) -> None:
    found, expected = (con.sql(f"SUMMARIZE SELECT * FROM ({rows}) v(x)").fetchall() for con in pair)
    # The sign of a NaN is that of the processor.
    plain = [[str(value).replace("-nan", "nan") for value in row] for row in expected]
    assert [[str(value) for value in row] for row in found] == plain


def test_other_values_of_moments_are_refused(pair: tuple[Any, Any]) -> None:
    ours, _ = pair
    with pytest.raises(warpmill.NotSupportedError, match="histogram"):
        ours.sql("SELECT histogram(DATE '2000-01-01' + n::INTEGER, [DATE '2000-01-01']) FROM obs").fetchall()
