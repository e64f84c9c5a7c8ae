"""The syntax tree of a Python function."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType

#: The compiler flags that `from __future__ import ...` sets, also in a notebook's earlier cell.
_FUTURES = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


class NotSymbolic(Exception):  # noqa: N818 - a reason, not a mistake
    """The reason why a function is no expression."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")


@dataclass(frozen=True)
class Source:
    """The source code of a function."""

    arguments: ast.arguments
    body: list[ast.stmt]


def source_of(function: FunctionType) -> Source:
    """The tree of `function`, from its file (or the notebook's cell).

    Raises `NotSymbolic` where there is no text, or the text is not that of the function any more.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        raise NotSymbolic("its source is not available")
    try:
        tree, codes = _parsed(text, code.co_filename, code.co_flags & _FUTURES)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotSymbolic("its source cannot be read") from error
    if code not in codes:
        raise NotSymbolic("the text of its file is not its source any more")
    found = [node for node in ast.walk(tree) if _begins_like(node, code)]
    if len(found) > 1:
        found = [node for node in found if _contains(node, code)]
    if len(found) != 1:
        raise NotSymbolic("its source cannot be told from that of others on the line")
    (node,) = found
    if isinstance(node, ast.Lambda):
        returned = ast.copy_location(ast.Return(node.body), node.body)
        return Source(node.args, [returned])
    if isinstance(node, ast.FunctionDef):
        return Source(node.args, node.body)
    raise NotSymbolic("it is no plain function")


@functools.lru_cache(maxsize=32)
def _parsed(text: str, filename: str, flags: int) -> tuple[ast.Module, frozenset[CodeType]]:
    """The tree of a file, and the code of all functions in it."""
    tree = ast.parse(text, filename)
    return tree, frozenset(_codes(compile(text, filename, "exec", flags, dont_inherit=True)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _codes(constant)


def _begins_like(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    return False


def _contains(node: ast.AST, code: CodeType) -> bool:
    """Whether `code` comes from within a lambda's body."""
    if not isinstance(node, ast.Lambda):
        return False
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    inside = False
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) == (end_line, end_column):
            continue
        if not (start <= (line, column) and (end_line, end_column) <= end):
            return False
        inside = True
    return inside
