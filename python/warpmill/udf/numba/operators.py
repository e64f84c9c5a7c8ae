"""Operators of rewritten code: an exception where the plain operator of Numba has another result than Python's.

Importing this imports Numba.
"""

from __future__ import annotations

import math
from typing import Any

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

from warpmill.udf.numba.pointers import some

#: Integers up to here are floats without rounding.
_EXACT = 2**53
#: The longest list that an operator makes.
_LONGEST = 2**31


def is_whole(*kinds: Any) -> bool:
    """Whether all types are of integers or truth values, which are integers to Python's operators."""
    for kind in kinds:
        if isinstance(kind, types.Integer) and not kind.signed:
            raise TypingError("a number without a sign")
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def is_number(*kinds: Any) -> bool:
    """Whether all types are of integers, floats or truth values."""
    return all(is_whole(kind) or isinstance(kind, types.Float) for kind in kinds)


def is_mixed(left: Any, right: Any) -> bool:
    """Whether an integer meets a float."""
    return is_number(left, right) and is_whole(left) != is_whole(right)


def is_optional(*kinds: Any) -> bool:
    """Whether a value may be None."""
    return any(isinstance(kind, types.Optional) for kind in kinds)


def _is_rows(*kinds: Any) -> bool:
    """Whether arrays meet arrays or numbers."""
    return any(isinstance(kind, types.Array) for kind in kinds) and all(
        is_number(kind) or (isinstance(kind, types.Array) and is_number(kind.dtype)) for kind in kinds
    )


def given(a: Any) -> Any:
    """A value that is not None."""


@overload(given)
def _given(a):
    if not is_optional(a):
        return lambda a: a

    def value(a):
        if a is None:
            raise TypeError
        return some(a)

    return value


@register_jitable
def exact(value):
    """An integer as the float that it is."""
    if not -_EXACT <= value <= _EXACT:
        raise OverflowError
    return float(value)


def number(a: Any) -> Any:
    """A number as a float, if it is none already."""


@overload(number)
def _number(a):
    return (lambda a: exact(types.int64(a))) if is_whole(a) else (lambda a: a)


def _binary(name: str, of_whole: Any, plain: Any, takes: Any) -> Any:
    """An operator of two values: of integers, of floats, and of other types that `takes` says."""

    def compute(a: Any, b: Any) -> Any: ...

    compute.__name__ = compute.__qualname__ = name

    @overload(compute)
    def typed(a, b):
        if is_optional(a, b):
            return lambda a, b: compute(given(a), given(b))
        # numpy computes with its truth values as conditions, Python as integers; the values here may be of either.
        if all(isinstance(kind, types.Boolean) for kind in (a, b)) and name != "add":
            raise TypingError(f"{name} of truth values")
        if is_whole(a, b):
            return of_whole
        if name == "multiply" and isinstance(a, types.List) and isinstance(b, types.Integer):
            return _repeated
        if is_number(a, b) or takes(a, b):
            return plain
        raise TypingError(f"{name} of {a} and {b}")

    return compute


def _with_overflow(name: str) -> Any:
    """A function of two 64-bit integers, which raises where the result has more bits."""

    @intrinsic
    def compute(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = getattr(builder, name)(*arguments)
            parts = [builder.extract_value(made, 0), builder.extract_value(made, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), generate

    def checked(a, b):
        found, more = compute(types.int64(a), types.int64(b))
        if more:
            raise OverflowError
        return found

    return checked


def _is_sequences(a: Any, b: Any) -> bool:
    """Whether two lists or tuples meet."""
    return (isinstance(a, types.List) and a == b) or (isinstance(a, types.BaseTuple) and isinstance(b, types.BaseTuple))


_sum, _difference, _product = map(_with_overflow, ("sadd_with_overflow", "ssub_with_overflow", "smul_with_overflow"))


@register_jitable
def _floor_divided(a, b):
    x, y = types.int64(a), types.int64(b)
    return _difference_of(0, x) if y == -1 else x // y


_difference_of = register_jitable(_difference)


@register_jitable
def _remainder(a, b):
    x, y = types.int64(a), types.int64(b)
    return types.int64(0) if y == -1 else x % y


_product_of = register_jitable(_product)


@register_jitable
def _power_of_integers(a, b):
    base, exponent, found = types.int64(a), types.int64(b), types.int64(1)
    if exponent < 0:
        raise OverflowError
    while exponent > 0:
        if exponent & 1:
            found = _product_of(found, base)
        exponent >>= 1
        if exponent > 0:
            base = _product_of(base, base)
    return found


def _repeated(a, b):
    """A list as often as a number says: Numba does not look at how long it becomes."""
    if b > 0 and _product_of(len(a), b) > _LONGEST:
        raise MemoryError
    return a * b


add = _binary("add", _sum, lambda a, b: a + b, lambda a, b: _is_rows(a, b) or _is_sequences(a, b))
subtract = _binary("subtract", _difference, lambda a, b: a - b, _is_rows)
multiply = _binary("multiply", _product, lambda a, b: a * b, _is_rows)
divide = _binary("divide", lambda a, b: exact(types.int64(a)) / exact(types.int64(b)), lambda a, b: a / b, _is_rows)
floor_divide = _binary("floor_divide", lambda a, b: _floor_divided(a, b), lambda a, b: a // b, lambda *_: False)
modulo = _binary("modulo", lambda a, b: _remainder(a, b), lambda a, b: a % b, lambda *_: False)
power = _binary(
    "power",
    lambda a, b: _power_of_integers(a, b),
    lambda a, b: result(float(a) ** float(b), float(a), float(b)),
    lambda *_: False,
)


def negate(a: Any) -> Any:
    """``-a``."""


@overload(negate)
def _negate(a):
    if is_optional(a):
        return lambda a: negate(given(a))
    # numpy refuses a minus of its truth values, which a value here may be.
    if isinstance(a, types.Boolean):
        raise TypingError("a minus of a truth value")
    if is_whole(a):
        return lambda a: _difference_of(0, a)
    if is_number(a) or _is_rows(a):
        return lambda a: -a
    raise TypingError(f"a minus of {a}")


def added(a: Any, b: Any) -> Any:
    """``a + b`` in the function's text: two truth values may be numpy's, whose sum is one."""


@overload(added)
def _added(a, b):
    if all(isinstance(kind, types.Boolean) for kind in (a, b)):
        raise TypingError("a sum of truth values")
    return lambda a, b: add(a, b)


def add_to(a: Any, b: Any) -> Any:
    """``a += b``: lists grow in place."""


@overload(add_to)
def _add_to(a, b):
    if isinstance(a, types.Array):
        raise TypingError("an array is changed in place")
    if not isinstance(a, types.List):
        return lambda a, b: added(a, b)

    def grown(a, b):
        a.extend(b)
        return a

    return grown


def changed(a: Any) -> Any:
    """``a`` that an operator such as ``-=`` changes: a number."""


@overload(changed)
def _changed(a):
    if not (is_number(a) or is_optional(a)):
        raise TypingError(f"an operator that changes a value of type {a}")
    return lambda a: a


# Comparisons of integers and floats: Python's are exact.


def _comparison(name: str, plain: Any, with_float: Any) -> Any:
    def compare(a: Any, b: Any) -> Any: ...

    compare.__name__ = compare.__qualname__ = name

    @overload(compare)
    def _compare(a, b):
        if is_optional(a, b):
            return lambda a, b: compare(given(a), given(b))
        if is_mixed(a, b):
            return with_float
        # Lists and tuples compare the identity of their elements, too.
        if is_number(a, b) or _is_rows(a, b):
            return plain
        raise TypingError(f"{a} and {b} are compared")

    return compare


less = _comparison("less", lambda a, b: a < b, lambda a, b: number(a) < number(b))
less_equal = _comparison("less_equal", lambda a, b: a <= b, lambda a, b: number(a) <= number(b))
greater = _comparison("greater", lambda a, b: a > b, lambda a, b: number(a) > number(b))
greater_equal = _comparison("greater_equal", lambda a, b: a >= b, lambda a, b: number(a) >= number(b))
equal = _comparison("equal", lambda a, b: a == b, lambda a, b: number(a) == number(b))
unequal = _comparison("unequal", lambda a, b: a != b, lambda a, b: number(a) != number(b))


def contains(a: Any, values: Any) -> Any:
    """``a in values``."""


@overload(contains)
def _contains(a, values):
    if isinstance(values, types.DictType) and isinstance(values.key_type, types.Integer) and is_whole(a):
        return lambda a, values: types.int64(a) in values
    if not (isinstance(values, types.List | types.UniTuple | types.Array) and is_number(values.dtype, a)):
        raise TypingError(f"{a} is looked for in {values}")

    def found(a, values):
        # Python finds a NaN that is the same object.
        if a != a:
            raise ValueError
        for value in values:  # noqa: SIM110 - Numba has no any()
            if equal(value, a):
                return True
        return False

    return found


def key(a: Any) -> Any:
    """A key that a method of a dictionary is given, or a position."""


@overload(key)
def _key(a):
    if not is_whole(a):
        raise TypingError(f"a key of type {a}")
    return lambda a: types.int64(a)


def index(a: Any) -> Any:
    """An integer as a bound of a range or a slice."""


@overload(index)
def _index(a):
    if isinstance(a, types.NoneType):
        return lambda a: a
    if not is_whole(a):
        raise TypingError(f"a bound of type {a}")

    def bound(a):
        found = types.int64(a)
        if not -(2**62) < found < 2**62:
            raise OverflowError
        return found

    return bound


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
