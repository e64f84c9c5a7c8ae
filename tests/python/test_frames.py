"""Python's frames as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import warpmill

VALUES = {"a": [1, 2, 3], "s": ["x", None, "z"]}
EVERY = [
    pytest.param(pa.table(VALUES), id="arrow-table"),
    pytest.param(pa.record_batch(VALUES), id="arrow-batch"),
    pytest.param(pl.DataFrame(VALUES), id="polars"),
    pytest.param(pd.DataFrame(VALUES), id="pandas"),
    pytest.param(VALUES, id="dict"),
]


@pytest.mark.parametrize("frame", EVERY)
def test_frames_register(con: warpmill.Connection, frame: object) -> None:
    con.register("t", frame)
    assert con.sql("SELECT a, s FROM t ORDER BY a").fetchall() == [(1, "x"), (2, None), (3, "z")]
    assert "t" in [table.name for table in con.tables()]
    con.unregister("t")
    with pytest.raises(warpmill.CatalogError):
        con.sql("SELECT * FROM t")


def test_registering_again_replaces(con: warpmill.Connection) -> None:
    con.register("t", {"a": [1]})
    con.register("t", {"b": ["new"]})
    assert con.sql("SELECT * FROM t").fetchall() == [("new",)]


def test_relations_register(con: warpmill.Connection) -> None:
    con.register("t", con.sql("SELECT 1 AS a UNION ALL SELECT 2"))
    assert con.sql("SELECT sum(a) FROM t").fetchone() == (3,)


def test_one_shot_readers_register(con: warpmill.Connection) -> None:
    table = pa.table(VALUES)
    con.register("t", pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
    assert con.sql("SELECT count(*) FROM t").fetchone() == (3,)


def test_other_objects_do_not(con: warpmill.Connection) -> None:
    with pytest.raises(TypeError, match="int"):
        con.register("t", 5)


GLOBAL_FRAME = pl.DataFrame({"g": [10, 20]})


def test_queries_see_the_callers_variables(con: warpmill.Connection) -> None:
    local_frame = pd.DataFrame({"l": [1, 2]})
    mixed = con.sql("SELECT sum(l), sum(g) FROM local_frame, GLOBAL_FRAME").fetchone()
    assert mixed == (6, 60)
    assert local_frame.shape == (2, 1)
    # The names are gone with the query.
    assert con.tables() == []


def test_variables_of_other_kinds_are_no_tables(con: warpmill.Connection) -> None:
    number = 5
    with pytest.raises(warpmill.CatalogError, match="number"):
        con.sql("SELECT * FROM number")
    assert number == 5


def test_tables_come_before_variables(con: warpmill.Connection) -> None:
    t = pl.DataFrame({"a": ["variable"]})
    con.register("t", {"a": ["table"]})
    assert con.sql("SELECT * FROM t").fetchall() == [("table",)]
    assert t.height == 1


def test_round_trips_keep_types(con: warpmill.Connection) -> None:
    frame = pl.DataFrame({"i": [1, None], "f": [0.5, None], "s": ["a", None], "b": [True, None]})
    assert con.sql("SELECT * FROM frame").pl().equals(frame)


@pytest.mark.parametrize(
    "frame", [pl.DataFrame({"a": [1, 2], "n": [None, None]}), pa.table({"a": [1, 2], "n": pa.nulls(2)})]
)
def test_columns_of_nothing_but_nulls_are_integers(con: warpmill.Connection, frame: object) -> None:
    con.register("t", frame)
    assert con.sql("SELECT a, n, n + 1 FROM t ORDER BY a").fetchall() == [(1, None, None), (2, None, None)]
    assert con.sql("SELECT sum(n), max(n), count(n) FROM t WHERE n IS NULL").fetchall() == [(None, None, 0)]


def test_columns_are_named_in_any_case(con: warpmill.Connection) -> None:
    con.register("t", {"Amount": [1, 2], "amount": [3, 4], "Name": ["x", "y"]})
    rows = con.sql("SELECT AMOUNT, amount_1, \"name\", * FROM T WHERE NAME = 'x'")
    assert list(rows.columns) == ["Amount", "amount_1", "Name", "Amount", "amount_1", "Name"]
    assert rows.fetchall() == [(1, 3, "x", 1, 3, "x")]


def test_results_have_one_name_twice(con: warpmill.Connection) -> None:
    rows = con.sql("SELECT i, i, i + 1 AS i, sum(i), sum(i) FROM (SELECT 1 AS i) t GROUP BY ALL")
    assert list(rows.columns) == ["i", "i", "i", "sum(i)", "sum(i)"]
    assert rows.fetchall() == [(1, 1, 2, 1, 1)]


def test_moments_beyond_those_of_python_are_errors(con: warpmill.Connection) -> None:
    for unit in (pa.timestamp("s"), pa.duration("s")):
        con.register("t", pa.table({"x": pa.array([2**61, None], unit)}))
        with pytest.raises(warpmill.Error):
            con.sql("SELECT x FROM t").fetchall()


def test_values_inside_each_other_have_a_limit(con: warpmill.Connection) -> None:
    """PyArrow would read them until the process ends."""
    own: list[object] = []
    own += [own, own]
    named: dict[str, object] = {}
    named["a"] = [named]
    array = np.empty(1, object)
    array[0] = array
    for values in (own, [named], [(own,)], [array]):
        with pytest.raises(warpmill.LimitError, match="inside each other"):
            con.register("q", {"a": values})
        with pytest.raises(warpmill.LimitError, match="inside each other"):
            con.create_table("q", {"a": values})
    few: list[object] = [1, 2]
    for _ in range(20):
        few = [few, few]
    con.register("q", {"a": few})
    assert con.sql("SELECT count(*) FROM q").fetchone() == (2,)
