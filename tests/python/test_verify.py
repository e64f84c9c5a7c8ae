"""The comparison of answers in the benchmarks: accepted and rejected differences."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from warpmill.bench.engines import Measured
from warpmill.bench.queries import Query
from warpmill.bench.runner import measure
from warpmill.bench.verify import EXACT, Tolerance, difference, equal, has_limit, order_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

D = Decimal


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1),
        (1, D("1.00")),
        (D("1.5"), D("1.50")),
        (1.0, 1.0 + 1e-12),
        (D("25.522006"), 25.522005853257337),
        (D("25.522005"), 25.522005853257337),
        (None, None),
        (float("nan"), float("nan")),
        (dt.datetime(2024, 1, 1), dt.date(2024, 1, 1)),
    ],
)
def test_equal(left: object, right: object) -> None:
    assert equal(left, right)
    assert equal(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 2),
        (1, None),
        (0, None),
        (D("1.01"), D("1.02")),
        (1.0, 1.0 + 1e-7),
        (D("25.52"), 25.54),
        ("a", "A"),
        (dt.datetime(2024, 1, 1, 1), dt.date(2024, 1, 1)),
    ],
)
def test_different(left: object, right: object) -> None:
    assert not equal(left, right)
    assert not equal(right, left)


def test_order_keys_are_those_of_the_outermost_query() -> None:
    sql = (
        "select a, sum(b) as s from (select * from t order by z limit 3) group by a order by s desc, t.a -- order by x"
    )
    assert order_keys(sql, ["a", "s"]) == [1, 0]
    assert not has_limit(sql)
    assert order_keys("select a from t", ["a"]) == []
    assert order_keys("select a, b from t order by 2, c, a limit 5", ["a", "b"]) == [1]
    assert has_limit("select a from t order by a LIMIT 5")


SORTED = "select k, v from t order by k"


def test_rows_with_equal_keys_may_come_in_any_order() -> None:
    expected = [(1, "a"), (1, "b"), (2, "c")]
    assert difference([(1, "b"), (1, "a"), (2, "c")], expected, ["k", "v"], SORTED) is None
    assert difference([(1, "b"), (1, "b"), (2, "c")], expected, ["k", "v"], SORTED)


def test_rows_in_the_wrong_order_differ() -> None:
    found = difference([(2, "c"), (1, "a")], [(1, "a"), (2, "c")], ["k", "v"], SORTED)
    assert found is not None
    assert "sort key" in found


def test_a_limit_may_cut_through_a_tie_only() -> None:
    sql = SORTED + " limit 2"
    assert difference([(1, "a"), (2, "x")], [(1, "a"), (2, "y")], ["k", "v"], sql) is None
    assert difference([(1, "z"), (2, "x")], [(1, "a"), (2, "y")], ["k", "v"], sql)
    assert difference([(1, "a"), (2, "x")], [(1, "a"), (2, "y")], ["k", "v"], SORTED)


def test_without_an_order_rows_are_a_set() -> None:
    sql = "select * from t"
    assert difference([(1,), (2,)], [(2,), (1,)], ["a"], sql) is None
    assert difference([(1,), (1,)], [(2,), (1,)], ["a"], sql)
    assert difference([(1.0000000001,), (None,)], [(None,), (1.0,)], ["a"], sql) is None


def test_counts_of_rows_and_columns() -> None:
    assert difference([(1,)], [], ["a"], "select a from t") == "1 rows, expected 0"
    assert difference([(1, 2)], [(1,)], ["a"], "select a from t") == "2 columns, expected 1"
    assert difference([], [], ["a"], "select a from t") is None


@dataclass
class Scripted:
    """An engine that gives one answer after the other."""

    name: str
    answers: Sequence[list[tuple[Any, ...]]]
    column_names: Sequence[str] = ("a",)
    devices: frozenset[str] = frozenset({"sim"})
    log: list[str] = field(default_factory=list)
    given: int = 0
    fixed_text: bool = False
    tolerance: Tolerance = EXACT

    def close(self) -> None:
        self.log.append("close")

    def admit(self, sql: str) -> None:
        del sql

    def ready(self) -> None:
        self.log.append("ready")

    def run(self, sql: str) -> Any:
        del sql
        self.log.append("run")
        self.given += 1
        return Given(self.answers[min(self.given, len(self.answers)) - 1])

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        self.log.append("rows")
        # Rows are fetched once, as from a cursor.
        assert isinstance(result, Given)
        rows, result.rows = result.rows, []
        return rows

    def measured(self, result: Any) -> Measured:
        del result
        return Measured(devices=self.devices, kernel_ms=1.0)

    def profiled(self, sql: str) -> Any:
        return self.run(sql)


@dataclass
class Given:
    """A result."""

    rows: list[tuple[Any, ...]]
    column_names: Sequence[str] = ("a",)


RIGHT, WRONG = [(1,), (2,)], [(1,), (3,)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [(0, "the first run"), (1, "a timed run"), (3, "a timed run"), (4, "a run with its kernels timed"), (None, "")],
)
def test_every_run_is_compared(wrong: int | None, named: str) -> None:
    reference = Scripted("duckdb", [RIGHT])
    engine = Scripted("warpmill", [WRONG if run == wrong else RIGHT for run in range(7)])
    (outcome,) = measure([engine], [Query("q", "SELECT a FROM t ORDER BY a")], 3, reference, lambda *_: None)
    assert engine.given == 7
    assert outcome.verified is (wrong is None)
    assert (outcome.error or "").startswith(named)
    assert len(outcome.runs_ms) == 3


def test_nothing_is_compared_between_timed_runs() -> None:
    reference = Scripted("duckdb", [RIGHT])
    engine = Scripted("warpmill", [RIGHT], devices=frozenset({"cpu"}))
    measure([engine], [Query("q", "SELECT a FROM t")], 2, reference, lambda *_: None)
    assert engine.log == ["run", "rows", "ready", "run", "ready", "run", "rows", "rows"]
