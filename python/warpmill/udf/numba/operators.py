"""Operators of rewritten code: an exception where the plain operator of Numba has another result than Python's.

Importing this imports Numba.
"""

# ruff: noqa: ARG001 - Numba's typing functions have the parameters of what they type

from __future__ import annotations

import math
from typing import Any

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

#: Integers up to here are floats without rounding.
_EXACT = 2**53


def is_whole(*kinds: Any) -> bool:
    """Whether all types are of integers or truth values, which are integers to Python's operators."""
    for kind in kinds:
        if isinstance(kind, types.Integer) and not kind.signed:
            raise TypingError("a number without a sign")
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def is_mixed(left: Any, right: Any) -> bool:
    """Whether an integer meets a float."""
    return (is_whole(left) and isinstance(right, types.Float)) or (isinstance(left, types.Float) and is_whole(right))


@register_jitable
def exact(value):
    """An integer as the float that it is."""
    if not -_EXACT <= value <= _EXACT:
        raise OverflowError
    return float(value)


def _not_array(*kinds: Any) -> None:
    if any(isinstance(kind, types.Array) for kind in kinds):
        raise TypingError("an array is changed in place")


def _with_overflow(name: str) -> Any:
    """A function of two 64-bit integers: the result, and whether it has more bits."""

    @intrinsic
    def compute(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = getattr(builder, name)(*arguments)
            parts = [builder.extract_value(made, 0), builder.extract_value(made, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), generate

    return compute


_sum, _difference, _product = map(_with_overflow, ("sadd_with_overflow", "ssub_with_overflow", "smul_with_overflow"))


def add(a: Any, b: Any) -> Any:
    """``a + b``."""


@overload(add)
def _add(a, b):
    return _checked(_sum) if is_whole(a, b) else lambda a, b: a + b


def subtract(a: Any, b: Any) -> Any:
    """``a - b``."""


@overload(subtract)
def _subtract(a, b):
    return _checked(_difference) if is_whole(a, b) else lambda a, b: a - b


def multiply(a: Any, b: Any) -> Any:
    """``a * b``."""


@overload(multiply)
def _multiply(a, b):
    return _checked(_product) if is_whole(a, b) else lambda a, b: a * b


def _checked(compute: Any) -> Any:
    def checked(a, b):
        found, more = compute(types.int64(a), types.int64(b))
        if more:
            raise OverflowError
        return found

    return checked


def divide(a: Any, b: Any) -> Any:
    """``a / b``."""


@overload(divide)
def _divide(a, b):
    if is_whole(a, b):
        return lambda a, b: exact(types.int64(a)) / exact(types.int64(b))
    return lambda a, b: a / b


def floor_divide(a: Any, b: Any) -> Any:
    """``a // b``."""


@overload(floor_divide)
def _floor_divide(a, b):
    if not is_whole(a, b):
        return lambda a, b: a // b

    def checked(a, b):
        x, y = types.int64(a), types.int64(b)
        if y == -1:
            return subtract(0, x)
        return x // y

    return checked


def modulo(a: Any, b: Any) -> Any:
    """``a % b``."""


@overload(modulo)
def _modulo(a, b):
    if not is_whole(a, b):
        return lambda a, b: a % b

    def checked(a, b):
        x, y = types.int64(a), types.int64(b)
        return types.int64(0) if y == -1 else x % y

    return checked


def power(a: Any, b: Any) -> Any:
    """``a ** b``."""


@overload(power)
def _power(a, b):
    if is_whole(a, b):

        def of_integers(a, b):
            base, exponent, found = types.int64(a), types.int64(b), types.int64(1)
            if exponent < 0:
                raise OverflowError
            while exponent > 0:
                if exponent & 1:
                    found = multiply(found, base)
                exponent >>= 1
                if exponent > 0:
                    base = multiply(base, base)
            return found

        return of_integers
    if isinstance(a, types.Number | types.Boolean) and isinstance(b, types.Number | types.Boolean):
        return lambda a, b: result(float(a) ** float(b), float(a), float(b))
    return lambda a, b: a**b


def negate(a: Any) -> Any:
    """``-a``."""


@overload(negate)
def _negate(a):
    return (lambda a: subtract(0, a)) if is_whole(a) else (lambda a: -a)


def add_to(a: Any, b: Any) -> Any:
    """``a += b``: lists grow in place."""


@overload(add_to)
def _add_to(a, b):
    _not_array(a)
    if not isinstance(a, types.List | types.ListType):
        return lambda a, b: add(a, b)

    def grown(a, b):
        a.extend(b)
        return a

    return grown


def changed(a: Any) -> Any:
    """``a`` that an operator such as ``-=`` changes."""


@overload(changed)
def _changed(a):
    _not_array(a)
    if isinstance(a, types.List | types.ListType):
        raise TypingError("a list is changed in place")
    return lambda a: a


# Comparisons of integers and floats: Python's are exact.


def _comparison(name: str, plain: Any, with_float: Any) -> Any:
    def compare(a: Any, b: Any) -> Any: ...

    compare.__name__ = compare.__qualname__ = name

    @overload(compare)
    def _compare(a, b):
        return with_float if is_mixed(a, b) else plain

    return compare


less = _comparison("less", lambda a, b: a < b, lambda a, b: number(a) < number(b))
less_equal = _comparison("less_equal", lambda a, b: a <= b, lambda a, b: number(a) <= number(b))
greater = _comparison("greater", lambda a, b: a > b, lambda a, b: number(a) > number(b))
greater_equal = _comparison("greater_equal", lambda a, b: a >= b, lambda a, b: number(a) >= number(b))
equal = _comparison("equal", lambda a, b: a == b, lambda a, b: number(a) == number(b))
unequal = _comparison("unequal", lambda a, b: a != b, lambda a, b: number(a) != number(b))


def number(a: Any) -> Any:
    """A number as a float, if it is none already."""


@overload(number)
def _number_(a):
    return (lambda a: exact(types.int64(a))) if is_whole(a) else (lambda a: a)


def result(found: Any, a: Any, b: Any) -> Any:
    """A result of a function of floats: where it is missing or infinite, so is an argument, or Python raises."""


@overload(result)
def _result(found, a, b):
    def checked(found, a, b):
        if not math.isfinite(found) and math.isfinite(a) and math.isfinite(b):
            raise ValueError
        if math.isnan(found) and not math.isnan(a) and not math.isnan(b):
            raise ValueError
        return found

    return checked
