"""Random functions: as expressions, called, and by pandas."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from trials import trials
from udf.data import alike, differences, table
from udf.grammar import Grammar, compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas

#: Random functions; more with WARPMILL_UDF_FUNCTIONS=N, others with WARPMILL_UDF_SEED=N.
FUNCTIONS = trials(300, "WARPMILL_UDF_FUNCTIONS")
SEED = int(os.environ.get("WARPMILL_UDF_SEED", "20261126"))
BATCH = 30


def of_pandas(frame: pandas.DataFrame, function: Callable[..., Any]) -> dict[int, object] | None:
    """The answer of pandas for each group, or `None` where Python divides by zero."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = frame.groupby("k")[["x", "y"]].apply(lambda group: function(group.x, group.y))
    except ZeroDivisionError:
        return None
    return {int(key): value for key, value in made.items()}


def expressions(con: warpmill.Connection, seed: int, count: int, *, pandas_alike: bool) -> dict[str, tuple[str, Any]]:
    """Functions, all of which have expressions, as f0, f1, ... and called as c0, c1, ..."""
    grammar = Grammar(seed, pandas_alike=pandas_alike)
    found: dict[str, tuple[str, Any]] = {}
    while len(found) < count:
        text = grammar.function()
        function, name = compiled(text), f"f{len(found)}"
        try:
            con.create_aggregate(name, function, mode="symbolic")
        except ValueError as error:
            # Constants that Python cannot divide.
            if "ZeroDivisionError" not in str(error) and "too large" not in str(error):
                raise AssertionError(text) from error
            continue
        con.create_aggregate(f"c{len(found)}", function, mode="python")
        found[name] = (text, function)
    return found


def rows(con: warpmill.Connection, names: list[str], tail: str = "") -> list[tuple[Any, ...]]:
    calls = ", ".join(f"{name}(x, y)" for name in names)
    return con.sql(f"SELECT k, {calls} FROM t {tail} GROUP BY k ORDER BY k").fetchall()


@pytest.mark.trials
@pytest.mark.parametrize("batch", range(FUNCTIONS // BATCH))
def test_expressions_calls_and_pandas_agree(batch: int, con: warpmill.Connection) -> None:
    seed = SEED + batch
    data = table(seed)
    con.create_table("t", data)
    functions = expressions(con, seed, BATCH, pandas_alike=True)
    frame = data.to_pandas()
    expected = {name: of_pandas(frame, function) for name, (_, function) in functions.items()}
    names = [name for name, known in expected.items() if known is not None]
    found = rows(con, names)
    failures = []
    for row in found:
        for name, value in zip(names, row[1:], strict=True):
            known = expected[name]
            if known is not None and not alike(value, known[row[0]]):
                failures.append(f"group {row[0]}: {value}, pandas: {known[row[0]]}\n{functions[name][0]}")
    assert not failures, f"seed {seed}\n" + "\n".join(failures)
    called = rows(con, [name.replace("f", "c") for name in names])
    texts = {name: functions[name][0] for name in names}
    different = differences(names, found, called)
    assert not different, f"seed {seed}\n" + "\n".join(f"{one}\n{texts[one.split()[0]]}" for one in different)


@pytest.mark.trials
@pytest.mark.parametrize("batch", range(max(FUNCTIONS // BATCH // 4, 1)))
def test_expressions_and_calls_agree_about_zeros(batch: int, con: warpmill.Connection) -> None:
    """Quotients and remainders by zero are missing, however the function is run."""
    seed = SEED + 1000 + batch
    con.create_table("t", table(seed))
    functions = expressions(con, seed, BATCH, pandas_alike=False)
    for name, (text, _) in functions.items():
        try:
            called = rows(con, [name.replace("f", "c")], "WHERE k < 5")
        except warpmill.ExecutionError as error:
            # `len` is Python's own number.
            if "ZeroDivisionError" not in str(error):
                raise AssertionError(text) from error
            continue
        different = differences([name], rows(con, [name], "WHERE k < 5"), called)
        assert not different, f"seed {seed}: {different}\n{text}"
