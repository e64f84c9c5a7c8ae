"""Statements that differ in literals only: a device compiles, opens, describes and copies nothing for them again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

#: The reason why there is no simulated device, if there is none.
NO_SIM = json.loads(_warpmill.devices())["no_simulated_device"]
needs_sim = pytest.mark.skipif(NO_SIM is not None, reason=str(NO_SIM))

ROWS = 20_000

#: Queries with a place for a literal, and literals.
QUERIES = {
    "filter": ("SELECT sum(v), count(*) FROM t WHERE v > {}", [90, 17, 55]),
    "dictionary": ("SELECT count(*), sum(v) FROM t WHERE s = 'name {}'", [7, 3, 12]),
    "strings of results": ("SELECT s, n FROM t WHERE id = {}", [7, 5000, 19_999]),
    "group": ("SELECT s, sum(v) FROM t WHERE v < {} GROUP BY s ORDER BY s", [50, 20, 97]),
    "join": ("SELECT d.name, sum(t.v) FROM t JOIN d ON t.k = d.k WHERE d.x <> {} GROUP BY 1 ORDER BY 1", [3, 5, 8]),
    "table with itself": ("SELECT count(*), sum(b.v) FROM t a JOIN t b ON a.id = b.k WHERE a.v <> {}", [30, 60, 80]),
}


@pytest.fixture
def con(tmp_path: Path) -> warpmill.Connection:
    con = warpmill.connect(tmp_path / "db", device="cpu", threads=2)
    con.set("segment_rows", "4096")
    con.sql(
        f"""CREATE TABLE t AS SELECT value AS id, value * 7919 % 101 AS v, value % 50 AS k,
            'name ' || (value % 20) AS s, 'note ' || (value * 104729 % 1000003) AS n FROM range({ROWS}) AS r(value)"""
    )
    con.sql(
        """CREATE TABLE d AS SELECT value AS k, 'group ' || (value % 3) AS name, value % 10 AS x
           FROM range(50) AS r(value)"""
    )
    con.set("device", "sim")
    con.set("device_fallback", "error")
    return con


def run(con: warpmill.Connection, query: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The rows of a query, and the device's profile of the only program."""
    result = con.sql(query)
    rows = result.fetchall()
    (program,) = result.profile["programs"]
    return rows, program["on_device"]


def on_cpu(con: warpmill.Connection, query: str) -> list[tuple[Any, ...]]:
    con.set("device", "cpu")
    try:
        return con.sql(query).fetchall()
    finally:
        con.set("device", "sim")


def copies(profile: dict[str, Any]) -> list[str]:
    return [transfer["what"] for transfer in profile["transfers"] if transfer["what"].endswith("to the device")]


@needs_sim
@pytest.mark.parametrize("name", QUERIES)
def test_other_literals_find_everything(con: warpmill.Connection, name: str) -> None:
    text, (first, *others) = QUERIES[name]
    rows, profile = run(con, text.format(first))
    assert rows == on_cpu(con, text.format(first))
    assert profile["described_segments"] > 0
    for literal in others:
        rows, profile = run(con, text.format(literal))
        assert rows == on_cpu(con, text.format(literal))
        assert profile["found_kernels"]
        assert profile["runs"] == 1
        if name != "strings of results":
            # A filter on the order of the table leaves other row segments for each literal.
            assert (profile["described_segments"], copies(profile)) == (0, [])


@needs_sim
def test_other_columns_are_opened_with_what_is_there(con: warpmill.Connection) -> None:
    run(con, "SELECT sum(v) FROM t WHERE k > 3")
    rows, profile = run(con, "SELECT sum(v), max(id) FROM t WHERE k > 3")
    assert profile["described_segments"] > 0
    assert rows == on_cpu(con, "SELECT sum(v), max(id) FROM t WHERE k > 3")


@needs_sim
def test_new_rows_are_described(con: warpmill.Connection) -> None:
    run(con, "SELECT sum(v), count(*) FROM t WHERE v > 5")
    con.set("device", "cpu")
    con.sql("INSERT INTO t SELECT 1, 77, 1, 'name 1', 'note' FROM range(10) AS r(value)")
    con.set("device", "sim")
    rows, profile = run(con, "SELECT sum(v), count(*) FROM t WHERE v > 6")
    assert profile["described_segments"] > 0
    assert rows == on_cpu(con, "SELECT sum(v), count(*) FROM t WHERE v > 6")


@needs_sim
def test_a_table_that_is_replaced_is_opened_again(con: warpmill.Connection) -> None:
    before, _ = run(con, "SELECT sum(x), count(*) FROM d WHERE x > 1")
    con.set("device", "cpu")
    con.sql("DROP TABLE d")
    con.sql("CREATE TABLE d AS SELECT value AS k, 'group' AS name, value % 10 + 1 AS x FROM range(50) AS r(value)")
    con.set("device", "sim")
    rows, profile = run(con, "SELECT sum(x), count(*) FROM d WHERE x > 2")
    assert profile["described_segments"] > 0
    assert rows == on_cpu(con, "SELECT sum(x), count(*) FROM d WHERE x > 2")
    assert rows != before


@needs_sim
def test_an_emptied_cache_is_filled_again(con: warpmill.Connection) -> None:
    run(con, "SELECT sum(v) FROM t WHERE v > 5")
    _warpmill.clear_device_caches()
    for literal in (6, 7):
        rows, profile = run(con, f"SELECT sum(v) FROM t WHERE v > {literal}")
        assert rows == on_cpu(con, f"SELECT sum(v) FROM t WHERE v > {literal}")
        assert (profile["described_segments"] > 0, copies(profile) != []) == (literal == 6, literal == 6)


@needs_sim
@pytest.mark.parametrize("data", ["mirrored", "pinned", "host"])
def test_data_that_passes_through_is_opened_once(con: warpmill.Connection, data: str) -> None:
    con.set("device_data", data)
    con.set("device_cache_every", "1")
    for literal in (5, 50, 90, 50):
        rows, profile = run(con, f"SELECT s, sum(v), min(n) FROM t WHERE v > {literal} GROUP BY s ORDER BY s")
        assert rows == on_cpu(con, f"SELECT s, sum(v), min(n) FROM t WHERE v > {literal} GROUP BY s ORDER BY s")
        assert profile["found_kernels"] or literal == 5
