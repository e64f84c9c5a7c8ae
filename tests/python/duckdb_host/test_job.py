"""All queries of the Join Order Benchmark through `warpmill.duckdb` in strict mode, if their texts are available."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import warpmill.duckdb
from suites import job as all_texts
from warpmill.bench.verify import difference
from warpmill_bench.suites import imdb, job

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def suite() -> Iterator[tuple[Any, dict[str, str]]]:
    texts = all_texts.texts()
    con = warpmill.duckdb.connect()
    for name, incoming in imdb.tables().items():
        con.register("incoming", incoming)
        con.execute(f"CREATE TABLE {name} AS FROM incoming")
        con.unregister("incoming")
    con.execute("SET warpmill_fallback = 'error'")
    yield con, texts
    con.close()


@pytest.mark.parametrize("query", job.NAMES)
def test_equal_to_duckdb(suite: tuple[Any, dict[str, str]], query: str) -> None:
    con, sql = suite[0], suite[1][query]
    con.execute("SET warpmill_enabled = false")
    expected = con.execute(sql)
    columns = [(column[0], str(column[1])) for column in expected.description]
    expected_rows = expected.fetchall()
    con.execute("SET warpmill_enabled = true")
    result = con.execute(sql)
    assert [(column[0], str(column[1])) for column in result.description] == columns
    rows = result.fetchall()
    [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
    assert accelerated, reason
    assert difference(rows, expected_rows, [name for name, _ in columns], sql) is None
