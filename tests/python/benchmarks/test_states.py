"""Every query in every state, from tables and from Parquet, by Warpmill and its peers, all answers compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.support import command, report
from warpmill.bench.engines import Peer, UnsupportedError
from warpmill.bench.queries import Query
from warpmill.bench.runner import measure
from warpmill.bench.states import State
from warpmill.bench.verify import EXACT, Tolerance

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ["--sf", 0.01, "--threads", 2, "--runs", 2, "--processes", 1, "--verify"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "data"


def test_three_states_from_tables(tmp_path: Path, data: Path) -> None:
    where = ["--data", data, "--against", "duckdb,polars", "--queries", "1,11"]
    found, output = report(tmp_path / "report.json", "tpch", *SMALL, *where)
    assert (found["source"], found["processes"]) == ("tables", 1)
    assert set(found["totals_by_state_ms"]) == set(State)
    # Polars has nothing on disk that a new process could open, which is said, and is no time of zero.
    assert set(found["totals_by_state_ms"]["new-process"]) == {"warpmill", "duckdb"}
    assert "polars has its tables in memory only" in output
    rows = {(row["engine"], row["query"]): row["states"] for row in found["results"]}
    for query in ("1", "11"):
        ours = rows["warpmill", query]
        assert [ours[state]["verified"] for state in State] == [True, True, True]
        assert [ours[state]["plans_kept"] for state in State] == [0, 0, 2]
        assert [len(ours[state]["runs_ms"]) for state in State] == [1, 2, 2]
        new = ours["new-process"]
        assert set(new["steps_ms"]) == {"import", "open", "statement"}
        assert sum(new["steps_ms"].values()) <= new["median_ms"]
        assert [rows["polars", query][state]["verified"] for state in ("new-statement", "repeated")] == [True, True]
    for line in (
        "new statement (other literals in every run): warpmill had kept the plan in 0 of 4 runs",
        "repeated: warpmill had kept the plan in 4 of 4 runs",
        "new process: tpch at scale factor 0.01 from tables, 2 threads, on cpu, median of 1",
    ):
        assert line in " ".join(output.split())


@pytest.mark.long
def test_every_engine_reads_the_same_parquet_files(tmp_path: Path, data: Path) -> None:
    peers = ["duckdb", "datafusion", "polars"]
    where = ["--data", data, "--against", ",".join(peers), "--queries", "6,14", "--source", "parquet"]
    found, _ = report(tmp_path / "report.json", "tpch", *SMALL, *where)
    assert found["source"] == "parquet"
    assert set(found["totals_by_state_ms"]) == set(State)
    for state in State:
        assert all(found["totals_by_state_ms"][state][engine] > 0 for engine in ("warpmill", *peers))
    for row in found["results"]:
        verified = None if row["engine"] == "duckdb" else True
        assert [row["states"][state]["verified"] for state in State] == [verified] * 3
    # Plans over files are kept for the same text only.
    ours = [row["states"] for row in found["results"] if row["engine"] == "warpmill"]
    assert all(states["repeated"]["plans_kept"] > 0 == states["new-statement"]["plans_kept"] for states in ours)


def test_parquet_alone_makes_no_tables(tmp_path: Path) -> None:
    where = ["--data", tmp_path / "data", "--queries", "1.1", "--source", "parquet", "--states", "repeated"]
    found, _ = report(tmp_path / "report.json", "ssb", "--sf", 0.001, "--runs", 1, *where)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["parquet"]
    assert (found["processes"], list(found["totals_by_state_ms"])) == (0, ["repeated"])


def test_without_repeated_runs_the_row_has_no_times(tmp_path: Path, data: Path) -> None:
    where = ["--data", data, "--queries", "6", "--states", "new-statement"]
    found, _ = report(tmp_path / "report.json", "tpch", *SMALL, *where)
    (row,) = found["results"]
    assert (row["runs_ms"], row["median_ms"], found["totals_ms"]) == ([], None, {})
    assert row["states"]["new-statement"]["verified"] is True


@pytest.mark.slow
def test_a_wrong_answer_of_a_new_process_is_found(tmp_path: Path, data: Path) -> None:
    # Another database under the peer's name: its rows differ from the reference's.
    where = ["--data", tmp_path / "data", "--queries", "6", "--states", "new-process"]
    report(tmp_path / "report.json", "tpch", *SMALL, *where)
    (tmp_path / "data" / "parquet" / "lineitem.parquet").unlink()
    larger = data.parent / "larger"
    report(tmp_path / "other.json", "tpch", "--sf", 0.02, "--runs", 1, "--processes", 1, "--verify", "--data", larger,
           "--queries", "6", "--states", "new-process")  # fmt: skip
    (larger / "parquet" / "lineitem.parquet").rename(tmp_path / "data" / "parquet" / "lineitem.parquet")
    done = command("tpch", *SMALL, *where)
    assert done.returncode == 1
    assert "warpmill 6 differs from duckdb (new process): a new process: " in done.stderr


@dataclass
class Echo(Peer):
    """An engine that returns the query's text; from a given run on, another text."""

    name: str
    wrong_from: int = 1000
    fails_on: str = ""
    fixed_text: bool = False
    tolerance: Tolerance = EXACT
    ran: list[str] = field(default_factory=list)

    def run(self, sql: str) -> Any:
        if self.fails_on and self.fails_on in sql:
            raise UnsupportedError("no")
        self.ran.append(sql)
        return Text(sql if len(self.ran) <= self.wrong_from else "wrong")

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        return [(result.text,)]


@dataclass(frozen=True)
class Text:
    """A result."""

    text: str
    column_names: tuple[str, ...] = ("a",)


QUERY = Query("q", "SELECT 0", ("SELECT 1", "SELECT 2", "SELECT 3"))
BOTH = (State.NEW_STATEMENT, State.REPEATED)


def outcomes(engine: Echo, runs: int = 3) -> dict[State, Any]:
    measured = measure([engine], [QUERY], runs, Echo("duckdb"), lambda *_: None, BOTH)
    return {outcome.state: outcome for outcome in measured}


def test_a_new_statement_runs_once() -> None:
    engine = Echo("warpmill")
    found = outcomes(engine)
    assert engine.ran == ["SELECT 0", "SELECT 0", "SELECT 1", "SELECT 0", "SELECT 2", "SELECT 0", "SELECT 3"]
    assert [(found[state].verified, len(found[state].runs_ms)) for state in BOTH] == [(True, 3), (True, 3)]


def test_an_engine_without_sql_runs_the_same_query() -> None:
    engine = Echo("cudf-polars", fixed_text=True)
    found = outcomes(engine)
    assert set(engine.ran) == {"SELECT 0"}
    assert [found[state].verified for state in BOTH] == [True, True]


@pytest.mark.parametrize(("right", "state"), [(6, State.NEW_STATEMENT), (5, State.REPEATED)])
def test_a_wrong_answer_counts_for_the_state_that_it_is_of(right: int, state: State) -> None:
    found = outcomes(Echo("warpmill", wrong_from=right))
    assert found[state].verified is False
    assert found[state].error.startswith("a timed run: ")
    if state is State.NEW_STATEMENT:
        assert found[State.REPEATED].verified is True


def test_a_failure_of_one_state_leaves_the_other() -> None:
    found = outcomes(Echo("warpmill", fails_on="SELECT 2"))
    assert (found[State.NEW_STATEMENT].runs_ms, found[State.NEW_STATEMENT].verified) == ([], False)
    assert found[State.NEW_STATEMENT].error == "a timed run: no"
    assert (len(found[State.REPEATED].runs_ms), found[State.REPEATED].verified) == (3, True)
