"""Python functions as expressions: statements and variables.

A function is run with symbols in the place of values: a parameter stands for a column, a variable for the expression
that it was assigned. Branches become choices. What has no expression (loops, calls of other functions, ...) is a
`NotSymbolic` with its line.
"""

from __future__ import annotations

import ast
from types import FunctionType
from typing import TYPE_CHECKING

from warpmill.udf.expressions import Expressions
from warpmill.udf.scope import Scope
from warpmill.udf.source import NotSymbolic, source_of
from warpmill.udf.terms import (
    Constant,
    Group,
    Row,
    Scalar,
    Term,
    Unusable,
    aggregate,
    choice,
    constant,
    operator,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.source import Source
    from warpmill.udf.terms import Value

    Variables = dict[str, Value]


def of_columns(function: object, parameters: Sequence[str], returns: str) -> str:
    """The expression of a function whose parameters are columns of a group.

    Raises `NotSymbolic` where there is none.
    """
    translation = _Translation(function)
    values: Variables = {name: Row(Term(f"__p{at}")) for at, name in enumerate(parameters)}
    result = translation.result(values, returns)
    for at in range(len(parameters)):
        if f"__p{at}" not in _parameters(result):
            result = operator("first", result, aggregate("count", Term(f"__p{at}")))
    return result.text


def of_group(function: object, parameter: str, columns: Sequence[str], returns: str) -> tuple[str, list[str]]:
    """The expression of a function of a whole group, and the columns that its parameters stand for."""
    translation = _Translation(function, columns)
    result = translation.result({parameter: Group()}, returns)
    return result.text, translation.columns or [columns[0]]


def of_values(function: object, parameters: Sequence[str], returns: str) -> str:
    """The expression of a function of single values, which has none where an argument is NULL."""
    translation = _Translation(function)
    values: Variables = {name: Scalar(Term(f"__p{at}")) for at, name in enumerate(parameters)}
    result = translation.result(values, returns)
    missing = " OR ".join(f"__p{at} IS NULL" for at in range(len(parameters)))
    return f"CASE WHEN {missing} THEN NULL ELSE {result.text} END"


def columns_read(function: object, parameter: str, columns: Sequence[str]) -> list[str] | None:
    """The columns that a function of a group reads, or `None` where that cannot be told."""
    try:
        source = source_of(function) if isinstance(function, FunctionType) else None
    except NotSymbolic:
        return None
    if source is None:
        return None
    read: set[str] = set()
    uses = understood = 0
    for node in (inner for statement in source.body for inner in ast.walk(statement)):
        match node:
            case ast.Name(id=name) if name == parameter:
                uses += 1
            case ast.Attribute(value=ast.Name(id=name), attr=column) if name == parameter:
                read.add(column)
                understood += 1
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as column)) if name == parameter:
                read.add(column)
                understood += 1
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if name == parameter:
                understood += 1
            case ast.arg(arg=name) if name == parameter:
                return None
    if uses != understood:
        return None
    # At least one column, by which rows are counted. A missing one is an error of the function.
    return [column for column in columns if column in read] or [columns[0]]


def _parameters(term: Term) -> set[str]:
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in term.text).split()
    return {word for word in words if word.startswith("__p")}


class _Translation(Expressions):
    """One function on its way to an expression."""

    def __init__(self, function: object, table: Sequence[str] = ()) -> None:
        if not isinstance(function, FunctionType):
            raise NotSymbolic("it is no function written in Python")
        super().__init__(table)
        self._source: Source = source_of(function)
        self._scope = Scope(function, self._source)

    def result(self, parameters: Variables, returns: str) -> Term:
        """The result of the function as a value of type `returns`."""
        variables: Variables = {**self._scope.defaults(), **parameters}
        try:
            term = self._run(self._source.body, variables)
        except RecursionError as error:
            raise NotSymbolic("its code is nested too deeply") from error
        return operator(f"return_{returns.lower()}", term)

    def outside(self, name: str) -> Value:
        return self._scope.outside(name)

    # Statements.

    def _run(self, statements: Sequence[ast.stmt], variables: Variables) -> Term:
        """The value that `statements`, up to the end of the function, return."""
        for at, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                return self._returned(statement, variables)
            if isinstance(statement, ast.If) and _returns(statement):
                rest = list(statements[at + 1 :])
                test = self.condition(statement.test, variables)
                if isinstance(test, bool):
                    chosen = statement.body if test else statement.orelse
                    return self._run([*chosen, *rest], variables)
                then = self._run([*statement.body, *rest], dict(variables))
                otherwise = self._run([*statement.orelse, *rest], dict(variables))
                return self._choice(statement, test, then, otherwise)
            self._step(statement, variables)
        return constant(None)

    def _choice(self, statement: ast.stmt, test: Term, then: Term, otherwise: Term) -> Term:
        return self._at(statement, lambda: choice(test, then, otherwise))

    def _returned(self, statement: ast.Return, variables: Variables) -> Term:
        value = statement.value
        if value is None:
            return constant(None)
        return self._at(statement, lambda: self.scalar(self.value(value, variables)))

    def _step(self, statement: ast.stmt, variables: Variables) -> None:
        """Run a statement that returns nothing."""
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assigned(statement, target, value, variables)
            case ast.Assign(targets=targets, value=value):
                # Once, before any of them changes.
                found = self._at(value, lambda: self.value(value, variables))
                for target in targets:
                    if not isinstance(target, ast.Name):
                        raise NotSymbolic("an assignment to something else than variables", statement.lineno)
                    variables[target.id] = found
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assigned(statement, target, value, variables)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                read = ast.copy_location(ast.Name(name, ast.Load()), target)
                whole = ast.copy_location(ast.BinOp(read, op, value), statement)
                self._assigned(statement, target, whole, variables)
            case ast.If(test=test, body=body, orelse=orelse):
                decided = self.condition(test, variables)
                if isinstance(decided, bool):
                    for inner in body if decided else orelse:
                        self._step(inner, variables)
                    return
                self._at(statement, lambda: self._branch(decided, body, orelse, variables))
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise NotSymbolic(f"{_named(statement)} is no expression", statement.lineno)

    def _assigned(self, statement: ast.stmt, target: ast.expr, value: ast.expr, variables: Variables) -> None:
        self._at(statement, lambda: self._assign(target, value, variables))

    def _assign(self, target: ast.expr, value: ast.expr, variables: Variables) -> None:
        match target, value:
            case ast.Name(id=name), _:
                variables[name] = self.value(value, variables)
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                found = [self.value(one, variables) for one in values]
                for variable, one in zip(names, found, strict=True):
                    if not isinstance(variable, ast.Name):
                        raise NotSymbolic("an assignment to something else than a variable")
                    variables[variable.id] = one
            case _:
                raise NotSymbolic("an assignment to something else than a variable")

    def _branch(self, test: Term, body: list[ast.stmt], orelse: list[ast.stmt], variables: Variables) -> None:
        then, otherwise = dict(variables), dict(variables)
        for inner in body:
            self._step(inner, then)
        for inner in orelse:
            self._step(inner, otherwise)
        for name in {**then, **otherwise}:
            one, other = then.get(name), otherwise.get(name)
            if one is None or other is None:
                variables[name] = Unusable(f"the variable {name!r} has a value in one branch only")
            elif one == other:
                variables[name] = one
            elif isinstance(one, Scalar | Constant) and isinstance(other, Scalar | Constant):
                variables[name] = Scalar(choice(test, self.scalar(one), self.scalar(other)))
            else:
                variables[name] = Unusable(f"the variable {name!r} stands for different columns in two branches")

    def condition(self, test: ast.expr, variables: Variables) -> Term | bool:
        """The truth of `test`: known, or an expression."""
        value = self._at(test, lambda: self.value(test, variables))
        if isinstance(value, Constant):
            return bool(value.value)
        return self._at(test, lambda: truth(self.scalar(value)))


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


def _named(statement: ast.stmt) -> str:
    names: dict[type[ast.stmt], str] = {
        ast.For: "a loop (for)",
        ast.While: "a loop (while)",
        ast.Try: "try",
        ast.With: "with",
        ast.Raise: "raise",
        ast.Assert: "assert",
        ast.FunctionDef: "a function inside it",
        ast.Expr: "a statement that makes no value",
    }
    return names.get(type(statement), type(statement).__name__)
