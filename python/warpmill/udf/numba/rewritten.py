"""A function for Numba: its tree, and what its names stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from types import BuiltinFunctionType


@dataclass
class Rewritten:
    """A function for Numba, and those that it calls."""

    #: The definition: its parameters are the flag's address, and those of the function.
    tree: ast.FunctionDef
    file: str
    #: The values of the names from outside: Python's, functions to compile first, and `Library` names.
    names: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """A function of `library`, by its name."""

    name: str


@dataclass(frozen=True)
class OfMath:
    """A function of `math`, in the library's form."""

    function: BuiltinFunctionType
