"""Whether two engines gave the same answer.

Strings, integers, dates and decimals must be equal, floats within 1e-9 of each other; where one engine has a decimal
and the other a float (averages, quotients), within one unit of the decimal's last place. Rows come in the order that
the query asks for: their sort keys are compared position by position, rows with equal keys as sets, and where a LIMIT
cuts through rows with equal keys, only the keys of those are compared, for any of them is right.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Tolerance:
    """The largest difference of two numbers that count as equal."""

    relative: float = 1e-9
    absolute: float = 1e-12
    #: Whether this holds for decimals, too; else these are equal, or next to a float within a unit of the last place.
    decimals: bool = False


#: For engines that compute exactly as SQL requires.
EXACT = Tolerance()


def difference(
    actual: list[Row], expected: list[Row], columns: list[str], sql: str, tolerance: Tolerance = EXACT
) -> str | None:
    """None if the rows are equal, else the first difference."""
    if len(actual) != len(expected):
        return f"{len(actual)} rows, expected {len(expected)}"
    if actual and len(actual[0]) != len(expected[0]):
        return f"{len(actual[0])} columns, expected {len(expected[0])}"
    keys = order_keys(sql, columns)
    for at, (left, right) in enumerate(zip(actual, expected, strict=True)):
        if not all(equal(left[key], right[key], tolerance) for key in keys):
            return f"row {at + 1} has sort key {_at(left, keys)}, expected {_at(right, keys)}"
    cut = has_limit(sql)
    for start, end in _ties(expected, keys, tolerance):
        if cut and keys and end == len(expected):
            continue
        found = _set_difference(actual[start:end], expected[start:end], tolerance)
        if found:
            return found
    return None


def equal(left: Any, right: Any, tolerance: Tolerance = EXACT) -> bool:
    """Whether two values are equal as the module says."""
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return bool(left == right)
    left, right = _plain(left), _plain(right)
    numbers = isinstance(left, Decimal | float | int) and isinstance(right, Decimal | float | int)
    if tolerance.decimals and numbers:
        return math.isclose(left, right, rel_tol=tolerance.relative, abs_tol=tolerance.absolute)
    if isinstance(left, Decimal) and isinstance(right, float):
        return _near(right, left)
    if isinstance(left, float) and isinstance(right, Decimal):
        return _near(left, right)
    if isinstance(left, float) and isinstance(right, float | int):
        near = math.isclose(left, right, rel_tol=tolerance.relative, abs_tol=tolerance.absolute)
        return near or (math.isnan(left) and math.isnan(right))
    if isinstance(right, float):
        return equal(right, left, tolerance)
    return bool(left == right)


def order_keys(sql: str, columns: list[str]) -> list[int]:
    """Output columns that the outermost ORDER BY names, first key first; a key that is no output column ends them."""
    clause = _top_level(sql).rpartition("order by")
    if not clause[1]:
        return []
    names = [column.lower() for column in columns]
    keys: list[int] = []
    for item in re.split(r"\blimit\b", clause[2])[0].split(","):
        name = item.split()[0].rpartition(".")[2].strip('"') if item.split() else ""
        if name.isdigit():
            keys.append(int(name) - 1)
        elif name in names:
            keys.append(names.index(name))
        else:
            break
    return keys


def has_limit(sql: str) -> bool:
    """Whether the outermost query has a LIMIT."""
    return re.search(r"\blimit\b", _top_level(sql)) is not None


def _top_level(sql: str) -> str:
    """A text in lower case, without comments and without parts in parentheses."""
    text = re.sub(r"--[^\n]*", " ", sql).lower()
    while "(" in text:
        shorter = re.sub(r"\([^()]*\)", " ", text)
        if shorter == text:
            break
        text = shorter
    return " ".join(text.split())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time() and value.tzinfo is None
        return value.date() if midnight else value
    return value


def _near(number: float, exact: Decimal) -> bool:
    exponent = exact.as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 0.0
    return math.isclose(number, float(exact), rel_tol=EXACT.relative, abs_tol=unit)


def _at(row: Row, keys: list[int]) -> str:
    return "(" + ", ".join(str(row[key]) for key in keys) + ")"


def _ties(rows: list[Row], keys: list[int], tolerance: Tolerance) -> list[tuple[int, int]]:
    """Ranges of rows with equal sort keys; all rows where there are no keys."""
    starts = [0]
    if keys:
        same = [all(equal(a[key], b[key], tolerance) for key in keys) for a, b in pairwise(rows)]
        starts += [at + 1 for at, tied in enumerate(same) if not tied]
    return [(start, end) for start, end in zip(starts, [*starts[1:], len(rows)], strict=True) if start < end]


def _set_difference(actual: list[Row], expected: list[Row], tolerance: Tolerance) -> str | None:
    unmatched = sorted(actual, key=_rank)
    for row in sorted(expected, key=_rank):
        # Ranks are computed from rounded numbers, so that equal rows are neighbours, except at a rounding boundary.
        found = next((at for at, other in enumerate(unmatched) if _rows_equal(other, row, tolerance)), None)
        if found is None:
            nearest = unmatched[0] if unmatched else None
            return f"no row {_text(row)}; the next one here is {_text(nearest) if nearest else 'none'}"
        del unmatched[found]
    return None


def _rows_equal(left: Row, right: Row, tolerance: Tolerance) -> bool:
    return all(equal(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _rank(row: Row) -> tuple[tuple[int, str], ...]:
    return tuple(_value_rank(value) for value in row)


def _value_rank(value: Any) -> tuple[int, str]:
    if value is None:
        return (0, "")
    if isinstance(value, int | float | Decimal):
        return (1, f"{float(value):.4e}")
    return (2, str(_plain(value)))


def _text(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"
