"""``read_parquet`` and ``read_json`` with options, beside DuckDB."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from beside import assert_refused, assert_same

if TYPE_CHECKING:
    from pathlib import Path

PARQUET = {
    "p1.parquet": "SELECT 1::INTEGER AS a, 'x' AS b",
    "p2.parquet": "SELECT 2::BIGINT AS a, 1.5::DOUBLE AS c",
    "p3.parquet": "SELECT 'z' AS b, 3::INTEGER AS a",
    "p4.parquet": "SELECT 's' AS a",
    "p5.parquet": "SELECT 1.25::DECIMAL(5, 2) AS a, DATE '2024-01-01' AS d WHERE false",
    "hive/k=1/a.parquet": "SELECT 1 AS x",
    "hive/k=2/a.parquet": "SELECT 2 AS x, 'new' AS y",
}
TEXTS = {
    "j1.json": '{"a": 1, "d": "x"}\n{"a": 2}\n',
    "j2.json": '{"a": 1.5, "c": [1, null]}\n',
    "array.json": '[{"a": 1}, {"a": null}]',
    "bad.json": '{"a": 1}\nnot json\n{"a": 2, "b": "x"}\n\n{"a": \n',
    "days.json": '{"d": "2024-01-01", "n": 1}\n{"d": null, "n": 2}\n',
    "hive/k=1/a.json": '{"x": 1}\n',
    "hive/k=2/a.json": '{"x": 2}\n',
}

SAME = (
    "read_parquet('p1.parquet', filename = true)",
    "read_parquet('p1.parquet', filename = 'source')",
    "read_parquet('p1.parquet', filename = false)",
    "read_parquet(['p1.parquet', 'p3.parquet'], filename = true)",
    "read_parquet(['p1.parquet', 'p2.parquet'], union_by_name = true)",
    "read_parquet(['p1.parquet', 'p2.parquet', 'p3.parquet'], union_by_name = true, filename = true)",
    "read_parquet(['p1.parquet', 'p4.parquet'], union_by_name = true)",
    "read_parquet(['p1.parquet', 'p5.parquet'], union_by_name = true)",
    "read_parquet('hive/*/*.parquet', union_by_name = true)",
    "read_parquet('hive/*/*.parquet', union_by_name = true, filename = true)",
    "read_parquet('hive/*/*.parquet', union_by_name = true, hive_partitioning = false)",
    "read_json('j1.json', filename = true)",
    "read_json(['j1.json', 'j2.json'], filename = true)",
    "read_json(['j1.json', 'j2.json'], union_by_name = true)",
    "read_json('j1.json', columns = {'a': 'VARCHAR'})",
    "read_json('j1.json', columns = {'a': 'DOUBLE', 'd': 'VARCHAR', 'zz': 'INTEGER'})",
    "read_json('days.json', columns = {'d': 'DATE', 'n': 'SMALLINT'})",
    "read_json('array.json', columns = {'a': 'SMALLINT'}, format = 'array')",
    "read_json('array.json', filename = true)",
    "read_json('bad.json', columns = {'a': 'BIGINT', 'b': 'VARCHAR'}, ignore_errors = true)",
    "read_json('j1.json', columns = {'d': 'INTEGER'}, ignore_errors = true)",
    "read_json('g.json.gz')",
    "'g.json.gz'",
    "read_json('g', compression = 'gzip')",
    "read_json('j1.json', compression = 'none')",
    "read_json('hive/*/*.json', hive_partitioning = true)",
)

REFUSED = (
    ("read_parquet('p1.parquet', nonsense = true)", "nonsense.*union_by_name"),
    ("read_parquet('p1.parquet', file_row_number = true)", "file_row_number"),
    ("read_parquet('p1.parquet', filename = [])", "filename"),
    ("read_json('j1.json', nonsense = true)", "nonsense.*columns"),
    ("read_json('j1.json', columns = {'a': 'NOTYPE'})", "NOTYPE"),
    ("read_json('bad.json')", "JSON"),
    ("read_json('array.json.gz')", "array.json.gz"),
    ("read_json('days.json', columns = {'d': 'INTEGER'})", "2024-01-01"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in TEXTS.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    packed = gzip.compress(TEXTS["j1.json"].encode())
    (tmp_path / "g.json.gz").write_bytes(packed)
    (tmp_path / "g").write_bytes(packed)
    (tmp_path / "array.json.gz").write_bytes(gzip.compress(TEXTS["array.json"].encode()))
    monkeypatch.chdir(tmp_path)
    for path, sql in PARQUET.items():
        duckdb.sql(f"COPY ({sql}) TO '{path}'")
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


def test_filters_on_the_columns_of_files(folder: Path) -> None:
    del folder
    with warpmill.connect() as con:
        sql = "SELECT x, y FROM read_parquet('hive/*/*.parquet', union_by_name = true, filename = true) WHERE k = 2"
        assert con.sql(sql).fetchall() == [(2, "new")]
        sql = "SELECT count(*) FROM read_parquet('hive/*/*.parquet', filename = true) WHERE filename LIKE '%k=1%'"
        assert con.sql(sql).fetchall() == [(1,)]
