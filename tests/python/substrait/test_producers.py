"""TPC-H as Substrait plans of independent producers, compared with DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pyarrow as pa
import pytest
from datafusion.substrait import Consumer, Producer, Serde

import warpmill
from warpmill._warpmill import queries, tables
from warpmill.bench.verify import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures" / "substrait"
QUERIES = dict(queries("tpch"))
SCALE = 0.01


@dataclass
class Engines:
    """The same tables in three engines."""

    warpmill: warpmill.Connection
    duckdb: duckdb.DuckDBPyConnection
    datafusion: datafusion.SessionContext


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    # An operator that DataFusion would have to run is an error.
    with warpmill.connect(fallback="error") as con:
        duck, context = duckdb.connect(), datafusion.SessionContext()
        for name in tables("tpch"):
            con.generate("tpch", name, SCALE)
            frame = con.sql(f"SELECT * FROM {name}").arrow()
            duck.register(name, frame)
            context.from_arrow(frame, name)
        yield Engines(con, duck, context)


def isthmus(query: str) -> bytes:
    return (FIXTURES / "isthmus" / f"q{int(query):02}.bin").read_bytes()


def check(engines: Engines, query: str, rows: list[tuple[Any, ...]]) -> None:
    sql = QUERIES[query]
    expected = engines.duckdb.sql(sql)
    assert difference(rows, expected.fetchall(), expected.columns, sql) is None


@pytest.mark.parametrize("query", QUERIES)
def test_plans_of_isthmus(engines: Engines, query: str) -> None:
    # Calcite's names are in upper case, its columns are NOT NULL, its self-joins have one name on both sides.
    check(engines, query, engines.warpmill.execute_substrait(isthmus(query)).fetchall())


@pytest.mark.parametrize("query", QUERIES)
def test_plans_of_datafusion(engines: Engines, query: str) -> None:
    plan = Serde.serialize_bytes(QUERIES[query], engines.datafusion)
    check(engines, query, engines.warpmill.execute_substrait(plan).fetchall())


@pytest.mark.parametrize("query", QUERIES)
def test_our_plans_here_and_in_datafusion(engines: Engines, query: str) -> None:
    plan = engines.warpmill.to_substrait(QUERIES[query])
    check(engines, query, engines.warpmill.execute_substrait(plan).fetchall())
    logical = Consumer.from_substrait_plan(engines.datafusion, Serde.deserialize_bytes(plan))
    rows = engines.datafusion.create_dataframe_from_logical_plan(logical).to_arrow_table().to_pylist()
    check(engines, query, [tuple(row.values()) for row in rows])


def test_columns_may_be_nullable_where_the_plan_says_they_are_not(engines: Engines) -> None:
    with warpmill.connect() as con:
        for name in tables("tpch"):
            frame = engines.warpmill.sql(f"SELECT * FROM {name}").arrow()
            nullable = pa.schema([field.with_nullable(True) for field in frame.schema])
            con.register(name, frame.cast(nullable))
        for query in ("1", "4", "13", "16", "21", "22"):
            check(engines, query, con.execute_substrait(isthmus(query)).fetchall())


def test_a_data_frame_of_datafusion_runs_here(engines: Engines) -> None:
    from datafusion import col
    from datafusion import functions as f

    frame = engines.datafusion.table("lineitem").filter(col("l_quantity") > 40)
    frame = frame.aggregate([col("l_returnflag")], [f.count(col("l_orderkey")).alias("n")])
    plan = Producer.to_substrait_plan(frame.optimized_logical_plan(), engines.datafusion)
    result = engines.warpmill.execute_substrait(plan)
    assert result.columns == ["l_returnflag", "n"]
    assert sorted(result.fetchall()) == sorted(tuple(row.values()) for row in frame.to_arrow_table().to_pylist())
    assert "WarpmillExec" in result.explain()
