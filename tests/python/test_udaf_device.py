"""Compiled aggregate functions on the simulated device compared with the host, which runs the same code."""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import warpmill
from trials import trials
from udf.data import alike, table
from udf.functions import centred, compounded
from udf.test_compiled import functions
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICES = json.loads(_warpmill.devices())
pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason=str(DEVICES["no_simulated_device"]))

SEED = int(os.environ.get("WARPMILL_UDF_SEED", "20261127"))


def total(x: Any) -> Any:
    """All values but NULL, in a loop."""
    found = 0
    for value in x:
        if value is not None:
            found += value
    return found


def spread(x: Any) -> Any:
    """Two reductions, one over the result of the other, which skip missing values."""
    return math.sqrt(((x - x.mean()) ** 2).sum() / 4) if x.count() > 1 else None


def welch(x: Any, y: Any) -> Any:
    """A t-test with sums computed in a loop."""
    n = 0
    sx = 0.0
    sy = 0.0
    for a, b in zip(x, y):  # noqa: B905 - `strict` is not compiled
        if a is not None and b is not None and a == a:
            n += 1
            sx += a
            sy += b
    if n < 2:
        return None
    mx, my = sx / n, sy / n
    vx = ((x - mx) ** 2).sum() / (n - 1)
    vy = ((y - my) ** 2).sum() / (n - 1)
    return (mx - my) / math.sqrt(vx / n + vy / n) if vx + vy > 0 else None


FUNCTIONS = {"total": total, "spread": spread, "welch": welch, "centred": centred, "compounded": compounded}


class Both:
    """A session on the simulated device and one on the host, with the same tables and functions."""

    def __init__(self) -> None:
        self.device, self.host = warpmill.connect(), warpmill.connect()
        self.device.set("device", "sim")
        self.device.set("device_fallback", "error")
        self.host.set("device", "cpu")
        for name, function in FUNCTIONS.items():
            self.create_aggregate(name, function)

    def create_aggregate(self, name: str, function: Any, **options: Any) -> None:
        for con in (self.device, self.host):
            con.create_aggregate(name, function, **options)

    def create_table(self, name: str, rows: pa.Table) -> None:
        for con in (self.device, self.host):
            con.execute(f"DROP TABLE IF EXISTS {name}")
            con.create_table(name, rows)

    def check(self, sql: str, *, on_device: bool = True) -> list[tuple[Any, ...]]:
        """Compare the ordered rows of a query; optionally only the device may run it."""
        self.device.set("fallback", "error" if on_device else "allow")
        result = self.device.sql(sql)
        found, known = result.fetchall(), self.host.sql(sql).fetchall()
        assert len(found) == len(known), sql
        for one, other in zip(found, known, strict=True):
            same = len(one) == len(other) and all(map(same_value, one, other))
            assert same, f"{sql}\n{one}\n{other}"
        if on_device:
            assert {program["device"] for program in result.profile["programs"]} == {"sim"}, sql
        return found

    def close(self) -> None:
        self.device.close()
        self.host.close()


def same_value(one: Any, other: Any) -> bool:
    if isinstance(one, (float, int)) and isinstance(other, (float, int)):
        return alike(one, other)
    return bool(one == other) or (one is None and other is None)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    pair = Both()
    pair.create_table("t", wide(600))
    yield pair
    pair.close()


def wide(rows: int, seed: int = 3) -> pa.Table:
    """Keys of many types, NULLs among them; exact values, so that sums do not depend on the order of rows."""
    draw = random.Random(seed)

    def column(make: Any, missing: float = 0.15) -> list[Any]:
        return [None if draw.random() < missing else make() for _ in range(rows)]

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array(column(lambda: draw.choice([1, 1, 1, 2, 3, 7, 900])), pa.int32()),
            "s": pa.array(column(lambda: draw.choice(["a", "b", "", "a longer text than sixteen bytes"])), pa.string()),
            "u": pa.array(column(lambda: "text number " + str(draw.randrange(200))), pa.string()),
            "f": pa.array(column(lambda: draw.choice([0.5, -1.0, 1e300, math.inf])), pa.float64()),
            "b": pa.array(column(lambda: draw.random() < 0.3), pa.bool_()),
            "d": pa.array(column(lambda: Decimal(draw.randrange(-9999, 9999)).scaleb(-2)), pa.decimal128(9, 2)),
            "h": pa.array(column(lambda: Decimal(draw.randrange(10**30)).scaleb(-2)), pa.decimal128(38, 2)),
            "day": pa.array(column(lambda: draw.randrange(5)), pa.date32()),
            "x": pa.array(column(lambda: draw.choice([0.25, 1.5, -2.0, 8.0, math.nan])), pa.float64()),
            "z": pa.array([draw.randrange(64) / 4 for _ in range(rows)], pa.float64()),
            "e": pa.array(column(lambda: draw.choice([0.5, 4.0])), pa.float32()),
            "y": pa.array(column(lambda: draw.randrange(-50, 50)), pa.int64()),
            "n": pa.array(column(lambda: draw.randrange(200)), pa.int16()),
            "w": pa.array([draw.randrange(0, 9) for _ in range(rows)], pa.uint32()),
        }
    )


KEYS = ["k", "s", "u", "f", "b", "d", "h", "day", "k, s", "b, u, k", "k + 1", "id"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("keys", KEYS)
def test_keys(both: Both, keys: str) -> None:
    both.check(f"SELECT {keys}, total(y) AS a, spread(x) AS b, welch(z, y) AS c FROM t GROUP BY {keys} ORDER BY ALL")


@pytest.mark.parametrize("column", ["x", "z", "e", "y", "n", "w", "d", "b", "x + y", "CAST(k AS DOUBLE)"])
def test_arguments(both: Both, column: str) -> None:
    both.check(f"SELECT s, total({column}) FROM t GROUP BY s ORDER BY s")


QUERIES = [
    "SELECT total(y), spread(x) FROM t",
    "SELECT total(y), spread(x) FROM t WHERE id < 0",
    "SELECT k, total(y) FROM t WHERE id < 0 GROUP BY k",
    "SELECT k, compounded(z) FROM t WHERE z < 10 GROUP BY k ORDER BY k",
    "SELECT k, total(y) AS a FROM t GROUP BY k HAVING total(y) > 5 ORDER BY a DESC, k",
    "SELECT k, total(y) + 1, abs(spread(x)) FROM t GROUP BY k ORDER BY k LIMIT 3",
    "SELECT max(a), count(*) FROM (SELECT u, total(y) AS a FROM t GROUP BY u)",
    "SELECT t.id, g.a FROM t JOIN (SELECT k, total(y) AS a FROM t GROUP BY k) AS g ON t.k = g.k ORDER BY t.id",
    "SELECT o.s, total(t.y), welch(t.z, o.y) FROM t JOIN t AS o ON t.id = o.n GROUP BY o.s ORDER BY o.s",
    "SELECT k, total(y), count(*), sum(y), avg(x), min(s), spread(x), count(DISTINCT u) FROM t GROUP BY k ORDER BY k",
    "SELECT s, b, max(n), total(y), var_samp(z) FILTER (WHERE id > 9) FROM t GROUP BY s, b ORDER BY s, b",
    "SELECT total(y), count(*), sum(z) FROM t WHERE id < 0",
    "SELECT k, s, total(y), spread(x) FROM t GROUP BY ROLLUP (k, s) ORDER BY ALL",
    "SELECT k, s, grouping(k), total(y) FROM t GROUP BY GROUPING SETS ((k, s), (s), (), (s)) ORDER BY ALL",
    "SELECT k, total(y) FROM t WHERE id < 0 GROUP BY CUBE (k)",
    "SELECT s, total(y) FROM (SELECT DISTINCT s, y FROM t) GROUP BY s ORDER BY s",
    "SELECT s, total(a) FROM (SELECT s, k, total(y) AS a FROM t GROUP BY s, k) GROUP BY s ORDER BY s",
    "SELECT s, total(y) FROM (SELECT s, y FROM t UNION ALL SELECT u, n FROM t) GROUP BY s ORDER BY s",
    "SELECT s, total(y) FROM (SELECT s, y FROM t ORDER BY id LIMIT 100) GROUP BY s ORDER BY s",
    "WITH g AS (SELECT k, total(y) AS a FROM t GROUP BY k) SELECT a.k, b.a FROM g a JOIN g b ON a.k = b.k ORDER BY a.k",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_in_queries(both: Both, sql: str) -> None:
    both.check(sql)


def test_the_host_calls_what_devices_do_not(both: Both) -> None:
    for sql, reason in (
        ("SELECT k, total(y) FILTER (WHERE id > 5) FROM t GROUP BY k ORDER BY k", "total: FILTER"),
        ("SELECT k, total(y), sum(y) FROM t GROUP BY ROLLUP (k) ORDER BY k, 2", "over grouping sets"),
    ):
        both.check(sql, on_device=False)
        plan = both.device.explain(sql)
        assert "total: its code is compiled" in plan
        assert "; not on the device: " in plan
        assert reason in plan
    plan = both.device.explain("SELECT k, total(y) FROM t GROUP BY k")
    assert "functions by [k] [total(y)]" in plan
    assert "run by DataFusion" not in plan
    assert "not on the device" not in both.host.explain("SELECT k, total(y) FROM t GROUP BY k")


@pytest.mark.parametrize("rows", [1, 33, 5000])
def test_one_large_group_beside_small_ones(both: Both, rows: int) -> None:
    keys = [0] * rows + list(range(1, 40)) + [50] * 31 + [51] * 32 + [52] * 33 + [53] * 2049
    values = [(17 * at) % 64 / 4 for at in range(len(keys))]
    both.create_table("skewed", pa.table({"k": keys, "x": values, "y": [at % 11 - 5 for at in range(len(keys))]}))
    both.check("SELECT k, total(x), spread(x), welch(x, y), compounded(x) FROM skewed GROUP BY k ORDER BY k")


@pytest.mark.parametrize("rows", [100_000])
def test_many_groups(both: Both, rows: int) -> None:
    rng = np.random.default_rng(5)
    keys = np.concatenate([rng.integers(-(10**12), 10**12, rows // 4), rng.integers(0, 300, rows)])
    both.create_table("many", pa.table({"k": keys, "x": rng.integers(0, 100, len(keys)) / 4}))
    both.check("SELECT k, spread(x) FROM many GROUP BY k ORDER BY k LIMIT 1000")


def test_what_a_function_gives_up_is_pythons(both: Both) -> None:
    """A NULL in arithmetic, a division by zero, an overflow: results and exceptions equal the host's."""
    both.create_table("g", pa.table({"k": [1, 1, 2, 3], "i": [2**62, 2**62, 3, None], "x": [1.0, 2.0, 4.0, None]}))

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

    both.create_aggregate("multiplied", multiplied)
    both.create_aggregate("ratio", ratio)
    sql = "SELECT k, multiplied(i) FROM g WHERE k < 3 GROUP BY k ORDER BY k"
    for _ in range(2):
        assert both.check(sql, on_device=False) == [(1, 2.0**124), (2, 3.0)]
    for con in (both.device, both.host):
        with pytest.raises(warpmill.ExecutionError, match=r"function 'multiplied', line \d+ of .*: TypeError"):
            con.sql("SELECT k, multiplied(i) FROM g GROUP BY k")
        with pytest.raises(warpmill.ExecutionError, match=r"function 'ratio', line \d+ of .*ZeroDivisionError"):
            con.sql("SELECT ratio(i) FROM g WHERE k = 2")
    both.create_aggregate("ratio", ratio, mode="compiled")
    line = ratio.__code__.co_firstlineno + 3
    with pytest.raises(warpmill.ExecutionError, match=rf"function 'ratio', line {line}: a division by zero"):
        both.device.sql("SELECT ratio(i) FROM g WHERE k = 2")
    assert both.check("SELECT k, ratio(x) FROM g WHERE k = 1 GROUP BY k") == [(1, -1.0)]
    both.device.set("fallback", "error")
    with pytest.raises(warpmill.FallbackError, match="its code is compiled"):
        both.device.sql("SELECT k, multiplied(i) FROM g WHERE k = 1 GROUP BY k")
    both.device.set("fallback", "allow")
    analyzed = both.device.explain("SELECT k, multiplied(i) FROM g WHERE k = 1 GROUP BY k", analyze=True)
    assert "the host runs its functions" in analyzed


def test_results_have_their_types(both: Both) -> None:
    def newest(x: Any) -> Any:
        found = None
        for value in x:
            if value is not None:
                found = value
        return found

    both.create_table("r", pa.table({"k": [1, 2, 2], "b": [True, False, None], "i": [2**62, None, 5], "n": [3, 4, 4]}))
    for returns, column, expected in (
        ("BIGINT", "i", [(1, 2**62), (2, 5)]),
        ("DOUBLE", "n", [(1, 3.0), (2, 4.0)]),
        ("BOOLEAN", "b", [(1, True), (2, False)]),
        ("INTEGER", "n", [(1, 3), (2, 4)]),
    ):
        both.create_aggregate("newest", newest, returns=returns, mode="compiled")
        assert both.check(f"SELECT k, newest({column}) FROM r GROUP BY k ORDER BY k") == expected


def test_constants_are_no_part_of_kernels(both: Both) -> None:
    def discounted(rate: float, most: int) -> Any:
        def function(x: Any) -> Any:
            made = 0.0
            for at, value in enumerate(x):
                if at < most:
                    made = made * rate + value
            return made

        return function

    for rate, most in ((0.5, 3), (0.25, 100)):
        both.create_aggregate("discounted", discounted(rate, most))
        both.check("SELECT k, discounted(1.0 + 0 * z) FROM t GROUP BY k ORDER BY k")


def test_results_are_used_as_tables(both: Both) -> None:
    for con in (both.device, both.host):
        con.set("fallback", "allow")
        con.execute("CREATE OR REPLACE TABLE made AS SELECT k, total(y) AS a, spread(x) AS b FROM t GROUP BY k")
    both.check("SELECT k, a, b FROM made ORDER BY k")
    both.check("SELECT total(a), spread(b) FROM made")


def test_other_devices_and_none(both: Both) -> None:
    sql = "SELECT k, total(y) FROM t GROUP BY k ORDER BY k"
    expected = both.host.sql(sql).fetchall()
    with warpmill.connect() as con:
        con.create_table("t", wide(600))
        con.create_aggregate("total", total)
        for name, value in (("device", "auto"), ("device", "sim:2"), ("placement", "segment"), ("placement", "range")):
            con.set(name, value)
            assert con.sql(sql).fetchall() == expected, (name, value)
        con.set("warpmill.debug.first_runs", "cpu")
        con.set("placement", "program")
        for _ in range(2):
            assert con.sql(sql).fetchall() == expected


def test_sinks_that_do_not_fit_are_the_hosts() -> None:
    with warpmill.connect() as con:
        rows = 400_000
        con.create_table("t", pa.table({"k": [at % 7 for at in range(rows)], "y": [at % 10 for at in range(rows)]}))
        con.create_aggregate("total", total)
        con.set("device", "sim")
        con.set("gpu_memory_limit", "8MB")
        sql = "SELECT k, total(y) FROM t GROUP BY k ORDER BY k"
        found = con.sql(sql).fetchall()
        con.set("device", "cpu")
        assert found == con.sql(sql).fetchall()


@pytest.mark.long
def test_loops_over_very_many_rows_are_the_hosts(both: Both) -> None:
    """Expected by the statistics of a key, or found in one of many groups."""
    rows = (1 << 20) + 10
    one = pa.table({"k": np.zeros(rows, np.int64), "x": np.ones(rows)})
    many = pa.table({"k": np.where(np.arange(rows + 99) < rows, 0, np.arange(rows + 99)), "x": np.ones(rows + 99)})
    for data in (one, many):
        both.create_table("long", data)
        sql = "SELECT k, total(x) FROM long GROUP BY k ORDER BY k LIMIT 3"
        assert both.check(sql, on_device=False)[0] == (0, rows)
        both.check("SELECT k, spread(x) FROM long GROUP BY k ORDER BY k LIMIT 3")
    both.create_table("long", one)
    both.device.set("fallback", "allow")
    assert "one after the other" in both.device.explain("SELECT total(x) FROM long")


def test_interrupts(both: Both) -> None:
    """The device abandons an endless loop, the host stops it."""

    def endless(x: Any) -> Any:
        n = len(x)
        while n >= 0:
            n = n % 7
        return n

    both.create_aggregate("endless", endless)
    both.device.set("fallback", "allow")
    stopped = threading.Timer(3.0, both.device.interrupt)
    stopped.start()
    begun = time.monotonic()
    with pytest.raises((KeyboardInterrupt, warpmill.Error)):
        both.device.sql("SELECT endless(x) FROM t WHERE id < 2").fetchall()
    stopped.join()
    assert time.monotonic() - begun < 60


@pytest.mark.trials
@pytest.mark.parametrize("batch", range(trials(1)))
def test_random_functions(batch: int, both: Both) -> None:
    seed = SEED + batch
    rows = table(seed)
    both.create_table("random", rows.append_column("id", pa.array(range(len(rows)))))
    # Functions may depend on the order of rows, which sorts give.
    sql = "SELECT k, f(x, y) FROM (SELECT * FROM random ORDER BY id LIMIT 100000) GROUP BY k ORDER BY k"
    for text, function in functions(seed, 4, pandas_alike=False):
        both.create_aggregate("f", function)
        found: list[list[tuple[Any, ...]] | None] = []
        for con in (both.device, both.host):
            con.set("fallback", "allow")
            try:
                found.append(con.sql(sql).fetchall())
            except warpmill.ExecutionError:
                found.append(None)
        one, other = found
        assert (one is None) == (other is None), f"seed {seed}\n{text}"
        for left, right in zip(one or [], other or [], strict=True):
            assert all(map(same_value, left, right)), f"seed {seed}: {left} {right}\n{text}"
