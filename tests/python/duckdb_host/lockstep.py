"""Statements run in plain DuckDB and through `warpmill.duckdb`, whose answers, types and errors have to be the same."""

from __future__ import annotations

import math
import re
from typing import Any

import duckdb

import warpmill.duckdb

#: Values that errors name.
_VALUES = r"""(value|of) ['"]?[-+.\w]+['"]?|\([-0-9.]+ [-+*] [-0-9.]+\)"""


class Pair:
    """A connection of each module; whatever is done is done to both."""

    def __init__(self, setup: str) -> None:
        self.theirs = duckdb.connect()
        self.ours = warpmill.duckdb.connect()
        self.do(setup)

    def do(self, sql: str) -> None:
        """Runs statements that succeed."""
        self.theirs.execute(sql)
        self.ours.execute(sql)

    def check(self, sql: str, parameters: list[Any] | None = None, ordered: bool = True) -> None:
        """Fails where the outcomes differ: `ordered`, in the order of the rows too."""
        theirs, ours = (outcome(con, sql, parameters, ordered) for con in (self.theirs, self.ours))
        assert equal(ours, theirs), f"{sql}\n  {ours!r:.1500}\n  DuckDB: {theirs!r:.1500}\n  {self.last()}"

    def last(self) -> tuple[bool, str | None]:
        """Whether Warpmill ran the last query over tables, and why not."""
        [(accelerated, reason)] = self.ours.execute("SELECT accelerated, reason FROM warpmill_last()").fetchall()
        return accelerated, reason

    def close(self) -> None:
        """Closes both."""
        self.theirs.close()
        self.ours.close()


def outcome(con: Any, sql: str, parameters: list[Any] | None, ordered: bool) -> tuple[Any, ...]:
    """The columns and rows of a statement, or its error, but for the value in it: any row may be the first one."""
    try:
        result = con.execute(sql, parameters)
        columns = [(column[0], str(column[1])) for column in result.description or []]
        rows = result.fetchall()
    except duckdb.Error as error:
        message = re.sub(_VALUES, "VALUE", str(error).split("\n")[0])
        return type(error).__name__, message
    return columns, rows if ordered else sorted(rows, key=repr)


def equal(left: Any, right: Any) -> bool:
    """Equal values of equal types; floats that depend on the order of additions may differ in the last digits."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-13) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple) and len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and repr(left) == repr(right)
