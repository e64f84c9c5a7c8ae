"""Tables for functions, and how results are compared."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, SupportsFloat

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Rows whose newest values in each group are `RESULTS`.
NEWEST = {"k": [1, 1, 2], "b": [True, None, False], "i": [2**62, 5, None], "n": [3, 4, 5]}

#: A declared type, a column of `NEWEST`, and the last value of each group that is not NULL.
RESULTS: tuple[tuple[str, str, list[tuple[int, object]]], ...] = (
    ("BIGINT", "i", [(1, 5), (2, None)]),
    ("DOUBLE", "i", [(1, 5.0), (2, None)]),
    ("BOOLEAN", "b", [(1, True), (2, False)]),
    ("BIGINT", "b", [(1, 1), (2, 0)]),
    ("INTEGER", "n", [(1, 4), (2, 5)]),
)


def table(seed: int, rows: int = 80, *, nulls: bool = True) -> pa.Table:
    """Groups `k` of several sizes, also of one row. Numbers are few and exact: x has quarters, y is whole."""
    chance = random.Random(seed)
    groups = [chance.choice([0, 0, 0, 0, 1, 1, 2, 3]) for _ in range(rows)] + [4, 5, 6]
    missing = 0.2 if nulls else 0.0

    def x(group: int) -> float | None:
        if group == 3 and nulls:
            return None
        if chance.random() < missing:
            return chance.choice([None, math.nan])
        return chance.choice([0.0, 0.25, 1.0, -1.5, 2.5, 3.0, 10.0, -4.0])

    def y(group: int) -> int | None:
        return None if chance.random() < missing or (group == 6 and nulls) else chance.randint(-5, 9)

    return pa.table(
        {
            "k": groups,
            "x": pa.array([x(group) for group in groups], pa.float64()),
            "y": pa.array([y(group) for group in groups], pa.int64()),
        }
    )


def alike(one: object, other: object) -> bool:
    """Whether two results are the same number, up to rounding, or both missing."""
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in (one, other)]
    if any(missing):
        return all(missing)
    assert isinstance(one, SupportsFloat)
    assert isinstance(other, SupportsFloat)
    left, right = float(one), float(other)
    return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


def differences(
    names: Sequence[str], rows: Sequence[Sequence[object]], others: Sequence[Sequence[object]]
) -> list[str]:
    """The differences between two lists of rows of a key and results."""
    found = []
    assert [row[0] for row in rows] == [row[0] for row in others]
    for row, other in zip(rows, others, strict=True):
        for name, one, two in zip(names, row[1:], other[1:], strict=True):
            if not alike(one, two):
                found.append(f"{name} of group {row[0]}: {one} and {two}")
    return found
