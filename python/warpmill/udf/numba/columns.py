"""Columns of a group in rewritten code: values, and which are NULL; reductions skip what is missing, as Python's do.

Importing this imports Numba.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.experimental import structref
from numba.extending import overload, overload_method, register_jitable

from warpmill.udf.numba.functions import greatest, least, total_of
from warpmill.udf.numba.pointers import frozen


class Column:
    """A column in rewritten code: values, and a byte for each that is not 0 where it is not NULL."""

    def __init__(self, wm_values: object, wm_valid: object) -> None:
        raise TypeError("only code that Numba compiles makes columns")


@structref.register
class ColumnType(types.StructRef):
    """Numba's type of a column. Without NULLs, `valid` is empty."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Fields without literal types."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


structref.define_constructor(Column, ColumnType, ["wm_values", "wm_valid"])


@register_jitable
def _is_there(column, i):
    """Whether value i is neither NULL nor NaN."""
    if len(column.wm_valid) > 0 and column.wm_valid[i] == 0:
        return False
    return column.wm_values[i] == column.wm_values[i]


@overload(len)
def _length(column):
    return (lambda column: len(column.wm_values)) if isinstance(column, ColumnType) else None


@overload(operator.getitem)
def _item(column, index):
    if not (isinstance(column, ColumnType) and isinstance(index, types.Integer)):
        return None

    def item(column, index):
        count = len(column.wm_values)
        at = index + count if index < 0 else index
        if not 0 <= at < count or (len(column.wm_valid) > 0 and column.wm_valid[at] == 0):
            raise IndexError
        return column.wm_values[at]

    return item


def size_of(values: Any) -> Any:
    """The size of a dictionary that a loop goes over."""


@overload(size_of)
def _size_of(values):
    return (lambda values: len(values)) if isinstance(values, types.DictType) else (lambda values: 0)


def keeps_size(values: Any, size: Any) -> Any:
    """Raises where a dictionary has changed its size in a loop over it."""


@overload(keeps_size)
def _keeps_size(values, size):
    if not isinstance(values, types.DictType):
        return lambda values, size: None

    def checked(values, size):
        if len(values) != size:
            raise RuntimeError

    return checked


def is_missing(values: Any, index: Any) -> Any:
    """``values[index] is None``."""


@overload(is_missing)
def _is_missing(values, index):
    if not isinstance(values, ColumnType):
        return lambda values, index: values[index] is None
    if not isinstance(index, types.Integer):
        return None

    def missing(values, index):
        count = len(values.wm_values)
        at = index + count if index < 0 else index
        if not 0 <= at < count:
            raise IndexError
        return len(values.wm_valid) > 0 and values.wm_valid[at] == 0

    return missing


def _refuse_truth(column: Any) -> None:
    """Numpy computes with arrays of truth values in small floats."""
    if isinstance(column.field_dict["wm_values"].dtype, types.Boolean):
        raise TypingError("an array of truth values")


def of_positions(values: Any) -> Any:
    """The values that ``enumerate`` and ``zip`` iterate: no dictionary, whose size may change."""


@overload(of_positions)
def _of_positions(values):
    if isinstance(values, types.DictType):
        raise TypingError("a dictionary is gone over with others")
    return lambda values: each(values)


def each(values: Any) -> Any:
    """The values that a loop iterates: those of a column, none of which may be NULL, or the object itself."""


@overload(each)
def _each(values):
    if not isinstance(values, ColumnType):
        return lambda values: values

    def every(values):
        for byte in values.wm_valid:
            if byte == 0:
                raise ValueError
        return frozen(values.wm_values)

    return every


def each_present(values: Any) -> Any:
    """The values that a loop which skips None iterates."""


@overload(each_present)
def _each_present(values):
    if not isinstance(values, ColumnType):
        raise TypingError("None is compared with what comes from no column")

    def present(values):
        return frozen(values.wm_values if len(values.wm_valid) == 0 else values.wm_values[values.wm_valid != 0])

    return present


@register_jitable
def _known(column):
    """The values that are not missing."""
    count = len(column.wm_values)
    found = np.empty(count, column.wm_values.dtype)
    many = 0
    for i in range(count):
        if _is_there(column, i):
            found[many] = column.wm_values[i]
            many += 1
    return found[:many]


@register_jitable
def _some(column):
    """The values that are not missing, of which there is one."""
    found = _known(column)
    if len(found) == 0:
        raise ValueError
    return found


def _reduction(choose: Any) -> Any:
    """The least or greatest of some values."""

    @register_jitable
    def chosen(values):
        found = values[0]
        for value in values:
            found = choose(found, value)
        return found

    return chosen


_least_of, _greatest_of = _reduction(least), _reduction(greatest)


@register_jitable
def _variance(column, ddof):
    found = _known(column)
    if len(found) <= ddof:
        raise ValueError
    mean = 0.0
    for value in found:
        mean += value
    mean /= len(found)
    squares = 0.0
    for value in found:
        squares += (value - mean) ** 2
    return squares / (len(found) - ddof)


@overload_method(ColumnType, "to_numpy")
def _to_numpy(column):
    _refuse_truth(column)
    return lambda column: each(column)


@overload_method(ColumnType, "tolist")
@overload_method(ColumnType, "to_list")
def _to_list(column):
    return lambda column: [value for value in each(column)]  # noqa: C416 - Numba has no list() of arrays


@overload_method(ColumnType, "dropna")
def _dropna(column):
    return lambda column: Column(_known(column), np.empty(0, np.uint8))


@overload_method(ColumnType, "count")
def _count(column):
    return lambda column: len(_known(column))


@overload_method(ColumnType, "sum")
def _sum(column):
    return lambda column: total_of(_known(column))


@overload_method(ColumnType, "mean")
def _mean(column):
    def mean(column):
        found, added = _some(column), 0.0
        for value in found:
            added += value
        return added / len(found)

    return mean


@overload_method(ColumnType, "min")
def _min(column):
    return lambda column: _least_of(_some(column))


@overload_method(ColumnType, "max")
def _max(column):
    return lambda column: _greatest_of(_some(column))


@overload_method(ColumnType, "var")
def _var(column, ddof=1):
    return lambda column, ddof=1: _variance(column, ddof)


@overload_method(ColumnType, "std")
def _std(column, ddof=1):
    return lambda column, ddof=1: math.sqrt(_variance(column, ddof))


@overload_method(ColumnType, "median")
def _median(column):
    return lambda column: np.median(_some(column).astype(np.float64))
