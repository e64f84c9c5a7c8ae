"""Python expressions as expressions of the engine."""

from __future__ import annotations

import ast
import itertools
import operator as python
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from warpmill.udf.calls import elementwise, reduced, row_method, scalar_function
from warpmill.udf.source import NotSymbolic
from warpmill.udf.terms import (
    Constant,
    Group,
    Row,
    Scalar,
    Term,
    Thing,
    Unusable,
    choice,
    constant,
    member,
    operator,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warpmill.udf.terms import Value

    Variables = dict[str, Value]

T = TypeVar("T")

#: Operators: the names of the engine's functions, and Python's, for constants.
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[..., object]]] = {
    ast.Add: ("add", python.add),
    ast.Sub: ("sub", python.sub),
    ast.Mult: ("mul", python.mul),
    ast.Div: ("div", python.truediv),
    ast.FloorDiv: ("floordiv", python.floordiv),
    ast.Mod: ("mod", python.mod),
    ast.Pow: ("pow", python.pow),
}
_LOGIC: dict[type[ast.operator], str] = {ast.BitAnd: "and", ast.BitOr: "or"}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[..., object]]] = {
    ast.Lt: ("lt", python.lt),
    ast.LtE: ("le", python.le),
    ast.Gt: ("gt", python.gt),
    ast.GtE: ("ge", python.ge),
    ast.Eq: ("eq", python.eq),
    ast.NotEq: ("ne", python.ne),
}


class Expressions:
    """The expressions of one function."""

    def __init__(self, table: Sequence[str]) -> None:
        self._table = table
        #: The columns of a group that are read, in the order of their parameters.
        self.columns: list[str] = []

    def outside(self, name: str) -> Value:
        """The value of a variable that is not the function's own."""
        raise NotImplementedError

    def _at(self, node: ast.AST, work: Callable[[], T]) -> T:
        """Do `work`; a reason without a line gets that of `node`."""
        try:
            return work()
        except NotSymbolic as reason:
            if str(reason).startswith("line "):
                raise
            raise NotSymbolic(str(reason), getattr(node, "lineno", None)) from None

    def value(self, node: ast.expr, variables: Variables) -> Value:
        """The value of `node`."""
        return self._at(node, lambda: self._value(node, variables))

    def _value(self, node: ast.expr, variables: Variables) -> Value:
        match node:
            case ast.Constant(value=value):
                return Constant(value)
            case ast.Name(id=name):
                found = variables[name] if name in variables else self.outside(name)
                if isinstance(found, Unusable):
                    raise NotSymbolic(found.reason)
                return found
            case ast.Attribute(value=of, attr=name):
                return self._attribute(self.value(of, variables), name)
            case ast.Subscript(value=of, slice=key):
                return self._item(self.value(of, variables), self.value(key, variables))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left, variables), self.value(right, variables))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, variables))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(left, ops, others, variables)
            case ast.BoolOp(op=op, values=values):
                return self._logic(op, [self.value(value, variables) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(test, body, orelse, variables)
            case ast.Call(func=function, args=args, keywords=keywords):
                return self._call(function, args, keywords, variables)
            case _:
                raise NotSymbolic(f"{type(node).__name__} is no expression")

    def scalar(self, value: Value) -> Term:
        """A value as one for the whole group."""
        match value:
            case Scalar(term):
                return term
            case Constant(known):
                return constant(known)
            case Row():
                raise NotSymbolic("a whole column where one value is needed")
            case _:
                raise NotSymbolic("something else than a value")

    def _attribute(self, of: Value, name: str) -> Value:
        match of:
            case Group():
                return self._column(name)
            case Thing(ModuleType() as module):
                return member(module, name)
            case Row() if name == "size":
                return Scalar(reduced("len", of, {}))
            case _:
                raise NotSymbolic(f"the attribute {name!r}")

    def _item(self, of: Value, key: Value) -> Value:
        match of, key:
            case Group(), Constant(str(name)):
                return self._column(name)
            case Row(term, mask), Row(condition, None):
                if not condition.is_bool:
                    raise NotSymbolic("an index that is no condition")
                both = condition if mask is None else operator("and", mask, condition, is_bool=True)
                return Row(term, both)
            case _:
                raise NotSymbolic("an index")

    def _column(self, name: str) -> Row:
        if name not in self._table:
            raise NotSymbolic(f"there is no column {name!r}")
        if name not in self.columns:
            self.columns.append(name)
        return Row(Term(f"__p{self.columns.index(name)}"))

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if type(op) in _LOGIC:
            return elementwise(_LOGIC[type(op)], left, right, of_bools=True)
        if type(op) not in ARITHMETIC:
            raise NotSymbolic(f"the operator {type(op).__name__}")
        name, compute = ARITHMETIC[type(op)]
        if isinstance(left, Constant) and isinstance(right, Constant):
            return _computed(compute, left.value, right.value)
        return elementwise(name, left, right)

    def _unary(self, op: ast.unaryop, operand: Value) -> Value:
        match op, operand:
            case ast.Not(), Constant(value):
                return Constant(not value)
            case ast.Not(), _:
                return Scalar(operator("not", truth(self.scalar(operand)), is_bool=True))
            case ast.USub(), Constant(int() | float() as value):
                return Constant(-value)
            case ast.UAdd(), Constant(int() | float() as value):
                return Constant(+value)
            case ast.USub(), _:
                return elementwise("neg", operand)
            case ast.Invert(), Row() | Scalar():
                return elementwise("not", operand, of_bools=True)
            case _:
                raise NotSymbolic(f"the operator {type(op).__name__}")

    def _compared(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], variables: Variables) -> Value:
        values = [self.value(node, variables) for node in (left, *others)]
        if len(ops) > 1 and any(isinstance(value, Row) for value in values):
            raise NotSymbolic("a chain of comparisons of columns")
        results = [self._comparison(op, *pair) for op, pair in zip(ops, itertools.pairwise(values), strict=True)]
        return results[0] if len(results) == 1 else self._logic(ast.And(), results)

    def _comparison(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        if type(op) not in COMPARISONS:
            raise NotSymbolic(f"the operator {type(op).__name__}")
        name, compute = COMPARISONS[type(op)]
        if isinstance(left, Constant) and isinstance(right, Constant):
            return _computed(compute, left.value, right.value)
        for side in (left, right):
            if isinstance(side, Constant) and side.value is None:
                raise NotSymbolic("a comparison with None")
        return elementwise(name, left, right, is_bool=True)

    def _logic(self, op: ast.boolop, values: list[Value]) -> Value:
        """`and` and `or`, which give one of their operands."""
        result = values[-1]
        for value in reversed(values[:-1]):
            if isinstance(value, Constant):
                result = result if bool(value.value) == isinstance(op, ast.And) else value
                continue
            one, other = self.scalar(value), self.scalar(result)
            if one.is_bool and other.is_bool:
                name = "and" if isinstance(op, ast.And) else "or"
                result = Scalar(operator(name, one, other, is_bool=True))
            else:
                then, otherwise = (other, one) if isinstance(op, ast.And) else (one, other)
                result = Scalar(choice(truth(one), then, otherwise))
        return result

    def _chosen(self, test: ast.expr, body: ast.expr, orelse: ast.expr, variables: Variables) -> Value:
        condition = self.value(test, variables)
        if isinstance(condition, Constant):
            return self.value(body if condition.value else orelse, variables)
        decided = truth(self.scalar(condition))
        then, otherwise = self.value(body, variables), self.value(orelse, variables)
        return Scalar(choice(decided, self.scalar(then), self.scalar(otherwise)))

    def _call(
        self, function: ast.expr, args: list[ast.expr], keywords: list[ast.keyword], variables: Variables
    ) -> Value:
        if any(isinstance(arg, ast.Starred) for arg in args):
            raise NotSymbolic("a call with *")
        values = [self.value(arg, variables) for arg in args]
        named: dict[str, Value] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise NotSymbolic("a call with **")
            named[keyword.arg] = self.value(keyword.value, variables)
        if isinstance(function, ast.Attribute):
            of = self.value(function.value, variables)
            if isinstance(of, Row):
                return row_method(function.attr, of, values, named)
            called = self._attribute(of, function.attr) if isinstance(of, Thing | Group) else None
        else:
            called = self.value(function, variables)
        if not isinstance(called, Thing):
            raise NotSymbolic("a call of something that is no known function")
        return scalar_function(called.value, values, named)


def _computed(compute: Callable[..., object], *operands: object) -> Constant:
    try:
        return Constant(compute(*operands))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotSymbolic(f"{type(error).__name__}: {error}") from None
