"""pandas as an engine of `warpmill bench matrix`: all queries of the group-by benchmark, from frames and from files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from warpmill.bench.engines import UnsupportedError
from warpmill.bench.processes import Served
from warpmill.bench.states import Source, State
from warpmill_bench import pandas_groupby, suites
from warpmill_bench.maxbench import answers, cells, worker
from warpmill_bench.maxbench.cells import Cell, Choice
from warpmill_bench.maxbench.session import Report, Session
from warpmill_bench.maxbench.worker import How

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from warpmill.bench.data import Data

#: So few rows that some groups have NULL only, and many one row.
SIZE = 2000

HOW = How(threads=2, runs=1, processes=1, seconds=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    def silent(_: str) -> Callable[[int, int], None]:
        return lambda _done, _total: None

    return suites.prepare(tmp_path_factory.mktemp("h2o"), "h2o", SIZE, silent, tables=False, duckdb=False)


def cell(source: Source, *states: State) -> Cell:
    return Cell("h2o", SIZE, "pandas", "cpu", source, "host" if source is Source.TABLES else "files", states)


def measured(of: Cell, data: Data, names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    known = answers.Answers(suites.suite("h2o"), data, 2, 60)
    return list(worker.measure(of, data, suites.queries("h2o", SIZE, names), HOW, known, lambda _: None))


@pytest.mark.parametrize("source", list(Source))
def test_every_query_has_duckdbs_rows(source: Source, data: Data) -> None:
    rows = measured(cell(source, State.REPEATED), data)
    assert [row["query"] for row in rows] == list(pandas_groupby.QUERIES)
    for row in rows:
        assert row["verified"] is True, row
        assert row["rows"] > 5
        assert row["median_ms"] > 0


def test_a_new_process_imports_pandas_and_reads_files(data: Data) -> None:
    (row,) = measured(cell(Source.PARQUET, State.NEW_PROCESS), data, ("1",))
    assert row["verified"] is True
    assert row["steps_ms"]["import"] > row["steps_ms"]["open"]


def test_rows_that_are_too_many_are_counted(data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "MOST_ROWS", 5)
    monkeypatch.setattr(answers, "MOST_ROWS", 5)
    other = replace(data, database=tmp_path / "warpmill")
    (row,) = measured(cell(Source.PARQUET, State.REPEATED), other, ("5",))
    assert row["verified"] is None
    assert row["rows_counted_only"] == "the engine takes no SQL"


def test_a_query_that_is_not_written_is_named(data: Data) -> None:
    served = Served(worker.launched(cell(Source.PARQUET, State.REPEATED), data, HOW))
    try:
        with pytest.raises(UnsupportedError, match=r"warpmill_bench.pandas_groupby has no query '11'"):
            served.answer_within(60, {"name": "11", "sql": "", "most_rows": 5})
    finally:
        served.close()


def test_other_suites_are_said_to_be_not_written(tmp_path: Path) -> None:
    choice = Choice(("tpch", "h2o"), ("cpu",), ("pandas",), (Source.TABLES,), states=(State.REPEATED,))
    assert {of.suite for of in cells.full(choice) if of.engine == "pandas"} == {"h2o"}
    report = Report.open(tmp_path / "matrix.json", "warpmill bench matrix", quick=True)
    report.content["links"] = [{"link": "memory copy"}]
    said: list[str] = []
    session = Session(report, tmp_path, HOW, True, lambda _: None, said.append, lambda _: lambda _done, _total: None)
    session.run([], choice, [], lambda: None)
    skipped = [row for row in report.content["skipped"] if "pandas" in row["what"]]
    assert skipped == [{"what": "pandas on tpch from tables", "reason": "its queries are not written for pandas"}]
    assert "not measured: pandas on tpch from tables: its queries are not written for pandas" in said
    assert report.content["machine"]["versions"]["pandas"]
