"""Columns that are kept one by one are one table, whatever was deleted and wherever rows lie."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# More than one row segment, and rows that reveal mixed-up columns.
ROWS = 1_100_000
TABLE = f"""
CREATE TABLE t AS SELECT
    i AS a,
    (i * 7919 % 1000003)::INTEGER AS b,
    (i % 97)::DECIMAL(9, 2) AS c,
    CASE WHEN i % 11 <> 0 THEN (DATE '1992-01-01' + (i % 2500)::INTEGER) END AS d,
    CASE WHEN i % 5 <> 0 THEN 'value ' || i % 300 END AS s,
    'unique text number ' || i AS u
FROM range({ROWS}) r(i)"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("columns") / "columns.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(TABLE)
    return path


@pytest.fixture
def con(database: Path, tmp_path: Path) -> Iterator[Any]:
    shutil.copy(database, tmp_path / "columns.duckdb")
    connection = warpmill.duckdb.connect(tmp_path / "columns.duckdb")
    connection.execute("SET warpmill_fallback = 'error'")
    connection.execute("SET threads = 4")
    connection.execute("CALL warpmill_clear_cache()")
    yield connection
    connection.close()


def compare(con: Any, sql: str) -> None:
    con.execute("SET warpmill_enabled = false")
    expected = con.execute(sql).fetchall()
    con.execute("SET warpmill_enabled = true")
    assert con.execute(sql).fetchall() == expected
    assert con.execute("SELECT accelerated FROM warpmill_last()").fetchall() == [(True,)]


def kept(con: Any) -> tuple[list[int], int]:
    [(text,)] = con.execute("FROM warpmill_cache()").fetchall()
    [table] = json.loads(text)["tables"]
    return table["columns"], table["rows"]


def scanned(con: Any) -> int:
    count: int = dict(con.execute("FROM warpmill_stats()").fetchall())["inputs_scanned"]
    return count


# Pairs of columns by row: wrong in nearly every row if one of them came in another order.
PAIRS = "SELECT sum(a * b), count(*), sum(c * b), min(a + b) FROM t"
TEXTS = "SELECT s, count(*), sum(a), min(u), max(d), count(d), sum(length(u)) FROM t GROUP BY s ORDER BY s NULLS FIRST"


def test_each_column_is_read_once(con: Any) -> None:
    compare(con, "SELECT sum(a) FROM t")
    assert kept(con) == ([0], ROWS)
    compare(con, "SELECT sum(b) FROM t")
    assert kept(con) == ([0, 1], ROWS)
    before = scanned(con)
    compare(con, "SELECT sum(a * b), min(a - b) FROM t")
    assert scanned(con) == before, "both were known"
    compare(con, PAIRS)
    assert kept(con) == ([0, 1, 2], ROWS)
    compare(con, TEXTS)
    assert kept(con) == ([0, 1, 2, 3, 4, 5], ROWS)


def test_rows_that_were_deleted(con: Any) -> None:
    # Row groups without any row left, others with some, and rows that came later.
    con.execute("DELETE FROM t WHERE a BETWEEN 200000 AND 500000 OR a % 1000 < 13")
    con.execute("UPDATE t SET b = b + 1 WHERE a % 3 = 0")
    con.execute(f"INSERT INTO t SELECT a + {ROWS}, b, c, d, s, u FROM t WHERE a % 2 = 0")
    compare(con, "SELECT sum(a), count(*) FROM t")
    # Row groups are put together now, in the same order.
    con.execute("CHECKPOINT")
    compare(con, PAIRS)
    con.execute("CHECKPOINT")
    compare(con, TEXTS)


def test_rows_of_a_transaction(con: Any) -> None:
    compare(con, "SELECT sum(a) FROM t")
    con.execute("BEGIN")
    con.execute("INSERT INTO t SELECT -a, b, c, d, s, u FROM t WHERE a < 300000")
    con.execute("DELETE FROM t WHERE a % 7 = 0")
    compare(con, PAIRS)
    con.execute("ROLLBACK")
    compare(con, PAIRS)


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_any_number_of_threads(con: Any, threads: int) -> None:
    con.execute(f"SET threads = {threads}")
    for sql in ("SELECT max(c), count(*) FROM t", PAIRS, TEXTS):
        compare(con, sql)


def test_a_prepared_statement_after_its_columns_were_forgotten(con: Any) -> None:
    compare(con, "SELECT sum(a) FROM t")
    expected = con.execute("SELECT sum(a * b) FROM t WHERE c > 3").fetchall()
    con.execute("CALL warpmill_clear_cache()")
    compare(con, "SELECT sum(a) FROM t")
    con.execute("PREPARE q AS SELECT sum(a * b) FROM t WHERE c > 3")
    assert con.execute("EXECUTE q").fetchall() == expected
    con.execute("CALL warpmill_clear_cache()")
    assert con.execute("EXECUTE q").fetchall() == expected
    con.execute("CALL warpmill_clear_cache()")
    compare(con, "SELECT sum(b) FROM t")
    assert con.execute("EXECUTE q").fetchall() == expected


def test_rows_without_columns(con: Any) -> None:
    compare(con, "SELECT count(*) FROM t")
    before = scanned(con)
    compare(con, "SELECT count(*) + 1 FROM t")
    assert scanned(con) == before
    compare(con, "SELECT count(*), sum(a) FROM t")
    con.execute("CREATE TABLE empty AS SELECT * FROM t WHERE false")
    for sql in (
        "SELECT count(*) FROM empty",
        "SELECT count(*), sum(a), max(s) FROM empty",
        "SELECT s, max(u) FROM empty GROUP BY s",
    ):
        compare(con, sql)
    con.execute("CREATE TABLE nothing AS SELECT NULL::INTEGER AS a, NULL::VARCHAR AS s FROM range(3000)")
    compare(con, "SELECT count(*), sum(a), max(s), count(s) FROM nothing")
    con.execute("CREATE TABLE one AS SELECT 1 AS a, 'x' AS s")
    compare(con, "SELECT s, sum(a) FROM one GROUP BY s")
