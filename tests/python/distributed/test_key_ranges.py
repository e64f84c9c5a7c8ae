"""Tables that lie in the order of a key, spread by ranges of it: compared with DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from distributed.support import Workers, in_order, is_distributed, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = {
    # Up to seven rows of a key, so that row segments begin within a key; key 500 alone fills two row segments.
    "items": """SELECT k, (hash(k, j) % 100)::BIGINT AS v, 's' || (hash(k, j) % 9) AS s
        FROM (SELECT i::BIGINT AS k, unnest(range(CASE WHEN i = 500 THEN 3000 ELSE (hash(i) % 8)::INTEGER END)) AS j
              FROM range(30000) r(i)) ORDER BY k""",
    # Each key once, in its own row segments; some are missing, some lie outside of the items'.
    "heads": """SELECT i::BIGINT AS k, (hash(i) % 7)::INTEGER AS j, ['a', NULL][1 + (hash(i) % 2)::INTEGER] AS name
        FROM range(-9000, 45000) r(i) WHERE hash(i) % 3 > 0 ORDER BY i""",
    "extremes": """SELECT CASE WHEN i < 9000 THEN -9223372036854775808 + i
        WHEN i < 18000 THEN i WHEN i < 27000 THEN 9223372036854775807 - 27000 + i ELSE 9223372036854775807 END::BIGINT
        AS k, i AS v FROM range(30000) r(i) ORDER BY k""",
    "nullable": "SELECT CASE WHEN i % 50 = 0 THEN NULL ELSE i END::BIGINT AS k, i AS v FROM range(40000) r(i)",
    "mixed": "SELECT (hash(i) % 30000)::BIGINT AS k, 's' || (hash(i, 1) % 9) AS s, i AS v FROM range(70000) r(i)",
    "days": """SELECT DATE '2000-01-01' + (i // 3)::INTEGER AS day, (i // 3 + 0.25)::DECIMAL(12, 2) AS price, i AS v
        FROM range(75000) r(i)""",
    "lists": "SELECT i // 2 AS k, [i, i + 1] AS l, i AS v FROM range(60000) r(i)",
    "times": """SELECT TIME '00:00:00' + to_seconds(i // 7) AS t, TIMESTAMP '2000-01-01' + to_seconds(i // 7) AS ts,
        DATE '1999-01-01' + (i // 7)::INTEGER AS day, (i // 7)::DECIMAL(6, 0) AS d, (i // 7)::UBIGINT AS u,
        (i // 2000)::TINYINT AS tiny, i AS v, [i, i + 1] AS l FROM range(70000) r(i)""",
    "few": "SELECT i * 40 AS k, 'n' || i AS n FROM range(100) r(i)",
}

#: Queries that send no rows by key, as rows with equal keys are in one task.
SPREAD = [
    "SELECT k, count(*), sum(v), min(s), count(DISTINCT s) FROM items GROUP BY k",
    "SELECT k, count(*) AS n FROM items GROUP BY k HAVING count(*) > 6",
    "SELECT DISTINCT k, s FROM items",
    "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM items GROUP BY k) GROUP BY n",
    "SELECT heads.j, count(*), sum(v) FROM items JOIN heads USING (k) GROUP BY heads.j",
    "SELECT items.k, heads.name, sum(v) FROM items JOIN heads USING (k) GROUP BY items.k, heads.name",
    "SELECT count(*), count(heads.k), sum(v) FROM items LEFT JOIN heads ON items.k = heads.k",
    "SELECT count(*), count(items.k), sum(j) FROM items RIGHT JOIN heads ON items.k = heads.k",
    "SELECT count(*), count(items.k), count(heads.k), sum(j), sum(v) FROM items FULL JOIN heads ON items.k = heads.k",
    "SELECT count(*), sum(v) FROM items WHERE EXISTS (SELECT 1 FROM heads WHERE heads.k = items.k AND heads.j < v)",
    "SELECT count(*), sum(v) FROM items WHERE NOT EXISTS (SELECT 1 FROM heads WHERE heads.k = items.k AND j < v)",
    "SELECT count(*), sum(j) FROM heads WHERE k IN (SELECT k FROM items WHERE v > 90)",
    """SELECT heads.k, heads.j, n FROM heads JOIN (SELECT k, sum(v) AS n FROM items GROUP BY k) USING (k)
        WHERE n > 150""",
    """SELECT a.k, count(*) FROM items a JOIN items b ON a.k = b.k AND a.v < b.v LEFT JOIN heads h ON a.k = h.k
        WHERE a.k <> 500 GROUP BY a.k""",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, s) AS r FROM items WHERE k < 9000",
    "SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY k, s ORDER BY v) AS r FROM items)",
    "SELECT k, count(*), sum(v) FROM extremes GROUP BY k",
    "SELECT count(*), sum(a.v + b.v) FROM extremes a JOIN extremes b ON a.k = b.k AND a.k < 18000",
    "SELECT day, count(*), sum(v) FROM days GROUP BY day",
    "SELECT price, count(*) FROM days GROUP BY price",
    # Columns that programs do not have: DataFusion reads the ranges.
    "SELECT k, count(*), first(l) FROM lists WHERE v % 2 = 0 GROUP BY k",
    "SELECT t, count(*), first(l) IS NULL FROM times GROUP BY t",
    "SELECT ts, count(*), first(l) IS NULL FROM times GROUP BY ts",
    "SELECT day, count(*), first(l) IS NULL FROM times GROUP BY day",
    "SELECT d, count(*), first(l) IS NULL FROM times GROUP BY d",
    "SELECT tiny, count(*), first(l) IS NULL FROM times GROUP BY tiny",
]

#: Queries whose rows have to travel, or to be put together.
SENT = [
    "SELECT u, count(*), first(l) IS NULL FROM times GROUP BY u",
    "SELECT k, count(*), sum(v) FROM nullable GROUP BY k",
    "SELECT count(*) FROM items JOIN nullable ON items.k = nullable.k",
    "SELECT k, count(*), sum(v) FROM mixed GROUP BY k",
    "SELECT count(*), sum(items.v + mixed.v) FROM items JOIN mixed USING (k)",
    "SELECT mixed.k, count(*) FROM mixed LEFT JOIN items ON items.k = mixed.k GROUP BY mixed.k",
    "SELECT heads.k, count(*) FROM items RIGHT JOIN heads ON items.k = heads.k AND v > 50 GROUP BY heads.k",
    "SELECT items.k, count(*) FROM items RIGHT JOIN heads ON items.k = heads.k GROUP BY items.k",
    "SELECT few.n, count(*) FROM few LEFT JOIN items ON few.k = items.k GROUP BY few.n",
    "SELECT count(*) FROM few WHERE NOT EXISTS (SELECT 1 FROM mixed WHERE mixed.k = few.k)",
    "SELECT count(*) FROM few WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.k = few.k AND v > 30)",
    "SELECT s, count(*), count(DISTINCT k) FROM items GROUP BY s",
    "SELECT items.k + 1 AS x, count(*) FROM items JOIN heads USING (k) GROUP BY x",
    "SELECT k, count(*) FROM (SELECT k FROM items UNION ALL SELECT k FROM heads) GROUP BY k",
    "SELECT k, s, grouping(k), count(*) FROM items WHERE k < 3000 GROUP BY ROLLUP (k, s)",
    "SELECT k, count(*) FROM (SELECT k FROM items ORDER BY k LIMIT 5000) GROUP BY k",
    "SELECT count(*) FROM items WHERE k NOT IN (SELECT k FROM heads)",
    "SELECT count(*) FROM items WHERE k NOT IN (SELECT k FROM nullable)",
    "SELECT count(*) FROM heads a JOIN heads b ON a.k = b.j",
    # Rows that were shuffled by two columns, in one order or the other.
    """SELECT count(*), sum(n * m) FROM (SELECT k, s, count(*) AS n FROM mixed GROUP BY k, s) x
        JOIN (SELECT s, k, sum(v) AS m FROM mixed GROUP BY s, k) y ON x.s = y.s AND x.k = y.k""",
    """SELECT x.k, count(*), sum(x.v) FROM mixed x JOIN mixed y ON x.k = y.k AND x.s = y.s AND x.v < y.v
        JOIN mixed z ON z.s = x.s AND z.k = x.k GROUP BY x.k, z.s""",
    "SELECT k, s, max(n) FROM (SELECT k, s, v % 2 AS p, count(*) AS n FROM mixed GROUP BY ALL) GROUP BY k, s",
    """SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY s, k ORDER BY n) AS r
        FROM (SELECT k, s, v % 3 AS p, count(*) AS n FROM mixed GROUP BY ALL))""",
    """SELECT y.k, y.s, count(x.v) FROM mixed x RIGHT JOIN (SELECT k, s FROM mixed WHERE v < 20000) y
        ON x.k = y.k AND x.s = y.s AND x.v > 60000 GROUP BY y.k, y.s""",
    """SELECT x.k, count(y.v) FROM (SELECT k, count(*) AS n FROM mixed GROUP BY k) x
        FULL JOIN (SELECT k, max(v) AS v FROM mixed WHERE v % 5 = 0 GROUP BY k) y ON x.k = y.k GROUP BY x.k""",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("ranges"), TABLES, 1024)


@pytest.fixture
def other(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as other:
        for name in TABLES:
            other.execute(f"CREATE TABLE {name} AS SELECT * FROM '{database.parent}/{name}.parquet'")
        yield other


def differences(con: warpmill.Connection, other: duckdb.DuckDBPyConnection) -> list[object]:
    """Queries with other rows than DuckDB's; the second time, session and workers have kept the plans."""
    wrong: list[object] = []
    for sql in SPREAD + SENT:
        assert is_distributed(con, sql), sql
        expected = in_order(other.execute(sql).fetchall())
        for _ in range(2):
            found = in_order(con.sql(sql).fetchall())
            if found != expected:
                wrong.append((sql, found[:3], expected[:3]))
    return wrong


@pytest.mark.parametrize("count", ["two", "four"])
def test_answers_are_duckdbs(
    database: Path, other: duckdb.DuckDBPyConnection, count: str, request: pytest.FixtureRequest
) -> None:
    workers: Workers = request.getfixturevalue(count)
    with workers.connect(database) as con:
        assert differences(con, other) == []


def test_answers_are_duckdbs_where_rows_are_deleted(
    database: Path, other: duckdb.DuckDBPyConnection, two: Workers, tmp_path: Path
) -> None:
    """Bounds of row segments are those of all rows that were ever in them."""
    with two.connect(tmp_path / "db") as con:
        con.execute("SET warpmill.segment_rows = 1024")
        for name in TABLES:
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{database.parent}/{name}.parquet'")
        for sql in ("DELETE FROM items WHERE v % 3 = 0", "DELETE FROM heads WHERE k BETWEEN 700 AND 2900"):
            con.execute(sql)
            other.execute(sql)
        assert differences(con, other) == []


def test_equal_keys_are_in_one_task(database: Path, two: Workers) -> None:
    with two.connect(database) as con:
        for sql in SPREAD:
            stages = con.explain(sql).split("== stages ==")[1]
            assert " by " in stages.split("gathered")[1], con.explain(sql)
            assert "sent to all tasks" not in stages, con.explain(sql)
            # Groups of groups may be shuffled by their own key.
            assert "shuffled" not in stages or "GROUP BY n" in sql, con.explain(sql)
        for sql in SENT[:6]:
            assert "shuffled" in con.explain(sql) or "sent to all" in con.explain(sql), con.explain(sql)


def test_few_keys_are_found_before_rows_are_sent(database: Path, two: Workers) -> None:
    """Rows without a partner do not travel."""
    sql = "SELECT count(*) FROM few WHERE NOT EXISTS (SELECT 1 FROM mixed WHERE mixed.k = few.k)"
    with two.connect(database) as con:
        assert con.explain(sql).split("== stages")[0].count("table=few") == 2, con.explain(sql)
