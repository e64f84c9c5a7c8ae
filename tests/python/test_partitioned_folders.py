"""Folders whose names are values of columns, written and read as by DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (
    "SELECT * FROM (VALUES"
    " (1, NULL::INT, DATE '2020-01-01', true, 'a b', 1.5::DOUBLE, TIMESTAMP '2020-01-01 10:00:00'),"
    " (2, 5, NULL, NULL, NULL, NULL, NULL),"
    " (3, 7, DATE '2021-01-01', false, '', 'nan', TIMESTAMP '2020-01-01 10:00:00.5'))"
    " t(x, i, d, b, s, f, ts)"
)
KEYS = "FORMAT parquet, PARTITION_BY (i, d, b, s, f, ts)"


def described(engine: Any, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """Names and types of columns, and the rows in order."""
    names = [(row[0], row[1]) for row in engine.sql(f"DESCRIBE {sql}").fetchall()]
    return names, sorted(engine.sql(sql).fetchall(), key=repr)


@pytest.fixture
def local() -> Any:
    with warpmill.connect(device="cpu") as con:
        yield con


def made(folder: Path, files: dict[str, str]) -> None:
    for name, select in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def test_null_has_a_folder(local: warpmill.Connection, tmp_path: Path) -> None:
    local.sql(f"COPY ({ROWS}) TO '{tmp_path}/ours' ({KEYS})")
    duckdb.sql(f"COPY ({ROWS}) TO '{tmp_path}/theirs' ({KEYS})")
    expected = described(duckdb, f"SELECT * FROM '{tmp_path}/theirs/**/*.parquet'")
    for engine in (local, duckdb):
        for folder in ("ours", "theirs"):
            found = described(engine, f"SELECT * REPLACE (ts::VARCHAR AS ts) FROM '{tmp_path}/{folder}/**/*.parquet'")
            assert found[1] == expected[1], (engine, folder)
    assert described(local, f"SELECT * FROM '{tmp_path}/theirs/**/*.parquet'") == expected
    assert described(local, f"SELECT * FROM '{tmp_path}/theirs'") == expected
    assert local.sql(f"SELECT x FROM '{tmp_path}/ours' WHERE i IS NULL").fetchall() == [(1,)]
    assert local.sql(f"SELECT x FROM '{tmp_path}/ours' WHERE d >= DATE '2020-06-01'").fetchall() == [(3,)]


def test_a_folder_with_files_is_not_written_to(local: warpmill.Connection, tmp_path: Path) -> None:
    copy = f"COPY (SELECT 1 AS x, 2 AS y) TO '{tmp_path}/out' (FORMAT parquet, PARTITION_BY (y))"
    (tmp_path / "out").mkdir()
    local.sql(copy)
    with pytest.raises(warpmill.IOError, match="the folder is not empty"):
        local.sql(copy)
    assert local.sql(f"SELECT * FROM '{tmp_path}/out'").fetchall() == [(1, 2)]


LAYOUTS: dict[str, dict[str, str]] = {
    "whole numbers": {"k=1/a.parquet": "SELECT 1 x", "k=-2/a.parquet": "SELECT 2 x"},
    "numbers with zeros": {"k=1/a.parquet": "SELECT 1 x", "k=01/a.parquet": "SELECT 2 x"},
    "dates": {"k=2020-01-01/a.parquet": "SELECT 1 x", "k=__HIVE_DEFAULT_PARTITION__/a.parquet": "SELECT 2 x"},
    "moments": {"k=2020-01-01 10:00:00/a.parquet": "SELECT 1 x"},
    "mixed": {"k=abc/a.parquet": "SELECT 1 x", "k=2020-01-01/a.parquet": "SELECT 2 x"},
    "NULL only": {"k=__HIVE_DEFAULT_PARTITION__/a.parquet": "SELECT 1 x"},
    "codes": {"k=a%20b%2Fc/a.parquet": "SELECT 1 x"},
    "also in the file": {"k=1/a.parquet": "SELECT 1 x, 9 k, 5 z", "k=2/a.parquet": "SELECT 2 x, 8 k, 5 z"},
    "of several": {"k=1/j=b/a.parquet": "SELECT 1 x", "k=2/j=a/b.parquet": "SELECT 2 x"},
    "not in all": {"k=1/a.parquet": "SELECT 1 x", "k=2/j=1/a.parquet": "SELECT 2 x"},
    "others": {"k=1/a.parquet": "SELECT 1 x", "j=2/a.parquet": "SELECT 2 x"},
    "folders below": {"k=1/z/a.parquet": "SELECT 1 x", "k=2/z/a.parquet": "SELECT 2 x"},
    "in another order": {"k=1/j=b/a.parquet": "SELECT 1 x", "j=a/k=2/b.parquet": "SELECT 2 x"},
    "without any": {"k=1/a.parquet": "SELECT 1 x", "b.parquet": "SELECT 2 x"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_of_folders(local: warpmill.Connection, tmp_path: Path, layout: str) -> None:
    made(tmp_path, LAYOUTS[layout])
    every, below = f"'{tmp_path}/**/*.parquet'", f"'{tmp_path}/*/*.parquet'"
    for source in (every, f"read_parquet({every})", below):
        sql = f"SELECT * FROM {source}"
        try:
            expected = described(duckdb, sql)
        except duckdb.IOException:
            continue
        assert described(local, sql) == expected, source
    off = f"SELECT * FROM read_parquet('{tmp_path}/**/*.parquet', hive_partitioning = false)"
    assert described(local, off) == described(duckdb, off)


def test_a_part_of_the_folders(local: warpmill.Connection, tmp_path: Path) -> None:
    made(tmp_path, {f"y={y}/m={m}/{n}.parquet": f"SELECT {y * m} x" for y in (1, 2) for m in (1, 2, 3) for n in "ab"})
    for source in ("y=2/*/*.parquet", "*/m=1/*.parquet", "*/*/a.parquet", "y=1/m=3/b.parquet", "y=[12]/m=*/b*.parquet"):
        sql = f"SELECT * FROM '{tmp_path}/{source}'"
        assert described(local, sql) == described(duckdb, sql), source
        count = f"SELECT count(*), sum(m) FROM '{tmp_path}/{source}' WHERE y = 2 AND m < 3"
        assert local.sql(count).fetchall() == duckdb.execute(count).fetchall(), source


def test_rows_of_a_file_in_a_folder(local: warpmill.Connection, tmp_path: Path) -> None:
    """COPY ... FROM takes the columns of the file alone."""
    made(tmp_path, {"k=1/a.parquet": "SELECT 5 x"})
    local.sql("CREATE TABLE t (x INTEGER)")
    local.sql(f"COPY t FROM '{tmp_path}/k=1/a.parquet'")
    assert local.sql("FROM t").fetchall() == [(5,)]
    assert local.sql(f"FROM '{tmp_path}/k=1/a.parquet'").fetchall() == [(5, 1)]


def test_folders_that_are_added(local: warpmill.Connection, tmp_path: Path) -> None:
    made(tmp_path, {"k=1/a.parquet": "SELECT 1 x", "k=1/b.parquet": "SELECT 1 x"})
    queries = [f"SELECT x, k FROM '{tmp_path}/{files}'" for files in ("**/*.parquet", "*/a.parquet", "")]
    for _ in range(2):
        assert [len(local.sql(sql).fetchall()) for sql in queries] == [2, 1, 2]
    made(tmp_path, {"k=two/a.parquet": "SELECT 2 x"})
    for sql, rows in zip(queries, (3, 2, 3), strict=True):
        found = local.sql(sql).fetchall()
        assert len(found) == rows, sql
        assert (2, "two") in found, sql
