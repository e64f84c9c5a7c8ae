"""Values of several types: prepared statements, lists, conflicts, NaN, and functions of FLOAT, compared with DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill

TABLE = "CREATE TABLE t AS SELECT * FROM range(3) r(b)"
KEYED = "CREATE TABLE p(k INTEGER PRIMARY KEY, n DECIMAL(10,2), v BIGINT, d DATE); INSERT INTO p VALUES (1, 0, 0, NULL)"
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
