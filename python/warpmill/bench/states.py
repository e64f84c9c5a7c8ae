"""The states in which a query is measured, and the sources that its tables come from."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The earlier runs of a query in an engine when it is timed."""

    #: A process that was started for this one statement: from its start to the last row.
    NEW_PROCESS = "new-process"
    #: A process that has run the query, but never with these literals: no plan of it can be kept.
    NEW_STATEMENT = "new-statement"
    #: The same text once more: its plan may be kept.
    REPEATED = "repeated"

    @property
    def words(self) -> str:
        """Its name for people."""
        return self.value.replace("-", " ")


class Source(StrEnum):
    """The source of all engines' rows."""

    #: Each engine's own tables.
    TABLES = "tables"
    #: The same Parquet files for all engines, read by every run.
    PARQUET = "parquet"


def states(text: str | None) -> tuple[State, ...]:
    """The states that a list of names asks for, in the order of the report; all where there is none.

    Raises `ValueError` for a name that is none.
    """
    if text is None:
        return tuple(State)
    wanted = {name.strip().lower().replace(" ", "-") for name in text.split(",")}
    if unknown := wanted - set(State):
        raise ValueError(f"unknown state {min(unknown)!r}: there are {', '.join(State)}")
    return tuple(state for state in State if state in wanted)
