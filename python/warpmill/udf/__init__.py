"""Functions in Python for queries: `udaf` for groups of rows, `udf` for rows (docs/udf.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from warpmill.udf.function import FunctionInfo, Mode, UserFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@overload
def udaf(function: Callable[..., Any]) -> UserFunction: ...
@overload
def udaf(
    *, name: str | None = None, returns: object = None, parameters: Sequence[str] | None = None, mode: Mode = "auto"
) -> Callable[[Callable[..., Any]], UserFunction]: ...
def udaf(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    returns: object = None,
    parameters: Sequence[str] | None = None,
    mode: Mode = "auto",
) -> UserFunction | Callable[[Callable[..., Any]], UserFunction]:
    """Make a function of columns an aggregate function, which queries may call by its name where it is a variable."""

    def made(function: Callable[..., Any]) -> UserFunction:
        given = None if parameters is None else tuple(parameters)
        return UserFunction(function, True, name or function.__name__, given, returns, mode)

    return made if function is None else made(function)


@overload
def udf(function: Callable[..., Any]) -> UserFunction: ...
@overload
def udf(
    *,
    name: str | None = None,
    returns: object = None,
    parameters: Sequence[str] | None = None,
    mode: Mode = "auto",
    side_effects: bool = False,
) -> Callable[[Callable[..., Any]], UserFunction]: ...
def udf(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    returns: object = None,
    parameters: Sequence[str] | None = None,
    mode: Mode = "auto",
    side_effects: bool = False,
) -> UserFunction | Callable[[Callable[..., Any]], UserFunction]:
    """Make a function of values a function of rows, which queries may call by its name where it is a variable."""

    def made(function: Callable[..., Any]) -> UserFunction:
        given = None if parameters is None else tuple(parameters)
        return UserFunction(function, False, name or function.__name__, given, returns, mode, side_effects)

    return made if function is None else made(function)


__all__ = ["FunctionInfo", "Mode", "UserFunction", "udaf", "udf"]
