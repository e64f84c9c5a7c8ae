"""DuckDB's own API, run through both modules: values, types, column names and exceptions are equal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill.duckdb
from duckdb_host.behaviours import SETUP, cases

if TYPE_CHECKING:
    from pathlib import Path

CASES = cases()


def outcome(module: Any, code: str, tmp: Path) -> tuple[str, Any]:
    """The results of a snippet, or the exception it raised."""
    tmp.mkdir()
    con = module.connect()
    con.execute(SETUP)
    scope: dict[str, Any] = {"duckdb": module, "con": con, "tmp": str(tmp)}
    try:
        exec(code, scope)
    except Exception as error:
        return type(error).__name__, str(error).replace(str(tmp), "TMP")
    finally:
        con.close()
    return "out", scope.get("out")


def equal(left: Any, right: Any) -> bool:
    """Equal values of equal types; floats that depend on the order of additions may differ in the last digits."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-14) or (math.isnan(left) and math.isnan(right))
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def test_there_are_enough() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("name", CASES)
def test_behaviour(name: str, tmp_path: Path) -> None:
    theirs = outcome(duckdb, CASES[name], tmp_path / "theirs")
    ours = outcome(warpmill.duckdb, CASES[name], tmp_path / "ours")
    assert equal(list(ours), list(theirs)), f"{ours!r:.2000}\n  DuckDB: {theirs!r:.2000}"
