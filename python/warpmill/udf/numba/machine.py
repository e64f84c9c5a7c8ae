"""The entry point of a function that Numba compiles, over the groups of a launch. Importing this imports Numba."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import carray, cfunc, types
from numba.core.errors import NumbaWarning
from numba.extending import register_jitable

from warpmill.udf.numba.columns import Column, ColumnType
from warpmill.udf.numba.pointers import at, is_stopped, some
from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Fields of the engine's `HostLaunch`, each of 8 bytes.
_VALUES, _PRESENT, _OFFSETS, _RESULTS, _KNOWN, _STATUS, _CANCELLED = 0, 1, 2, 5, 6, 7, 8
#: Statuses of groups: stopped, and an exception (`kernels/udf/value.cuh`).
_STOPPED, _EXCEPTION = 9, 11
#: Groups that one call gives up before it gives up all: exceptions in Numba's code do not return the memory of lists.
_MOST_GIVEN_UP = 1000

_COLUMNS = {"DOUBLE": types.float64, "BIGINT": types.int64, "BOOLEAN": types.boolean}


def entry(function: Any, columns: Sequence[str], returns: str) -> Any:
    """The C function that runs `function` for columns of these types. Raises `NotSymbolic`, and Numba's errors."""
    kinds = [_COLUMNS[name] for name in columns]
    of_columns = [_column_type(kind) for kind in kinds]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        function.compile((types.uintp, *of_columns))
        (compiled,) = function.nopython_signatures
        names: dict[str, Any] = {
            "function": function,
            "store": _stored(compiled.return_type, returns),
            "at": at,
            "is_stopped": is_stopped,
            "Column": Column,
            "carray": carray,
            "types": types,
            "np": np,
        }
        names |= {f"kind{number}": kind for number, kind in enumerate(kinds)}
        names |= {f"size{number}": np.dtype(str(kind)).itemsize for number, kind in enumerate(kinds)}
        exec(_text(len(kinds), returns), names)
        signature = types.void(types.CPointer(types.uintp), types.int64, types.int64)
        return cfunc(signature, error_model="python")(names["entry"])


def _column_type(kind: Any) -> Any:
    values = types.Array(kind, 1, "C")
    return ColumnType((("wm_values", values), ("wm_valid", types.Array(types.uint8, 1, "C"))))


def _text(count: int, returns: str) -> str:
    """The entry point's source. A launch's fields are addresses."""
    result = "float64" if returns == "DOUBLE" else "int64"
    made = "\n".join(
        f"            valid{at} = np.empty(0, np.uint8)\n"
        f"            if present[{at}] != 0:\n"
        f"                valid{at} = carray(at(present[{at}] + begin, types.uint8), rows)\n"
        f"            x{at} = Column(carray(at(values[{at}] + size{at} * begin, kind{at}), rows), valid{at})"
        for at in range(count)
    )
    arguments = ", ".join(f"x{at}" for at in range(count))
    return f"""def entry(launch, first, last):
    values, present = at(launch[{_VALUES}], types.uintp), at(launch[{_PRESENT}], types.uintp)
    offsets, results = at(launch[{_OFFSETS}], types.int64), at(launch[{_RESULTS}], types.{result})
    known, status = at(launch[{_KNOWN}], types.uint8), at(launch[{_STATUS}], types.int32)
    flag = launch[{_CANCELLED}]
    given_up = 0
    for group in range(first, last):
        known[group] = 0
        status[group] = {_EXCEPTION}
        if is_stopped(flag):
            status[group] = {_STOPPED}
        elif given_up < {_MOST_GIVEN_UP}:
            begin = offsets[group]
            rows = offsets[group + 1] - begin
{made}
            try:
                known[group] = store(function(flag, {arguments}), results, group)
                status[group] = 0
            except Exception:
                given_up += 1
"""


def _stored(kind: Any, returns: str) -> Any:
    """A function that stores a result, and returns 1, or 0 for NULL."""
    if isinstance(kind, types.Optional):
        inner = _stored(kind.type, returns)

        def optional(value, results, group):
            return 0 if value is None else inner(some(value), results, group)

        return register_jitable(optional)
    whole = isinstance(kind, types.Boolean) or (isinstance(kind, types.Integer) and kind.signed)
    if isinstance(kind, types.NoneType):
        store: Any = _store_none
    elif returns == "DOUBLE" and (whole or isinstance(kind, types.Float)):
        store = _store_float
    elif (returns == "BIGINT" and whole) or (returns == "BOOLEAN" and isinstance(kind, types.Boolean)):
        store = _store_whole
    elif returns == "INTEGER" and whole:
        store = _store_small
    else:
        raise NotSymbolic(f"its result is of Numba's type {kind} where {returns} is declared")
    return register_jitable(store)


def _store_none(value, results, group):
    return 0


def _store_float(value, results, group):
    results[group] = float(value)
    return 1 if value == value else 0


def _store_whole(value, results, group):
    results[group] = types.int64(value)
    return 1


def _store_small(value, results, group):
    if not -(2**31) <= value < 2**31:
        raise OverflowError
    results[group] = types.int64(value)
    return 1
