"""Functions of rows in Python, and functions of whole groups of a relation."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import warpmill
from udf.data import alike, differences, table
from udf.test_random_functions import BATCH, SEED, expressions, rows
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

    from warpmill.udf import Mode

DEVICES = json.loads(_warpmill.devices())
needs_sim = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason=str(DEVICES["no_simulated_device"]))


@pytest.fixture
def filled(con: warpmill.Connection) -> warpmill.Connection:
    con.create_table("t", table(11, 200))
    con.create_table("s", {"name": ["ab", None, "abc", ""], "v": [1, 2, None, 4]})
    return con


def grade(x: Any) -> Any:
    if x > 2:
        return x * 2
    return -x if x != 0 else 0.5


@pytest.mark.parametrize("mode", ["symbolic", "scalar"])
def test_functions_of_rows(mode: Any, filled: warpmill.Connection) -> None:
    filled.create_function("grade", grade, mode=mode)
    values = filled.sql("SELECT y, grade(y), grade(y + 1) FROM t").fetchall()
    for y, one, other in values:
        assert one == (None if y is None else grade(y))
        assert other == (None if y is None else grade(y + 1))
    total = sum(one for _, one, _ in values if one is not None)
    assert filled.sql("SELECT sum(grade(y)) FROM t WHERE grade(y) IS NOT NULL").fetchall() == [(total,)]
    assert filled.sql("SELECT grade(3), grade(NULL), grade(0)").fetchall() == [(6.0, None, 0.5)]


def test_functions_of_arrays(filled: warpmill.Connection) -> None:
    info = filled.create_function("clipped", lambda x: np.clip(x, 0, 3), returns="BIGINT")
    assert info.expression is None
    found = filled.sql("SELECT y, clipped(y) FROM t").fetchall()
    assert all(other == (None if y is None else min(max(y, 0), 3)) for y, other in found)
    filled.create_function("short", lambda x: x[:1])
    with pytest.raises(warpmill.ExecutionError, match=r"function 'short'.*1 results for"):
        filled.sql("SELECT short(y) FROM t")
    filled.create_function("reversed_text", lambda s: s[::-1], returns=str, mode="scalar")
    assert filled.sql("SELECT reversed_text(name) FROM s").fetchall() == [("ba",), (None,), ("cba",), ("",)]
    filled.set("fallback", "error")
    with pytest.raises(warpmill.FallbackError, match=r"clipped: its code is called: .*numpy\.clip"):
        filled.sql("SELECT clipped(y) FROM t")


def test_functions_with_side_effects_are_called_each_time(filled: warpmill.Connection) -> None:
    seen: list[int] = []

    def counted(x: Any) -> Any:
        seen.append(len(x))
        return x

    filled.create_function("counted", counted, side_effects=True)
    for _ in range(2):
        filled.sql("SELECT counted(v) FROM s").fetchall()
    assert seen == [3, 3]


def test_errors_of_functions_of_rows(filled: warpmill.Connection) -> None:
    def inverse(x: Any) -> Any:
        number = int(str(x))
        return 1 / number

    filled.create_function("inverse", inverse, mode="scalar")
    line = inverse.__code__.co_firstlineno + 2
    with pytest.raises(warpmill.ExecutionError, match=rf"function 'inverse', line {line} .*ZeroDivisionError"):
        filled.sql("SELECT inverse(y) FROM t")
    with pytest.raises(warpmill.NotSupportedError, match="FILTER or OVER"):
        filled.sql("SELECT inverse(y) OVER () FROM t")

    @warpmill.udf
    def twice(x: Any) -> Any:
        return x * 2

    assert filled.sql("SELECT twice(v) FROM s").fetchall() == [(2.0,), (4.0,), (None,), (8.0,)]
    with pytest.raises(TypeError, match="create_function takes it"):
        filled.create_aggregate(twice)


def test_functions_of_functions(filled: warpmill.Connection) -> None:
    filled.create_function("twice", lambda x: x + x)
    filled.create_aggregate("spread", lambda x: x.max() - x.min())
    query = "SELECT k, twice(spread(twice(y))), spread(y) FROM t GROUP BY k ORDER BY k"
    assert all(one is other or one == 4 * other for _, one, other in filled.sql(query).fetchall())
    deep = "twice(" * 40 + "v" + ")" * 40
    with pytest.raises(warpmill.LimitError, match="too large"):
        filled.sql(f"SELECT {deep} FROM s")


def test_groups_of_a_table(filled: warpmill.Connection) -> None:
    frame = filled.sql("SELECT * FROM t").df()

    def weighted(g: Any) -> Any:
        return (g.x * g["y"]).sum() / len(g)

    def listed(g: Any) -> Any:
        return float(len([value for value in g.y if not pd.isna(value)]))

    for function in (weighted, listed):
        known = {key: function(group) for key, group in frame.groupby("k")}
        for relation in (filled.table("t"), filled.sql("SELECT * FROM t")):
            made = relation.groupby("k").apply(function)
            assert made.columns == ["k", function.__name__]
            found = dict(made.fetchall())
            assert found.keys() == known.keys()
            assert all(alike(value, known[key]) for key, value in found.items())
    two = filled.sql("SELECT k, k % 2 AS p, y FROM t WHERE y > ?", [0]).groupby(["p", "k"])
    assert two.apply(lambda g: g.y.sum(), name="total", returns=int).columns == ["p", "k", "total"]
    assert "a loop (for)" not in filled.table("t").groupby("k").apply(weighted).explain()
    with pytest.raises(KeyError, match="no column 'q'"):
        filled.table("t").groupby("q")
    with pytest.raises(warpmill.ExecutionError, match="no column 'z'"):
        filled.table("t").groupby("k").apply(lambda g: g.z.sum()).fetchall()
    assert len(filled.table("t").groupby("k").apply(lambda g: len(g.columns)).fetchall()) == 7


@needs_sim
def test_expressions_run_on_devices(tmp_path: Path) -> None:
    data = table(SEED)
    with warpmill.connect(tmp_path / "db", device="cpu") as con:
        con.create_table("t", data)
        functions = expressions(con, SEED, 10, pandas_alike=True)
        names = [name for name, (text, _) in functions.items() if "median" not in text and "//" not in text]
        assert len(names) >= 3
        known = rows(con, names)
    with warpmill.connect(tmp_path / "db", device="sim", device_fallback="error", fallback="error") as con:
        assert BATCH > 10
        expressions(con, SEED, 10, pandas_alike=True)
        assert not differences(names, rows(con, names), known)
        con.create_aggregate("spread", lambda x, y: (x.max() - y.min()) / 2 + math.sqrt(y.var()))
        assert len(con.sql("SELECT k, spread(x, y) FROM t GROUP BY k").fetchall()) == 7


def test_decimals_and_other_numbers(con: warpmill.Connection) -> None:
    import decimal

    con.create_table(
        "v",
        pa.table(
            {
                "d": pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.50"), None], pa.decimal128(10, 2)),
                "u": pa.array([1, 2**40, None], pa.uint64()),
                "f": pa.array([0.5, None, math.nan], pa.float32()),
            }
        ),
    )
    modes: list[Mode] = ["symbolic", "python"]
    for mode in modes:
        con.create_aggregate("total", lambda x: x.sum() + x.max() * 2, mode=mode)
        assert con.sql("SELECT total(d), total(u), total(f) FROM v").fetchall() == [
            (0.25, float(2**40 + 1 + 2**41), 1.5)
        ]


def test_a_function_of_one_value_that_is_called_with_arrays_is_told_of_the_mode(con: warpmill.Connection) -> None:
    def loud(s: Any) -> Any:
        return s.title() + "!"

    con.create_function("loud", loud, returns=str)
    query = "SELECT loud(s) AS s FROM (VALUES ('ab'), ('cd')) t(s) ORDER BY 1"
    with pytest.raises(warpmill.ExecutionError, match=r"ndarray.*mode='scalar'"):
        con.sql(query).fetchall()
    con.create_function("loud", loud, returns=str, mode="scalar")
    assert con.sql(query).fetchall() == [("Ab!",), ("Cd!",)]


def test_annotations_of_lists_are_none_of_values(con: warpmill.Connection) -> None:
    def halves(x: list[float]) -> list[float]:
        return list(np.asarray(x) / 2 + np.log(1))

    assert con.create_function("halves", halves).returns == "DOUBLE"
    rows = con.sql("SELECT halves(x) FROM (VALUES (CAST(1 AS DOUBLE)), (2)) t(x) ORDER BY 1").fetchall()
    assert rows == [(0.5,), (1.0,)]


def test_annotations_say_that_a_function_is_of_values(con: warpmill.Connection) -> None:
    def backwards(s: str) -> str:
        return s[::-1]

    def first_letter(s: str | None, n: int) -> str:
        return sorted(s or "")[0] * n

    con.create_function("backwards", backwards)
    con.create_function("first_letter", first_letter)
    rows = con.sql(
        "SELECT backwards(s), first_letter(s, n) FROM (VALUES ('ab', 1), ('dc', 2), (NULL, 3)) t(s, n)"
    ).fetchall()
    assert sorted(map(str, rows)) == ["('ba', 'a')", "('cd', 'cc')", "(None, None)"]
