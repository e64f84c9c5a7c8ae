"""Tables of random columns: every type, NULLs, duplicates, skew, extremes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

#: Days and moments that every conversion of both engines can hold.
CALM_DAYS = (dt.date(1700, 1, 1), dt.date(2200, 1, 1))
WORDS = (
    "",
    "a",
    "A",
    "ab",
    "abc",
    "aé",
    "éa",
    "Ünlü",
    "жук",
    "日本語",
    "x%y",
    "x_y",
    " pad ",
    "it's",
    "🎲",
    "zebra",
    "Zebra",
)
LONG_WORD = "long " * 60 + "tail"
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Kind:
    """A column type, with the properties of its values that the expression generator needs."""

    name: str
    family: str
    #: Bits of an integer; digits of a decimal.
    width: int
    signed: bool = True
    #: Digits of a decimal behind the point.
    scale: int = 0
    #: A float that adds exactly; a date or timestamp that converts.
    calm: bool = True

    @property
    def arrow(self) -> Any:
        """The Arrow type."""
        if self == HUGE:
            return pa.decimal128(38, 0)
        if self.family == "int":
            return pa.type_for_alias(f"{'' if self.signed else 'u'}int{self.width}")
        if self.family == "decimal":
            return pa.decimal128(self.width, self.scale)
        return {
            "bool": pa.bool_(),
            "float": pa.float32() if self.width == 32 else pa.float64(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us"),
            "string": pa.string(),
        }[self.family]

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest integer of the type; of a decimal, without its point."""
        if self.family == "decimal":
            return -(10**self.width) + 1, 10**self.width - 1
        return (-(2 ** (self.width - 1)), 2 ** (self.width - 1) - 1) if self.signed else (0, 2**self.width - 1)


KINDS = (
    Kind("bool", "bool", 1),
    *(Kind(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64)),
    *(Kind(f"u{bits}", "int", bits, signed=False) for bits in (8, 16, 32, 64)),
    *(Kind(f"d{p}_{s}", "decimal", p, scale=s) for p, s in ((4, 1), (9, 2), (18, 6), (25, 0), (38, 0), (38, 10))),
    Kind("f32", "float", 32),
    Kind("f64", "float", 64),
    Kind("wild32", "float", 32, calm=False),
    Kind("wild64", "float", 64, calm=False),
    Kind("day", "date", 32),
    Kind("wildday", "date", 32, calm=False),
    Kind("ts", "timestamp", 64),
    Kind("wildts", "timestamp", 64, calm=False),
    Kind("s", "string", 0),
)
#: A HUGEINT (which Arrow lacks), or its substitute.
HUGE = Kind("wide", "int", 127)
KEY_KINDS = tuple(kind for kind in KINDS if kind.name in ("i16", "i32", "i64", "u32", "d9_2", "day", "s", "bool"))


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A table and how it is stored."""

    name: str
    columns: tuple[Column, ...]
    rows: int
    #: Column that the stored rows are sorted by.
    sort_by: str | None = None
    #: Rows that are appended in a second statement.
    appended: int = 0

    def arrow(self) -> Any:
        """The rows."""
        arrays = {column.name: pa.array(column.values, column.kind.arrow) for column in self.columns}
        return pa.table(arrays)


def values(random: Random, kind: Kind, rows: int, *, key: bool = False) -> list[Any]:
    """Values of a kind: from a small or a large domain, evenly, skewed, in runs or in order, some of them NULL."""
    domain = _domain(random, kind, 8 if key else random.choice((1, 3, 12, max(1, rows))), key=key)
    shape = random.choice(("even", "even", "skewed", "runs", "sorted"))
    if shape == "skewed":
        made = [domain[int(len(domain) * random.random() ** 4)] for _ in range(rows)]
    elif shape == "runs":
        made = []
        while len(made) < rows:
            made += [random.choice(domain)] * random.randint(1, 40)
        made = made[:rows]
    else:
        made = [random.choice(domain) for _ in range(rows)]
    if shape == "sorted":
        made.sort(key=lambda value: (value != value, value))
    nulls = random.choice((0.0, 0.0, 0.1, 0.1, 0.5, 1.0 if random.random() < 0.2 else 0.02))
    return [None if random.random() < nulls else value for value in made]


def table(random: Random, name: str, rows: int, *, mixed: bool = False, huge: bool = False) -> Table:
    """A table with join keys of shared domains and a few columns of other kinds; columns are named after both.

    With `mixed`, some names have capital letters; with `huge`, HUGEINT is a type.
    """
    kinds = [(kind, True) for kind in random.sample(KEY_KINDS, 3)]
    others = (*KINDS, HUGE) if huge else KINDS
    kinds += [(kind, False) for kind in random.sample(others, random.randint(2, 6))]
    columns = []
    for at, (kind, key) in enumerate(kinds):
        made = values(random, kind, rows, key=key)
        called = f"{name}{at}_{kind.name}"
        columns.append(Column(called.title() if mixed and at % 2 else called, kind, tuple(made)))
    sort_by = random.choice(columns).name if random.random() < 0.25 else None
    appended = random.randint(1, rows) if rows > 1 and random.random() < 0.3 else 0
    return Table(name, tuple(columns), rows, sort_by, appended)


def _domain(random: Random, kind: Kind, size: int, *, key: bool) -> list[Any]:
    make = _maker(random, kind, key=key)
    return [make() for _ in range(size)]


def _maker(random: Random, kind: Kind, *, key: bool) -> Callable[[], Any]:
    if kind.family == "bool":
        return lambda: random.random() < 0.5
    if kind.family == "int":
        return lambda: _integer(random, kind, key=key)
    if kind.family == "decimal":
        return lambda: Decimal(_integer(random, kind, key=key)).scaleb(-kind.scale, _EXACT)
    if kind.family == "float":
        return (lambda: random.randint(-800, 800) / 8) if kind.calm else (lambda: _wild(random, kind))
    if kind.family == "date":
        return lambda: _day(random, calm=kind.calm, key=key)
    if kind.family == "timestamp":
        return lambda: _moment(random, calm=kind.calm)
    return lambda: _word(random, key=key)


def _integer(random: Random, kind: Kind, *, key: bool) -> int:
    low, high = kind.limits
    if key:
        return random.randint(0, 9) * int(10**kind.scale)
    span = random.choice((10, 100, 10_000, None))
    if span is None:
        return random.choice((low, high, low + 1, high - 1, 0, random.randint(low, high)))
    return random.randint(max(low, -span), min(high, span))


def _wild(random: Random, kind: Kind) -> float:
    odd = (float("nan"), float("inf"), float("-inf"), 0.0, 1.0, -1.5)
    edge = (3.4028234663852886e38, 1.401298464324817e-45) if kind.width == 32 else (1.7976931348623157e308, 5e-324)
    return random.choice((*odd, *edge, -edge[0], -edge[1]))


def _day(random: Random, *, calm: bool, key: bool) -> dt.date:
    if key:
        return dt.date(2024, 2, 26) + dt.timedelta(days=random.randint(0, 8))
    if not calm and random.random() < 0.4:
        return random.choice((dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(1969, 12, 31)))
    return dt.date.fromordinal(random.randint(CALM_DAYS[0].toordinal(), CALM_DAYS[1].toordinal()))


def _moment(random: Random, *, calm: bool) -> dt.datetime:
    if not calm and random.random() < 0.4:
        return random.choice((dt.datetime.min, dt.datetime.max, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)))
    day = dt.datetime.combine(_day(random, calm=True, key=False), dt.time())
    return day + dt.timedelta(microseconds=random.choice((0, 1, 999_999, random.randint(0, 86_399_999_999))))


def _word(random: Random, *, key: bool) -> str:
    if key:
        return random.choice(WORDS[:9])
    pick = random.random()
    if pick < 0.02:
        return LONG_WORD[random.randint(0, 3) :]
    if pick < 0.6:
        return random.choice(WORDS)
    return "".join(random.choice("abcABC é%_日") for _ in range(random.randint(0, 14)))
