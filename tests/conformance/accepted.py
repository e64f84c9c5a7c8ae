"""Differences that are none of answers: `accepted.toml`, one reason each."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.compare import Difference

LIST = Path(__file__).with_name("accepted.toml")


@dataclass(frozen=True)
class Accepted:
    """One entry of the list."""

    name: str
    reason: str
    #: Kinds of differences that it explains.
    kinds: tuple[str, ...]
    #: Its scope: a corpus, files (globs), a pattern that the statement contains, one that the difference contains.
    corpora: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sql: str = ""
    text: str = ""

    def explains(self, corpus: str, file: str, sql: str, difference: Difference) -> bool:
        """Whether the difference is this one."""
        return (
            difference.kind in self.kinds
            and (not self.corpora or corpus in self.corpora)
            and (not self.files or any(fnmatch(file, pattern) for pattern in self.files))
            and re.search(self.sql, sql, re.IGNORECASE | re.DOTALL) is not None
            and re.search(self.text, difference.text, re.IGNORECASE | re.DOTALL) is not None
        )


@cache
def accepted() -> tuple[Accepted, ...]:
    """The list.

    Raises:
        ValueError: an entry without a reason.
        TypeError: an entry with a key that is not known.

    """
    entries = []
    for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["accepted"]:
        values: dict[str, Any] = {key: tuple(of) if isinstance(of, list) else of for key, of in entry.items()}
        made = Accepted(**values)
        if not made.reason.strip() or not made.kinds:
            raise ValueError(f"accepted difference '{made.name}' says no reason, or not what differs")
        entries.append(made)
    return tuple(entries)


def explained(corpus: str, file: str, sql: str, difference: Difference) -> str | None:
    """The name of the accepted difference that matches, None without a match."""
    return next((entry.name for entry in accepted() if entry.explains(corpus, file, sql, difference)), None)
