"""Values of translated functions: one for the group (`Scalar`), or one for each row (`Rows`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from warpmill.udf.compiled.types import BOOL, FLOAT, INT, NONE, Kind, NotCompiled, NotYet, Origin, Type
from warpmill.udf.terms import Constant, Group, Thing

#: "array": a numpy array of floats, with NULLs as NaN; "list": Python numbers; "iloc": a column accessed by index.
Form = Literal["column", "array", "list", "iloc"]

_LEAST = -(2**63)


@dataclass(frozen=True)
class Scalar:
    """One value: C++ that computes it."""

    text: str
    type: Type
    #: The value, where it is a constant of the function.
    constant: Constant | None = None


@dataclass(frozen=True)
class Mask:
    """The rows that count: C++ that tells it of row `i`, with the values that it captures."""

    text: str
    captures: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rows:
    """A value for each row: C++ of type `Row<...>` for row `i`, with the values that it captures."""

    text: str
    kind: Kind
    captures: tuple[tuple[str, str], ...] = ()
    mask: Mask | None = None
    #: Whether no row is NULL.
    total: bool = False
    form: Form = "column"
    #: "either": floats that Python may have as whole numbers.
    origin: Origin = "numpy"

    @property
    def plain(self) -> str:
        """The type of a value in C++."""
        return Type(self.kind).plain


Value = Scalar | Constant | Rows | Group | Thing


def scalar(value: Value) -> Scalar:
    """A value that is one for the group."""
    match value:
        case Scalar():
            return value
        case Constant():
            return literal(value)
        case Rows():
            raise NotCompiled("a whole column where one value is needed")
        case _:
            raise NotCompiled("something else than a value")


def literal(known: Constant) -> Scalar:
    """A constant of the function's text."""
    match known.value:
        case None:
            return Scalar("Null<f64>{0, false}", NONE, known)
        case bool() as value:
            return Scalar("true" if value else "false", BOOL, known)
        case int() as value if _LEAST <= value < -_LEAST:
            return Scalar(f"(i64){value}ll" if value > _LEAST else "least_value<i64>()", INT, known)
        case float() as value:
            return Scalar(_float(value), FLOAT, known)
        case int():
            raise NotCompiled("a whole number of more than 64 bits")
        case value:
            raise NotCompiled(f"a constant of type {type(value).__name__}")


def _float(value: float) -> str:
    if math.isnan(value):
        return "not_a_number()"
    if math.isinf(value):
        return "infinity()" if value > 0 else "(-infinity())"
    return f"({value!r})" if value < 0 else repr(value)


def plain(value: Scalar, site: int) -> Scalar:
    """A value that must not be None: otherwise the group fails."""
    if value.type.kind == "none":
        raise (NotYet if value.constant is None else NotCompiled)("an operator of None")
    if value.type.gap != "null":
        return value
    return Scalar(f"known(c, {site}, {value.text})", replace(value.type, gap=""))


def there(value: Scalar, site: int) -> Scalar:
    """A value that is neither None nor missing."""
    value = plain(value, site)
    if value.type.gap != "missing":
        return value
    return Scalar(f"present(c, {site}, {value.text})", replace(value.type, gap=""))


def number(value: Scalar, site: int) -> Scalar:
    """A value that is a number: truth values of Python are."""
    value = plain(value, site)
    if value.type.kind != "bool":
        return value
    if value.type.origin != "python":
        raise NotCompiled("arithmetic with a truth value that numpy may have made")
    origin: Origin = "either" if value.type.gap else "python"
    return Scalar(f"whole({value.text})", Type("int", origin, value.type.gap))


def rounded(value: Scalar) -> str:
    """A number as the float next to it."""
    return value.text if value.type.kind == "float" else f"rounded({value.text})"


def exact(value: Scalar, site: int) -> str:
    """A number as a float; the group fails where that would round it."""
    return value.text if value.type.kind == "float" else f"exact(c, {site}, {value.text})"


def truth(value: Value) -> str:
    """Whether a value is true."""
    if isinstance(value, Constant):
        return "true" if value.value else "false"
    one = scalar(value)
    return one.text if one.type.cpp == "bool" else f"truth({one.text})"


@dataclass
class Captures:
    """The names of captured values in expressions over rows; each value is computed once."""

    _names: dict[str, str] = field(default_factory=dict)

    def of(self, text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The name of a value within an expression over rows, and the captured value."""
        name = self._names.setdefault(text, f"s{len(self._names)}")
        return name, ((name, text),)


def captured(*parts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """All captures, each once."""
    return tuple(dict.fromkeys(one for part in parts for one in part))


def function(text: str, captures: tuple[tuple[str, str], ...]) -> str:
    """C++ of a function of the row `i`."""
    names = "".join(f", {name} = {value}" for name, value in captures)
    return f"[&{names}](i64 i, Context& c) {{ return {text}; }}"
