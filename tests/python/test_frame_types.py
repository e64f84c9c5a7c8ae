"""The types of columns of ``df()`` and ``fetchnumpy()``, beside DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy
import pandas
import pytest

import warpmill

TYPES = {
    "BOOLEAN": "true",
    "TINYINT": "1",
    "SMALLINT": "-2",
    "INTEGER": "3",
    "BIGINT": "9223372036854775807",
    "HUGEINT": "170141183460469231731687303715",
    "UTINYINT": "1",
    "USMALLINT": "2",
    "UINTEGER": "3",
    "UBIGINT": "18446744073709551615",
    "FLOAT": "1.5",
    "DOUBLE": "-1e300",
    "DECIMAL(9, 2)": "-1.1",
    "DECIMAL(18, 3)": "123456789012345.678",
    "DECIMAL(38, 4)": "0.7",
    "VARCHAR": "'x'",
    "BLOB": "'x'",
    "DATE": "'2024-02-29'",
    "TIME": "'01:02:03.5'",
    "TIMESTAMP": "'1500-01-02 03:04:05.000001'",
    "TIMESTAMP_S": "'2024-01-02 03:04:05'",
    "TIMESTAMP_MS": "'2024-01-02 03:04:05.5'",
    "TIMESTAMP_NS": "'2024-01-02 03:04:05.123456789'",
    "INTERVAL": "'1 month 2 days 03:04:05.5'",
    "INTEGER[]": "[1, 2]",
    "DOUBLE[]": "[1.5, NULL]",
    "BOOLEAN[]": "[true]",
    "VARCHAR[]": "['a', NULL]",
    "DATE[]": "['2024-01-02', NULL]",
    "DECIMAL(5, 2)[]": "[1.25]",
    "INTEGER[][]": "[[1, NULL], [2, 3], NULL]",
}
#: Values whose types casts do not name.
NESTED = {
    "STRUCT": "{'a': CAST(1 AS INTEGER), 'b': 'x'}",
    "STRUCT of a list": "{'a': [CAST(1 AS INTEGER), NULL], 'd': DATE '2024-01-02'}",
    "list of STRUCT": "[{'a': CAST(1 AS INTEGER)}, NULL]",
    "MAP": "MAP {'a': CAST(1 AS INTEGER), 'b': NULL}",
}
VALUES = {kind: f"CAST({value} AS {kind})" for kind, value in TYPES.items()} | NESTED
ROWS = {
    "one": "SELECT {x} AS x",
    "null": "SELECT CASE WHEN i <> 2 THEN {x} END AS x FROM (VALUES (1), (2), (3)) t(i) ORDER BY i",
    "nothing": "SELECT CASE WHEN i > 5 THEN {x} END AS x FROM (VALUES (1), (2)) t(i)",
    "empty": "SELECT {x} AS x FROM (VALUES (1)) t(i) WHERE i > 5",
}


def _plain(value: Any) -> Any:
    """A value that equal ones are equal to."""
    if isinstance(value, numpy.ma.MaskedArray):
        return ("masked", str(value.dtype), [_plain(part) for part in value.filled(0).tolist()], value.mask.tolist())
    if isinstance(value, numpy.ndarray):
        return ("array", str(value.dtype), [_plain(part) for part in value])
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if value is None or value is pandas.NA or value is pandas.NaT or value != value:
        return type(value).__name__
    return value


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", VALUES)
def test_frames_have_the_same_types(kind: str, rows: str) -> None:
    sql = ROWS[rows].format(x=VALUES[kind])
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        expected, found = theirs.sql(sql).df(), ours.sql(sql).df()
    assert found.dtypes.astype(str).to_dict() == expected.dtypes.astype(str).to_dict()
    assert [_plain(value) for value in found.x] == [_plain(value) for value in expected.x]
    assert found.index.equals(expected.index)


@pytest.mark.parametrize("rows", ROWS)
# Texts that are NULL in a list are None, not masked.
@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != "VARCHAR[]"])
def test_arrays_have_the_same_types(kind: str, rows: str) -> None:
    sql = ROWS[rows].format(x=VALUES[kind])
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        expected, found = theirs.sql(sql).fetchnumpy()["x"], ours.sql(sql).fetchnumpy()["x"]
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    if isinstance(expected, numpy.ma.MaskedArray):
        assert numpy.ma.getmaskarray(found).tolist() == numpy.ma.getmaskarray(expected).tolist()
        found, expected = found.compressed(), expected.compressed()
    assert [_plain(value) for value in found] == [_plain(value) for value in expected]


def test_sums_are_floats() -> None:
    sql = "SELECT sum(i) AS s, avg(i) AS a, count(*) AS n FROM (VALUES (1), (2)) t(i)"
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        assert ours.sql(sql).df().dtypes.to_dict() == theirs.sql(sql).df().dtypes.to_dict()


def test_moments_with_a_zone() -> None:
    with warpmill.connect() as con:
        frame = con.sql("SELECT TIMESTAMPTZ '2024-01-02 03:04:05+00' AS x UNION ALL SELECT NULL ORDER BY x").df()
    assert str(frame.x.dtype) == "datetime64[us, UTC]"
    assert frame.x.isna().tolist() == [False, True]


@pytest.mark.parametrize("sql", ["SELECT 1 AS a, 2 AS a, 3 AS a_1", "SELECT 1 AS a, 'x' AS \"A\""])
def test_names_that_are_there_twice(sql: str) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        assert ours.sql(sql).df().columns.tolist() == theirs.sql(sql).df().columns.tolist()
        assert list(ours.sql(sql).fetchnumpy()) == list(theirs.sql(sql).fetchnumpy())


def test_many_rows_in_several_batches() -> None:
    sql = (
        "SELECT range AS i, CASE WHEN range % 3 = 0 THEN NULL ELSE range END AS n, 't' || range AS s FROM range(300000)"
    )
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        pandas.testing.assert_frame_equal(
            ours.sql(f"{sql} ORDER BY i").df(), theirs.sql(f"{sql} ORDER BY i").df(), check_column_type=False
        )
