"""Functions of Python and of `math` in rewritten code, which raise where Python does. Importing this imports Numba."""

from __future__ import annotations

import math
from typing import Any

from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload, register_jitable

from warpmill.udf.numba.operators import (
    add,
    given,
    greater,
    is_number,
    is_optional,
    is_whole,
    less,
    result,
    subtract,
)
from warpmill.udf.numba.pointers import step


def absolute(a: Any) -> Any:
    """``abs(a)``."""


@overload(absolute)
def _absolute(a):
    if is_optional(a):
        return lambda a: absolute(given(a))
    if is_whole(a):
        return lambda a: subtract(0, a) if types.int64(a) < 0 else types.int64(a)
    return (lambda a: abs(a)) if isinstance(a, types.Float) else None


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
        if is_optional(a):
            return lambda a: convert(given(a))
        if is_whole(a):
            return lambda a: types.int64(a)
        return of_float if isinstance(a, types.Float) else None

    return convert


integer = _to_integer("integer", lambda a: types.int64(_bounded(a)))
rounded = _to_integer("rounded", lambda a: types.int64(round(_bounded(a))))
floored = _to_integer("floored", lambda a: types.int64(math.floor(_bounded(a))))
ceiled = _to_integer("ceiled", lambda a: types.int64(math.ceil(_bounded(a))))


def decimal(a: Any) -> Any:
    """``float(a)``."""


@overload(decimal)
def _decimal(a):
    if is_optional(a):
        return lambda a: decimal(given(a))
    return (lambda a: float(a)) if is_number(a) else None


def truth(a: Any) -> Any:
    """``bool(a)``."""


@overload(truth)
def _truth(a):
    return (lambda a: a != 0) if is_number(a) else None


def _is_numbers(values: Any) -> bool:
    """Whether values are gone over by their positions, and are numbers."""
    known = types.List | types.Array | types.UniTuple | types.RangeType
    return isinstance(values, known) and is_number(getattr(values, "dtype", types.none))


@register_jitable
def total_of(values):
    """The sum of numbers."""
    found = 0
    for value in values:
        found = add(found, value)
    return found


def total(flag: Any, values: Any) -> Any:
    """``sum(values)``."""


@overload(total)
def _total(flag, values):
    def added(flag, values):
        found = 0
        for value in values:
            step(flag)
            found = add(found, value)
        return found

    return added


def _choice(name: str, better: Any) -> Any:
    """``min`` or ``max`` of two numbers: the second one where it is better."""

    def choose(a: Any, b: Any) -> Any: ...

    choose.__name__ = choose.__qualname__ = name

    @overload(choose)
    def _choose(a, b):
        if is_optional(a, b):
            return lambda a, b: choose(given(a), given(b))
        return (lambda a, b: b if better(b, a) else a) if is_number(a, b) else None

    return choose


least = _choice("least", less)
greatest = _choice("greatest", greater)


def _choice_of(name: str, choose: Any) -> Any:
    """``min`` or ``max`` of the values of an iterable."""

    def chosen(flag: Any, values: Any) -> Any: ...

    chosen.__name__ = chosen.__qualname__ = name

    @overload(chosen)
    def _chosen(flag, values):
        if not _is_numbers(values):
            return None

        def found_in(flag, values):
            if len(values) == 0:
                raise ValueError
            found = values[0]
            for value in values:
                step(flag)
                found = choose(found, value)
            return found

        return found_in

    return chosen


least_of = _choice_of("least_of", least)
greatest_of = _choice_of("greatest_of", greatest)


def ordered(flag: Any, values: Any) -> Any:
    """``values``, which have an order: no NaN."""


@overload(ordered)
def _ordered(flag, values):
    if not _is_numbers(values):
        raise TypingError("values that are no numbers are sorted")

    def checked(flag, values):
        for value in values:
            step(flag)
            if value != value:
                raise ValueError
        return values

    return checked


def _of_one(name: str) -> Any:
    function = getattr(math, name)

    @njit
    def checked(a):
        x = float(given(a))
        return result(function(x), x, 0.0)

    return checked


def _of_two(name: str) -> Any:
    function = getattr(math, name)

    @njit
    def checked(a, b):
        x, y = float(given(a)), float(given(b))
        return result(function(x, y), x, y)

    return checked


def _test(name: str) -> Any:
    function = getattr(math, name)

    @njit
    def tested(a):
        return function(float(given(a)))

    return tested


_ONE = (
    *("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "fabs", "erf", "erfc", "degrees", "radians"),
)
_TWO = ("atan2", "hypot", "pow", "fmod", "copysign")
_PLAIN = ("isnan", "isinf", "isfinite")

#: The forms of functions of `math` in rewritten code.
MATH: dict[Any, Any] = {getattr(math, name): _of_one(name) for name in _ONE}
MATH |= {getattr(math, name): _of_two(name) for name in _TWO}
MATH |= {getattr(math, name): _test(name) for name in _PLAIN}
MATH |= {math.floor: floored, math.ceil: ceiled, math.trunc: integer}
