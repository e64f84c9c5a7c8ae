"""Query parameters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import warpmill


@pytest.mark.parametrize(
    "value",
    [
        1,
        -(2**62),
        1.5,
        "it's",
        True,
        None,
        Decimal("12.340"),
        Decimal("-0.05"),
        dt.date(1970, 1, 1),
        dt.date(1905, 3, 4),
        dt.datetime(2024, 5, 6, 7, 8, 9, 10),
        b"\x00",
    ],
)
def test_values_come_back_as_they_went(con: warpmill.Connection, value: object) -> None:
    assert con.execute("SELECT ? AS v", [value]).fetchall() == [(value,)]


def test_positions_numbers_and_names(con: warpmill.Connection) -> None:
    assert con.sql("SELECT ? - ?", [5, 3]).fetchone() == (2,)
    assert con.sql("SELECT $2 - $1, $1", [5, 8]).fetchone() == (3, 5)
    assert con.sql("SELECT $b - $a, $a", {"a": 5, "b": 8}).fetchone() == (3, 5)


def test_strings_names_and_comments_hold_no_placeholders(con: warpmill.Connection) -> None:
    row = con.sql("SELECT '?', 'it''s $1' /* ? */, ? AS \"a?b\" -- ?", [7]).fetchone()
    assert row == ("?", "it's $1", 7)


def test_a_filter_takes_parameters(con: warpmill.Connection) -> None:
    con.register("t", {"a": [1, 2, 3], "s": ["x", "y", "y"]})
    assert con.sql("SELECT a FROM t WHERE a > ? AND s = ?", (1, "y")).fetchall() == [(2,), (3,)]


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("SELECT ?", [], "1 parameters, 0 values"),
        ("SELECT ?", [1, 2], "1 parameters, 2 values"),
        ("SELECT $a", {"b": 1}, r"\$a"),
        ("SELECT ?", {"a": 1}, "sequence"),
        ("SELECT ?", [Decimal(10) ** 40], "38 digits"),
    ],
)
def test_wrong_parameters_are_named(con: warpmill.Connection, sql: str, params: list[object], message: str) -> None:
    with pytest.raises(warpmill.BinderError, match=message):
        con.sql(sql, params)


def test_values_without_an_sql_type_are_refused(con: warpmill.Connection) -> None:
    with pytest.raises(TypeError, match="object"):
        con.sql("SELECT ?", [object()])
    with pytest.raises(TypeError, match="not one string"):
        con.sql("SELECT ?", "x")


def test_values_inside_each_other_have_a_limit(con: warpmill.Connection) -> None:
    own: list[object] = []
    own.append(own)
    named: dict[str, object] = {}
    named["a"] = named
    deep: list[object] = [1]
    for _ in range(3000):
        deep = [deep]
    for value in (own, named, deep, [named]):
        with pytest.raises(warpmill.LimitError, match="inside each other"):
            con.execute("SELECT ?", [value])
    few: object = 1
    for _ in range(50):
        few = [few]
    assert con.execute("SELECT ?", [few]).fetchone() == (few,)
