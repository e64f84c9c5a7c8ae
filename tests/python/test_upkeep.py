"""Statements of DuckDB's that look after a database or load extensions, and small forms of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "sql",
    ["VACUUM", "VACUUM ANALYZE", "vacuum t;", "ANALYZE", "ANALYZE t", "VACUUM t(i)", "LOAD json", "INSTALL 'httpfs'"],
)
def test_what_there_is_nothing_to_do_for_says_so(sql: str) -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER)")
        with pytest.warns(warpmill.Notice):
            assert con.execute(sql).fetchall() == []


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("VACUUM missing", warpmill.CatalogError),
        ("ANALYZE missing", warpmill.CatalogError),
        ("LOAD spatial", warpmill.NotSupportedError),
        ("TABLE missing", warpmill.CatalogError),
    ],
)
def test_what_is_missing_is_named(sql: str, error: type[Exception]) -> None:
    with warpmill.connect() as con, pytest.raises(error, match=sql.split()[1]):
        con.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "TABLE t",
        "SELECT i FROM t ORDER BY i LIMIT (SELECT 2)",
        "SELECT i FROM t ORDER BY i LIMIT (SELECT 1 + 1) OFFSET (SELECT '1'::INTEGER)",
        "SELECT i FROM t ORDER BY i LIMIT (SELECT NULL)",
        "SELECT i FROM t ORDER BY i LIMIT (SELECT max(i) FROM t)",
        "SELECT * FROM range(1000000000000) LIMIT (SELECT 3)",
    ],
)
def test_the_same_rows(sql: str) -> None:
    with warpmill.connect() as con, duckdb.connect() as peer:
        for side in (con, peer):
            side.execute("CREATE TABLE t AS SELECT i FROM range(5) r(i)")
        assert con.sql(sql).fetchall() == peer.sql(sql).fetchall()


@pytest.mark.parametrize(
    "sql", ["SET profiling_renderer_settings = MAP {'a': 'b'}", "SET SESSION logging_level='debug'"]
)
def test_settings_without_effect_take_any_value(sql: str) -> None:
    with warpmill.connect() as con, pytest.warns(warpmill.Notice, match="effect"):
        con.execute(sql)


def test_row_groups_of_files(tmp_path: Path) -> None:
    place = tmp_path / "t.parquet"
    with warpmill.connect() as con, duckdb.connect() as peer:
        con.execute(f"COPY (SELECT i FROM range(5000) r(i)) TO '{place}' (FORMAT parquet, ROW_GROUP_SIZE 1000)")
        groups = peer.sql(
            f"SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata('{place}') ORDER BY 1"
        )
        assert groups.fetchall() == [(group, 1000) for group in range(5)]
