"""Python values of every kind as parameters of statements, beside DuckDB where that takes them."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from typing import Any

import duckdb
import numpy
import pandas
import pytest

import warpmill

SAME: tuple[Any, ...] = (
    [1, 2],
    [1, None],
    ["a", "it's"],
    [1, 2.5],
    [1, "a"],
    [True, 1],
    [[1], [2, 3], None],
    (1, 2),
    {"a": 1, "b": "x"},
    {"a b": [1, 2], "c": None},
    [{"a": 1}, {"a": 2}],
    [datetime.date(2024, 1, 1), None],
    [decimal.Decimal("1.5"), decimal.Decimal("-22.25")],
    [b"x", b"\x00"],
    [1, 2**70],
    bytearray(b"x\x00"),
    memoryview(b"x"),
    datetime.time(1, 2, 3, 4),
    numpy.str_("x"),
    numpy.bytes_(b"x"),
    numpy.datetime64("2024-01-01"),
    numpy.datetime64("2024-01-01T01:02:03"),
    numpy.array([1, 2]),
    2**63,
    -(2**100),
    pandas.Timestamp("2024-01-01 01:02:03"),
    pandas.NaT,
    pandas.NA,
    decimal.Decimal("NaN"),
)


def named(value: Any) -> str:
    """The name of a case, equal in every process: without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize("value", SAME, ids=named)
def test_the_same_value(value: Any) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        found, expected = (con.execute("SELECT ? AS x", [value]).fetchone() for con in (ours, theirs))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], []),
        (uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        (numpy.int8(-1), -1),
        (numpy.uint64(2**63), 2**63),
        (numpy.float32(1.5), 1.5),
        (numpy.bool_(True), True),
        (numpy.array(["a", None], dtype=object), ["a", None]),
        (numpy.datetime64("2024-01-01T01:02:03.000000001"), datetime.datetime(2024, 1, 1, 1, 2, 3)),
        (pandas.Series([1.5, 2.5]), [1.5, 2.5]),
    ],
    ids=named,
)
def test_other_values(value: Any, expected: Any) -> None:
    with warpmill.connect() as con:
        assert con.execute("SELECT ? AS x", [value]).fetchone() == (expected,)


@pytest.mark.parametrize(
    "value",
    [
        datetime.timedelta(days=1, hours=2, microseconds=5),
        datetime.timedelta(days=-1, seconds=5),
        datetime.timedelta(0),
        pandas.Timedelta("3 days 00:00:01"),
    ],
    ids=named,
)
def test_intervals(value: Any) -> None:
    sql = "SELECT TIMESTAMP '2024-01-01' + ? AS x, ? > INTERVAL 1 DAY AS y"
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        found, expected = (con.execute(sql, [value, value]).fetchone() for con in (ours, theirs))
    assert found == expected


QUERIES: tuple[tuple[str, list[Any]], ...] = (
    ("SELECT list_contains(?, 2)", [[1, 2]]),
    ("SELECT x FROM (VALUES (1), (2), (3)) t(x) WHERE x IN (SELECT unnest(?)) ORDER BY x", [[1, 2]]),
    ("SELECT x FROM (VALUES (1), (2), (3)) t(x) WHERE x = ANY(?) ORDER BY x", [[1, 3]]),
    ("SELECT x FROM (VALUES (1), (2), (3)) t(x) WHERE x IN ? ORDER BY x", [(1, 3)]),
    ("SELECT unnest(?) AS x", [["a", "b"]]),
    ("SELECT len(?), ?[1]", [[1, 2], ["x", "y"]]),
    ("SELECT struct_extract(?, 'b')", [{"a": 1, "b": "x"}]),
    ("SELECT TIME '01:00' < ?", [datetime.time(2)]),
    ("SELECT octet_length(?)", [bytearray(b"abc")]),
)


@pytest.mark.parametrize(("sql", "params"), QUERIES)
def test_queries(sql: str, params: list[Any]) -> None:
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        found, expected = (con.execute(sql, params).fetchall() for con in (ours, theirs))
    assert found == expected


@pytest.mark.parametrize(
    ("value", "culprit"),
    [
        ({1, 2}, "set"),
        (2**200, "38 digits"),
        ({}, "dict"),
        (datetime.time(1, tzinfo=datetime.UTC), "time zone"),
        ([1, [2]], "in common"),
        ([1, {3}], "set"),
        (object(), "object"),
    ],
    ids=named,
)
def test_what_is_no_parameter(value: Any, culprit: str) -> None:
    with warpmill.connect() as con, pytest.raises((TypeError, warpmill.Error), match=culprit):
        con.execute("SELECT ?", [value])
