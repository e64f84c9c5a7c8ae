"""Random queries over random tables."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from differential.columns import table
from differential.expressions import COMPARISONS, Expressions, Node, boolean, column, mixes, unites

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from differential.columns import Table
    from differential.expressions import Part

#: Rows that a join may make at most, as its sides' product.
MAX_PRODUCT = 200_000
#: Rows that a query may give at most, to become a table.
MAX_STORED = 20_000
#: Frames that the order of peers does not change.
FRAMES = (
    "",
    "",
    " GROUPS 2 PRECEDING",
    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " GROUPS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    " GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True)
class Item:
    """An output column."""

    node: Node
    name: str

    def sql(self) -> str:
        """The text."""
        return f"{self.node.sql()} AS {self.name}"


@dataclass(frozen=True)
class Source:
    """A table or a query in FROM, under an alias; joined to what comes before it."""

    alias: str
    what: Part | str
    join: str = ""
    on: Node | None = None
    #: The column of a join by name; `on` is not there then.
    using: str = ""

    def sql(self) -> str:
        """The text."""
        what = self.what if isinstance(self.what, str) else f"({self.what.sql()})"
        on = f" ON {self.on.sql()}" if self.on else f" USING ({self.using})" if self.using else ""
        return f"{self.join} {what} AS {self.alias}{on}".strip()


@dataclass(frozen=True)
class Order:
    """A total order over the output columns, and the rows that are kept of it."""

    #: For each output column: descending, NULLs first (None: unspecified).
    keys: tuple[tuple[bool, bool | None], ...]
    limit: int | None = None
    offset: int | None = None

    def sql(self, columns: int) -> str:
        """The text, for as many columns as are left."""
        places = {True: " NULLS FIRST", False: " NULLS LAST", None: ""}
        words = [("DESC" if down else "ASC") + places[nulls] for down, nulls in self.keys]
        text = " ORDER BY " + ", ".join(f"{at} {word}" for at, word in enumerate(words[:columns], 1))
        text += f" LIMIT {self.limit}" if self.limit is not None else ""
        return text + (f" OFFSET {self.offset}" if self.offset is not None else "")


@dataclass(frozen=True)
class Select:
    """A SELECT."""

    items: tuple[Item, ...]
    sources: tuple[Source, ...]
    where: Node | None = None
    group: tuple[Node, ...] = ()
    having: Node | None = None
    distinct: bool = False
    order: Order | None = None
    #: ROLLUP, CUBE or GROUPING SETS of the keys, where it is not just them.
    sets: str = ""
    #: The sort key that is in no column.
    hidden: Node | None = None

    def sql(self) -> str:
        """The text."""
        text = "SELECT DISTINCT " if self.distinct else "SELECT "
        text += ", ".join(item.sql() for item in self.items)
        text += " FROM " + " ".join(source.sql() for source in self.sources)
        text += f" WHERE {self.where.sql()}" if self.where else ""
        text += f" GROUP BY {self._keys()}" if self.group else ""
        text += f" HAVING {self.having.sql()}" if self.having else ""
        text += f" ORDER BY {self.hidden.sql()}" if self.hidden else ""
        return text + (self.order.sql(len(self.items)) if self.order else "")

    def _keys(self) -> str:
        keys = [key.sql() for key in self.group]
        if self.sets == "GROUPING SETS":
            return f"GROUPING SETS (({', '.join(keys)}), ({keys[-1]}), ())"
        return f"{self.sets} ({', '.join(keys)})" if self.sets else ", ".join(keys)


@dataclass(frozen=True)
class Combined:
    """Two queries, combined by a set operation."""

    left: Select
    right: Select
    operation: str
    order: Order | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        """The output columns."""
        return self.left.items

    def sql(self) -> str:
        """The text."""
        text = f"{self.left.sql()} {self.operation} {self.right.sql()}"
        return text + (self.order.sql(len(self.items)) if self.order else "")


@dataclass(frozen=True)
class With:
    """A query with a common table expression."""

    name: str
    inner: Select
    body: Select | Combined

    @property
    def items(self) -> tuple[Item, ...]:
        """The output columns."""
        return self.body.items

    def sql(self) -> str:
        """The text."""
        return f"WITH {self.name} AS ({self.inner.sql()}) {self.body.sql()}"


Query = Select | Combined | With
Q = TypeVar("Q", Select, Combined)


@dataclass(frozen=True)
class Relation:
    """A relation of a FROM clause: its name or query, its columns (named without alias), its rows at most."""

    what: Part | str
    columns: tuple[tuple[str, Node], ...]
    rows: int


class Queries:
    """Makes queries over tables."""

    def __init__(self, random: Random, tables: list[Table], without: frozenset[str]) -> None:
        self.random = random
        self.without = without
        self.names = 0
        #: Rows of each alias, at most.
        self.rows: dict[str, int] = {}
        self.relations = []
        for made in tables:
            columns = [(c.name, column("", c.name, c.kind, c.values)) for c in made.columns]
            self.relations.append(Relation(made.name, tuple(columns), made.rows))

    def _scope(self, columns: Sequence[Node], rows: int) -> Expressions:
        return Expressions(self.random, columns, rows, self.without)

    def _makes(self, name: str) -> bool:
        return self._scope([], 1).makes(name)

    def table(self) -> Select | None:
        """A query whose rows become a table of later queries (`remember`); None where they may be too many."""
        with decimal.localcontext(prec=120):
            made = self._deciding(self.select(depth=1))
            rows = math.prod(self.rows[source.alias] for source in made.sources)
            return made if rows <= MAX_STORED else None

    def remember(self, name: str, query: Select) -> None:
        """Let later queries read a table that holds the rows of a query."""
        self.relations.append(self._derived(name, query))

    def query(self) -> Query:
        """A query; its order is total wherever it has one."""
        with decimal.localcontext(prec=120):
            if self.random.random() < 0.08:
                inner = self._deciding(self.select(depth=1))
                name = self._name("w")
                self.relations.append(self._derived(name, inner))
                body = self.select(depth=1)
                self.relations.pop()
                return With(name, inner, self._ordered(body))
            if self.random.random() < 0.12:
                return self._ordered(self._combined())
            return self._ordered(self.select(depth=2))

    def _ordered(self, query: Q) -> Q:
        if self.random.random() < 0.5 or not all(item.node.exact for item in query.items):
            return query
        if isinstance(query, Select) and query.hidden:
            return query
        if _joins_derived(query) and not self._makes("order over derived tables"):
            return query
        nulls: tuple[bool | None, ...] = (True, False, None) if self._makes("order of NULLs") else (True, False)
        keys = tuple((self.random.random() < 0.5, self.random.choice(nulls)) for _ in query.items)
        limit = self.random.choice((None, None, 0, 1, 3, 10, 100))
        offset = self.random.choice((None, None, 0, 1, 7)) if limit is not None else None
        return replace(query, order=Order(keys, limit, offset))

    def select(self, depth: int, outer: Expressions | None = None, *, grouped: bool = True) -> Select:
        """A SELECT; `outer` is the scope of the query around it; without `grouped`, it has no aggregates."""
        sources, scope = self._from(depth)
        where = self._where(scope, depth, outer) if outer or self.random.random() < 0.7 else None
        if grouped and self.random.random() < 0.45:
            return self._grouped(sources, scope, where)
        items = [self._item(scope.any(2, exact=False)) for _ in range(self.random.randint(1, 5))]
        if depth > 1 and self.random.random() < 0.08:
            items.append(self._item(self._scalar(scope)))
        if depth > 1 and self.random.random() < 0.12:
            item, where = self._window(scope, where)
            items += [item]
        distinct = self.random.random() < 0.15 and _distinguishable(items)
        hidden = None
        if distinct and self.random.random() < 0.5 and self._makes("DISTINCT in another order"):
            hidden = self.random.choice(scope.columns)
        return Select(tuple(items), sources, where, distinct=distinct, hidden=hidden)

    def _window(self, scope: Expressions, where: Node | None) -> tuple[Item, Node | None]:
        """A window function whose value the order of peers does not change, at times over a constant partition."""
        exact = [column for column in scope.columns if column.exact]
        part, order = self.random.choice(exact), self.random.choice(exact)
        if self.random.random() < 0.4 and self._makes("constant partitions"):
            fixed = boolean("({0} = {1})", part, scope.literal(part.family, part))
            where = boolean("({0} AND {1})", fixed, where) if where else fixed
        of = scope.of(self.random.choice(("int", "decimal")), 1)
        calls = ["rank()", "dense_rank()", "count({2})", "min({2})", "max({2})"]
        bound = max(abs(of.low), abs(of.high)) * scope.rows
        calls += ["sum({2})"] if bound < 10 ** (15 - of.kind.scale) else []
        frame = self.random.choice(FRAMES)
        ordered = f" ORDER BY {{1}} NULLS LAST{frame}" if self.random.random() < 0.8 else ""
        over = f"(PARTITION BY {{0}}{ordered})"
        call = self.random.choice(calls)
        if self.random.random() < 0.2 and "{2}" in call:
            call += " FILTER (WHERE {1} IS NOT NULL)"
        if "ORDER" not in over and "rank" in call:
            call = "count({2})"
        node = replace(of, text=f"{call} OVER {over}", args=(part, order, of), exact=False)
        return self._item(node), where

    def _grouped(self, sources: tuple[Source, ...], scope: Expressions, where: Node | None) -> Select:
        keys = [scope.any(self.random.choice((0, 0, 1, 2))) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3)))]
        keys = [key for key in keys if key.varies]
        sets = ""
        if keys and self.random.random() < 0.25 and self._makes("grouping sets"):
            # Keys are plain columns: the value of an expression of a key in a set without that key is ambiguous.
            keys = list(
                {key.text: key for key in self.random.choices(scope.columns, k=self.random.randint(1, 2))}.values()
            )
            sets = self.random.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
        made = [scope.aggregate(self.random.choice((0, 0, 1, 2))) for _ in range(self.random.randint(1, 4))]
        items = [self._item(node) for node in (*keys, *made)]
        grouped = self._scope([node for node in (*keys, *made) if node.exact] or keys, scope.rows)
        having = None
        if grouped.columns:
            if self.random.random() < 0.3:
                items.append(self._item(grouped.any(2, exact=False)))
            filtered = self.random.random() < (0.6 if sets else 0.3)
            having = grouped.condition(1) if filtered and (keys or self._makes("HAVING without GROUP BY")) else None
        self.random.shuffle(items)
        return Select(tuple(items), sources, where, tuple(keys), having, sets=sets)

    def _item(self, node: Node) -> Item:
        return Item(node, self._name("x"))

    def _name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def _from(self, depth: int) -> tuple[tuple[Source, ...], Expressions]:
        if depth > 0 and self.random.random() < 0.08 and self._makes("USING") and (found := self._using()):
            return found
        count = self.random.choice((1, 1, 1, 2, 2, 3, 4)) if depth > 0 else 1
        sources: list[Source] = []
        columns: list[Node] = []
        product = 1
        for _ in range(count):
            relation = self._relation(depth)
            if sources and product * max(1, relation.rows) > MAX_PRODUCT:
                continue
            alias = self._name("t")
            new = [replace(node, text=f"{alias}.{self._spelled(name)}", args=()) for name, node in relation.columns]
            join, on = self._join(columns, new) if sources else ("", None)
            sources.append(Source(alias, relation.what, join, on))
            columns += new
            self.rows[alias] = max(1, relation.rows)
            product *= self.rows[alias]
        return tuple(sources), self._scope(columns, product)

    def _spelled(self, name: str) -> str:
        """A name in any case of letters."""
        if not self._makes("mixed-case names"):
            return name
        return self.random.choice((name, name, name.upper(), name.lower()))

    def _using(self) -> tuple[tuple[Source, ...], Expressions] | None:
        """Two derived tables that are joined by a column of one name."""
        left, right = self.random.choice(self.relations), self.random.choice(self.relations)
        pairs = [
            (a, b)
            for a in left.columns
            for b in right.columns
            if a[1].kind == b[1].kind and a[1].kind.calm and a[1].family in ("int", "decimal", "string", "date")
        ]
        if not pairs or left.rows * right.rows > MAX_PRODUCT:
            return None
        (a, b), key = self.random.choice(pairs), self._name("k")
        kind = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "NATURAL FULL JOIN"))
        sources: list[Source] = []
        columns = [replace(_widest(a[1], b[1]), text=key, args=())]
        for relation, column_ in ((left, a), (right, b)):
            alias = self._name("t")
            others = [(name, node) for name, node in relation.columns if name != column_[0]][:3]
            renamed = {self._name("n"): (name, node) for name, node in others}
            named = [Item(replace(column_[1], text=column_[0], args=()), key)]
            named += [Item(replace(node, text=name, args=()), new) for new, (name, node) in renamed.items()]
            what = relation.what if isinstance(relation.what, str) else None
            if what is None:
                return None
            inner = Select(tuple(named), (Source(self._name("i"), what),))
            using = key if sources and "NATURAL" not in kind else ""
            sources.append(Source(alias, inner, kind if sources else "", using=using))
            columns += [replace(node, text=f"{alias}.{new}", args=()) for new, (_, node) in renamed.items()]
            self.rows[alias] = max(1, relation.rows)
        return tuple(sources), self._scope(columns, max(1, left.rows) * max(1, right.rows))

    def _relation(self, depth: int) -> Relation:
        if depth > 1 and self.random.random() < 0.12:
            return self._derived(None, self._deciding(self.select(depth=1)))
        return self.random.choice(self.relations)

    def _deciding(self, query: Select) -> Select:
        """The query without rounded output columns: its readers may make decisions by its values."""
        items = tuple(item for item in query.items if item.node.exact)
        return replace(query, items=items or (self._item(self._scope([], 1).literal("int")),))

    def _derived(self, name: str | None, query: Select) -> Relation:
        columns = tuple((item.name, replace(item.node, varies=True)) for item in query.items)
        rows = math.prod(self.rows[source.alias] for source in query.sources)
        return Relation(name or query, columns, rows)

    def _join(self, left: list[Node], right: list[Node]) -> tuple[str, Node | None]:
        pairs = [(a, b) for a in left for b in right if mixes(a, b) and a.exact and b.exact and a.family != "bool"]
        if not pairs or self.random.random() < 0.05:
            return "CROSS JOIN", None
        on = self._equal(*self.random.choice(pairs))
        while self.random.random() < 0.25:
            on = boolean("({0} AND {1})", on, self._equal(*self.random.choice(pairs)))
        kind = self.random.choice(JOINS)
        if self.random.random() < 0.2:
            residual = self._scope([*left, *right], 1).condition(1)
            on = boolean("({0} AND {1})", on, residual)
        return kind, on

    def _equal(self, a: Node, b: Node) -> Node:
        return boolean("({0} = {1})", *((a, b) if self.random.random() < 0.5 else (b, a)))

    def _where(self, scope: Expressions, depth: int, outer: Expressions | None) -> Node:
        where = scope.condition(self.random.randint(0, 3))
        if outer is not None:
            pairs = [(a, b) for a in scope.columns for b in outer.columns if mixes(a, b) and a.exact and b.exact]
            if pairs:
                tie = self._equal(*self.random.choice(pairs))
                if self.random.random() < 0.15 and self._makes("other correlations"):
                    tie = scope.compared(*self.random.choice(pairs))
                where = tie if self.random.random() < 0.6 else boolean("({0} AND {1})", tie, where)
        if depth > 1 and self.random.random() < 0.3:
            word = "AND" if self.random.random() < 0.8 else "OR"
            lists = word == "AND" or self._makes("IN under OR")
            where = boolean(f"({{0}} {word} {{1}})", where, self._membership(scope, lists=lists))
        return where

    def _membership(self, scope: Expressions, *, lists: bool) -> Node:
        """EXISTS, IN (with `lists`), ANY, ALL, their negations, or a comparison with a scalar subquery."""
        shapes = [*(("IN", "NOT IN") if lists else ()), *(("ANY", "ALL") if self._makes("ANY and ALL") else ())]
        shape = self.random.choice(("EXISTS", "NOT EXISTS", "scalar", *shapes))
        if "EXISTS" in shape:
            grouped = self._makes("EXISTS over an aggregate")
            inner = self.select(depth=0, outer=scope if self.random.random() < 0.9 else None, grouped=grouped)
            return Node(scope.condition(0).kind, f"({shape} ({{0}}))", (inner,), varies=True)
        if shape == "scalar":
            value = self._scalar(scope)
            tested = scope.of(value.family, 1)
            return scope.compared(tested, value) if mixes(tested, value) else scope.condition(1)
        inner = self._deciding(self.select(depth=0))
        item = self.random.choice(inner.items)
        tested = scope.of(item.node.family, 1)
        constant = not tested.varies and not self._makes("constants NOT IN")
        if constant or not mixes(tested, item.node):
            return scope.condition(1)
        inner = replace(inner, items=(item,), hidden=None)
        if shape in ("ANY", "ALL"):
            compared = f"({{0}} {self.random.choice(COMPARISONS)} {shape} ({{1}}))"
            return Node(scope.condition(0).kind, compared, (tested, inner), varies=True)
        return Node(scope.condition(0).kind, f"({{0}} {shape} ({{1}}))", (tested, inner), varies=True)

    def _scalar(self, scope: Expressions) -> Node:
        """A subquery of one row: an aggregate, sometimes correlated by an equality."""
        sources, inner = self._from(0)
        outer = scope if self.random.random() < 0.4 else None
        where = self._where(inner, 0, outer) if outer or self.random.random() < 0.5 else None
        made = next((node for node in (inner.aggregate(1) for _ in range(8)) if node.exact), None)
        made = made or Node(inner.condition(0).kind, "bool_and({0})", (inner.condition(1),))
        query = Select((self._item(made),), sources, where)
        return replace(made, text="({0})", args=(query,), varies=True)

    def _combined(self) -> Combined:
        left = self._deciding(self.select(depth=1))
        sources, scope = self._from(1)
        pairs = []
        for item in left.items:
            tries = (scope.of(item.node.family, 1) for _ in range(6))
            found = next((node for node in tries if unites(node, item.node)), None)
            if found is not None:
                pairs.append((item, self._item(found)))
        if not pairs:
            pairs = [(self._item(scope.literal("int")), self._item(scope.literal("int")))]
        left = replace(left, items=tuple(item for item, _ in pairs))
        where = scope.condition(1) if self.random.random() < 0.5 else None
        right = Select(tuple(item for _, item in pairs), sources, where)
        operations = ["UNION ALL", "UNION", "INTERSECT", "EXCEPT"] if _distinguishable(left.items) else ["UNION ALL"]
        operations += ["INTERSECT ALL", "EXCEPT ALL"] if len(operations) > 1 and self._makes("ALL of sets") else []
        return Combined(replace(left, hidden=None), right, self.random.choice(operations))


def _widest(a: Node, b: Node) -> Node:
    """A column of one type that has the values of both."""
    return replace(a, low=min(a.low, b.low), high=max(a.high, b.high))


def _distinguishable(items: Sequence[Item]) -> bool:
    """Whether rows can be compared."""
    return all(item.node.exact for item in items)


def _joins_derived(query: Select | Combined) -> bool:
    """Whether a derived table is joined: DataFusion takes its keys for keys of the join, and drops other sort keys."""
    selects = (query,) if isinstance(query, Select) else (query.left, query.right)
    return any(
        len(select.sources) > 1
        and any(not isinstance(source.what, str) or source.what.startswith("w") for source in select.sources)
        for select in selects
    )


def tables(random: Random, without: frozenset[str]) -> list[Table]:
    """Three or four tables: small ones, an empty one or one of one row at times, one that has several segments."""
    sizes = [random.choice((0, 1, 2, 5, 20, 60)), random.choice((3, 17, 50)), random.choice((0, 1, 8, 40))]
    sizes += [random.choice((100, 1000, 1024, 2049, 4000))] if random.random() < 0.6 else []
    random.shuffle(sizes)
    mixed, huge = ("mixed-case names" not in without), ("tables of HUGEINT" not in without)
    return [table(random, name, rows, mixed=mixed, huge=huge) for name, rows in zip("abcd", sizes, strict=False)]
