"""Groups of a relation's rows, to which functions are applied."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpmill.lazy import items
from warpmill.lazy import made as lazily
from warpmill.udf.definition import define
from warpmill.udf.function import Mode, UserFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warpmill._warpmill import Session
    from warpmill.relation import Relation

_NUMBERS = itertools.count(1)


class GroupBy:
    """The groups of rows that are equal in some columns."""

    def __init__(self, relation: Relation, keys: Sequence[str]) -> None:
        self._relation = relation
        columns = relation.columns
        self._keys = [_column(key, columns) for key in keys]
        if not self._keys:
            raise ValueError("groupby takes at least one column")
        self._columns = columns

    def apply(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        returns: object = None,
        mode: Mode = "auto",
    ) -> Relation:
        """The keys of each group, and what `function` makes of it; rows come when they are asked for.

        `function` takes one object: its columns are its attributes (``g.x``, ``g["x"]``), its length is the number of
        rows.
        `name` is that of the column of results (the function's own), `returns` their type ("DOUBLE", or what the
        function's annotation says).
        """
        relation = self._relation
        connection = relation._connection
        session = connection._open
        if not isinstance(function, UserFunction):
            shown = getattr(function, "__name__", "result")
            function = UserFunction(function, True, "result" if shown == "<lambda>" else shown, None, returns, mode)
        column = name or function.name
        hidden = f"__apply_{next(_NUMBERS)}_{''.join(letter for letter in column if letter.isalnum())}"
        info = define(session, replace(function, name=hidden), self._columns)
        source, params, registered = relation._source(hidden)
        keys = ", ".join(_quoted(key) for key in self._keys)
        args = ", ".join(_quoted(parameter) for parameter in info.parameters)
        query = f"SELECT {keys}, {_quoted(hidden)}({args}) AS {_quoted(column)} FROM {source} GROUP BY {keys}"
        made = relation._of(query, params)
        weakref.finalize(made, _forget, session, hidden, registered)
        return made

    def agg(self, *expressions: str, **named: str) -> Relation:
        """The keys and aggregates of each group: ``agg("count(*)", total="sum(price)")``, when rows are asked for."""
        keys = ", ".join(_quoted(key) for key in self._keys)
        listed = ", ".join([keys, *items(expressions, named, self._columns)])
        return lazily(lambda source: f"SELECT {listed} FROM {source} GROUP BY {keys}", self._relation)


def _forget(session: Session, hidden: str, registered: str | None) -> None:
    session.remove_function(hidden)
    if registered is not None:
        session.deregister(registered)


def _column(key: str, columns: Sequence[str]) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a column is named by a text, not by {key!r}")
    if key in columns:
        return key
    alike = [column for column in columns if column.lower() == key.lower()]
    if len(alike) != 1:
        raise KeyError(f"there is no column {key!r}")
    return alike[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
