"""Types of results: declarations, and conversion of Python values."""

from __future__ import annotations

import datetime
import decimal
import inspect
import math
import operator
import types
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow

#: SQL type names, with their names here.
_NAMES = {
    "DOUBLE": "DOUBLE",
    "FLOAT8": "DOUBLE",
    "BIGINT": "BIGINT",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "INTEGER": "INTEGER",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "BOOLEAN": "BOOLEAN",
    "BOOL": "BOOLEAN",
    "VARCHAR": "VARCHAR",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "DATETIME": "TIMESTAMP",
}
_PYTHON: dict[object, str] = {
    float: "DOUBLE",
    int: "BIGINT",
    bool: "BOOLEAN",
    str: "VARCHAR",
    datetime.datetime: "TIMESTAMP",
    datetime.date: "DATE",
}
#: Types of single values, which no array is.
_VALUES: frozenset[object] = frozenset({*_PYTHON, decimal.Decimal, datetime.time, datetime.timedelta, bytes})
_BITS = {"BIGINT": 63, "INTEGER": 31}


def declared(function: object, returns: object) -> str:
    """The type that `returns` says, or else the function's annotation; DOUBLE where neither does."""
    if returns is None:
        returns = _annotation(function)
    if returns is None or returns is inspect.Signature.empty:
        return "DOUBLE"
    if isinstance(returns, str) and returns.strip().upper() in _NAMES:
        return _NAMES[returns.strip().upper()]
    found = _PYTHON.get(returns) if isinstance(returns, type) else None
    if found is None:
        known = ", ".join(sorted(set(_NAMES.values())))
        shown = getattr(returns, "__name__", returns)
        raise ValueError(f"a function cannot return {shown}: the types are {known}")
    return found


def takes_values(function: object, parameters: Sequence[str]) -> bool:
    """Whether the annotations of all `parameters` say that a function is of single values: ``def f(s: str)``."""
    hints = _hints(function)
    return bool(parameters) and all(_without_none(hints.get(name)) in _VALUES for name in parameters)


def _annotation(function: Any) -> object:
    """The annotation of a function's result; `None` without one, and for `Any` and objects that are no types."""
    found = _without_none(_hints(function).get("return"))
    return found if isinstance(found, type) and found in _PYTHON else None


def _hints(function: Any) -> dict[str, object]:
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError, AttributeError):
        return {}


def _without_none(hint: object) -> object:
    """The type without None, if it is a union with None; other types are unchanged."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    arguments = [one for one in typing.get_args(hint) if one is not type(None)]
    return arguments[0] if len(arguments) == 1 else hint


class ResultError(TypeError):
    """A result of another type than was declared."""


def converted(value: Any, returns: str) -> object:
    """`value` as pyarrow takes it; what is missing (None, NaN, NaT, NA) is None."""
    if value is None:
        return None
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", 0) == 0:
        value = item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, int) and hasattr(value, "__index__"):
        value = operator.index(value)
    kind = type(value).__name__
    if kind in ("NaTType", "NAType"):
        return None
    is_bool, is_int = isinstance(value, bool), isinstance(value, int)
    match returns:
        case "DOUBLE" if is_int or isinstance(value, float):
            return float(value)
        case "BIGINT" | "INTEGER" if is_int:
            limit = 2 ** _BITS[returns]
            if not -limit <= value < limit:
                raise ResultError(f"the result {int(value)} is no {returns}")
            return int(value)
        case "BOOLEAN" if is_bool:
            return value
        case "VARCHAR" if isinstance(value, str):
            return value
        case "TIMESTAMP" if isinstance(value, datetime.datetime):
            if value.tzinfo is not None:
                raise ResultError("the result is a datetime with a time zone where TIMESTAMP is declared")
            return value
        case "DATE" if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value
        case _:
            raise ResultError(f"the result is of type {kind} where {returns} is declared")


def array(values: list[object], returns: str) -> pyarrow.Array[Any]:
    """Converted values as an Arrow array."""
    import pyarrow

    types = {
        "DOUBLE": pyarrow.float64(),
        "BIGINT": pyarrow.int64(),
        "INTEGER": pyarrow.int32(),
        "BOOLEAN": pyarrow.bool_(),
        "VARCHAR": pyarrow.string(),
        "DATE": pyarrow.date32(),
        "TIMESTAMP": pyarrow.timestamp("us"),
    }
    made: pyarrow.Array[Any] = pyarrow.array(values, types[returns])
    return made
