"""TPC-DS over two workers, and over two of Ballista's executors, beside DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from distributed.ballista import Ballista, is_job, rows
from distributed.support import Workers, is_distributed
from suites import tpcds
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Queries that one process runs, and why.
HERE = {41: "one row segment"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str], dict[int, tuple[list[str], Any]]]:
    """The database, whose large tables have several row segments, the queries, and DuckDB's columns and rows."""
    try:
        tables, queries = tpcds.suite()
    except tpcds.UnavailableError as reason:
        pytest.skip(f"no TPC-DS: {reason}")
    folder = tmp_path_factory.mktemp("tpcds") / "db"
    answers = {}
    with warpmill.connect(folder, device="cpu") as con, duckdb.connect() as other:
        con.execute("SET warpmill.segment_rows = 2048")
        for name, path in tables.items():
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
            other.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path}'")
        queries = {number: sql.strip().rstrip(";") for number, sql in queries.items()}
        for number, sql in queries.items():
            result = other.execute(sql)
            answers[number] = ([column[0] for column in result.description], result.fetchall())
    return folder, queries, answers


@pytest.fixture(scope="module", params=["workers", "ballista"])
def door(request: pytest.FixtureRequest, suite: Any) -> Iterator[tuple[Callable[[str], Any], Callable[[str], bool]]]:
    """A function for the rows of a query, and one that says whether several processes run it."""
    if request.param == "workers":
        with Workers(2) as workers, workers.connect(suite[0]) as con:
            yield lambda sql: con.sql(sql).fetchall(), lambda sql: is_distributed(con, sql)
        return
    with Ballista(suite[0], 2) as ballista, ballista.connect() as other:
        yield lambda sql: rows(other, sql), lambda sql: is_job(other, sql)


@pytest.mark.parametrize("number", range(1, 100))
def test_equal_to_duckdb(suite: Any, door: Any, number: int) -> None:
    _, queries, answers = suite
    run, is_spread = door
    columns, expected = answers[number]
    assert difference(run(queries[number]), expected, columns, queries[number]) is None
    assert is_spread(queries[number]) == (number not in HERE)
