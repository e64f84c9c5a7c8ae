"""The plans of `warpmill bench matrix`, the suites that they are made of, and how answers are compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from extension import packages

from suites import job
from warpmill.bench.states import Source, State
from warpmill_bench import suites
from warpmill_bench.maxbench import cells, profiles
from warpmill_bench.maxbench.answers import compared, digest_of
from warpmill_bench.maxbench.cells import Cell, Choice
from warpmill_bench.suites import groupby, hits, imdb, tpcds

EVERYTHING = Choice(tuple(one.name for one in suites.SUITES), ("cpu", "gpu"), cells.PEERS)
QUICK = Choice(("tpch", "h2o"), ("cpu", "sim"), ("duckdb", "polars"))


def test_a_plan_has_each_cell_once_and_the_model_first() -> None:
    plan = cells.full(EVERYTHING)
    pairs = [(cell.key, state) for cell in plan for state in cell.states]
    assert len(pairs) == len(set(pairs))
    first_peer = next(at for at, cell in enumerate(plan) if cell.engine != "warpmill")
    before = {(cell.suite, cell.size, cell.site, cell.location) for cell in plan[:first_peer]}
    for suite in suites.SUITES:
        for size in suite.sizes[:3]:
            assert {("cpu", "host"), ("gpu", "device"), ("gpu", "pinned")} <= {
                (site, location) for name, of, site, location in before if (name, of) == (suite.name, size)
            }
    # A suite has its sizes before the next one begins.
    order = [(cell.suite, cell.size) for cell in plan[:first_peer] if cell.location == "pinned"]
    assert order[:6] == [("tpch", 1), ("tpch", 3), ("tpch", 10), ("h2o", 1e6), ("h2o", 3e6), ("h2o", 1e7)]
    kinds = {(cell.engine, cell.source, state) for cell in plan for state in cell.states}
    assert kinds >= {
        (engine, Source.PARQUET, state) for engine in ("warpmill", "duckdb", "cudf-polars") for state in State
    }
    assert {cell.location for cell in plan} == {"device", "pinned", "host", "disk", "kept", "files"}
    assert {cell.suite for cell in plan if cell.engine == "cudf-polars"} == {"tpch"}
    assert {cell.suite for cell in plan if cell.engine == "pandas"} == {"h2o"}


def test_every_size_that_is_asked_for_is_in_the_plan() -> None:
    sizes = tuple(float(size) for size in range(1, 13))
    plan = cells.full(replace(EVERYTHING, suites=("taxi",), sizes=sizes))
    assert {cell.size for cell in plan if cell.location == "pinned"} == set(sizes)
    assert [cell.size for cell in plan if cell.location == "pinned"][:3] == [1.0, 2.0, 3.0]
    assert cells.full(replace(EVERYTHING, suites=())) == []


def test_a_quick_plan_is_small() -> None:
    plan = cells.quick(QUICK)
    assert {cell.size for cell in plan if cell.suite == "h2o"} == set(suites.suite("h2o").quick)
    assert all(cell.queries and len(cell.queries) <= 4 for cell in plan)
    new = [cell for cell in plan if State.NEW_PROCESS in cell.states]
    assert new
    assert {cell.suite for cell in new} == {"tpch"}


def test_a_choice_narrows_a_plan() -> None:
    hot = Choice(("ssb",), ("cpu",), (), (Source.TABLES,), (), (State.REPEATED,), (0.5,), ("1.1",))
    (only,) = cells.full(hot)
    assert only == Cell("ssb", 0.5, "warpmill", "cpu", Source.TABLES, "host", queries=("1.1",))
    assert cells.full(Choice(("ssb",), ("sim",), (), (Source.TABLES,), ("disk",), (State.REPEATED,), (1,)))[
        0
    ].settings == {
        "device": "sim",
        "device_fallback": "allow",
        "device_data": "disk",
    }


def test_copies_follow_from_the_place() -> None:
    def policy(site: str, location: str, source: Source = Source.TABLES) -> str:
        return Cell("tpch", 1, "warpmill", site, source, location).copy_policy

    assert policy("gpu", "device") == policy("cpu", "host") == policy("cpu", "kept", Source.PARQUET) == "per-dataset"
    assert policy("gpu", "pinned") == policy("gpu", "host") == policy("sim", "disk") == "per-query"
    assert policy("gpu", "files", Source.PARQUET) == "per-query"


@pytest.mark.parametrize("suite", suites.SUITES, ids=lambda suite: suite.name)
def test_a_suite_has_its_queries(suite: suites.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    if suite.name == "tpcds":
        monkeypatch.setenv(tpcds.VARIABLE, str(packages()))
    if suite.name == "job":
        job.texts()
    counts = {"tpch": 22, "ssb": 13, "h2o": 10, "clickbench": 43, "taxi": 4, "qj": 5}
    counts |= {"job26": 26, "job": 113, "tpcds": 99}
    found = suites.queries(suite.name, suite.quick[0])
    assert len(found) == counts[suite.name]
    names = {query.name for query in found}
    assert set(suite.few) <= names
    assert {one.query for one in suite.selections} <= names
    assert suite.any_rows | suite.nan_is_null <= names
    assert len(suite.quick) >= 3
    with pytest.raises(ValueError, match=f"{suite.name} has no query 'none'"):
        suites.queries(suite.name, 1, ("none",))


def test_other_texts_are_other_and_enough() -> None:
    for name in ("tpch", "ssb", "taxi"):
        for query in suites.queries(name, 0.01, None, 3):
            assert len({query.sql, *query.others}) == 4, (name, query.name)
    limits = [query for query in suites.queries("clickbench", 1, None, 2) if "LIMIT" in query.sql]
    assert all(len({query.sql, *query.others}) == 3 for query in limits)
    assert limits[0].others[0] == limits[0].sql.replace("LIMIT 10", "LIMIT 11")
    assert all(query.others == () for query in suites.queries("h2o", 1, None, 2))
    with pytest.raises(ValueError, match="there is no suite 'tpcx'"):
        suites.queries("tpcx", 1)


def test_generated_tables_are_the_same_in_batches_of_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hits.tables(3000)["hits"].equals(hits.tables(3000)["hits"])
    assert groupby.tables(3000)["x"].equals(groupby.tables(3000)["x"])
    monkeypatch.setattr(hits, "BATCH", 1000)
    monkeypatch.setattr(groupby, "BATCH", 1000)
    for batches in (hits.batches(2500), groupby.batches(2500)):
        parts = list(batches)
        assert [part.num_rows for part in parts] == [1000, 1000, 500]
        assert not parts[0].slice(0, 500).equals(parts[1].slice(0, 500))
    # Small ones of each: no division by nothing.
    assert hits.tables(1)["hits"].num_rows == groupby.tables(1)["x"].num_rows == 1
    assert set(imdb.tables(100)) == set(suites.suite("job26").tables)


def test_an_offset_cuts_rows_of_equal_keys_at_both_ends() -> None:
    sql = "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c DESC LIMIT 3 OFFSET 1"
    expected = [("b", 5), ("c", 4), ("d", 4)]
    assert compared([("a", 5), ("c", 4), ("e", 4)], expected, ["k", "c"], sql) is None
    assert compared([("a", 5), ("c", 4), ("e", 3)], expected, ["k", "c"], sql) is not None
    assert compared([("a", 5), ("c", 4)], expected, ["k", "c"], sql) is not None
    # Without OFFSET the rows before the last key are fixed.
    fixed = sql.replace(" OFFSET 1", "")
    assert compared([("a", 5), ("c", 4), ("e", 4)], expected, ["k", "c"], fixed) is not None
    assert compared([("b", 5), ("x", 4), ("e", 4)], expected, ["k", "c"], fixed) is None
    star = "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 2"
    assert compared([("b", 5), ("x", 4)], [("b", 5), ("c", 4)], ["k", "count_star()"], star) is None
    assert compared([("b", 5), ("x", 3)], [("b", 5), ("c", 4)], ["k", "count_star()"], star) is not None


def test_a_digest_has_a_sum_of_numbers_only() -> None:
    columns = [("a b", "BIGINT"), ("d", "DECIMAL(15,2)"), ("s", "VARCHAR"), ("t", "DATE")]
    assert digest_of("SELECT 1", columns) == (
        'SELECT count(*) AS a0, count("a b") AS a1, min("a b") AS a2, max("a b") AS a3, '
        'sum(CAST("a b" AS DOUBLE)) AS a4, '
        'count("d") AS a5, min("d") AS a6, max("d") AS a7, sum(CAST("d" AS DOUBLE)) AS a8, '
        'count("s") AS a9, min("s") AS a10, max("s") AS a11, count("t") AS a12, min("t") AS a13, max("t") AS a14 '
        "FROM (SELECT 1) AS all_rows"
    )


def test_kernels_count_as_what_their_pipeline_reads() -> None:
    labels = {
        "pipeline 0: scan lineitem": "from lineitem",
        "pipeline 2: rows of build #0": "from rows",
        "pipeline 3: top 10: bits from 20": "order by",
        "pipeline 12: groups to rows": "group by",
        "something new": "other",
    }
    assert {label: profiles.kernel_kind(label) for label in labels} == labels
    names = {"Probe Inner (direct, unique)": "join", "HashBuild": "join", "Aggregate (hash)": "group by"}
    names |= {"Sort (top 10)": "order by", "Rows of sink 0": "project", "Compaction Learning": "other"}
    assert {name: profiles.kind(name) for name in names} == names
    on_device = {"kernels": [{"label": "pipeline 0: scan t", "nanos": 2_000_000}, {"label": "x", "nanos": 0}]}
    host = [{"operators": [{"name": "Sort", "nanos": 1_000_000}]}]
    ran = {"programs": [{"on_device": on_device, "pipelines": host}, {"on_device": None, "pipelines": host}]}
    assert profiles.operators(ran) == {"from t": 2.0, "order by": 1.0}


def test_copies_are_summed_by_direction() -> None:
    copies = [
        {"what": "segments from pinned memory", "bytes": 100, "count": 2, "nanos": 3_000_000},
        {"what": "dictionaries to the device", "bytes": 10, "count": 1, "nanos": 0},
        {"what": "copied to pinned memory", "bytes": 100, "count": 2, "nanos": 5_000_000},
        {"what": "rows to the host", "bytes": 7, "count": 1, "nanos": 0},
    ]
    assert profiles.transfers(copies) == {
        "to device": {"bytes": 110, "count": 3, "ms": 3.0},
        "staged": {"bytes": 100, "count": 2, "ms": 5.0},
        "to host": {"bytes": 7, "count": 1, "ms": 0.0},
    }
    assert profiles.bytes_copied(copies, "read") == 0
