"""TPC-DS as a suite: packages that are missing, texts with other literals, tables and answers of every engine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from extension import packages
from typer.testing import CliRunner, Result

from warpmill.bench.states import Source, State
from warpmill.cli import app
from warpmill_bench import suites
from warpmill_bench.maxbench import worker
from warpmill_bench.maxbench.answers import Answers
from warpmill_bench.maxbench.cells import Cell
from warpmill_bench.maxbench.worker import How
from warpmill_bench.suites import tpcds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from warpmill.bench.data import Data

#: The smallest one; the queries below find rows.
SIZE = tpcds.SMALLEST

#: A union of channels with ROLLUP, window functions, a count.
QUERIES = ("5", "67", "96")

runner = CliRunner()


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tpcds.VARIABLE, str(packages()))
        yield


@pytest.fixture(scope="module")
def data(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Data:
    del installed

    def silent(_: str) -> Callable[[int, int], None]:
        return lambda _done, _total: None

    return suites.prepare(tmp_path_factory.mktemp("tpcds"), "tpcds", SIZE, silent, duckdb=False)


def measured(engine: str, data: Data, *states: State, names: tuple[str, ...] = QUERIES) -> list[dict[str, Any]]:
    source = Source.PARQUET if State.NEW_PROCESS in states else Source.TABLES
    cell = Cell("tpcds", SIZE, engine, "cpu", source, "files" if source is Source.PARQUET else "host", states)
    queries = suites.queries("tpcds", SIZE, names, 1)
    known = Answers(suites.suite("tpcds"), data, 2, 60)
    how = How(threads=2, runs=1, processes=1, seconds=60)
    return list(worker.measure(cell, data, queries, how, known, lambda _: None))


def test_all_tables_are_made_once(data: Data) -> None:
    assert set(data.parquet) == set(tpcds.TABLES)
    assert len(tpcds.TABLES) == 24
    (folder,) = {path.parent for path in data.parquet.values()}
    assert {path.stem for path in folder.iterdir()} == set(tpcds.TABLES)


@pytest.mark.parametrize("engine", ["warpmill", "datafusion", "polars"])
def test_engines_have_duckdbs_rows(engine: str, data: Data) -> None:
    rows = measured(engine, data, State.NEW_STATEMENT, State.REPEATED)
    assert [(row["query"], row["state"]) for row in rows] == [
        (query, state) for query in QUERIES for state in ("new-statement", "repeated")
    ]
    for row in rows:
        assert row["rows"] > 0
        assert row["verified"] is True, row
        if engine == "warpmill":
            assert row["plans_kept"] == (row["state"] == "repeated"), row


def test_a_new_process_has_duckdbs_rows(data: Data) -> None:
    (row,) = measured("warpmill", data, State.NEW_PROCESS, names=("67",))
    assert row["verified"] is True
    assert row["median_ms"] > 0


def test_scale_factors_at_which_the_generator_does_not_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"TPC-DS has scale factors from 0.01 on, not 0.005"):
        tpcds.write({name: tmp_path / f"{name}.parquet" for name in tpcds.TABLES}, 0.005)
    assert list(tmp_path.iterdir()) == []


def test_statements_are_new_by_years_with_sales_and_limits(installed: None) -> None:
    del installed
    queries = suites.queries("tpcds", 1, None, 5)
    assert [query.name for query in queries] == [str(number) for number in range(1, 100)]
    assert {query.name for query in queries if not query.others} == {"9", "24", "87", "88"}
    for query in queries:
        assert ";" not in query.sql
        assert len({query.sql, *query.others}) == len(query.others) + 1, query.name
        for other in query.others:
            assert len(re.findall(r"\w+", other)) == len(re.findall(r"\w+", query.sql)), query.name


def test_years_move_together_within_those_that_have_sales() -> None:
    pair = "SELECT 1 FROM t WHERE y = 2000 OR y = 2000+1 OR d = '1999-02-22' ORDER BY 1 LIMIT 100"
    others = list(tpcds.others(pair))
    assert others[0] == pair.replace("2000", "1999").replace("1999-", "1998-").replace("LIMIT 100", "LIMIT 101")
    assert others[1] == pair.replace("2000", "2001").replace("1999-", "2000-").replace("LIMIT 100", "LIMIT 102")
    assert others[2] == pair.replace("LIMIT 100", "LIMIT 103")
    assert len(set(others)) == len(others) == 999
    assert list(tpcds.others("SELECT 1 FROM t WHERE y = 2001 AND p = y - 1 OR y = 2001 - 1")) == [
        f"SELECT 1 FROM t WHERE y = {year} AND p = y - 1 OR y = {year} - 1" for year in (1999, 2000, 2002)
    ]
    assert list(tpcds.others("SELECT count(*) FROM (SELECT 1 LIMIT 5)")) == []


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = re.escape(f"pip install --no-deps --target {tmp_path} {' '.join(tpcds.PACKAGES)}")
    monkeypatch.setenv(tpcds.VARIABLE, str(tmp_path))
    with pytest.raises(suites.TpcdsUnavailableError, match=f"has no packages for TPC-DS: .*{install}"):
        suites.queries("tpcds", 1)
    monkeypatch.delenv(tpcds.VARIABLE)
    own = {"duckdb": "2.0.0", "duckdb-extension-tpcds": None}
    monkeypatch.setattr(tpcds, "_version", own.get)
    with pytest.raises(suites.TpcdsUnavailableError, match=r"this Python has DuckDB 2.0.0 and no extension"):
        tpcds.packages()
    own["duckdb-extension-tpcds"] = "1.5.5"
    with pytest.raises(suites.TpcdsUnavailableError, match=r"has DuckDB 2.0.0 and that of 1.5.5\): run `python -m pip"):
        tpcds.packages()
    own["duckdb"] = "1.5.5"
    assert tpcds.packages() == ""
    # Packages that do not load end with the reason.
    for name in ("duckdb", "duckdb_extension_tpcds"):
        (tmp_path / name).mkdir()
    (tmp_path / "duckdb" / "__init__.py").write_text("raise ImportError('built for another Python')")
    with pytest.raises(suites.TpcdsUnavailableError, match=r"did not run \(texts\): .*built for another Python"):
        tpcds.texts(str(tmp_path))


def test_a_plan_goes_on_without_it_unless_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tpcds.VARIABLE, str(tmp_path))

    def listed(*options: str) -> Result:
        return runner.invoke(app, ["bench", "matrix", "--list", "--out", str(tmp_path), *options])

    done = listed("--device", "cpu", "--peers", "none")
    assert done.exit_code == 0, done.stderr
    assert f"not measured: suite tpcds: {tpcds.VARIABLE} names" in done.stderr
    assert "job26/" in done.stdout
    assert "tpcds" not in done.stdout
    done = listed("--suites", "tpcds")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {tpcds.VARIABLE} names {tmp_path}, which has no packages for TPC-DS: run `")
