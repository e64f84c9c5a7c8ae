"""Statements run in plain DuckDB and through `warpmill.duckdb`, whose answers, types and errors have to be the same."""

from __future__ import annotations

from typing import Any

import duckdb

import warpmill.duckdb


class Pair:
    """A connection of each module; whatever is done is done to both."""

    def __init__(self, *setup: str, path: str | None = None) -> None:
        where = [f"{path}.{name}" for name in ("theirs", "ours")] if path else [":memory:"] * 2
        self.theirs = duckdb.connect(where[0])
        self.ours = warpmill.duckdb.connect(where[1])
        for sql in setup:
            self.do(sql)

    def do(self, sql: str, parameters: list[Any] | None = None) -> None:
        """Runs a statement that succeeds."""
        self.theirs.execute(sql, parameters)
        self.ours.execute(sql, parameters)

    def check(self, sql: str, parameters: list[Any] | None = None, ordered: bool = True) -> None:
        """Fails where the outcomes differ: `ordered`, in the order of the rows too."""
        theirs, ours = (outcome(con, sql, parameters, ordered) for con in (self.theirs, self.ours))
        assert ours == theirs, f"{sql}\n  {ours!r:.1500}\n  DuckDB: {theirs!r:.1500}\n  {self.last()}"

    def last(self) -> tuple[bool, str | None]:
        """Whether Warpmill ran the last query over tables, and why not."""
        [(accelerated, reason)] = self.ours.execute("SELECT accelerated, reason FROM warpmill_last()").fetchall()
        return accelerated, reason

    def close(self) -> None:
        """Closes both."""
        self.theirs.close()
        self.ours.close()


def outcome(con: Any, sql: str, parameters: list[Any] | None, ordered: bool) -> tuple[str, ...]:
    """What a statement gives, as text: NaN equals itself there."""
    try:
        result = con.execute(sql, parameters)
        columns = [(column[0], str(column[1])) for column in result.description or []]
        rows = [repr(row) for row in result.fetchall()]
    except duckdb.Error as error:
        return type(error).__name__, str(error)
    return repr(columns), *(rows if ordered else sorted(rows))
