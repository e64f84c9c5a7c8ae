"""Expressions of the engine: SQL texts of operators, with their properties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from types import ModuleType

#: The most parts of an expression, counted with repetitions: larger ones take longer to plan than calling the code.
MOST_PARTS = 600
#: Operators inside each other.
MOST_DEPTH = 60


@dataclass(frozen=True)
class Term:
    """An expression."""

    text: str
    parts: int = 1
    depth: int = 1
    is_bool: bool = False
    #: Whether it holds aggregates: it has one value for all rows of a group.
    has_aggregates: bool = False


@dataclass(frozen=True)
class Row:
    """A value for each row."""

    term: Term
    #: A filter of the rows; None: all.
    mask: Term | None = None


@dataclass(frozen=True)
class Scalar:
    """One value."""

    term: Term


@dataclass(frozen=True)
class Constant:
    """A value that is known."""

    value: object


@dataclass(frozen=True)
class Thing:
    """A Python object that is no value: a module, a function, a class."""

    value: object


@dataclass(frozen=True)
class Group:
    """The parameter for a group object with all columns."""


@dataclass(frozen=True)
class Unusable:
    """A variable that has no value that an expression could say."""

    reason: str


Value = Row | Scalar | Constant | Thing | Group | Unusable

NULL = Term("NULL")


def member(module: ModuleType, name: str) -> Constant | Thing:
    """A module's attribute: a constant for numbers, else a thing."""
    found = getattr(module, name, None)
    if found is None:
        raise NotSymbolic(f"there is no {module.__name__}.{name}")
    return Constant(found) if type(found) in (int, float) else Thing(found)


def operator(name: str, *operands: Term, is_bool: bool = False) -> Term:
    """A call of one of the engine's operators."""
    return _call(f"__py_{name}", operands, is_bool=is_bool, aggregates=False)


def aggregate(name: str, operand: Term, *, distinct: bool = False) -> Term:
    """An aggregate function of a row's value."""
    if operand.has_aggregates:
        raise NotSymbolic("a reduction of rows that use the result of another one")
    text = f"DISTINCT {operand.text}" if distinct else operand.text
    return _call(name, (Term(text, operand.parts, operand.depth),), is_bool=False, aggregates=True)


def _call(name: str, operands: tuple[Term, ...], *, is_bool: bool, aggregates: bool) -> Term:
    parts = 1 + sum(operand.parts for operand in operands)
    depth = 1 + max(operand.depth for operand in operands)
    if parts > MOST_PARTS or depth > MOST_DEPTH:
        raise NotSymbolic(
            f"its expression is too large (more than {MOST_PARTS} parts, or {MOST_DEPTH} inside each other)"
        )
    text = f"{name}({', '.join(operand.text for operand in operands)})"
    return Term(text, parts, depth, is_bool, aggregates or any(operand.has_aggregates for operand in operands))


def constant(value: object) -> Term:
    """A constant as SQL."""
    match value:
        case None:
            return NULL
        case bool():
            return Term("true" if value else "false", is_bool=True)
        case int() if -(2**63) < value < 2**63:
            return Term(str(value))
        case float() if math.isnan(value):
            return Term("__py_float(NULL)")
        case float():
            return Term(f"__py_float('{value!r}')")
        case str() if "\0" not in value:
            return Term("'" + value.replace("'", "''") + "'")
        case _:
            raise NotSymbolic(f"it uses a constant of type {type(value).__name__}")


def choice(condition: Term, then: Term, otherwise: Term) -> Term:
    """`then if condition else otherwise`."""
    if then == otherwise:
        return then
    return operator("if", condition, then, otherwise, is_bool=then.is_bool and otherwise.is_bool)


def truth(term: Term) -> Term:
    """The truth of a value."""
    return term if term.is_bool else operator("truth", term, is_bool=True)


COUNT = Term("count(*)", 1, 1, has_aggregates=True)
