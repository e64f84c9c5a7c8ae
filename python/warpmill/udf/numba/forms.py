"""Forms of trees that `rewriting` looks for, and makes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from warpmill.udf.terms import Constant


#: Functions of numpy that Numba has with the same results.
_NUMPY = {
    *("abs", "absolute", "amax", "amin", "any", "all", "arange", "argmax", "argmin", "array", "ceil", "clip", "cos"),
    *("cumprod", "cumsum", "diff", "dot", "exp", "floor", "full", "hypot", "isfinite", "isinf", "isnan", "linspace"),
    *("log", "log10", "log1p", "log2", "max", "maximum", "mean", "min", "minimum", "nanmax", "nanmean"),
    *("nanmin", "nanpercentile", "nanquantile", "nanstd", "nansum", "nanvar", "ones", "percentile"),
    *("prod", "ptp", "quantile", "searchsorted", "sign", "sin", "sort", "sqrt", "std", "sum", "tan", "trunc"),
    *("unique", "var", "where", "zeros"),
}


def names(body: Sequence[ast.stmt]) -> set[str]:
    """All names that a function and those within it assign, or have as parameters."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    found = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    found |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return found | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def assigned(target: ast.expr, value: ast.expr) -> ast.Assign:
    """An assignment."""
    return ast.Assign([target], value)


def plain(constant: Constant) -> bool | int | float | str | None:
    """The value of a constant from outside."""
    value = constant.value
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def parameters_of(parameters: list[ast.arg]) -> ast.arguments:
    """Parameters by position."""
    return ast.arguments([], parameters, None, [], [], None, [])


def bare(arguments: ast.arguments) -> ast.arguments:
    """Parameters without annotations."""
    return parameters_of([ast.arg(argument.arg) for argument in arguments.args])


def has_more(arguments: ast.arguments) -> bool:
    """Whether a function has other parameters than those by position, without defaults."""
    others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults)
    return any(others) or arguments.vararg is not None or arguments.kwarg is not None


def skips_none(node: ast.For) -> bool:
    """Whether a loop begins with ``if v is None: continue``."""
    match node.body[0]:
        case ast.If(test=ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]), orelse=[]):
            skip = node.body[0].body
            return _same(left, node.target) and len(skip) == 1 and isinstance(skip[0], ast.Continue)
    return False


def takes_some(node: ast.For) -> bool:
    """Whether a loop is ``if v is not None: ...``."""
    match node.body:
        case [ast.If(test=test, orelse=[])]:
            return is_some(test, node.target)
    return False


def is_some(test: ast.expr, target: ast.expr) -> bool:
    """Whether a condition is ``v is not None``."""
    match test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return _same(left, target)
    return False


def _same(one: ast.expr, other: ast.expr) -> bool:
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id


def reads(body: Sequence[ast.stmt], name: str) -> int:
    """How often statements read a variable."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    changed = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    read = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return sum(isinstance(node, ast.Name) and node.id == name for node in (*read, *changed))


def is_one(value: object, others: Iterable[object]) -> bool:
    """Whether an object is one of some, which need no hash."""
    return any(value is other for other in others)


def float_of(node: ast.Call) -> float | None:
    """The value of ``float("inf")`` and the like."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(text))], keywords=[]):
            return float(text) if text.strip(" +-").lower() in ("inf", "infinity", "nan") else None
    return None


def is_numpy(function: object) -> bool:
    """Whether an object is a function of numpy that may be called."""
    is_function = callable(function) and not isinstance(function, type)
    name = getattr(function, "__name__", "")
    return is_function and getattr(function, "__module__", None) == "numpy" and name in _NUMPY
