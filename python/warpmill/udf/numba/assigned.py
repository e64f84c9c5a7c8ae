"""Variables that may have no value where they are read: Numba would read zero or garbage there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from warpmill.udf.source import NotSymbolic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The variables that have a value; `None` where code is not reached.
_Set = frozenset[str] | None


def check(body: Sequence[ast.stmt], parameters: Iterable[str]) -> None:
    """Raise `NotSymbolic` for the first variable of a function that may be read without a value."""
    _Function(body).block(body, frozenset(parameters))


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements of one function assign, without those of functions and comprehensions within."""
    found: set[str] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp):
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        pending += ast.iter_child_nodes(node)
    return found


class _Function:
    """The flow through one function's statements."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._own = stored(body)
        #: The sets at the `break`s of the loops around.
        self._breaks: list[list[frozenset[str]]] = []

    def block(self, body: Sequence[ast.stmt], known: _Set) -> _Set:
        """The variables with a value after some statements."""
        for statement in body:
            if known is None:
                return None
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: frozenset[str]) -> _Set:
        match node:
            case ast.If():
                self._read(node.test, known)
                return _both(self.block(node.body, known), self.block(node.orelse, known))
            case ast.For():
                self._read(node.iter, known)
                # Without an iteration, nothing is assigned.
                ends = self._loop(node.body, known | stored([node.target]))
                return _both(self.block(node.orelse, known), ends)
            case ast.While():
                self._read(node.test, known)
                ends = self._loop(node.body, known)
                forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
                return ends if forever else _both(self.block(node.orelse, known), ends)
            case ast.Return() | ast.Raise():
                self._read(node, known)
                return None
            case ast.Break():
                self._breaks[-1].append(known)
                return None
            case ast.Continue():
                return None
            case ast.FunctionDef():
                arguments = {argument.arg for argument in node.args.args}
                _Function(node.body).block(node.body, (known - stored(node.body)) | arguments)
                self._inner(node.body, known | arguments)
                return known | {node.name}
            case ast.AnnAssign(value=None):
                return known
            case ast.AugAssign():
                self._read(node.value, known)
                if isinstance(node.target, ast.Name):
                    self._name(node.target, known)
                else:
                    self._read(node.target, known)
                return known
            case _:
                self._read(node, known)
                return known | stored([node])

    def _loop(self, body: Sequence[ast.stmt], known: frozenset[str]) -> _Set:
        """The variables with a value where a loop is left by `break`."""
        self._breaks.append([])
        self.block(body, known)
        ends: _Set = None
        for one in self._breaks.pop():
            ends = _both(ends, one)
        return ends

    def _inner(self, body: Sequence[ast.AST], known: frozenset[str]) -> None:
        """Variables of this function that functions within read."""
        own = self._own - stored(body)
        for node in (node for statement in body for node in ast.walk(statement)):
            if isinstance(node, ast.Name) and node.id in own:
                self._name(node, known)

    def _read(self, node: ast.AST, known: frozenset[str]) -> None:
        if isinstance(node, ast.Lambda):
            return self._inner([node.body], known | {argument.arg for argument in node.args.args})
        if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp):
            return self._comprehension(node, known)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return self._name(node, known)
        for child in ast.iter_child_nodes(node):
            self._read(child, known)
        return None

    def _comprehension(self, node: Any, known: frozenset[str]) -> None:
        """Each part has the targets of the loops before it; the first loop goes over something from outside."""
        for one in node.generators:
            self._read(one.iter, known)
            known = known | stored([one.target])
            for test in one.ifs:
                self._read(test, known)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._read(part, known)

    def _name(self, node: ast.Name, known: frozenset[str]) -> None:
        if node.id in self._own and node.id not in known:
            raise NotSymbolic(f"the variable {node.id!r} may have no value", node.lineno)


def _both(one: _Set, other: _Set) -> _Set:
    if one is None or other is None:
        return one if other is None else other
    return one & other
