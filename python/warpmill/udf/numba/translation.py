"""A function and the types of its columns, as machine code."""

from __future__ import annotations

import ast
import re
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from warpmill.udf.numba.rewriting import rewritten
from warpmill.udf.numba.rewritten import Library, OfMath, Rewritten
from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Compiled code, or the reason why there is none.
_Made = tuple[int, object] | str

#: Numba compiles one function at a time.
_LOCK = threading.Lock()


class NumbaTranslator:
    """One function, on its way to machine code for any types of its columns."""

    def __init__(
        self, function: object, parameters: Sequence[str], returns: str, of: Literal["columns", "group"]
    ) -> None:
        """Rewrite the function for Numba.

        Raises `NotSymbolic` with the line of what is refused for all types.
        """
        if not isinstance(function, FunctionType):
            raise NotSymbolic("it is no function written in Python")
        if returns not in ("DOUBLE", "BIGINT", "INTEGER", "BOOLEAN"):
            raise NotSymbolic(f"results of type {returns}")
        self._rewritten = rewritten(function, parameters, group=of == "group")
        self._returns = returns
        self._made: dict[tuple[str, ...], _Made] = {}

    def __call__(self, types: Sequence[str]) -> tuple[int, object]:
        """The address of code for columns of these types ("DOUBLE", "BIGINT", "BOOLEAN"), and what holds the code.

        The code is that of the engine's compiled functions: `void(const Launch*, i64 first, i64 last)`. Raises a
        `ValueError` with the reason where there is none.
        """
        key = tuple(types)
        with _LOCK:
            if key not in self._made:
                self._made[key] = self._compiled(key)
            made = self._made[key]
        if isinstance(made, str):
            raise ValueError(f"it is not compiled: {made}")
        return made

    def _compiled(self, types: tuple[str, ...]) -> _Made:
        from warpmill.udf.numba.machine import entry
        from warpmill.udf.numba.types import check

        try:
            known: dict[int, Any] = {}
            code = entry(_loaded(self._rewritten, known), types, self._returns)
            for function in known.values():
                check(function)
        except NotSymbolic as reason:
            return str(reason)
        except Exception as error:  # Numba raises its own for what it refuses, and others where it fails.
            return _reason(error, self._rewritten.file)
        return code.address, code


def _loaded(source: Rewritten, known: dict[int, Any]) -> Any:
    """The function that Numba compiles, with those that it calls."""
    if id(source) in known:
        return known[id(source)]
    import numba

    names = {name: _value(value, known) for name, value in source.names.items()}
    # Names that are left are errors, not functions of Python that look alike.
    names["__builtins__"] = {}
    module = ast.Module([source.tree], [])
    exec(compile(module, source.file, "exec"), names)
    known[id(source)] = numba.njit(names["function"], boundscheck=True, error_model="python")
    return known[id(source)]


def _value(value: object, known: dict[int, Any]) -> object:
    from warpmill.udf.numba.functions import MATH
    from warpmill.udf.numba.library import LIBRARY

    match value:
        case Library():
            return LIBRARY[value.name]
        case OfMath():
            if value.function not in MATH:
                raise NotSymbolic(f"math.{value.function.__name__}()")
            return MATH[value.function]
        case Rewritten():
            return _loaded(value, known)
    return value


def _reason(error: Exception, file: str) -> str:
    """Numba's reason in one line, with the line of the function's file."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    location = getattr(error, "loc", None)
    found = [line.strip(" -") for line in text.splitlines()]
    found = [line for line in found if line and not re.match(r"Failed in|During:|File |>>>|\^|There (is|are)", line)]
    reason = found[0] if found else type(error).__name__
    line = f"line {location.line}: " if location is not None and location.filename == file else ""
    return f"{line}Numba: {reason[:200]}"
