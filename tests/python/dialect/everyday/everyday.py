"""An everyday expression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Everyday:
    """A statement as DuckDB's users write it, and how far Warpmill's answer is DuckDB's."""

    #: The statement whose answer is compared: rows and types of columns.
    sql: str
    #: ``differs``: another answer. ``refused``: an error where DuckDB answers.
    state: str = "same"
    #: The reason of a state that is not ``same``.
    why: str = ""
    #: Statements before it, which both engines must run, or the case has the state ``refused``.
    setup: tuple[str, ...] = ()
