"""CSV columns have types that all their values have, and lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "".join(f"{i}\n" for i in range(5000))
COLUMNS: dict[str, tuple[str, str, object]] = {
    "leading zeros": ("01234\n00001\n", "Utf8", "01234"),
    "leading zeros later": (ROWS + "00007\n", "Utf8", "00007"),
    "a word after 5000 rows": (ROWS + "none\n", "Utf8", "none"),
    "a fraction after 5000 rows": (ROWS + "1.5\n", "Float64", 1.5),
    "numbers and none": ("1\n-inf\nNaN\n2.5\n", "Float64", float("-inf")),
    "beyond 64 bits": ("1\n12345678901234567890\n", "Decimal128(38, 0)", 12345678901234567890),
    "beyond 38 digits": ("1\n" + "9" * 39 + "\n", "Utf8", "9" * 39),
    "negative": ("-5\n0\n", "Int64", -5),
    "booleans": ("true\nFALSE\n", "Boolean", True),
    "booleans and numbers": ("true\n1\n", "Utf8", "true"),
    "dates and words": ("2020-01-01\n2020-13-01\n", "Utf8", "2020-13-01"),
    "nothing": ('""\n\n', "Utf8", None),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_keeps_its_values(con: warpmill.Connection, tmp_path: Path, case: str) -> None:
    text, data_type, value = COLUMNS[case]
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{line},\n" for line in text.splitlines()))
    con.create_table("imported", path)
    con.register_file("registered", path)
    for source in (f"'{path}'", "imported", "registered"):
        result = con.sql(f"SELECT a FROM {source}")
        assert result.types == [data_type], source
        found = {row[0] for row in result.fetchall()}
        assert value in found, source
        assert len(result) == len(text.splitlines()), source


def test_files_of_one_table_have_one_type(con: warpmill.Connection, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("a,b\n07,y\n")
    for source in (f"'{tmp_path}/*.csv'", f"'{tmp_path}/'"):
        assert sorted(con.sql(f"SELECT a FROM {source}").fetchall()) == [("07",), ("1",)]
    con.create_table("t", f"{tmp_path}/*.csv")
    assert sorted(con.sql("SELECT a FROM t").fetchall()) == [("07",), ("1",)]
    (tmp_path / "3.csv").write_text("b,a\nz,3\n")
    with pytest.raises(warpmill.Error, match=r"3\.csv"):
        con.sql(f"SELECT a FROM '{tmp_path}/*.csv'")


def test_values_of_several_lines(con: warpmill.Connection, tmp_path: Path) -> None:
    rows = 3000
    (tmp_path / "x.csv").write_text("a,b\n" + '1,"two\nlines, and ""quotes"""\n' * rows)
    found = con.sql(f"SELECT count(*), min(b), max(b) FROM '{tmp_path}/x.csv'").fetchall()
    assert found == [(rows, 'two\nlines, and "quotes"', 'two\nlines, and "quotes"')]


def test_a_missing_file_is_named(con: warpmill.Connection, tmp_path: Path) -> None:
    for name in ("nothing.csv", "nothing.parquet", "no/folder/x.json", "*.csv"):
        with pytest.raises(warpmill.IOError, match="no such file") as error:
            con.sql(f"SELECT * FROM '{tmp_path}/{name}'")
        assert name in str(error.value)
        with pytest.raises(warpmill.Error, match="no such file"):
            con.create_table("t", f"{tmp_path}/{name}")
    with pytest.raises(warpmill.CatalogError, match="not found"):
        con.sql("SELECT * FROM nothing")
