"""Bounds in the footers of Parquet files: NaN is left out of them, or they are left out with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (
    "SELECT i AS id, CASE WHEN i = 4321 THEN 'nan'::DOUBLE WHEN i = 1000 THEN NULL ELSE i / 10.0 END::DOUBLE AS x"
    " FROM range(5000) t(i)"
)

QUERIES = (
    "SELECT id FROM f WHERE x > 1000",
    "SELECT id FROM f WHERE x >= 409.6 AND id < 4100 OR x > 499.9",
    "SELECT id FROM f WHERE x = 'nan'",
    "SELECT id FROM f WHERE NOT x <= 1000",
    "SELECT id FROM f WHERE x IN ('nan', 1.5)",
    "SELECT id FROM f WHERE x <> 1.5 AND id IN (15, 4321)",
    "SELECT id FROM f WHERE x BETWEEN 450 AND 'nan' AND id > 4997",
    "SELECT id FROM f WHERE x <= 0 OR x < -1",
    "SELECT max(x), min(x), count(x) FROM f",
    "SELECT max(x) FROM f",
    "SELECT min(x) FROM f",
    "SELECT id FROM f ORDER BY x DESC, id LIMIT 2",
)


@pytest.fixture(params=["duckdb", "pyarrow", "pages", "float"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file whose last row group has NaN: without bounds, or with bounds that ignore NaN."""
    path = str(tmp_path / f"{request.param}.parquet")
    if request.param == "duckdb":
        duckdb.sql(f"COPY ({ROWS}) TO '{path}' (ROW_GROUP_SIZE 2048)")
        return path
    rows = duckdb.sql(ROWS)
    assert rows is not None
    table = rows.to_arrow_table()
    if request.param == "float":
        table = table.set_column(1, "x", table["x"].cast(pa.float32()))
    pages = {"write_page_index": True, "data_page_size": 1024} if request.param == "pages" else {}
    pq.write_table(table, path, row_group_size=2048, **pages)
    return path


@pytest.mark.parametrize("sql", QUERIES)
def test_nan_is_greater_than_all_bounds(file: str, sql: str) -> None:
    theirs = duckdb.connect()
    kind = "FLOAT" if file.endswith("float.parquet") else "DOUBLE"
    theirs.execute(f"CREATE TABLE f AS SELECT id, x::{kind} AS x FROM ({ROWS})")
    expected = repr(sorted(theirs.sql(sql).fetchall()))
    sql = sql.replace(" f", f" '{file}'")
    with warpmill.connect(device="cpu") as con:
        assert [repr(sorted(con.sql(sql).fetchall())) for _ in range(2)] == [expected] * 2


def test_bounds_of_a_part_of_the_row_groups(tmp_path: Path) -> None:
    """A column without statistics in one row group has no statistics for the file."""
    folder = tmp_path / "parts"
    folder.mkdir()
    duckdb.sql(f"COPY (SELECT -1e9 AS x, 'nan'::DOUBLE AS y FROM range(3)) TO '{folder}/a.parquet'")
    duckdb.sql(f"COPY (SELECT i::DOUBLE AS x, i::DOUBLE AS y FROM range(3000) t(i)) TO '{folder}/b.parquet'")
    mixed = f"SELECT x FROM '{folder}/b.parquet' UNION ALL SELECT 'nan'::DOUBLE UNION ALL SELECT -5.0"
    duckdb.sql(f"COPY ({mixed}) TO '{tmp_path}/c.parquet' (ROW_GROUP_SIZE 2048)")
    queries = [
        f"SELECT x FROM '{tmp_path}/c.parquet' WHERE x < 0",
        f"SELECT min(x), max(x) FROM '{tmp_path}/c.parquet'",
        f"SELECT count(*) FROM '{folder}/*.parquet' WHERE y > 5000",
        f"SELECT min(x), max(y) FROM '{folder}/*.parquet'",
    ]
    for sql in queries:
        with warpmill.connect(device="cpu") as con:
            assert repr(con.sql(sql).fetchall()) == repr(duckdb.execute(sql).fetchall()), sql


def test_zeros_of_both_signs(tmp_path: Path) -> None:
    path = tmp_path / "zeros.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "x": [0.0, -0.0, 1.0]}), path, row_group_size=1)
    for condition in ("x = 0.0", "x <= -0.0", "x >= 0.0", "x < 0.5", "x > -0.0"):
        sql = f"SELECT id FROM '{path}' WHERE {condition} ORDER BY id"
        with warpmill.connect(device="cpu") as con:
            assert con.sql(sql).fetchall() == duckdb.execute(sql).fetchall(), condition
