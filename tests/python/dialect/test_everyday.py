"""Every everyday expression has the state that its case says, and the counts are printed."""

from __future__ import annotations

from collections import Counter

import pytest

from dialect.everyday import aggregates, dates, edges, files, nested, numbers, queries, statements, text
from dialect.everyday.everyday import Everyday
from dialect.everyday.lockstep import outcome

TOPICS = (numbers, text, dates, nested, aggregates, queries, statements, files)
STATES = ("same", "differs", "refused")
#: The states that were found, by topic.
_FOUND: dict[str, Counter[str]] = {topic.TITLE: Counter() for topic in TOPICS}


@pytest.mark.parametrize(
    ("topic", "case"),
    [pytest.param(topic.TITLE, case, id=f"{topic.TITLE}: {case.sql}") for topic in TOPICS for case in topic.CASES],
)
def test_everyday(topic: str, case: Everyday) -> None:
    found = outcome(case)
    _FOUND[topic][found.state] += 1
    _FOUND[topic]["named"] += found.state == "same" and found.named
    assert found.state == case.state, f"{found.state}, expected {case.state}: {found.text}"
    if found.state == "same":
        assert found.named, "the columns are called otherwise"
    else:
        assert case.why, "the reason why is missing"


@pytest.mark.parametrize(
    ("rows", "expression"), [(rows, expression) for rows, all_of in edges.EXPRESSIONS.items() for expression in all_of]
)
def test_edges(rows: str, expression: str) -> None:
    """NULLs, empty texts and lists, negative and extreme numbers, groups of nothing."""
    found = outcome(Everyday(f"SELECT {expression} AS r FROM {edges.ROWS[rows]}"))
    assert found.state != "invalid", found.text
    assert (found.state != "same") == ((rows, expression) in edges.DIFFERS), found.text


def test_cases_are_unique() -> None:
    twice = [key for key, n in Counter((c.sql, c.setup) for topic in TOPICS for c in topic.CASES).items() if n > 1]
    assert not twice


def test_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints ``same N of M``, of the cases that this run had."""
    lines = []
    total: Counter[str] = Counter()
    for title, counts in _FOUND.items():
        total.update(counts)
        cases = sum(counts[state] for state in STATES)
        lines.append(
            f"  {title}: same {counts['same']} of {cases}, differs {counts['differs']}, refused {counts['refused']}"
        )
    cases = sum(total[state] for state in STATES)
    with capsys.disabled():
        print(f"\neveryday: same {total['same']} of {cases} ({total['named']} with the same headers)", *lines, sep="\n")
    assert total["invalid"] == 0
