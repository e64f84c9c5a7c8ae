"""Compiled aggregate functions: results compared with Python and pandas, refusals, and interruption."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import warpmill
from trials import trials
from udf.data import NEWEST, RESULTS, alike, differences, table
from udf.functions import KEPT, centred, compounded
from udf.grammar import compiled
from udf.loops import Loops
from warpmill import _warpmill
from warpmill.udf.compiled import Translator

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(_warpmill.no_compiler() is not None, reason=str(_warpmill.no_compiler()))

#: Random functions; more with WARPMILL_COMPILED_FUNCTIONS=N, others with WARPMILL_UDF_SEED=N.
FUNCTIONS = trials(12, "WARPMILL_COMPILED_FUNCTIONS")
SEED = int(os.environ.get("WARPMILL_UDF_SEED", "20261126"))
BATCH = 12
#: The texts that tests of the engine's kernels read.
TEXTS = Path(__file__).parents[3] / "crates/warpmill-gpu/src/kernels/tests/udf"


@pytest.fixture
def filled(con: warpmill.Connection) -> warpmill.Connection:
    con.create_table("t", table(5, 400))
    return con


def rows(con: warpmill.Connection, calls: str, tail: str = "") -> list[tuple[Any, ...]]:
    return con.sql(f"SELECT k, {calls} FROM t {tail} GROUP BY k ORDER BY k").fetchall()


def functions(seed: int, count: int, *, pandas_alike: bool) -> list[tuple[str, Callable[..., Any]]]:
    """Random functions that are compiled for the columns of `table`."""
    grammar = Loops(seed, pandas_alike=pandas_alike)
    found: list[tuple[str, Callable[..., Any]]] = []
    refused = 0
    while len(found) < count:
        text = grammar.function()
        function = compiled(text)
        if isinstance(Translator(function, ["x", "y"], "DOUBLE")(["DOUBLE", "BIGINT"]), str):
            refused += 1
            continue
        found.append((text, function))
    assert refused <= count, "most functions are compiled"
    return found


@pytest.mark.trials
@pytest.mark.parametrize("batch", range(max(FUNCTIONS // BATCH, 1)))
@pytest.mark.parametrize("pandas_alike", [True, False])
def test_random_loops_have_the_results_of_python_and_pandas(
    batch: int, pandas_alike: bool, con: warpmill.Connection
) -> None:
    seed = SEED + batch + (0 if pandas_alike else 1000)
    data = table(seed, nulls=not pandas_alike)
    con.create_table("t", data)
    frame = data.to_pandas()
    for text, function in functions(seed, BATCH, pandas_alike=pandas_alike):
        con.create_aggregate("f", function, mode="auto")
        con.create_aggregate("c", function, mode="python")
        try:
            called = rows(con, "c(x, y)")
        except warpmill.ExecutionError:
            # If several groups fail, either may be reported.
            with pytest.raises(warpmill.ExecutionError, match="function 'f', line"):
                rows(con, "f(x, y)")
            continue
        found = rows(con, "f(x, y)")
        different = differences(["f"], found, called)
        assert not different, f"seed {seed}: {different}\n{text}"
        if pandas_alike:
            assert not beside_pandas(function, frame, found), f"seed {seed}\n{text}"


def beside_pandas(function: Callable[..., Any], frame: Any, found: list[tuple[Any, ...]]) -> list[str]:
    """The differences from pandas' result for each group."""
    different = []
    known = dict(found)
    for key, group in frame.groupby("k"):
        part = group.reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = function(part.x, part.y)
        if not alike(known[key], expected):
            different.append(f"group {key}: {known[key]}, pandas: {expected}")
    return different


def test_plans_and_infos_name_the_tier(filled: warpmill.Connection) -> None:
    info = filled.create_aggregate("compounded", compounded)
    line = compounded.__code__.co_firstlineno + 3
    assert info.tier == "compiled"
    assert info.expression is None
    assert info.reason == f"line {line}: a loop (for) is no expression"
    plan = filled.explain("SELECT k, compounded(x) FROM t GROUP BY k")
    assert f"compounded: its code is compiled: line {line}: a loop (for) is no expression" in plan
    assert filled.create_aggregate("widest", lambda x: x.max() - x.min()).tier == "expression"
    assert filled.create_aggregate("widest", lambda x: x.max() - x.min(), mode="python").tier == "called"

    def listed(x: Any) -> Any:
        return len([value for value in x if value is not None])

    info = filled.create_aggregate("listed", listed)
    assert info.tier == "called"
    line = listed.__code__.co_firstlineno + 1
    reason = (
        f"line {line}: ListComp is no expression; it is not compiled: line {line}: a list comprehension is not compiled"
    )
    assert info.reason == reason
    assert reason in filled.explain("SELECT k, listed(x) FROM t GROUP BY k")
    filled.set("fallback", "error")
    with pytest.raises(warpmill.FallbackError, match="compounded: its code is compiled"):
        filled.sql("SELECT k, compounded(y) FROM t GROUP BY k")


def test_types_of_a_call_decide(filled: warpmill.Connection) -> None:
    filled.create_table("v", {"s": ["ab", "c"], "b": [True, False], "i": [1, 2]})

    def longest(x: Any) -> Any:
        best = 0
        for value in x:
            best = max(best, value)
        return best

    filled.create_aggregate("longest", longest)
    assert "its code is compiled" in filled.explain("SELECT longest(i) FROM v")
    plan = filled.explain("SELECT longest(s) FROM v")
    assert "its code is called" in plan
    assert "it is not compiled: a column of type Utf8" in plan
    with pytest.raises(warpmill.ExecutionError, match=r"function 'longest', line \d+ .*TypeError"):
        filled.sql("SELECT longest(s) FROM v")
    assert filled.sql("SELECT longest(i), longest(b) FROM v").fetchall() == [(2.0, 1.0)]
    filled.create_aggregate("longest", longest, mode="compiled")
    assert filled.sql("SELECT longest(i) FROM v").fetchall() == [(2.0,)]
    with pytest.raises(warpmill.BinderError, match="'longest' is not compiled: a column of type Utf8"):
        filled.sql("SELECT longest(s) FROM v")


def test_results_have_their_types(con: warpmill.Connection) -> None:
    con.create_table("t", NEWEST)

    def newest(x: Any) -> Any:
        found = None
        for value in x:
            if value is not None:
                found = value
        return found

    for returns, column, expected in RESULTS:
        con.create_aggregate("newest", newest, returns=returns, mode="compiled")
        assert rows(con, f"newest({column})") == expected
    con.create_aggregate("newest", newest, returns="INTEGER", mode="compiled")
    with pytest.raises(warpmill.ExecutionError, match=r"'newest', line \d+: a result that does not fit its type"):
        rows(con, "newest(n + 3000000000)")
    con.create_aggregate("newest", newest, returns="BOOLEAN")
    with pytest.raises(warpmill.ExecutionError, match="of type int where BOOLEAN is declared"):
        rows(con, "newest(n)")


def test_what_python_does_otherwise_is_asked_of_python(con: warpmill.Connection) -> None:
    """Integers beyond 64 bits, exceptions, NULLs: results and errors are Python's."""
    con.create_table("t", {"k": [1, 1, 2, 3], "i": [2**62, 2**62, 3, None]})

    def multiplied(x: Any) -> Any:
        made = 1
        for value in x:
            made = made * value
        return made

    def ratio(x: Any) -> Any:
        made = 0
        for value in x:
            made = 1 / (value - 3)
        return made

    con.create_aggregate("multiplied", multiplied)
    assert rows(con, "multiplied(i)", "WHERE k < 3") == [(1, 2.0**124), (2, 3.0)]
    with pytest.raises(warpmill.ExecutionError, match=r"function 'multiplied', line \d+ of .*: TypeError"):
        rows(con, "multiplied(i)")
    con.create_aggregate("multiplied", multiplied, returns=int)
    with pytest.raises(warpmill.ExecutionError, match="is no BIGINT"):
        rows(con, "multiplied(i)", "WHERE k < 3")
    con.create_aggregate("ratio", ratio)
    line = ratio.__code__.co_firstlineno + 3
    with pytest.raises(warpmill.ExecutionError, match=rf"function 'ratio', line {line} of .*ZeroDivisionError"):
        rows(con, "ratio(i)", "WHERE k = 2")
    con.create_aggregate("ratio", ratio, mode="compiled")
    with pytest.raises(warpmill.ExecutionError, match=rf"function 'ratio', line {line}: a division by zero"):
        rows(con, "ratio(i)", "WHERE k = 2")
    con.create_aggregate("multiplied", multiplied, mode="compiled")
    with pytest.raises(warpmill.ExecutionError, match=r"'multiplied', line \d+: an operator of None \(NULL\)"):
        rows(con, "multiplied(i)", "WHERE k = 3")
    with pytest.raises(warpmill.ExecutionError, match=r"'multiplied', line \d+: a whole number of more than 64 bits"):
        rows(con, "multiplied(i)", "WHERE k = 1")


def test_reductions_of_extremes(con: warpmill.Connection) -> None:
    """Least and greatest integers, infinite floats, groups of one row and of NULLs only."""
    least, greatest = -(2**63), 2**63 - 1
    con.create_table(
        "t",
        pa.table(
            {
                "k": [1, 1, 2, 3, 3, 4, 4],
                "i": [greatest, least, least, None, None, 2**53 + 1, 2**53],
                "x": [math.inf, 1.0, math.nan, None, -math.inf, -0.0, 0.0],
                "b": [True, None, False, None, None, True, True],
            }
        ),
    )
    texts = [
        "i.sum()",
        "i.min()",
        "i.max()",
        "i.idxmin()",
        "i.idxmax()",
        "i.prod()",
        "x.sum()",
        "x.var()",
        "x.std(ddof=0)",
        "x.idxmax()",
        "x.prod()",
        "x.any() + x.all()",
        "b.sum()",
        "b.mean()",
        "b.any()",
        "b.max()",
        "(i - i.min()).max()",
        "(x - x.mean()).abs().sum()",
        "i.max() == 9007199254740993.0",
        "(i // i.count()).sum() % 7",
        "x[b].count() + len(x.dropna())",
        "i.fillna(3).min() // i.count()",
        "np.sqrt(x).sum() + i.mean()",
        "x.iloc[-1] if len(x) > 1 and x[1] is not None else i[0]",
    ]
    # One function, which is compiled once: which of them it computes is in a column.
    branches = "".join(f"    if which == {number}:\n        return {text}\n" for number, text in enumerate(texts))
    loop = "    for n in range(1):\n        which = w.min()\n"
    function = compiled(f"def f(i, x, b, w):\n{loop}{branches}")
    con.create_aggregate("f", function)
    con.create_aggregate("c", function, mode="python")
    assert "f: its code is compiled" in con.explain("SELECT f(i, x, b, 0) FROM t")
    for which, text in enumerate(texts):
        for key in range(1, 5):
            found: list[Any] = []
            for name in ("f", "c"):
                try:
                    call = con.sql(f"SELECT {name}(i, x, b, {which}) FROM t WHERE k = {key}")
                    found.append(call.fetchall()[0][0])
                except warpmill.ExecutionError as error:
                    found.append(str(error).replace(f"'{name}'", ""))
            one, other = found
            same = one == other if isinstance(one, str) or isinstance(other, str) else alike(one, other)
            assert same, (text, key, one, other)


def test_constants_of_outside_are_parameters(filled: warpmill.Connection) -> None:
    def discounted(rate: float, most: int) -> Callable[..., Any]:
        def function(x: Any, *, start: float = 1.0) -> Any:
            total = start
            for number, value in enumerate(x.dropna().to_list() if False else x):
                if number < most and value is not None and value == value:
                    total = total * rate + value
            return total

        return function

    one = Translator(discounted(0.5, 3), ["x"], "DOUBLE")(["DOUBLE"])
    other = Translator(discounted(0.25, 100), ["x"], "DOUBLE")(["DOUBLE"])
    assert not isinstance(one, str), one
    assert not isinstance(other, str)
    assert one[0] == other[0]
    assert one[1:3] != other[1:3]
    for rate in (0.5, 0.25):
        filled.create_aggregate("f", discounted(rate, 3), mode="compiled")
        filled.create_aggregate("c", discounted(rate, 3), mode="python")
        assert all(alike(left, right) for _, left, right in rows(filled, "f(x), c(x)"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return sorted(x)[0]", "line 2: a call of sorted()"),
        ("n = 0\n    for v in x:\n        n += helper(v)\n    return n", "line 4: a call of alike()"),
        ("n = [1]\n    return n[0]", "line 2: a list is not compiled"),
        ("t = 0\n    for v in x:\n        t = 'a'\n    return t", "line 4: a constant of type str"),
        ("try:\n        return 1\n    except ValueError:\n        return 2", "line 2: try is not compiled"),
        ("for v in x:\n        x = x.dropna()\n    return 0", "line 3: the variable 'x' stands for different columns"),
        ("return x.median() + ((x - x.mean()) ** 2).sum()", "line 2: the method median()"),
        ("t = (x.mean() > 1) + ((x - x.mean()) > 1)\n    return t", "line 2: arithmetic with a truth value"),
        ("return ((x - x.mean()) ** 2).sum() if x else 0", "line 2: a whole column where one value is needed"),
        (
            "while True:\n        t = 1\n    else:\n        t = 2\n    return t",
            "line 2: 'else' of a loop is not compiled",
        ),
    ],
)
def test_what_is_refused_says_its_line(body: str, reason: str, filled: warpmill.Connection) -> None:
    text = f"def f(x):\n    {body}\n"
    function = compiled(text)
    function.__globals__["helper"] = alike
    with pytest.raises(ValueError, match="function 'f' is not compiled: line") as raised:
        filled.create_aggregate("f", function, mode="compiled")
    assert reason in str(raised.value)


def test_groups_of_a_table(filled: warpmill.Connection) -> None:
    def runs(g: Any) -> Any:
        longest = run = 0
        for i in range(len(g)):
            if g.x[i] is not None and g["y"][i] is not None and g.x[i] > g["y"].iloc[i]:
                run += 1
                longest = max(longest, run)
            else:
                run = 0
        return longest

    made = filled.table("t").groupby("k").apply(runs, returns=int)
    assert "its code is compiled" in made.explain()
    called = filled.table("t").groupby("k").apply(runs, returns=int, mode="python")
    assert sorted(made.fetchall()) == sorted(called.fetchall())
    with pytest.raises(ValueError, match="not compiled: line"):
        filled.table("t").groupby("k").apply(lambda g: sorted(g.x), mode="compiled")


def test_functions_of_rows(filled: warpmill.Connection) -> None:
    def steps(n: Any, most: Any = 200) -> Any:
        count = 0
        while n != 1 and count < most:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    def shown(x: Any, y: Any) -> Any:
        for k in range(3):
            if x > y:
                return math.sin(x) + k
            x += 1
        return None if y > 8 else 1 / y

    info = filled.create_function("steps", steps, returns=int)
    assert info.tier == "compiled"
    filled.create_function("c", steps, returns=int, mode="scalar")
    found = filled.sql("SELECT y, steps(y), c(y) FROM t").fetchall()
    assert all(one == other and (y is None) == (one is None) for y, one, other in found)
    assert "steps: its code is compiled" in filled.explain("SELECT steps(y) FROM t")
    assert "steps: its code is compiled" in filled.explain("SELECT y FROM t WHERE steps(y) > 3")
    assert filled.sql("SELECT steps(27), steps(NULL)").fetchall() == [(111, None)]
    filled.create_function("shown", shown, mode="auto")
    filled.create_function("c", shown, mode="scalar")
    found = filled.sql("SELECT shown(x, y), c(x, y) FROM t WHERE y != 0").fetchall()
    assert all(alike(one, other) for one, other in found)
    with pytest.raises(warpmill.ExecutionError, match=r"'shown', line \d+ .*ZeroDivisionError"):
        filled.sql("SELECT shown(-9.0, y) FROM t")
    filled.create_function("shown", shown, mode="compiled")
    with pytest.raises(warpmill.ExecutionError, match=r"'shown', line \d+: a division by zero"):
        filled.sql("SELECT shown(-9.0, y) FROM t")
    with pytest.raises(ValueError, match="it has side effects"):
        filled.create_function("shown", shown, mode="compiled", side_effects=True)


def test_filters_windows_and_no_groups(filled: warpmill.Connection) -> None:
    filled.create_aggregate("f", centred)
    filled.create_aggregate("c", centred, mode="python")
    for query in (
        "SELECT {0}(x, y) FILTER (WHERE y > 0) FROM t",
        "SELECT {0}(x, y) FROM t WHERE k > 100",
        "SELECT {0}(x, y) OVER (PARTITION BY k ORDER BY y) FROM t WHERE k > 1 ORDER BY 1",
        "SELECT {0}(x, y) FROM t GROUP BY ROLLUP (k) ORDER BY k",
        "SELECT max(m) FROM (SELECT {0}(x, y) AS m FROM t GROUP BY k HAVING {0}(x, y) > 1)",
    ):
        found, known = (filled.sql(query.format(name)).fetchall() for name in ("f", "c"))
        assert len(found) == len(known)
        assert all(alike(one, other) for (one,), (other,) in zip(found, known, strict=True)), query


@pytest.mark.parametrize("threads", [1, 3])
def test_many_groups_and_skew(threads: int) -> None:
    rng = np.random.default_rng(7)
    keys = np.concatenate([rng.integers(0, 20_000, 90_000), np.zeros(60_000, np.int64)])
    rng.shuffle(keys)
    x = rng.normal(size=len(keys))
    with warpmill.connect(threads=threads) as con:
        con.create_table("t", pa.table({"k": keys, "x": x}))
        con.create_aggregate("f", compounded, mode="compiled")
        found = dict(con.sql("SELECT k, f(x) FROM t GROUP BY k").fetchall())
    expected = np.zeros(20_000)
    np.add.at(expected, keys, np.log1p(x / 100))
    assert len(found) == len(np.unique(keys))
    assert all(
        math.isclose(value, math.expm1(expected[key]), rel_tol=1e-6, abs_tol=1e-9) for key, value in found.items()
    )


def test_interrupts_stop_compiled_code(filled: warpmill.Connection) -> None:
    def endless(x: Any) -> Any:
        n = 0
        while len(x) >= 0:
            n = (n + 1) % 7
        return n

    filled.create_aggregate("endless", endless, mode="compiled")
    stopper = threading.Timer(1.5, filled.interrupt)
    stopper.start()
    begin = time.monotonic()
    with pytest.raises(warpmill.InterruptError):
        filled.sql("SELECT k, endless(y) FROM t GROUP BY k")
    stopper.join()
    assert time.monotonic() - begin < 20
    assert filled.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("function", KEPT)
def test_kept_texts_are_what_is_compiled(function: Callable[..., Any]) -> None:
    """WARPMILL_BLESS=1 writes them."""
    types = KEPT[function]
    made = Translator(function, ["x", "y"][: len(types)], "DOUBLE")(types)
    assert not isinstance(made, str)
    kept = TEXTS / f"{function.__name__}.cuh"
    if os.environ.get("WARPMILL_BLESS"):
        kept.write_text(made[0])
    assert kept.read_text() == made[0]
