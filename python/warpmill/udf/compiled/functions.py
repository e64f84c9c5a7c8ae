"""Functions that translated functions may call: Python's, those of `math`, and numpy's."""

from __future__ import annotations

import ast
import builtins
import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from warpmill.udf.compiled.arithmetic import compared
from warpmill.udf.compiled.types import BOOL, FLOAT, INT, NotCompiled, Type, cast, joined, of_numpy
from warpmill.udf.compiled.values import Rows, Scalar, exact, number, plain, rounded, scalar, there, truth
from warpmill.udf.terms import Constant, Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.compiled.rows import RowsTranslation
    from warpmill.udf.compiled.values import Value

#: The longest text of one expression.
MOST_TEXT = 20_000
#: Functions of `math` whose names are the same in C++, of one float and of two.
_EXPONENTIALS = ("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log10", "log2", "log1p")
_TRIGONOMETRY = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
_MATH = frozenset((*_EXPONENTIALS, *_TRIGONOMETRY, "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc"))
_MATH_OF_TWO = frozenset(("pow", "atan2", "hypot", "fmod", "copysign"))
#: Functions of numpy that give floats, and their names in C++.
_NUMPY = {
    **{name: name for name in (*_EXPONENTIALS, *_TRIGONOMETRY)},
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
}
#: numpy functions that leave integers unchanged, for floats only.
_NUMPY_OF_FLOATS = {
    **{name: name for name in ("floor", "ceil", "trunc", "fabs")},
    "abs": "fabs",
    "absolute": "fabs",
}
_NUMPY_REDUCTIONS = {
    **{name: name for name in ("sum", "mean", "min", "max", "prod", "any", "all")},
    "amin": "min",
    "amax": "max",
}


def called(function: object, args: Sequence[Value], site: int, rows: RowsTranslation) -> Value:
    """A call of a function that has one in C++."""
    numpy = sys.modules.get("numpy")
    if _is_of(function, builtins):
        return _builtin(function, args, site, rows)
    if _is_of(function, math):
        return _of_math(_name(function), args, site)
    if numpy is not None and _is_of(function, numpy):
        return _of_numpy(_name(function), args, site, rows)
    raise NotCompiled(f"a call of {_name(function) or 'an object'}()")


def _name(function: object) -> str:
    return str(getattr(function, "__name__", ""))


def _is_of(function: object, module: object) -> bool:
    return getattr(module, _name(function), None) is function


def _number(value: Value, site: int) -> Scalar:
    return number(scalar(value), site)


def _builtin(function: object, args: Sequence[Value], site: int, rows: RowsTranslation) -> Value:
    name = _name(function)
    match name, args:
        case "len", [Group()]:
            return Scalar("g.n", INT)
        case "len", [Rows() as column]:
            return rows.length(column)
        case "abs", [Rows() as column]:
            return rows.method("abs", column, [], {}, site)
        case "abs", [value]:
            one = _number(value, site)
            return Scalar(f"absolute(c, {site}, {one.text})", one.type)
        case (("min" | "max"), [_, _, *_]):
            return _best(name, [scalar(value) for value in args], site)
        case "float", [value] if not (isinstance(value, Constant) and isinstance(value.value, str)):
            one = plain(scalar(value), site)
            whole = Scalar(f"whole({one.text})", replace(one.type, kind="int")) if one.type.kind == "bool" else one
            return Scalar(rounded(whole), FLOAT)
        case "int", [value]:
            return _int(plain(scalar(value), site), site)
        case "bool", [value]:
            return Scalar(truth(value), BOOL)
        case "round", [value]:
            one = _number(value, site)
            if one.type.kind != "float" or one.type.origin != "python":
                raise NotCompiled("round() of something else than a float of Python")
            return Scalar(f"truncated(c, {site}, rint({one.text}))", INT)
        case _:
            raise NotCompiled(f"a call of {name}()")


def _int(one: Scalar, site: int) -> Scalar:
    one = there(one, site)
    match one.type.kind:
        case "float":
            return Scalar(f"truncated(c, {site}, {one.text})", INT)
        case "bool":
            return Scalar(f"whole({one.text})", INT)
        case _:
            return Scalar(one.text, INT)


def _best(name: str, values: list[Scalar], site: int) -> Scalar:
    """The first value for which no other one is less (or greater)."""
    best = plain(values[0], site)
    for value in values[1:]:
        one = plain(value, site)
        test = compared(ast.Lt() if name == "min" else ast.Gt(), one, best, site)
        into = joined(one.type, best.type, what=f"the result of {name}()")
        text = f"({truth(test)} ? {cast(one.text, one.type, into, site)} : {cast(best.text, best.type, into, site)})"
        if len(text) > MOST_TEXT:
            raise NotCompiled(f"{name}() of too many values")
        best = Scalar(text, into)
    return best


def _of_math(name: str, args: Sequence[Value], site: int) -> Value:
    numbers = [_number(value, site) for value in args]
    texts = [rounded(one) for one in numbers]
    match name, texts:
        case _, [one] if name in _MATH:
            return Scalar(f"inside(c, {site}, {name}({one}), {one})", FLOAT)
        case _, [one, other] if name in _MATH_OF_TWO:
            return Scalar(f"inside(c, {site}, {name}({one}, {other}), {one}, {other})", FLOAT)
        case "fabs", [one]:
            return Scalar(f"fabs({one})", FLOAT)
        case (("degrees" | "radians"), [one]):
            factor = 180 / math.pi if name == "degrees" else math.pi / 180
            return Scalar(f"mul(c, {site}, {one}, {factor!r})", FLOAT)
        case (("floor" | "ceil" | "trunc"), [one]):
            return Scalar(f"truncated(c, {site}, {name}({exact(numbers[0], site)}))", INT)
        case "isnan", [one]:
            return Scalar(f"is_nan({one})", BOOL)
        case "isfinite", [one]:
            return Scalar(f"is_finite({one})", BOOL)
        case "isinf", [one]:
            return Scalar(f"(fabs({one}) == infinity())", BOOL)
        case _:
            raise NotCompiled(f"a call of math.{name}()")


def _of_numpy(name: str, args: Sequence[Value], site: int, rows: RowsTranslation) -> Value:
    match name, args:
        case _, [Rows() as column] if name in _NUMPY_REDUCTIONS:
            return rows.reduced(_NUMPY_REDUCTIONS[name], column, {}, site)
        case "isnan", [Rows() as column]:
            return rows.method("isna", column, [], {}, site)
        case "where", [condition, then, otherwise]:
            return rows.where(condition, then, otherwise, site)
        case _, [Rows() as column] if name in _NUMPY and column.kind != "bool":
            return rows.elementwise(_NUMPY[name], column)
        case _, [Rows() as column] if name in _NUMPY_OF_FLOATS and column.kind == "float":
            return rows.elementwise(_NUMPY_OF_FLOATS[name], column)
        case _, [Constant() | Scalar() as value]:
            return _of_numpy_scalar(name, plain(scalar(value), site), site)
        case _:
            raise NotCompiled(f"a call of numpy.{name}()")


def _of_numpy_scalar(name: str, one: Scalar, site: int) -> Scalar:
    if one.type.kind == "bool":
        raise NotCompiled(f"a call of numpy.{name}() of a truth value")
    text = rounded(one)
    if name in _NUMPY:
        return Scalar(f"{_NUMPY[name]}({text})", of_numpy("float"))
    if name in _NUMPY_OF_FLOATS and one.type.kind == "float" and one.type.origin != "either":
        return Scalar(f"{_NUMPY_OF_FLOATS[name]}({text})", of_numpy("float"))
    match name:
        case "abs" | "absolute" if one.type.origin == "numpy":
            return Scalar(f"absolute(c, {site}, {one.text})", one.type)
        case "float64":
            return Scalar(text, of_numpy("float"))
        case "isnan":
            return Scalar(f"is_nan({text})", Type("bool", "numpy"))
        case "isfinite":
            return Scalar(f"is_finite({text})", Type("bool", "numpy"))
        case "isinf":
            return Scalar(f"(fabs({text}) == infinity())", Type("bool", "numpy"))
        case _:
            raise NotCompiled(f"a call of numpy.{name}()")
