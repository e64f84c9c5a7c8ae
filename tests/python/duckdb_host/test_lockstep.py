"""Queries that once had another answer than DuckDB's, by the kind of mistake, and their siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duckdb_host.lockstep import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

SETUP = """
CREATE TABLE t AS SELECT i % 5 AS g, i % 3 AS a, i AS b, 's' || i % 4 AS s, [i, 2, NULL] AS l, {'x': i} AS o FROM range(20) r(i);
CREATE TABLE none AS SELECT * FROM t LIMIT 0;
CREATE TABLE wide AS SELECT 50000000000000000000000000000000000000::DECIMAL(38, 0) AS x, i FROM range(3) r(i);
CREATE TABLE points AS SELECT i AS p FROM range(-3, 3) r(i)
"""

KINDS = {
    # A condition without columns does not filter the input of a grand total.
    "totals": """
        SELECT g, count(*) FROM t GROUP BY ROLLUP(g) HAVING g > 100;
        SELECT g, count(*) FROM t GROUP BY CUBE(g) HAVING g IS NOT NULL ORDER BY g;
        SELECT g, a, count(*) FROM t GROUP BY GROUPING SETS ((g), (a), ()) HAVING a > 0 ORDER BY ALL;
        SELECT grouping(g) AS x, g, count(*) FROM t GROUP BY CUBE(g, a) HAVING grouping(g) = 0 ORDER BY ALL;
        SELECT g, count(*) FROM t GROUP BY GROUPING SETS ((), (g)) HAVING g > 3 AND count(*) > 1 ORDER BY ALL;
        SELECT * FROM (SELECT 1 AS one, count(*) AS c FROM t) WHERE one = 2;
        SELECT * FROM (SELECT 1 AS one, count(*) AS c FROM t) WHERE one = 1;
        SELECT * FROM (SELECT 'x' AS k, sum(b) AS c FROM t UNION ALL SELECT 'y', max(b) FROM t) WHERE k = 'y';
        SELECT count(*) + sum(b) FROM t HAVING 1 = 2;
        SELECT sum(b) FROM t HAVING NULL;
        SELECT sum(b) AS c FROM t HAVING (SELECT max(p) FROM points) > 100;
        SELECT p, (SELECT sum(b) FROM t HAVING p > 0) FROM points ORDER BY p;
        SELECT * FROM points, (SELECT p AS q, sum(b) AS c FROM t, points GROUP BY ROLLUP(p)) WHERE q = p ORDER BY ALL;
        SELECT g, sum(b) FROM none GROUP BY ROLLUP(g) ORDER BY ALL;
        SELECT g, sum(b) FROM none GROUP BY GROUPING SETS ((), (), (g)) ORDER BY ALL;
    """,
    # An expression without a value cannot be computed ahead.
    "lambdas": """
        SELECT list_transform(l, lambda x: x + 1) FROM t ORDER BY b;
        SELECT b, list_filter(l, lambda x: x > 1) FROM t ORDER BY b;
        SELECT sum(list_sum(list_transform(l, lambda x: 1))) FROM t;
        SELECT g, list_reduce(list(b ORDER BY b), lambda x, y: x + y) FROM t GROUP BY g ORDER BY g;
        SELECT [x + 1 for x in l if x > 2] FROM t ORDER BY b;
        SELECT g, finalize(sum(b) EXPORT_STATE) FROM t GROUP BY g ORDER BY g;
        SELECT sum(b) EXPORT_STATE FROM t;
        SELECT count(*) FROM t WHERE list_contains(list_transform([1, 2], lambda x: x * 2), b);
        SELECT list_transform([1], lambda x: (SELECT count(*) FROM t));
        SELECT map {'a': b} FROM t ORDER BY b;
        SELECT o.x, count(*) FROM t GROUP BY o.x ORDER BY ALL;
        SELECT o, count(*) FROM t GROUP BY o ORDER BY ALL;
    """,
    "distinct": """
        SELECT DISTINCT a FROM t ORDER BY b;
        SELECT DISTINCT a FROM t ORDER BY a, b;
        SELECT DISTINCT a + 1 FROM t ORDER BY b DESC;
        SELECT DISTINCT a, g FROM t ORDER BY g DESC, a;
        SELECT DISTINCT a AS b FROM t ORDER BY t.b;
        SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC;
        SELECT DISTINCT a FROM t GROUP BY a, g ORDER BY max(b);
        SELECT count(*) FROM (SELECT DISTINCT a FROM t ORDER BY b);
        SELECT a FROM t UNION SELECT g FROM t ORDER BY a;
    """,
    "casts that fail": """
        SELECT (b * 20)::TINYINT AS x, count(*) FROM t GROUP BY x ORDER BY x;
        SELECT sum(b)::TINYINT AS x FROM t;
        SELECT (p::HUGEINT - 10)::UTINYINT AS x, count(*) FROM points GROUP BY x;
        SELECT (p * 1000)::DECIMAL(4, 1) AS x, count(*) FROM points GROUP BY x;
        SELECT count(*) FROM points WHERE p::UINTEGER > 1;
        SELECT max((b * 1e18)::BIGINT) FROM t;
        SELECT max((b / 0)::INTEGER) FROM t WHERE b = 0;
        SELECT max(TRY_CAST(b * 20 AS TINYINT)) FROM t;
        SELECT max((DATE '2000-01-01' + (b * 200000000)::INTEGER)) FROM t;
        SELECT max((DATE '2000-01-01' + (b * 100000000)::INTEGER)::TIMESTAMP) FROM t;
        SELECT max(TIMESTAMP '294247-01-10 04:00:00' + to_hours(b)) FROM t;
        SELECT max(b) FROM t WHERE s::INTEGER > 3;
        SELECT count(*) FROM t WHERE (b * 20)::TINYINT IS NULL;
        SELECT CASE WHEN b < 5 THEN (b * 20)::TINYINT END AS x, count(*) FROM t GROUP BY x ORDER BY x;
        SELECT coalesce(b, (b * 200)::TINYINT) AS x, count(*) FROM t GROUP BY x ORDER BY x;
    """,
    "digits": """
        SELECT sum(x) FROM wide;
        SELECT sum(x) + 0 AS y FROM wide;
        SELECT sum(x)::DOUBLE AS y FROM wide;
        SELECT avg(x) FROM wide;
        SELECT sum(x) FROM wide WHERE i < 2;
        SELECT i, sum(x) OVER (ORDER BY i) FROM wide ORDER BY i;
        SELECT sum(x) FROM wide HAVING sum(x) > 0;
        SELECT max(x + x) FROM wide;
        SELECT max(x * 2) FROM wide;
        SELECT sum(-x) FROM wide;
        SELECT sum(x / 10) FROM wide;
    """,
    "subqueries": """
        SELECT p, p IN (SELECT b FROM t) AS x FROM points ORDER BY p;
        SELECT p, p NOT IN (SELECT a FROM t) AS x FROM points ORDER BY p;
        SELECT count(*) FROM points WHERE p = 1 OR p NOT IN (SELECT nullif(a, 1) FROM t);
        SELECT count(*) FROM points WHERE p > ALL (SELECT a - 3 FROM t);
        SELECT count(*) FROM points WHERE p = ANY (SELECT a FROM t);
        SELECT p, EXISTS (SELECT 1 FROM t WHERE a = p) AS x FROM points ORDER BY p;
        SELECT p, (SELECT max(b) FROM t WHERE a > p) AS x FROM points ORDER BY p;
        SELECT p, (SELECT b FROM t WHERE b = p) AS x FROM points ORDER BY p;
        SELECT p FROM points WHERE p = (SELECT b FROM t);
        SELECT a FROM t INTERSECT ALL SELECT g FROM t ORDER BY a;
        SELECT a FROM t EXCEPT ALL SELECT g FROM t ORDER BY a;
        SELECT g FROM t FULL JOIN points ON g = p ORDER BY ALL;
        SELECT p FROM t FULL JOIN (SELECT p, p AS g FROM points) USING (g) ORDER BY ALL;
        SELECT g FROM t NATURAL FULL JOIN (SELECT p AS g FROM points) ORDER BY ALL;
        SELECT g FROM t RIGHT JOIN (SELECT p AS g FROM points) USING (g) ORDER BY ALL;
    """,
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    both = Pair(SETUP)
    yield both
    both.close()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_duckdbs(pair: Pair, kind: str) -> None:
    for sql in KINDS[kind].split(";\n"):
        if sql.strip():
            pair.check(" ".join(sql.split()), ordered="ORDER BY" in sql)


def test_what_is_left_is_counted(pair: Pair) -> None:
    pair.check("SELECT median(b) FROM t")
    pair.check("SELECT max(b), min(g), count(*) FROM t")
    pair.check("SELECT sum(b) FROM t")
    rows = {row[:2]: row[2] for row in pair.ours.execute("FROM warpmill_status()").fetchall()}
    assert rows["left to DuckDB", "the aggregate median(BIGINT)"] == 1
    assert rows["left to DuckDB", "minima, maxima and numbers of rows that DuckDB's statistics give"] == 1
    assert rows["accelerated", None] >= 1
    counters = dict(pair.ours.execute("FROM warpmill_stats()").fetchall())
    for ending, counter in (("accelerated", "accelerated"), ("left to DuckDB", "left_to_duckdb")):
        assert sum(n for (outcome, _), n in rows.items() if outcome == ending) == counters[f"queries_{counter}"]
