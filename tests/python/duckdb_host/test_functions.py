"""Functions and casts, accelerated in strict mode: values are DuckDB's own, on NULLs, extremes and letters of all kinds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

SETUP = r"""
CREATE TABLE texts AS SELECT row_number() OVER () AS k, s, p FROM (VALUES
    ('', ''), (NULL, 'a'), ('a', NULL), ('Abc', 'b'), ('ABC', 'abc'), ('  two  words ', ' '), (chr(160) || 'x' || chr(12288), 'x'),
    ('Straße', 'ß'), ('ÀÉÎ õ', 'é'), ('İstanbul ıI', 'i'), ('ΟΔΥΣΣΕΥΣ', 'σ'), ('ﬁn ŉ ǆ ǅ', 'ﬁ'), ('日本語 テキスト', '本'),
    ('100%', '%'), ('a_b', '_'), ('back\slash', '\'), ('aaa', 'aa'), ('mississippi', 'ss'), ('xxTrimxx', 'x'), ('tab' || chr(9), chr(9)),
    ('🦆 duck', '🦆'), ('e' || chr(769) || 'x', chr(769)), ('abc', 'abc'), ('abc', 'abcd'), ('a''b"c', '''')) v(s, p);
CREATE TABLE numbers AS SELECT row_number() OVER () AS k, x, i, d, f FROM (VALUES
    (NULL, NULL, NULL, NULL), (0.0, 0, 0.00, 0.0), (0.5, 1, 0.50, 0.5), (1.5, 2, 1.50, 1.5), (2.5, 3, 2.50, 2.5), (-0.5, -1, -0.50, -0.5),
    (-1.5, -2, -1.50, -1.5), (-2.5, -3, -2.51, -2.5), (0.49999999999999994, 7, 999.99, 3.25), (123456.789, 123456, -999.99, 1e10),
    (1e15, 2147483647, 99999999.99, -1e10), (-7.005, -2147483648, -99999999.99, 0.1), (2.675, 100, 2.67, 2.675), (-2.4999999999999996, 5, 0.01, -0.0)
    ) v(x, i, d, f);
ALTER TABLE numbers ALTER x TYPE DOUBLE; ALTER TABLE numbers ALTER i TYPE INTEGER; ALTER TABLE numbers ALTER f TYPE FLOAT;
ALTER TABLE numbers ALTER d TYPE DECIMAL(10,2);
CREATE TABLE days AS SELECT row_number() OVER () AS k, dt, ts FROM (VALUES
    (NULL, NULL), (DATE '1970-01-01', TIMESTAMP '1970-01-01 00:00:00'), (DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.999999'),
    (DATE '2000-02-29', TIMESTAMP '2000-02-29 12:34:56.789'), (DATE '2020-12-31', TIMESTAMP '2020-12-31 01:02:03'),
    (DATE '2021-01-03', TIMESTAMP '2021-01-03 10:00:00'), (DATE '2021-01-04', TIMESTAMP '2021-01-04 23:00:01'),
    (DATE '1600-03-01', TIMESTAMP '1600-03-01 00:00:00.000001'), (DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:00'),
    (DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59')) v(dt, ts);
CREATE TABLE samples AS SELECT i % 7 AS g, CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 7919 % 1000) / 8.0 END AS x,
    1e9 + (i % 3) AS big, 3.5 AS same, i::BIGINT AS i, (i % 5 = 0) AS b, 'n' || (i % 7) AS s, ((i * 31) % 977)::DECIMAL(12,2) / 4 AS d
FROM range(5000) r(i);
ALTER TABLE samples ALTER big TYPE DOUBLE; ALTER TABLE samples ALTER same TYPE DOUBLE; ALTER TABLE samples ALTER x TYPE DOUBLE;
ALTER TABLE samples ALTER d TYPE DECIMAL(18,2);
"""

TEXTS = [
    "upper(s)", "lower(s)", "ucase(s)", "lcase(s)", "upper(s || p)", "length(s)", "len(s)", "strlen(s)", "char_length(s)",
    "trim(s)", "ltrim(s)", "rtrim(s)", "trim(s, p)", "ltrim(s, p)", "rtrim(s, p)", "trim(s, 'xa ')",
    "replace(s, p, '<>')", "replace(s, 'a', p)", "replace(s, '', 'x')", "s || p", "concat(s, p)", "concat(s, '-', p, k)",
    "starts_with(s, p)", "prefix(s, p)", "s ^@ p", "suffix(s, p)", "ends_with(s, p)", "contains(s, p)", "contains(s, '')",
    "strpos(s, p)", "instr(s, p)", "position(p IN s)", "left(s, 2)", "right(s, 2)", "left(s, -1)", "right(s, -1)",
    "left(s, 0)", "right(s, 100)", "substring(s, 2)", "substring(s, 2, 2)", "substr(s, 1, 0)",
    "coalesce(s, p)", "ifnull(s, 'none')", "nullif(s, p)", "nullif(s, 'abc')", "greatest(s, p)", "least(s, p)",
    "s LIKE '%b%'", "s LIKE 'a_b'", r"s LIKE 'back\s%'", "s LIKE '100#%' ESCAPE '#'", "s NOT LIKE '%#_%' ESCAPE '#'",
    "s ILIKE '%B%'", "s ILIKE 'straSSE'", "s ILIKE 'STRAẞE'", "s NOT ILIKE 'a%'", "s ILIKE '%σ%'", "s ILIKE '%İ%'",
    "s ILIKE '%i%'", "s ILIKE '100#%' ESCAPE '#'", "upper(s) = upper(p)", "lower(s) LIKE '%i%'",
]  # fmt: skip

NUMBERS = [
    "abs(x)", "abs(i::BIGINT)", "abs(d)", "abs(f::DOUBLE)", "-d", "-x", "round(x)", "round(x, 1)", "round(x, 2)", "round(x, 0)",
    "round(d)", "round(d, 1)", "round(d, 2)", "round(d, 5)", "floor(x)", "ceil(x)", "ceiling(x)", "floor(d)", "ceil(d)",
    "greatest(x, 0.5::DOUBLE)", "least(d, 1.00)", "greatest(i, 3)", "coalesce(d, 1)", "nullif(i, 2)", "least(x, 1e6::DOUBLE)::INTEGER", "x::BIGINT",
    "f::BIGINT", "(least(x, 1e6::DOUBLE) / 1000)::SMALLINT", "d::BIGINT", "d::INTEGER", "d::DOUBLE", "i::DOUBLE", "i::VARCHAR", "(d * 1000000000000)::DOUBLE",
    "(d::DECIMAL(38,6) * 123456789.123)::DOUBLE", "i + d", "i * 2::BIGINT", "x + i", "i % 3", "i // 3", "sqrt(abs(x))", "x / i",
]  # fmt: skip

DAYS = [
    "year(dt)", "month(dt)", "day(dt)", "quarter(dt)", "week(dt)", "weekofyear(ts)", "dayofweek(dt)", "weekday(ts)", "isodow(dt)",
    "dayofyear(dt)", "dayofmonth(ts)", "hour(ts)", "minute(ts)", "second(ts)", "extract(year FROM ts)", "extract(week FROM ts)",
    "extract(isodow FROM ts)", "extract(dow FROM dt)", "extract(doy FROM ts)", "extract(second FROM ts)", "date_part('quarter', ts)",
    "date_trunc('year', dt)", "date_trunc('quarter', ts)", "date_trunc('month', dt)", "date_trunc('week', ts)", "date_trunc('day', ts)",
    "date_trunc('hour', ts)", "date_trunc('minute', ts)", "date_trunc('second', ts)", "dt - DATE '2000-01-01'", "dt + 1", "dt - 1",
    "date_diff('day', DATE '2000-01-01', dt)", "datediff('day', dt, DATE '1999-12-31')", "ts + INTERVAL 1 DAY",
    "coalesce(dt, DATE '2000-01-01')", "greatest(dt, DATE '2000-01-01')", "dt::TIMESTAMP",
]  # fmt: skip

#: Sums of floats in another order: last digits may differ, as the compatibility table says.
AGGREGATES = [
    "stddev(x)", "stddev_samp(x)", "stddev_pop(x)", "variance(x)", "var_samp(x)", "var_pop(x)", "var_pop(big - 1e9)",
    "stddev(same)", "stddev(d)", "var_samp(i)", "stddev(x) FILTER (WHERE b)", "stddev_samp(x) FILTER (WHERE i < 7)", "avg(x)", "sum(x)",
    "bool_and(b)", "bool_or(b)", "count(DISTINCT x)", "count(DISTINCT s)", "any_value(s)",
    "min(x)", "max(s)", "sum(DISTINCT i)", "avg(d)", "avg(i)", "max(upper(s))", "sum(length(s))", "count(*)", "min(d)",
]  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[Any]:
    connection = warpmill.duckdb.connect()
    connection.execute(SETUP)
    connection.execute("SET warpmill_fallback = 'error'")
    yield connection
    connection.close()


def both(con: Any, sql: str) -> tuple[Any, Any]:
    def run() -> Any:
        result = con.execute(sql)
        return [str(column[1]) for column in result.description], result.fetchall()

    con.execute("SET warpmill_enabled = false")
    theirs = run()
    con.execute("SET warpmill_enabled = true")
    ours = run()
    [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
    assert accelerated, reason
    return ours, theirs


@pytest.mark.parametrize(
    ("table", "expression"),
    [*(("texts", e) for e in TEXTS), *(("numbers", e) for e in NUMBERS), *(("days", e) for e in DAYS)],
)
def test_scalar(con: Any, table: str, expression: str) -> None:
    # As a result, as a group key, and in a filter: DataFusion's final operators and the engine's own expressions.
    ours, theirs = both(con, f"SELECT k, {expression} AS v FROM {table} ORDER BY k")
    assert repr(ours) == repr(theirs)
    ours, theirs = both(
        con, f"SELECT v, min(k), count(*) FROM (SELECT k, {expression} AS v FROM {table}) GROUP BY v ORDER BY 2"
    )
    assert repr(ours).replace("-0.0", "0.0") == repr(theirs).replace("-0.0", "0.0")
    ours, theirs = both(
        con, f"SELECT count(*), count(v), min(k) FROM (SELECT k, {expression} AS v FROM {table}) WHERE v = v"
    )
    assert ours == theirs


def close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize("call", AGGREGATES)
def test_aggregate(con: Any, call: str) -> None:
    for sql in (
        f"SELECT {call} FROM samples",
        f"SELECT g, {call} FROM samples GROUP BY g ORDER BY g",
        f"SELECT {call} FROM samples WHERE i < 0",
        f"SELECT i, {call} FROM samples WHERE i < 3 GROUP BY i ORDER BY i",
    ):
        (our_types, ours), (their_types, theirs) = both(con, sql)
        assert our_types == their_types
        assert len(ours) == len(theirs)
        for left, right in zip(ours, theirs, strict=True):
            assert all(map(close, left, right)), (sql, left, right)


def test_every_letter_in_the_other_case(con: Any) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE letters AS SELECT i, chr(i::INTEGER) AS c, 'x' || chr(i::INTEGER) || 'Y' AS w "
        "FROM range(1, 1114112) r(i) WHERE i NOT BETWEEN 55296 AND 57343"
    )
    sql = """
        SELECT count(*), sum(i * (c <> upper(c))::INTEGER), sum(i * (c <> lower(c))::INTEGER),
            sum(i * (w ILIKE '%ß%')::INTEGER), count(DISTINCT upper(c)), count(DISTINCT lower(w)),
            sum(i) FILTER (WHERE strlen(upper(c)) <> strlen(c)), max(upper(w)), min(lower(w))
        FROM letters"""
    ours, theirs = both(con, sql)
    assert ours == theirs
    # Every pair itself: DuckDB and Warpmill map the same letters to the same results.
    con.execute("SET warpmill_enabled = false")
    con.execute("CREATE OR REPLACE TABLE mapped AS SELECT i, c, upper(c) AS u, lower(c) AS l FROM letters")
    con.execute("SET warpmill_enabled = true")
    wrong = "SELECT count(*), min(i), count(DISTINCT u) FROM mapped WHERE upper(c) <> u OR lower(c) <> l"
    assert con.execute(wrong).fetchall() == [(0, None, 0)]
    con.execute("DROP TABLE letters; DROP TABLE mapped")


def test_variances_of_large_values(con: Any) -> None:
    """Welford's algorithm loses digits: for values of 1e9 with a deviation of 1, seven."""
    [(ours,)], [(theirs,)] = (answer[1] for answer in both(con, "SELECT var_pop(big) FROM samples"))
    assert math.isclose(ours, theirs, rel_tol=1e-8)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(x::INTEGER) FROM (SELECT x * 1e10 AS x FROM numbers)",
        "SELECT stddev(x) FROM (SELECT x * 1e300 AS x FROM numbers)",
        "SELECT max(abs(i)) FROM numbers",
        "SELECT max(sqrt(x)) FROM numbers",
        "SELECT k FROM numbers WHERE k = (SELECT k FROM numbers WHERE x < 0) ORDER BY k",
        "SELECT max((x / 0)::INTEGER) FROM numbers",
        "SELECT max((i * 1000)::SMALLINT) FROM numbers",
    ],
)
def test_what_fails_ends_as_in_duckdb(con: Any, sql: str) -> None:
    """An error, or the result of this version of DuckDB: DuckDB has run the query."""

    def outcome() -> str:
        try:
            return repr(con.execute(sql).fetchall())
        except duckdb.Error as error:
            return repr(error)

    con.execute("SET warpmill_fallback = 'allow'")
    try:
        ours = outcome()
        [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
        assert not accelerated
        assert "failed while it ran" in reason
        con.execute("SET warpmill_enabled = false")
        assert ours == outcome()
    finally:
        con.execute("SET warpmill_enabled = true")
        con.execute("SET warpmill_fallback = 'error'")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT max(s LIKE p) FROM texts", "LIKE with a pattern that is not constant"),
        ("SELECT max(substring(s, -2)) FROM texts", "the function substring"),
        ("SELECT max(round(x, -1)) FROM numbers", "the function round"),
        ("SELECT max(x::VARCHAR) FROM numbers", "a cast from Double to Varchar"),
        ("SELECT max(s::DATE) FROM texts", "a cast from Varchar to Date"),
        ("SELECT max(exp(x)) FROM numbers", "the function exp"),
        ("SELECT max(monthname(dt)) FROM days", "the function monthname"),
        ("SELECT first(s) FROM samples", "the aggregate first"),
        ("SELECT list(s) FROM samples", "LIST|the type|the aggregate list|VARCHAR"),
        ("SELECT sum(big ORDER BY i) FROM samples", "an aggregate with ORDER BY"),
        ("SELECT k FROM texts ORDER BY ALL LIMIT (SELECT 3)", "LIMIT or OFFSET that is not a constant"),
    ],
)
def test_what_stays_says_why(con: Any, sql: str, reason: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=reason):
        con.execute(sql)
