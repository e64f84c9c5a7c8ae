"""Relations made of others: nothing runs before rows are asked for."""

from __future__ import annotations

import itertools
import operator
import weakref
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from warpmill._warpmill import Session
    from warpmill.connection import Connection
    from warpmill.relation import Relation
    from warpmill.udf.groupby import GroupBy

    How = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]

_NUMBERS = itertools.count(1)

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "cross": "CROSS JOIN",
}


def quoted(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def item(text: str, columns: Sequence[str]) -> str:
    """A caller's name or SQL text as SQL: a column (names are quoted), or an expression."""
    if not isinstance(text, str):
        raise TypeError(f"an expression is a text of SQL, not {text!r}")
    if text in columns:
        return quoted(text)
    # A line comment at the end must not swallow the text after the expression.
    return f"{text}\n" if "--" in text else text


def items(texts: Sequence[str], named: Mapping[str, str], columns: Sequence[str]) -> list[str]:
    """The expressions of a SELECT list, with or without aliases."""
    return [item(text, columns) for text in texts] + [
        f"{item(text, columns)} AS {quoted(name)}" for name, text in named.items()
    ]


class Lazy:
    """The steps that make a relation of another one.

    Expressions are texts of SQL; a text that is the name of a column means that column, whatever letters it has.
    """

    def _as_relation(self) -> Relation:
        raise NotImplementedError

    def select(self, *expressions: str, **named: str) -> Relation:
        """Columns and expressions of each row: ``select("city", double="2 * price")``."""
        relation = self._as_relation()
        listed = items(expressions, named, relation.columns)
        if not listed:
            raise ValueError("select takes at least one expression")
        return made(lambda source: f"SELECT {', '.join(listed)} FROM {source}", relation)

    def with_columns(self, **named: str) -> Relation:
        """All columns, and computed ones: in the place of those of the same name, or behind the others."""
        relation = self._as_relation()
        columns = relation.columns
        kept = [
            f"{item(named[name], columns)} AS {quoted(name)}" if name in named else quoted(name) for name in columns
        ]
        new = {name: text for name, text in named.items() if name not in columns}
        listed = [*kept, *items((), new, columns)]
        return made(lambda source: f"SELECT {', '.join(listed)} FROM {source}", relation)

    def drop(self, *names: str) -> Relation:
        """All columns but these."""
        relation = self._as_relation()
        columns = relation.columns
        for name in names:
            _known(name, columns)
        kept = [quoted(name) for name in columns if name not in names]
        if not kept:
            raise ValueError("a relation has at least one column")
        return made(lambda source: f"SELECT {', '.join(kept)} FROM {source}", relation)

    def rename(self, names: Mapping[str, str]) -> Relation:
        """All columns, some under other names: ``rename({"old": "new"})``."""
        relation = self._as_relation()
        columns = relation.columns
        for name in names:
            _known(name, columns)
        listed = [f"{quoted(name)} AS {quoted(names.get(name, name))}" for name in columns]
        return made(lambda source: f"SELECT {', '.join(listed)} FROM {source}", relation)

    def filter(self, *conditions: str) -> Relation:
        """The rows for which all conditions are true: ``filter("price > 10", "city LIKE 'R%'")``."""
        if not conditions:
            raise ValueError("filter takes at least one condition")
        relation = self._as_relation()
        columns = relation.columns
        whole = " AND ".join(f"({item(condition, columns)})" for condition in conditions)
        return made(lambda source: f"SELECT * FROM {source} WHERE {whole}", relation)

    def group_by(self, *keys: str) -> GroupBy:
        """The groups of rows that are equal in columns `keys`: ``group_by("city").agg(total="sum(price)")``."""
        from warpmill.udf.groupby import GroupBy

        return GroupBy(self._as_relation(), keys)

    def agg(self, *expressions: str, **named: str) -> Relation:
        """One row with aggregates of all rows: ``agg("count(*)", total="sum(price)")``."""
        return self.select(*expressions, **named)

    def order_by(self, *keys: str, descending: bool = False) -> Relation:
        """The rows in order: ``order_by("city", "price DESC NULLS LAST")``. `limit` keeps it, other steps need not."""
        if not keys:
            raise ValueError("order_by takes at least one key")
        relation = self._as_relation()
        columns, direction = relation.columns, " DESC" if descending else ""
        listed = ", ".join(item(key, columns) + direction for key in keys)
        return made(lambda source: f"SELECT * FROM {source} ORDER BY {listed}", relation, ends_with="order")

    def limit(self, count: int, offset: int = 0) -> Relation:
        """The first `count` rows after `offset`: of those in order, or any."""
        count, offset = operator.index(count), operator.index(offset)
        if count < 0 or offset < 0:
            raise ValueError(f"limit takes numbers of rows, not {count} and {offset}")
        clause = f"LIMIT {count}" + (f" OFFSET {offset}" if offset else "")
        relation = self._as_relation()
        if relation._ends_with == "order" and relation._finished is None:
            # Within the same query: the rows of a subquery have no order.
            return lazy(relation._connection, f"{relation._sql} {clause}", parents=(relation,))
        return made(lambda source: f"SELECT * FROM {source} {clause}", relation)

    def distinct(self) -> Relation:
        """The rows, each once."""
        return made(lambda source: f"SELECT DISTINCT * FROM {source}", self._as_relation())

    def union(self, other: object) -> Relation:
        """The rows of both, by position of their columns; `distinct` leaves each once."""
        relation = self._as_relation()
        others = relation_of(relation._connection, other)
        return made(lambda one, two: f"SELECT * FROM {one} UNION ALL SELECT * FROM {two}", relation, others)

    def join(self, other: object, on: str | Sequence[str] = (), how: How = "inner") -> Relation:
        """Rows of both (relations or frames) that are equal in columns `on`, or fulfil that condition.

        In a condition the two are `l` and `r`: ``join(cities, "l.city = r.name")``.
        """
        if how not in _JOINS:
            raise ValueError(f"there is no join {how!r}: {', '.join(_JOINS)}")
        relation = self._as_relation()
        right = relation_of(relation._connection, other)
        names = [on] if isinstance(on, str) else list(on)
        if (how == "cross") != (not names):
            raise ValueError("a cross join has no columns or conditions, every other has")
        if how == "cross":
            condition = ""
        elif all(name in relation.columns for name in names):
            for name in names:
                _known(name, right.columns)
            condition = f" USING ({', '.join(map(quoted, names))})"
        else:
            condition = f" ON {' AND '.join(f'({item(name, ())})' for name in names)}"
        kind = _JOINS[how]
        return made(lambda left, other: f"SELECT * FROM {left} AS l {kind} {other} AS r{condition}", relation, right)

    def count(self) -> int:
        """The number of rows."""
        [(count,)] = made(lambda source: f"SELECT count(*) FROM {source}", self._as_relation()).fetchall()
        return int(count)


def made(query: Callable[..., str], *relations: Relation, ends_with: str = "") -> Relation:
    """The relation of a query over other relations; `query` is called with their names for FROM."""
    connection = relations[0]._connection
    sources, registered = [], []
    for relation in relations:
        if relation._connection is not connection:
            raise ValueError("relations of different connections cannot be put together")
        source, table = relation._from(f"__rows_{next(_NUMBERS)}")
        sources.append(source)
        registered += [table] if table else []
    sql = query(*sources)
    result = lazy(connection, sql, parents=relations, ends_with=ends_with)
    for table in registered:
        weakref.finalize(result, _deregister, connection._open, table)
    return result


def lazy(connection: Connection, sql: str, *, parents: tuple[Relation, ...] = (), ends_with: str = "") -> Relation:
    """A relation that runs `sql` when its rows are asked for; tables of `parents` are there as long as it is."""
    from warpmill.relation import Relation

    result = Relation(connection, sql, None, lambda: connection._run(sql, None))
    result._parents, result._ends_with = parents, ends_with
    return result


def relation_of(connection: Connection, data: object) -> Relation:
    """A relation, or the rows of a frame."""
    from warpmill.frames import arrow_source
    from warpmill.relation import Relation

    if isinstance(data, Relation):
        return data
    table = f"__frame_{next(_NUMBERS)}"
    connection._open.register(table, arrow_source(data))
    result = lazy(connection, f"SELECT * FROM {quoted(table)}")
    weakref.finalize(result, _deregister, connection._open, table)
    return result


def _deregister(session: Session, table: str) -> None:
    session.deregister(table)


def _known(name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise KeyError(f"there is no column {name!r}: {', '.join(columns)}")
