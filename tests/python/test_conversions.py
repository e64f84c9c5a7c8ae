"""Values of several types beside DuckDB: prepared statements, constants, rows, lists, conflicts, NaN, FLOAT."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill

TABLE = "CREATE TABLE t AS SELECT * FROM range(3) r(b)"
KEYED = "CREATE TABLE p(k INTEGER PRIMARY KEY, n DECIMAL(10,2), v BIGINT, d DATE); INSERT INTO p VALUES (1, 0, 0, NULL)"
TRUTHS = (
    "CREATE TABLE t(b BOOLEAN, i INTEGER, s VARCHAR); "
    "INSERT INTO t VALUES (true, 1, 'true'), (false, 0, 'f'), (NULL, NULL, NULL), (true, 2, '1')"
)
MIXED = (
    "CREATE TYPE md AS ENUM ('a', 'b'); "
    "CREATE TABLE t(i INTEGER, d DOUBLE, n DECIMAL(10,2), u UUID, m md, b BOOLEAN, s VARCHAR, dt DATE); "
    "INSERT INTO t VALUES "
    "(1, 0.1e0 + 0.2e0, 4.44, '00000000-0000-0000-0000-000000000001', 'a', true, 'x', '2020-01-01'), "
    "(1, 1e-17, 4, NULL, 'b', false, 'y', '2021-01-01'), (2, 'nan', 1, NULL, NULL, NULL, NULL, NULL), "
    "(5, 1e300, 4.44, NULL, 'a', true, 'x', NULL), (6, -0.0, 4.44, NULL, 'a', true, 'x', NULL)"
)
FLOATS = "CREATE TABLE f(x DOUBLE); INSERT INTO f VALUES ('inf'), (0), ('nan')"

#: Statements, separated by semicolons: the rows of the last one are compared.
STATEMENTS = [
    # Arguments keep their types.
    "PREPARE p AS SELECT x FROM (VALUES (0), (1), (2)) t(x) WHERE x = $1; EXECUTE p(0.5)",
    f"{TABLE}; PREPARE q AS INSERT INTO t VALUES ($1); EXECUTE q(7.6); FROM t",
    f"{TABLE}; PREPARE r AS SELECT b + $1, b < $2 FROM t; EXECUTE r(0.5, 1.5)",
    "PREPARE a AS SELECT ? + 1 AS n; EXECUTE a(1.5)",
    "PREPARE a AS SELECT $1 AS n; EXECUTE a('x'); EXECUTE a(NULL)",
    "PREPARE g AS SELECT d FROM (VALUES (DATE '2020-01-01')) t(d) WHERE d >= $1; "
    "EXECUTE g(TIMESTAMP '2020-01-01 10:00:00')",
    f"{TABLE}; PREPARE f AS SELECT b FROM t WHERE b < $1; EXECUTE f(5000000000)",
    f"{TABLE}; PREPARE f AS SELECT b FROM t WHERE b IN ($1, $2); EXECUTE f(1.5, 2)",
    # IN with NULL, and with values of several types.
    "SELECT 2 IN (NULL, 1.6), 2 IN (NULL, 2.0), 2 NOT IN (NULL, 1.6)",
    "SELECT x FROM (VALUES (2)) t(x) WHERE x IN (1.6, NULL)",
    "CREATE TABLE t AS SELECT 2 AS i; DELETE FROM t WHERE i IN (NULL, 1.6); FROM t",
    "SELECT x IN (NULL, 300), x IN (1, 300) FROM (VALUES (1::TINYINT)) t(x)",
    "SELECT i IN (b, NULL), i IN (b, i) FROM (VALUES (1::INTEGER, 9223372036854775807::BIGINT)) t(i, b)",
    "SELECT i IN (1.5, '2', NULL), i IN (2e0, 1.5) FROM (VALUES (2)) t(i)",
    "SELECT * FROM range(3) t(x) WHERE x IN (1.0, NULL, 2)",
    "SELECT x FROM (VALUES (1::UBIGINT)) t(x) WHERE x IN (1, -1, NULL)",
    # Numbers with an exponent, and large ones, in VALUES.
    "VALUES (1), (2.5e0)",
    "SELECT sum(v) FROM (VALUES (1), (2.5e0), (4)) t(v)",
    "SELECT * FROM (VALUES (1e-3, 'a'), (7, 'b')) t(v, w)",
    "SELECT * FROM (VALUES (1e300), (0.1::FLOAT)) t(v)",
    "SELECT * FROM (VALUES (100000000000000000000), (1)) t(v)",
    "SELECT * FROM (VALUES (255), (1e300), (-1e3)) t(v)",
    # New rows of ON CONFLICT have the table's types.
    f"{KEYED}; INSERT INTO p (k, n) VALUES (1, 0.005) ON CONFLICT (k) DO UPDATE SET n = excluded.n * 2; FROM p",
    f"{KEYED}; INSERT INTO p (k, v) VALUES (1, 7.6) ON CONFLICT (k) DO UPDATE SET v = excluded.v * 10; FROM p",
    f"{KEYED}; INSERT INTO p (k, v) VALUES (1, 2147483647) ON CONFLICT (k) DO UPDATE SET v = excluded.v + 1; FROM p",
    f"{KEYED}; INSERT INTO p (k, d) VALUES (1, '2024-01-31') ON CONFLICT (k) DO UPDATE SET d = excluded.d + 1; FROM p",
    # NaN is one value, and the greatest.
    "SELECT 0/0 > 1, greatest(0/0, 1)",
    "SELECT sin(x) < 1, cos(x) > 5, tan(x) = 'nan'::DOUBLE FROM (VALUES ('inf'::DOUBLE), (1.0)) t(x)",
    f"{FLOATS}; SELECT sin(x), count(*) FROM f GROUP BY 1",
    f"{FLOATS}; SELECT x FROM f WHERE fmod(x, 0) > 5",
    f"{FLOATS}; SELECT arg_max(x, cos(x)) FROM f WHERE x <> 'nan'::DOUBLE",
    # Others.
    "SELECT regexp_matches(x, '.*'), x ~ '.*', x SIMILAR TO '.*' FROM (VALUES ('a'), (NULL)) t(x)",
    "SELECT a[1] FROM (SELECT [1e-20, 1.0] AS a UNION ALL SELECT [2e0, 1.0]) q",
    "SELECT a FROM (SELECT list_sum([1e-20, 1.0]) AS a UNION ALL SELECT 1e-20) q",
    "SELECT list_sum([1e0, 1.0]) UNION ALL SELECT 1e300",
    "SELECT ['nan'::DOUBLE] = [1.5], [1e0] = [1.0]",
    "SELECT coalesce([x, 1.5], [1.0]) FROM (VALUES (1e300)) t(x)",
    "SELECT d FROM (VALUES (DATE '2020-01-02')) t(d) "
    "WHERE d BETWEEN '2020-01-02 10:00:00' AND TIMESTAMP '2020-01-03 00:00:00'",
    "SELECT d FROM (VALUES (DATE '2020-01-02')) t(d) WHERE d BETWEEN '2020-01-02' AND DATE '2020-01-03'",
    "SELECT lag(x, 1, 1.5) OVER (ORDER BY x), lead(x, 1, -1.5) OVER (ORDER BY x) FROM (VALUES (1), (2)) t(x)",
    "SELECT sqrt(x), typeof(sqrt(x)), typeof(sin(x)) FROM (VALUES (0.1::FLOAT)) t(x)",
    "SELECT round(x, 1), typeof(round(x, 1)) FROM (VALUES (3.4e38::FLOAT), (1.05::FLOAT)) t(x)",
    "SELECT DATE '2020-02-29' = make_timestamp(2020, 2, 29, 10, 20, 30.5)",
    "SELECT DATE '2020-02-29' = make_timestamp(2020, 2, 29, 0, 0, 0)",
    # Constant texts beside other values are read as values of their type.
    "SELECT coalesce(d, '2020-01-02'), ifnull(d, '2020-01-01'), greatest(d, '2021-01-01'), [d, '2020-02-02'], "
    "nullif(d, '2020-01-01'), if(d IS NULL, '2020-05-05', d), CASE WHEN d IS NULL THEN '2020-01-01' ELSE d END "
    "FROM (VALUES (DATE '2020-01-01'), (NULL)) t(d)",
    "SELECT coalesce(ts, '2020-01-02'), coalesce(NULL, ts, '2020-01-02 10:00:00'), greatest(ts, '2500-01-01'), "
    "nullif(ts, '2020-01-01') FROM (VALUES (TIMESTAMP '2020-01-01'), (NULL)) t(ts)",
    "SELECT coalesce(tm, '10:00:00'), greatest(tm, '11:00:00') FROM (VALUES (TIME '10:00:00'), (NULL)) t(tm)",
    "SELECT coalesce(d, ts, '2020-01-01 10:00:00') FROM (VALUES (NULL::DATE, NULL::TIMESTAMP)) t(d, ts)",
    "SELECT CASE WHEN i IS NULL THEN '1' ELSE i END, greatest(i, '2'), least(1.5, '1'), [i, '2'], nullif(i, '1') "
    "FROM (VALUES (1), (NULL)) t(i)",
    "SELECT x = true, true > x, x <> false FROM (VALUES (1), (0), (NULL), (2)) t(x)",
    # Dates and times of day.
    "SELECT DATE '2020-01-01' + TIME '10:00:00', TIME '10:00:00' + DATE '9999-12-31', NULL::DATE + TIME '00:00:01', "
    "d + TIME '23:59:59.999999' FROM (VALUES (DATE '0001-01-01'), (NULL)) t(d)",
    # Powers of 0, as floats have them.
    "SELECT i ** -1, 0 ** -1, power(0.0, -2), pow(2, 3), pow(-8, 0.5), i ^ 2 FROM (VALUES (2), (0), (NULL)) t(i)",
    "CREATE TABLE t AS SELECT * FROM (VALUES (0.0::DOUBLE, -1.0::DOUBLE), (2, -2), (NULL, 1)) t(x, y); "
    "SELECT power(x, y) FROM t WHERE power(x, y) > 0.1",
    # Rows of values in lists.
    "SELECT (x, k) IN ((1.0, 1), (-2, 2)), (x, k) NOT IN ((1, 1), (x, k)) FROM (VALUES (1, 1), (2.5, NULL)) t(x, k)",
    "SELECT (1, NULL) IN ((1, NULL)), (1, NULL) IN ((2, 3)), (NULL, 1) IN ((1, 2)), "
    "(1, 2) IS NOT DISTINCT FROM (1, 2), (1, NULL) IS DISTINCT FROM (1, NULL)",
    "SELECT x FROM (VALUES (1, 2), (3, 4)) t(x, y) WHERE (x, y) IN ((3, 4), (5, 6))",
    # Lists and NULL.
    "SELECT list_has_any([1, NULL], [NULL, 5]), list_has_any(NULL, [1]), list_has_all([1], [NULL]), "
    "list_has_all([]::INT[], [NULL]::INT[]), list_has_all(NULL::INT[], [1]), [1, 2] && [2], [1, 2] @> [2]",
    "SELECT list_has_any([0.0::DOUBLE], [-0.0::DOUBLE]), list_has_any(['nan'::DOUBLE], ['nan'::DOUBLE])",
    "SELECT list_concat(x, x), list_concat(x, [1]), list_concat(NULL, [1]), list_cat([1], x), list_concat(NULL, NULL) "
    "FROM (VALUES (NULL::INTEGER[]), ([1])) t(x)",
    "SELECT list_concat([1], [2.5]), list_concat([1], [2], [3]), list_concat(['a'], [NULL]), list_concat([1])",
    "SELECT NULL::INTEGER[] || [1], [1] || NULL, NULL || x, x || NULL::INTEGER[], "
    "x || [2, NULL], [1.5] || x FROM (VALUES ([1]), (NULL)) t(x)",
    "SELECT list_intersect([1, NULL, 2, 3], [3, 2, 5]), list_intersect([1, NULL], [NULL, 1, 1])",
    "SELECT list_append([1, 2], 1.5), list_append(NULL, 1), list_append([1], NULL), list_prepend(1.5, [1, 2]), "
    "list_prepend(NULL, [1]), array_push_back([1], 2), array_push_front([1], 2)",
    "SELECT list_intersect(x, [1]), list_intersect([1], x), list_intersect([3, 1, 2, 1], [1, 2, 3]), "
    "list_intersect([5, 4, 3, 2, 1], [1, 5, 3, 9, 9, 9, 9, 9, 9]) FROM (VALUES (NULL::INTEGER[]), ([1])) t(x)",
    "SELECT list_resize([1, 2], x), list_resize(NULL::INT[], 1), list_resize([1], 2, 7), list_resize([1], 3), "
    "list_resize([1, 2, 3], 0), list_resize(['a'], 2, 'b') FROM (VALUES (NULL::INTEGER), (3)) t(x)",
    "SELECT string_split('a,b', x), string_split(x, ','), len(string_split('3.75', x)), string_split('abc', '') "
    "FROM (VALUES (NULL::VARCHAR), (',')) t(x)",
    "SELECT * FROM (VALUES ([1e-20, 1.5]), ([1e0])) t(x)",
    "SELECT CAST(x AS VARCHAR) FROM (VALUES ([0.1e0, 1.5])) t(x)",
    # Totals of lists.
    "SELECT list_reduce(l, lambda a, b: a + b), list_reduce(l, lambda a, b: a * b, 10), "
    "list_reduce(l, lambda a, b, i: a + b * i) FROM (VALUES ([1, 2, 3]), ([7]), (NULL)) t(l)",
    "SELECT list_reduce([]::INT[], lambda a, b: a + b, 5), reduce(['a', 'b'], lambda a, b: a || b), "
    "list_reduce([9.5, 9.5], lambda a, b: a + b), list_reduce([1, NULL, 2], lambda a, b: a + coalesce(b, 10))",
    "SELECT list_reduce(l, lambda a, b: a + b * k, k) FROM (VALUES ([1, 2], 10), ([3], 20), ([]::INT[], 30)) t(l, k)",
    # Shapes of equal numbers.
    "SELECT skewness(2.4999), kurtosis(2.4999), kurtosis_pop(0.1) FROM range(5)",
    "SELECT round(skewness(x), 12), round(kurtosis(x), 12), round(kurtosis_pop(x), 12) "
    "FROM (VALUES (3.5), (1.25), (7.75), (2.0), (9.5)) t(x)",
    # NaN made of constants.
    "SELECT 'inf'::DOUBLE - 'inf'::DOUBLE > 1, 'inf'::DOUBLE * 0 > 1, -('nan'::DOUBLE) > 1",
    "SELECT x FROM (SELECT 'inf'::DOUBLE - 'inf'::DOUBLE AS x) t WHERE x > 1",
    # Positions of small types.
    "SELECT substring('hello', 2::SMALLINT, 3::TINYINT), left('abc', x), repeat('a', x), lpad('a', x, 'x') "
    "FROM (VALUES (2::SMALLINT)) t(x)",
    # Others.
    "SELECT lower('ABC') GLOB 'a*', ('x' || 'y') GLOB 'x?', x[1] GLOB 'a' FROM (VALUES (['a'])) t(x)",
    "SELECT s || 'b' GLOB 'a' || '*', s NOT GLOB 'b*', s GLOB lower(p), s GLOB p, NOT(s) GLOB p, s GLOB ('a' || '*'), "
    "CASE WHEN s > 'a' THEN s ELSE p END GLOB 'a*', s::VARCHAR GLOB 'a*', max(s) OVER () GLOB 'a*' "
    "FROM (VALUES ('abc', 'A*'), ('b', 'b'), (NULL, '*')) t(s, p)",
    "SELECT s AS g FROM (VALUES ('abc'), (NULL)) t(s) WHERE s IS NOT NULL AND(s) GLOB '?b[a-c]'",
    "SELECT nullif(s, d), typeof(nullif(s, d)), nullif('1', i), typeof(nullif('1', i)), nullif(i, '1.5') "
    "FROM (VALUES ('2020-01-01', DATE '2020-01-01', 1), ('2020-01-02', NULL, 2)) t(s, d, i) WHERE d IS NULL",
    "SELECT nullif(i, 2.0), typeof(nullif(i, 2.5)), nullif(NULL, i), nullif(i, NULL) FROM (VALUES (1), (2)) t(i)",
    "SELECT s.*, t.n FROM (SELECT {'a': 1, 'b': 'x'} AS s, 5 AS n) t",
    "SELECT weighted_avg(x, w), wavg(x, w) FROM (VALUES (1, 2), (2, NULL), (NULL, 3), (5, 1)) t(x, w)",
    "SELECT struct_concat({'a': 1}, {'b': 2}, {'c': 3}), struct_update({'a': 1, 'b': 2}, a := 'x', c := 5)",
    "SELECT list_aggregate([1, 2], 'string_agg', '-'), list_aggregate(['a', 'b'], 'string_agg', '-')",
    "SELECT x FROM (VALUES ('%a'), ('b_'), ('A%'), (NULL)) t(x), (VALUES ('a%'), ('b_'), ('%A')) u(y) "
    "WHERE x ILIKE y ORDER BY ALL",
    "SELECT x NOT ILIKE y FROM (VALUES ('Straße', 'STRA%'), ('a', NULL)) t(x, y)",
    "SELECT 1 AS a UNION SELECT (SELECT 2 FROM range(3) LIMIT 1) ORDER BY a",
    "SELECT 1.5 AS a, 'x' AS b UNION BY NAME SELECT 2 AS a, (SELECT max(b) FROM (VALUES ('y')) t(b)) AS b ORDER BY a",
    # Truth values beside integers and texts.
    f"{TRUTHS}; SELECT b = i, b < i, i >= b, b > i + 1, true = 1::HUGEINT, true <> 1::UTINYINT FROM t",
    f"{TRUTHS}; SELECT b = '1', b = 'true', 'F' = b, b IN ('t', 'f'), b NOT IN ('yes', NULL) FROM t",
    f"{TRUTHS}; SELECT b = s, s <> b FROM t WHERE s <> '7'",
    f"{TRUTHS}; SELECT count(*) FROM t WHERE b = 'true' AND b <> 0",
    f"{TRUTHS}; SELECT b BETWEEN 0 AND 1, i BETWEEN false AND true, b NOT BETWEEN i AND 1 FROM t",
    f"{TRUTHS}; SELECT b IN (0, 1), b IN (1, 2), i IN (true, false), i IN (b, 2), b NOT IN (i, NULL) FROM t",
    f"{TRUTHS}; SELECT CASE b WHEN 1 THEN 'x' WHEN 0 THEN 'y' END, CASE i WHEN true THEN 'x' ELSE 'z' END FROM t",
    f"{TRUTHS}; SELECT CASE WHEN i = 1 THEN b ELSE i END, if(b, i, b), "
    "sum(CASE WHEN b THEN i ELSE b END) OVER () FROM t",
    f"{TRUTHS}; SELECT coalesce(b, i), coalesce(b, 5), coalesce(i, true), ifnull(b, 3) FROM t",
    f"{TRUTHS}; SELECT nullif(b, 1), nullif(i, true), greatest(b, i), least(b, 0), greatest(b, false) FROM t",
    f"{TRUTHS}; SELECT b FROM t UNION ALL SELECT i FROM t; SELECT x, count(*) FROM "
    "(SELECT b AS x FROM t UNION ALL SELECT i FROM t UNION ALL SELECT 1.5) GROUP BY x ORDER BY x",
    f"{TRUTHS}; SELECT a.i, b.i FROM t a JOIN t b ON a.i = b.b ORDER BY ALL",
    f"{TRUTHS}; SELECT i FROM t WHERE b IN (SELECT i FROM t) ORDER BY i; "
    "SELECT i FROM t WHERE i IN (SELECT b FROM t WHERE b IS NOT NULL) ORDER BY i",
    f"{TRUTHS}; SELECT i FROM t WHERE b = ANY (SELECT i FROM t) ORDER BY i",
    f"{TRUTHS}; SELECT i FROM t WHERE i = b GROUP BY i HAVING max(i) = true",
    # Rows of values of several types.
    f"{MIXED}; SELECT (i, d) IN ((1, 0.3), (1, 2.25)), (i, d) NOT IN ((1, 0.3), (2, 1)), "
    "(i, d) IN ((1, 0), (2, 0.5)) FROM t",
    f"{MIXED}; SELECT (i, d) IN ((6, 0.0), (5, 1e300)), (i, d) IN ((2, 'nan')), (i, d) IN ((i, d)) FROM t",
    f"{MIXED}; SELECT (i, n) IN ((1, 4.44e0)), (i, n) IN ((1, 4), (1, 4.44)), (i, s) IN ((2, NULL), (1, 'x')) FROM t",
    f"{MIXED}; SELECT (i, u) IN ((1, '00000000-0000-0000-0000-000000000001')), (i, m) IN ((1, 'a')), "
    "(i, dt) IN ((1, '2020-01-01')) FROM t",
    f"{MIXED}; SELECT (i, b) IN ((1, 1)), (i, b) IN ((1, 'true')), (i, b) NOT IN ((1, i = 1)) FROM t",
    "SELECT kurtosis(x) FROM (VALUES (1e0), ('inf'::DOUBLE), (2)) t(x)",
]


def rows(con: Any, statements: str) -> list[str]:
    """The rows of the last of some statements."""
    for statement in statements.split("; "):
        result = con.execute(statement)
    return sorted(map(repr, result.fetchall()))


@pytest.mark.parametrize("statements", STATEMENTS)
def test_as_in_duckdb(statements: str) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        assert rows(ours, statements) == rows(theirs, statements)


@pytest.mark.parametrize("sign", ["", "-"], ids=["constants", "expressions"])
def test_long_lists_of_rows(sign: str) -> None:
    wanted = ", ".join(f"({n * 7}, {sign}{n % 50})" for n in range(600))
    table = f"(SELECT i, {sign}(i // 7 % 50) AS k FROM range(5000) r(i))"
    query = f"SELECT sum(i), count(*) FROM {table} WHERE (i, k) IN ({wanted})"
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        assert rows(ours, query) == rows(theirs, query)


def test_prepared_statements_are_what_they_were_last() -> None:
    with warpmill.connect() as con:
        con.execute("PREPARE p AS SELECT $1 + 1 AS n")
        assert con.execute("EXECUTE p(1)").fetchall() == [(2,)]
        con.execute("DEALLOCATE p")
        con.execute("PREPARE p AS SELECT $1 || 'x' AS n")
        assert con.execute("EXECUTE p('a')").fetchall() == [("ax",)]
        with pytest.raises(warpmill.Error, match="values"):
            con.execute("EXECUTE p('a', 'b')")
        con.execute("DEALLOCATE p")
        with pytest.raises(warpmill.Error):
            con.execute("EXECUTE p('a')")
        # Types that PREPARE gives are those of the parameters.
        con.execute("PREPARE q (INTEGER) AS SELECT $1 + 1 AS n")
        assert con.execute("EXECUTE q(4)").fetchall() == [(5,)]
