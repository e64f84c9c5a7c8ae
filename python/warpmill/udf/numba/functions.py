"""Functions of Python and of `math` in rewritten code, which raise where Python does. Importing this imports Numba."""

# ruff: noqa: ARG001 - Numba's typing functions have the parameters of what they type

from __future__ import annotations

import math
from typing import Any

from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload, register_jitable

from warpmill.udf.numba.operators import add, is_mixed, is_whole, number, result, subtract


def absolute(a: Any) -> Any:
    """``abs(a)``."""


@overload(absolute)
def _absolute(a):
    if is_whole(a):
        return lambda a: subtract(0, a) if types.int64(a) < 0 else types.int64(a)
    return lambda a: abs(a)


def integer(a: Any) -> Any:
    """``int(a)``."""


@overload(integer)
def _integer(a):
    if is_whole(a):
        return lambda a: types.int64(a)
    if isinstance(a, types.Float):
        return lambda a: types.int64(_bounded(a))
    return None


@register_jitable
def _bounded(value):
    """A float whose integer has 64 bits."""
    if not -9.2e18 < value < 9.2e18:
        raise OverflowError
    return value


def _to_integer(name: str, of_float: Any) -> Any:
    def convert(a: Any) -> Any: ...

    convert.__name__ = convert.__qualname__ = name

    @overload(convert)
    def _convert(a):
        if is_whole(a):
            return lambda a: types.int64(a)
        return of_float if isinstance(a, types.Float) else None

    return convert


rounded = _to_integer("rounded", lambda a: types.int64(round(_bounded(a))))
floored = _to_integer("floored", lambda a: types.int64(math.floor(_bounded(a))))
ceiled = _to_integer("ceiled", lambda a: types.int64(math.ceil(_bounded(a))))


def total(values: Any) -> Any:
    """``sum(values)``."""


@overload(total)
def _total(values):
    def added(values):
        found = 0
        for value in values:
            found = add(found, value)
        return found

    return added


def least(a: Any, b: Any) -> Any:
    """``min(a, b)``."""


@overload(least)
def _least(a, b):
    if is_mixed(a, b):
        return lambda a, b: number(b) if number(b) < number(a) else number(a)
    return lambda a, b: b if b < a else a


def greatest(a: Any, b: Any) -> Any:
    """``max(a, b)``."""


@overload(greatest)
def _greatest(a, b):
    if is_mixed(a, b):
        return lambda a, b: number(b) if number(b) > number(a) else number(a)
    return lambda a, b: b if b > a else a


@register_jitable
def least_of(values):
    """``min(values)``."""
    if len(values) == 0:
        raise ValueError
    found = values[0]
    for value in values:
        if value < found:
            found = value
    return found


@register_jitable
def greatest_of(values):
    """``max(values)``."""
    if len(values) == 0:
        raise ValueError
    found = values[0]
    for value in values:
        if value > found:
            found = value
    return found


def ordered(values: Any) -> Any:
    """``values``, which have an order: no NaN."""


@overload(ordered)
def _ordered(values):
    kind = getattr(values, "dtype", None)
    if not isinstance(kind, types.Number | types.Boolean):
        raise TypingError("values that are no numbers are sorted")

    def checked(values):
        for value in values:
            if value != value:
                raise ValueError
        return values

    return checked


def _of_one(name: str) -> Any:
    function = getattr(math, name)

    @njit
    def checked(a):
        return result(function(float(a)), float(a), 0.0)

    return checked


def _of_two(name: str) -> Any:
    function = getattr(math, name)

    @njit
    def checked(a, b):
        return result(function(float(a), float(b)), float(a), float(b))

    return checked


_ONE = (
    *("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "fabs", "erf", "erfc", "degrees", "radians"),
)
_TWO = ("atan2", "hypot", "pow", "fmod", "copysign")
_PLAIN = ("isnan", "isinf", "isfinite")

#: What functions of `math` are in rewritten code.
MATH: dict[Any, Any] = {getattr(math, name): _of_one(name) for name in _ONE}
MATH |= {getattr(math, name): _of_two(name) for name in _TWO}
MATH |= {getattr(math, name): getattr(math, name) for name in _PLAIN}
MATH |= {math.floor: floored, math.ceil: ceiled, math.trunc: integer}
