"""Tables of segments, files, and database directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, values: list[int]) -> Path:
    pq.write_table(pa.table({"a": values}), path)
    return path


def test_files_are_queried_by_path(con: warpmill.Connection, tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", [1, 2])
    write(tmp_path / "y.parquet", [3])
    (tmp_path / "z.csv").write_text("a,b\n1,x\n2,\n")
    assert con.sql(f"SELECT sum(a) FROM '{tmp_path}/x.parquet'").fetchone() == (3,)
    assert con.sql(f"SELECT sum(a) FROM '{tmp_path}/*.parquet'").fetchone() == (6,)
    assert con.read_parquet(tmp_path / "x.parquet").fetchall() == [(1,), (2,)]
    assert con.read_parquet(f"{tmp_path}/*.parquet").shape == (3, 1)
    assert con.read_csv(tmp_path / "z.csv").fetchall()[0] == (1, "x")


def test_missing_files_are_named(con: warpmill.Connection, tmp_path: Path) -> None:
    with pytest.raises(warpmill.CatalogError, match=r"nothing\.parquet"):
        con.read_parquet(tmp_path / "nothing.parquet")


def test_files_register_under_a_name(con: warpmill.Connection, tmp_path: Path) -> None:
    con.register_file("t", write(tmp_path / "x.parquet", [1, 2]))
    assert con.sql("SELECT count(*) FROM t").fetchone() == (2,)


def test_tables_are_made_of_frames_queries_and_files(con: warpmill.Connection, tmp_path: Path) -> None:
    con.create_table("frame", {"a": [3, 1, 2]}, sort_by=["a"])
    assert con.sql("SELECT a FROM frame").fetchall() == [(1,), (2,), (3,)]
    con.create_table("query", "SELECT a * 10 AS a FROM frame")
    assert con.sql("SELECT sum(a) FROM query").fetchone() == (60,)
    con.create_table("relation", con.sql("SELECT a FROM frame WHERE a > 1"))
    assert con.sql("SELECT count(*) FROM relation").fetchone() == (2,)
    con.create_table("file", write(tmp_path / "x.parquet", [7, 8]))
    assert con.sql("SELECT max(a) FROM file").fetchone() == (8,)


def test_an_existing_table_is_replaced_only_on_demand(con: warpmill.Connection) -> None:
    con.create_table("t", {"a": [1]})
    with pytest.raises(warpmill.CatalogError, match=r"\bt\b"):
        con.create_table("t", {"a": [2]})
    assert con.sql("SELECT a FROM t").fetchall() == [(1,)]
    con.create_table("t", {"b": ["new"]}, replace=True)
    assert con.sql("SELECT * FROM t").fetchall() == [("new",)]


def test_a_database_directory_keeps_its_tables(tmp_path: Path) -> None:
    directory = tmp_path / "db"
    with warpmill.connect(directory) as con:
        con.create_table("t", {"a": list(range(5000)), "s": ["x", "y"] * 2500})
    with warpmill.connect(directory) as con:
        assert con.sql("SELECT count(*), sum(a), max(s) FROM t").fetchone() == (5000, 12_497_500, "y")
        (table,) = con.tables()
        assert (table.name, table.rows) == ("t", 5000)
        assert table.stored_bytes is not None
        columns = con.inspect("t")
        assert [column["name"] for column in columns] == ["a", "s"]
        assert all(column["stored_bytes"] > 0 and column["encodings"] for column in columns)


def test_a_reader_keeps_its_version(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as writer:
        writer.create_table("t", {"a": [1]})
        relation = writer.sql("SELECT a FROM t")
        writer.create_table("t", {"a": [2]}, replace=True)
        assert relation.fetchall() == [(1,)]
        assert writer.sql("SELECT a FROM t").fetchall() == [(2,)]


def test_a_failing_source_leaves_no_table(con: warpmill.Connection, tmp_path: Path) -> None:
    good = pa.record_batch({"a": [1]})

    def batches() -> object:
        yield good
        raise RuntimeError("the source broke")

    reader = pa.RecordBatchReader.from_batches(good.schema, batches())
    with pytest.raises(warpmill.Error, match="the source broke"):
        con.create_table("t", reader)
    assert con.tables() == []
    broken = tmp_path / "broken.parquet"
    whole = write(tmp_path / "whole.parquet", list(range(10_000))).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(warpmill.Error, match=r"broken\.parquet"):
        con.create_table("t", broken)
    assert con.tables() == []


def test_progress_is_told(con: warpmill.Connection) -> None:
    told: list[tuple[int, int]] = []
    con.create_table("t", {"a": list(range(100_000))}, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == 100_000


def test_a_progress_callback_can_stop_the_work(con: warpmill.Connection) -> None:
    def stop(_done: int, _total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        con.generate("ssb", "lineorder", 0.1, progress=stop)
