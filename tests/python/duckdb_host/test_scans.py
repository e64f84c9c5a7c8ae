"""Scans of files, pandas' frames and VALUES: in strict mode, equal to DuckDB, and read anew every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import warpmill.duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: SQL over the files in FOLDER, the table t and the frames.
QUERIES = {
    "parquet": "SELECT g, sum(i), max(s), sum(d), min(dt) FROM 'FOLDER/t.parquet' GROUP BY g",
    "parquet rows": "SELECT count(*) FROM 'FOLDER/t.parquet'",
    "parquet files": "SELECT count(*), sum(i) FROM read_parquet(['FOLDER/a.parquet', 'FOLDER/b.parquet'])",
    "parquet glob": "SELECT s, sum(i) FROM read_parquet('FOLDER/[ab].parquet') WHERE i > 100 GROUP BY s",
    "by name": "SELECT sum(i), sum(w), count(w) FROM read_parquet(['FOLDER/a.parquet', 'FOLDER/w.parquet'], union_by_name = true)",
    "file names": "SELECT filename, count(*) FROM read_parquet('FOLDER/[ab].parquet', filename = true) GROUP BY filename",
    "hive": "SELECT part, sum(i) FROM read_parquet('FOLDER/hive/*/*.parquet', hive_partitioning = true) GROUP BY part",
    "parquet twice": "SELECT count(*) FROM 'FOLDER/t.parquet' a JOIN 'FOLDER/t.parquet' b ON a.i = b.i + 1",
    "parquet and table": "SELECT t.g, count(*), sum(p.i) FROM t JOIN 'FOLDER/t.parquet' p ON t.i = p.i GROUP BY t.g",
    "columns alias": "SELECT sum(x) FROM 'FOLDER/t.parquet' p(x, y)",
    "view": "SELECT sum(i) FROM files",
    "csv": "SELECT g, sum(i), max(s), max(dt) FROM 'FOLDER/t.csv' GROUP BY g",
    "csv options": "SELECT g, count(*) FROM read_csv('FOLDER/t.csv', header = true, all_varchar = true) GROUP BY g",
    "json": "SELECT g, sum(i), max(s) FROM 'FOLDER/t.json' GROUP BY g",
    "pandas": "SELECT b, sum(a), count(*), max(c) FROM frame GROUP BY b",
    "pandas objects": "SELECT o, count(*) FROM frame GROUP BY o",
    "registered": "SELECT sum(a), max(b) FROM registered",
    "numpy": "SELECT sum(a), sum(b) FROM arrays",
    "frame and table": "SELECT frame.b, sum(t.i) FROM t JOIN frame ON t.g = frame.a GROUP BY frame.b",
    "values": "SELECT v.name, sum(t.i) FROM t JOIN (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) v(g, name) ON t.g = v.g GROUP BY v.name",
    "one value": "SELECT sum(t.i + v.x) FROM t, (VALUES (1)) v(x)",
    "cte": "WITH a AS (SELECT g, sum(i) AS s FROM 'FOLDER/t.parquet' GROUP BY g) SELECT x.g, y.s FROM a x JOIN a y ON x.g = y.g + 1",
    "window": "SELECT g, i, rank() OVER (PARTITION BY g ORDER BY i DESC) AS r FROM 'FOLDER/t.parquet' ORDER BY g, i LIMIT 50",
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("files")
    con = warpmill.duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i, i % 7 AS g, 's' || (i % 5) AS s, (i * 1.25)::DECIMAL(10,2) AS d, "
        "DATE '2020-01-01' + (i % 300)::INTEGER AS dt FROM range(300000) r(i)"
    )
    for name in ("t.parquet", "t.csv", "t.json"):
        con.execute(f"COPY (FROM t WHERE i % 10 = 0) TO '{folder}/{name}'")
    con.execute(f"COPY (FROM t WHERE i < 5000) TO '{folder}/a.parquet'")
    con.execute(f"COPY (FROM t WHERE i BETWEEN 5000 AND 9000) TO '{folder}/b.parquet'")
    con.execute(f"COPY (SELECT i, i + 0.5 AS w FROM t WHERE i < 300) TO '{folder}/w.parquet'")
    con.execute(
        f"COPY (SELECT i, g AS part FROM t WHERE i < 999) TO '{folder}/hive' (FORMAT parquet, PARTITION_BY part)"
    )
    con.execute(f"CREATE VIEW files AS FROM '{folder}/t.parquet'")
    con.execute("SET warpmill_fallback = 'error'")
    yield con, folder
    con.close()


def frames() -> dict[str, Any]:
    return {
        "frame": pd.DataFrame(
            {"a": [1, 2, 2, 6], "b": ["x", "y", None, "y"], "c": pd.Timestamp("2020-01-01"), "o": ["é", None, "u", "u"]}
        ),
        "arrays": {"a": np.array([1, 2, 3]), "b": np.array([0.5, 1.5, np.nan])},
    }


@pytest.mark.parametrize("name", QUERIES)
def test_equal_to_duckdb(host: tuple[Any, Path], name: str) -> None:
    con, folder = host
    sql = QUERIES[name].replace("FOLDER", str(folder))
    for known, value in frames().items():
        con.register(known, value)
    con.register("registered", frames()["frame"])
    con.execute("SET warpmill_enabled = false")
    expected = con.execute(sql)
    types = [str(column[1]) for column in expected.description]
    expected_rows = expected.fetchall()
    con.execute("SET warpmill_enabled = true")
    for _ in range(2):
        found = con.execute(sql)
        assert [str(column[1]) for column in found.description] == types
        rows = found.fetchall()
        assert sorted(map(repr, rows)) == sorted(map(repr, expected_rows))
        assert con.execute("SELECT accelerated FROM warpmill_last()").fetchall() == [(True,)]
    assert expected_rows


def test_variables_of_the_caller(host: tuple[Any, Path]) -> None:
    con, _ = host
    mine = pd.DataFrame({"a": [1, 2, 3]})
    also = pd.DataFrame({"a": [1, 2]})
    assert con.execute("SELECT sum(mine.a), count(*) FROM mine, also").fetchall() == [(12, 6)]
    mine.loc[0, "a"] = 100
    assert con.execute("SELECT sum(a) FROM mine").fetchall() == [(105,)]
    assert len(also) == 2


class Once:
    """An Arrow stream that silently returns no rows after some reads."""

    def __init__(self, reads: int) -> None:
        self.rows = pa.table({"a": [2**62, 1]})
        self.reads = reads

    def __arrow_c_schema__(self) -> Any:
        return self.rows.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.reads -= 1
        rows = self.rows if self.reads >= 0 else self.rows.slice(0, 0)
        return rows.__arrow_c_stream__(requested_schema)


def test_streams_stay_with_duckdb(host: tuple[Any, Path]) -> None:
    """Binding or reading one a second time could find no rows."""
    con, folder = host
    rows = pa.table({"a": [1, None, 3]})
    polar = pl.DataFrame({"a": [1, 2]})
    for name in ("rows", "polar"):
        with pytest.raises(duckdb.InvalidInputException, match=r"a scan by the table function \w*arrow_scan"):
            con.execute(f"SELECT sum(a) FROM {name}")
    con.execute("SET warpmill_fallback = 'allow'")
    try:
        assert con.execute("SELECT sum(a) FROM rows").fetchall() == [(4,)]
        assert con.execute("SELECT sum(a) FROM polar").fetchall() == [(3,)]
        for sql in ("SELECT max(a), count(*) FROM stream", "SELECT max(a + a) FROM stream"):
            for reads in range(1, 4):
                outcomes = []
                for enabled in (False, True):
                    con.execute(f"SET warpmill_enabled = {enabled}")
                    stream = Once(reads)
                    try:
                        outcomes.append(repr(con.execute(sql).fetchall()))
                    except duckdb.Error as error:
                        outcomes.append(repr(error))
                    assert stream.reads < reads
                assert outcomes[0] == outcomes[1]
    finally:
        con.execute("SET warpmill_enabled = true")
        con.execute("SET warpmill_fallback = 'error'")
    assert folder
    assert len(rows) + len(polar) == 5


def test_files_are_read_anew(host: tuple[Any, Path]) -> None:
    con, folder = host
    path = folder / "changing.parquet"
    for last in (10, 11, 12, 12):
        con.execute(f"COPY (SELECT i FROM range({last}) r(i)) TO '{path}'")
        expected = [(sum(range(last)), last)]
        assert con.execute(f"SELECT sum(i), count(*) FROM '{path}'").fetchall() == expected
        if last == 10:
            con.execute(f"PREPARE reading AS SELECT sum(i), count(*) FROM '{path}' WHERE i >= 0")
        assert con.execute("EXECUTE reading").fetchall() == expected
    # Another type, and no file at all: the errors and answers are DuckDB's.
    con.execute(f"COPY (SELECT 'text' AS i) TO '{path}'")
    assert con.execute(f"SELECT max(i), count(*) FROM '{path}'").fetchall() == [("text", 1)]
    path.unlink()
    with pytest.raises(duckdb.IOException, match="No files found"):
        con.execute(f"SELECT sum(i) FROM '{path}'")
    assert "changing" not in str(con.execute("FROM warpmill_cache()").fetchall())


def test_what_fails_while_it_runs_is_run_again(host: tuple[Any, Path]) -> None:
    con, _ = host
    con.execute("SET warpmill_fallback = 'allow'")
    try:
        large = pd.DataFrame({"a": [2**62, 1]})
        with pytest.raises(duckdb.OutOfRangeException):
            con.execute("SELECT max(a + a) FROM large").fetchall()
        [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
        assert not accelerated
        assert "failed while it ran" in reason
        assert con.execute("SELECT max(a) FROM large").fetchall() == [(2**62,)]
        assert len(large) == 2
    finally:
        con.execute("SET warpmill_fallback = 'error'")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT filename, count(*) FROM read_parquet('FOLDER/[ab].parquet') GROUP BY 1", "not among its input's"),
        ("SELECT i FROM 'FOLDER/t.parquet' LIMIT 5", "rows as they come"),
        ("SELECT count(*) FROM (FROM 'FOLDER/t.parquet' USING SAMPLE 10)", "sample|SAMPLE"),
        ("SELECT sum(t.i) FROM t, range(3) r(x)", "the table function range"),
        ("SELECT content FROM read_text('FOLDER/t.csv') ORDER BY 1", "the table function read_text"),
    ],
)
def test_what_stays_says_why(host: tuple[Any, Path], sql: str, reason: str) -> None:
    con, folder = host
    with pytest.raises(duckdb.InvalidInputException, match=reason):
        con.execute(sql.replace("FOLDER", str(folder)))
