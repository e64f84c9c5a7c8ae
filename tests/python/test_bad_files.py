"""Files that are broken deep inside: the error says where, and nothing of them is left behind.

Every case runs on a small file, and with ``pytest -m slow`` on one of 1 GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL, LARGE = 12_000_000, 1_000_000_000
SIZES = [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="1GB", marks=pytest.mark.slow)]
ROW_GROUP = 50_000
OLD_ROWS = 1000


@pytest.fixture
def con(tmp_path: Path) -> Iterator[warpmill.Connection]:
    """A database with a table that must stay unchanged."""
    with warpmill.connect(tmp_path / "db") as connection:
        rows = {"id": list(range(OLD_ROWS)), "price": [1.5] * OLD_ROWS, "city": ["Lyon"] * OLD_ROWS}
        connection.create_table("old", rows)
        yield connection


def nothing_changed(con: warpmill.Connection, tmp_path: Path) -> None:
    """The new table is not there, nor a file of it; the old one answers as before, in a new session too."""
    for session in (con, warpmill.connect(tmp_path / "db")):
        assert [(table.name, table.rows) for table in session.tables()] == [("old", OLD_ROWS)]
        answer = session.sql("SELECT count(*), sum(id), min(city) FROM old").fetchone()
        assert answer == (OLD_ROWS, OLD_ROWS * (OLD_ROWS - 1) // 2, "Lyon")
    assert sorted(path.name for path in (tmp_path / "db").iterdir()) == ["old"]


def csv(path: Path, size: int, bad_line: bytes) -> int:
    """A CSV file of about `size` bytes whose line at three quarters is `bad_line`; that line's number."""
    line = b"%09d,1234.5625,a city with a long name of its own number %03d\n"
    block = b"".join(line % (at, at % 1000) for at in range(10_000))
    blocks = max(4, size // len(block))
    bad = blocks * 3 // 4
    with path.open("wb") as file:
        file.write(b"id,price,city\n")
        for at in range(blocks):
            if at == bad:
                file.write(bad_line)
            file.write(block)
    # After the header and the blocks before it.
    return 1 + bad * 10_000 + 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("bad_line", "says"),
    [
        (b"12,1.5\n", r"(?i)fields|columns"),
        (b"12,1.5,Paris,Texas\n", r"(?i)fields|columns"),
        (b"12,1.5,Par\xff\xfeis\n", r"(?i)utf-?8.*(city|field 3)"),
    ],
    ids=["too few fields", "too many fields", "utf-8"],
)
def test_a_bad_csv_line(con: warpmill.Connection, tmp_path: Path, size: int, bad_line: bytes, says: str) -> None:
    path = tmp_path / "bad.csv"
    line = csv(path, size, bad_line)
    for name, replace in (("new", False), ("old", True)):
        with pytest.raises(warpmill.IngestError, match=says) as raised:
            con.create_table(name, path, replace=replace)
        assert "bad.csv" in str(raised.value)
        assert f"line {line}" in str(raised.value).replace(",", "")
        nothing_changed(con, tmp_path)
    with pytest.raises(warpmill.Error):
        con.sql(f"INSERT INTO old SELECT * FROM '{path}'")
    nothing_changed(con, tmp_path)


def test_a_csv_value_that_is_no_number(con: warpmill.Connection, tmp_path: Path) -> None:
    """It makes its column text, wherever it is, and is no number for a table that wants one."""
    path = tmp_path / "text.csv"
    csv(path, 0, b"12,not a number,Paris\n")
    with pytest.raises(warpmill.Error, match="not a number"):
        con.sql(f"INSERT INTO old SELECT * FROM '{path}'")
    nothing_changed(con, tmp_path)
    con.create_table("text", path)
    assert con.sql("SELECT price FROM text WHERE city = 'Paris'").fetchall() == [("not a number",)]


def parquet(path: Path, size: int) -> pq.FileMetaData:
    """A Parquet file of about `size` bytes in row groups of `ROW_GROUP` rows, with checksums of its pages."""
    random = np.random.default_rng(7)
    rows = ROW_GROUP
    groups = max(4, size // (rows * 20))
    city = pa.array([f"city {at % 1000:03}" for at in range(rows)]).dictionary_encode().cast(pa.string())
    schema = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("city", pa.string())])
    with pq.ParquetWriter(
        path, schema, compression="snappy", use_dictionary=["city"], write_page_checksum=True
    ) as file:
        for _ in range(groups):
            ids = pa.array(random.integers(0, 2**62, rows))
            columns = [ids, pa.array(random.random(rows)), city]
            file.write_table(pa.table(columns, schema=schema), row_group_size=rows)
    return pq.read_metadata(path)


@pytest.mark.parametrize("size", SIZES)
def test_a_parquet_file_that_ends_early(con: warpmill.Connection, tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.parquet"
    parquet(path, size)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    for name, replace in (("new", False), ("old", True)):
        with pytest.raises(warpmill.IngestError, match=r"cut\.parquet"):
            con.create_table(name, path, replace=replace)
        nothing_changed(con, tmp_path)
    with pytest.raises(warpmill.Error):
        con.sql(f"INSERT INTO old SELECT * FROM '{path}'")
    nothing_changed(con, tmp_path)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("column", "name"), [(0, "id"), (1, "price"), (2, "city")])
def test_flipped_bytes_in_a_page(con: warpmill.Connection, tmp_path: Path, size: int, column: int, name: str) -> None:
    path = tmp_path / "flipped.parquet"
    metadata = parquet(path, size)
    group = metadata.num_row_groups * 3 // 4
    chunk = metadata.row_group(group).column(column)
    with path.open("r+b") as file:
        # In the middle of the chunk: within a page's values, not in its header.
        file.seek(chunk.data_page_offset + chunk.total_compressed_size // 2)
        wrong = bytes(byte ^ 0xFF for byte in file.read(64))
        file.seek(-64, 1)
        file.write(wrong)
    for table, replace in (("new", False), ("old", True)):
        with pytest.raises(warpmill.IngestError, match=rf"flipped\.parquet row group {group}, column \"{name}\""):
            con.create_table(table, path, replace=replace)
        nothing_changed(con, tmp_path)
    with pytest.raises(warpmill.Error):
        con.sql(f"INSERT INTO old SELECT * FROM '{path}'")
    nothing_changed(con, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_appending_rows_of_another_schema(con: warpmill.Connection, tmp_path: Path, size: int) -> None:
    path = tmp_path / "other.parquet"
    parquet(path, size)
    with pytest.raises(warpmill.Error, match=r"(?i)column"):
        con.sql(f"INSERT INTO old SELECT id, price FROM '{path}'")
    nothing_changed(con, tmp_path)
    # All rows except the last convert: the earlier ones must not become visible.
    with pytest.raises(warpmill.Error, match=r"(?i)cast|convert"):
        con.sql(
            f"INSERT INTO old SELECT CASE WHEN id > {2**62 - 2**48} THEN city ELSE '1' END, price, city FROM '{path}'"
        )
    nothing_changed(con, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_one_file_of_many_has_another_schema(con: warpmill.Connection, tmp_path: Path, size: int) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    parquet(folder / "a.parquet", size)
    pq.write_table(pa.table({"id": ["text"], "price": [1.5], "city": ["Nice"]}), folder / "b.parquet")
    with pytest.raises(warpmill.IngestError, match=r"(?s)b\.parquet.*\bid\b"):
        con.create_table("new", f"{folder}/*.parquet")
    nothing_changed(con, tmp_path)
