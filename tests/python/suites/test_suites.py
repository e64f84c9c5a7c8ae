"""H2O group-by, ClickBench and the Join Order Benchmark: every answer is DuckDB's, without any fallback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from warpmill.bench.verify import difference
from warpmill_bench.suites import QUERIES, groupby, hits, imdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUITES: dict[str, Callable[[], dict[str, Any]]] = {"h2o": groupby.tables, "clickbench": hits.tables, "job": imdb.tables}

#: A LIMIT without ORDER BY keeps any rows: only their number is compared.
ANY_ROWS = {("clickbench", "17")}


@dataclass
class Engines:
    """Both engines with the tables of a suite."""

    ours: warpmill.Connection
    theirs: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[[str], Engines]]:
    made: dict[str, Engines] = {}

    def of(suite: str) -> Engines:
        if suite not in made:
            pair = made[suite] = Engines(warpmill.connect(segment_rows=16_384), duckdb.connect())
            for name, rows in SUITES[suite]().items():
                pair.ours.create_table(name, rows)
                pair.theirs.register("incoming", rows)
                pair.theirs.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        return made[suite]

    yield of
    for pair in made.values():
        pair.ours.close()
        pair.theirs.close()


def named(suite: str) -> list[tuple[str, str]]:
    paths = sorted((QUERIES / suite).glob("q*.sql"))
    assert paths, f"no queries in {QUERIES / suite}"
    return [(suite, path.stem[1:]) for path in paths]


@pytest.mark.parametrize(("suite", "query"), [pair for suite in SUITES for pair in named(suite)])
def test_answers_are_duckdbs(engines: Callable[[str], Engines], suite: str, query: str) -> None:
    pair = engines(suite)
    sql = (QUERIES / suite / f"q{query}.sql").read_text(encoding="utf-8")
    expected = pair.theirs.execute(sql)
    columns, rows = [column[0] for column in expected.description or ()], expected.fetchall()
    pair.ours.set("fallback", "error")
    actual = pair.ours.sql(sql).fetchall()
    if (suite, query) in ANY_ROWS:
        assert len(actual) == len(rows)
    else:
        assert difference(actual, rows, columns, sql.replace("COUNT(*) DESC", f"{len(columns)} DESC")) is None
