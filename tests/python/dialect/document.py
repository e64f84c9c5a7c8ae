"""The tables of `docs/sql.md`, written from the cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from dialect.case import Case

PATH = Path(__file__).parents[3] / "docs" / "sql.md"
BEGIN = "<!-- dialect -->\n"
END = "<!-- /dialect -->"


def tables(topics: tuple[ModuleType, ...]) -> str:
    """A section for each topic: features equal to DuckDB's, then differences with reasons."""
    sections = []
    for topic in topics:
        same: list[str] = []
        other: list[str] = []
        for case in topic.CASES:
            row = f"| {_cell(case.title)} | {_example(case)} |"
            reason = case.differs or case.retyped
            (other if reason else same).append(f"{row} {_cell(reason)} |" if reason else row)
        lines = [f"### {topic.TITLE}", "", topic.__doc__ or "", ""]
        if same:
            lines += ["| As DuckDB does it | For example |", "|---|---|", *same, ""]
        if other:
            lines += ["| Not as DuckDB does it | For example | Here |", "|---|---|---|", *other, ""]
        sections.append("\n".join(lines))
    return "\n".join(sections)


def written() -> tuple[str, str, str]:
    """The documentation before the tables, the tables, and what follows them."""
    before, begin, rest = PATH.read_text().partition(BEGIN)
    found, end, after = rest.partition(END)
    assert begin, f"{PATH} has the mark {BEGIN}"
    assert end, f"{PATH} has the mark {END}"
    return before, found, after


def write(text: str) -> None:
    """Put tables into the documentation."""
    before, _, after = written()
    PATH.write_text("".join([before, BEGIN, text, END, after]))


#: Longer examples leave out how their tables are made.
_LONGEST = 160


def _example(case: Case) -> str:
    text = "; ".join(" ".join(statement.split()) for statement in (*case.setup, case.sql))
    if len(text) > _LONGEST:
        text = " ".join(case.sql.split())
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
