"""Computed strings as keys of groups, joins and sorts: the answers equal DuckDB's."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAS_SIM = json.loads(_warpmill.devices())["no_simulated_device"] is None
DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not HAS_SIM, reason="no C++ compiler"))]

MODES = ["air", "Mail", "  rail ", "süd", "SHIP", "Éclair", "", "日本 語", "fob"]
FLAGS = ["A", "N", "R"]


def rows(count: int, seed: int) -> pa.Table:
    """`mode`, `flag`, `num` and `day` have few values, NULLs and a skew, `note` has many."""
    draw = random.Random(seed)
    mode = [None if draw.random() < 0.1 else MODES[int(len(MODES) * draw.random() ** 3)] for _ in range(count)]
    flag = [draw.choice(FLAGS) for _ in range(count)]
    note = [None if draw.random() < 0.05 else f"{draw.choice('äbcd')}{draw.randrange(10**6)} x" for _ in range(count)]
    num = [None if draw.random() < 0.1 else draw.randrange(-3, 9) for _ in range(count)]
    day = [None if draw.random() < 0.1 else draw.randrange(19000, 19090) for _ in range(count)]
    columns = {"id": range(count), "mode": mode, "flag": flag, "note": note, "num": num, "day": day}
    types = {"id": pa.int64(), "num": pa.int32(), "day": pa.date32()}
    types.update(dict.fromkeys(("mode", "flag", "note"), pa.string()))
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


TABLES = {
    "t": rows(5000, 1),
    "u": rows(700, 2),
    "one": rows(1, 3),
    "none": rows(0, 4),
    "nulls": pa.table({"id": pa.array(range(50), pa.int64()), "mode": pa.array([None] * 50, pa.string())}),
}

#: Expressions over codes, and over texts that have none.
KEYS = [
    "upper(mode)",
    "lower(mode)",
    "trim(mode)",
    "substr(mode, 1, 2)",
    "left(mode, 1)",
    "right(mode, 2)",
    "replace(mode, 'a', 'oo')",
    "concat(mode, '-', flag)",
    "mode || flag",
    "mode || flag || left(mode, 1)",
    "flag || NULL",
    "coalesce(mode, 'none')",
    "coalesce(mode, flag)",
    "coalesce(upper(mode), lower(flag), 'x')",
    "nullif(mode, 'air')",
    "nullif(upper(mode), flag)",
    "CASE WHEN mode IN ('air', 'Mail') THEN 'fast' ELSE 'slow' END",
    "CASE WHEN mode = 'air' THEN 'fast' WHEN mode IS NULL THEN 'unknown' END",
    "CASE WHEN id % 3 = 0 THEN 'three' WHEN id % 2 = 0 THEN 'two' END",
    "CASE WHEN id % 3 = 0 THEN 'three' WHEN id % 2 = 0 THEN mode ELSE flag END",
    "CASE WHEN id % 5 = 0 THEN NULL WHEN id > 100 THEN upper(mode) ELSE lower(mode) END",
    "CASE WHEN note LIKE 'b%' THEN mode || '!' ELSE 'other' END",
    "CASE mode WHEN 'air' THEN flag WHEN 'SHIP' THEN 'ship' ELSE mode END",
    "upper(CASE WHEN id % 4 = 0 THEN 'a' ELSE mode END) || flag",
    "CAST(length(mode) AS VARCHAR)",
    "CASE WHEN length(mode) < 2 THEN CAST(length(mode) * 5000000000000000000 AS VARCHAR) ELSE flag END",
    "greatest(mode, flag)",
    "CAST(num AS VARCHAR)",
    "substr(CAST(day AS VARCHAR), 1, 7)",
    "mode || '/' || num",
    "CASE WHEN num > 3 THEN upper(mode) WHEN num < 0 THEN 'below' ELSE CAST(day AS VARCHAR) END",
    "regexp_replace(mode, '[aeiou]', '_')",
    "substr(note, 1, 2)",
    "left(note, 3)",
    "substr(note, 1, 1) || mode",
    "mode || note",
    "coalesce(note, mode)",
    "CASE WHEN id % 2 = 0 THEN note ELSE mode END",
]


def compared(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection, query: str, *, ordered: bool = False) -> None:
    found: list[Any] = con.sql(query).fetchall()
    expected: list[Any] = duck.sql(query).fetchall()
    if not ordered:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert found == expected, query


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        for name, table in TABLES.items():
            con.register("made", table)
            con.execute(f"CREATE TABLE {name} AS FROM made")
        yield con


@pytest.fixture(scope="module", params=["tables", "parquet"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[warpmill.Connection]:
    """Own tables, in segments of different values, and Parquet files of several row groups."""
    with warpmill.connect(fallback="error", segment_rows=1024) as con:
        path: Path = tmp_path_factory.mktemp("files")
        for name, table in TABLES.items():
            if request.param == "tables":
                con.create_table(name, table)
            else:
                pq.write_table(table, path / f"{name}.parquet", row_group_size=1000)
                con.sql(f"CREATE VIEW {name} AS FROM '{path / name}.parquet'")
        yield con


@pytest.fixture(params=DEVICES)
def con(request: pytest.FixtureRequest, source: warpmill.Connection) -> warpmill.Connection:
    source.set("device", request.param)
    return source


@pytest.mark.sample(3, con=["sim"])
@pytest.mark.parametrize("key", KEYS)
def test_groups(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection, key: str) -> None:
    for table in ("t", "one", "none"):
        compared(con, duck, f"SELECT {key} AS k, count(*), sum(id) FROM {table} WHERE id >= 0 GROUP BY 1")
    compared(con, duck, f"SELECT flag, {key} AS k, count(*) FROM t GROUP BY 1, 2 HAVING {key} > 'b' OR count(*) > 100")


@pytest.mark.sample(3, con=["sim"])
@pytest.mark.parametrize("key", KEYS)
def test_distinct_extremes_and_orders(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection, key: str) -> None:
    compared(con, duck, f"SELECT DISTINCT {key}, flag FROM t")
    compared(con, duck, f"SELECT count({key}), count(DISTINCT {key}), min({key}), max({key}) FROM t")
    compared(con, duck, f"SELECT flag, min({key}), max({key}) FROM t WHERE id % 2 = 1 GROUP BY flag")
    for order in ("NULLS LAST", "DESC NULLS FIRST"):
        compared(con, duck, f"SELECT {key} AS k, id FROM t ORDER BY {key} {order}, id LIMIT 20", ordered=True)
    compared(con, duck, f"SELECT id, {key} FROM u ORDER BY 2 NULLS FIRST, 1", ordered=True)


@pytest.mark.sample(3, con=["sim"])
@pytest.mark.parametrize("key", KEYS[::3])
def test_joins(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection, key: str) -> None:
    grouped = f"(SELECT {key} AS k, count(*) AS n FROM u GROUP BY 1)"
    made = f"(SELECT id, {key} AS j FROM t)"
    for join in ("", "LEFT", "RIGHT", "FULL"):
        compared(con, duck, f"SELECT j, k, count(id), sum(n) FROM {made} {join} JOIN {grouped} ON j = k GROUP BY 1, 2")
    compared(con, duck, f"SELECT count(*) FROM {made} JOIN {grouped} ON j IS NOT DISTINCT FROM k")
    compared(con, duck, f"SELECT count(*) FROM t WHERE {key} IN (SELECT lower({key}) FROM u)")
    absent = "NOT EXISTS (SELECT 1 FROM u WHERE u.mode = j)"
    compared(con, duck, f"SELECT count(*) FROM {made} WHERE {absent}")


def test_joins_of_columns_with_different_dictionaries(
    con: warpmill.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    few = "(SELECT mode AS k FROM u WHERE id < 3)"
    for join in ("", "LEFT", "FULL"):
        compared(con, duck, f"SELECT k, mode, count(*) FROM t {join} JOIN {few} ON k = mode GROUP BY 1, 2")
        compared(con, duck, f"SELECT k, flag, count(*) FROM t {join} JOIN {few} ON upper(k) = flag || '' GROUP BY 1, 2")
    compared(con, duck, f"SELECT count(*) FROM t WHERE mode NOT IN (SELECT k FROM {few} WHERE k IS NOT NULL)")
    compared(
        con, duck, "SELECT count(*) FROM t JOIN u ON t.mode IS NOT DISTINCT FROM u.mode AND t.flag = lower(u.flag)"
    )


def test_unions_and_nested_queries(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    union = "SELECT upper(mode) AS k FROM t UNION ALL SELECT lower(mode) FROM u UNION ALL SELECT flag FROM u"
    compared(con, duck, f"SELECT k, count(*) FROM ({union}) GROUP BY 1")
    compared(con, duck, "SELECT DISTINCT upper(mode) FROM t UNION SELECT DISTINCT mode FROM u")
    inner = "SELECT CASE WHEN id % 2 = 0 THEN mode ELSE flag END AS a, upper(mode) AS b, id FROM t"
    compared(
        con, duck, f"SELECT a || '/' || b AS k, count(*), max(a) FROM ({inner}) GROUP BY 1 ORDER BY 1", ordered=True
    )
    compared(
        con,
        duck,
        f"SELECT substr(k, 1, 1), sum(n) FROM (SELECT a AS k, count(*) AS n FROM ({inner}) GROUP BY 1) GROUP BY 1",
    )
    compared(con, duck, f"SELECT id, b FROM ({inner}) WHERE b LIKE '%A%' AND a < 'n' ORDER BY id", ordered=True)


def test_columns_of_nulls(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    for key in ("upper(mode)", "coalesce(mode, 'x')", "mode || 'x'", "CASE WHEN mode = 'a' THEN 'b' END"):
        compared(con, duck, f"SELECT {key} AS k, count(*) FROM nulls GROUP BY 1")
        compared(con, duck, f"SELECT count(*) FROM (SELECT {key} AS k FROM nulls) JOIN t ON k = t.mode")


def test_errors_are_those_of_rows(con: warpmill.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    """An entry of the dictionary that no row of the query has is no error; one that a row has is."""
    key = "CAST(length(mode) * 5000000000000000000 AS VARCHAR)"
    short = "length(mode) < 2"
    compared(con, duck, f"SELECT {key} AS k, count(*) FROM t WHERE {short} GROUP BY 1")
    compared(con, duck, f"SELECT {key} AS k, id FROM t WHERE {short} ORDER BY 1, 2 LIMIT 5", ordered=True)
    compared(con, duck, f"SELECT count(*) FROM t JOIN (SELECT {key} AS k FROM u WHERE {short}) ON k = flag")
    with pytest.raises(warpmill.Error):
        con.sql(f"SELECT {key} AS k, count(*) FROM t GROUP BY 1").fetchall()


def test_keys_are_codes_where_they_can_be() -> None:
    """As EXPLAIN ANALYZE shows: groups of few strings are addressed by arithmetic, others by hash."""
    with warpmill.connect(device="cpu", fallback="error") as con:
        con.create_table("t", TABLES["t"])

        def plan(key: str) -> str:
            return str(con.sql(f"EXPLAIN ANALYZE SELECT {key} AS k, count(*) FROM t GROUP BY 1").fetchall())

        few = ("upper(mode)", "mode || flag", "coalesce(mode, flag)", "CAST(num AS VARCHAR) || mode", "left(mode, 1)")
        for key in (*few, "CASE WHEN id > 7 THEN 'a' ELSE mode END"):
            assert "perfect hash" in plan(key), key
        for key in ("upper(note)", "mode || note"):
            assert "perfect hash" not in plan(key), key
