"""Every case of the dialect, and the documentation that is written from them."""

from __future__ import annotations

import os
from collections import Counter

import duckdb
import pytest

from dialect import document, lists, names, numbers, pivots, queries, statements, tables, types
from dialect.case import Case
from dialect.lockstep import compare

TOPICS = (numbers, types, lists, names, queries, pivots, tables, statements)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{topic.TITLE}: {case.title}") for topic in TOPICS for case in topic.CASES]
)
def test_case(case: Case) -> None:
    if _release(duckdb.__version__) < _release(case.since or "0"):
        pytest.skip(f"the answer of DuckDB {case.since}, and this is {duckdb.__version__}")
    found = compare(case)
    both = f"\nwarpmill: {found.ours}\nduckdb:   {found.theirs}"
    assert bool(found.rows) == bool(case.differs), (found.rows or "there is no difference any more") + both
    if not case.differs:
        assert bool(found.types) == bool(case.retyped), (found.types or "the types are equal") + both


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def test_titles_are_unique() -> None:
    for topic in TOPICS:
        twice = [title for title, count in Counter(case.title for case in topic.CASES).items() if count > 1]
        assert not twice, f"{topic.TITLE}: {twice}"


def test_the_documentation_has_the_cases() -> None:
    """``WARPMILL_BLESS=1`` writes them into docs/sql.md."""
    made = document.tables(TOPICS)
    if "WARPMILL_BLESS" in os.environ:
        document.write(made)
    assert document.written()[1] == made, "run the test with WARPMILL_BLESS=1"
