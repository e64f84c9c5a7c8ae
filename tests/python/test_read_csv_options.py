"""The options of ``read_csv`` for the format of records and values, compared with DuckDB."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from beside import assert_refused, assert_same

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "skip.csv": "a note\nmore text, here\na,b\n1,x\n2,y\n",
    "headless.csv": "junk\n1,x\n2,y\n",
    "names.csv": "a,b\n1,x\n2,y\n",
    "comment.csv": "# first\na,b\n1,x # tail\n# second\n2,y#z\n#3,z",
    "old.csv": "a,b\r1,x\r2,y\r",
    "quoted.csv": 'a,b\r\n1,"x\r\n""y"", # z"\r\n2,""\r\n,z\r\n',
    "ragged.csv": "a,b,c\n1,2,3\n4,5\n6\n7,8,9\n",
    "long.csv": "a,b\n1,2\n3,4,5\n6,7\n",
    "bad.csv": "a,b,d\n1,x,2024-01-01\nzz,y,2024-01-02\n3,w,never\n,v,\n",
    "euro.csv": "a;b\n1,5;x\n2,25;y\n-3,0;\n;z\n",
    "points.csv": "a;b\n1,5;1.5\n2.5;2\n",
    "whole.csv": "a;b\n1;1,5\n2;2\n",
    "days.csv": "d,n\n31/12/2023,1\n01/02/2024,2\n,3\n",
    "both.csv": "d,t\n31/12/2023,2024-01-01\n01/02/2024,2024-01-02\n",
    "moments.csv": "t,n\n31/12/2023 10:11,1\n01/02/2024 00:00,2\n",
    "bom.csv": "\ufeffa,b\n1,x\n",
    "bom_note.csv": "\ufeffnote\na,b\n1,x\n",
    "index.csv": ",a,b\n0,1,x\n1,2,y\n",
    "header.csv": "a,b\n",
    "one.csv": "a\n1\n",
    "escaped.csv": 'a,b\n1,"x\\"y"\n2,"z"\n',
    "single.csv": "a,b\n'1,5',x\n'2','y'\n",
    "u1.csv": "a,b\n1,x\n",
    "u2.csv": "b,c\ny,2.5\n",
    "u3.csv": "c,a\nz,9\n",
    "u4.csv": "A,d\n1.5,2024-01-01\n",
    "n1.csv": "a,b\n1,NA\n",
    "n2.csv": "b,c\nx,NA\n",
    "hive/k=1/a.csv": "x,y\n1,p\n",
    "hive/k=2/a.csv": "y,z\nq,2\n",
}

SAME = (
    "read_csv('skip.csv', skip = 2)",
    "read_csv('skip.csv', skip = 2, header = true)",
    "read_csv('skip.csv', skip = 3, names = ['p', 'q'])",
    "read_csv('headless.csv', skip = 1)",
    "read_csv('names.csv', skip = 1)",
    "read_csv('names.csv', skip = 1, header = true)",
    "read_csv('names.csv', skip = 0)",
    "read_csv('quoted.csv', skip = 1, header = false)",
    "read_csv('bom_note.csv', skip = 1)",
    "read_csv('old.csv', skip = 1)",
    "read_csv('comment.csv', comment = '#')",
    "read_csv('comment.csv', comment = '#', header = true, delim = ',')",
    "read_csv('names.csv', comment = '#')",
    "read_csv('names.csv', comment = '')",
    "read_csv('ragged.csv', null_padding = true)",
    "read_csv('ragged.csv', ignore_errors = true)",
    "read_csv('ragged.csv', ignore_errors = true, header = true, delim = ',')",
    "read_csv('ragged.csv', ignore_errors = true, columns = {'a': 'INT', 'b': 'INT', 'c': 'INT'})",
    "read_csv('ragged.csv', null_padding = true, all_varchar = true)",
    "read_csv('long.csv', null_padding = true)",
    "read_csv('long.csv', ignore_errors = true)",
    "read_csv('names.csv', null_padding = true)",
    "read_csv('header.csv', null_padding = true)",
    "read_csv('bad.csv', ignore_errors = true)",
    "read_csv('bad.csv', ignore_errors = true, types = {'a': 'INTEGER'})",
    "read_csv('bad.csv', ignore_errors = true, types = {'a': 'INTEGER', 'd': 'DATE'})",
    "read_csv('bad.csv', ignore_errors = true, columns = {'a': 'INTEGER', 'b': 'VARCHAR', 'd': 'VARCHAR'})",
    "read_csv('bad.csv', nullstr = ['zz', 'never', ''])",
    "read_csv('euro.csv', decimal_separator = ',')",
    "read_csv('euro.csv', decimal_separator = ',', delim = ';')",
    "read_csv('euro.csv', decimal_separator = '.')",
    "read_csv('euro.csv', decimal_separator = ',', types = {'a': 'DECIMAL(9, 2)'})",
    "read_csv('points.csv', decimal_separator = ',')",
    "read_csv('whole.csv', decimal_separator = ',')",
    "read_csv('days.csv', dateformat = '%d/%m/%Y')",
    "read_csv('days.csv', date_format = '%d/%m/%Y', types = {'n': 'VARCHAR'})",
    "read_csv('days.csv', dateformat = '%m/%d/%Y')",
    "read_csv('days.csv', dateformat = '%d/%m/%Y', types = {'d': 'DATE'})",
    "read_csv('days.csv', dateformat = '%d/%m/%Y', columns = {'d': 'DATE', 'n': 'INTEGER'})",
    "read_csv('days.csv', dateformat = '%d/%m/%Y', all_varchar = true)",
    "read_csv('both.csv', dateformat = '%d/%m/%Y')",
    "read_csv('moments.csv', timestampformat = '%d/%m/%Y %H:%M')",
    "read_csv('moments.csv', timestampformat = '%d/%m/%Y %H:%M', types = {'t': 'TIMESTAMP'})",
    "'bom.csv'",
    "read_csv('bom.csv', comment = '#')",
    "'index.csv'",
    "read_csv('index.csv', types = {'column0': 'VARCHAR'})",
    "read_csv('escaped.csv', escape = '\\')",
    "read_csv('escaped.csv', escape = '\\', ignore_errors = true)",
    "read_csv('single.csv', quote = '''')",
    "read_csv('names.csv', quote = '')",
    "read_csv('names.csv', auto_detect = false, columns = {'a': 'VARCHAR', 'b': 'VARCHAR'})",
    "read_csv('names.csv', auto_detect = false, columns = {'a': 'INTEGER', 'b': 'VARCHAR'}, header = true)",
    "read_csv('names.csv', new_line = '\\n', max_line_size = 1000, sample_size = 1, parallel = false)",
    "read_csv('names.csv', filename = 'source')",
    "read_csv(['names.csv', 'u1.csv'], skip = 1, filename = true)",
    "read_csv(['u1.csv', 'u2.csv'], union_by_name = true)",
    "read_csv(['u1.csv', 'u2.csv', 'u3.csv'], union_by_name = true)",
    "read_csv(['u1.csv', 'u4.csv'], union_by_name = true)",
    "read_csv(['u1.csv', 'u2.csv'], union_by_name = true, filename = true)",
    "read_csv('u?.csv', union_by_name = true, all_varchar = true)",
    "read_csv(['u1.csv', 'u2.csv'], union_by_name = true, types = {'a': 'VARCHAR'})",
    "read_csv(['n1.csv', 'n2.csv'], union_by_name = true, nullstr = 'NA')",
    "read_csv('hive/*/*.csv', union_by_name = true)",
    "read_csv('hive/*/*.csv', union_by_name = true, hive_partitioning = false)",
    "'zipped.csv.gz'",
    "'zipped.csv.zst'",
    "read_csv('zipped.csv.gz', header = true)",
    "read_csv('zipped', compression = 'gzip')",
    "read_csv('zipped.csv.zst', compression = 'zstd', types = {'a': 'VARCHAR'})",
    "read_csv('names.csv', compression = 'none')",
    "read_csv(['names.csv', 'zipped.csv.gz'])",
    "'tabs.tsv.gz'",
)

REFUSED = (
    ("read_csv('names.csv', nonsense = 1)", "nonsense.*delim.*skip"),
    ("read_csv('names.csv', skip = -1)", "skip"),
    ("read_csv('names.csv', skip = 10)", "names.csv"),
    ("read_csv('names.csv', comment = '##')", "comment"),
    ("read_csv('names.csv', decimal_separator = ';')", "decimal_separator"),
    ("read_csv('names.csv', compression = 'rar')", "rar"),
    ("read_csv('names.csv', compression = 'gzip')", "names.csv"),
    ("read_csv('names.csv', auto_detect = false)", "columns"),
    ("read_csv('names.csv', normalize_names = true)", "normalize_names"),
    ("read_csv('names.csv', store_rejects = true)", "store_rejects"),
    ("read_csv('ragged.csv', null_padding = true, ignore_errors = true)", "null_padding"),
    ("read_csv('ragged.csv', header = true, delim = ',')", "ragged.csv"),
    ("read_csv('bad.csv', types = {'a': 'INTEGER'})", "zz"),
    ("read_csv('days.csv', dateformat = '%d-%m-%Y', types = {'d': 'DATE'})", "31/12/2023"),
    ("read_csv('days.csv', dateformat = '%Q')", "%Q"),
    ("read_csv('u?.csv')", "u2.csv"),
    ("read_csv('names.csv', union_by_name = true, names = ['x'])", "union_by_name"),
    ("'names.csv.bz2'", "names.csv.bz2"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    packed = gzip.compress(FILES["names.csv"].encode())
    (tmp_path / "zipped.csv.gz").write_bytes(packed)
    (tmp_path / "zipped").write_bytes(packed)
    (tmp_path / "tabs.tsv.gz").write_bytes(gzip.compress(b"a\tb\n1\tx\n"))
    (tmp_path / "names.csv.bz2").write_bytes(b"BZh")
    monkeypatch.chdir(tmp_path)
    duckdb.sql("COPY (FROM 'names.csv') TO 'zipped.csv.zst' (COMPRESSION zstd)")
    return tmp_path


def _rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("source", SAME)
def test_the_same_rows(folder: Path, source: str) -> None:
    del folder
    assert_same(source)


@pytest.mark.parametrize(("source", "culprit"), REFUSED)
def test_errors_name_the_culprit(folder: Path, source: str, culprit: str) -> None:
    del folder
    assert_refused(source, culprit)


COPIES = (
    ("a INTEGER, b VARCHAR", "'names.csv'", "HEADER"),
    ("a INTEGER, b VARCHAR", "'names.csv'", "FORMAT csv, HEADER true, DELIM ','"),
    ("a INTEGER, b VARCHAR", "'skip.csv'", "HEADER, SKIP 2"),
    ("a INTEGER, b VARCHAR", "'headless.csv'", "HEADER false, SKIP 1"),
    ("a INTEGER, b VARCHAR", "'zipped.csv.gz'", "HEADER"),
    ("a INTEGER, b VARCHAR", "'zipped'", "HEADER, COMPRESSION gzip"),
    ("d DATE, n INTEGER", "'days.csv'", "HEADER, DATEFORMAT '%d/%m/%Y'"),
    ("t TIMESTAMP, n INTEGER", "'moments.csv'", "HEADER, TIMESTAMPFORMAT '%d/%m/%Y %H:%M'"),
    ("a DECIMAL(9, 2), b VARCHAR", "'euro.csv'", "HEADER, DELIMITER ';', DECIMAL_SEPARATOR ','"),
    ("a INTEGER, b INTEGER, c INTEGER", "'ragged.csv'", "HEADER, IGNORE_ERRORS"),
    ("a INTEGER, b VARCHAR, d VARCHAR", "'bad.csv'", "HEADER, IGNORE_ERRORS true"),
    ("a VARCHAR, b VARCHAR", "'escaped.csv'", "HEADER, ESCAPE '\\'"),
    ("a INTEGER, b VARCHAR", "'u1.csv'", "HEADER, NULLSTR 'x'"),
)


@pytest.mark.parametrize(("columns", "path", "options"), COPIES)
def test_copy_takes_them(folder: Path, columns: str, path: str, options: str) -> None:
    del folder
    answers = []
    for con in (duckdb.connect(), warpmill.connect()):
        with con:
            con.sql(f"CREATE TABLE t ({columns})")
            con.sql(f"COPY t FROM {path} ({options})")
            answers.append(_rows(con.sql("FROM t").fetchall()))
    assert answers[0] == answers[1]


def test_copy_refuses_others(folder: Path) -> None:
    del folder
    with warpmill.connect() as con:
        con.sql("CREATE TABLE t (a INTEGER, b VARCHAR)")
        with pytest.raises(warpmill.Error, match=r"nonsense.*delim"):
            con.sql("COPY t FROM 'names.csv' (HEADER, NONSENSE 1)")
        con.sql("CREATE TABLE s (a INTEGER, b VARCHAR, d VARCHAR)")
        with pytest.raises(warpmill.Error, match="zz"):
            con.sql("COPY s FROM 'bad.csv' (HEADER)")
        assert con.sql("SELECT count(*) FROM s").fetchall() == [(0,)]


def test_many_rows_are_cleaned(folder: Path) -> None:
    """More rows than one batch and more bytes than one buffer have."""
    rows = 100_000
    with gzip.open(folder / "many.csv.gz", "wt") as file:
        file.write("a,b\n")
        file.writelines(f'{n},"text, {n}"\n' + ("#\n" if n % 100 == 0 else "") for n in range(rows))
    with warpmill.connect() as con:
        sql = "SELECT count(*), sum(a), count(DISTINCT b), max(length(b)) FROM read_csv('many.csv.gz', comment = '#')"
        assert con.sql(sql).fetchall() == [(rows, rows * (rows - 1) // 2, rows, 11)]
        assert con.sql("SELECT a FROM read_csv('many.csv.gz', comment = '#') LIMIT 1").fetchall() == [(0,)]


def test_options_of_python(folder: Path) -> None:
    with warpmill.connect() as con:
        assert con.read_csv("names.csv").fetchall() == [(1, "x"), (2, "y")]
        assert con.read_csv("skip.csv", skiprows=2, header=True).columns == ["a", "b"]
        rows = con.read_csv(["u1.csv", folder / "u2.csv"], union_by_name=True, all_varchar=True).fetchall()
        assert _rows(rows) == _rows([("1", "x", None), (None, "y", "2.5")])
        kinds = con.read_csv("names.csv", dtype={"a": "DECIMAL(5, 2)"}, na_values=["x", ""], sep=",").fetchall()
        assert [str(row[0]) for row in kinds] == ["1.00", "2.00"]
        assert [row[1] for row in kinds] == [None, "y"]
        with pytest.raises(warpmill.Error, match="no such file: missing"):
            con.read_csv("missing.csv", header=True)
        with pytest.raises(warpmill.Error, match="nonsense"):
            con.read_csv("names.csv", nonsense=1).fetchall()
        with pytest.raises(TypeError, match="object"):
            con.read_csv("names.csv", header=object())
        (folder / "rows.json").write_text('{"a": 1}\n')
        assert con.read_json("rows.json", columns={"a": "VARCHAR"}).fetchall() == [("1",)]
        con.sql("SELECT 1 AS a").write("rows.parquet")
        assert con.read_parquet("rows.parquet", filename=True).fetchall() == [(1, "rows.parquet")]
