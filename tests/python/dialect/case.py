"""A case of the dialect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A statement to which both engines give the same answer, or different ones for a reason."""

    #: The lesson of the case, in a few words: a row of the documentation. Unique within its topic.
    title: str
    #: The statement whose answer is compared.
    sql: str
    #: Statements before it. An error of one of them is the answer, but DuckDB must run them all.
    setup: tuple[str, ...] = ()
    #: The reason why the answers differ (rows, or an error on one side only). Empty: they are equal.
    differs: str = ""
    #: The reason why the types of the columns differ while the rows are equal. Empty: the types are equal, too.
    retyped: str = ""
    #: Whether the database is on disk, and opened anew between `setup` and `sql`.
    reopened: bool = False
    #: The first DuckDB release with this answer: earlier ones do not run the case.
    since: str = ""
