"""Aggregate functions that Numba compiles: results beside Python, refusals, interruption."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from trials import trials
from udf import listed, pitfalls
from udf.data import NEWEST, RESULTS, alike, differences, table
from udf.grammar import compiled
from udf.loops import Loops
from warpmill.udf.numba import NumbaTranslator, missing
from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

#: Random functions, each of which Numba compiles for seconds; others with WARPMILL_UDF_SEED=N.
FUNCTIONS = trials(6, "WARPMILL_NUMBA_FUNCTIONS")
SEED = int(os.environ.get("WARPMILL_UDF_SEED", "20261130"))


def rows(con: warpmill.Connection, calls: str, tail: str = "") -> list[tuple[Any, ...]]:
    return con.sql(f"SELECT k, {calls} FROM t {tail} GROUP BY k ORDER BY k").fetchall()


@pytest.mark.parametrize("function", listed.ALL, ids=lambda function: function.__name__)
def test_results_are_those_of_python(function: Callable[..., Any], con: warpmill.Connection) -> None:
    con.create_table("t", table(5, 400))
    con.create_table("full", table(6, 400, nulls=False))
    call = f"({', '.join(listed.ALL[function])})"
    info = con.create_aggregate("f", function, mode="numba")
    assert info.tier == "compiled"
    con.create_aggregate("c", function, mode="python")
    for name in ("t", "full"):
        query = f"SELECT k, f{call}, c{call} FROM {name} GROUP BY k ORDER BY k"
        assert "f: its code is compiled by Numba:" in con.explain(query)
        found = con.sql(query).fetchall()
        assert len(found) > 5
        assert [row for row in found if not alike(row[1], row[2])] == []
    assert (
        con.sql(f"SELECT f{call} FROM t WHERE k < 0").fetchall()
        == con.sql(f"SELECT c{call} FROM t WHERE k < 0").fetchall()
    )


@pytest.mark.trials
@pytest.mark.parametrize("number", range(FUNCTIONS))
def test_random_loops_have_the_results_of_python(number: int, con: warpmill.Connection) -> None:
    grammar = Loops(SEED + number, pandas_alike=False)
    con.create_table("t", table(SEED + number))
    for _ in range(60):
        text = grammar.function()
        function = compiled(text)
        try:
            translator = NumbaTranslator(function, ["x", "y"], "DOUBLE", "columns")
        except NotSymbolic:
            continue
        try:
            translator(["DOUBLE", "BIGINT"])
        except ValueError:
            continue
        con.create_aggregate("f", function, mode="numba")
        con.create_aggregate("c", function, mode="python")
        try:
            called = rows(con, "c(x, y)")
        except warpmill.ExecutionError:
            # If several groups fail, either may be reported.
            with pytest.raises(warpmill.ExecutionError, match="function 'f', line"):
                rows(con, "f(x, y)")
        else:
            assert not differences(["f"], rows(con, "f(x, y)"), called), f"seed {SEED + number}\n{text}"
        return
    raise AssertionError("no function of 60 is compiled")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return len({v for v in x})", "line 2: a set is not compiled by Numba here"),
        ("return len([str(v) for v in x])", "line 2: a call of str() is not compiled by Numba here"),
        ("n = list(x)\n    n.sort(key=abs)\n    return n[0]", "line 3: a sort by a key"),
        ("for v in x:\n        n = [v]\n    return n[0]", "line 4: the variable 'n' may have no value"),
        (
            "try:\n        return [1][0]\n    except ValueError:\n        return 2",
            "line 2: try is not compiled by Numba",
        ),
        ("return [1 << 3][0]", "line 2: a shift"),
        ("return [2**70, 1][1] + [9999999999999999999][0]", "line 2: a constant of more than 64 bits"),
        ("return [x.quantile(v) for v in [0.5]][0]", "line 2: Numba: "),
        ("return [1.0, 2.0]", "its result is of Numba's type "),
        ("n = [1]\n    return f(x)", "a function calls itself"),
        ("return [v for v in x][0] if x else 0", "line 2: Numba: "),
    ],
)
def test_what_is_refused_says_its_line(body: str, reason: str, con: warpmill.Connection) -> None:
    function = compiled(f"def f(x):\n    {body}\n")
    con.create_table("t", table(5))

    def used() -> None:
        con.create_aggregate("f", function, mode="numba")
        rows(con, "f(x)")

    with pytest.raises((ValueError, warpmill.ExecutionError), match="is not compiled: ") as raised:
        used()
    assert reason in str(raised.value)


def test_what_python_does_otherwise_is_asked_of_python(con: warpmill.Connection) -> None:
    """Integers beyond 64 bits, exceptions, NULLs, NaN in sorts: results and errors are Python's."""
    large = 2**62
    con.create_table(
        "t",
        {
            "k": [1, 1, 2, 2, 3, 3, 4, 4],
            "i": [large, large, 3, 4, None, 1, -(2**63), -1],
            "x": [1.0, math.nan, math.inf, 2.0, None, 3.0, -1.0, 0.0],
        },
    )
    first = "for v in {0}:\n        return "
    texts = {
        "p = 1\n    for v in {0}:\n        p *= v\n    return p": "i",
        "return sum({0})": "i",
        f"{first}v - max({{0}})": "i",
        f"{first}-v": "i",
        f"{first}abs(v)": "i",
        f"{first}v // -1": "i",
        f"{first}v % -1": "i",
        f"{first}v / 3": "i",
        f"{first}v ** 2": "i",
        f"{first}1 if v > 4611686018427387904.5 else 0": "i",
        f"{first}min(v, 4611686018427387900.0)": "i",
        "return sorted({0})[0]": "x",
        "return int({0}[-1])": "x",
        "return round({0}[-1])": "x",
        f"{first}math.sqrt(v)": "x",
        f"{first}math.exp(v * 1000)": "x",
        f"{first}1 / v": "x",
        f"{first}v ** 0.5": "x",
        "return {0}[5]": "x",
        "t = 0.0\n    for i in range(len({0})):\n        t += {0}[i]\n    return t": "x",
        "return [v for v in {0} if v is not None][0]": "x",
        "l = list({0})\n    l += [1.0]\n    m = l\n    m.append(3.0)\n    return len(l) + l[-1]": "x",
        "assert len({0}) > 3\n    return 1": "x",
    }
    for number, (text, column) in enumerate(texts.items()):
        function = compiled(f"import math\ndef f(c):\n    {text.format('c')}\n")
        con.create_aggregate("f", function, mode="numba")
        con.create_aggregate("c", function, mode="python")
        for key in range(1, 5):
            one, other = (outcome(con, f"SELECT {name}({column}) FROM t WHERE k = {key}", name) for name in "fc")
            same = one == other if isinstance(one, str) or isinstance(other, str) else alike(one, other)
            assert same, (number, text, key, one, other)


@pytest.mark.parametrize("body", pitfalls.BODIES)
def test_pitfalls_are_refused_or_the_same(body: str, con: warpmill.Connection) -> None:
    xs: list[list[Any]] = [
        [1.0, 2.5, -3.5, 2.5],
        [1.0, None, 3.0, None],
        [math.nan, 1.5, math.nan, 2.0],
        [None],
        [7.0],
        [-0.0, 0.0, math.inf],
    ]
    ys: list[list[Any]] = [
        [1, 2, 3, 2],
        [5, None, 7, None],
        [-(2**63), -1, 2**63 - 1, 2],
        [None],
        [7],
        [2**62, 2**62, 2**62 + 1],
    ]
    keys = [key for key, values in enumerate(xs) for _ in values]
    con.create_table("t", {"k": keys, "x": [v for part in xs for v in part], "y": [v for part in ys for v in part]})
    function = compiled(f"import math\nimport numpy as np\ndef f(x, y):\n    {body}\n")
    con.create_aggregate("c", function, mode="python")
    try:
        con.create_aggregate("f", function, mode="numba")
        con.sql("SELECT f(x, y) FROM t WHERE k = 4")
    except (ValueError, warpmill.ExecutionError) as refused:
        if "is not compiled: " in str(refused):
            return
    for where in [*(f"k = {key}" for key in range(len(xs))), "false"]:
        one, other = (outcome(con, f"SELECT {name}(x, y) FROM t WHERE {where}", name) for name in "fc")
        same = one == other if isinstance(one, str) or isinstance(other, str) else alike(one, other)
        assert same, (where, one, other)


def outcome(con: warpmill.Connection, sql: str, name: str) -> Any:
    """The only value of a query, or its error without the function's name."""
    try:
        return con.sql(sql).fetchall()[0][0]
    except warpmill.ExecutionError as error:
        return str(error).replace(f"'{name}'", "")


def test_results_have_their_types(con: warpmill.Connection) -> None:
    con.create_table("t", NEWEST)

    def newest(x: Any) -> Any:
        found = [v for v in x if v is not None]
        return found[-1] if len(found) > 0 else None

    for returns, column, expected in RESULTS:
        con.create_aggregate("newest", newest, returns=returns, mode="numba")
        assert rows(con, f"newest({column})") == expected
    con.create_aggregate("newest", newest, returns="INTEGER", mode="numba")
    with pytest.raises(warpmill.ExecutionError, match=r"'newest': .* is no INTEGER"):
        rows(con, "newest(n + 3000000000)")
    con.create_aggregate("newest", newest, returns="BOOLEAN", mode="numba")
    with pytest.raises(warpmill.ExecutionError, match=r"its result is of Numba's type .* where BOOLEAN is declared"):
        rows(con, "newest(n)")


def test_groups_of_a_table(con: warpmill.Connection) -> None:
    con.create_table("t", table(5, 400))

    def paired(g: Any) -> Any:
        seen = [(g.x[i], g["y"][i]) for i in range(len(g)) if g.x[i] is not None and g.y[i] is not None]
        best = 0.0
        for v, w in seen:
            if v > w:
                best += v - w
        return best

    def renamed(g: Any) -> Any:
        x = g.y
        values = [1]
        return g.x.sum() + len(x) * 100 + len(g) * 10000 + values[0] + x.count()

    for function in (paired, renamed):
        made = con.table("t").groupby("k").apply(function, mode="numba")
        called = con.table("t").groupby("k").apply(function, mode="python")
        assert sorted(made.fetchall()) == sorted(called.fetchall())
    made = con.table("t").groupby("k").apply(paired, mode="numba")
    assert "compiled by Numba" in made.explain()
    called = con.table("t").groupby("k").apply(paired, mode="python")
    assert sorted(made.fetchall()) == sorted(called.fetchall())


@pytest.mark.parametrize(
    "body",
    [
        "n = [len(y)]\n    while len(n) > 0:\n        n[0] = (n[0] + 1) % 7\n    return n[0]",
        "s = y.count()\n    return len([i for i in range(10**12) if math.sin(i * s) > 1.5])",
        "return sum(range(10**14))",
    ],
)
def test_interrupts_stop_numbas_code(body: str, con: warpmill.Connection) -> None:
    con.create_table("t", table(5))
    endless = compiled(f"import math\ndef f(y):\n    {body}\n")
    con.create_aggregate("endless", endless, mode="numba")
    con.explain("SELECT k, endless(y) FROM t GROUP BY k")
    stopper = threading.Timer(1.5, con.interrupt)
    stopper.start()
    begin = time.monotonic()
    with pytest.raises(warpmill.InterruptError):
        con.sql("SELECT k, endless(y) FROM t GROUP BY k")
    stopper.join()
    assert time.monotonic() - begin < 20
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_numba_is_asked_for(con: warpmill.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert con.create_aggregate("trimmed", listed.trimmed).tier == "called"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"Numba is not installed \(pip install 'warpmill\[numba\]'\)"):
        con.create_aggregate("trimmed", listed.trimmed, mode="numba")
