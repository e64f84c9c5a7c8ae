"""Python objects as tables: supported types, and lookup of the variable that a query names."""

from __future__ import annotations

import gc
import re
import sys
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from warpmill._warpmill import LimitError

if TYPE_CHECKING:
    from types import FrameType

    from warpmill.udf.function import UserFunction


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that hands out its rows through the Arrow C stream interface: Arrow, Polars, pandas, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule holding an ArrowArrayStream."""


@runtime_checkable
class ArrowArray(Protocol):
    """A single record batch behind the Arrow C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules holding an ArrowSchema and an ArrowArray."""


#: Objects that can be read as tables; a dict maps names to columns.
Frame = ArrowStream | ArrowArray | dict[str, list[object]]

_MISSING_TABLE = re.compile(r"""table ['"]?(?:[\w"]+\.)*"?(\w+)"?['"]? (?:not found|does not exist)""", re.IGNORECASE)


def is_frame(value: object) -> bool:
    """Whether `value` can be a table."""
    return not isinstance(value, type) and isinstance(value, ArrowStream | ArrowArray)


def arrow_source(value: object) -> object:
    """An object with an Arrow interface that holds `value`'s rows."""
    from warpmill.relation import Relation

    if isinstance(value, Relation):
        return value.exact_rows()
    if is_frame(value):
        return _with_types(value)
    if isinstance(value, dict):
        import pyarrow

        _refuse_deep(value)
        table: object = pyarrow.table(value)
        return table
    raise TypeError(
        f"cannot read a table from {type(value).__name__}: it has neither __arrow_c_stream__ nor __arrow_c_array__"
    )


#: Lists and dicts inside each other: PyArrow reads a list that contains itself until the process ends.
_MOST_LEVELS = 128


def _refuse_deep(columns: dict[str, list[object]]) -> None:
    """Raise `LimitError` where values of columns are too deep, or contain themselves."""

    def is_nested(kind: type) -> bool:
        return issubclass(kind, list | tuple | dict) or kind.__name__ == "ndarray"

    level: list[Any] = [columns]
    for _ in range(_MOST_LEVELS + 2):
        # Elements, keys and values, without a loop in Python: most columns have no nested ones.
        inside = gc.get_referents(*level)
        if any(kind.__name__ == "ndarray" for kind in set(map(type, level))):
            arrays = [of for of in level if type(of).__name__ == "ndarray" and of.dtype.kind == "O"]
            inside += [value for array in arrays for value in array.ravel().tolist()]
        kinds = tuple(kind for kind in set(map(type, inside)) if is_nested(kind))
        if not kinds:
            return
        level = list({id(value): value for value in inside if isinstance(value, kinds)}.values())
    raise LimitError(f"a column has more than {_MOST_LEVELS} lists or dicts inside each other, which is the limit")


def _with_types(frame: object) -> object:
    """`frame` with columns of only NULLs as integers: Polars exports them in a format that is not Arrow's."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(frame, polars.DataFrame) or polars.Null not in frame.dtypes:
        return frame
    typed: object = frame.cast({polars.Null: polars.Int32})
    return typed


_MISSING_FUNCTION = re.compile(r"Invalid function '(\w+)'")


def missing_function(message: str) -> str | None:
    """The function that an error message says does not exist, in lower case."""
    found = _MISSING_FUNCTION.search(message)
    return found.group(1).lower() if found else None


def find_function(name: str, frame: FrameType | None) -> UserFunction | None:
    """A function for queries that a variable where `frame` runs is, or is called: local, then global, in any case."""
    from warpmill.udf.function import UserFunction

    for scope in () if frame is None else (frame.f_locals, frame.f_globals):
        for variable, value in scope.items():
            if isinstance(value, UserFunction) and name in (variable.lower(), value.name.lower()):
                return value
    return None


def missing_table(message: str) -> str | None:
    """The table that an error message says does not exist."""
    found = _MISSING_TABLE.search(message)
    return found.group(1) if found else None


def caller() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "warpmill":
        frame = frame.f_back
    return frame


def find_variable(name: str, frame: FrameType | None) -> object | None:
    """A frame bound to variable `name` where `frame` runs: local, then global, in any case (SQL folds it)."""
    for scope in () if frame is None else (frame.f_locals, frame.f_globals):
        value: object
        for variable, value in scope.items():
            if variable.lower() == name.lower() and is_frame(value):
                return value
    return None
