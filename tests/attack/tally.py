"""Counts of what was tried: lines on standard output, of which ``python tests/attack`` makes a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "attack-tally"


def tally(category: str, outcomes: Mapping[str, int]) -> None:
    """Tells how often each outcome came of an attack of a category."""
    for outcome, times in outcomes.items():
        # A line of its own, whatever a test runner has begun to write.
        print(f"\n{MARK}\t{category}\t{outcome}\t{times}", flush=True)


def read(line: str) -> tuple[str, str, int] | None:
    """The category, the outcome and the number of times of a line."""
    mark, *rest = line.rstrip("\n").split("\t")
    if mark != MARK or len(rest) != 3:
        return None
    return rest[0], rest[1], int(rest[2])
