"""Parser of sqllogictest files, as DuckDB and as SQLite write them.

A file is a tree: loops hold nodes. Nothing is substituted or decided here; `script.py` does that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field


class UnknownError(Exception):
    """Something in a file that this parser does not know; the text is the reason, without the line."""


@dataclass(frozen=True)
class Condition:
    """`onlyif` or `skipif` before a node: the name of a system, or comparisons of loop variables."""

    only: bool
    text: str

    @property
    def system(self) -> str | None:
        """The system's name in lower case, None for a comparison."""
        return None if re.search(r"[=<>]", self.text) else self.text.lower()


@dataclass(frozen=True)
class Record:
    """A statement or a query, and its expected result."""

    line: int
    #: "ok", "error", "maybe" or "query".
    kind: str
    sql: str
    connection: str | None = None
    #: Column types of a query: I, R and T.
    types: str = ""
    #: "nosort", "rowsort" or "valuesort".
    sort: str = "nosort"
    #: Lines below `----`: rows or values of a query, the error of a statement.
    expected: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Directive:
    """A line that is neither a record nor a loop: `load`, `restart`, `require`, ..."""

    line: int
    name: str
    arguments: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass
class Loop:
    """`loop`, `foreach` and their concurrent forms."""

    line: int
    #: Several where one token gives several values: `foreach a,b 1,x 2,y`.
    variable: str
    #: Values of `foreach`, or first and last of `loop`, as text.
    arguments: tuple[str, ...]
    counts: bool
    concurrent: bool
    conditions: tuple[Condition, ...] = ()
    body: list[Node] = field(default_factory=list)


Node = Record | Directive | Loop

_Ends = Callable[[str], bool]

#: Directives of one line that are passed on.
DIRECTIVES = {
    "continue",
    "halt",
    "hash-threshold",
    "include",
    "load",
    "reconnect",
    "require",
    "require-env",
    "reset",
    "restart",
    "set",
    "sleep",
    "tags",
    "test-env",
    "unzip",
}

_LOOPS = {"loop", "foreach", "concurrentloop", "concurrentforeach"}
_SORTS = {"nosort": "nosort", "none": "nosort", "unsorted": "nosort", "rowsort": "rowsort", "sort": "rowsort"}
_SORTS["valuesort"] = "valuesort"


def parse(text: str) -> list[Node]:
    """The nodes of a file.

    Raises:
        UnknownError: a directive, or a form of one, that is not known.

    """
    return _Parser(text).nodes()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.replace("\r", "").split("\n")
        self._at = 0
        self._top: list[Node] = []
        self._open: list[Loop] = []
        #: Depth of `mode skip`.
        self._skipped = 0

    def nodes(self) -> list[Node]:
        conditions: tuple[Condition, ...] = ()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            words = line.split()
            if not words or line.startswith("#"):
                self._at += 1
                continue
            if words[0] in ("onlyif", "skipif"):
                conditions += (_condition(words),)
                self._at += 1
                continue
            self._node(words, conditions)
            conditions = ()
        if self._open:
            raise UnknownError("a loop without endloop")
        return self._top

    def _node(self, words: list[str], conditions: tuple[Condition, ...]) -> None:
        name, number = words[0], self._at + 1
        self._at += 1
        if name in ("statement", "query"):
            record = self._record(number, words, conditions)
            if not self._skipped:
                self._add(record)
        elif name == "mode":
            self._mode(words[1:])
        elif self._skipped:
            pass
        elif name in _LOOPS:
            self._loop(number, words, conditions)
        elif name == "endloop":
            if not self._open:
                raise UnknownError("endloop without a loop")
            self._open.pop()
        elif name in DIRECTIVES:
            self._add(Directive(number, name, tuple(words[1:]), conditions))
        else:
            raise UnknownError(f"directive '{name}'")

    def _add(self, node: Node) -> None:
        (self._open[-1].body if self._open else self._top).append(node)

    def _mode(self, words: list[str]) -> None:
        mode = words[0] if words else ""
        if mode == "skip":
            self._skipped += 1
        elif mode == "unskip":
            self._skipped -= 1
        elif mode not in ("output_hash", "output_result", "no_output", "debug"):
            raise UnknownError(f"mode '{mode}'")

    def _loop(self, number: int, words: list[str], conditions: tuple[Condition, ...]) -> None:
        if len(words) < 3 and not self._skipped:
            raise UnknownError(f"{words[0]} without values")
        counts, concurrent = words[0].endswith("loop"), words[0].startswith("concurrent")
        loop = Loop(number, words[1], tuple(words[2:]), counts, concurrent, conditions)
        self._add(loop)
        self._open.append(loop)

    def _record(self, number: int, words: list[str], conditions: tuple[Condition, ...]) -> Record:
        sql = self._block(lambda line: not line or line.startswith("#") or line.rstrip() == "----")
        expected: tuple[str, ...] | None = None
        if self._at < len(self._lines) and self._lines[self._at].rstrip() == "----":
            self._at += 1
            expected = tuple(self._block(lambda line: not line))
        text = "\n".join(sql)
        second = words[1] if len(words) > 1 else ""
        third = words[2] if len(words) > 2 and not words[2].startswith("#") else None
        if words[0] == "query":
            sort = _SORTS.get(third or "nosort")
            # A word that is no way to sort names a connection.
            connection = third if sort is None else None
            return Record(number, "query", text, connection, second, sort or "nosort", expected, conditions)
        if second not in ("ok", "error", "maybe"):
            raise UnknownError(f"statement '{second}'")
        return Record(number, second, text, third, expected=expected, conditions=conditions)

    def _block(self, ends: _Ends) -> list[str]:
        start = self._at
        while self._at < len(self._lines) and not ends(self._lines[self._at]):
            self._at += 1
        return self._lines[start : self._at]


def _condition(words: list[str]) -> Condition:
    said = [word for word in words[1:] if word]
    if "#" in said:
        said = said[: said.index("#")]
    if not said:
        raise UnknownError(f"{words[0]} without a condition")
    return Condition(words[0] == "onlyif", " ".join(said))
