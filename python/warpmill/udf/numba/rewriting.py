"""The tree of a function, rewritten for Numba: operators, loops and calls go through `library`.

Forms that Numba would compute otherwise than Python without an exception are refused: texts and sets, sorting by keys,
`try`, shifts, variables that may have no value.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from warpmill.udf.numba.assigned import check, stored
from warpmill.udf.numba.forms import (
    assigned,
    bare,
    float_of,
    has_more,
    is_numpy,
    is_one,
    is_some,
    names,
    parameters_of,
    plain,
    reads,
    skips_none,
    takes_some,
)
from warpmill.udf.numba.rewritten import Library, OfMath, Rewritten
from warpmill.udf.scope import Scope
from warpmill.udf.source import NotSymbolic, source_of
from warpmill.udf.terms import Constant, Thing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.source import Source

#: The first parameter of each function: the address of the flag that stops a run.
FLAG = "__flag"
#: The prefix of names of `library`.
_LIBRARY = "__wm_"

_OPERATORS = {
    ast.Add: "added",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
    ast.Pow: "power",
}
_PLAIN_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARISONS = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "unequal",
}
#: Functions of Python that are functions of the library.
_CALLS = {abs: "absolute", int: "integer", round: "rounded", pow: "power", float: "decimal", bool: "truth"}
#: Functions of Python whose arguments are gone over, and others that Numba has as Python does.
_ITERATING = (tuple, enumerate, zip, reversed)
#: Methods that leave the order of equal values open.
_UNSTABLE = ("argsort", "argpartition", "partition", "lexsort")
#: Methods whose first argument is a key or a position.
_KEYED = ("get", "pop")
#: Methods that compare by identity, too, or convert what they are given.
_REFUSED = ("index", "count", "remove", "setdefault", "update")
#: Methods that change what a comprehension may go over.
_CHANGING = ("pop", "popitem", "clear", "append", "extend", "insert")
#: Methods that give what a loop over a dictionary goes over.
_VIEWS = ("items", "keys", "values")
#: Nodes that stay as they are, with rewritten parts.
_KEPT = (
    ast.Return,
    ast.If,
    ast.Break,
    ast.Continue,
    ast.Pass,
    ast.Expr,
    ast.BoolOp,
    ast.IfExp,
    ast.Dict,
    ast.List,
    ast.Tuple,
    ast.expr_context,
    ast.boolop,
    ast.unaryop,
)


def rewritten(function: FunctionType, columns: Sequence[str], *, group: bool) -> Rewritten:
    """The function over `columns`: its parameters, or with `group` attributes of its only one.

    Raises `NotSymbolic` with the line of what is refused.
    """
    return _Functions().rewritten(function, tuple(columns), group=group)


class _Functions:
    """A function and those that it calls, each rewritten once."""

    def __init__(self) -> None:
        self._known: dict[FunctionType, Rewritten] = {}
        self._open: set[FunctionType] = set()

    def rewritten(self, function: FunctionType, columns: tuple[str, ...] | None, *, group: bool = False) -> Rewritten:
        if function in self._known:
            return self._known[function]
        if function in self._open:
            raise NotSymbolic("a function calls itself")
        self._open.add(function)
        made = _Rewriter(function, self, columns, group=group).function()
        self._open.discard(function)
        self._known[function] = made
        return made


class _Rewriter(ast.NodeTransformer):
    """One function."""

    def __init__(
        self, function: FunctionType, functions: _Functions, columns: tuple[str, ...] | None, *, group: bool
    ) -> None:
        source: Source = source_of(function)
        # Nodes are changed, and those of the source are shared.
        self._body = copy.deepcopy(source.body)
        self._scope = Scope(function, source)
        self._functions = functions
        self._file = function.__code__.co_filename
        self._name = function.__name__
        arguments = [argument.arg for argument in (*source.arguments.posonlyargs, *source.arguments.args)]
        self._defaults = self._scope.defaults()
        if columns is None and self._defaults:
            raise NotSymbolic(f"the function {self._name!r} has parameters with defaults")
        self._group = arguments[0] if group else None
        #: The parameters that the columns of a group are.
        self._of_group = {name: f"__c{at}" for at, name in enumerate(columns or ())} if group else {}
        given = [name for name in arguments if name not in self._defaults]
        self._parameters = [*self._of_group.values()] if group else given
        self._own = {*self._parameters, *self._defaults} | names(self._body)
        self._check_names()
        self._takes_columns = columns is not None
        self._names: dict[str, object] = {}
        self._temporaries = 0

    def _check_names(self) -> None:
        """Names have one meaning each: that of a variable, or that from outside."""
        for name in self._own:
            if hasattr(builtins, name):
                raise NotSymbolic(f"the variable {name!r} has the name of a function")
        for name in self._own - stored(self._body) - {*self._parameters, *self._defaults}:
            try:
                self._scope.outside(name)
            except NotSymbolic:
                continue
            raise NotSymbolic(f"the variable {name!r} within a function or a list has a name from outside")

    def function(self) -> Rewritten:
        """The rewritten function."""
        body: list[ast.stmt] = []
        for name, value in self._defaults.items():
            if not isinstance(value, Constant):
                raise NotSymbolic(f"the parameter {name!r} is no number")
            constant = self.visit_Constant(ast.Constant(plain(value)))
            body.append(assigned(ast.Name(name, ast.Store()), constant))
        check(self._body, [*self._parameters, *self._defaults])
        body += self._block(self._body)
        parameters = [ast.arg(name) for name in (FLAG, *self._parameters)]
        tree = ast.FunctionDef("function", parameters_of(parameters), body, [])
        ast.copy_location(tree, self._body[0])
        return Rewritten(ast.fix_missing_locations(tree), self._file, self._names)

    def visit(self, node: ast.AST) -> Any:
        """A node in its new form; a statement may become several."""
        made = super().visit(node)
        for one in made if isinstance(made, list) else [made]:
            if hasattr(node, "lineno"):
                ast.copy_location(one, node)
        return made

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Nodes that stay, or an error."""
        if isinstance(node, _KEPT):
            return super().generic_visit(node)
        return _refuse(_WORDS.get(type(node), type(node).__name__), node)

    # Statements.

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made or [ast.Pass()]

    def visit_If(self, node: ast.If) -> ast.If:
        return ast.If(self.visit(node.test), self._block(node.body), self._block(node.orelse) if node.orelse else [])

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        value = self.visit(node.value)
        return ast.Assign([self._place(target) for target in node.targets], value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return assigned(self._place(node.target), self.visit(node.value)) if node.value else ast.Pass()

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                _refuse("an operator that changes a slice", node)
            of, index = (self._temporary(self.visit(part), made) for part in (target.value, target.slice))
            read: ast.expr = ast.Subscript(of, index, ast.Load())
            place: ast.expr = ast.Subscript(of, index, ast.Store())
        else:
            place = self._target(target)
            read = ast.Name(place.id, ast.Load()) if isinstance(place, ast.Name) else _refuse("an attribute", node)
        value = self.visit(node.value)
        if isinstance(node.op, ast.Add):
            found: ast.expr = self._library("add_to", read, value)
        else:
            found = self._operator(node.op, self._library("changed", read), value, node)
        return [*made, assigned(place, found)]

    def _temporary(self, value: ast.expr, made: list[ast.stmt]) -> ast.expr:
        """A variable with a value, which a statement in `made` assigns."""
        self._temporaries += 1
        name = f"__t{self._temporaries}"
        made.append(assigned(ast.Name(name, ast.Store()), value))
        return ast.Name(name, ast.Load())

    def _target(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Name():
                return node
            case ast.Tuple() if all(isinstance(one, ast.Name) for one in node.elts):
                return node
        return _refuse("an assignment to that", node)

    def _place(self, node: ast.expr) -> ast.expr:
        """The target of an assignment by itself."""
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Slice):
                _refuse("an assignment to a slice", node)
            return ast.Subscript(self.visit(node.value), self.visit(node.slice), ast.Store())
        return self._target(node)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        skips = (skips_none(node) or takes_some(node)) and self._is_read_only_in(node)
        body, made = node.body, list[ast.stmt]()
        if skips and skips_none(node):
            body = body[1:] or [ast.Pass()]
        elif skips:
            body = [statement for test in body if isinstance(test, ast.If) for statement in test.body]
        orelse = self._block(node.orelse) if node.orelse else []
        values, checks = self._over_dictionary(node.iter, made)
        if values is None:
            values = self._over(node.iter, present=skips)
        steps = [self._step(), *checks, *self._block(body)]
        return [*made, ast.For(self._target(node.target), values, steps, [*checks, *orelse])]

    def _is_read_only_in(self, node: ast.For) -> bool:
        """Whether a loop's variable is read in its body only: after a loop that skips None, it may be None."""
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        return reads(self._body, name) == reads(node.body, name)

    def _over_dictionary(self, node: ast.expr, made: list[ast.stmt]) -> tuple[ast.expr | None, list[ast.stmt]]:
        """The iterable of a loop that may be a dictionary, and the statements that check that its size stays."""
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=view), args=[], keywords=[]) if view in _VIEWS:
                pass
            case ast.Name(id=name) if name in self._own and not self._is_column(name):
                of, view = node, ""
            case _:
                return None, []
        values = self._temporary(self.visit(of), made)
        size = self._temporary(self._library("size_of", values), made)
        check = ast.Expr(self._library("keeps_size", values, size))
        if view:
            return ast.Call(ast.Attribute(values, view, ast.Load()), [], []), [check]
        return self._library("each", values), [check]

    def _is_column(self, name: str) -> bool:
        return self._takes_columns and name in self._parameters

    def _over(self, node: ast.expr, *, present: bool = False) -> ast.expr:
        """The iterable of a loop; `present`: without None."""
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=view), args=[], keywords=[]) if view in _VIEWS:
                return ast.Call(ast.Attribute(self.visit(of), view, ast.Load()), [], [])
        value: ast.expr = self.visit(node)
        if present:
            return self._library("each_present", value)
        # Iterators of Numba cannot be handed on.
        match node:
            case ast.Call(func=ast.Name(id=name)) if name not in self._own:
                found = self._scope.outside(name)
                if isinstance(found, Thing) and is_one(found.value, (range, enumerate, zip, reversed)):
                    return value
        return self._library("each", value)

    def visit_While(self, node: ast.While) -> ast.While:
        orelse = self._block(node.orelse) if node.orelse else []
        return ast.While(self.visit(node.test), [self._step(), *self._block(node.body)], orelse)

    def _step(self) -> ast.stmt:
        return ast.Expr(self._library("step", ast.Name(FLAG, ast.Load())))

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        del node
        self._names[f"{_LIBRARY}error"] = ValueError
        return ast.Raise(ast.Name(f"{_LIBRARY}error", ast.Load()), None)

    def visit_Assert(self, node: ast.Assert) -> ast.If:
        return ast.If(self.visit(node.test), [ast.Pass()], [self.visit_Raise(ast.Raise())])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.decorator_list or has_more(node.args):
            _refuse("a function within with decorators, or with parameters that are not given by position", node)
        return ast.FunctionDef(node.name, bare(node.args), self._block(node.body), [])

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        if has_more(node.args):
            _refuse("a function within with parameters that are not given by position", node)
        return ast.Lambda(bare(node.args), self.visit(node.body))

    # Expressions.

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            _refuse("a constant of more than 64 bits", node)
        if value is None or isinstance(value, bool | int | float):
            return node
        return _refuse(f"a constant of type {type(value).__name__}", node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._own and node.id != self._group:
            return node
        if node.id == self._group:
            return _refuse("the group as a whole", node)
        found = self._scope.outside(node.id)
        if isinstance(found, Constant):
            return self.visit_Constant(ast.copy_location(ast.Constant(plain(found)), node))
        return _refuse(f"the value of {node.id!r}", node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if self._group and isinstance(node.value, ast.Name) and node.value.id == self._group:
            return self._column(node.attr, node)
        module = self._module(node.value)
        if module is None:
            return ast.Attribute(self.visit(node.value), node.attr, node.ctx)
        value = getattr(module, node.attr, None)
        if isinstance(value, bool | int | float):
            return ast.Constant(value)
        return _refuse(f"{node.attr!r} of {module.__name__}", node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if self._group and isinstance(node.value, ast.Name) and node.value.id == self._group:
            name = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return self._column(name, node)
        return ast.Subscript(self.visit(node.value), self.visit(node.slice), node.ctx)

    def _column(self, name: object, node: ast.AST) -> ast.expr:
        if name not in self._of_group:
            _refuse(f"a column {name!r}", node)
        return ast.Name(self._of_group[str(name)], ast.Load())

    def _module(self, node: ast.expr) -> ModuleType | None:
        if not isinstance(node, ast.Name) or node.id in self._own:
            return None
        found = self._scope.outside(node.id)
        return found.value if isinstance(found, Thing) and isinstance(found.value, ModuleType) else None

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._operator(node.op, self.visit(node.left), self.visit(node.right), node)

    def _operator(self, of: ast.operator, left: ast.expr, right: ast.expr, node: ast.AST) -> ast.expr:
        if isinstance(of, _PLAIN_OPERATORS):
            return ast.BinOp(left, of, right)
        if type(of) not in _OPERATORS:
            _refuse("a shift, or a product of matrices", node)
        return self._library(_OPERATORS[type(of)], left, right)

    def visit_Slice(self, node: ast.Slice) -> ast.Slice:
        bounds = (node.lower, node.upper, node.step)
        return ast.Slice(*(None if one is None else self._library("index", self.visit(one)) for one in bounds))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Invert | ast.UAdd):
            _refuse("'~' or '+' before a value", node)
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.USub) and not isinstance(operand, ast.Constant):
            return self._library("negate", operand)
        return ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Comparisons in a row are compared in pairs."""
        match node:
            case ast.Compare(
                left=ast.Subscript(value=of, slice=index),
                ops=[ast.Is() | ast.IsNot() as test],
                comparators=[ast.Constant(value=None)],
            ):
                missing = self._library("is_missing", self.visit(of), self.visit(index))
                return missing if isinstance(test, ast.Is) else ast.UnaryOp(ast.Not(), missing)
        if any(isinstance(part, ast.Call) for value in node.comparators[:-1] for part in ast.walk(value)):
            _refuse("a call between two comparisons", node)
        values = [self.visit(value) for value in (node.left, *node.comparators)]
        pairs = itertools.pairwise(values)
        tests = [self._comparison(of, left, right, node) for of, (left, right) in zip(node.ops, pairs, strict=True)]
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)

    def _comparison(self, of: ast.cmpop, left: ast.expr, right: ast.expr, node: ast.AST) -> ast.expr:
        if type(of) in _COMPARISONS:
            return self._library(_COMPARISONS[type(of)], left, right)
        if isinstance(of, ast.In | ast.NotIn):
            found = self._library("contains", left, right)
            return found if isinstance(of, ast.In) else ast.UnaryOp(ast.Not(), found)
        if isinstance(of, ast.Is | ast.IsNot) and not (isinstance(right, ast.Constant) and right.value is None):
            _refuse("'is' of other values than None", node)
        return ast.Compare(left, [of], [right])

    def _check_unchanging(self, node: ast.expr) -> None:
        """Refuse what may change what a comprehension goes over."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and part.attr in _CHANGING:
                _refuse(f"{part.attr}() within a comprehension", node)

    def _comprehension(self, node: ast.comprehension) -> ast.comprehension:
        present = bool(node.ifs) and is_some(node.ifs[0], node.target)
        goes_on = self._library("goes_on", ast.Name(FLAG, ast.Load()))
        tests = [goes_on, *(self.visit(test) for test in node.ifs[1 if present else 0 :])]
        return ast.comprehension(self._target(node.target), self._over(node.iter, present=present), tests, 0)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> ast.ListComp:
        self._check_unchanging(node)
        return ast.ListComp(self.visit(node.elt), [self._comprehension(one) for one in node.generators])

    def visit_DictComp(self, node: ast.DictComp) -> ast.DictComp:
        self._check_unchanging(node)
        made = [self._comprehension(one) for one in node.generators]
        return ast.DictComp(self.visit(node.key), self.visit(node.value), made)

    # Calls.

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            _refuse("arguments with a star", node)
        if any(keyword.arg is None for keyword in node.keywords):
            _refuse("arguments with two stars", node)
        match node.func:
            case ast.Name(id=name) if name not in self._own:
                found = self._scope.outside(name)
                if isinstance(found, Thing):
                    return self._called(found.value, name, node)
                return _refuse(f"a call of {name}()", node)
            case ast.Name():
                if node.keywords:
                    _refuse("arguments by name", node)
                return ast.Call(node.func, [self.visit(one) for one in node.args], [])
            case ast.Attribute(value=of, attr=name) if (module := self._module(of)) is not None:
                return self._called(getattr(module, name, None), f"{module.__name__}.{name}", node)
            case ast.Attribute(value=of, attr=name):
                return self._method(of, name, node)
        return _refuse("a call of that", node)

    def _list(self, node: ast.expr) -> ast.expr:
        """An iterable that is consumed at once: a generator becomes a list."""
        if isinstance(node, ast.GeneratorExp):
            return ast.copy_location(self.visit_ListComp(node), node)
        return self._over(node)

    def _called(self, function: object, name: str, node: ast.Call) -> ast.expr:
        if function is len and self._group and isinstance(node.args[0], ast.Name) and node.args[0].id == self._group:
            return self._plain(len, [ast.Name(self._parameters[0], ast.Load())], [])
        if function is float and (constant := float_of(node)) is not None:
            return ast.Constant(constant)
        goes_over = len(node.args) == 1 and is_one(function, (sorted, sum, list, min, max))
        if goes_over:
            arguments = [self._list(node.args[0])]
        elif is_one(function, _ITERATING):
            arguments = [self._library("of_positions", self.visit(one)) for one in node.args]
        else:
            arguments = [self.visit(one) for one in node.args]
        if is_numpy(function):
            keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
            return self._plain(function, arguments, keywords)
        if function is sorted and len(arguments) == 1:
            return self._plain(
                sorted, [self._library("ordered", ast.Name(FLAG, ast.Load()), arguments[0])], self._reversed(node)
            )
        if node.keywords:
            _refuse(f"arguments of {name}() by name", node)
        return self._by_position(function, name, arguments, node)

    def _by_position(self, function: object, name: str, arguments: list[ast.expr], node: ast.Call) -> ast.expr:
        if is_one(function, (min, max)) and arguments:
            return self._extreme("least" if function is min else "greatest", arguments)
        if function is sum and len(arguments) == 1:
            return self._library("total", ast.Name(FLAG, ast.Load()), arguments[0])
        if function is list and len(arguments) == 1:
            element = ast.Name(f"__e{self._temporaries}", ast.Load())
            self._temporaries += 1
            over = ast.comprehension(ast.Name(element.id, ast.Store()), arguments[0], [], 0)
            return ast.ListComp(element, [over])
        if is_one(function, _CALLS) and len(arguments) == (2 if function is pow else 1):
            return self._library(_CALLS[function], *arguments)
        if function is range:
            return self._plain(range, [self._library("index", one) for one in arguments], [])
        if function is len or is_one(function, _ITERATING):
            return self._plain(function, arguments, [])
        if isinstance(function, BuiltinFunctionType) and function.__module__ == "math":
            self._names[f"{_LIBRARY}math_{function.__name__}"] = OfMath(function)
            return ast.Call(ast.Name(f"{_LIBRARY}math_{function.__name__}", ast.Load()), arguments, [])
        if isinstance(function, FunctionType):
            called = self._functions.rewritten(function, None)
            return self._plain(called, [ast.Name(FLAG, ast.Load()), *arguments], [])
        if hasattr(function, "py_func"):
            return self._plain(function, arguments, [])
        return _refuse(f"a call of {name}()", node)

    def _extreme(self, name: str, arguments: list[ast.expr]) -> ast.expr:
        if len(arguments) == 1:
            return self._library(f"{name}_of", ast.Name(FLAG, ast.Load()), arguments[0])
        found = arguments[0]
        for one in arguments[1:]:
            found = self._library(name, found, one)
        return found

    def _reversed(self, node: ast.Call) -> list[ast.keyword]:
        """The keywords of a sort: the direction only."""
        if any(one.arg != "reverse" for one in node.keywords):
            _refuse("a sort by a key", node)
        return [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]

    def _method(self, of: ast.expr, name: str, node: ast.Call) -> ast.expr:
        if name in _UNSTABLE or (name in _REFUSED and node.args) or (name in _VIEWS and not node.args):
            _refuse(f"the method {name}()", node)
        if name in ("var", "std") and node.args:
            _refuse(f"arguments of {name}() by position", node)
        value, arguments = self.visit(of), [self.visit(one) for one in node.args]
        if name in _KEYED and arguments:
            arguments[0] = self._library("key", arguments[0])
        if name == "sort":
            return ast.Call(
                ast.Attribute(self._library("ordered", ast.Name(FLAG, ast.Load()), value), name, ast.Load()),
                arguments,
                self._reversed(node),
            )
        keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
        return ast.Call(ast.Attribute(value, name, ast.Load()), arguments, keywords)

    def _library(self, name: str, *arguments: ast.expr) -> ast.expr:
        self._names[f"{_LIBRARY}{name}"] = Library(name)
        return ast.Call(ast.Name(f"{_LIBRARY}{name}", ast.Load()), [*arguments], [])

    def _plain(self, function: object, arguments: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
        """A call of a value from outside."""
        name = next((name for name, value in self._names.items() if value is function), f"__f{len(self._names)}")
        self._names[name] = function
        return ast.Call(ast.Name(name, ast.Load()), arguments, keywords)


#: The names of refused nodes.
_WORDS: dict[type[ast.AST], str] = {
    ast.Try: "try",
    ast.With: "with",
    ast.JoinedStr: "a text",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.GeneratorExp: "a generator",
    ast.NamedExpr: "an assignment within an expression",
    ast.ClassDef: "a class",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Match: "match",
    ast.Delete: "del",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Starred: "a star",
}


def _refuse(what: str, node: ast.AST) -> NoReturn:
    raise NotSymbolic(f"{what} is not compiled by Numba here", getattr(node, "lineno", None))
