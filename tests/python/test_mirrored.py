"""Mirrored data with copies of some segments on a device: any set of copies gives the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from test_placement import DEVICES, NOT_SHARED, QUERIES, fill, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")

POLICIES = ["lru_column", "lru_segment", "lfu_column", "lfu_segment", "lru2_column", "lru2_segment", "semantic"]
PLACEMENTS = ["program", "segment", "segment_ungrouped", "operator_by_data", "operator_by_cost"]
SOME = ["sums", "filtered", "by dictionary", "two joins", "outer join", "top", "wide sums"]


@pytest.fixture
def mirrored() -> Iterator[warpmill.Connection]:
    with warpmill.connect(device="sim", device_data="mirrored", threads=2) as con:
        fill(con)
        con.execute("SET warpmill.device_cache_every = 2")
        yield con
        con.execute("SET warpmill.device_cache_limit = 'unlimited'")


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[Any, ...]]]:
    with warpmill.connect(device="cpu") as con:
        fill(con)
        return {name: rows(con.sql(query)) for name, query in (QUERIES | NOT_SHARED).items()}


def counts(answer: Any) -> dict[str, int]:
    """The counts of copies since the device was opened."""
    on_device = answer.profile["programs"][0]["on_device"]
    return dict(on_device["mirror"]) if on_device else {}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_query_has_the_same_answer(
    mirrored: warpmill.Connection, answers: dict[str, list[tuple[Any, ...]]], placement: str
) -> None:
    mirrored.execute(f"SET warpmill.placement = '{placement}'")
    mirrored.execute("SET warpmill.device_cache_limit = '100KB'")
    for _ in range(2):
        for name, query in (QUERIES | NOT_SHARED).items():
            assert rows(mirrored.sql(query)) == answers[name], name


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_keep_to_their_room(
    mirrored: warpmill.Connection, answers: dict[str, list[tuple[Any, ...]]], policy: str
) -> None:
    mirrored.execute(f"SET warpmill.device_cache_policy = '{policy}'")
    mirrored.execute("SET warpmill.placement = 'program'")
    seen = []
    for limit in ("0KB", "60KB", "unlimited"):
        if limit != "0KB":
            mirrored.execute(f"SET warpmill.device_cache_limit = '{limit}'")
        else:
            # Less than any segment.
            mirrored.execute("SET warpmill.device_cache_limit = '1B'")
        first = counts(mirrored.sql(QUERIES["sums"]))
        for _ in range(3):
            for name in SOME:
                answer = mirrored.sql(QUERIES[name])
                assert rows(answer) == answers[name], name
        last = counts(answer)
        if limit == "60KB":
            assert 0 < last["bytes"] <= 60 << 10
        seen.append((last["hits"] - first["hits"], last["misses"] - first["misses"]))
    (none, all_missed), (some, _), (most, few_missed) = seen
    assert none == 0 < some < most, seen
    assert few_missed < all_missed, seen


def test_tables_that_are_replaced_have_no_old_copies(mirrored: warpmill.Connection) -> None:
    for number in range(6):
        mirrored.execute(f"CREATE OR REPLACE TABLE t AS SELECT id * {number + 1} AS a, shop FROM facts")
        expected = mirrored.sql("SELECT sum(id) FROM facts").fetchall()[0][0] * (number + 1)
        for policy in ("semantic", "lru_segment"):
            mirrored.execute(f"SET warpmill.device_cache_policy = '{policy}'")
            for _ in range(4):
                assert mirrored.sql("SELECT sum(a) FROM t").fetchall() == [(expected,)]
