"""From the tree of a sqllogictest file to the steps of a run: loops, variables, conditions, includes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from conformance.sqllogic import Directive, Loop, Node, Record, UnknownError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Groups of values that `foreach` knows by a name.
_SIGNED = ("tinyint", "smallint", "integer", "bigint", "hugeint")
_UNSIGNED = ("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint")
_NUMERIC = (*_SIGNED, *_UNSIGNED, "float", "double")
_GROUPS = {
    "<signed>": _SIGNED,
    "<unsigned>": _UNSIGNED,
    "<integral>": (*_SIGNED, *_UNSIGNED),
    "<numeric>": _NUMERIC,
    "<alltypes>": (*_NUMERIC, "bool", "interval", "varchar"),
    "<compression>": ("none", "uncompressed", "rle", "bitpacking", "dictionary", "fsst", "alp", "alprd"),
}

#: The modules that `require` may ask for and DuckDB's Python package has, beside extensions.
_PRESENT = {
    "64bit",
    "longdouble",
    "no_alternative_verify",
    "no_extension_autoloading",
    "no_force_storage",
    "no_vector_verification",
    "noalternativeverify",
    "noforcestorage",
    "nothreadsan",
    "notmingw",
    "notmusl",
    "notwindows",
    "skip_reload",
    "strinline",
    "vector_size",
    "exact_vector_size",
    "block_size",
    "ram",
    "disk_space",
}
_EXTENSIONS = {"core_functions", "icu", "json", "parquet"}
_EXACT = {"exact_vector_size": 2048, "block_size": 262144}
_MOST_NESTED = 8


class StopError(Exception):
    """The rest of the file cannot be run here; the text is the reason."""


class SkipError(Exception):
    """The `continue` of a loop's turn."""


@dataclass(frozen=True)
class Reopen:
    """`load` and `restart`: the database closed, and opened again."""

    line: int
    #: The path, with placeholders; "" for memory, None for the same as before.
    path: str | None
    read_only: bool = False
    #: The storage version to write, None for the default.
    storage: str | None = None


@dataclass(frozen=True)
class Reconnect:
    """`reconnect`: the default connection made anew."""

    line: int


@dataclass(frozen=True)
class Unpack:
    """`unzip`: a gzip file of the corpus, and where it goes."""

    line: int
    source: Path
    target: str


Step = Record | Reopen | Reconnect | Unpack


@dataclass(frozen=True)
class Corpus:
    """The folder of includes and data of a file, and the conditions that hold."""

    root: Path
    #: The beginning of paths in the files that are in `root`.
    prefix: str
    systems: frozenset[str]


@dataclass
class Script:
    """A file, ready to be run: `for step in script.steps()`."""

    path: Path
    corpus: Corpus
    #: Values of `set variable` and `test-env`.
    variables: dict[str, str] = field(default_factory=dict)

    def steps(self) -> Iterator[Step]:
        """The steps in order.

        Raises:
            UnknownError: the file has something that is not known; before the first step.
            StopError: the rest of the file needs what is not here.

        """
        yield from self._run(self._parsed(self.path), {}, 0, None)

    def _parsed(self, path: Path) -> list[Node]:
        try:
            return parse(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise UnknownError("text that is not UTF-8") from None

    def _run(self, nodes: list[Node], loops: dict[str, str], depth: int, thread: str | None) -> Iterator[Step]:
        for node in nodes:
            if not self._holds(node, loops):
                continue
            if isinstance(node, Loop):
                yield from self._loop(node, loops, depth, thread)
            elif isinstance(node, Record):
                sql = self._text(node.sql, loops)
                lines = None if node.expected is None else tuple(self._text(line, loops) for line in node.expected)
                name = self._text(node.connection, loops) if node.connection else thread
                yield replace(node, sql=sql, expected=lines, connection=name)
            else:
                yield from self._directive(node, [self._text(word, loops) for word in node.arguments], depth)

    def _loop(self, loop: Loop, loops: dict[str, str], depth: int, thread: str | None) -> Iterator[Step]:
        words = [self._text(word, loops) for word in loop.arguments]
        values = [str(number) for number in range(int(words[0]), int(words[1]))] if loop.counts else _values(words)
        names = loop.variable.split(",")
        for turn, value in enumerate(values):
            parts = value.split(",") if len(names) > 1 else [value]
            if len(parts) != len(names):
                raise StopError("foreach: a value has another number of parts than there are names")
            inner = {**loops, **dict(zip(names, parts, strict=True))}
            # Turns of concurrent loops run one after the other, each on its own connection: answers have an order then.
            name = f"turn {turn} of line {loop.line}" if loop.concurrent else thread
            try:
                yield from self._run(loop.body, inner, depth, name)
            except SkipError:
                continue

    def _directive(self, node: Directive, words: list[str], depth: int) -> Iterator[Step]:
        first = words[0] if words else ""
        if node.name == "require":
            _require(words)
        elif node.name == "require-env":
            self._environment(words)
        elif node.name == "test-env":
            self.variables[first] = os.environ.get(first, " ".join(words[1:]))
        elif node.name == "set" and first == "variable" and len(words) > 2:
            self.variables[words[1]] = " ".join(words[2:])
        elif node.name == "set" and first == "seed" and len(words) > 1:
            yield Record(node.line, "ok", f"SELECT setseed({words[1]})")
        elif node.name == "load":
            version = words[2] if len(words) > 2 else None
            yield Reopen(node.line, "" if first in ("", ":memory:") else first, "readonly" in words[1:2], version)
        elif node.name == "restart":
            yield Reopen(node.line, None)
        elif node.name == "reconnect":
            yield Reconnect(node.line)
        elif node.name == "unzip":
            yield Unpack(node.line, self._found(first), words[1] if len(words) > 1 else "{TEST_DIR}/" + first)
        elif node.name == "include":
            if depth == _MOST_NESTED:
                raise StopError("files that include each other")
            yield from self._run(self._parsed(self._found(first)), {}, depth + 1, None)
        elif node.name == "halt":
            raise StopError("")
        elif node.name == "continue":
            raise SkipError
        # hash-threshold, set, reset, sleep and tags say nothing about answers.

    def _environment(self, words: list[str]) -> None:
        value = os.environ.get(words[0]) if words else None
        if value is None or (len(words) > 1 and value != words[1]):
            raise StopError(f"require-env {' '.join(words)}")
        self.variables[words[0]] = value

    def _found(self, path: str) -> Path:
        """A file that the corpus names, if it is in the part of the corpus that is here."""
        found = self.corpus.root / path.removeprefix(self.corpus.prefix)
        if not found.is_file():
            raise StopError(f"{path} is not here")
        return found

    def _text(self, text: str, loops: dict[str, str]) -> str:
        for name, value in (*loops.items(), *self.variables.items()):
            text = text.replace("${" + name + "}", value).replace("{" + name + "}", value)
        return text

    def _holds(self, node: Node, loops: dict[str, str]) -> bool:
        for condition in node.conditions:
            system = condition.system
            true = system in self.corpus.systems if system is not None else _compare(condition.text, loops)
            if true != condition.only:
                return False
        return True


def _values(words: list[str]) -> list[str]:
    values: list[str] = []
    for word in words:
        if word.startswith("!"):
            values = [value for value in values if value != word[1:]]
        else:
            values += _GROUPS.get(word.lower(), (word,))
    return values


def _compare(text: str, loops: dict[str, str]) -> bool:
    """Comparisons such as `i=0&&type<>int`: of numbers where both sides are numbers."""
    for part in text.replace(" ", "").split("&&"):
        match = re.fullmatch(r"(\w+)(<>|!=|<=|>=|=|<|>)(.*)", part)
        if match is None or match[1] not in loops:
            raise StopError(f"condition '{text}'")
        left, right = loops[match[1]], match[3]
        try:
            order = (float(left) > float(right)) - (float(left) < float(right))
        except ValueError:
            order = (left > right) - (left < right)
        true = {"=": order == 0, "<>": order != 0, "!=": order != 0, "<": order < 0, ">": order > 0}
        true |= {"<=": order <= 0, ">=": order >= 0}
        if not true[match[2]]:
            return False
    return True


def _require(words: list[str]) -> None:
    name = words[0].lower() if words else ""
    if name in ("vector_size", *_EXACT) and len(words) > 1:
        size = int(words[1])
        fits = size <= 2048 if name == "vector_size" else size == _EXACT[name]
        if fits:
            return
    elif name in _PRESENT or name in _EXTENSIONS:
        return
    raise StopError(f"require {' '.join(words)}")
