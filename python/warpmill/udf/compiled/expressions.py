"""Python expressions as C++."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from warpmill.udf.compiled.arithmetic import binary, compared, unary
from warpmill.udf.compiled.functions import called
from warpmill.udf.compiled.rows import RowsTranslation, as_form
from warpmill.udf.compiled.types import NotCompiled, NotYet, Type, cast, joined
from warpmill.udf.compiled.values import Rows, Scalar, literal, scalar, truth
from warpmill.udf.source import NotSymbolic
from warpmill.udf.terms import Constant, Group, Thing, Unusable, member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from warpmill.udf.compiled.values import Value

T = TypeVar("T")

#: Characters of an expression in C++: operands of `max` or of chains of comparisons are in it several times.
MOST_TEXT = 20_000


@dataclass
class Flow:
    """The data-flow state at a place of the code."""

    #: Variables bound to columns.
    rows: dict[str, Rows] = field(default_factory=dict)
    #: Other variables that certainly have a value.
    assigned: set[str] = field(default_factory=set)
    #: Whether the code that follows is not reached.
    ended: bool = False

    def copy(self) -> Flow:
        """The same, to be changed."""
        return Flow(dict(self.rows), set(self.assigned), self.ended)


class Expressions(RowsTranslation):
    """The expressions of one function."""

    def __init__(self, names: Mapping[str, Constant | Thing | Unusable], table: Mapping[str, Rows]) -> None:
        super().__init__()
        #: The meaning of names from outside of the function.
        self._names = names
        #: The columns of a group by their names.
        self._table = table
        #: The function's own variables, and their types as far as known.
        self.variables: set[str] = set()
        self.types: dict[str, Type] = {}
        #: Variables that are read where they may have no value.
        self.checked: set[str] = set()
        self.parameters: dict[str, Value] = {}
        #: The lines of sites.
        self.lines: list[int] = []
        #: The constants of outside, by their names: whole numbers, and floats.
        self.whole: dict[str, int] = {}
        self.floats: dict[str, float] = {}

    def check(self, name: str) -> None:
        """Note that a variable is read where it may have no value."""
        self.checked.add(name)

    def site(self, node: ast.AST) -> int:
        """The number of a place in the code, for failures."""
        line = getattr(node, "lineno", 0)
        if line not in self.lines:
            self.lines.append(line)
        return self.lines.index(line) + 1

    def at(self, node: ast.AST, work: Callable[[], T]) -> T:
        """Do `work`; a reason without a line gets that of `node`."""
        try:
            return work()
        except NotSymbolic as reason:
            if str(reason).startswith("line "):
                raise
            kind = NotYet if isinstance(reason, NotYet) else NotCompiled
            raise kind(str(reason), getattr(node, "lineno", None)) from None

    def value(self, node: ast.expr, flow: Flow) -> Value:
        """The value of `node`."""
        found = self.at(node, lambda: self._value(node, flow))
        if isinstance(found, Scalar | Rows) and len(found.text) > MOST_TEXT:
            raise NotCompiled("an expression that is too large", node.lineno)
        return found

    def _value(self, node: ast.expr, flow: Flow) -> Value:
        match node:
            case ast.Constant(value=value):
                return Constant(value)
            case ast.Name(id=name):
                return self._name(name, flow, self.site(node))
            case ast.Attribute(value=of, attr=name):
                return self._attribute(self.value(of, flow), name)
            case ast.Subscript(value=of, slice=key):
                return self._item(self.value(of, flow), self.value(key, flow), self.site(node))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left, flow), self.value(right, flow), self.site(node))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, flow), self.site(node))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(left, ops, others, flow)
            case ast.BoolOp(op=op, values=values):
                return self._logic(op, [self.value(value, flow) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(test, body, orelse, flow)
            case ast.Call(func=function, args=args, keywords=keywords):
                return self._call(node, function, args, keywords, flow)
            case _:
                raise NotCompiled(f"{_shown(node)} is not compiled")

    def _name(self, name: str, flow: Flow, site: int) -> Value:
        if name in flow.rows:
            return flow.rows[name]
        if name in self.parameters and name not in flow.assigned:
            return self.parameters[name]
        if name in self.variables:
            kind = self.types.get(name)
            if kind is None:
                raise NotYet(f"the variable {name!r} has no value here, or is a column that is not one everywhere")
            text = variable(name)
            if name not in flow.assigned:
                self.check(name)
                text = f"({text}set ? (void)0 : c.fail({site}, NO_VALUE), {text})"
            return Scalar(text, kind)
        found = self._names[name]
        if isinstance(found, Unusable):
            raise NotCompiled(found.reason)
        return self.constant(name, found) if isinstance(found, Constant) else found

    def constant(self, name: str, found: Constant) -> Value:
        """A constant of outside: a parameter of the compiled function."""
        match found.value:
            case bool() | int():
                kind = literal(found).type
                self.whole.setdefault(name, int(found.value))
                text = f"k.whole[{list(self.whole).index(name)}]"
                return Scalar(text if kind.kind == "int" else f"({text} != 0)", kind, found)
            case float() as value:
                self.floats.setdefault(name, value)
                return Scalar(f"k.floats[{list(self.floats).index(name)}]", Type("float"), found)
            case _:
                return found

    def _attribute(self, of: Value, name: str) -> Value:
        match of:
            case Group():
                return self._column(name)
            case Thing(ModuleType() as module):
                return member(module, name)
            case Rows() if name == "size" and of.form == "column":
                return self.length(of)
            case Rows() if name in ("iloc", "values"):
                return as_form(of, "array" if name == "values" else "iloc")
            case _:
                raise NotCompiled(f"the attribute {name!r}")

    def _item(self, of: Value, key: Value, site: int) -> Value:
        match of, key:
            case Group(), Constant(str(name)):
                return self._column(name)
            case Rows(), Rows():
                return self.chosen(of, key)
            case Rows(), Constant() | Scalar():
                return self.item(of, scalar(key), site)
            case _:
                raise NotCompiled("an index")

    def _column(self, name: str) -> Rows:
        if name not in self._table:
            raise NotCompiled(f"there is no column {name!r}")
        return self._table[name]

    def _binary(self, op: ast.operator, left: Value, right: Value, site: int) -> Value:
        if isinstance(left, Rows) or isinstance(right, Rows):
            return self.binary(op, left, right, site)
        return binary(op, left, right, site)

    def _unary(self, op: ast.unaryop, operand: Value, site: int) -> Value:
        if isinstance(operand, Rows):
            return self.unary(op, operand, site)
        return unary(op, operand, site)

    def _compared(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], flow: Flow) -> Value:
        if len(ops) == 1 and isinstance(ops[0], ast.In | ast.NotIn):
            return self._among(left, others[0], flow, negated=isinstance(ops[0], ast.NotIn))
        values = [self.value(node, flow) for node in (left, *others)]
        site = self.site(left)
        if any(isinstance(value, Rows) for value in values):
            if len(ops) > 1:
                raise NotCompiled("a chain of comparisons of columns")
            return self.compared(ops[0], values[0], values[1], site)
        results = [compared(op, *pair, site) for op, pair in zip(ops, itertools.pairwise(values), strict=True)]
        return results[0] if len(results) == 1 else self._logic(ast.And(), results)

    def _among(self, left: ast.expr, others: ast.expr, flow: Flow, *, negated: bool) -> Value:
        if not isinstance(others, ast.Tuple | ast.List | ast.Set) or not others.elts:
            raise NotCompiled("'in' something else than some values")
        value, site = scalar(self.value(left, flow)), self.site(left)
        tests = [compared(ast.Eq(), value, self.value(other, flow), site) for other in others.elts]
        found = self._logic(ast.Or(), tests) if len(tests) > 1 else tests[0]
        return unary(ast.Not(), found, site) if negated else found

    @staticmethod
    def _logic(op: ast.boolop, values: Sequence[Value]) -> Value:
        """`and` and `or`, which give one of their operands."""
        scalars = [scalar(value) for value in values]
        sign = " && " if isinstance(op, ast.And) else " || "
        if all(one.type.cpp == "bool" for one in scalars):
            origins = {one.type.origin for one in scalars}
            origin = origins.pop() if len(origins) == 1 else "either"
            return Scalar(f"({sign.join(one.text for one in scalars)})", Type("bool", origin))
        result = scalars[-1]
        for one in reversed(scalars[:-1]):
            into = joined(one.type, result.type, what="the result of 'and' or 'or'")
            own, other = cast(one.text, one.type, into, 0), cast(result.text, result.type, into, 0)
            then, otherwise = (other, own) if isinstance(op, ast.And) else (own, other)
            result = Scalar(f"({truth(one)} ? {then} : {otherwise})", into)
        return result

    def condition(self, test: ast.expr, flow: Flow) -> str:
        """The truth of `test`."""
        if isinstance(test, ast.BoolOp):
            sign = " && " if isinstance(test.op, ast.And) else " || "
            return f"({sign.join(self.condition(value, flow) for value in test.values)})"
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return f"!({self.condition(test.operand, flow)})"
        value = self.value(test, flow)
        return self.at(test, lambda: truth(value))

    def _chosen(self, test: ast.expr, body: ast.expr, orelse: ast.expr, flow: Flow) -> Value:
        known = self.value(test, flow)
        if isinstance(known, Constant):
            return self.value(body if known.value else orelse, flow)
        condition = self.condition(test, flow)
        then, otherwise = scalar(self.value(body, flow)), scalar(self.value(orelse, flow))
        into = joined(then.type, otherwise.type, what="the result of a conditional expression")
        site = self.site(test)
        one, other = cast(then.text, then.type, into, site), cast(otherwise.text, otherwise.type, into, site)
        return Scalar(f"({condition} ? {one} : {other})", into)

    def _call(
        self, node: ast.Call, function: ast.expr, args: list[ast.expr], keywords: list[ast.keyword], flow: Flow
    ) -> Value:
        if any(isinstance(arg, ast.Starred) for arg in args) or any(keyword.arg is None for keyword in keywords):
            raise NotCompiled("a call with * or **")
        site = self.site(node)
        values = [self.value(arg, flow) for arg in args]
        named = {str(keyword.arg): self.value(keyword.value, flow) for keyword in keywords}
        if isinstance(function, ast.Attribute):
            of = self.value(function.value, flow)
            if isinstance(of, Rows):
                return self.method(function.attr, of, values, named, site)
            target = self._attribute(of, function.attr) if isinstance(of, Thing) else None
        else:
            target = self.value(function, flow)
        if not isinstance(target, Thing):
            raise NotCompiled("a call of something that is no known function")
        if named:
            raise NotCompiled("a call with named arguments")
        return called(target.value, values, site, self)


def variable(name: str) -> str:
    """The name in C++ of a variable."""
    return f"{name}_" if name.isascii() else f"u{name.encode().hex()}u"


def _shown(node: ast.expr) -> str:
    names: dict[type[ast.expr], str] = {
        ast.List: "a list",
        ast.Tuple: "a tuple",
        ast.Dict: "a dictionary",
        ast.Set: "a set",
        ast.ListComp: "a list comprehension",
        ast.GeneratorExp: "a generator",
        ast.Lambda: "a function inside it",
        ast.JoinedStr: "a text",
        ast.NamedExpr: "an assignment inside an expression",
        ast.Slice: "a slice",
    }
    return names.get(type(node), type(node).__name__)
