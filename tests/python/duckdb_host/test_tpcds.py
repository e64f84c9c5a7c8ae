"""TPC-DS through `warpmill.duckdb`: all answers are DuckDB's; unaccelerated queries are listed with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import warpmill.duckdb
from suites import tpcds
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Queries that stay with DuckDB, and why. One that does no longer fails the test: take it out here.
LEFT: dict[int, str] = {}


@pytest.fixture(scope="module")
def suite() -> Iterator[tuple[Any, dict[int, str]]]:
    try:
        tables, queries = tpcds.suite()
    except tpcds.UnavailableError as reason:
        pytest.skip(f"no TPC-DS: {reason}")
    con = warpmill.duckdb.connect()
    for name, path in tables.items():
        con.execute(f"CREATE TABLE {name} AS FROM '{path}'")
    yield con, queries
    con.close()


def test_the_suite_is_whole(suite: tuple[Any, dict[int, str]]) -> None:
    assert sorted(suite[1]) == list(range(1, 100))


@pytest.mark.parametrize("number", range(1, 100))
def test_equal_to_duckdb(suite: tuple[Any, dict[int, str]], number: int) -> None:
    con, sql = suite[0], suite[1][number].strip().rstrip(";")
    con.execute("SET warpmill_enabled = false")
    expected = con.execute(sql)
    columns = [(column[0], str(column[1])) for column in expected.description]
    expected_rows = expected.fetchall()
    con.execute("SET warpmill_enabled = true")
    result = con.execute(sql)
    assert [(column[0], str(column[1])) for column in result.description] == columns
    rows = result.fetchall()
    [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
    assert difference(rows, expected_rows, [name for name, _ in columns], sql) is None
    if number in LEFT:
        assert not accelerated, "it is accelerated: take it out of LEFT"
        assert LEFT[number] in reason
    else:
        assert accelerated, reason
