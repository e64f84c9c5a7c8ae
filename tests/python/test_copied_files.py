"""Files of COPY ... TO as DuckDB writes them, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {
    "empty texts and NULL": "SELECT '' AS a, NULL::VARCHAR AS b, 'x' AS c",
    "moments": "SELECT TIMESTAMP '2020-01-01 01:02:03' AS a, TIMESTAMP '2020-01-01 01:02:03.5' AS b",
    "dates": "SELECT DATE '2020-01-01' AS a, DATE '1500-01-01' AS b, NULL::DATE AS c",
    "zones and times": "SELECT TIMESTAMPTZ '2020-01-01 01:02:03+00' AS a, TIME '10:00:00' AS b",
    "marks": "SELECT 'a,b' AS a, 'q\"r' AS b, ' s' AS c, 'l' || chr(10) || 'm' AS d, 'NULL' AS \"e,f\", '|' AS g",
    "numbers": "SELECT 1.25 AS a, 1e20::DOUBLE AS b, true AS c, -5::TINYINT AS d, 0.1::FLOAT AS e",
    "nested": "SELECT [1, NULL] AS a, {'a': '', 'b': NULL, 'c': TIMESTAMP '2020-01-01'} AS b",
    "no rows": "SELECT 1 AS a, '' AS b WHERE false",
}
OPTIONS = (
    "FORMAT csv",
    "FORMAT csv, HEADER false, NULL 'NA'",
    "FORMAT csv, DELIMITER '|', QUOTE '''', ESCAPE '\\'",
    "FORMAT json",
)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rows", ROWS)
def test_files_are_those_of_duckdb(con: warpmill.Connection, tmp_path: Path, rows: str, options: str) -> None:
    extension = "json" if "json" in options else "csv"
    theirs = duckdb.connect()
    theirs.execute("SET TimeZone = 'UTC'")
    for name, engine in (("ours", con), ("theirs", theirs)):
        engine.execute(f"COPY ({ROWS[rows]}) TO '{tmp_path}/{name}.{extension}' ({options})")
    written = (tmp_path / f"theirs.{extension}").read_text()
    assert (tmp_path / f"ours.{extension}").read_text() == written
