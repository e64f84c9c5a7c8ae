"""TPC-H and SSB over two and four workers, beside DuckDB."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from distributed.support import Rows, Workers, in_order, is_distributed
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("count", ["two", "four"])
@pytest.mark.parametrize("suite", ["tpch", "ssb"])
def test_answers_are_duckdbs(suite: str, count: str, request: pytest.FixtureRequest) -> None:
    (database, answers), workers = request.getfixturevalue(suite), request.getfixturevalue(count)
    wrong, here = [], []
    with workers.connect(database) as con:
        for name, sql in _warpmill.queries(suite):
            # The second time, session and workers have kept its plans.
            for kept in (False, True):
                result = con.sql(sql)
                if in_order(result.fetchall()) != answers[name] or result.profile["plan_cached"] != kept:
                    wrong.append((name, kept))
            if not is_distributed(con, sql):
                here.append(name)
    assert (wrong, here) == ([], [])


def test_kept_plans_run_at_the_same_time(tpch: tuple[Path, dict[str, Rows]], two: Workers) -> None:
    """Several runs of one plan, and of the same plan in several sessions, do not meet."""
    database, answers = tpch
    queries = dict(_warpmill.queries("tpch"))
    names = ["1", "3", "5", "13", "18", "21"]
    with two.connect(database) as one, two.connect(database) as other, ThreadPoolExecutor(6) as threads:
        asked = [(con, name) for _ in range(3) for name in names for con in (one, one, other)]
        found = list(threads.map(lambda pair: in_order(pair[0].sql(queries[pair[1]]).fetchall()), asked))
    assert [name for (_, name), rows in zip(asked, found, strict=True) if rows != answers[name]] == []


def test_parquet_files(tpch: tuple[Path, dict[str, Rows]], two: Workers) -> None:
    """Files that all processes see, whole or in ranges of bytes."""
    database, answers = tpch
    with two.connect() as con:
        for name in _warpmill.tables("tpch"):
            con.execute(f"CREATE VIEW {name} AS SELECT * FROM '{database.parent}/{name}.parquet'")
        queries = dict(_warpmill.queries("tpch"))
        for name in ["1", "3", "5", "6", "13", "18"]:
            assert in_order(con.sql(queries[name]).fetchall()) == answers[name], name
        assert is_distributed(con, queries["1"])


def test_stages_and_segments_are_explained(tpch: tuple[Path, dict[str, Rows]], two: Workers) -> None:
    database, _ = tpch
    with two.connect(database) as con:
        text = con.explain(dict(_warpmill.queries("tpch"))["1"])
        assert f"workers: {', '.join(two.addresses)}" in text
        assert f"stage 1: 2 tasks on {', '.join(two.addresses)}; gathered" in text
        assert "lineitem: segments 0..18, 18..37" in text
        assert "WarpmillExec" in text.split("== stages ==")[1]
        # The same segments go to the same worker each time.
        assert con.explain(dict(_warpmill.queries("tpch"))["1"]) == text
        shuffled = con.explain("SELECT l_partkey, l_suppkey, sum(l_quantity) FROM lineitem GROUP BY ALL")
        assert "shuffled by [l_partkey" in shuffled


def test_warpmill_runs_all_of_the_stages(tpch: tuple[Path, dict[str, Rows]], two: Workers) -> None:
    """Both phases of aggregations are programs, too."""
    database, answers = tpch
    refused = []
    with two.connect(database, fallback="error") as con:
        for name, sql in _warpmill.queries("tpch"):
            try:
                assert in_order(con.sql(sql).fetchall()) == answers[name], name
            except Exception as error:
                refused.append((name, str(error)[:200]))
    assert refused == []
