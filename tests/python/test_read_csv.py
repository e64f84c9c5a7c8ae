"""CSV and JSON files by functions with options, beside DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from beside import assert_refused, assert_same

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "plain.csv": 'id,name,price,day\n1,apple,1.5,2024-01-01\n2,"b,c",,2024-02-29\n3,,2.25,2024-03-01\n',
    "pipe.csv": "a|b\n1|x\n2|y;z\n",
    "semi.csv": "a;b;c\n1;2,5;x\n3;4,5;y\n",
    "quoted.csv": "a;b\n\"1;2\";'x'\n\"line\nbreak\";'y'\n",
    "single.csv": "a;b\n'1;2';3\n'x';4\n",
    "headless.csv": "1,2.5,x\n2,3.5,y\n",
    "texts.csv": "a,b\nx,y\n",
    "one.csv": "a\n1\n2\n",
    "header.csv": "a,b\n",
    "zero.csv": "code,n\n007,1\n008,2\n",
    "wide.csv": ",".join(str(i) for i in range(12)) + "\n" + ",".join(str(i) for i in range(12)) + "\n",
    "nulls.csv": "a,b,c\n1,NA,x\nNA,2,\n3,4,NA\n",
    "crlf.csv": "a,b\r\n1,x\r\n2,y\r\n",
    "names.csv": '"a b",c\n1,2\n',
    "tab.tsv": "a\tb\n1\tx\n",
    "parts/x.csv": "id,v\n1,a\n",
    "parts/y.csv": "id,v\n2,b\n",
    "hive/year=2023/k=a/f.csv": "id\n1\n",
    "hive/year=2024/k=b/f.csv": "id\n2\n3\n",
    "lines.json": '{"a": 1}\n{"a": null}\n',
    "array.json": '[{"a": 1, "b": {"c": [1, 2]}},\n {"a": null, "b": null}]',
    "empty.json": "[]",
}

SAME = (
    "read_csv('plain.csv')",
    "read_csv('plain.csv', delim = ',', quote = '\"')",
    "read_csv('plain.csv', header = true, sep = ',')",
    "read_csv('plain.csv', header = false)",
    "read_csv('plain.csv', all_varchar = true)",
    "read_csv('plain.csv', types = {'id': 'VARCHAR', 'price': 'DECIMAL(5, 2)'})",
    "read_csv('plain.csv', types = ['DOUBLE'])",
    "read_csv('plain.csv', names = ['x', 'y'])",
    "read_csv('plain.csv', columns = {'a': 'SMALLINT', 'b': 'VARCHAR', 'c': 'FLOAT', 'd': 'TIMESTAMP'})",
    "read_csv('plain.csv', nullstr = 'apple')",
    "read_csv('plain.csv', nullstr = ['apple', ''])",
    "read_csv('plain.csv', auto_detect = true, sample_size = -1)",
    "'pipe.csv'",
    "'semi.csv'",
    "read_csv('quoted.csv')",
    "read_csv('single.csv', quote = '''')",
    "'headless.csv'",
    "read_csv('headless.csv', header = false)",
    "read_csv('headless.csv', names = ['a', 'b', 'c'])",
    "read_csv('headless.csv', columns = {'a': 'BIGINT', 'b': 'DOUBLE', 'c': 'VARCHAR'})",
    "'texts.csv'",
    "'one.csv'",
    "'header.csv'",
    "'zero.csv'",
    "'wide.csv'",
    "read_csv('nulls.csv', nullstr = 'NA')",
    "read_csv('nulls.csv', nullstr = ['NA', ''])",
    "'crlf.csv'",
    "'names.csv'",
    "'tab.tsv'",
    "read_csv(['parts/x.csv', 'parts/y.csv'])",
    "read_csv('parts/*.csv', filename = true)",
    "read_csv('hive/*/*/*.csv')",
    "read_csv('hive/*/*/*.csv', hive_partitioning = false)",
    "read_csv('hive/*/*/*.csv', hive_partitioning = true, filename = true)",
    "'lines.json'",
    "'array.json'",
    "read_json('array.json')",
    "read_json_auto('array.json', format = 'array')",
    "read_json('lines.json', format = 'newline_delimited')",
    "read_json(['lines.json'])",
    "glob('parts/*.csv')",
    "(SELECT filename, content, size FROM read_text('one.csv'))",
    "(SELECT filename, content, size FROM read_blob('parts/*.csv'))",
)

REFUSED = (
    ("read_csv('plain.csv', nonsense = 1)", "nonsense"),
    ("read_csv('plain.csv', header = 'maybe')", "header"),
    ("read_csv('plain.csv', delim = '||')", "delim"),
    ("read_csv('plain.csv', types = {'nothing': 'INTEGER'})", "nothing"),
    ("read_csv('plain.csv', types = {'id': 'NOTYPE'})", "NOTYPE"),
    ("read_csv('plain.csv', names = ['a', 'b', 'c', 'd', 'e'])", "plain.csv"),
    ("read_csv('plain.csv', columns = {'a': 'INTEGER'})", "plain.csv"),
    ("read_csv('missing.csv', header = true)", "missing.csv"),
    ("read_csv(['plain.csv', 'one.csv'], header = true)", "one.csv"),
    ("read_csv(17)", "17"),
    ("read_csv()", "read_csv"),
    ("read_json('array.json', nonsense = true)", "nonsense"),
    ("read_parquet('plain.csv', nonsense = true)", "nonsense"),
    ("read_text('missing.txt')", "missing.txt"),
    ("read_text('broken.txt')", "broken.txt"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    (tmp_path / "broken.txt").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
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


def test_a_changed_file_is_read_anew(folder: Path) -> None:
    with warpmill.connect() as con:
        sql = "SELECT count(*), max(v) FROM read_csv('parts/x.csv', delim = ',')"
        assert con.sql(sql).fetchall() == [(1, "a")]
        (folder / "parts/x.csv").write_text("id,v\n1,a\n2,zz\n")
        assert con.sql(sql).fetchall() == [(2, "zz")]


def test_values_that_do_not_fit_their_declared_type(folder: Path) -> None:
    del folder
    with warpmill.connect() as con, pytest.raises(warpmill.Error):
        con.sql("FROM read_csv('plain.csv', types = {'name': 'INTEGER'})").fetchall()


@pytest.mark.parametrize("null", ["NA", ""])
def test_copy_reads_nulls(folder: Path, null: str) -> None:
    """``COPY ... FROM`` with ``NULL``, beside DuckDB."""
    del folder
    answers = []
    for con in (duckdb.connect(), warpmill.connect()):
        with con:
            con.sql("CREATE TABLE t (a VARCHAR, b VARCHAR, c VARCHAR)")
            con.sql(f"COPY t FROM 'nulls.csv' (HEADER, NULL '{null}')")
            answers.append(_rows(con.sql("FROM t").fetchall()))
    assert answers[0] == answers[1]
