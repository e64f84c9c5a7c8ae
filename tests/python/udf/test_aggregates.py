"""Aggregate functions in Python: valid positions, semantics, and refusals."""

from __future__ import annotations

import datetime
import math
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from udf.data import alike, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def midrange(x: Any) -> Any:
    return (x.max() - x.min()) / 2


def ttest(x: Any, y: Any) -> Any:
    difference = x.mean() - y.mean()
    return difference / math.sqrt(x.var() / x.count() + y.var() / y.count())


def decayed(x: Any) -> Any:
    total = 0.0
    for value in sorted(x.dropna()):
        total = total / 2 + value
    return total


MIDRANGE = "(max({0}) - min({0}))::DOUBLE / 2"
TTEST = "(avg({0}) - avg({1})) / sqrt(var_samp({0}) / count({0}) + var_samp({1}) / count({1}))"
MODES = ["symbolic", "python"]


@pytest.fixture
def filled(con: warpmill.Connection) -> warpmill.Connection:
    con.create_table("t", table(5, 400))
    con.create_table("names", pa.table({"k": [0, 1, 2, 3], "name": ["a", "b", "a", None]}))
    return con


def clean(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(None if isinstance(one, float) and math.isnan(one) else one for one in row) for row in rows]


def same(con: warpmill.Connection, query: str, expressions: dict[str, str]) -> None:
    """The query's rows are DuckDB's, for which calls are written as SQL."""
    peer = duckdb.connect()
    for name in ("t", "names"):
        peer.register(name, con.sql(f"SELECT * FROM {name}").arrow())
    # DuckDB has no missing numbers but NULL.
    peer.execute("CREATE TABLE plain AS SELECT k, CASE WHEN isnan(x) THEN NULL ELSE x END AS x, y FROM t")
    theirs = query.replace("FROM t", "FROM plain AS t")
    for call, sql in expressions.items():
        theirs = theirs.replace(call, sql)
    found, known = con.sql(query).fetchall(), peer.sql(theirs).fetchall()
    assert len(found) == len(known)
    for row, other in zip(found, known, strict=True):
        assert all(
            one == two if isinstance(one, str) or one is two else alike(one, two)
            for one, two in zip(row, other, strict=True)
        ), (row, other)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, midrange(y), ttest(x, y), count(*), sum(y) FROM t GROUP BY k ORDER BY k",
        "SELECT midrange(y) FROM t",
        "SELECT midrange(y), count(*) FROM t WHERE k > 100",
        "SELECT k, midrange(y) FROM t WHERE k > 100 GROUP BY k",
        "SELECT k, midrange(y) FROM t GROUP BY k HAVING midrange(y) > 6 ORDER BY k",
        "SELECT k FROM t GROUP BY k ORDER BY midrange(y) DESC NULLS LAST, k",
        "SELECT k, midrange(y) FILTER (WHERE y > 0), ttest(x, y) FILTER (WHERE y < 7) FROM t GROUP BY k ORDER BY k",
        "SELECT name, midrange(y) + 1, 2 * ttest(x, y) FROM t JOIN names USING (k) GROUP BY name ORDER BY name",
        "SELECT k % 2 AS parity, ttest(x, y) FROM t GROUP BY ALL ORDER BY 1",
        "SELECT k, y, midrange(y) OVER (PARTITION BY k) AS m FROM t WHERE k > 2 ORDER BY k, y, m",
        "SELECT max(m) FROM (SELECT k, midrange(y) AS m FROM t GROUP BY k)",
        "WITH m AS (SELECT k, midrange(y) AS m FROM t GROUP BY k) SELECT count(*) FROM m WHERE m > 5",
        "SELECT k, midrange(y) FROM t GROUP BY ROLLUP (k) ORDER BY k",
        "SELECT k, (SELECT midrange(y) FROM t WHERE t.k = names.k) FROM names ORDER BY k",
    ],
)
def test_queries_have_duckdbs_answers(query: str, mode: Any, filled: warpmill.Connection) -> None:
    filled.create_aggregate("midrange", midrange, mode=mode)
    filled.create_aggregate("ttest", ttest, mode=mode)
    same(filled, query, {"midrange(y)": MIDRANGE.format("y"), "ttest(x, y)": TTEST.format("x", "y")} | _filtered())


def _filtered() -> dict[str, str]:
    """Calls with a filter or a window, which is that of each aggregate."""
    tails = (" FILTER (WHERE y > 0)", " FILTER (WHERE y < 7)", " OVER (PARTITION BY k)")
    made = {}
    for tail in tails:
        mid = f"(max(y){tail} - min(y){tail})::DOUBLE / 2"
        made[MIDRANGE.format("y") + tail] = mid
        parts = TTEST.format("x", "y")
        for call in ("avg(x)", "avg(y)", "var_samp(x)", "var_samp(y)", "count(x)", "count(y)"):
            parts = parts.replace(call, call + tail)
        made[TTEST.format("x", "y") + tail] = parts
    return made


def test_columns_are_called_as_the_text_says(filled: warpmill.Connection) -> None:
    filled.create_aggregate("midrange", midrange)
    assert filled.sql("SELECT k, midrange(y), MidRange(x) AS m FROM t GROUP BY k").columns == ["k", "midrange(y)", "m"]


def test_expressions_are_programs_and_calls_say_why_not(filled: warpmill.Connection) -> None:
    filled.create_aggregate("ttest", ttest)
    filled.create_aggregate("decayed", decayed)
    filled.set("fallback", "error")
    assert len(filled.sql("SELECT k, ttest(x, y) FROM t GROUP BY k").fetchall()) == 7
    with pytest.raises(warpmill.FallbackError, match=r"decayed: its code is called: line \d+: a loop \(for\)"):
        filled.sql("SELECT k, decayed(y) FROM t GROUP BY k")
    filled.set("fallback", "allow")
    assert "a loop (for) is no expression" in filled.explain("SELECT k, decayed(y) FROM t GROUP BY k")


def test_loops_are_called(filled: warpmill.Connection) -> None:
    filled.create_aggregate("decayed", decayed)
    frame = filled.sql("SELECT * FROM t").df()
    known = {key: decayed(group.y) for key, group in frame.groupby("k")}
    found = filled.sql("SELECT k, decayed(y) FROM t GROUP BY k").fetchall()
    assert len(found) == len(known)
    assert all(alike(value, known[key]) for key, value in found)


@pytest.mark.parametrize("mode", MODES)
def test_types_of_results(mode: Any, con: warpmill.Connection) -> None:
    con.create_table(
        "v",
        {
            "b": [True, False, None],
            "s": ["b", "a", None],
            "i": [2**62, 2**61, None],
            "d": [datetime.date(2020, 1, 2), None, datetime.date(1999, 1, 1)],
            "n": pa.array([1, 2, 4], pa.int8()),
            "w": pa.array([None, None, None], pa.float32()),
        },
    )
    functions: dict[str, tuple[Callable[..., Any], object]] = {
        "largest": (lambda x: x.max(), None),
        "whole": (lambda x: x.max(), int),
        "text": (lambda x: x.min(), "VARCHAR"),
        "latest": (lambda x: x.max(), datetime.date),
        "some": (lambda x: x.max() > 1, bool),
        "size": (lambda x: len(x), "INTEGER"),
        "known": (lambda x: x.count(), "BIGINT"),
        "total": (lambda x: x.sum(), "BIGINT"),
        "average": (lambda x: x.mean(), None),
        "nothing": (lambda x: None if x.count() < 100 else x.sum(), None),
    }
    for name, (function, returns) in functions.items():
        con.create_aggregate(name, function, returns=returns, mode=mode)
    query = """SELECT largest(i), whole(i), text(s), latest(d), some(n), size(n), known(n), total(n), average(b),
               average(w), nothing(n), known(s), size(s), total(b), known(w) FROM v"""
    found = con.sql(query)
    assert found.fetchall() == [
        (2.0**62, 2**62, "a", datetime.date(2020, 1, 2), True, 3, 3, 7, 0.5, None, None, 2, 3, 1, 0)
    ]
    assert found.types[:6] == ["Float64", "Int64", "Utf8", "Date32", "Boolean", "Int32"]


def test_wrong_types_are_errors(filled: warpmill.Connection) -> None:
    filled.create_table("v", {"s": ["a"], "x": [1.5]})
    filled.create_aggregate("largest", lambda x: x.max())
    with pytest.raises(warpmill.ExecutionError, match=r"function 'largest'.*of type str where DOUBLE is declared"):
        filled.sql("SELECT largest(s) FROM v")
    filled.create_aggregate("whole", lambda x: x.max(), returns=int)
    with pytest.raises(warpmill.ExecutionError, match=r"function 'whole'.*of type float where BIGINT is declared"):
        filled.sql("SELECT whole(x) FROM v")
    filled.create_aggregate("strict", lambda x: x.max(), returns=int, mode="symbolic")
    with pytest.raises(warpmill.BinderError, match="'return_bigint' of float"):
        filled.sql("SELECT strict(x) FROM v")
    with pytest.raises(ValueError, match="a function cannot return list"):
        filled.create_aggregate("f", lambda x: x.max(), returns=list)


def test_sums_of_whole_numbers_are_checked(con: warpmill.Connection) -> None:
    con.create_table("v", {"i": [2**62, 2**62, 2**62]})
    for mode in MODES:
        con.create_aggregate("total", lambda x: x.sum(), returns=int, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(warpmill.ExecutionError):
            con.sql("SELECT total(i) FROM v")
        con.create_aggregate("total", lambda x: (x * 4).max(), returns=int, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(warpmill.ExecutionError, match=r"(?i)overflow"):
            con.sql("SELECT total(i) FROM v")


def test_errors_name_the_function_and_the_line(filled: warpmill.Connection) -> None:
    def broken(x: Any) -> Any:
        values = list(x)
        return values[len(values) + 1]

    filled.create_aggregate("broken", broken)
    line = broken.__code__.co_firstlineno + 2
    with pytest.raises(warpmill.ExecutionError, match=rf"function 'broken', line {line} of .*: IndexError"):
        filled.sql("SELECT broken(y) FROM t")

    def exits(x: Any) -> Any:
        raise SystemExit(len(x))

    filled.create_aggregate("exits", exits)
    with pytest.raises(warpmill.ExecutionError, match="SystemExit"):
        filled.sql("SELECT k, exits(y) FROM t GROUP BY k")


def test_untaken_branches_do_not_fail(con: warpmill.Connection) -> None:
    con.create_table("v", {"k": [1, 1, 2], "i": [0, 0, 2**62]})

    def guarded(x: Any) -> Any:
        total = x.sum()
        if total == 0:
            return -1
        return 10 % total if total > 2**40 else (total * 8) // total

    for mode in MODES:
        con.create_aggregate("guarded", guarded, mode=mode)  # type: ignore[arg-type]
        assert con.sql("SELECT k, guarded(i) FROM v GROUP BY k ORDER BY k").fetchall() == [(1, -1.0), (2, 10.0)]


def test_calls_that_are_refused(filled: warpmill.Connection) -> None:
    filled.create_aggregate("midrange", midrange)
    with pytest.raises(warpmill.BinderError, match=r"midrange takes 1 argument \(x\), 2 are given"):
        filled.sql("SELECT midrange(x, y) FROM t")
    for call in ("midrange(DISTINCT y)", "midrange(y ORDER BY x)", "midrange(*)"):
        with pytest.raises((warpmill.NotSupportedError, warpmill.BinderError, warpmill.ParserError)):
            filled.sql(f"SELECT {call} FROM t")
    for name in (
        "sum",
        "Day",
        "position",
        "coalesce",
        "row_number",
        "century",
        "mode",
        "Mean",
        "add",
        "apply",
        "split",
    ):
        with pytest.raises(warpmill.CatalogError, match="is built in"):
            filled.create_aggregate(name, midrange)
    with pytest.raises(warpmill.CatalogError, match="has no user-defined function"):
        filled.remove_function("no_such")
    with pytest.raises(TypeError, match="no parameter"):
        filled.create_aggregate("f", lambda: 1)
    with pytest.raises(ValueError, match=r"function 'f' is no expression: line \d+: a loop"):
        filled.create_aggregate("f", decayed, mode="symbolic")
    with pytest.raises(warpmill.BinderError):
        filled.sql("SELECT k FROM t WHERE midrange(y) > 1")


def test_volatile_arguments_are_computed_once(con: warpmill.Connection) -> None:
    con.create_table("v", {"i": [1]})
    con.create_aggregate("spread", lambda x: x.max() - x.min())
    assert con.sql("SELECT spread(random()) FROM v").fetchall() == [(0.0,)]
    con.create_aggregate("spread", lambda x: x.max() - x.min(), mode="symbolic")
    with pytest.raises(warpmill.NotSupportedError, match="another value each time"):
        con.sql("SELECT spread(random()) FROM v")


def test_functions_that_are_defined_anew(filled: warpmill.Connection) -> None:
    query = "SELECT total(y) FROM t"
    filled.create_aggregate("total", lambda x: x.sum())
    first = filled.sql(query).fetchall()
    assert filled.sql(query).fetchall() == first
    filled.sql("PREPARE p AS SELECT total(y) FROM t")
    assert filled.sql("EXECUTE p").fetchall() == first
    filled.create_aggregate("total", lambda x: x.sum() + 1)
    assert filled.sql(query).fetchall() == [(first[0][0] + 1,)]
    with pytest.raises(warpmill.CatalogError, match="calls function 'total', which has changed"):
        filled.sql("EXECUTE p")
    filled.sql("DEALLOCATE p")
    filled.sql("PREPARE p AS SELECT total(y) FROM t")
    assert filled.sql("EXECUTE p").fetchall() == [(first[0][0] + 1,)]
    filled.sql("CREATE VIEW v AS SELECT total(y) AS s FROM t")
    assert filled.sql("SELECT s FROM v").fetchall() == [(first[0][0] + 1,)]
    filled.remove_function("total")
    for text in (query, "EXECUTE p", "SELECT s FROM v"):
        with pytest.raises((warpmill.BinderError, warpmill.CatalogError)):
            filled.sql(text)


def test_functions_belong_to_a_connection(filled: warpmill.Connection) -> None:
    filled.create_aggregate("mine", midrange)
    with warpmill.connect() as other:
        other.create_table("t", table(1))
        with pytest.raises(warpmill.BinderError, match="mine"):
            other.sql("SELECT mine(y) FROM t")
        with pytest.raises(warpmill.Error):
            other.sql("CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE RETURN x + 1")


def test_constants_of_a_function(filled: warpmill.Connection) -> None:
    scale = 2.5

    def scaled(x: Any, factor: float = 3.0) -> Any:
        return x.sum() * factor * scale

    info = filled.create_aggregate("scaled", scaled)
    assert info.parameters == ("x",)
    assert info.expression is not None
    total = filled.sql("SELECT sum(y) FROM t").fetchall()[0][0]
    assert filled.sql("SELECT scaled(y) FROM t").fetchall() == [(total * 7.5,)]


class Moments:
    """A mean as states that are added to and merged."""

    def init(self) -> None:
        self.total = 0.0
        self.rows = 0

    def add(self, x: float | None) -> None:
        if x is not None and not math.isnan(x):
            self.total += x
            self.rows += 1

    def merge(self, other: Moments) -> None:
        self.total += other.total
        self.rows += other.rows

    def finish(self) -> float | None:
        return self.total / self.rows if self.rows else None


def test_classes_with_states(filled: warpmill.Connection) -> None:
    filled.create_aggregate("moments", Moments)
    filled.create_aggregate("average", lambda x: x.mean())
    for tail in ("GROUP BY k ORDER BY k", "WHERE k > 100 GROUP BY k"):
        found = filled.sql(f"SELECT k, moments(x), average(x) FROM t {tail}").fetchall()
        assert all(alike(one, other) for _, one, other in found)
    assert filled.sql("SELECT moments(x) FROM t WHERE k > 100").fetchall() == [(None,)]
    windowed = "SELECT moments(x) OVER (PARTITION BY k ORDER BY y), average(x) OVER (PARTITION BY k ORDER BY y) FROM t"
    assert all(alike(*row) for row in filled.sql(windowed).fetchall())
    with pytest.raises(TypeError, match="missing: merge, finish"):
        filled.create_aggregate("bad", type("Bad", (), {"add": print}))


def test_variables_are_functions(filled: warpmill.Connection) -> None:
    first = warpmill.udaf(name="middle")(lambda x: (x.max() + x.min()) / 2)
    assert first.is_aggregate
    expected = filled.sql("SELECT k, (max(y) + min(y)) / 2 FROM t GROUP BY k ORDER BY k").fetchall()
    assert filled.sql("SELECT k, middle(y) FROM t GROUP BY k ORDER BY k").fetchall() == expected

    del first

    @warpmill.udaf(returns=int)
    def middle(x: Any) -> Any:
        return len(x)

    counts = filled.sql("SELECT k, count(*) FROM t GROUP BY k ORDER BY k").fetchall()
    assert filled.sql("SELECT k, middle(y) FROM t GROUP BY k ORDER BY k").fetchall() == counts
    del middle
    with pytest.raises(warpmill.BinderError, match="middle"):
        filled.sql("SELECT k, middle(y) FROM t GROUP BY k ORDER BY k")


def test_many_groups_and_skew(con: warpmill.Connection) -> None:
    rng = np.random.default_rng(7)
    keys = np.concatenate([rng.integers(0, 20_000, 60_000), np.zeros(40_000, np.int64)])
    con.create_table("big", pa.table({"k": keys, "x": rng.normal(size=len(keys)), "y": rng.normal(size=len(keys))}))
    con.create_aggregate("ttest", ttest, mode="symbolic")
    con.create_aggregate("called", ttest, mode="python")
    found = con.sql("SELECT k, ttest(x, y), called(x, y) FROM big GROUP BY k").fetchall()
    assert len(found) == len(np.unique(keys))
    assert all(alike(one, other) for _, one, other in found)
    con.set("memory_limit", 4_000_000)
    try:
        small = con.sql("SELECT k, called(x, y) FROM big GROUP BY k").fetchall()
    except warpmill.OutOfMemoryError:
        return
    assert sorted(small) == sorted((key, other) for key, _, other in found)


def test_interrupts_stop_python_code(filled: warpmill.Connection) -> None:
    started = threading.Event()

    def endless(x: Any) -> Any:
        started.set()
        while len(x) >= 0:
            pass

    def stop() -> None:
        started.wait(20)
        filled.interrupt()

    filled.create_aggregate("endless", endless)
    stopper = threading.Thread(target=stop)
    stopper.start()
    begin = time.monotonic()
    with pytest.raises(warpmill.InterruptError):
        filled.sql("SELECT k, endless(y) FROM t GROUP BY k")
    stopper.join()
    assert time.monotonic() - begin < 20
    assert filled.sql("SELECT 1").fetchall() == [(1,)]


def test_ctrl_c_stops_python_code(filled: warpmill.Connection, request: pytest.FixtureRequest) -> None:
    # Tests in the background of a shell inherit an ignored signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    started = threading.Event()

    def endless(x: Any) -> Any:
        started.set()
        while len(x) >= 0:
            pass

    def stop() -> None:
        started.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    filled.create_aggregate("endless", endless)
    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        filled.sql("SELECT k, endless(y) FROM t GROUP BY k")
    stopper.join()
    assert filled.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("threads", [1, 4])
def test_states_of_parts_are_merged(threads: int, tmp_path: Path) -> None:
    """Partial aggregations hand over gathered rows, and states of classes."""
    data = table(3, 9000)
    for part in range(4):
        pq.write_table(data.slice(part * 2200, 2200 if part < 3 else None), tmp_path / f"{part}.parquet")
    with warpmill.connect(threads=threads) as con:
        con.register_file("t", f"{tmp_path}/*.parquet")
        for name in ("repartition_aggregations", "enable_round_robin_repartition"):
            con.sql(f"SET datafusion.optimizer.{name} = true")
        con.create_aggregate("moments", Moments)
        con.create_aggregate("middle", lambda x: x.median(), mode="python")
        con.create_aggregate("known", lambda x: x.median(), mode="symbolic")
        con.create_aggregate("average", lambda x: x.mean(), mode="symbolic")
        for tail in ("GROUP BY k ORDER BY k", ""):
            key = "k, " if tail else ""
            query = f"SELECT {key}moments(x), average(x), middle(x), known(x) FROM t {tail}"
            for row in con.sql(query).fetchall():
                mean, average, middle, known = row[-4:]
                assert alike(mean, average)
                assert alike(middle, known)
        if threads > 1:
            assert "mode=Partial" in con.explain("SELECT k, moments(x) FROM t GROUP BY k")
