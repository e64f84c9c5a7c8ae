"""Defines functions of a connection: as expressions, compiled code, or calls."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from warpmill._warpmill import no_compiler
from warpmill.udf import symbolic
from warpmill.udf.compiled import Translator
from warpmill.udf.function import FunctionInfo, UserFunction
from warpmill.udf.numba import NumbaTranslator, missing
from warpmill.udf.returns import declared, takes_values
from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warpmill._warpmill import Session
    from warpmill.udf.compiled.translation import Domain
    from warpmill.udf.function import Tier


def define(session: Session, function: UserFunction, columns: Sequence[str] | None = None) -> FunctionInfo:
    """Define a function in a session. With `columns` it takes one object with these columns of a table."""
    _check_mode(function)
    returns = declared(
        function.function.finish if _is_class(function.function) else function.function, function.returns
    )
    code, kind = _code(function, returns)
    parameters = tuple(function.parameters or _parameters(function))
    own = parameters if columns is not None else _own_names(function, parameters)
    expression, reason = None, "the function asked for that"
    if function.mode in ("auto", "symbolic"):
        try:
            expression, found = _expression(function, own, columns, returns)
            parameters = parameters if columns is None else found
        except NotSymbolic as why:
            reason = str(why)
            if function.mode == "symbolic":
                raise ValueError(f"function '{function.name}' is no expression: {reason}") from None
    if columns is not None and expression is None:
        read = symbolic.columns_read(function.function, parameters[0], columns)
        parameters = tuple(columns if read is None else read)
    of: Domain = "values" if not function.is_aggregate else "columns" if columns is None else "group"
    translator, uncompiled = _translator(function, parameters if columns is not None else own, returns, of)
    if of == "values" and expression is not None:
        # If the expression does not support the types of a call, the function is called with whole columns.
        translator = None
    if function.mode in ("symbolic", "compiled"):
        code = None
    elif columns is not None:
        code = _of_group(function, returns, parameters)
    elif of == "values" and expression is None and translator is not None:
        # Compiled code works on single values, and so does the Python code called where it gives up.
        code = _of_values(function, returns)
    if expression is not None:
        reason = "its expression does not fit the types of the call"
    session.create_function(
        function.name,
        list(parameters),
        returns,
        function.is_aggregate,
        expression,
        kind,
        code,
        translator,
        reason,
        function.side_effects,
    )
    tier: Tier = "expression" if expression else "called" if uncompiled or translator is None else "compiled"
    if tier == "called" and uncompiled not in (None, reason):
        reason = f"{reason}; it is not compiled: {uncompiled}"
    told = None if expression else reason
    return FunctionInfo(function.name.lower(), parameters, returns, function.is_aggregate, expression, told, tier)


def _translator(
    function: UserFunction, parameters: tuple[str, ...], returns: str, of: Domain
) -> tuple[Translator | NumbaTranslator | None, str | None]:
    """The translator to C++, and the reason why the function is not compiled for any types, or not on this machine."""
    if function.mode == "numba":
        return _numba(function, parameters, returns, of), None
    if function.mode not in ("auto", "compiled"):
        return None, None
    try:
        if function.side_effects:
            raise NotSymbolic("it has side effects")
        translator = Translator(function.function, parameters, returns, of)
    except NotSymbolic as why:
        return None, _refused(function, str(why))
    reason = _refused(function, no_compiler() or translator.refusal())
    # A function of rows that is called gets whole columns: it is one of single values only where it is compiled.
    return None if reason is not None and of == "values" else translator, reason


def _numba(function: UserFunction, parameters: tuple[str, ...], returns: str, of: Domain) -> NumbaTranslator | None:
    """Numba's translator. Raises a `ValueError` with the reason where there is none."""
    reason = "it has side effects" if function.side_effects else missing()
    if reason is None:
        try:
            return NumbaTranslator(function.function, parameters, returns, "group" if of == "group" else "columns")
        except NotSymbolic as why:
            reason = str(why)
    raise ValueError(f"function '{function.name}' is not compiled: {reason}")


def _refused(function: UserFunction, reason: str | None) -> str | None:
    """The reason why a function is not compiled, if there is one and it need not be."""
    if reason is not None and function.mode == "compiled":
        raise ValueError(f"function '{function.name}' is not compiled: {reason}")
    return reason


def _is_class(function: object) -> bool:
    return isinstance(function, type)


def _check_mode(function: UserFunction) -> None:
    modes = ("auto", "symbolic", "compiled", *(("numba",) if function.is_aggregate else ("scalar",)), "python")
    if function.mode not in modes:
        raise ValueError(f"function '{function.name}': mode is one of {', '.join(modes)}, not {function.mode!r}")
    if not callable(function.function):
        raise TypeError(f"function '{function.name}': {type(function.function).__name__} cannot be called")
    if _is_class(function.function):
        missing = [name for name in ("add", "merge", "finish") if not hasattr(function.function, name)]
        if missing or not function.is_aggregate:
            needed = "add, merge and finish (and init)" if function.is_aggregate else "nothing: it is no aggregate"
            raise TypeError(f"function '{function.name}': a class has {needed}; missing: {', '.join(missing)}")


def _code(function: UserFunction, returns: str) -> tuple[Callable[..., object] | None, str]:
    from warpmill.udf.called import Aggregation, Groups, Rows

    if _is_class(function.function):
        return Aggregation(function.name, function.function, returns), "states"
    if function.is_aggregate:
        return Groups(function.name, function.function, returns), "groups"
    if function.side_effects is False and function.mode == "symbolic":
        return None, "rows"
    # Code for single texts or numbers may compute something else from arrays: s[::-1].
    of_values = function.mode == "auto" and takes_values(
        function.function, function.parameters or _parameters(function)
    )
    vectorized = function.mode != "scalar" and not of_values
    return Rows(function.name, function.function, returns, vectorized=vectorized), "rows"


def _of_group(function: UserFunction, returns: str, columns: Sequence[str]) -> Callable[..., object]:
    from warpmill.udf.called import Groups

    return Groups(function.name, function.function, returns, columns)


def _of_values(function: UserFunction, returns: str) -> Callable[..., object]:
    from warpmill.udf.called import Rows

    return Rows(function.name, function.function, returns, vectorized=False)


def _expression(
    function: UserFunction, parameters: tuple[str, ...], columns: Sequence[str] | None, returns: str
) -> tuple[str, tuple[str, ...]]:
    if _is_class(function.function):
        raise NotSymbolic("it is a class")
    if function.side_effects:
        raise NotSymbolic("it has side effects")
    if columns is not None:
        expression, used = symbolic.of_group(function.function, parameters[0], columns, returns)
        return expression, tuple(used)
    if function.is_aggregate:
        return symbolic.of_columns(function.function, parameters, returns), parameters
    return symbolic.of_values(function.function, parameters, returns), parameters


def _own_names(function: UserFunction, parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a function itself has for its first parameters, which a query's calls give by position."""
    code = getattr(function.function, "__code__", None)
    if code is None or code.co_argcount < len(parameters):
        return parameters
    return tuple(code.co_varnames[: len(parameters)])


def _parameters(function: UserFunction) -> list[str]:
    """The parameters without defaults, which a call has to provide."""
    target = function.function.add if _is_class(function.function) else function.function
    try:
        found = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        raise TypeError(
            f"function '{function.name}' does not say its parameters: give their names (parameters=[...])"
        ) from None
    if _is_class(function.function):
        found = found[1:]
    named = []
    for parameter in found:
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise TypeError(f"function '{function.name}': parameter {parameter} cannot be given by position")
        named.append(parameter.name)
    if not named:
        raise TypeError(f"function '{function.name}' has no parameter without a default: a call gives it nothing")
    return named
