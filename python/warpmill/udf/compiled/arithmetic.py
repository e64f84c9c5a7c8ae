"""Operators of single values in translated functions."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from warpmill.udf.compiled.types import BOOL, NotCompiled, Type, of_operands, of_tests
from warpmill.udf.compiled.values import Scalar, exact, number, plain, rounded, scalar, there, truth
from warpmill.udf.expressions import ARITHMETIC, COMPARISONS
from warpmill.udf.terms import Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpmill.udf.compiled.types import Gap, Origin
    from warpmill.udf.compiled.values import Value

SIMPLE: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
#: The greatest power of a whole number that is computed by multiplication.
MOST_POWER = 1024


def binary(op: ast.operator, left: Value, right: Value, site: int) -> Value:
    """An operator of two values."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        if type(op) not in ARITHMETIC:
            raise NotCompiled(f"the operator {type(op).__name__}")
        return folded(ARITHMETIC[type(op)][1], left.value, right.value)
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _bits(op, scalar(left), scalar(right))
    a, b = number(scalar(left), site), number(scalar(right), site)
    origin = of_operands(a.type, b.type)
    whole = a.type.kind == b.type.kind == "int"
    match op:
        case ast.Add() | ast.Sub() | ast.Mult() if whole:
            a, b, gap = _alike(a, b)
            return Scalar(f"{SIMPLE[type(op)]}(c, {site}, {a.text}, {b.text})", Type("int", origin, gap))
        case ast.Add() | ast.Sub() | ast.Mult():
            sides = [exact(one, site) if origin == "either" else rounded(one) for one in (a, b)]
            return _held(f"{SIMPLE[type(op)]}(c, {site}, {sides[0]}, {sides[1]})", origin, site)
        case ast.Div():
            # Python rounds the quotient of two whole numbers, numpy both numbers before.
            sides = [exact(one, site) if whole and origin != "numpy" else rounded(one) for one in (a, b)]
            return Scalar(f"divide({sides[0]}, {_divisor(sides[1], origin, site)})", Type("float", origin))
        case ast.FloorDiv() | ast.Mod() if whole:
            return _whole_quotient(op, a, b, site)
        case ast.FloorDiv() | ast.Mod():
            name = "floordiv" if isinstance(op, ast.FloorDiv) else "mod"
            return Scalar(f"{name}({rounded(a)}, {_divisor(rounded(b), origin, site)})", Type("float", origin))
        case ast.Pow():
            return _power(a, b, site)
        case _:
            raise NotCompiled(f"the operator {type(op).__name__}")


def folded(compute: Callable[..., object], *operands: object) -> Constant:
    """The constant that Python computes from constants."""
    try:
        return Constant(compute(*operands))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotCompiled(f"{type(error).__name__}: {error}") from None


def _alike(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar, Gap]:
    """Two integers, of which both or neither may be missing."""
    if a.type.gap == b.type.gap:
        return a, b, a.type.gap
    return _some(a), _some(b), "missing"


def _some(value: Scalar) -> Scalar:
    if value.type.gap:
        return value
    return Scalar(f"some<i64>({value.text})", replace(value.type, gap="missing"))


def _divisor(text: str, origin: Origin, site: int) -> str:
    return text if origin == "numpy" else f"divisor(c, {site}, {text})"


def _whole_quotient(op: ast.operator, a: Scalar, b: Scalar, site: int) -> Scalar:
    origin = of_operands(a.type, b.type)
    if origin != "numpy":
        a, b = there(a, site), there(b, site)
        name = "floordiv" if isinstance(op, ast.FloorDiv) else "mod"
        return Scalar(f"{name}(c, {site}, {a.text}, {b.text})", Type("int", origin))
    name = f"floordiv_or_missing(c, {site}, " if isinstance(op, ast.FloorDiv) else "mod_or_missing("
    return Scalar(f"{name}{_some(a).text}, {_some(b).text})", Type("int", "numpy", "missing"))


def known_power(exponent: Scalar) -> int | None:
    """The whole number that an exponent is known to be."""
    value = None if exponent.constant is None else exponent.constant.value
    if type(value) is not int:
        return None
    if abs(value) > MOST_POWER:
        raise NotCompiled(f"a power of more than {MOST_POWER}")
    return value


def _power(a: Scalar, b: Scalar, site: int) -> Scalar:
    origin = of_operands(a.type, b.type)
    if a.type.kind == b.type.kind == "int":
        exponent = known_power(b)
        if exponent is None:
            raise NotCompiled("a power of a whole number whose exponent is not known: float(...) of it is")
        if exponent >= 0:
            return Scalar(f"power(c, {site}, {a.text}, (i64){exponent}ll)", Type("int", origin, a.type.gap))
    sides = ", ".join(exact(one, site) if origin == "either" else rounded(one) for one in (a, b))
    text = f"power({sides})" if origin == "numpy" else f"power_or_fail(c, {site}, {sides})"
    return _held(text, origin, site)


def _held(text: str, origin: Origin, site: int) -> Scalar:
    """A float; where Python may have an integer, the group fails once that could be rounded."""
    return Scalar(f"held(c, {site}, {text})" if origin == "either" else text, Type("float", origin))


def _bits(op: ast.operator, a: Scalar, b: Scalar) -> Scalar:
    if a.type.cpp != "bool" or b.type.cpp != "bool":
        raise NotCompiled("an operator of bits")
    sign = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}[type(op)]
    origin = of_tests(a.type, b.type)
    return Scalar(f"(bool)({a.text} {sign} {b.text})", Type("bool", origin))


def unary(op: ast.unaryop, operand: Value, site: int) -> Value:
    """An operator of one value."""
    match op, operand:
        case ast.Not(), Constant(value):
            return Constant(not value)
        case ((ast.USub() | ast.UAdd()), Constant(int() | float() as value)):
            return Constant(-value if isinstance(op, ast.USub) else +value)
        case ast.Not(), _:
            return Scalar(f"!{truth(operand)}", BOOL)
        case ((ast.USub() | ast.UAdd()), _):
            value = number(scalar(operand), site)
            negated = f"neg(c, {site}, {value.text})"
            return Scalar(negated if isinstance(op, ast.USub) else value.text, value.type)
        case _:
            raise NotCompiled(f"the operator {type(op).__name__}")


def compared(op: ast.cmpop, left: Value, right: Value, site: int) -> Value:
    """A comparison of two values."""
    if isinstance(op, ast.Is | ast.IsNot):
        return _identical(op, left, right)
    if type(op) not in COMPARISONS:
        raise NotCompiled(f"the operator {type(op).__name__}")
    name, compute = COMPARISONS[type(op)]
    if isinstance(left, Constant) and isinstance(right, Constant):
        return folded(compute, left.value, right.value)
    a, b = scalar(left), scalar(right)
    if name in ("eq", "ne") and "null" in (a.type.gap, b.type.gap):
        return _equal(name, a, b, site)
    a, b = _comparable(plain(a, site)), _comparable(plain(b, site))
    origin = of_tests(a.type, b.type)
    if a.type.kind != b.type.kind:
        return Scalar(f"{name}({exact(a, site)}, {exact(b, site)})", Type("bool", origin))
    if a.type.kind == "int":
        a, b, _ = _alike(a, b)
    return Scalar(f"{name}({a.text}, {b.text})", Type("bool", origin))


def _comparable(value: Scalar) -> Scalar:
    if value.type.kind != "bool":
        return value
    return Scalar(f"whole({value.text})", replace(value.type, kind="int"))


def _identical(op: ast.cmpop, left: Value, right: Value) -> Value:
    if not isinstance(right, Constant) or right.value is not None:
        raise NotCompiled("'is' with something else than None")
    value = scalar(left)
    if value.type.kind == "none" and value.constant is not None:
        found = "true"
    elif value.type.gap == "null":
        found = f"!({value.text}).ok"
    else:
        found = "false"
    return Scalar(found if isinstance(op, ast.Is) else f"!({found})", BOOL)


def _equal(name: str, a: Scalar, b: Scalar, site: int) -> Scalar:
    """Whether two values are equal, where None may be one of them."""
    if "missing" in (a.type.gap, b.type.gap):
        raise NotCompiled("a comparison of None with a number that may be missing")
    if "none" in (a.type.kind, b.type.kind):
        other = b if a.type.kind == "none" else a
        same = f"!({other.text}).ok" if other.type.gap == "null" else "false"
        return Scalar(same if name == "eq" else f"!({same})", BOOL)
    a, b = _comparable(a), _comparable(b)
    sides = [one.text if one.type.gap else f"given<{one.type.plain}>({one.text})" for one in (a, b)]
    if a.type.kind != b.type.kind:
        kinds = (a.type.kind, b.type.kind)
        sides = [f"exact(c, {site}, {t})" if k == "int" else t for t, k in zip(sides, kinds, strict=True)]
    origin = of_tests(a.type, b.type)
    return Scalar(f"{name}({sides[0]}, {sides[1]})", Type("bool", origin))
