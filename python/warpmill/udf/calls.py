"""Functions and methods that have expressions: reductions of columns, mathematics, and row-wise functions."""

from __future__ import annotations

import builtins
import math
import sys
from typing import TYPE_CHECKING

from warpmill.udf.source import NotSymbolic
from warpmill.udf.terms import (
    COUNT,
    NULL,
    Constant,
    Group,
    Row,
    Scalar,
    Term,
    aggregate,
    choice,
    constant,
    operator,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.terms import Value

#: Functions of numpy by their names, and operators.
_NUMPY = {
    "sqrt": "sqrt",
    "exp": "exp",
    "log": "log",
    "log10": "log10",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "abs": "abs",
    "absolute": "abs",
}
_NUMPY_REDUCTIONS = {
    "sum": "sum",
    "mean": "mean",
    "min": "min",
    "max": "max",
    "amin": "min",
    "amax": "max",
    "median": "median",
}
_REDUCTIONS = ("sum", "min", "max", "mean", "count", "var", "std", "median", "nunique")


def elementwise(name: str, *operands: Value, is_bool: bool = False, of_bools: bool = False) -> Value:
    """An operator of values, row by row where one of them is a column."""
    terms: list[Term] = []
    rows: list[Row] = []
    for operand in operands:
        match operand:
            case Row(term):
                rows.append(operand)
                terms.append(term)
            case Scalar(term):
                terms.append(term)
            case Constant(value):
                terms.append(constant(value))
            case _:
                raise NotSymbolic("an operator of something else than values")
    if of_bools and not all(term.is_bool for term in terms):
        raise NotSymbolic("an operator of bits")
    result = operator(name, *terms, is_bool=is_bool or of_bools)
    if not rows:
        return Scalar(result)
    if result.has_aggregates:
        raise NotSymbolic("rows that use the result of a reduction")
    if any(row.mask != rows[0].mask for row in rows):
        raise NotSymbolic("columns of different rows")
    return Row(result, rows[0].mask)


def reduced(name: str, rows: Row, named: dict[str, Value]) -> Term:
    """One value of all rows of a column."""
    value = rows.term if rows.mask is None else choice(rows.mask, rows.term, NULL)
    number = operator("number", value)
    ddof = named.pop("ddof", Constant(1)) if name in ("var", "std") else None
    if named:
        raise NotSymbolic(f"the argument {next(iter(named))!r} of {name}()")
    match name:
        case "len" if rows.mask is None:
            return COUNT
        case "len":
            return operator("total", aggregate("sum", choice(rows.mask or NULL, constant(1), constant(0))))
        case "sum":
            return operator("total", aggregate("sum", number))
        case "mean":
            return aggregate("avg", number)
        case "min" | "max" | "count":
            return aggregate(name, operator("value", value))
        case "nunique":
            return aggregate("count", operator("value", value), distinct=True)
        case "median":
            return aggregate("median", operator("float", number))
        case "var" | "std":
            names = {1: {"var": "var_samp", "std": "stddev_samp"}, 0: {"var": "var_pop", "std": "stddev_pop"}}
            degrees = ddof.value if isinstance(ddof, Constant) else None
            if type(degrees) is not int or degrees not in names:
                raise NotSymbolic(f"{name}() with a ddof that is neither 0 nor 1")
            return aggregate(names[degrees][name], number)
        case _:
            raise NotSymbolic(f"the method {name}()")


def row_method(name: str, rows: Row, args: Sequence[Value], named: dict[str, Value]) -> Value:
    """A method of a column."""
    if name in _REDUCTIONS and not args:
        return Scalar(reduced(name, rows, dict(named)))
    if named:
        raise NotSymbolic(f"the argument {next(iter(named))!r} of {name}()")
    match name, args:
        case "abs", []:
            return elementwise("abs", rows)
        case "isna" | "isnull", []:
            return elementwise("ismissing", rows, is_bool=True)
        case "notna" | "notnull", []:
            return elementwise("not", elementwise("ismissing", rows, is_bool=True), of_bools=True)
        case "dropna", []:
            present = operator("not", operator("ismissing", rows.term, is_bool=True), is_bool=True)
            mask = present if rows.mask is None else operator("and", rows.mask, present, is_bool=True)
            return Row(rows.term, mask)
        case "fillna", [Constant() as filler]:
            missing = operator("ismissing", rows.term, is_bool=True)
            return Row(choice(missing, constant(filler.value), rows.term), rows.mask)
        case _:
            raise NotSymbolic(f"the method {name}()")


def scalar_function(function: object, args: Sequence[Value], named: dict[str, Value]) -> Value:
    """A call of a function of Python, `math` or numpy."""
    numpy = sys.modules.get("numpy")
    if named:
        raise NotSymbolic("a call with named arguments")
    if _is_of(function, builtins):
        return _builtin(function, args)
    if _is_of(function, math):
        return _of_math(function, args)
    if numpy is not None and _is_of(function, numpy):
        return _of_numpy(function, args)
    raise NotSymbolic(f"a call of {getattr(function, '__name__', 'an object')}()")


def _is_of(function: object, module: object) -> bool:
    return getattr(module, getattr(function, "__name__", ""), None) is function


def _one(value: Value) -> Term:
    match value:
        case Scalar(term):
            return term
        case Constant(known):
            return constant(known)
        case _:
            raise NotSymbolic("a whole column where one value is needed")


def _builtin(function: object, args: Sequence[Value]) -> Value:
    name = getattr(function, "__name__", "")
    match name, args:
        case "len", [Group()]:
            return Scalar(COUNT)
        case "len", [Row() as rows]:
            return Scalar(reduced("len", rows, {}))
        case "abs", [value]:
            return elementwise("abs", value)
        case "min" | "max", [_, _, *_]:
            # The first value for which no other one is less (or greater).
            terms = [_one(value) for value in args]
            best = terms[0]
            for term in terms[1:]:
                best = choice(operator("lt" if name == "min" else "gt", term, best, is_bool=True), term, best)
            return Scalar(best)
        case "float", [value] if not (isinstance(value, Constant) and isinstance(value.value, str)):
            return Scalar(operator("float", _one(value)))
        case "int", [value]:
            return Scalar(operator("int", _one(value)))
        case "bool", [value]:
            return Scalar(truth(_one(value)))
        case (("sum" | "min" | "max"), [Row()]):
            raise NotSymbolic(f"Python's {name}() of a column: its method {name}() has an expression")
        case _:
            raise NotSymbolic(f"a call of {name}()")


def _of_math(function: object, args: Sequence[Value]) -> Value:
    name = getattr(function, "__name__", "")
    match name, args:
        case (("sqrt" | "exp" | "log" | "log10"), [value]):
            return Scalar(operator(name, _one(value)))
        case "fabs", [value]:
            return Scalar(operator("abs", operator("float", _one(value))))
        case "isnan", [value]:
            return Scalar(operator("ismissing", operator("float", _one(value)), is_bool=True))
        case "pow", [base, exponent]:
            return Scalar(operator("pow", operator("float", _one(base)), operator("float", _one(exponent))))
        case _:
            raise NotSymbolic(f"a call of math.{name}()")


def _of_numpy(function: object, args: Sequence[Value]) -> Value:
    name = getattr(function, "__name__", "")
    match name, args:
        case _, [Row() as rows] if name in _NUMPY_REDUCTIONS:
            return Scalar(reduced(_NUMPY_REDUCTIONS[name], rows, {}))
        case _, [value] if name in _NUMPY:
            return elementwise(_NUMPY[name], value)
        case "isnan", [value]:
            return elementwise("ismissing", value, is_bool=True)
        case "where", [condition, then, otherwise] if isinstance(condition, Row) and condition.term.is_bool:
            return elementwise("if", condition, then, otherwise)
        case "float64", [value]:
            return elementwise("float", value)
        case _:
            raise NotSymbolic(f"a call of numpy.{name}()")
