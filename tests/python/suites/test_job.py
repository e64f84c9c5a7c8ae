"""All queries of the Join Order Benchmark, where their texts are: every answer is DuckDB's, without any fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from suites import job as all_texts
from suites.test_suites import Engines
from warpmill.bench.verify import difference
from warpmill_bench.suites import imdb, job

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return all_texts.texts()


@pytest.fixture(scope="module")
def engines(texts: dict[str, str]) -> Iterator[Engines]:
    del texts
    with warpmill.connect(segment_rows=16_384) as ours, duckdb.connect() as theirs:
        for name, rows in imdb.tables().items():
            ours.create_table(name, rows)
            theirs.register("incoming", rows)
            theirs.execute(f"CREATE TABLE {name} AS FROM incoming")
        ours.set("fallback", "error")
        yield Engines(ours, theirs)


@pytest.mark.parametrize("query", job.NAMES)
def test_answers_are_duckdbs(engines: Engines, texts: dict[str, str], query: str) -> None:
    expected = engines.theirs.execute(texts[query])
    columns, rows = [column[0] for column in expected.description or ()], expected.fetchall()
    assert difference(engines.ours.sql(texts[query]).fetchall(), rows, columns, texts[query]) is None


def test_most_queries_find_rows(engines: Engines, texts: dict[str, str]) -> None:
    rows = {name: engines.theirs.execute(sql).fetchall()[0] for name, sql in texts.items()}
    found = {name for name, row in rows.items() if any(value is not None for value in row)}
    assert len(found) >= 90, sorted(set(rows) - found)
