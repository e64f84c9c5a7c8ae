"""Names that a function reads from outside: its closure, its module, Python's own, and its parameters with defaults."""

from __future__ import annotations

import builtins
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING

from warpmill.udf.source import NotSymbolic
from warpmill.udf.terms import Constant, Thing, Unusable

if TYPE_CHECKING:
    from warpmill.udf.source import Source

#: The meaning of a name from outside of the function.
Known = Constant | Thing | Unusable


class Scope:
    """The names around one function."""

    def __init__(self, function: FunctionType, source: Source) -> None:
        self._function = function
        self._source = source

    def defaults(self) -> dict[str, Known]:
        """The parameters that have a value without being given one."""
        arguments = self._source.arguments
        if arguments.vararg or arguments.kwarg:
            raise NotSymbolic("it takes any number of arguments")
        named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        values = self._function.__defaults__ or ()
        found = {name: known(value) for name, value in zip(named[len(named) - len(values) :], values, strict=True)}
        found.update({name: known(value) for name, value in (self._function.__kwdefaults__ or {}).items()})
        return found

    def outside(self, name: str) -> Known:
        """The value of a name from outside of the function."""
        function = self._function
        code = function.__code__
        if name in code.co_freevars:
            try:
                return known((function.__closure__ or ())[code.co_freevars.index(name)].cell_contents)
            except ValueError:
                raise NotSymbolic(f"the variable {name!r} has no value yet") from None
        if name in function.__globals__:
            return known(function.__globals__[name])
        if hasattr(builtins, name):
            return Thing(getattr(builtins, name))
        raise NotSymbolic(f"there is no variable {name!r}")


def known(value: object) -> Known:
    """A Python object as a constant, a callable or module, or an unusable value."""
    if value is None or type(value) in (bool, int, float, str):
        return Constant(value)
    if isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | type) or callable(value):
        return Thing(value)
    return Unusable(f"it reads a value of type {type(value).__name__} from outside")
