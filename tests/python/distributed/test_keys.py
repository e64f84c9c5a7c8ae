"""Join keys pushed below the aggregations that they join, compared with DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from distributed.support import Workers, in_order, is_distributed, stored

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {
    # A fifth of the keys are NULL; texts and pairs of keys, too.
    "items": """SELECT CASE WHEN hash(i) % 5 = 0 THEN NULL ELSE hash(i, 1) % 9000 END::BIGINT AS k,
        (hash(i, 2) % 4)::INTEGER AS j, 's' || (hash(i, 3) % 8000) AS s, (hash(i, 4) % 100)::BIGINT AS v
        FROM range(60000) r(i)""",
    # Each key three times, NULL ones and ones without items among them.
    "wanted": """SELECT CASE WHEN i % 10 = 0 THEN NULL ELSE i % 40 * 331 END::BIGINT AS k, (i % 4)::INTEGER AS j,
        's' || (i % 40 * 7) AS s, i::BIGINT AS x FROM range(120) r(i)""",
    "none": "SELECT 1::BIGINT AS k, 1::INTEGER AS j, 's' AS s, 1::BIGINT AS x WHERE false",
    "nulls": "SELECT NULL::BIGINT AS k, 1::INTEGER AS j, NULL::VARCHAR AS s, i::BIGINT AS x FROM range(3) r(i)",
}
SIDES = ["wanted", "none", "nulls"]

#: Queries over `items` and a side `w`, and whether the groups may be restricted.
QUERIES = {
    "SELECT w.x, a.n, a.m FROM w JOIN (SELECT k, sum(v) n, avg(v) m FROM items GROUP BY k) a ON w.k = a.k": True,
    "SELECT w.x, a.n FROM w JOIN (SELECT k, j, sum(v) n FROM items GROUP BY k, j) a ON w.k = a.k AND w.j = a.j": True,
    "SELECT w.x, a.n FROM w JOIN (SELECT k, j, count(*) n FROM items GROUP BY k, j) a ON w.k = a.k": True,
    "SELECT w.x, a.n FROM w JOIN (SELECT s, max(v) n FROM items GROUP BY s) a ON w.s = a.s": True,
    "SELECT w.x, a.n FROM w LEFT JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON w.k = a.k": True,
    "SELECT w.x FROM w WHERE w.x > (SELECT avg(v) FROM items WHERE items.k = w.k)": True,
    "SELECT w.x FROM w WHERE EXISTS (SELECT k FROM items WHERE k = w.k GROUP BY k HAVING sum(v) > 250)": True,
    "SELECT w.x, a.n FROM w FULL JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON w.k = a.k": False,
    "SELECT a.k, a.n, w.x FROM (SELECT k, sum(v) n FROM items GROUP BY k) a LEFT JOIN w ON w.k = a.k": False,
    "SELECT w.x, a.n FROM w JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON w.k IS NOT DISTINCT FROM a.k": False,
    "SELECT w.x, a.k FROM w JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON w.x = a.n": False,
    "SELECT w.x, a.n FROM w JOIN (SELECT k, j, count(*) n FROM items GROUP BY ROLLUP (k, j)) a ON w.k = a.k": False,
    "SELECT w.x, a.n FROM w JOIN (SELECT k, sum(v) n FROM items GROUP BY k ORDER BY k LIMIT 500) a ON w.k = a.k": False,
    # The other side may be different the second time.
    """SELECT b.k, a.n FROM (SELECT k, x FROM w ORDER BY x LIMIT 20) b
        JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON b.k = a.k""": False,
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("keys"), TABLES, 4096)


def scans(con: warpmill.Connection, sql: str, table: str) -> int:
    """Scans of a table in a query's plan: in tasks, and in programs of the session."""
    text = con.explain(sql).split("== stages")[0].split("== runs on")[0]
    return text.count(f"table={table}") + text.count(f"scan {table} ")


@pytest.mark.parametrize("side", SIDES)
def test_answers_are_duckdbs(database: Path, two: Workers, side: str) -> None:
    wrong = []
    with two.connect(database) as con, duckdb.connect() as other:
        for name in TABLES:
            other.execute(f"CREATE VIEW {name} AS SELECT * FROM '{database.parent}/{name}.parquet'")
        for query in QUERIES:
            sql = query.replace("FROM w", f"FROM {side} w").replace("JOIN w", f"JOIN {side} w")
            assert is_distributed(con, sql), sql
            expected = in_order(other.execute(sql).fetchall())
            # The second time, session and workers have kept its plans.
            for _ in range(2):
                found = in_order(con.sql(sql).fetchall())
                if found != expected:
                    wrong.append((sql, found[:3], expected[:3]))
    assert wrong == []


def test_the_keys_are_read_where_groups_need_them(database: Path, two: Workers) -> None:
    with two.connect(database) as con:
        for query, restricted in QUERIES.items():
            sql = query.replace("FROM w", "FROM wanted w").replace("JOIN w", "JOIN wanted w")
            assert scans(con, sql, "wanted") == (2 if restricted else 1), con.explain(sql)


def test_many_keys_are_not_read_twice(database: Path, two: Workers) -> None:
    sql = "SELECT sum(b.v * a.n) FROM items b JOIN (SELECT k, sum(v) n FROM items GROUP BY k) a ON b.k = a.k"
    with two.connect(database) as con:
        assert scans(con, sql, "items") == 2, con.explain(sql)
