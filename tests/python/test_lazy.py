"""Relations made of others, beside Polars and DuckDB."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, cast

import duckdb
import polars as pl
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SALES = pl.DataFrame(
    {
        "city": ["Oslo", "Rome", None, "Rome", "Oslo", "Rome"],
        "amount": [1.5, None, 3.0, -4.25, 1.5, 1e300],
        "n": [1, 2, 3, 4, 1, None],
        'Odd "name"': ["a", "b", "c", "d", "a", "f"],
    }
)
CITIES = pl.DataFrame({"city": ["Rome", "Oslo", "Bern"], "country": ["IT", "NO", "CH"]})


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as con:
        con.create_table("sales", SALES)
        con.create_table("cities", CITIES)
        con.create_table("none", SALES.head(0))
        yield con


def rows(frame: Any) -> list[tuple[Any, ...]]:
    found = frame.rows() if isinstance(frame, pl.DataFrame) else frame.fetchall()
    return sorted(found, key=repr)


def test_steps_are_those_of_polars(con: warpmill.Connection) -> None:
    sales, frame = con.table("sales"), SALES
    amount, n = pl.col("amount"), pl.col("n")
    pairs = [
        (sales.filter("amount > 1", "n < 4"), frame.filter(amount > 1, n < 4)),
        (sales.select("city", double="2 * n"), frame.select("city", double=2 * n)),
        (sales.select('Odd "name"'), frame.select('Odd "name"')),
        (sales.with_columns(n="n + 1", half="n / 2"), frame.with_columns(n=n + 1, half=n / 2)),
        (sales.drop("amount", 'Odd "name"'), frame.drop("amount", 'Odd "name"')),
        (sales.rename({'Odd "name"': "plain"}), frame.rename({'Odd "name"': "plain"})),
        (sales.distinct(), frame.unique()),
        (sales.union(sales.filter("n = 1")), pl.concat([frame, frame.filter(n == 1)])),
        (sales.order_by("n DESC NULLS LAST").limit(2), frame.sort("n", descending=True, nulls_last=True).head(2)),
        (
            sales.order_by("n DESC NULLS LAST").limit(2, 1).select("n"),
            frame.sort("n", descending=True, nulls_last=True).slice(1, 2).select("n"),
        ),
        (
            sales.group_by("city").agg("count(*)", total="sum(n)"),
            frame.group_by("city").agg(pl.len().alias("count_star()"), n.sum().alias("total")),
        ),
        (
            sales.agg(least="min(amount)", many="count(n)"),
            frame.select(amount.min().alias("least"), n.count().alias("many")),
        ),
        (sales.join(con.table("cities"), "city"), frame.join(CITIES, "city")),
        (sales.join(CITIES, "city", how="left"), frame.join(CITIES, "city", how="left")),
        (sales.join(CITIES, "city", how="semi"), frame.join(CITIES, "city", how="semi")),
        (sales.join(CITIES, ["city"], how="anti"), frame.join(CITIES, "city", how="anti")),
        (con.table("none").filter("n > 0"), frame.head(0)),
    ]
    for ours, theirs in pairs:
        assert ours.columns == theirs.columns, ours.query
        assert rows(ours) == rows(theirs), ours.query


def test_chains_are_one_query(con: warpmill.Connection) -> None:
    chain = (
        con.table("sales")
        .filter("amount IS NOT NULL")
        .join(con.table("cities"), "city")
        .with_columns(double="2 * n")
        .group_by("country")
        .agg(total="sum(double)", many="count(*)")
        .filter("many > 1")
        .order_by("country")
        .limit(10)
    )
    assert "scan sales" in chain.explain()
    sales, cities = SALES.to_arrow(), CITIES.to_arrow()
    expected = duckdb.execute(
        """SELECT country, sum(2 * n), count(*) FROM sales JOIN cities USING (city) WHERE amount IS NOT NULL
        GROUP BY country HAVING count(*) > 1 ORDER BY country"""
    ).fetchall()
    del sales, cities
    assert chain.fetchall() == expected


def test_nothing_runs_before_rows_are_asked_for(con: warpmill.Connection) -> None:
    fails = con.table("sales").select(x="CAST(city AS INT)").filter("x > 0")
    assert fails.columns == ["x"]
    assert fails.types == ["Int32"]
    with pytest.raises(warpmill.ExecutionError):
        fails.fetchall()
    later = con.table("sales").filter("n = 100")
    con.sql("INSERT INTO sales (n) VALUES (100)")
    assert later.count() == 1


def test_rows_that_are_there_are_not_computed_again(con: warpmill.Connection) -> None:
    before = con.table("sales").filter("n = 1")
    assert len(before) == 2
    con.sql("DELETE FROM sales")
    assert before.select("city").fetchall() == [("Oslo",), ("Oslo",)]
    result = con.sql("SELECT ? AS a UNION ALL SELECT 2", [1])
    assert rows(result.filter("a > 1")) == [(2,)]


def test_tables_behind_a_relation_live_as_long_as_it_does(con: warpmill.Connection) -> None:
    def made() -> warpmill.Relation:
        frame = pl.DataFrame({"city": ["Rome"], "x": [1]})
        return con.table("sales").join(frame, "city").filter("n > 0").select("x")

    relation = made()
    gc.collect()
    assert relation.fetchall() == [(1,), (1,)]
    tables = len(con.tables())
    del relation
    gc.collect()
    assert len(con.tables()) == tables - 1
    assert {table.name for table in con.tables()} == {"cities", "none", "sales"}


def test_files_and_frames_begin_chains(con: warpmill.Connection, tmp_path: Path) -> None:
    SALES.write_parquet(tmp_path / "s.parquet")
    found = con.read_parquet(tmp_path / "s.parquet").filter("n > 2").select("n").order_by("n")
    assert found.fetchall() == [(3,), (4,)]
    con.create_table("copy", con.table("sales").filter("n > 2"))
    assert con.table("copy").count() == 2
    assert con.table("sales").filter("n > 2").pl().height == 2


def test_expressions_may_end_with_a_comment(con: warpmill.Connection) -> None:
    rows = con.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(x, s)")
    assert rows.filter("x > 1 -- not the first", "s <> 'c' -- nor this").fetchall() == [(2, "b")]
    assert rows.select("x -- a number", y="x + 1 -- the next").fetchall() == [(1, 2), (2, 3)]
    assert rows.order_by("x DESC -- backwards").limit(1).fetchall() == [(2, "b")]
    assert rows.with_columns(s="upper(s) -- loud").fetchall() == [(1, "A"), (2, "B")]
    assert rows.group_by("s").agg(n="count(*) -- of each").order_by("s").fetchall() == [("a", 1), ("b", 1)]
    assert rows.join(rows, "l.x = r.x -- the same", how="semi").count() == 2


def test_columns_of_any_name_take_the_place_of_others(con: warpmill.Connection) -> None:
    rows = con.sql('SELECT 1 AS x, 2 AS "a b"')
    assert rows.with_columns(x="a b").fetchall() == [(2, 2)]


def test_what_is_wrong_is_named(con: warpmill.Connection) -> None:
    sales = con.table("sales")
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: sales.drop("nothing"), KeyError, "nothing"),
        (lambda: sales.rename({"nothing": "x"}), KeyError, "nothing"),
        (lambda: sales.select(), ValueError, "at least one"),
        (lambda: sales.filter(), ValueError, "at least one"),
        (lambda: sales.select(cast("Any", 1)), TypeError, "1"),
        (lambda: sales.filter(cast("Any", True)), TypeError, "True"),
        (lambda: sales.order_by(cast("Any", ["n"])), TypeError, "n"),
        (lambda: sales.group_by(cast("Any", ["city"])), TypeError, "city"),
        (lambda: sales.limit(cast("Any", "2")), TypeError, "integer"),
        (lambda: sales.limit(cast("Any", 2.5)), TypeError, "integer"),
        (lambda: sales.join(CITIES, "city", how=cast("Any", "sideways")), ValueError, "sideways"),
        (lambda: sales.join(CITIES), ValueError, "cross"),
        (lambda: sales.join(CITIES, "amount"), KeyError, "amount"),
        (lambda: sales.limit(-1), ValueError, "-1"),
        (lambda: sales.group_by("nothing"), KeyError, "nothing"),
        (lambda: sales.filter("nothing > 1").columns, warpmill.BinderError, "nothing"),
        (lambda: sales.drop(*sales.columns), ValueError, "at least one"),
    ]
    for call, error, part in cases:
        with pytest.raises(error, match=part):
            call()
    with warpmill.connect() as other, pytest.raises(ValueError, match="different connections"):
        sales.union(other.sql("SELECT 1"))
