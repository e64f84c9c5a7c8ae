"""Compiled functions have Python's values where C++ would have others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import warpmill


def both_names(x: Any) -> Any:
    s = x.sum()
    s = t = s + 1
    return s + 10 * t


def both_names_in_a_loop(x: Any) -> Any:
    low = high = 0.0
    for v in x:
        low = high = low + v
    return low + 10 * high


def mean_of_a_loop(x: Any) -> Any:
    total: float = 0
    for v in x:
        total += v
    if len(x) > 1:
        total = total / len(x)
    return total


def digits_of_a_product(x: Any) -> Any:
    s: float = 1
    for v in x:
        s = s * v
    last = s % 10
    s = s / 2
    return last + 0 * s


def truth_of_tuples(x: Any) -> Any:
    n = 0
    for v in zip(x):
        if v:
            n = n + 1
    return n


def names_of_columns(x: Any, y: Any) -> Any:
    e2 = x - x.mean()
    é = 0.0
    ue9 = 1.0
    for a, b in zip(y, e2, strict=True):
        é += a * b
        ue9 += a
    return é + 100 * ue9


def a_truth_or_a_number(x: Any) -> Any:
    a = 0
    for _ in x:
        a = x.mean() > 3
    return a + a


LARGE = [2**53, 1, -(2**53)]


@pytest.mark.parametrize(
    ("function", "columns"),
    [
        (both_names, [[1, 2]]),
        (both_names, [[0.5, 2.0]]),
        (both_names_in_a_loop, [[1.0, 2.0]]),
        (mean_of_a_loop, [LARGE]),
        (mean_of_a_loop, [[2**53 + 1, 1]]),
        (mean_of_a_loop, [[0.5, 1e300, -1e300]]),
        (digits_of_a_product, [[3] * 38]),
        (truth_of_tuples, [[0.0, 0.0]]),
        (names_of_columns, [[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]]),
        (a_truth_or_a_number, [[4.0, 5.0]]),
    ],
)
def test_values_are_those_of_python(con: warpmill.Connection, function: Callable[..., Any], columns: list[Any]) -> None:
    con.create_table("t", pa.table({f"c{at}": column for at, column in enumerate(columns)}))
    con.create_aggregate("mine", function)
    con.create_aggregate("its", function, mode="python")
    names = ", ".join(f"c{at}" for at in range(len(columns)))
    found, expected = (con.sql(f"SELECT {name}({names}) FROM t").fetchall() for name in ("mine", "its"))
    assert found == expected


@pytest.mark.parametrize("mode", ["auto", "compiled", "python"])
def test_parameters_are_given_by_position(con: warpmill.Connection, mode: Any) -> None:
    def difference(x: Any, y: Any) -> Any:
        return x.sum() - 2 * y.sum()

    def looped(x: Any, y: Any) -> Any:
        total = 0.0
        for a, b in zip(x, y, strict=True):
            total += a - 2 * b
        return total

    con.create_table("t", pa.table({"a": [1.0, 2.0], "b": [10.0, 20.0]}))
    for function in (difference, looped):
        con.create_aggregate("f", function, parameters=["y", "x"], mode=mode)
        assert con.sql("SELECT f(a, b) FROM t").fetchall() == [(3.0 - 60.0,)]


PROGRAM = """
import warpmill


def compounded(x):
    product = 1.0
    for value in x:
        product *= 1 + value
    return product


with warpmill.connect() as con:
    con.create_aggregate("auto", compounded)
    con.create_aggregate("only", compounded, mode="compiled")
    query = "SELECT {}(v) FROM (VALUES (1.0::DOUBLE), (2.0)) AS t(v)"
    print(con.sql(query.format("auto")).fetchall())
    try:
        con.sql(query.format("only"))
    except warpmill.ExecutionError as error:
        print(error)
"""


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo broken 1; exit 0; fi\nexit 1\n')
    compiler.chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "CXX": str(compiler)}
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result, error = done.stdout.splitlines()[:2]
    assert result == "[(6.0,)]"
    assert "only" in error
    assert "compil" in error
