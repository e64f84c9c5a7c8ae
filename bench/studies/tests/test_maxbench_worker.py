"""Cells of `warpmill bench matrix`: large results, wrong ones, statements that do not come to their end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from warpmill.bench.engines import EngineUnavailableError
from warpmill.bench.queries import Query
from warpmill.bench.states import Source, State
from warpmill_bench import suites
from warpmill_bench.maxbench import answers, worker
from warpmill_bench.maxbench.cells import Cell
from warpmill_bench.maxbench.worker import How

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from warpmill.bench.data import Data

SIZE = 3000

HOW = How(threads=2, runs=1, processes=1, seconds=60)


def silent(_: str) -> Callable[[int, int], None]:
    return lambda _done, _total: None


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return suites.prepare(tmp_path_factory.mktemp("h2o"), "h2o", SIZE, silent)


@pytest.fixture
def known(data: Data) -> answers.Answers:
    return answers.Answers(suites.suite("h2o"), data, 2, 60)


def cell(engine: str, *states: State, source: Source = Source.TABLES) -> Cell:
    location = "host" if source is Source.TABLES else "files"
    return Cell("h2o", SIZE, engine, "cpu", source, location, states or (State.REPEATED,))


def measured(
    of: Cell, data: Data, queries: list[Query], known: answers.Answers, how: How = HOW
) -> list[dict[str, Any]]:
    return list(worker.measure(of, data, queries, how, known, lambda _: None))


@pytest.mark.parametrize("engine", ["warpmill", "duckdb", "datafusion", "polars"])
def test_large_results_are_compared_by_a_statement_about_them(
    engine: str, data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker, "MOST_ROWS", 5)
    monkeypatch.setattr(answers, "MOST_ROWS", 5)
    # A separate store of answers: the rows are kept completely.
    known = answers.Answers(suites.suite("h2o"), data, 2, 60)
    known._kept, known._known = tmp_path / "answers.json", {}
    queries = suites.queries("h2o", SIZE, ("2", "5"))
    rows = measured(cell(engine), data, queries, known)
    assert [row["query"] for row in rows] == ["2", "5"]
    for row in rows:
        assert row["rows"] > 5
        assert row["verified"] is (None if engine == "duckdb" else True), row
    # Kept answers equal the learned ones.
    again = answers.Answers(suites.suite("h2o"), data, 2, 60)
    again._known = {sql: answers.Answer.of_json(one.as_json()) for sql, one in known._known.items()}
    assert again._known == known._known
    # One that differs in one column is found.
    right = known._known[queries[0].sql]
    assert right.rows is None
    assert right.digested is not None
    known._known[queries[0].sql] = replace(right, digested=(*right.digested[:-1], right.digested[-1] + 1))
    (wrong, other) = measured(cell(engine), data, queries, known)
    assert wrong["verified"] is False
    assert f"the rows differ in number {len(right.digested)} of SELECT count(*)" in wrong["error"]
    assert other["verified"] is not False


def test_wrong_rows_are_found_in_every_state(data: Data, known: answers.Answers) -> None:
    (query,) = suites.queries("h2o", SIZE, ("1",))
    known.learn([query.sql])
    right = known._known[query.sql]
    assert right.rows is not None
    known._known[query.sql] = replace(right, rows=[(row[0], row[1] + 1) for row in right.rows])
    both = (State.NEW_PROCESS, State.REPEATED)
    rows = measured(cell("polars", *both, source=Source.PARQUET), data, [query], known)
    assert [row["state"] for row in rows] == ["new-process", "repeated"]
    for row in rows:
        assert row["verified"] is False
        assert row["error"].startswith("no row (")
        assert row["median_ms"] > 0


def test_a_query_that_fails_is_no_time_and_no_end(data: Data, known: answers.Answers) -> None:
    good = suites.queries("h2o", SIZE, ("1",))
    bad = Query("bad", "SELECT nothing FROM x")
    known._known[bad.sql] = answers.Answer(["nothing"], 0, [])
    rows = measured(cell("warpmill"), data, [bad, *good], known)
    assert "median_ms" not in rows[0]
    assert "nothing" in rows[0]["error"]
    assert rows[1]["verified"] is True


def test_a_statement_that_takes_too_long_is_ended(data: Data, known: answers.Answers) -> None:
    good = suites.queries("h2o", SIZE, ("1",))
    slow = Query("slow", "SELECT count(*) FROM x a, x b, x c, x d WHERE a.v1 + b.v1 + c.v1 + d.v1 < 7")
    known._known[slow.sql] = answers.Answer(["count"], 1, [(0,)])
    known.learn([good[0].sql])
    rows = measured(cell("duckdb"), data, [slow, *good], known, replace(HOW, seconds=3))
    assert rows[0]["error"] == "took more than 3 s"
    # Another process answers the next query.
    assert rows[1]["median_ms"] > 0


def test_what_duckdb_does_not_run_is_not_compared(data: Data, known: answers.Answers) -> None:
    odd = Query("odd", "SELECT count(*) FROM x WHERE arrow_typeof(v1) = 'Int32'")
    for state in (State.REPEATED, State.NEW_PROCESS):
        (row,) = measured(cell("warpmill", state), data, [odd], known)
        assert row["median_ms"] > 0
        assert row["verified"] is None
        assert row["not_compared"].startswith("DuckDB did not run it: ")


def test_statements_are_new_only_where_there_are_literals(data: Data, known: answers.Answers) -> None:
    (query,) = suites.queries("h2o", SIZE, ("1",))
    other = replace(query, others=(query.sql.replace("sum(v1)", "sum(v1 + 1)"),))
    states = (State.NEW_STATEMENT, State.REPEATED)
    assert [row["state"] for row in measured(cell("warpmill", *states), data, [query], known)] == ["repeated"]
    new, repeated = measured(cell("warpmill", *states), data, [other], known)
    assert (new["state"], new["plans_kept"], new["verified"]) == ("new-statement", 0, True)
    assert (repeated["plans_kept"], repeated["verified"]) == (1, True)


def test_an_engine_that_is_not_there_says_so(data: Data, known: answers.Answers) -> None:
    of = replace(cell("cudf-polars", source=Source.PARQUET), site="gpu")
    with pytest.raises(EngineUnavailableError, match="cudf-polars is not installed"):
        measured(of, data, suites.queries("h2o", SIZE, ("1",)), known)


def test_nothing_is_begun_after_the_deadline(data: Data, known: answers.Answers) -> None:
    queries = suites.queries("h2o", SIZE, ("1",))
    states = tuple(State)
    assert measured(cell("duckdb", *states), data, queries, known, replace(HOW, deadline=0.0)) == []
    assert list(worker.filters(data, {"1": "SELECT id1 FROM x"}, replace(HOW, deadline=0.0), lambda _: None)) == []


def test_what_the_deadline_ends_is_missing_and_no_failure(data: Data, known: answers.Answers) -> None:
    good = suites.queries("h2o", SIZE, ("1",))
    known.learn([good[0].sql])
    slow = Query("slow", "SELECT count(*) FROM x a, x b, x c, x d WHERE a.v1 + b.v1 + c.v1 + d.v1 < 7")
    known._known[slow.sql] = answers.Answer(["count"], 1, [(0,)])
    for of in (cell("duckdb"), cell("duckdb", State.NEW_PROCESS)):
        begun = time.monotonic()
        late = replace(HOW, deadline=begun + 4)
        rows = measured(of, data, [*good, slow], known, late)
        assert 4 <= time.monotonic() - begun < 20
        assert {row["query"] for row in rows} <= {"1"}
        assert all(row["median_ms"] > 0 for row in rows)
    # So are a process that has not opened its tables, and filters.
    begun = time.monotonic()
    assert measured(cell("polars"), data, good, known, replace(HOW, deadline=begun + 0.05)) == []
    assert list(worker.filters(data, {"1": slow.sql}, replace(HOW, deadline=begun + 4), lambda _: None)) == []
    assert time.monotonic() - begun < 20


def test_answers_are_learned_until_the_deadline(data: Data, tmp_path: Path) -> None:
    slow = "SELECT count(*) FROM x a, x b, x c, x d WHERE a.v1 + b.v1 + c.v1 + d.v1 < 7"
    known = answers.Answers(suites.suite("h2o"), data, 2, 60)
    known._kept, known._known = tmp_path / "answers.json", {}
    known.learn(["SELECT 1"], time.monotonic() - 1)
    assert known._known == {}
    begun = time.monotonic()
    known.learn(["SELECT 1", slow, "SELECT 2"], begun + 4)
    assert time.monotonic() - begun < 20
    assert set(known._known) <= {"SELECT 1"}
    # They may be asked for again.
    assert known.unknown == {}


def test_runs_that_copy_warm_up_for_longer() -> None:
    def runs(site: str, location: str, source: Source = Source.TABLES) -> int:
        return worker._warm(Cell("h2o", SIZE, "warpmill", site, source, location))

    assert runs("gpu", "device") == runs("cpu", "host") == worker.WARM
    assert runs("gpu", "pinned") == runs("gpu", "host") == worker.WARM_COPIED
    assert runs("gpu", "files", Source.PARQUET) == worker.WARM
    assert runs("gpu", "kept", Source.PARQUET) == worker.WARM_KEPT


def test_filters_are_counted(data: Data) -> None:
    ((name, row),) = worker.filters(data, {"1": "SELECT id1 FROM x WHERE v1 = 3"}, HOW, lambda _: None)
    assert name == "1"
    assert 0.15 < row["rows_kept"] / SIZE < 0.23
    assert row["median_ms"] > 0
    assert row["bytes_read"] > 0
