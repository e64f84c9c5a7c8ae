"""Aggregations that are joined on a group key: rows of groups that the join drops are not read."""

from __future__ import annotations

import decimal
import json
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 60_000
KEYS = 3_000

DEVICES = ["cpu"]
if json.loads(_warpmill.devices())["no_simulated_device"] is None:
    DEVICES.append("sim")


def _facts() -> pa.Table:
    """Rows with one frequent key (a third), some NULLs, and partial sums beyond the total's range."""
    keys = [None if i % 97 == 0 else 7 if i % 3 == 0 else (i * 7919) % KEYS for i in range(ROWS)]
    return pa.table(
        {
            "k": pa.array(keys, pa.int32()),
            "k2": pa.array([i % 5 for i in range(ROWS)], pa.int64()),
            "name": pa.array([None if k is None else f"name {k % 400}" for k in keys]),
            "v": pa.array([None if i % 41 == 0 else (i * 31) % 1000 - 500 for i in range(ROWS)], pa.int64()),
            "swing": pa.array([120 if i % 2 else -120 for i in range(ROWS)], pa.int16()),
        }
    )


def _few() -> pa.Table:
    keys = [7, 11, 11, 2_999, 5_000_000, None, 0]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "k2": pa.array([0, 1, 2, 3, 4, 0, None], pa.int64()),
            "name": pa.array(["name 7", "name 11", "name 11", "name 199", "nobody", None, "name 0"]),
            "mark": pa.array(["a", "b", "a", "b", "a", "b", "a"]),
        }
    )


#: Queries in which the keys of `few` prune a scan of `facts` below the aggregation.
PRUNED = {
    "scalar of the key": """SELECT f.k, f.mark, s FROM few f
        JOIN (SELECT k, sum(v) AS s, count(*) AS n FROM facts GROUP BY k) a ON a.k = f.k""",
    "correlated": """SELECT count(*), sum(f.v) FROM facts f, few d WHERE d.k = f.k AND d.mark = 'a'
        AND f.v < (SELECT 0.2 * avg(v) FROM facts WHERE facts.k = d.k)""",
    "two keys": """SELECT f.k, f.k2, a.s FROM few f
        JOIN (SELECT k, k2, sum(v) AS s FROM facts GROUP BY k, k2) a ON a.k = f.k AND a.k2 = f.k2""",
    "one key of two": """SELECT f.k, a.k2, a.s FROM few f
        JOIN (SELECT k, k2, sum(v) AS s FROM facts GROUP BY k, k2) a ON a.k = f.k""",
    "having": """SELECT f.k, s FROM few f
        JOIN (SELECT k, sum(v) AS s FROM facts GROUP BY k HAVING count(*) > 15) a ON a.k = f.k""",
    "semi join": """SELECT k, s FROM (SELECT k, sum(v) AS s FROM facts GROUP BY k) a
        WHERE k IN (SELECT k FROM few WHERE mark = 'a')""",
    "groups of groups": """SELECT f.k, a.n FROM few f JOIN (SELECT k, count(*) AS n, max(s) AS m FROM
        (SELECT k, k2, sum(v) AS s FROM facts GROUP BY k, k2) GROUP BY k) a ON a.k = f.k""",
    "filtered and joined below": """SELECT f.k, a.s FROM few f JOIN (SELECT facts.k, sum(v) AS s FROM facts
        JOIN (VALUES (0), (1), (3)) t(k2) ON facts.k2 = t.k2 WHERE v > -400 GROUP BY facts.k) a ON a.k = f.k""",
    "distinct": "SELECT f.mark, a.k FROM few f JOIN (SELECT DISTINCT k FROM facts) a ON a.k = f.k",
    "count distinct": """SELECT f.k, a.n FROM few f
        JOIN (SELECT k, count(DISTINCT v) AS n FROM facts GROUP BY k) a ON a.k = f.k""",
    "union all": """SELECT f.k, a.s FROM few f JOIN (SELECT k, sum(v) AS s FROM
        (SELECT k, v FROM facts UNION ALL SELECT k, 1000 FROM facts WHERE k2 = 1) GROUP BY k) a ON a.k = f.k""",
}

#: Queries that read all rows: their results depend on groups without a partner, or on the number of groups.
WHOLE = {
    "left join": """SELECT f.k, a.k, s FROM (SELECT k, sum(v) AS s FROM facts GROUP BY k) a
        LEFT JOIN few f ON a.k = f.k""",
    "anti join": """SELECT count(*), sum(s) FROM (SELECT k, sum(v) AS s FROM facts GROUP BY k) a
        WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.k = a.k)""",
    "limit between": """SELECT f.k, s FROM few f JOIN
        (SELECT k, sum(v) AS s FROM facts GROUP BY k ORDER BY s DESC, k LIMIT 100) a ON a.k = f.k""",
    "rank between": """SELECT f.k, r FROM few f JOIN (SELECT k, rank() OVER (ORDER BY s, k) AS r FROM
        (SELECT k, sum(v) AS s FROM facts GROUP BY k)) a ON a.k = f.k""",
    # Keys with two dictionaries.
    "text": """SELECT f.name, a.s FROM few f
        JOIN (SELECT name, sum(v) AS s FROM facts GROUP BY name) a ON a.name = f.name""",
    "computed key": """SELECT f.k, s FROM few f
        JOIN (SELECT k + 1 AS k, sum(v) AS s FROM facts GROUP BY k + 1) a ON a.k = f.k""",
    "on the aggregate": """SELECT f.k, a.k, a.n FROM few f
        JOIN (SELECT k, count(*) AS n FROM facts GROUP BY k) a ON a.n = f.k""",
    # The sum of an incomplete group might not fit.
    "a cast that may fail": """SELECT f.k, s FROM few f
        JOIN (SELECT k, CAST(sum(swing) AS TINYINT) AS s FROM facts WHERE k <> 7 AND k2 < 4
              GROUP BY k HAVING abs(sum(swing)) < 100) a ON a.k = f.k""",
    "rollup": """SELECT f.k, a.k2, a.s FROM few f
        JOIN (SELECT k, k2, sum(v) AS s FROM facts GROUP BY ROLLUP (k, k2)) a ON a.k = f.k""",
}


@pytest.fixture(scope="module", params=DEVICES)
def con(request: pytest.FixtureRequest) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device=request.param) as connection:
        connection.execute("SET warpmill.segment_rows = 8192")
        for name, rows in {"facts_frame": _facts(), "few_frame": _few()}.items():
            connection.register(name, rows)
            connection.execute(f"CREATE TABLE {name.removesuffix('_frame')} AS SELECT * FROM {name}")
        yield connection


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("facts", _facts())
        connection.register("few", _few())
        yield connection


def _rows(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(str(tuple(float(v) if isinstance(v, (int, float)) else v for v in row)) for row in rows)


def _prunes_below_groups(con: warpmill.Connection, sql: str) -> bool:
    """Whether a pipeline that scans `facts` for an aggregation is pruned by a hash build."""
    plan = "\n".join(str(column) for row in con.execute(f"EXPLAIN {sql}").fetchall() for column in row)
    pipelines = plan.split("pipeline ")
    return any("scan facts" in p and "prune " in p and "aggregate by" in p for p in pipelines)


@pytest.mark.parametrize("name", PRUNED)
def test_pruned(con: warpmill.Connection, judge: duckdb.DuckDBPyConnection, name: str) -> None:
    sql = PRUNED[name]
    assert _prunes_below_groups(con, sql), name
    assert _rows(con.execute(sql).fetchall()) == _rows(judge.execute(sql).fetchall())


@pytest.mark.parametrize("name", WHOLE)
def test_whole(con: warpmill.Connection, judge: duckdb.DuckDBPyConnection, name: str) -> None:
    sql = WHOLE[name]
    assert not _prunes_below_groups(con, sql), name
    assert _rows(con.execute(sql).fetchall()) == _rows(judge.execute(sql).fetchall())


@pytest.mark.parametrize("filter_", ["k = 11", "mark = 'nothing'", "k IS NULL", "k < 100"])
def test_few_or_no_keys(con: warpmill.Connection, judge: duckdb.DuckDBPyConnection, filter_: str) -> None:
    sql = f"""SELECT f.k, a.s, a.n FROM (SELECT * FROM few WHERE {filter_}) f
        JOIN (SELECT k, sum(v) AS s, count(*) AS n FROM facts GROUP BY k) a ON a.k = f.k"""
    assert _rows(con.execute(sql).fetchall()) == _rows(judge.execute(sql).fetchall())


def test_rows_are_left_out(con: warpmill.Connection) -> None:
    """The aggregation reads the rows of the requested keys, and few others."""
    result = con.execute("""SELECT a.s FROM (SELECT * FROM few WHERE k = 11) f
        JOIN (SELECT k, sum(v) AS s FROM facts GROUP BY k) a ON a.k = f.k""")
    program = result.profile["programs"][0]
    if program["device"] != "cpu":
        pytest.skip("rows are counted by the CPU's operators")
    aggregated = [
        operator["rows"]
        for pipeline in program["pipelines"]
        for operator in pipeline["operators"]
        if operator["name"].startswith("Aggregate")
    ]
    assert max(aggregated) < ROWS / 10


def test_no_error_of_a_group_that_the_join_drops() -> None:
    """A sum that fits as a whole does not where rows are missing: then none are."""
    big = 9 * 10**37
    values = [(1, big), (1, big), *((k % 1000 + 2, 1) for k in range(20_000)), (1, -big), (1, -big)]
    keys = pa.array([k for k, _ in values], pa.int32())
    numbers = pa.array([decimal.Decimal(v) for _, v in values], pa.decimal128(38, 0))
    con = warpmill.connect(device="cpu")
    con.create_table("facts", pa.table({"k": keys, "v": numbers}))
    con.create_table("few", pa.table({"k": pa.array(range(2, 1002), pa.int32())}))
    sql = "SELECT count(*), sum(s) FROM few f JOIN (SELECT k, sum(v) AS s FROM facts GROUP BY k) a ON a.k = f.k"
    assert not _prunes_below_groups(con, sql)
    assert con.execute(sql).fetchall() == [(1000, 20_000)]
