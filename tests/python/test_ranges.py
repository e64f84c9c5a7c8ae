"""Joins on inequalities and ranges compared with DuckDB.

The rows of a build side are sorted, and rows between two bounds are found by search.
"""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 2**63 - 1


def side(draw: random.Random, rows: int) -> pa.Table:
    def some(share: float, make: Any) -> list[Any]:
        return [None if draw.random() < share else make() for _ in range(rows)]

    extremes = [MOST, -MOST - 1, 0, 1, -1]
    floats = [math.nan, math.inf, -math.inf, 0.0, 0.5, -2.0]
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "id": (list(range(rows)), pa.int32()),
        "k": (some(0.05, lambda: int(4 * draw.random() ** 3)), pa.int32()),
        "a": (some(0.1, lambda: draw.randrange(100)), pa.int32()),
        "b": (some(0.1, lambda: draw.randrange(100)), pa.int32()),
        "n": (some(0.1, lambda: draw.randrange(100)), pa.int64()),
        "x": (some(0.1, lambda: draw.choice(extremes)), pa.int64()),
        "f": (some(0.1, lambda: draw.choice(floats)), pa.float64()),
        "d": (some(0.1, lambda: Decimal(draw.randrange(1000)) / 100), pa.decimal128(9, 2)),
        "h": (some(0.1, lambda: Decimal(draw.randrange(10**22)) / 10), pa.decimal128(38, 1)),
        "t": (some(0.1, lambda: datetime(2020, 1, 1) + timedelta(seconds=draw.randrange(1000))), pa.timestamp("us")),
        "s": (some(0.1, lambda: "".join(draw.choices("ab", k=draw.randrange(6)))), pa.string()),
    }
    return pa.table({name: pa.array(values, ty) for name, (values, ty) in columns.items()})


class Both:
    """A connection of Warpmill that refuses fallbacks, and one of DuckDB, with the same tables."""

    def __init__(self) -> None:
        self.ours, self.theirs = warpmill.connect(device="cpu", fallback="error"), duckdb.connect()

    def table(self, name: str, table: pa.Table) -> None:
        self.ours.register("source", table)
        self.ours.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM source")
        self.theirs.register("source", table)
        self.theirs.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM source")

    def check(self, sql: str) -> int:
        """Compares the rows of a query, in any order; gives their number."""
        ours, theirs = (sorted(map(repr, con.execute(sql).fetchall())) for con in (self.ours, self.theirs))
        assert ours == theirs, (
            f"{sql}\n{[r for r in ours if r not in theirs][:3]}\n{[r for r in theirs if r not in ours][:3]}"
        )
        return len(ours)

    def names_range(self, sql: str) -> bool:
        return "within its order" in str(self.ours.execute(f"EXPLAIN {sql}").fetchall())


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    pair = Both()
    yield pair
    pair.ours.close()
    pair.theirs.close()


CONDITIONS = [
    "l.a BETWEEN r.a AND r.b",
    "r.a BETWEEN l.a AND l.b",
    "l.a < r.b",
    "l.a >= r.n",
    "l.a > r.a AND l.a < r.n",
    "l.n BETWEEN r.a - 3 AND r.a + 3",
    "l.a + 1 > r.a AND l.a < r.b + 2 AND l.id <> r.id",
    "l.x BETWEEN r.x AND r.x",
    "l.x > r.x",
    "l.f >= r.f",
    "l.f > r.f AND l.f <= r.f",
    "l.d BETWEEN r.d AND r.d + 0.25",
    "l.h BETWEEN r.h AND r.h + 100000000000000000000",
    "l.t BETWEEN r.t - INTERVAL 5 SECOND AND r.t + INTERVAL 5 SECOND",
    "l.t > r.t AND l.t <= r.t + INTERVAL 10 SECOND",
    "l.s BETWEEN r.s AND r.s || 'b'",
    "l.s < r.s",
    "l.a <= r.a AND l.b >= r.b",
    "l.a < r.b AND (l.n > 50 OR r.n IS NULL)",
    "l.a BETWEEN r.a AND r.b AND l.k IS NOT DISTINCT FROM r.k",
    "l.k = r.k AND l.a BETWEEN r.a AND r.b",
    "l.k = r.k AND l.t BETWEEN r.t AND r.t + INTERVAL 5 SECOND",
    "l.k = r.k AND r.n > l.a - 5 AND r.n < l.a + 5 AND l.f < 1",
    "l.a BETWEEN r.a AND r.b AND l.n > 20 AND r.n < 80",
    "l.a // (r.b + 1) > 2 AND l.a > r.a",
]
FORMS = [
    "SELECT l.id, r.id FROM l JOIN r ON {on}",
    "SELECT l.id, r.id FROM l LEFT JOIN r ON {on}",
    "SELECT l.id, r.id FROM l RIGHT JOIN r ON {on}",
    "SELECT l.id, r.id FROM l FULL JOIN r ON {on}",
    "SELECT l.id FROM l SEMI JOIN r ON {on}",
    "SELECT l.id FROM l ANTI JOIN r ON {on}",
    "SELECT l.id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {on})",
    "SELECT l.id, EXISTS (SELECT 1 FROM r WHERE {on}) FROM l",
    "SELECT l.k, count(*), sum(r.a), min(r.s) FROM l LEFT JOIN r ON {on} GROUP BY l.k",
    "SELECT l.id, (SELECT count(*) FROM r WHERE {on}) FROM l",
]


@pytest.mark.parametrize("on", CONDITIONS)
def test_random(both: Both, on: str) -> None:
    draw = random.Random(on)
    for sizes in [(300, 300), (300, 300), (200, 800), (800, 90), (0, 200), (200, 0), (1, 200), (200, 1)]:
        both.table("l", side(draw, sizes[0]))
        both.table("r", side(draw, sizes[1]))
        for key, values in (("threads", [1, 2]), ("chunk_rows", [16, 2048]), ("equal_hashes", ["off", "on"])):
            both.ours.set(key, draw.choice(values))
        for form in draw.sample(FORMS, 4):
            if ("FULL" in form and " OR " in on) or ("//" in on and "JOIN" not in form):
                continue
            both.check(form.format(on=on))


def test_which_joins_have_ranges(both: Both) -> None:
    draw = random.Random(1)
    both.table("l", side(draw, 1000))
    both.table("r", side(draw, 1000))
    for on in (
        "l.a BETWEEN r.a AND r.b",
        "r.a BETWEEN l.a AND l.b",
        "l.n < r.n",
        "l.k = r.k AND l.a BETWEEN r.a AND r.b",
    ):
        assert both.names_range(f"SELECT count(*) FROM l JOIN r ON {on}"), on
    for on in ("l.a <> r.a", "l.k = r.k AND l.a < r.b", "l.a + r.a > 5", "l.id = r.id AND l.a BETWEEN r.a AND r.b"):
        assert not both.names_range(f"SELECT count(*) FROM l JOIN r ON {on}"), on


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_put_aside(both: Both, kind: str) -> None:
    draw = random.Random(3)
    both.table("l", side(draw, 3000))
    both.table("r", side(draw, 6000))
    on = "l.t BETWEEN r.t AND r.t + INTERVAL 1 SECOND"
    sql = f"SELECT count(*), sum(l.id), sum(r.id), min(l.s || r.s) FROM l {kind} r ON {on}"
    both.ours.set("threads", 2)
    expected = both.ours.execute(sql).fetchall()
    assert expected == both.theirs.execute(sql).fetchall()
    both.ours.set("memory_limit", 64 << 10)
    try:
        relation = both.ours.execute(sql)
        assert relation.fetchall() == expected
        assert sum(program["spilled_bytes"] for program in relation.profile["programs"]) > 0
    finally:
        both.ours.set("memory_limit", "unlimited")
