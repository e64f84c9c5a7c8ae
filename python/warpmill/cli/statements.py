"""Where SQL statements end: at a ';' outside strings, quoted names and comments."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""'(?:[^']|'')*(?:'|$)        # string
      | "(?:[^"]|"")*(?:"|$)        # quoted name
      | --[^\n]*                    # comment to the end of the line
      | /\*.*?(?:\*/|$)             # comment
      | ;                           # end of a statement
      | [^'"\-/;]+ | .              # anything else
    """,
    re.VERBOSE | re.DOTALL,
)


def _cut(text: str) -> list[str]:
    parts = [""]
    for piece in _PIECE.findall(text):
        if piece == ";":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _says_something(part: str) -> bool:
    return any(not piece.isspace() and not piece.startswith(("--", "/*")) for piece in _PIECE.findall(part))


def split(text: str) -> list[str]:
    """The statements of `text`, without their ';'."""
    return [part.strip() for part in _cut(text) if _says_something(part)]


def complete(text: str) -> bool:
    """Whether `text` ends with a ';' that ends a statement."""
    parts = _cut(text)
    return len(parts) > 1 and not _says_something(parts[-1])
