"""Operators, methods and reductions of columns in translated functions."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from warpmill.udf.compiled.arithmetic import SIMPLE, known_power
from warpmill.udf.compiled.types import INT, NotCompiled, Type, of_numpy
from warpmill.udf.compiled.values import (
    Captures,
    Mask,
    Rows,
    Scalar,
    captured,
    exact,
    function,
    number,
    scalar,
    there,
)
from warpmill.udf.expressions import COMPARISONS
from warpmill.udf.terms import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.compiled.types import Kind, Origin
    from warpmill.udf.compiled.values import Value

_REDUCTIONS = frozenset({"sum", "min", "max", "mean", "count", "var", "std", "prod", "any", "all", "idxmin", "idxmax"})


class RowsTranslation:
    """Columns of one function."""

    def __init__(self) -> None:
        self._captures = Captures()

    # Operands.

    def _each(self, value: Value, site: int) -> Rows:
        """A value as one of each row."""
        if isinstance(value, Rows):
            return column(value)
        if isinstance(value, Constant) and value.value is None:
            raise NotCompiled("an operator of a column and None")
        one = there(scalar(value), site)
        if one.type.kind == "bool" and one.type.origin != "python":
            raise NotCompiled("arithmetic with a truth value that numpy may have made")
        name, captures = (one.text, ()) if isinstance(value, Constant) else self._captures.of(one.text)
        origin: Origin = "either" if one.type.kind == "float" and one.type.origin == "either" else "numpy"
        return Rows(f"each<{one.type.plain}>({name})", one.type.kind, captures, None, total=True, origin=origin)

    def _pair(self, left: Value, right: Value, site: int) -> tuple[Rows, Rows]:
        a, b = self._each(left, site), self._each(right, site)
        masks = [one.mask for one in (left, right) if isinstance(one, Rows)]
        if any(mask != masks[0] for mask in masks):
            raise NotCompiled("columns of different rows")
        return replace(a, mask=masks[0]), replace(b, mask=masks[0])

    def binary(self, op: ast.operator, left: Value, right: Value, site: int) -> Rows:
        """An operator of a column and another one, or a value."""
        a, b = self._pair(left, right, site)
        if isinstance(op, ast.BitAnd | ast.BitOr):
            if not (a.kind == b.kind == "bool" and isinstance(left, Rows) and isinstance(right, Rows)):
                raise NotCompiled("an operator of bits")
            return _made("both" if isinstance(op, ast.BitAnd) else "either", "bool", [a, b], total=True)
        if a.kind == b.kind == "bool":
            raise NotCompiled("arithmetic with truth values of rows")
        a, b = _whole(a), _whole(b)
        whole = a.kind == b.kind == "int"
        match op:
            case ast.Add() | ast.Sub() | ast.Mult() | ast.Pow() if _may_round(a, b):
                raise NotCompiled("whole numbers and a number that may be whole or not: float(...) of it is")
            case ast.Add() | ast.Sub() | ast.Mult():
                name = SIMPLE[type(op)]
                if whole:
                    return _made(f"{name}(c, {site}, ", "int", [a, b])
                return _made(f"{name}(c, {site}, ", "float", [_exact(a, site), _exact(b, site)])
            case ast.Div():
                return _made("divide", "float", [_rounded(a), _rounded(b)])
            case ast.FloorDiv() if whole:
                return _made(f"floordiv(c, {site}, ", "int", [a, b], total=False)
            case ast.Mod() if whole:
                return _made("mod", "int", [a, b], total=False)
            case ast.FloorDiv() | ast.Mod():
                name = "floordiv" if isinstance(op, ast.FloorDiv) else "mod"
                if "either" in (a.origin, b.origin):
                    raise NotCompiled(
                        "a quotient of a column by a number that may be whole or not: float(...) of it is"
                    )
                return _made(name, "float", [_exact(a, site), _exact(b, site)])
            case ast.Pow():
                return self._power(a, b, right, site)
            case _:
                raise NotCompiled(f"the operator {type(op).__name__}")

    def _power(self, a: Rows, b: Rows, exponent: Value, site: int) -> Rows:
        if a.kind == b.kind == "int":
            known = None if isinstance(exponent, Rows) else known_power(scalar(exponent))
            if known is None or known < 0:
                raise NotCompiled("a power of whole numbers whose exponent is not known to be one of 0, 1, ...")
            return Rows(f"power(c, {site}, {a.text}, (i64){known}ll)", "int", a.captures, a.mask, total=a.total)
        return _made("power", "float", [_rounded(a), _rounded(b)])

    def unary(self, op: ast.unaryop, rows: Rows, site: int) -> Rows:
        """An operator of a column."""
        rows = column(rows)
        match op, rows.kind:
            case ast.Invert(), "bool":
                return _made("negated", "bool", [rows], total=True)
            case ast.USub(), "int" | "float":
                return _made(f"neg(c, {site}, ", rows.kind, [rows])
            case _:
                raise NotCompiled(f"the operator {type(op).__name__} of a column")

    def compared(self, op: ast.cmpop, left: Value, right: Value, site: int) -> Rows:
        """A comparison of a column with another one, or a value."""
        if type(op) not in COMPARISONS:
            raise NotCompiled(f"the operator {type(op).__name__}")
        a, b = self._pair(left, right, site)
        a, b = _whole(a), _whole(b)
        if a.kind != b.kind:
            a, b = _exact(a, site), _exact(b, site)
        return _made(COMPARISONS[type(op)][0], "bool", [a, b], total=True)

    # Choices of rows.

    def chosen(self, rows: Rows, condition: Rows) -> Rows:
        """The rows that satisfy a condition."""
        rows, condition = column(rows), column(condition)
        if condition.kind != "bool":
            raise NotCompiled("an index that is no condition")
        if condition.mask != rows.mask:
            raise NotCompiled("columns of different rows")
        return replace(rows, mask=_masked(rows.mask, f"holds({condition.text})", condition.captures))

    def method(self, name: str, rows: Rows, args: Sequence[Value], named: dict[str, Value], site: int) -> Value:
        """A method of a column."""
        if name in ("to_list", "tolist", "to_numpy") and not args and not named:
            return as_form(rows, "array" if name == "to_numpy" else "list")
        rows = column(rows)
        if name in _REDUCTIONS and not args:
            return self.reduced(name, rows, dict(named), site)
        if named:
            raise NotCompiled(f"the argument {next(iter(named))!r} of {name}()")
        match name, args:
            case "abs", [] if rows.kind != "bool":
                return _made(f"absolute(c, {site}, ", rows.kind, [rows])
            case (("isna" | "isnull"), []):
                return _made("is_missing", "bool", [rows], total=True)
            case (("notna" | "notnull"), []):
                return Rows(f"negated(is_missing({rows.text}))", "bool", rows.captures, rows.mask, total=True)
            case "dropna", []:
                mask = _masked(rows.mask, f"!missing({rows.text})", rows.captures)
                return replace(rows, mask=mask, total=True)
            case "fillna", [Constant() | Scalar() as filler]:
                return self._filled(rows, filler, site)
            case "astype", [kind] if getattr(kind, "value", None) in (float, "float64") and rows.kind != "bool":
                return _rounded(rows)
            case _:
                raise NotCompiled(f"the method {name}()")

    def _filled(self, rows: Rows, filler: Value, site: int) -> Rows:
        value = there(scalar(filler), site)
        if value.type.kind != rows.kind:
            value = number(value, site)
            if rows.kind != "float":
                raise NotCompiled("fillna() of whole numbers or truth values with another type")
            value = Scalar(exact(value, site), Type("float"))
        name, captures = self._captures.of(value.text)
        text = f"filled<{rows.plain}>({rows.text}, {name})"
        return replace(rows, text=text, captures=captured(rows.captures, captures), total=True)

    # numpy's functions.

    def elementwise(self, name: str, rows: Rows) -> Rows:
        """A numpy function of each row's number, with NULLs as NaN."""
        rows = _rounded(_whole(column(rows)))
        text = f"each<f64>({name}(number({rows.text})))"
        return replace(rows, text=text, total=True)

    def where(self, condition: Value, then: Value, otherwise: Value, site: int) -> Rows:
        """numpy.where."""
        if not isinstance(condition, Rows) or condition.kind != "bool" or not condition.total:
            raise NotCompiled("numpy.where() of something else than a comparison")
        a, b = (
            self._pair(then, otherwise, site)
            if _is_rows(then, otherwise)
            else (
                self._each(then, site),
                self._each(otherwise, site),
            )
        )
        masks = {one.mask for one in (condition, then, otherwise) if isinstance(one, Rows)}
        if len(masks) > 1:
            raise NotCompiled("columns of different rows")
        a, b = _whole(a), _whole(b)
        if a.kind != b.kind:
            a, b = _exact(a, site), _exact(b, site)
        made = _made(f"chosen(c, {site}, ", a.kind, [column(condition), a, b], total=True)
        return replace(made, mask=condition.mask)

    # One value of all rows.

    def reduced(self, name: str, rows: Rows, named: dict[str, Value], site: int) -> Scalar:
        """One value of all rows of a column."""
        ddof = named.pop("ddof", Constant(1)) if name in ("var", "std") else None
        if named:
            raise NotCompiled(f"the argument {next(iter(named))!r} of {name}()")
        rows = column(rows)
        args = functions(rows)
        origin: Origin = "either" if rows.kind == "float" and rows.origin == "either" else "numpy"
        match name:
            case "sum" | "prod":
                call = "sum" if name == "sum" else "product"
                if rows.kind == "float":
                    return Scalar(f"g.{call}_f64(c, {args})", Type("float", origin))
                return Scalar(f"g.{call}_i64(c, {site}, {args})", of_numpy("int"))
            case "mean":
                return Scalar(f"g.mean(c, {args})", of_numpy("float"))
            case "count":
                return Scalar(f"g.count(c, {args})", of_numpy("int"))
            case "var" | "std":
                degrees = ddof.value if isinstance(ddof, Constant) else None
                if type(degrees) is not int or not 0 <= degrees < 2**31:
                    raise NotCompiled(f"{name}() with a ddof that is no number of the text")
                return Scalar(f"g.{name}(c, {args}, {degrees})", of_numpy("float"))
            case "any" | "all":
                return Scalar(f"g.{'any' if name == 'any' else 'every'}(c, {args})", Type("bool"))
            case _:
                return _extreme(name, rows, args, origin)

    @staticmethod
    def length(rows: Rows) -> Scalar:
        """The number of a column's rows."""
        return Scalar(f"g.size(c, {_mask(rows)})", INT)

    def item(self, rows: Rows, key: Scalar, site: int) -> Scalar:
        """The value of a row by its number."""
        if rows.mask is not None:
            raise NotCompiled("an index of chosen rows")
        key = there(key, site)
        if key.type.kind != "int":
            raise NotCompiled(f"an index that is {key.type}")
        found = f"at<{rows.plain}>(c, g.row(c, {site}, {key.text}), {function(rows.text, rows.captures)})"
        text, kind = element(rows, found)
        origin: Origin = kind.origin if rows.form in ("array", "list") or rows.kind == "bool" else "numpy"
        return Scalar(text, replace(kind, origin="either" if rows.origin == "either" else origin))


def element(rows: Rows, row: str) -> tuple[str, Type]:
    """The value that a loop over a column has of `row`, and its type."""
    if rows.form == "array":
        return f"number({row})", of_numpy("float")
    origin: Origin = "either" if rows.origin == "either" else "python"
    if rows.total:
        return f"({row}).v", Type(rows.kind, origin)
    return f"item({row})", Type(rows.kind, origin, "null")


def column(rows: Rows) -> Rows:
    """A column that is computed with: no list, no array."""
    if rows.form != "column":
        raise NotCompiled("an operator or a function of a list, an array or iloc (loops and indices read them)")
    return rows


def as_form(rows: Rows, form: str) -> Rows:
    """A column as a list, an array, or an indexable sequence."""
    rows = column(rows)
    if form == "array" and rows.kind != "float":
        raise NotCompiled("an array of whole numbers or truth values")
    match form:
        case "array" | "list" | "iloc":
            return replace(rows, form=form)
        case _:
            raise NotCompiled(f"the attribute {form!r}")


def functions(rows: Rows) -> str:
    """The C++ functions that give the values of rows, and say which count."""
    return f"{function(rows.text, rows.captures)}, {_mask(rows)}"


def _mask(rows: Rows) -> str:
    return "All{}" if rows.mask is None else function(rows.mask.text, rows.mask.captures)


def _masked(mask: Mask | None, text: str, captures: tuple[tuple[str, str], ...]) -> Mask:
    if mask is None:
        return Mask(text, captures)
    return Mask(f"({mask.text} && {text})", captured(mask.captures, captures))


def _is_rows(*values: Value) -> bool:
    return any(isinstance(value, Rows) for value in values)


def _made(call: str, kind: Kind, operands: list[Rows], *, total: bool | None = None) -> Rows:
    """A function of columns; `call` is its name, or the beginning of the call."""
    call = call if call.endswith(", ") else f"{call}("
    text = f"{call}{', '.join(one.text for one in operands)})"
    captures = captured(*(one.captures for one in operands))
    all_total = all(one.total for one in operands)
    origin: Origin = "either" if any(one.origin == "either" for one in operands) else "numpy"
    total = all_total if total is None else total
    return replace(operands[0], text=text, captures=captures, total=total, kind=kind, origin=origin)


def _may_round(a: Rows, b: Rows) -> bool:
    """Whether Python may compute with whole numbers where floats would round."""
    return "either" in (a.origin, b.origin) and "int" in (a.kind, b.kind)


def _whole(rows: Rows) -> Rows:
    return rows if rows.kind != "bool" else replace(rows, text=f"whole({rows.text})", kind="int")


def _exact(rows: Rows, site: int) -> Rows:
    return rows if rows.kind == "float" else replace(rows, text=f"exact(c, {site}, {rows.text})", kind="float")


def _rounded(rows: Rows) -> Rows:
    return rows if rows.kind == "float" else replace(rows, text=f"rounded({rows.text})", kind="float")


def _extreme(name: str, rows: Rows, args: str, origin: Origin) -> Scalar:
    call = "least" if name.endswith("min") else "greatest"
    best = f"g.template {call}<{rows.plain}>(c, {args})"
    if name.startswith("idx"):
        if rows.mask is not None:
            raise NotCompiled(f"{name}() of chosen rows")
        return Scalar(f"position_of({best})", of_numpy("int", "missing"))
    if rows.kind == "float":
        return Scalar(f"value_f64({best})", Type("float", origin))
    return Scalar(f"value_of({best})", Type(rows.kind, "python" if rows.kind == "bool" else "numpy", "missing"))


__all__ = ["RowsTranslation", "as_form", "column", "element", "functions"]
