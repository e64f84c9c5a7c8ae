"""Warpmill as a back end of Ibis, and below Narwhals; the same SQL beside DuckDB."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import ibis
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SALES = pa.table(
    {
        "city": ["Oslo", "Rome", None, "Rome", "Oslo", "Rome"],
        "amount": [1.5, None, 3.0, -4.25, 1.5, 8.0],
        "n": [1, 2, 3, 4, 1, None],
        "day": pa.array([0, 1, 400, None, 800, 801], pa.date32()),
    }
)
CITIES = pa.table({"city": ["Rome", "Oslo", "Bern"], "country": ["IT", "NO", "CH"]})


@pytest.fixture
def back() -> Iterator[Any]:
    back = ibis.warpmill.connect()
    back.create_table("sales", SALES)
    back.create_table("cities", CITIES)
    yield back
    back.disconnect()


@pytest.mark.parametrize(
    "query",
    [
        lambda t: t.s.filter(t.s.amount > 1, t.s.n < 4),
        lambda t: t.s.select("city", double=t.s.n * 2),
        lambda t: t.s.mutate(part=t.s.amount / t.s.n, upper=t.s.city.upper()),
        lambda t: t.s.group_by("city").agg(total=t.s.amount.sum(), many=t.s.count(), mean=t.s.n.mean()),
        lambda t: t.s.join(t.c, "city"),
        lambda t: t.s.left_join(t.c, "city"),
        lambda t: t.s.anti_join(t.c, "city"),
        lambda t: t.s.order_by(ibis.desc("n")).limit(2).select("n"),
        lambda t: t.s.select("city").distinct(),
        lambda t: t.s.group_by(year=t.s.day.year()).agg(many=t.s.count()),
        lambda t: t.s.mutate(rank=ibis.row_number().over(order_by=[t.s.n, t.s.amount, t.s.city])),
        lambda t: t.s.mutate(so_far=t.s.n.sum().over(group_by="city", order_by=["n", "amount"])),
        lambda t: t.s.union(t.s).group_by("city").agg(n=ibis._.count()),
        lambda t: t.s.mutate(kind=ibis.cases((t.s.n > 2, "many"), (t.s.n.isnull(), "none"), else_="few")),
        lambda t: t.s.filter(t.s.city.isin(t.c.city)),
        lambda t: t.s.filter(t.s.city.like("R%")).mutate(i=t.s.amount.cast("int64").abs()),
        lambda t: t.s.agg(a=t.s.amount.std(), b=t.s.city.nunique(), c=t.s.n.median()),
    ],
)
def test_expressions_are_those_of_duckdb(query: Any, back: Any) -> None:
    expression = query(SimpleNamespace(s=back.table("sales"), c=back.table("cities")))
    ours = back.to_pyarrow(expression)
    with duckdb.connect() as con:
        con.register("sales", SALES)
        con.register("cities", CITIES)
        theirs = con.execute(back.compile(expression)).to_arrow_table()
    assert theirs is not None
    assert ours.schema.names == theirs.schema.names
    # The types equal those that Ibis predicts.
    assert ours.schema == expression.as_table().schema().to_pyarrow()
    assert rows(ours) == rows(theirs.cast(ours.schema))


def rows(table: pa.Table) -> list[str]:
    rounded = (
        {name: round(v, 9) if isinstance(v, float) else v for name, v in row.items()} for row in table.to_pylist()
    )
    return sorted(map(repr, rounded))


@pytest.mark.parametrize(
    "query",
    [
        lambda t: t.select("city", a="n", b="n").mutate(b=ibis._.b * 2).pivot_longer(["a", "b"]),
        lambda t: t.select(b=t.day.cast("timestamp").bucket(hours=7)),
        lambda t: t.select(b=t.day.cast("timestamp").bucket(days=10, offset=ibis.interval(hours=5))),
        lambda t: t.group_by("city").agg(a=t.n.collect().unique().length()),
        lambda t: t.select(a=ibis.array([t.n, t.n, 1]).unique().length(), b=ibis.array([t.n]).union([1, 7]).length()),
        lambda t: t.select(a=ibis.literal({"x": 1, "y": "z"}, "struct<x: int8, y: string>")),
        lambda t: t.select(a=ibis.struct({"x": t.n, "y": t.city}).cast("struct<x: float64, y: string>")),
        lambda t: t.select(a=ibis.array([ibis.struct({"x": t.n})]).cast("array<struct<x: float64>>")),
        lambda t: t.select(a=ibis.literal(datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC)) > t.day),
        lambda t: t.agg(a=t.amount.approx_median()),
    ],
)
def test_what_is_compiled_in_another_way_than_for_duckdb(query: Any, back: Any) -> None:
    expression = query(back.table("sales"))
    ours = back.to_pyarrow(expression)
    with duckdb.connect() as con:
        con.register("sales", SALES)
        theirs = con.execute(ibis.to_sql(expression, dialect="duckdb")).to_arrow_table()
    assert theirs is not None
    assert ours.schema == expression.as_table().schema().to_pyarrow()
    assert rows(ours) == rows(theirs.cast(ours.schema))


def test_buckets_of_months_are_refused(back: Any) -> None:
    moments = back.table("sales").day.cast("timestamp")
    with pytest.raises(ibis.common.exceptions.UnsupportedOperationError, match="truncate"):
        back.compile(moments.bucket(months=5))


def test_tables_come_and_go(back: Any, tmp_path: Path) -> None:
    assert back.list_tables() == ["cities", "sales"]
    assert back.table("sales").schema().names == tuple(SALES.schema.names)
    made = back.create_table("rome", back.table("sales").filter(ibis._.city == "Rome"))
    assert made.count().execute() == 3
    back.create_table("empty", schema={"a": "int64", "s": "string"})
    assert back.table("empty").count().execute() == 0
    back.create_view("v", made.select("n"))
    assert back.table("v").columns == ("n",)
    back.insert("empty", pd.DataFrame({"a": [1], "s": ["x"]}))
    assert back.table("empty").execute().to_dict("list") == {"a": [1], "s": ["x"]}
    back.drop_view("v")
    back.drop_table("rome")
    assert "rome" not in back.list_tables()
    with pytest.raises(ibis.common.exceptions.TableNotFound):
        back.table("nothing")
    back.create_database("shop")
    assert "shop" in back.list_databases()
    back.create_table("inner", CITIES, database="shop")
    assert back.list_tables(database="shop") == ["inner"]
    assert back.table("inner", database="shop").count().execute() == 3
    pl.DataFrame({"x": [1, 2]}).write_parquet(tmp_path / "x.parquet")
    assert back.read_parquet(tmp_path / "x.parquet").x.sum().execute() == 3
    assert back.sql("SELECT 1 AS one").execute().one[0] == 1


def test_frames_in_memory(back: Any) -> None:
    frame = ibis.memtable({"city": ["Rome"], "x": [7]})
    joined = back.table("sales").join(frame, "city").select("n", "x")
    assert sorted(map(repr, back.to_pyarrow(joined).to_pylist())) == sorted(
        map(repr, [{"n": 2, "x": 7}, {"n": 4, "x": 7}, {"n": None, "x": 7}])
    )
    assert back.execute(back.table("sales").n.max()) == 4


def test_a_connection_that_exists(con: warpmill.Connection) -> None:
    con.create_table("t", SALES)
    back = ibis.warpmill.from_connection(con)
    assert back.table("t").count().execute() == 6
    assert back.version == warpmill.__version__


def test_narwhals_works_on_ibis_tables() -> None:
    con = ibis.warpmill.connect()
    con.create_table("sales", SALES)
    found = (
        nw.from_native(con.table("sales"))
        .filter(nw.col("amount") > 0)
        .group_by("city")
        .agg(nw.col("n").sum().alias("n"))
        .sort("city", nulls_last=True)
        .collect("pyarrow")
    )
    assert found.to_dict(as_series=False) == {"city": ["Oslo", "Rome", None], "n": [2, 0, 3]}
