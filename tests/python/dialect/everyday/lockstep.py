"""Runs an everyday expression on Warpmill and on DuckDB, and says how far the answers are the same."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dialect.case import Case
from dialect.everyday import files
from dialect.lockstep import Comparison, compare

if TYPE_CHECKING:
    from dialect.everyday.everyday import Everyday


@dataclass(frozen=True)
class Outcome:
    """Whether the answers are the same (``same``, ``differs``, ``refused``), and their difference."""

    state: str
    text: str
    #: Whether the columns are called the same, to the letter.
    named: bool


def outcome(case: Everyday) -> Outcome:
    """Run a case in a folder of its own, with the files of the topic Files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for path, text in files.FILES.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
        found = compare(Case(case.sql, case.sql, case.setup))
    if found.theirs.error:
        return Outcome("invalid", f"DuckDB: {found.theirs.error}", named=False)
    if found.ours.error:
        return Outcome("refused", found.ours.error, named=False)
    differs = found.rows or found.types
    text = f"{differs}\nwarpmill: {found.ours}\nduckdb:   {found.theirs}" if differs else ""
    return Outcome("differs" if differs else "same", text, named=_named(found))


def _named(found: Comparison) -> bool:
    return found.ours.names == found.theirs.names
