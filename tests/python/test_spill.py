"""Queries whose working sets exceed the memory limit: temporary files, and the same answers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes that are too few for most of TPC-H at the scale factor here.
TINY = 64 << 10
SF = 0.05


def rows(relation: Any) -> list[str]:
    """Rows as text, sorted: rows with equal keys come in any order."""
    return sorted(map(str, relation.fetchall()))


def spilled(relation: warpmill.Relation) -> int:
    return sum(program["spilled_bytes"] for program in relation.profile["programs"])


def operators(relation: warpmill.Relation) -> list[dict[str, Any]]:
    programs = relation.profile["programs"]
    return [operator for program in programs for pipeline in program["pipelines"] for operator in pipeline["operators"]]


@pytest.fixture(scope="module")
def tpch() -> Iterator[warpmill.Connection]:
    with warpmill.connect(device="cpu", threads=2, fallback="error") as con:
        for name in _warpmill.tables("tpch"):
            con.generate("tpch", name, SF)
        yield con


@pytest.fixture(autouse=True)
def _own_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "tpch" in request.fixturenames:
        con = request.getfixturevalue("tpch")
        con.set("memory_limit", "unlimited")
        con.set("spill", "on")


#: Queries that need more than `TINY`; 2 and 17 group the rows of few keys only.
LARGE = {"3", "4", "5", "7", "8", "9", "10", "11", "13", "16", "18", "20", "21", "22"}


@pytest.mark.parametrize(("name", "sql"), list(_warpmill.queries("tpch")))
def test_tpch_has_the_same_answers(name: str, sql: str, tpch: warpmill.Connection) -> None:
    expected = rows(tpch.sql(sql))
    tpch.set("memory_limit", TINY)
    found = tpch.sql(sql)
    assert rows(found) == expected
    if name in LARGE:
        assert spilled(found) > 0
        shown = [
            operator for operator in operators(found) if any(key == "spilled_bytes" for key, _ in operator["counters"])
        ]
        assert shown, "no operator says that it spilled"


N = 300_000

#: All spilling operators, over keys with duplicates, skew and NULLs.
QUERIES = {
    "groups": """SELECT count(*), sum(n), sum(v), min(lo), max(hi), round(sum(x), 3), sum(d) FROM (
                 SELECT k, count(*) AS n, sum(v) AS v, min(s) AS lo, max(s) AS hi, avg(x) AS x,
                 count(DISTINCT v % 10) AS d FROM a GROUP BY k) AS g""",
    "moments": "SELECT round(sum(d), 6) FROM (SELECT k, stddev(x) AS d FROM a GROUP BY k) AS g",
    "strings": "SELECT s, count(*), min(k), max(v) FROM a GROUP BY s HAVING count(*) > 40",
    "distinct": "SELECT count(DISTINCT k), count(DISTINCT s), sum(DISTINCT v) FROM a",
    "inner": "SELECT count(*), sum(a.v), sum(b.v), min(b.s) FROM a JOIN b ON a.k = b.k",
    "by string": "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON a.s = b.s",
    "left": "SELECT count(*), count(b.k), sum(b.v) FROM a LEFT JOIN b ON a.k = b.k AND a.v < b.v",
    "right": "SELECT count(*), count(a.k), sum(b.v) FROM a RIGHT JOIN b ON a.k = b.k AND a.v % 3 = 0",
    "full": "SELECT count(*), count(a.k), count(b.k), sum(a.v), sum(b.v) FROM a FULL JOIN b ON a.k = b.k AND a.v < b.v",
    "semi": "SELECT count(*), sum(v) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND b.v <> a.v)",
    "anti": "SELECT count(*), sum(v) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND b.v <> a.v)",
    "in": "SELECT count(*), sum(v) FROM a WHERE k IN (SELECT k FROM b WHERE v > 10) OR v < 5",
    "two joins": "SELECT count(*), sum(a.v + b.v + c.v) FROM a JOIN b ON a.k = b.k JOIN b AS c ON a.v = c.k",
    "many first rows": "SELECT k, v, s FROM a ORDER BY s DESC NULLS LAST, v, k NULLS FIRST, x LIMIT 2000 OFFSET 120000",
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(7)

    def table(n: int, keys: int) -> pa.Table:
        k = random.integers(0, keys, n)
        v = random.integers(0, 1000, n)
        return pa.table(
            {
                "k": pa.array(k, pa.int64(), mask=k % 17 == 3),
                "v": pa.array(v, pa.int32()),
                "x": pa.array(v / 8),
                "s": pa.array([None if i % 31 == 0 else f"a rather long string {i}" for i in (k % 9973).tolist()]),
            }
        )

    return {"a": table(N, 100_000), "b": table(N // 4, 150_000)}


@pytest.fixture(scope="module")
def limited(tables: dict[str, pa.Table]) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device="cpu", threads=2, memory_limit="1MB") as con:
        for name, table in tables.items():
            con.create_table(name, table)
        yield con


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_duckdbs(name: str, tables: dict[str, pa.Table], limited: warpmill.Connection) -> None:
    found = limited.sql(QUERIES[name])
    with duckdb.connect() as duck:
        for table, data in tables.items():
            duck.register(table, data)
        assert rows(found) == rows(duck.sql(QUERIES[name]))
    assert spilled(found) > 0


def test_explain_analyze_tells_the_strategy(limited: warpmill.Connection) -> None:
    plan = limited.explain(QUERIES["inner"], analyze=True)
    build = next(line for line in plan.splitlines() if "HashBuild" in line)
    probe = next(line for line in plan.splitlines() if "Probe Inner" in line)
    assert all(told in build for told in ("hybrid", "spilled_bytes=", "spill_partitions=")), plan
    assert all(told in probe for told in ("spilled: hybrid", "spilled_bytes=", "spill_tables=")), plan
    assert "bytes held at most" in plan, plan
    aggregate = limited.explain(QUERIES["groups"], analyze=True)
    assert "Aggregate (hash, spilled)" in aggregate, aggregate
    assert "spilled_bytes" not in limited.explain("SELECT count(*) FROM a", analyze=True)


def test_a_join_whose_build_side_is_many_times_the_limit(tables: dict[str, pa.Table]) -> None:
    query = "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON a.k = b.k AND a.v = b.v"
    with warpmill.connect(device="cpu", threads=2, memory_limit="128KB") as con:
        for name, table in tables.items():
            con.create_table(name, table)
        found = con.sql(query)
        build = next(operator for operator in operators(found) if operator["name"].startswith("HashBuild"))
        assert dict(build["counters"])["spilled_bytes"] >= 4 * (128 << 10)
        con.set("memory_limit", "unlimited")
        assert rows(found) == rows(con.sql(query))


def test_off_is_off(limited: warpmill.Connection) -> None:
    limited.set("spill", "off")
    try:
        with pytest.raises(warpmill.OutOfMemoryError, match=r"warpmill\.memory_limit"):
            limited.sql(QUERIES["inner"])
    finally:
        limited.set("spill", "on")


def test_results_without_order_have_to_fit(limited: warpmill.Connection) -> None:
    with pytest.raises(warpmill.OutOfMemoryError, match="Collect"):
        limited.sql("SELECT k, v, x FROM a")


#: Results that are many times the limit: all rows of a sort, with keys that repeat and NULLs, and of an aggregation.
RESULTS = {
    "sort": "SELECT k, v, x, s FROM a ORDER BY v, s DESC NULLS LAST, k NULLS FIRST, x",
    "sort of a join": "SELECT a.k, a.v, b.v AS w, b.s FROM a JOIN b ON a.k = b.k ORDER BY 3 DESC, 1, 2, 4 NULLS FIRST",
    "all but some": "SELECT k, s FROM a ORDER BY k DESC NULLS FIRST, s NULLS LAST, v LIMIT 250000 OFFSET 1000",
    "sorted groups": "SELECT k, v, count(*) AS n, min(s) AS s FROM a GROUP BY k, v ORDER BY k NULLS LAST, v",
    "groups": "SELECT k, v, count(*) AS n FROM a GROUP BY k, v",
    "none": "SELECT k, v FROM a WHERE v < 0 ORDER BY v, k",
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_come_out_of_files(
    name: str, tables: dict[str, pa.Table], limited: warpmill.Connection, tmp_path: Path
) -> None:
    sql = RESULTS[name]
    with duckdb.connect() as duck:
        for table, data in tables.items():
            duck.register(table, data)
        expected = list(map(str, duck.sql(sql).fetchall()))
    ordered = "ORDER BY" in sql
    found = limited.sql(sql)
    if name != "none":
        assert spilled(found) > 1 << 20
    if name == "sort":
        # The rows take more than 10 MB; operators held the limit, plus the minimum of each.
        assert all(program["peak_memory"] < 4 << 20 for program in found.profile["programs"])
    given = list(map(str, found.fetchall()))
    assert (given if ordered else sorted(given)) == (expected if ordered else sorted(expected))
    limited.sql(f"CREATE OR REPLACE TABLE copied AS {sql}")
    assert limited.sql("SELECT count(*) FROM copied").fetchall() == [(len(expected),)]
    limited.sql("DROP TABLE copied")
    if name in {"sort", "groups"}:
        target = tmp_path / "rows.parquet"
        limited.sql(f"COPY ({sql}) TO '{target}'")
        read = [str(tuple(row.values())) for row in pq.read_table(target).to_pylist()]
        assert (read if ordered else sorted(read)) == (expected if ordered else sorted(expected))


@pytest.mark.parametrize("name", ["groups", "inner", "many first rows"])
def test_a_full_disk_fails_the_query_only(name: str, limited: warpmill.Connection, tmp_path: Path) -> None:
    limited.set("temp_directory", tmp_path)
    limited.set("temp_directory_limit", "100KB")
    try:
        with pytest.raises(warpmill.OutOfMemoryError, match=r"warpmill\.temp_directory_limit") as error:
            limited.sql(QUERIES[name])
        assert str(tmp_path) in str(error.value)
        assert list(tmp_path.iterdir()) == []
        limited.set("temp_directory", "/proc/nowhere")
        with pytest.raises(warpmill.Error, match=r"/proc/nowhere.*warpmill\.temp_directory"):
            limited.sql(QUERIES[name])
    finally:
        limited.set("temp_directory", "")
        limited.set("temp_directory_limit", "unlimited")
    assert spilled(limited.sql(QUERIES[name])) > 0


def test_nothing_is_left_behind(limited: warpmill.Connection, tmp_path: Path) -> None:
    seen: set[str] = set()
    directory = tmp_path / "made" / "when needed"
    limited.set("temp_directory", directory)
    running = True

    def watch() -> None:
        while running:
            if directory.exists():
                seen.update(path.name for path in directory.iterdir())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert spilled(limited.sql(QUERIES["inner"])) > 0
    finally:
        running = False
        watcher.join()
        limited.set("temp_directory", "")
    assert list(directory.iterdir()) == []
    assert all(name.startswith("warpmill-") for name in seen)
