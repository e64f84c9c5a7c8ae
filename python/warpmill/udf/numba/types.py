"""Checks of the types that Numba has inferred: conversions that change values. Importing this imports Numba."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import ir

from warpmill.udf.source import NotSymbolic


def check(function: Any) -> None:
    """Raise `NotSymbolic` where a compiled function stores numbers as others, or has a dictionary of floats.

    Python keeps the number that is stored, and finds floats in a dictionary by their identity, and 0.0 for -0.0.
    """
    for compiled in function.overloads.values():
        inferred = compiled.type_annotation
        for kind in inferred.typemap.values():
            if isinstance(kind, types.DictType) and not isinstance(kind.key_type, types.Integer):
                raise NotSymbolic("a dictionary whose keys are no whole numbers is not compiled by Numba here")
        for block in inferred.blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                    _check_read(statement.value, inferred)
                if isinstance(statement, ir.SetItem | ir.StaticSetItem):
                    target, value = (inferred.typemap[part.name] for part in (statement.target, statement.value))
                    held = inferred.calltypes[statement].args[-1]
                    held = target.dtype if isinstance(target, types.Array | types.List) else held
                    given = value.dtype if isinstance(value, types.Array | types.List) else types.unliteral(value)
                    _check_stored(given, held, statement.loc.line)


def _check_read(read: Any, inferred: Any) -> None:
    """Refuse keys that Numba would make integers."""
    if read.op not in ("getitem", "static_getitem"):
        return
    of = inferred.typemap[read.value.name]
    index = inferred.typemap.get(read.index.name) if isinstance(read.index, ir.Var) else None
    if isinstance(of, types.DictType) and not isinstance(types.unliteral(index), types.Integer):
        raise NotSymbolic("a key that is no whole number", read.loc.line)


def _check_stored(given: Any, held: Any, line: int) -> None:
    narrows = isinstance(held, types.Integer) and not isinstance(given, types.Integer)
    narrows |= isinstance(held, types.Boolean) and not isinstance(given, types.Boolean)
    if narrows or (not isinstance(held, types.Number | types.Boolean) and given != held):
        raise NotSymbolic(f"a value of type {given} is stored among values of type {held}", line)
