"""Aggregate functions in Python beside pandas and DuckDB's SQL (chapter 6 of the thesis).

Midrange and t-test are expressions; compounded interest, a t-test in a loop and a centred sum are none: they are
compiled.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import warpmill
from warpmill.udf.numba import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from warpmill.udf import Mode

#: Seconds per group that code takes at least: runs that would exceed the limit are not started.
_PER_GROUP = 40e-6

#: The relative difference that results may have.
RATIO = 1e-9


def midrange(v: Any) -> Any:
    """The middle of a column's range."""
    return (v.max() - v.min()) / 2


def ttest(x: Any, y: Any) -> Any:
    """Welch's t of two columns."""
    return (x.mean() - y.mean()) / math.sqrt(x.var() / x.count() + y.var() / y.count())


#: The scale of interest (instead of 100 for percent): so large that the product over all rows stays small.
SCALE = 1e7


def compounded(x: Any) -> Any:
    """Interest upon interest: a loop."""
    product = 1.0
    for value in x:
        product *= 1 + value / SCALE
    return product - 1


def looped(x: Any, y: Any) -> Any:
    """Welch's t of two columns, with sums computed in a loop."""
    n = 0
    sum_x = sum_y = squares_x = squares_y = 0.0
    for a, b in zip(x, y):  # noqa: B905 - columns of a group are equally long, and `strict` is not compiled
        n += 1
        sum_x += a
        sum_y += b
        squares_x += a * a
        squares_y += b * b
    if n < 2:
        return None
    var_x = (squares_x - sum_x * sum_x / n) / (n - 1)
    var_y = (squares_y - sum_y * sum_y / n) / (n - 1)
    return (sum_x - sum_y) / n / math.sqrt((var_x + var_y) / n)


def centred(x: Any) -> Any:
    """A sum whose terms depend on another reduction."""
    return ((x - x.mean()) ** 2).sum()


def middle(x: Any) -> Any:
    """The value in the middle of a sorted list."""
    values = sorted(x.to_list())
    return values[(len(values) - 1) // 2]


@dataclass(frozen=True)
class Function:
    """A function of the benchmark, with its equivalents in other engines."""

    name: str
    columns: tuple[str, ...]
    python: Any
    sql: str
    #: The ways that it is run, and their names.
    modes: tuple[tuple[str, Mode], ...]


_EXPRESSION: tuple[str, Mode] = ("expression", "symbolic")
_COMPILED: tuple[str, Mode] = ("compiled", "compiled")
_NUMBA: tuple[str, Mode] = ("numba", "numba")
_CALLED: tuple[str, Mode] = ("called", "python")

#: Welch's t.
_TTEST = "(avg(x) - avg(y)) / sqrt(var_samp(x) / count(x) + var_samp(y) / count(y))"

FUNCTIONS = (
    Function("midrange", ("v",), midrange, "(max(v) - min(v))::DOUBLE / 2", modes=(_EXPRESSION, _COMPILED, _CALLED)),
    Function(
        "ttest",
        ("x", "y"),
        ttest,
        _TTEST,
        modes=(_EXPRESSION, _COMPILED, _NUMBA, _CALLED),
    ),
    Function("looped", ("x", "y"), looped, _TTEST, modes=(_COMPILED, _CALLED)),
    Function("compounded", ("x",), compounded, f"product(1 + x / {SCALE}) - 1", modes=(_COMPILED, _CALLED)),
    Function("centred", ("x",), centred, "var_pop(x) * count(x)", modes=(_COMPILED, _CALLED)),
    Function("middle", ("x",), middle, "quantile_disc(x, 0.5)", modes=(_NUMBA, _CALLED)),
)


@dataclass(frozen=True)
class Measured:
    """One engine's time for one function over one table."""

    function: str
    rows: int
    groups: int
    distribution: str
    engine: str
    #: The median of all runs but the first; None: it was not run.
    seconds: float | None
    runs: int = 0
    reason: str | None = None


def table(rows: int, groups: int, distribution: str) -> pa.Table:
    """Keys of groups of equal sizes ("uniform"), or with half of all rows in one ("skewed"), and numbers."""
    chance = np.random.default_rng(rows + groups)
    keys = chance.integers(0, groups, rows)
    if distribution == "skewed":
        keys[chance.random(rows) < 0.5] = 0
    return pa.table(
        {
            "k": keys,
            "v": chance.integers(0, 1 << 40, rows),
            "x": chance.normal(10.0, 3.0, rows),
            "y": chance.normal(11.0, 2.0, rows),
        }
    )


def _built_in(frame: Any, function: Function) -> Any:
    groups = frame.groupby("k", sort=False)
    match function.name:
        case "midrange":
            return (groups.v.max() - groups.v.min()) / 2
        case "compounded":
            return (1 + frame.x / SCALE).groupby(frame.k, sort=False).prod() - 1
        case "centred":
            return groups.x.var(ddof=0) * groups.x.count()
        case "middle":
            return groups.x.quantile(0.5, interpolation="lower")
    x, y = groups.x, groups.y
    return (x.mean() - y.mean()) / np.sqrt(x.var() / x.count() + y.var() / y.count())


def _timed(work: Callable[[], Any], runs: int) -> tuple[float, Any, int]:
    """The median time of `runs` after a first one, which counts where it took long."""
    begin = time.perf_counter()
    result = work()
    first = time.perf_counter() - begin
    if first > 5:
        return first, result, 1
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), result, runs


def _check(what: str, found: pa.Table, known: dict[int, float]) -> None:
    keys, values = (column.to_pylist() for column in found.columns)
    if len(keys) != len(known):
        raise AssertionError(f"{what}: {len(keys)} groups instead of {len(known)}")
    for key, value in zip(keys, values, strict=True):
        expected = known[key]
        missing = value is None or math.isnan(value)
        if missing != math.isnan(expected) or not (
            missing or math.isclose(value, expected, rel_tol=RATIO, abs_tol=RATIO)
        ):
            raise AssertionError(f"{what}: group {key} has {value} instead of {expected}")


def measure(
    rows: int,
    groups: Sequence[int],
    distributions: Sequence[str],
    devices: Sequence[str],
    threads: int,
    runs: int,
    limit: float,
) -> Iterator[Measured]:
    """Time every engine; all results are compared with DuckDB's."""
    for distribution in distributions:
        for count in groups:
            data = table(rows, count, distribution)
            for function in FUNCTIONS:
                for engine, seconds, times, reason in _engines(data, function, devices, threads, runs, limit):
                    yield Measured(function.name, rows, count, distribution, engine, seconds, times, reason)


def _engines(
    data: pa.Table, function: Function, devices: Sequence[str], threads: int, runs: int, limit: float
) -> Iterator[tuple[str, float | None, int, str | None]]:
    """Each engine's time for one function over one table, or the reason why it has none."""
    import duckdb

    peer = duckdb.connect(config={"threads": threads})
    peer.register("given", data)
    peer.execute("CREATE TABLE t AS SELECT * FROM given")
    query = f"SELECT k, {function.sql} FROM t GROUP BY k"
    seconds, answer, times = _timed(partial(_of_duckdb, peer, query), runs)
    yield "duckdb sql", seconds, times, None
    keys, values = (column.to_pylist() for column in answer.columns)
    known = {key: math.nan if value is None else value for key, value in zip(keys, values, strict=True)}
    for device in devices:
        with warpmill.connect(threads=threads, device=device) as con:
            con.create_table("t", data)
            for name, mode in function.modes:
                engine = f"warpmill {device} {name}"
                slow = mode == "python" and len(known) * _PER_GROUP > limit
                if slow or (mode in ("python", "numba") and device != devices[0]):
                    yield engine, None, 0, _skipped(len(known), limit, device, devices)
                    continue
                if mode == "numba" and (reason := missing()) is not None:
                    yield engine, None, 0, reason
                    continue
                con.create_aggregate("measured", function.python, mode=mode)
                query = f"SELECT k, measured({', '.join(function.columns)}) FROM t GROUP BY k"
                seconds, result, times = _timed(partial(_of_warpmill, con, query), runs)
                _check(engine, result, known)
                on_host = mode in ("python", "numba")
                yield engine, seconds, times, None if on_host else _elsewhere(con, query, device)
    frame = data.to_pandas()
    seconds, result, times = _timed(partial(_built_in, frame, function), runs)
    _check("pandas built-in", _of_series(result), known)
    yield "pandas built-in", seconds, times, None
    if len(known) * 3 * _PER_GROUP > limit:
        yield "pandas apply", None, 0, _skipped(len(known), limit, "cpu", ["cpu"])
        return
    seconds, result, times = _timed(partial(_applied, frame, function), runs)
    _check("pandas apply", _of_series(result), known)
    yield "pandas apply", seconds, times, None


def _of_duckdb(peer: Any, query: str) -> pa.Table:
    return pa.table(peer.sql(query).arrow())


def _of_warpmill(con: warpmill.Connection, query: str) -> pa.Table:
    return con.sql(query).arrow()


def _elsewhere(con: warpmill.Connection, query: str, device: str) -> str | None:
    """The reason why the whole query does not run on the requested device."""
    if device == "cpu":
        return None
    profile = con.sql(query).profile
    programs = (program for program in profile["programs"] if program["device"] == "cpu")
    reasons = [*profile["fallbacks"], *(program["not_on_device"] or "a program on the CPU" for program in programs)]
    return "; ".join(reasons) or None


def _skipped(groups: int, limit: float, device: str, devices: Sequence[str]) -> str:
    if device != devices[0]:
        return "code that is called, or compiled by Numba, runs on the CPU"
    return f"{groups} groups would take longer than {limit:g} s"


def _applied(frame: Any, function: Function) -> Any:
    columns = list(function.columns)
    groups = frame.groupby("k", sort=False)[columns]
    return groups.apply(lambda group: function.python(*(group[column] for column in columns)))


def _of_series(series: Any) -> pa.Table:
    return pa.table({"k": series.index.to_numpy(), "result": series.to_numpy()})


def save(measured: Sequence[Measured], path: str) -> None:
    """Write all times as JSON."""
    Path(path).write_text(json.dumps([asdict(one) for one in measured], indent=1) + "\n")
