"""Statements that are refused instead of being misinterpreted."""

from __future__ import annotations

import pytest

import warpmill

TABLES = ("CREATE TABLE a AS SELECT 1 AS x", "CREATE TABLE b AS SELECT 2 AS y")


def test_positional_joins_have_no_conditions(con: warpmill.Connection) -> None:
    for table in TABLES:
        con.execute(table)
    with pytest.raises(warpmill.Error, match="ON"):
        con.sql("SELECT * FROM a positional JOIN b ON true").fetchall()


def test_positional_as_an_alias(con: warpmill.Connection) -> None:
    for table in TABLES:
        con.execute(table)
    assert con.sql("SELECT positional.x FROM a positional").fetchall() == [(1,)]
    assert con.sql("SELECT p.x, y FROM a AS positional JOIN b ON true JOIN a p ON true").fetchall() == [(1, 2)]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "+02:00", "Mars"])
def test_time_zones(con: warpmill.Connection, zone: str) -> None:
    with pytest.raises(warpmill.NotSupportedError, match="AT TIME ZONE"):
        con.execute(f"SET TimeZone = '{zone}'")
    for utc in ("UTC", "Etc/UTC", "+00:00"):
        con.execute(f"SET TimeZone = '{utc}'")
    assert con.sql("SELECT extract(hour FROM TIMESTAMPTZ '2024-01-01 09:00:00+09')").fetchall() == [(0,)]


def test_rows_within_rows_end_at_a_limit() -> None:
    compared = "(" * 12 + "(i, i) < (1, 2)" + ", i) < (true, 2)" * 12
    searched = "(i, i) NOT IN (SELECT i, i FROM t WHERE " * 12 + "true" + ")" * 12
    with warpmill.connect() as con:
        con.sql("CREATE TABLE t AS SELECT 1 AS i")
        for condition in (compared, searched):
            with pytest.raises(warpmill.LimitError, match="rows within rows"):
                con.sql(f"SELECT count(*) FROM t WHERE {condition}")
        assert con.sql("SELECT ((i, i) < (1, 2), i) < (true, 2) FROM t").fetchall() == [(True,)]
