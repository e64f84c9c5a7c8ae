"""Values of dates, times, intervals, lists, structs and maps, each beside DuckDB."""
# ruff: noqa: E501 - a statement is one line

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill

QUERIES = [
    # Dates, times and moments in texts.
    "SELECT '1990/12/21'::DATE, '1990 12 21'::DATE, ' 1990-1-2 '::DATE, '1990-12-21 10:00'::DATE, 'epoch'::DATE",
    "SELECT '-1993-08-14'::DATE, '1994-08-14 (BC)'::DATE::VARCHAR, '30000-01-01'::DATE::VARCHAR, '0-1-1'::DATE + 1",
    "SELECT '-0044-03-15'::DATE, year('-0044-03-15'::DATE), '0045-03-15 (BC) 10:20'::TIMESTAMP::VARCHAR",
    "SELECT date_trunc('month', '-0044-03-15'::DATE), '-0044-03-15'::DATE - DATE '2000-01-01'",
    "SELECT TRY_CAST(s AS DATE) FROM (VALUES ('1990/12/21'), ('1990-12/21'), ('x'), (NULL), ('1990-02-29')) t(s)",
    "SELECT TRY_CAST(s AS TIMESTAMP) FROM (VALUES ('2025-01-01T08:00:00+08'), ('2020-01-01 1:2'), ('2020-01-01 10'), "
    "('2020-01-01 24:00:00'), ('2020-01-01 10:20:30.1234567 utc'), ('2020/01/01 10:20:')) t(s)",
    "SELECT TRY_CAST(s AS TIME) FROM (VALUES ('11:'), ('1:1'), (' 11:11:11.5 '), ('11:60'), ('11'), ('2020-01-01 10:20')) t(s)",
    "SELECT '10:00:00.123456'::TIME, typeof('10:00'::TIME), '10:00'::TIME + INTERVAL 90 MINUTE",
    # Intervals in texts.
    "SELECT x::INTERVAL::VARCHAR FROM (VALUES ('2Y 4 days 1 MinUteS 3S 20mS 16uS ago'), ('31.123456789'), ('1.5 quarter'), "
    "('1.55 years'), ('1day-2hours'), ('1 day -1:2:3.5'), ('@1 day'), ('-5'), ('100:00:00'), ('1.05 week')) t(x)",
    "SELECT TRY_CAST(x AS INTERVAL)::VARCHAR FROM (VALUES ('+5'), ('ago'), ('1 x'), ('1 day 2'), ('25:61:00'), ('00:00:')) t(x)",
    "SELECT INTERVAL '1 day ago', INTERVAL '90 min', INTERVAL 2 DECADES, INTERVAL (3) CENTURIES, INTERVAL 2 QUARTER",
    "SELECT INTERVAL '1.5' MONTH, INTERVAL 1.5 DAY, INTERVAL '2.7' HOUR, INTERVAL 2.5 SECOND, INTERVAL 1 MILLENNIUM",
    "SELECT x / 2, x * 1.5, 0.33 * x, x / -7.0 FROM (VALUES (INTERVAL '1 year 2 days 2 seconds'), "
    "(INTERVAL '-7 months'), (INTERVAL '100 days'), (INTERVAL '3 us'), (NULL)) t(x)",
    "SELECT unnest(s), i FROM (VALUES ({'a': 1, 'b': 'x'}, 1), (NULL, 2)) t(s, i) ORDER BY i",
    "SELECT a + 1, b FROM (SELECT unnest({'a': 1, 'b': 2})) t",
    # NULL within lists and structs is the greatest value.
    "SELECT [1] < [NULL], [NULL] < [1], {'a': NULL} < {'a': 1}, [1, 2] < [1], [] < [NULL], [[NULL]] > [[1]]",
    "SELECT [1, NULL] BETWEEN [1, 2] AND [2], {'a': 1, 'b': NULL} >= {'a': 1, 'b': 5}, [1] <= NULL",
    "SELECT x FROM (VALUES ([1]), ([NULL]), ([2]), (NULL), ([])) t(x) ORDER BY x",
    "SELECT x FROM (VALUES ([1]), ([NULL]), ([2]), (NULL), ([])) t(x) ORDER BY x DESC",
    "SELECT x FROM (VALUES ({'a': 1, 'b': 2}), ({'a': 1, 'b': NULL}), ({'a': NULL, 'b': 1}), (NULL)) t(x) ORDER BY x DESC NULLS FIRST",
    "SELECT max(x), min(x), max(x) FILTER (x IS NULL) FROM (VALUES ([1]), ([NULL]), ([2]), (NULL)) t(x)",
    "SELECT g, max(x), min(x) FROM (VALUES (1, {'a': 1}), (1, {'a': NULL}), (2, {'a': 3}), (3, NULL)) t(g, x) GROUP BY g ORDER BY g",
    "SELECT a.x, b.x FROM (VALUES ([1]), ([NULL]), ([2])) a(x) JOIN (VALUES ([1]), ([NULL])) b(x) ON a.x < b.x ORDER BY ALL",
    "SELECT arg_max(i, x), arg_min(i, x) FROM (VALUES (1, [1]), (2, [NULL]), (3, [2])) t(i, x)",
    "SELECT x, rank() OVER (ORDER BY x) FROM (VALUES ([1]), ([NULL]), ([2]), ([1])) t(x) ORDER BY 2, 1",
    # Rows, structs and maps.
    "SELECT row(1, 'a'), (1, NULL), row(1, 'a')::VARCHAR, typeof(row('a', true))",
    "SELECT {'i': 1, 'j': 2}::ROW(i BIGINT, j VARCHAR), row(1, 2)::STRUCT(a INTEGER, b DOUBLE)",
    "SELECT MAP([1, 2], ['a', 'b'])[2::TINYINT], MAP([[1], [2, 0]], [10, 9])[[2, 0]], MAP {'k': 1}['x'], MAP()",
    "SELECT MAP([[1], [2]], [3, 4]), MAP(NULL, [1]), MAP([]::INTEGER[], []::VARCHAR[])",
    "SELECT ([1, 2, 3, 4, 5])[5:1:-1], ([1, 2, 3])[::-1], ([1, 2, 3, 4])[-1:-3:-2], ([1, 2, 3])[1:3:-1]",
    "SELECT list_slice([1, 2, 3], 10, -10, -1), list_slice([1, 2, 3], NULL, 1, -1)",
    "SELECT concat_ws(',', ['a', NULL, 'b'], 'c', [1, 2]), concat_ws(',', []::VARCHAR[], 'c'), concat_ws(',', [NULL], 'c')",
    # Numbers.
    "SELECT nextafter('inf'::FLOAT, 0::FLOAT), nextafter(1::FLOAT, 2::FLOAT), nextafter(1::DOUBLE, 0::DOUBLE)",
    "SELECT typeof(1::UBIGINT + 1::TINYINT), typeof(1::HUGEINT), 18446744073709551615::UBIGINT + 1::TINYINT",
    "SELECT 8::HUGEINT >> 3, 1::HUGEINT << 100, 5::HUGEINT & 3, 5::HUGEINT | 2, 1::UTINYINT << 3, 300 << 1::UTINYINT",
    "SELECT typeof(1::DECIMAL()), i ISNULL, i NOTNULL FROM (VALUES (1), (NULL)) t(i)",
]

TABLES = [
    ("f FLOAT", "('NAN'), (1), ('-Infinity'), ('inf'), (NULL)", "SELECT * FROM t ORDER BY f"),
    ("d DOUBLE, i INTEGER", "('nan', '1'), (2, 2), ('1e3', '0x10')", "SELECT * FROM t ORDER BY i"),
    (
        "d DATE, ts TIMESTAMP, c TIME, i INTERVAL",
        "('1990/12/21', '1990/12/21 1:2', '1:2', '1 day ago'), ('0044-03-15', '0045-03-15 (BC)', '23:59:59.5', '2Y'), "
        "(NULL, NULL, NULL, NULL)",
        "SELECT d, ts, c, i, d::VARCHAR, ts::VARCHAR, c::VARCHAR, i::VARCHAR FROM t ORDER BY d",
    ),
    (
        "id INTEGER, l INTEGER[], s STRUCT(a INTEGER, b VARCHAR)",
        "(1, [1, NULL], {'a': 1, 'b': NULL}), (2, [1, 5], {'a': NULL, 'b': 'x'}), (3, NULL, NULL), (4, [], {'a': 1, 'b': 'x'})",
        "SELECT x.id, y.id, x.l < y.l, x.s >= y.s FROM t x JOIN t y ON x.l <= y.l OR x.s < y.s ORDER BY ALL",
    ),
    (
        "id INTEGER, m MAP(VARCHAR, INTEGER), k VARCHAR",
        "(1, MAP {'a': 1, 'b': 2}, 'b'), (2, MAP {'a': 3}, 'x'), (3, NULL, 'a'), (4, MAP {'c': NULL}, 'c')",
        "SELECT id, m[k], m['a'] FROM t ORDER BY id",
    ),
]

REFUSED = [
    "SELECT 'infinity'::DATE",
    "SELECT TRY_CAST('-infinity' AS TIMESTAMP)",
    "SELECT '5881580-07-10'::DATE",
    "SELECT '24:00:00'::TIME",
    "SELECT '999999999:00:00'::INTERVAL",
]

WRONG = [
    "SELECT 'x'::DATE",
    "SELECT s::TIMESTAMP FROM (VALUES ('2020-01-01 10:60')) t(s)",
    "SELECT '1 x'::INTERVAL",
    "SELECT {'i': 3, 'I': 4}",
    "SELECT MAP([1, 2], [1])",
    "SELECT MAP([NULL], [1])",
    "SELECT MAP(10, 12)",
    "SELECT 1::UTINYINT << 8",
    "SELECT 1::HUGEINT << 127",
    "SELECT INTERVAL '1 day' / 0",
    "SELECT '1'::INTEGER(10)",
]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two lists of rows print alike: NaN is itself, and 1 is not 1.0."""
    return repr(ours) == repr(theirs)


@pytest.mark.parametrize("sql", QUERIES)
def test_values_are_those_of_duckdb(sql: str) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        expected, found = theirs.sql(sql).fetchall(), ours.sql(sql).fetchall()
        assert same(found, expected), (found, expected)


@pytest.mark.parametrize(("columns", "rows", "sql"), TABLES)
def test_stored_values_are_those_of_duckdb(columns: str, rows: str, sql: str) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        for con in (theirs, ours):
            con.execute(f"CREATE TABLE t ({columns})")
            con.execute(f"INSERT INTO t VALUES {rows}")
        expected, found = theirs.sql(sql).fetchall(), ours.sql(sql).fetchall()
        assert same(found, expected), (found, expected)


@pytest.mark.parametrize("sql", REFUSED)
def test_values_that_there_are_not_here_are_refused(sql: str) -> None:
    with warpmill.connect() as con, pytest.raises(warpmill.NotSupportedError):
        con.sql(sql).fetchall()


@pytest.mark.parametrize("sql", WRONG)
def test_what_is_wrong_is_an_error_in_both(sql: str) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        with pytest.raises(duckdb.Error):
            theirs.sql(sql).fetchall()
        with pytest.raises(warpmill.Error):
            ours.sql(sql).fetchall()
