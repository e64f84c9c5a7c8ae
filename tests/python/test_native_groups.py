"""Groups, DISTINCT, HAVING and conditions beside plain DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

from beside import assert_both_refuse, pair_with

TABLES = """
    CREATE TABLE t (i INTEGER, j INTEGER, s VARCHAR);
    INSERT INTO t (VALUES (1, NULL, 'a'), (2, 1, 'b'), (1, 0, 'c'), (NULL, 5, NULL), (2, 7, 'a'))
"""

EQUAL = [
    "SELECT DISTINCT ON (i) i, j, s FROM t ORDER BY j DESC",
    "SELECT DISTINCT ON (i) i, j, s FROM t ORDER BY i, j",
    "SELECT DISTINCT ON (i) i, j, s FROM t ORDER BY s, j LIMIT 2",
    "SELECT DISTINCT ON (1) i, j FROM t ORDER BY j",
    "SELECT DISTINCT ON (k) i + 1 AS k, j FROM t ORDER BY j",
    "SELECT i, s, j FROM (SELECT DISTINCT ON (i) i, j, s FROM t) ORDER BY ALL",
    "SELECT DISTINCT ON (i) * FROM t ORDER BY ALL",
    "SELECT DISTINCT ON (i) sum(j) FROM t GROUP BY i ORDER BY i",
    "SELECT i, (SELECT DISTINCT ON (x.i) x.j FROM t x WHERE x.i = t.i ORDER BY x.j) FROM t ORDER BY ALL",
    "SELECT DISTINCT i FROM t ORDER BY i",
    "SELECT DISTINCT i FROM (VALUES (1, 2), (2, 1), (1, 0)) v(i, j) ORDER BY j",
    "SELECT DISTINCT i + 1 FROM (VALUES (1, 2), (2, 1), (1, 0)) v(i, j) ORDER BY i",
    "SELECT 42 HAVING 42 > 20",
    "SELECT 42 HAVING 42 > 80",
    "SELECT 42 FROM t WHERE false HAVING 42 > 20",
    "SELECT sum(j) FROM t HAVING sum(j) > 100",
    "SELECT 1 FROM t GROUP BY ()",
    "SELECT count(*) FROM t WHERE false GROUP BY ()",
    "SELECT i, count(*) FROM t GROUP BY (), i, () ORDER BY ALL",
    "SELECT i, s, count(*) FROM t GROUP BY (i, s) ORDER BY ALL",
    "SELECT i, sum(j) FROM t GROUP BY * ORDER BY ALL",
    "SELECT i, s, count(*) FROM t GROUP BY GROUPING SETS (GROUPING SETS (i, s), GROUPING SETS ((i, s))) ORDER BY ALL",
    "SELECT i, s, count(*) FROM t GROUP BY CUBE (i, s, i) ORDER BY ALL",
    "SELECT i AS a, s AS b, count(*) FROM t GROUP BY ROLLUP (a, b) ORDER BY ALL",
    "SELECT i, s, count(*) FROM t GROUP BY GROUPING SETS ((1, 2), (2)) ORDER BY ALL",
    "SELECT i, i % 2 AS i, sum(j) FROM t GROUP BY i ORDER BY i, 3",
    "SELECT i, sum(j) FILTER (WHERE s = 'a'), count(*) FILTER (j) FROM t GROUP BY i ORDER BY i",
    "SELECT i FROM t WHERE j ORDER BY ALL",
    "SELECT i FROM t WHERE NOT j ORDER BY ALL",
    "SELECT i FROM t WHERE j AND 1 ORDER BY ALL",
    "SELECT i FROM t WHERE 0",
    "SELECT i FROM t WHERE 'true' AND i % 2 ORDER BY ALL",
    "SELECT CASE WHEN j THEN 'y' ELSE 'n' END FROM t ORDER BY i, j",
]

REFUSED = [
    "SELECT DISTINCT ON (2) i FROM t",
    "SELECT DISTINCT ON (i, 'literal') i FROM t",
    "SELECT i FROM t HAVING true",
    "SELECT i AS k, sum(j) FROM t GROUP BY k + 1",
]


pair = pair_with(TABLES)


@pytest.mark.parametrize("sql", EQUAL)
def test_same_as_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    ours, theirs = pair
    assert ours.sql(sql).fetchall() == theirs.sql(sql).fetchall()


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_as_by_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    assert_both_refuse(sql, pair)
