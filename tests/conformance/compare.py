"""Whether two answers to one query are equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.answers import Answer, Row
    from conformance.ordering import Parser, Promise

#: Doubles are sums and quotients of rows in any order: equal within this, relative to the larger.
RELATIVE = 1e-9
#: The same of FLOAT, which has 24 bits.
RELATIVE_FLOAT = 1e-5
#: Rows that equal no row exactly are matched one by one, up to this many.
_MOST_INEXACT = 2000

Run = Callable[[str], "Answer"]


@dataclass(frozen=True)
class Difference:
    """The difference of an answer."""

    #: "rows", "order", "types", "names", "error class", "succeeds" (where the reference fails), or "fails".
    kind: str
    text: str


@dataclass(frozen=True)
class Judge:
    """Compares the answers of two engines to one text; `again` and `reference_again` run another text there."""

    parser: Parser
    again: Run
    reference_again: Run

    def difference(self, sql: str, answer: Answer, reference: Answer) -> Difference | None:
        """None if the answers are equal, else the difference."""
        early = _outcomes(answer, reference)
        if early is not None or reference.failure is not None:
            return early
        if answer.rows == reference.rows:
            return None
        near = RELATIVE_FLOAT if any("FLOAT" in text for text in reference.types) else RELATIVE
        if len(answer.rows) == len(reference.rows) and all(map(_rows_near(near), answer.rows, reference.rows)):
            return None
        promise = self.parser.promise(sql, reference.names)
        unlike = bag_difference(answer.rows, reference.rows, near)
        if promise is None:
            return None if unlike is None else Difference("rows", unlike)
        keyed = self._order(answer, reference, promise, near)
        if unlike is None:
            return keyed
        if promise.chooses and len(answer.rows) == len(reference.rows) and keyed is None:
            return self._choice(answer, promise, near, unlike)
        return Difference("rows", unlike)

    def _order(self, answer: Answer, reference: Answer, promise: Promise, near: float) -> Difference | None:
        """Whether the rows are sorted as the reference's are."""
        if not promise.ordered:
            return None
        found = _keys_difference(answer.rows, reference.rows, list(promise.keys), near)
        if found is not None or promise.complete:
            return found
        if promise.with_keys is None:
            return None
        ours, theirs = self.again(promise.with_keys), self.reference_again(promise.with_keys)
        if ours.failure or theirs.failure:
            return None
        columns = [*promise.keys, *range(len(reference.names), len(theirs.names))]
        return _keys_difference(ours.rows, theirs.rows, columns, near)

    def _choice(self, answer: Answer, promise: Promise, near: float, unlike: str) -> Difference | None:
        """Whether the rows are a valid choice of the query."""
        if promise.unlimited is None:
            return Difference("rows", unlike)
        whole = self.reference_again(promise.unlimited)
        if whole.failure is not None:
            return Difference("rows", unlike)
        missing = Counter(map(_key, answer.rows)) - Counter(map(_key, whole.rows))
        rows = [row for row in answer.rows if _key(row) in missing]
        lost = [row for row in rows if not any(map(_rows_near(near), [row] * len(whole.rows), whole.rows))]
        return Difference("rows", f"no row of the whole result: {lost[0]}") if lost else None


def _outcomes(answer: Answer, reference: Answer) -> Difference | None:
    """Differences that show before any row."""
    if answer.failure is not None and reference.failure is not None:
        if answer.failure.kind == reference.failure.kind:
            return None
        return Difference("error class", f"{answer.brief()} instead of {reference.brief()}")
    if answer.failure is not None:
        return Difference("fails", answer.brief())
    if reference.failure is not None:
        return Difference("succeeds", f"{answer.brief()} instead of {reference.brief()}")
    if answer.names != reference.names:
        return Difference("names", f"{answer.names} instead of {reference.names}"[:400])
    if answer.types != reference.types:
        return Difference("types", f"{answer.types} instead of {reference.types}"[:400])
    return None


def near(left: Any, right: Any, relative: float) -> bool:
    """Whether two values are equal, floats within `relative` of each other."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=relative, abs_tol=1e-12)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(near(a, b, relative) for a, b in zip(left, right, strict=True))
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _rows_near(relative: float) -> Callable[[Row, Row], bool]:
    return lambda left, right: near(left, right, relative)


def _key(value: Any) -> Any:
    """Something hashable, equal for equal values: NaN equals itself."""
    if isinstance(value, tuple):
        return tuple(_key(item) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    if isinstance(value, float | Decimal):
        # Zero has two signs; 1 and 1.0 are one value of two types, which the types tell apart.
        return value + 0
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def bag_difference(rows: tuple[Row, ...], expected: tuple[Row, ...], relative: float) -> str | None:
    """None if the rows are equal in any order, else the first difference."""
    if len(rows) != len(expected):
        return f"{len(rows)} rows instead of {len(expected)}{_first_unlike(rows, expected)}"
    extra, missing = _unlike(rows, expected)
    if len(missing) > _MOST_INEXACT:
        extra.sort(key=repr)
        missing.sort(key=repr)
        pairs = zip(extra, missing, strict=False)
        return next(
            (f"{left} instead of {right}"[:400] for left, right in pairs if not near(left, right, relative)), None
        )
    for row in missing:
        at = next((at for at, other in enumerate(extra) if near(other, row, relative)), None)
        if at is None:
            return f"{extra[0] if extra else 'nothing'} instead of {row}"[:400]
        del extra[at]
    return None


def _unlike(rows: tuple[Row, ...], expected: tuple[Row, ...]) -> tuple[list[Row], list[Row]]:
    """Rows of either side that have no equal on the other."""
    have, want = Counter(map(_key, rows)), Counter(map(_key, expected))
    return _left(rows, have - want), _left(expected, want - have)


def _left(rows: tuple[Row, ...], counts: Counter[Any]) -> list[Row]:
    found = []
    for row in rows:
        key = _key(row)
        if counts[key] > 0:
            counts[key] -= 1
            found.append(row)
    return found


def _first_unlike(rows: tuple[Row, ...], expected: tuple[Row, ...]) -> str:
    extra, missing = _unlike(rows, expected)
    said = f", with {extra[0]}" if extra else ""
    said += f", without {missing[0]}" if missing else ""
    return said[:300]


def _keys_difference(
    rows: tuple[Row, ...], expected: tuple[Row, ...], keys: list[int], relative: float
) -> Difference | None:
    """Whether the sort keys come in the same order, and rows between equal keys are the same."""
    for at, (row, other) in enumerate(zip(rows, expected, strict=False)):
        left, right = tuple(row[key] for key in keys), tuple(other[key] for key in keys)
        if not near(left, right, relative):
            return Difference("order", f"row {at + 1} has key {left} instead of {right}"[:300])
    return None
