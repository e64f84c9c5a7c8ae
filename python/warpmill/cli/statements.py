"""Splits text into SQL statements: at a ';' outside of strings, quoted names and comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PIECE = re.compile(
    r"""[eE]'(?:[^'\\]|''|\\.)*(?:'|$)   # string with escapes
      | '(?:[^']|'')*(?:'|$)        # string
      | "(?:[^"]|"")*(?:"|$)        # quoted name
      | `[^`]*(?:`|$)               # the same
      | \$(\w*)\$.*?(?:\$\1\$|$)     # string between dollars
      | --[^\n]*                    # comment to the end of the line
      | \w[\w$@\#]*                 # word
      | ;                           # end of a statement
      | \s+ | .                     # anything else
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"/\*|\*/")


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = _comment_end(text, at) if text.startswith("/*", at) else _PIECE.match(text, at).end()  # type: ignore[union-attr]
        yield text[at:end]
        at = end


def _comment_end(text: str, at: int) -> int:
    """The end of the comment that begins at `at`: comments nest."""
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
        depth += 1 if bracket[0] == "/*" else -1
        if depth == 0:
            return bracket.end()
    return len(text)


def _cut(text: str) -> list[str]:
    parts = [""]
    for piece in _pieces(text):
        if piece == ";":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _says_something(part: str) -> bool:
    return any(not piece.isspace() and not piece.startswith(("--", "/*")) for piece in _pieces(part))


def split(text: str) -> list[str]:
    """The statements of `text`, without their ';'."""
    return [part.strip() for part in _cut(text) if _says_something(part)]


def complete(text: str) -> bool:
    """Whether `text` ends with a ';' that ends a statement."""
    parts = _cut(text)
    return len(parts) > 1 and not _says_something(parts[-1])


def is_command(text: str) -> bool:
    """Whether a line is one of the shell's commands, which begin with a dot or a backslash."""
    return text.lstrip().startswith((".", "\\"))


def entries(lines: Iterable[str]) -> Iterator[str]:
    """The commands, a line each, and the statements of lines; the last statement needs no ';'."""
    text = ""
    for line in lines:
        if not _says_something(text) and is_command(line):
            yield line.strip()
            text = ""
            continue
        text += line
        if complete(text):
            yield text
            text = ""
    if _says_something(text):
        yield text
