"""Rows of INSERT beside DuckDB: each of VALUES is one of its column by itself, those of queries have own types."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill
from beside import normal

DECIMALS = "a DECIMAL(9, 2)"

#: Columns, statements, and parameters.
CASES: list[tuple[str, str, list[Any]]] = [
    ("a BIGINT", "INSERT INTO t VALUES (9007199254740993), (1e0)", []),
    ("a BIGINT", "INSERT INTO t VALUES (9007199254740993), (-1.5), (NULL), ('7')", []),
    ("a BIGINT", "INSERT INTO t VALUES (9007199254740993), (1e0 + 1)", []),
    ("a BIGINT DEFAULT 5", "INSERT INTO t VALUES (9007199254740993), (DEFAULT), (1e0)", []),
    (DECIMALS, "INSERT INTO t VALUES (1.015), (1e3)", []),
    (DECIMALS, "INSERT INTO t (a) VALUES (1.015), (NULL), (1e3)", []),
    (DECIMALS, "INSERT INTO t VALUES (1e3), (9999999.99), ('1.015')", []),
    (DECIMALS, "INSERT INTO t VALUES (1.015), (1e3) RETURNING a", []),
    (f"id INTEGER PRIMARY KEY, {DECIMALS}", "INSERT INTO t VALUES (1, 1.015), (2, 1e3) ON CONFLICT DO NOTHING", []),
    (f"id INTEGER PRIMARY KEY, {DECIMALS}", "INSERT OR REPLACE INTO t VALUES (1, 1.015), (2, 1e3)", []),
    ("id INTEGER PRIMARY KEY, s VARCHAR", "INSERT OR IGNORE INTO t VALUES (1, 1), (2, 1.50)", []),
    ("a INTEGER", "INSERT INTO t VALUES (?), (?), (?)", [True, 7, "5"]),
    ("a VARCHAR, b BIGINT", "INSERT INTO t VALUES (?, ?), (?, ?)", ["x", 2**60 + 1, "y", 2.5]),
    ("a BOOLEAN", "INSERT INTO t VALUES (1.5)", []),
    ("a BOOLEAN", "INSERT INTO t VALUES (1.5), (0), (NULL), ('f')", []),
    ("a VARCHAR", "INSERT INTO t VALUES (1), (1.50), (1e5), (true), (DATE '2020-01-01')", []),
    # VALUES below the rows are not rows of the table.
    ("a VARCHAR", "INSERT INTO t SELECT * FROM (VALUES (1), (1.50)) v(x)", []),
    ("a VARCHAR", "INSERT INTO t SELECT x FROM (VALUES (10), (9)) v(x) ORDER BY x LIMIT 1", []),
    ("a INTEGER", "INSERT INTO t SELECT length(x) FROM (VALUES ('abc')) v(x)", []),
    ("a INTEGER", "INSERT INTO t WITH v(x) AS (VALUES ('abc'), ('d')) SELECT length(x) FROM v", []),
    ("a INTEGER", "INSERT INTO t SELECT x * 10 FROM (VALUES (1.5)) v(x)", []),
    ("a INTEGER, b VARCHAR", "INSERT INTO t (b, a) SELECT x, y FROM (VALUES (1.50, '7')) v(x, y)", []),
    ("a INTEGER DEFAULT 3, b VARCHAR", "INSERT INTO t (b) SELECT x FROM (VALUES (1.50)) v(x)", []),
    ("a INTEGER", "INSERT INTO t SELECT x FROM (VALUES (1)) v(x) UNION ALL SELECT 2.5", []),
    ("a INTEGER", "INSERT INTO t SELECT ? + x FROM (VALUES (1)) v(x)", [41]),
]


@pytest.mark.parametrize(("columns", "sql", "params"), CASES)
def test_values_are_those_of_their_columns(columns: str, sql: str, params: list[Any]) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        rows = []
        for con in (ours, theirs):
            con.execute(f"CREATE TABLE t ({columns})")
            # The third is not planned where it can be learned.
            for _ in range(3 if "PRIMARY KEY" not in columns else 1):
                con.execute(sql, params) if params else con.execute(sql)
            rows.append(sorted(normal(con.execute("SELECT * FROM t").fetchall()), key=repr))
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t SELECT x, x FROM (VALUES (1)) v(x)",
        "INSERT INTO t SELECT DATE '2020-01-01'",
        "INSERT INTO t SELECT x FROM (VALUES ('abc')) v(x)",
        "INSERT INTO t VALUES (1), ('abc'), (1.5)",
    ],
)
def test_rows_that_do_not_fit_are_errors(sql: str) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for con, error in ((ours, warpmill.Error), (theirs, duckdb.Error)):
            con.execute("CREATE TABLE t (a INTEGER)")
            with pytest.raises(error):
                con.execute(sql)
            assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
