"""Recursive queries: several references, subqueries, LIMIT, correlation beside plain DuckDB; USING KEY and all"
" rows so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

    Both = tuple[warpmill.Connection, duckdb.DuckDBPyConnection]

TABLES = """
    CREATE TABLE edges AS SELECT * FROM (VALUES (1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (7, 8)) v(src, dst);
    CREATE TABLE many AS SELECT i AS src, (i * 7 + 3) % 5000 AS dst FROM range(5000) r(i);
    CREATE TABLE numbers AS SELECT i FROM range(100) r(i)
"""

EQUAL = [
    # Several references, in joins and in subqueries.
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT m.x + f.x FROM t AS m, t AS f WHERE m.x < 3) FROM t ORDER BY x",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT a.x + b.x + c.x FROM t a, t b, t c WHERE a.x < 100) FROM t"
    " ORDER BY x",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT sum(x) FROM (SELECT sum(x) FROM t) q(x), numbers WHERE x < 1000)"
    " SELECT * FROM t ORDER BY 1 NULLS LAST",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT (SELECT x + 1 FROM t) FROM t WHERE x < 5) FROM t ORDER BY x",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT (SELECT t.x + u.x FROM t u LIMIT 1) FROM t WHERE x < 10)"
    " FROM t ORDER BY x",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT (SELECT max(x) + 1 FROM t) FROM numbers WHERE i <"
    " (SELECT 3 - max(x) FROM t))"
    " SELECT count(*), max(x) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT x + 1 FROM t WHERE EXISTS (FROM t u WHERE u.x < 4)) FROM t"
    " ORDER BY x",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL (WITH u AS (FROM t) SELECT a.x + 1 FROM u a JOIN u b USING (x)"
    " WHERE x < 4)) FROM t ORDER BY x",
    "WITH RECURSIVE t(x) AS (WITH u AS (SELECT 3 AS y) SELECT 1 FROM u UNION ALL SELECT x + 1 FROM t, u WHERE x"
    " < y) FROM t ORDER BY x",
    "WITH RECURSIVE t(x, y) AS (SELECT 1, 2 UNION ALL SELECT 3, 4) FROM t ORDER BY x",
    # Rows that are computed on demand.
    "WITH RECURSIVE t(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM t) SELECT i FROM t WHERE i % 200 = 0 LIMIT 10",
    "SELECT count(*) FROM (WITH RECURSIVE t(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM t) SELECT i FROM t LIMIT 2048)",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT * FROM (SELECT x FROM t WHERE x < 5) u(i) JOIN (SELECT"
    " 1) v(i) USING (i))"
    " SELECT * FROM t LIMIT 3",
    # Graphs.
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT dst FROM w JOIN edges ON src = n) FROM w ORDER BY n",
    "WITH RECURSIVE w(n, d) AS (SELECT 1, 0 UNION ALL SELECT dst, d + 1 FROM w JOIN edges ON src = n WHERE d < 8)"
    " SELECT n, min(d), count(*) FROM w GROUP BY n ORDER BY n",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT dst FROM w JOIN many ON src = n) SELECT count(*), sum(n),"
    " max(n) FROM w",
    "WITH RECURSIVE w(n, path) AS (SELECT 1, [1] UNION ALL SELECT dst, list_append(path, dst) FROM w JOIN edges"
    " ON src = n"
    " WHERE NOT list_contains(path, dst)) FROM w ORDER BY ALL",
    # NULLs, floats, texts and nothing.
    "WITH RECURSIVE t(x) AS (SELECT NULL::INTEGER UNION SELECT x FROM t) FROM t",
    "WITH RECURSIVE t(x) AS (SELECT 0e0 UNION SELECT -x FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t(x, y) AS (SELECT 1, 'a' UNION SELECT x + 1, y || '-b' FROM t WHERE x < 3) FROM t ORDER BY x",
    "WITH RECURSIVE t(x) AS (SELECT i FROM numbers WHERE i > 200 UNION ALL SELECT x + 1 FROM t) FROM t",
    # One in another, and twice.
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < 4),"
    " u(x) AS (FROM t UNION ALL SELECT u.x * 2 + t.x FROM u, t WHERE u.x < 32) SELECT * FROM u ORDER BY x LIMIT 5",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION SELECT x + 1 FROM t WHERE x < 3) SELECT a.x, b.x FROM t a, t b"
    " ORDER BY ALL",
    "WITH RECURSIVE o(a, b) AS (SELECT 1, 1 UNION ALL (WITH RECURSIVE i(k) AS (SELECT a FROM o WHERE b < 4"
    " UNION ALL SELECT k + 1 FROM i"
    " WHERE k < 3) SELECT max(k), b + 1 FROM i, o GROUP BY b)) FROM o ORDER BY ALL",
    # Outer columns.
    "SELECT x, y FROM range(1, 5) r(x), LATERAL (WITH RECURSIVE t(y) AS (SELECT r.x UNION ALL SELECT y + 1 FROM"
    " t WHERE y < 3) FROM t) q"
    " ORDER BY ALL",
    "SELECT x, y FROM range(1, 5) r(x), LATERAL (WITH RECURSIVE t(y) AS (SELECT 1 UNION ALL SELECT y + r.x FROM"
    " t WHERE y < 3) FROM t) q"
    " ORDER BY ALL",
    "SELECT x, y FROM range(1, 5) r(x), LATERAL (WITH RECURSIVE t(y) AS (SELECT r.x UNION SELECT y + r.x FROM t"
    " WHERE y < 3) FROM t) q"
    " ORDER BY ALL",
    "SELECT x, (WITH RECURSIVE t(y) AS (SELECT 1 UNION ALL SELECT y + 1 FROM t WHERE y < r.x) SELECT max(y)"
    " FROM t) FROM range(4) r(x) ORDER BY ALL",
]

#: Answers of DuckDB versions that have keys with aggregates.
KEYED = {
    "USING KEY (a, max(b)) AS (SELECT 1, 5 UNION ALL SELECT a, b - 1 FROM t WHERE b > 0)": [(1, 5)],
    "USING KEY (a, avg(b)) AS (SELECT 1, 5 UNION ALL SELECT a, b - 1 FROM t WHERE b > 0)": [(1, 2.5)],
    "USING KEY (a) AS (SELECT 1, 0 UNION ALL SELECT a, b + 1 FROM t WHERE b < 3)": [(1, 3)],
    "USING KEY (a) AS (VALUES (1, 0) UNION SELECT a, b FROM t)": [(1, 0)],
    "USING KEY (a) AS (VALUES (1, NULL::INTEGER) UNION SELECT a, b FROM t)": [(1, None)],
    "USING KEY (a, min(b)) AS (VALUES (1, 5) UNION SELECT a, b + d FROM t, (VALUES (0), (0), (1)) o(d))": [(1, 5)],
    "USING KEY (a) AS (VALUES (1, 10) UNION SELECT a + 1, b + 10 FROM t WHERE a < 4)": [
        (1, 10),
        (2, 20),
        (3, 30),
        (4, 40),
    ],
    "USING KEY (a, min(abs(b)) AS b) AS (VALUES (1, -5) UNION SELECT a + 1, -b FROM t WHERE a < 2)": [(1, 5), (2, 5)],
    "USING KEY (a, sum(b)) AS (VALUES (1, 1), (1, 2) UNION SELECT a, 0 FROM t WHERE false)": [(1, 3)],
    "USING KEY (a, sum(b)) AS (VALUES (1, 1::INTEGER) UNION SELECT a, 1 FROM t WHERE b < 3)": [(1, 3)],
    "USING KEY (a, sum(b)) AS (VALUES (1, 1), (1, 1) UNION VALUES (1, 1))": [(1, 3)],
    "USING KEY (a, bit_xor(b)) AS (VALUES (1, 0) UNION SELECT a, 1 FROM t, range(2) d(i))": [(1, 0)],
    "USING KEY (a, string_agg(b, '') AS b) AS (VALUES (1, 'a') UNION SELECT a, b || 'b' FROM t WHERE length(b) < 4)": [
        (1, "aabaabb")
    ],
    "USING KEY (a, first(b) AS b) AS (VALUES (1, 10) UNION SELECT a, b + 1 FROM t WHERE b = 10)": [(1, 10)],
    "USING KEY (a, list(b)) AS (SELECT 1, 5 UNION ALL SELECT a, b - 1 FROM t WHERE b > 3)": [(1, [5, 4, 3])],
    "USING KEY (a) AS (SELECT i, 0 FROM range(0) r(i) UNION SELECT a, b FROM t)": [],
    # All rows so far.
    "USING KEY (a) AS (SELECT 1, 0 UNION ALL SELECT n.a, r.b + 1 FROM t n JOIN recurring.t r USING (a) WHERE"
    " n.b < 3)": [(1, 3)],
    "AS (SELECT src, dst FROM edges WHERE src < 3 UNION SELECT x.a, y.b FROM recurring.t x JOIN recurring.t y"
    " ON x.b = y.a)": [
        (1, 2),
        (1, 3),
        (2, 3),
    ],
    "AS (SELECT 1, 1 UNION ALL SELECT n.a + 1, (SELECT count(*)::INTEGER FROM recurring.t) FROM t n WHERE n.a < 4)": [
        (1, 1),
        (2, 1),
        (3, 2),
        (4, 3),
    ],
}

REFUSED = [
    "WITH RECURSIVE t(a, b, c) USING KEY (a, b, list(c), max(c)) AS (SELECT 1, 1, 1 UNION ALL FROM t WHERE"
    " false) FROM t",
    "WITH RECURSIVE t(a, b, c) USING KEY (a, c, list(b), max(c)) AS (SELECT 1, 1, 1 UNION ALL FROM t WHERE"
    " false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (list(b)) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (a, b + 1) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (a, avg(b)::INT) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (a, sum(b) OVER ()) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (a AS b, max(b)) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a, b) USING KEY (a, avg(*)) AS (SELECT 1, 1 UNION ALL FROM t WHERE false) FROM t",
    "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT 1, 2 FROM t) FROM t",
    "WITH t(a) USING KEY (a) AS (SELECT 1 UNION ALL FROM t) FROM t",
    "SELECT * FROM recurring.edges",
]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with warpmill.connect(device="cpu") as engine, duckdb.connect() as plain:
        for statement in TABLES.split(";"):
            engine.execute(statement)
            plain.execute(statement)
        yield engine, plain


@pytest.mark.parametrize("sql", EQUAL)
def test_equal(both: Both, sql: str) -> None:
    engine, plain = both
    assert engine.execute(sql).fetchall() == plain.execute(sql).fetchall()


@pytest.mark.parametrize("query", KEYED)
def test_keys(both: Both, query: str) -> None:
    engine, _ = both
    assert sorted(engine.execute(f"WITH RECURSIVE t(a, b) {query} FROM t").fetchall()) == KEYED[query]


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(both: Both, sql: str) -> None:
    engine, _ = both
    with pytest.raises(warpmill.Error):
        engine.execute(sql).fetchall()


def test_keys_of_outer_columns(both: Both) -> None:
    engine, _ = both
    rows = engine.execute(
        "SELECT x, b FROM range(4) r(x), LATERAL (WITH RECURSIVE t(a, b) USING KEY (a) AS (VALUES (1, 0) UNION"
        " SELECT a, b + 1 FROM t WHERE b < x) SELECT b FROM t) q ORDER BY ALL"
    ).fetchall()
    assert rows == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_types_of_aggregates_are_those_of_rows(both: Both) -> None:
    engine, _ = both
    rows = engine.execute(
        "WITH RECURSIVE t(k, total, ty) USING KEY (k, sum(total)) AS (VALUES (1, 1::INTEGER, 'first') UNION"
        " SELECT k, 1, typeof(total) FROM t WHERE total < 2) FROM t"
    ).fetchall()
    assert rows == [(1, 2, "HUGEINT")]


def test_a_plan_runs_again(both: Both) -> None:
    engine, _ = both
    sql = "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT dst FROM w JOIN edges ON src = n) SELECT count(*) FROM w"
    assert [engine.execute(sql).fetchall() for _ in range(3)] == [[(5,)]] * 3


def test_rows_have_room_within_the_limit() -> None:
    with warpmill.connect() as engine:
        engine.execute("SET memory_limit = '64MB'")
        with pytest.raises(warpmill.Error, match=r"(?i)memory"):
            engine.execute(
                "WITH RECURSIVE t(i, x) AS (SELECT 0, repeat('x', 10000) UNION SELECT i + 1, repeat('x', 10000)"
                " || i FROM t"
                " WHERE i < 1000000) SELECT count(*), max(x) FROM t"
            ).fetchall()
