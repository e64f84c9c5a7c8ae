"""The definition of a connection's functions, and the ways to run them.

Importing Warpmill imports this module; the translator (`definition`) is imported when a function is defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: "auto": an expression where there is one, else compiled where that is possible, else called; "symbolic": an error
#: where there is no expression; "compiled": an error where it cannot be compiled, and where compiled code gives up;
#: "numba": for aggregates, compiled by Numba, an error where that is not possible (docs/udf.md says what differs);
#: "python": always called; for functions of rows, "scalar": called with the values of one row, as "auto" does where all
#: parameters are annotated so.
Mode = Literal["auto", "symbolic", "compiled", "numba", "python", "scalar"]

#: How a function is run.
Tier = Literal["expression", "compiled", "called"]


@dataclass(frozen=True)
class UserFunction:
    """A function for queries, as the decorators `udaf` and `udf` make one; still callable as it was."""

    function: Any
    is_aggregate: bool
    name: str
    parameters: tuple[str, ...] | None = None
    returns: object = None
    mode: Mode = "auto"
    side_effects: bool = False

    def __call__(self, *args: object, **named: object) -> object:
        """Call the function itself."""
        return self.function(*args, **named)


@dataclass(frozen=True)
class FunctionInfo:
    """A function that a connection knows, and how it is run."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    is_aggregate: bool
    #: Its SQL over the parameters __p0, __p1, ... None: its code is compiled or called.
    expression: str | None
    #: The reason why there is no expression, and where it is called, why it is not compiled.
    reason: str | None
    #: How it is run, as far as that does not depend on the types of a call.
    tier: Tier
