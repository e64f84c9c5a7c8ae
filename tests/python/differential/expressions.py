"""Random expressions, typed and bounded, so that both engines must give the same value (see the package)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from differential.columns import HUGE, KINDS, WORDS, Kind, values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

BY_NAME = {kind.name: kind for kind in KINDS}
BOOL, BIGINT, DOUBLE, TEXT, DAY = (BY_NAME[name] for name in ("bool", "i64", "f64", "s", "day"))
#: An integer literal: DuckDB types it by its value.
LITERAL = Kind("literal", "int", 64)
#: An integer of a width that the engines do not agree on.
WIDE = Kind("wide", "int", 64)
FAMILIES = ("bool", "int", "int", "decimal", "float", "date", "timestamp", "string", "string")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_MANTISSA = 2**50


class Part(Protocol):
    """The generator of SQL expressions."""

    def sql(self) -> str:
        """The text."""
        ...


@dataclass(frozen=True)
class Node:
    """An expression: a template over its arguments, its type, and bounds of its values if it is a number."""

    kind: Kind
    text: str
    args: tuple[Part, ...] = ()
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    #: Whether the value is the same to the last bit, so that a query may decide by it.
    exact: bool = True
    #: Whether a column is in it.
    varies: bool = False
    #: Whether both engines know that it may be NULL.
    nullable: bool = False

    @property
    def family(self) -> str:
        """The family of its type."""
        return self.kind.family

    def sql(self) -> str:
        """The text."""
        return self.text.format(*(arg.sql() for arg in self.args))


def fits(low: Decimal, high: Decimal, kind: Kind) -> bool:
    """Whether integers or decimals within bounds fit a type."""
    least, most = kind.limits
    unit = Decimal(1).scaleb(-kind.scale)
    return least * unit <= low and high <= most * unit


def type_name(kind: Kind) -> str:
    """A type that CAST takes in both engines; integers are all BIGINT."""
    if kind.family == "decimal":
        return f"DECIMAL({kind.width},{kind.scale})"
    names = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP"}
    return names.get(kind.family, "VARCHAR")


def quoted(text: str) -> str:
    """A string literal, as a template."""
    return "'" + text.replace("'", "''").replace("{", "{{").replace("}", "}}") + "'"


def common_digits(a: Kind, b: Kind) -> int:
    """Digits of the decimal type that holds two types (integers as DataFusion sees them: 20 digits)."""
    shapes = [_digits(kind) for kind in (a, b)]
    return max(p - s for p, s in shapes) + max(s for _, s in shapes)


def _digits(kind: Kind) -> tuple[int, int]:
    """The total digits of a number, and those after its point."""
    return (20 if kind.width <= 64 else 38, 0) if kind.family == "int" else (kind.width, kind.scale)


def mixes(a: Node, b: Node) -> bool:
    """Whether two values have a common type that both engines find."""
    if {a.family, b.family} <= {"int", "decimal"} and "decimal" in (a.family, b.family):
        return common_digits(a.kind, b.kind) <= 38
    return a.family == b.family and (a.family != "timestamp" or a.kind.calm == b.kind.calm)


class Expressions:
    """Makes expressions over the columns of a scope."""

    def __init__(self, random: Random, columns: Sequence[Node], rows: int, without: frozenset[str]) -> None:
        self.random = random
        self.columns = list(columns)
        #: At most as many rows can meet in the scope.
        self.rows = max(1, rows)
        #: The features to leave out, by the names in `differential.known`.
        self.without = without

    def makes(self, name: str) -> bool:
        """Whether to make something that can be left out."""
        return name not in self.without

    def any(self, depth: int, *, exact: bool = True) -> Node:
        """An expression of some type."""
        family = self.random.choice(self.columns).family if self.random.random() < 0.7 else self._family()
        return self.of(family, depth, exact=exact)

    def of(self, family: str, depth: int, *, exact: bool = True) -> Node:
        """An expression of a family."""
        if depth <= 0 or self.random.random() < 0.3:
            return self.leaf(family)
        node = self._general(family, depth) if self.random.random() < 0.25 else self._special(family, depth)
        if node is None or (exact and not node.exact):
            return self.leaf(family)
        return node

    def leaf(self, family: str) -> Node:
        """A column, or a literal where no column is of the family."""
        fitting = [column for column in self.columns if column.family == family]
        if fitting and self.random.random() < 0.85:
            return self.random.choice(fitting)
        return self.literal(family)

    def literal(self, family: str, near: Node | None = None) -> Node:
        """A literal; `near` is the value that it will be compared with."""
        if near is not None and family == "timestamp" and not near.kind.calm:
            return near
        kind = next((kind for kind in KINDS if kind.family == family and (near is None or kind == near.kind)), None)
        if kind is None:
            kind = next(kind for kind in KINDS if kind.family == family)
        if near is None and family == "int":
            kind = BY_NAME["i32"]
        elif family == "timestamp":
            kind = BY_NAME["ts"]
        value = next((value for value in values(self.random, kind, 4) if value is not None), None)
        if value is None or self.random.random() < 0.03:
            return Node(LITERAL if family == "int" else kind, f"CAST(NULL AS {type_name(kind)})")
        return _literal(kind, value)

    def _family(self) -> str:
        return self.random.choice(FAMILIES)

    def _general(self, family: str, depth: int) -> Node | None:
        """The expressions of every type: CASE, coalesce, nullif, greatest, least."""
        a, b = self.of(family, depth - 1), self.of(family, depth - 1)
        if not unites(a, b):
            return None
        shape = self.random.choice(("case", "case", "coalesce", "nullif", "extreme", "simple case"))
        both = _united(a, b)
        if shape == "nullif" and (family != "decimal" or a.kind == b.kind or self.makes("nullif of decimals")):
            return replace(both, text="nullif({0}, {1})", args=(a, b), low=a.low, high=a.high)
        if shape in ("coalesce", "nullif"):
            return replace(both, text="coalesce({0}, {1})", args=(a, b))
        if shape == "extreme" and family != "bool":
            return replace(both, text=self.random.choice(("greatest", "least")) + "({0}, {1})", args=(a, b))
        if shape == "simple case":
            c = self.any(depth - 1)
            return replace(both, text="CASE {2} WHEN {3} THEN {0} ELSE {1} END", args=(a, b, c, self._partner(c, 0)))
        text = "CASE WHEN {2} THEN {0} ELSE {1} END" if self.random.random() < 0.8 else "CASE WHEN {2} THEN {0} END"
        return replace(both, text=text, args=(a, b, self.condition(depth - 1)))

    def _special(self, family: str, depth: int) -> Node | None:
        made: Node | None = getattr(self, f"_{family}")(depth)
        return made

    def condition(self, depth: int) -> Node:
        """A condition that is true, false and unknown for some rows each."""
        pick = self.random.random()
        if depth > 0 and pick < 0.35:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return boolean(self.random.choice(("({0} AND {1})", "({0} OR {1})")), a, b)
        if depth > 0 and pick < 0.42:
            return boolean("(NOT {0})", self.condition(depth - 1))
        if pick < 0.5:
            test = self.random.choice(("IS NULL", "IS NOT NULL"))
            return boolean("({0} " + test + ")", self.any(depth - 1))
        if pick < 0.55:
            test = self.random.choice(("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"))
            return boolean("({0} " + test + ")", self.condition(depth - 1))
        if pick < 0.57 and self.makes("doubles and decimals"):
            return self._against_decimal(depth)
        a = self.any(max(0, depth - 1))
        if pick < 0.65:
            return self._in_list(a)
        if pick < 0.73:
            low, high = self._partner(a, depth - 1), self._partner(a, depth - 1)
            word = self.random.choice(("BETWEEN", "NOT BETWEEN"))
            return boolean("({0} " + word + " {1} AND {2})", a, low, high)
        if pick < 0.83:
            return self._like(depth)
        if pick < 0.88:
            test = self.random.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
            return boolean("({0} " + test + " {1})", a, self._partner(a, depth - 1))
        return self.compared(a, self._partner(a, depth - 1))

    def _against_decimal(self, depth: int) -> Node:
        """A double, which may be NaN or infinite, against a decimal literal."""
        a = self.of("float", depth - 1)
        literal = self.random.choice(("0.0", "0.5", "-1.5", "12.25", "1000000.0"))
        if self.random.random() < 0.3:
            return boolean(f"(coalesce({{0}}, {literal}) > {{1}})", a, self.leaf("float"))
        return boolean(f"({{0}} {self.random.choice(COMPARISONS)} {literal})", a)

    def compared(self, a: Node, b: Node) -> Node:
        """A comparison."""
        return boolean("({0} " + self.random.choice(COMPARISONS) + " {1})", a, b)

    def _partner(self, a: Node, depth: int) -> Node:
        """Something to compare `a` with: mostly a literal, or a column."""
        if self.random.random() < 0.5:
            b = self.of(a.family, depth)
            if mixes(a, b):
                return b
        return self.literal(a.family, a)

    def _in_list(self, a: Node) -> Node:
        made = (self.literal(a.family, a) for _ in range(self.random.choice((1, 2, 3, 5, 12))))
        nulls = a.nullable or self.makes("NULL in a list")
        items = [item for item in made if nulls or "NULL" not in item.text] or [a]
        word = self.random.choice(("IN", "IN", "NOT IN"))
        places = ", ".join(f"{{{at}}}" for at in range(1, len(items) + 1))
        return boolean(f"({{0}} {word} ({places}))", a, *items)

    def _like(self, depth: int) -> Node:
        pieces = ["%", "_", *WORDS[1:9], "a", "b", "%"]
        pattern = "".join(self.random.choice(pieces) for _ in range(self.random.randint(0, 4)))
        word = self.random.choice(("LIKE", "LIKE", "NOT LIKE", "ILIKE"))
        return boolean(f"({{0}} {word} {quoted(pattern)})", self.of("string", depth - 1))

    def _bool(self, depth: int) -> Node:
        if self.random.random() < 0.15:
            call = self.random.choice(("starts_with", "contains"))
            return boolean(call + "({0}, {1})", self.of("string", depth - 1), self.literal("string"))
        return self.condition(depth)

    def _int(self, depth: int) -> Node | None:
        extra = [name for name in ("floor division", "HUGEINT", "differences of dates") if self.makes(name)]
        shape = self.random.choice(
            ("+", "-", "*", "+", "-", "*", "%", "abs", "neg", "length", "part", "bool", "floor", "at", *extra)
        )
        if shape in "+-*":
            return arithmetic(shape, self.of("int", depth - 1), self.of("int", depth - 1))
        if shape in ("%", "floor division"):
            a = self.of("int", depth - 1)
            by = self.random.choice((2, 3, 7, 10, 1000))
            if a.kind.name == "literal" or not fits(a.low, a.high, BIGINT):
                return None
            if shape == "floor division":
                return _number(WIDE, f"({{0}} // {by})", (a,), min(a.low, -a.high), max(a.high, -a.low))
            return _number(WIDE, f"({{0}} % {by})", (a,), Decimal(-by), Decimal(by))
        if shape == "HUGEINT":
            a = self.of("int", depth - 1)
            return _number(HUGE, "CAST({0} AS HUGEINT)", (a,), a.low, a.high)
        if shape == "differences of dates":
            a, b = self.of("date", depth - 1), self.of("date", depth - 1)
            return _number(BIGINT, "({0} - {1})", (a, b), Decimal(-4_000_000), Decimal(4_000_000))
        if shape in ("abs", "neg"):
            a = self.of("int", depth - 1)
            if a.kind.name in ("literal", "wide") or not fits(-a.high, -a.low, a.kind) or not a.kind.signed:
                return None
            bound = max(abs(a.low), abs(a.high))
            low = Decimal(0) if shape == "abs" else -a.high
            return _number(a.kind, "abs({0})" if shape == "abs" else "(- {0})", (a,), low, bound)
        if shape == "length":
            return _number(WIDE, "length({0})", (self.of("string", depth - 1),), Decimal(0), Decimal(100_000))
        if shape == "part":
            return self._part(depth)
        if shape == "bool":
            return _number(WIDE, "CAST({0} AS BIGINT)", (self.condition(depth - 1),), Decimal(0), Decimal(1))
        if shape == "floor":
            a = self.of("float", depth - 1)
            if not a.kind.calm:
                return None
            text = "CAST({0} AS BIGINT)" if self.makes("rounding casts") else "CAST(floor({0}) AS BIGINT)"
            return _number(BIGINT, text, (a,), a.low - 1, a.high + 1)
        needle = self.literal("string")
        return _number(WIDE, "strpos({0}, {1})", (self.of("string", depth - 1), needle), Decimal(0), Decimal(100_000))

    def _part(self, depth: int) -> Node:
        family = self.random.choice(("date", "date", "timestamp"))
        parts = ["year", "month", "day", "quarter", "doy", "dow"]
        if family == "timestamp":
            parts += ["hour", "minute"]
        text = f"EXTRACT({self.random.choice(parts)} FROM {{0}})"
        of = self.of(family, depth - 1)
        # The part of a constant NULL is a DOUBLE to DuckDB.
        return _number(WIDE, text, (of,), Decimal(-10_000), Decimal(10_000)) if of.varies else self.leaf("int")

    def _decimal(self, depth: int) -> Node | None:
        literals = ("literal",) if self.makes("decimal literals") else ()
        shape = self.random.choice(("+", "-", "*", "*", "abs", "neg", "int", "scale", *literals))
        if shape == "literal":
            digits, scale = self.random.randint(1, 8), self.random.randint(1, 4)
            value = Decimal(self.random.randint(10 ** (digits - 1), 10**digits - 1)).scaleb(-scale)
            width = max(digits, scale + 1)
            return Node(Kind(f"d{width}_{scale}", "decimal", width, scale=scale), f"{value:f}", (), Decimal(0), value)
        a = self.of("decimal", depth - 1)
        if shape in "+-*":
            return arithmetic(shape, a, self.of(self.random.choice(("decimal", "decimal", "int")), depth - 1))
        if shape in ("abs", "neg"):
            bound = max(abs(a.low), abs(a.high))
            return _number(a.kind, "abs({0})" if shape == "abs" else "(- {0})", (a,), -bound, bound)
        digits = self.random.choice((9, 18, 30, 38))
        scale = self.random.choice((0, 1, 3, 8))
        kind = Kind(f"d{digits}_{scale}", "decimal", digits, scale=scale)
        if shape == "int":
            a = self.of("int", depth - 1)
        # A cast to fewer digits behind the point rounds, away from zero where it is half: the bound may grow by one.
        if not fits(a.low - 1, a.high + 1, kind):
            return None
        return _number(kind, f"CAST({{0}} AS {type_name(kind)})", (a,), a.low - 1, a.high + 1)

    def _float(self, depth: int) -> Node | None:
        names = ("integer division", "decimal division", "exponents")
        extra = [name for name in names if self.makes(name)]
        shape = self.random.choice(("+", "-", "*", "/", "int", "round", "decimal", *extra))
        if shape in names:
            return self._rounded(shape, depth)
        if shape == "decimal":
            return Node(DOUBLE, "CAST({0} AS DOUBLE)", (self.of("decimal", depth - 1),), exact=False)
        if shape == "int":
            a = self.of("int", depth - 1)
            if max(abs(a.low), abs(a.high)) > 2**31:
                return None
            return _number(replace(DOUBLE, scale=1), "CAST({0} AS DOUBLE)", (a,), a.low, a.high)
        a, b = self.of("float", depth - 1), self.of("float", depth - 1)
        if not (a.kind.calm and b.kind.calm):
            return None
        if shape == "round":
            call = self.random.choice(("floor", "ceil", "abs", "round"))
            return _number(a.kind, call + "({0})", (a,), a.low.min(-a.high) - 1, a.high.max(-a.low) + 1)
        if shape == "/":
            quotient = _number(DOUBLE, "(CAST({0} AS DOUBLE) / nullif({1}, 0))", (a, b), a.low, a.high)
            return replace(quotient, exact=False)
        return float_arithmetic(shape, a, b)

    def _rounded(self, shape: str, depth: int) -> Node:
        """An expression with a DOUBLE intermediate result: quotients, and numbers with an exponent."""
        family = {"integer division": "int", "decimal division": "decimal"}.get(shape)
        a = self.of(family or self.random.choice(("int", "decimal", "float")), depth - 1)
        if family is None:
            if not a.kind.calm:
                a = self.of("int", depth - 1)
            text = self.random.choice(("({0} * 1e3)", "({0} / 1e6)", "({0} + 2.5e-1)"))
            return Node(DOUBLE, text, (a,), exact=False, varies=a.varies)
        b = self.of(self.random.choice(("int", family)), depth - 1)
        return Node(DOUBLE, "({0} / nullif({1}, 0))", (a, b), exact=False, varies=a.varies or b.varies)

    def _string(self, depth: int) -> Node | None:
        a = self.of("string", depth - 1)
        number = self.random.randint
        shape = self.random.choice(
            ("{0} || {1}", "upper", "lower", "substr", "trim", "replace", "left", "concat", "int", "date", "split")
        )
        if shape in ("upper", "lower", "trim"):
            trim = self.random.choice(("trim", "ltrim", "rtrim"))
            return _text((trim if shape == "trim" else shape) + "({0})", a)
        if shape == "substr":
            return _text(f"substr({{0}}, {number(1, 6)}, {number(0, 5)})", a)
        if shape == "left":
            return _text(f"{self.random.choice(('left', 'right'))}({{0}}, {number(0, 4)})", a)
        if shape == "replace":
            return _text(
                f"replace({{0}}, {quoted(self.random.choice(WORDS[1:]))}, {quoted(self.random.choice(WORDS))})", a
            )
        if shape == "split":
            return _text(f"split_part({{0}}, {quoted(self.random.choice('ab _'))}, {number(1, 3)})", a)
        if shape == "int":
            b = self.of(self.random.choice(("int", "decimal")), depth - 1)
            return _text("CAST({0} AS VARCHAR)", b) if b.varies else None
        if shape == "date":
            return _text("CAST({0} AS VARCHAR)", self.of("date", depth - 1))
        b = self.of("string", depth - 1)
        return _text("({0} || {1})" if shape != "concat" else "concat({0}, '-', {1})", a, b)

    def _date(self, depth: int) -> Node | None:
        shape = self.random.choice(("interval", "month", "of"))
        if shape == "of":
            a = self.of("timestamp", depth - 1)
            return Node(DAY, "CAST({0} AS DATE)", (a,), varies=a.varies) if a.kind.calm else None
        a = self.of("date", depth - 1)
        # Moved at most once, so that calm values stay calm.
        if not a.kind.calm or a.args:
            return None
        sign, unit = self.random.choice("+-"), self.random.choice(("DAY", "MONTH", "YEAR"))
        text = f"CAST({{0}} {sign} INTERVAL '{self.random.randint(0, 20)}' {unit} AS DATE)"
        if shape == "month":
            text = f"CAST(date_trunc('{self.random.choice(('month', 'year', 'quarter'))}', {{0}}) AS DATE)"
        return Node(DAY, text, (a,), varies=a.varies)

    def _timestamp(self, depth: int) -> Node | None:
        if self.random.random() < 0.2 and self.makes("time zones"):
            a = self.of("timestamp", depth - 1)
            there, back = self.random.sample(("UTC", "Asia/Kolkata", "Etc/GMT+5"), 2)
            text = f"(({{0}} AT TIME ZONE '{there}') AT TIME ZONE '{back}')"
        elif self.random.random() < 0.2 and self.makes("date plus interval"):
            a = self.of("date", depth - 1)
            if a.args:
                return None
            text = f"({{0}} {self.random.choice('+-')} INTERVAL {self.random.randint(0, 50)} HOUR)"
        elif self.random.random() < 0.5:
            a = self.of("date", depth - 1)
            text = "CAST({0} AS TIMESTAMP)"
        else:
            a = self.of("timestamp", depth - 1)
            text = f"date_trunc('{self.random.choice(('day', 'hour', 'month', 'minute'))}', {{0}})"
        return Node(BY_NAME["ts"], text, (a,), varies=a.varies) if a.kind.calm else None

    def aggregate(self, depth: int) -> Node:
        """An aggregate over expressions of the scope, sometimes DISTINCT, sometimes with a FILTER."""
        node = self._aggregate(depth)
        if self.random.random() < 0.2:
            text = node.text + f" FILTER (WHERE {{{len(node.args)}}})"
            return replace(node, text=text, args=(*node.args, self.condition(1)))
        return node

    def _aggregate(self, depth: int) -> Node:
        name = self.random.choice(
            ("count(*)", "count", "sum", "sum", "min", "max", "min", "max", "avg", "bool", "deviation")
        )
        distinct = "DISTINCT " if self.random.random() < 0.2 else ""
        rows = Decimal(self.rows)
        if name in ("sum", "avg", "deviation"):
            a = self.of(self.random.choice(("int", "decimal", "float")), depth)
            made = self._summed(name, distinct, a, rows)
            if made is not None:
                return made
            name = "count"
        if name in ("min", "max"):
            a = self.any(depth)
            return replace(a, text=name + "({0})", args=(a,), varies=True)
        if name == "bool":
            call = self.random.choice(("bool_and", "bool_or"))
            return boolean(call + "({0})", self.condition(depth))
        if name == "count(*)":
            return _number(BIGINT, "count(*)", (), Decimal(0), rows)
        return _number(BIGINT, f"count({distinct}{{0}})", (self.any(depth),), Decimal(0), rows)

    def _summed(self, name: str, distinct: str, a: Node, rows: Decimal) -> Node | None:
        bound = max(abs(a.low), abs(a.high))
        if not a.kind.calm or not a.varies:
            return None
        if name == "deviation":
            call = self.random.choice(("stddev_samp", "var_pop", "stddev_pop", "var_samp"))
            if a.family == "decimal" or bound > 10_000:
                return None
            return Node(DOUBLE, call + "(CAST({0} AS DOUBLE))", (a,), exact=False, varies=True)
        if name == "avg":
            if a.family == "int" and bound * rows > 2**53:
                return None
            kind = Kind("average", "average", 0) if a.family == "decimal" else DOUBLE
            decimals = a.family == "decimal" and not self.makes("averages of decimals")
            if decimals and (a.kind.width > 30 or bound * rows >= Decimal(10) ** (34 - a.kind.scale)):
                return None
            return Node(kind, f"avg({distinct}{{0}})", (a,), exact=False, varies=True)
        text = f"sum({distinct}{{0}})"
        if a.family == "int":
            kind = HUGE if self.makes("wide sums") else WIDE
            return (
                _number(kind, text, (a,), -bound * rows, bound * rows)
                if fits(-bound * rows, bound * rows, kind)
                else None
            )
        if a.family == "float":
            held = bound * rows * 2**a.kind.scale < _MANTISSA // (2**26 if a.kind.width == 32 else 1)
            return _number(a.kind, text, (a,), -bound * rows, bound * rows) if held else None
        # DataFusion's sum has ten digits more than its argument, DuckDB's has 38.
        if bound * rows * 10**a.kind.scale >= Decimal(10) ** min(38, a.kind.width + 10):
            return None
        kind = Kind(f"d38_{a.kind.scale}", "decimal", 38, scale=a.kind.scale)
        return _number(kind, text, (a,), -bound * rows, bound * rows)


def arithmetic(op: str, a: Node, b: Node) -> Node | None:
    """`a op b` for integers and decimals; None where it could overflow in one of the engines."""
    low, high = _reach(op, a, b)
    if a.family == "decimal" or b.family == "decimal":
        return _decimal_arithmetic(op, a, b, low, high)
    plain = [node.kind for node in (a, b) if node.kind.name != "literal"]
    agreed = plain and plain[0].name != "wide" and all(kind == plain[0] for kind in plain)
    held = agreed and all(fits(*bounds, plain[0]) for bounds in ((a.low, a.high), (b.low, b.high), (low, high)))
    if held and (len(plain) == 2 or plain[0].signed):
        return _number(plain[0], f"({{0}} {op} {{1}})", (a, b), low, high)
    if not all(fits(*bounds, BIGINT) for bounds in ((a.low, a.high), (b.low, b.high), (low, high))):
        return None
    return _number(BIGINT, f"(CAST({{0}} AS BIGINT) {op} CAST({{1}} AS BIGINT))", (a, b), low, high)


def float_arithmetic(op: str, a: Node, b: Node) -> Node | None:
    """`a op b` for floats that stay exact."""
    low, high = _reach(op, a, b)
    bits = a.kind.scale + b.kind.scale if op == "*" else max(a.kind.scale, b.kind.scale)
    if max(abs(low), abs(high)) * 2**bits >= _MANTISSA:
        return None
    return _number(
        replace(DOUBLE, scale=bits), f"(CAST({{0}} AS DOUBLE) {op} CAST({{1}} AS DOUBLE))", (a, b), low, high
    )


def column(table: str, name: str, kind: Kind, known: Sequence[Any]) -> Node:
    """A column as an expression, bounded by its values."""
    there = [value for value in known if value is not None]
    node = Node(
        replace(kind, scale=3) if kind.family == "float" and kind.calm else kind, f"{table}.{name}", varies=True
    )
    node = replace(node, nullable=True)
    if there and kind.family in ("int", "decimal", "float") and kind.calm:
        return replace(node, low=min(Decimal(0), Decimal(min(there))), high=max(Decimal(0), Decimal(max(there))))
    return node


def _literal(kind: Kind, value: Any) -> Node:
    if kind.family == "int":
        return Node(LITERAL, str(value), low=Decimal(min(0, value)), high=Decimal(max(0, value)))
    if kind.family == "decimal":
        text = f"CAST('{value:f}' AS {type_name(kind)})"
        return Node(kind, text, low=min(Decimal(0), value), high=max(Decimal(0), value))
    if kind.family == "float":
        number = Decimal(value) if kind.calm else Decimal(0)
        node = Node(replace(DOUBLE, scale=3, calm=kind.calm), f"CAST('{value!r}' AS DOUBLE)")
        return replace(node, low=min(Decimal(0), number), high=max(Decimal(0), number))
    if kind.family == "bool":
        return Node(kind, str(value).upper())
    if kind.family == "date":
        return Node(kind, f"DATE '{value.isoformat()}'")
    if kind.family == "timestamp":
        return Node(kind, f"TIMESTAMP '{value.isoformat(sep=' ', timespec='microseconds')}'")
    return Node(kind, quoted(value))


def _decimal_arithmetic(op: str, a: Node, b: Node, low: Decimal, high: Decimal) -> Node | None:
    shapes = [_digits(node.kind) for node in (a, b)]
    (p, s), (q, t) = shapes
    widest = max(node.kind.width for node in (a, b) if node.family == "decimal")
    scale = s + t if op == "*" else max(s, t)
    digits = p + q + 1 if op == "*" else max(p - s, q - t) + scale + 1
    if scale > 30 or (op != "*" and common_digits(a.kind, b.kind) > 38):
        return None
    # DuckDB stays within 64 bits as long as both sides do, and checks.
    most = 18 if widest <= 18 and scale < 18 else 38
    kind = Kind(f"d{min(digits, most)}_{scale}", "decimal", min(digits, most), scale=scale)
    return _number(kind, f"({{0}} {op} {{1}})", (a, b), low, high) if fits(low, high, kind) else None


def _reach(op: str, a: Node, b: Node) -> tuple[Decimal, Decimal]:
    if op == "+":
        return a.low + b.low, a.high + b.high
    if op == "-":
        return a.low - b.high, a.high - b.low
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _number(kind: Kind, text: str, args: tuple[Node, ...], low: Decimal, high: Decimal) -> Node:
    return Node(kind, text, args, low, high, varies=not args or any(arg.varies for arg in args))


def boolean(text: str, *args: Node) -> Node:
    """A condition."""
    return Node(BOOL, text, args, varies=any(arg.varies for arg in args))


def _text(text: str, *args: Node) -> Node:
    return Node(TEXT, text, args, varies=any(arg.varies for arg in args))


def unites(a: Node, b: Node) -> bool:
    """Whether both can be branches of one CASE with one type."""
    if a.family == "int":
        unsigned = [node.kind.width == 64 and not node.kind.signed for node in (a, b)]
        return unsigned[0] == unsigned[1] and all(fits(n.low, n.high, BIGINT) or unsigned[0] for n in (a, b))
    return mixes(a, b)


def _united(a: Node, b: Node) -> Node:
    kind = a.kind
    if a.family == "int" and a.kind != b.kind:
        kind = WIDE
    elif a.family == "decimal":
        digits, scale = common_digits(a.kind, b.kind), max(a.kind.scale, b.kind.scale)
        kind = Kind(f"d{digits}_{scale}", "decimal", digits, scale=scale)
    elif a.kind != b.kind:
        scale, width = max(a.kind.scale, b.kind.scale), max(a.kind.width, b.kind.width)
        kind = replace(a.kind, name="either", calm=a.kind.calm and b.kind.calm, scale=scale, width=width)
    low, high, exact = min(a.low, b.low), max(a.high, b.high), a.exact and b.exact
    return Node(kind, "", (), low, high, exact, a.varies or b.varies)
