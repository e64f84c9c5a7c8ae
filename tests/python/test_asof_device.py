"""ASOF joins on the simulated device compared with DuckDB: the cases of `test_asof`, and device cases."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import warpmill
from test_asof import KINDS, QUERIES, TIMES, Both, case, fill, wide
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICES = json.loads(_warpmill.devices())
# Kernels of the simulated device are C++, which needs a compiler.
pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")

OPERATORS = [">=", ">", "<=", "<"]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    """Only the simulated device may run programs."""
    pair = Both("sim")
    yield pair
    pair.ours.close()
    pair.theirs.close()


@pytest.fixture
def trades(both: Both) -> Both:
    return fill(both)


@pytest.mark.trials
@pytest.mark.parametrize(("time", "kinds"), list(zip(TIMES, itertools.cycle(KINDS[2:]))), ids=str)
def test_kinds(both: Both, time: str, kinds: list[str]) -> None:
    for seed in range(trials(1)):
        case(both, 7 * seed + len(time), forms=1, time=time, kinds=kinds)


@pytest.mark.sample(5)
@pytest.mark.parametrize("sql", QUERIES)
def test_in_queries(trades: Both, sql: str) -> None:
    trades.check(sql)


def spread(rows: int, crowding: int, seed: int, *, keys: int) -> pa.Table:
    """Rows with keys that are mostly 0, and different times: evenly spread, or crowding at their least."""
    draw = random.Random(seed)
    times = draw.sample(range(20 * rows), rows)
    return pa.table(
        {
            "k": pa.array([int(keys * draw.random() ** 6) for _ in range(rows)], pa.int32()),
            "t": pa.array([int((time / (20 * rows)) ** crowding * 2**40) * 20 * rows + time for time in times]),
            "s": pa.array([f"row {time}" for time in times]),
        }
    )


@pytest.mark.parametrize("crowding", [1, 7])
@pytest.mark.parametrize("on", ["l.k = r.k", "true"])
def test_long_runs(both: Both, crowding: int, on: str) -> None:
    """Most rows have one key, or there is none."""
    tables = {name: spread(6_000, crowding, seed, keys=9) for seed, name in enumerate(("wl", "wr"))}
    both.tables(tables, stored=True)
    for op in OPERATORS:
        condition = f"l.t {op} r.t" if on == "true" else f"{on} AND l.t {op} r.t"
        both.check(f"SELECT count(*), sum(r.t), sum(l.t), min(r.s) FROM wl l ASOF JOIN wr r ON {condition}")


@pytest.mark.slow
def test_many_rows(both: Both) -> None:
    """Positions are reserved for several rows at once: some stay empty."""
    columns = "hash(i + {0}) % 100 AS k, (hash(i * 7 + {0}) % 10**9)::BIGINT AS t, i % 1000 AS v"
    for seed, (name, rows) in enumerate((("wl", 50_000), ("wr", 1_200_000))):
        values = columns.format(seed * 10**6)
        rows_of = (
            f"SELECT k::INTEGER AS k, CASE WHEN v > 3 THEN t END AS t, v FROM (SELECT {values} FROM range({rows}) r(i))"
        )
        both.tables({name: both.theirs.sql(rows_of).to_arrow_table()}, stored=True)
    for on in ("l.k = r.k AND l.t >= r.t", "l.t < r.t"):
        both.check(f"SELECT count(*), sum(r.t), sum(l.t) FROM wl l ASOF JOIN wr r ON {on}")


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_to_choose_from(both: Both, rows: int) -> None:
    both.tables({"wl": wide(100, 2, 1), "wr": wide(50, 1, 2).slice(0, rows)}, stored=True)
    for op in OPERATORS[rows % 2 :: 2]:
        both.check(f"SELECT l.*, r.t, r.s FROM wl l ASOF LEFT JOIN wr r ON l.k = r.k AND l.t {op} r.t")
        both.check(f"SELECT l.*, r.t, r.s FROM wl l ASOF JOIN wr r ON l.t {op} r.t")


def test_rows_of_the_same_time(both: Both) -> None:
    """Any of them is taken, and it is one of the right side."""
    rows = {"k": [row % 3 for row in range(3000)], "t": [row % 7 * 10 for row in range(3000)], "id": list(range(3000))}
    both.tables({"wr": pa.table(rows), "wl": pa.table({"k": [0, 1, 2, 3] * 20, "t": list(range(80))})}, stored=True)
    for op in OPERATORS:
        join = f"FROM wl l ASOF LEFT JOIN wr r ON l.k = r.k AND l.t {op} r.t"
        both.check(f"SELECT l.*, r.t {join}")
        found = both.ours.execute(f"SELECT l.k, r.t, r.id {join} WHERE r.id IS NOT NULL").fetchall()
        assert all((row % 3, row % 7 * 10) == (k, t) for k, t, row in found)


@pytest.mark.parametrize("key", ["k", "far", "text"])
@pytest.mark.sample(2, key=["far", "text"])
def test_in_parts(both: Both, key: str) -> None:
    tables = {name: wide(rows, 300, rows) for name, rows in (("wl", 5000), ("wr", 4000))}
    for name, table in tables.items():
        keys = table["k"].to_pylist()
        far, text = [key * 10**15 for key in keys], [f"key {key}" for key in keys]
        tables[name] = table.append_column("far", pa.array(far)).append_column("text", pa.array(text))
    both.tables(tables, stored=True)
    both.ours.set("device_partitions", 5)
    try:
        sql = f"SELECT count(*), count(r.t), sum(r.t), min(r.s) FROM wl l ASOF LEFT JOIN wr r USING ({key}, t)"
        both.check(sql)
        (program,) = both.ours.sql(sql).profile["programs"]
        assert program["on_device"]["parts"]
    finally:
        both.ours.set("device_partitions", 0)


@pytest.mark.parametrize("way", ["partitioned", "hybrid", "fallback", "naive"])
def test_without_memory_for_all_rows(both: Both, way: str) -> None:
    both.tables({"wl": wide(5000, 300, 1), "wr": wide(4000, 300, 2)}, stored=True)
    both.ours.set("device_join", way)
    both.ours.set("device_partitions", 3)
    both.ours.set("device_fallback", "allow")
    try:
        both.check("SELECT count(*), count(r.t), sum(r.t), min(r.s) FROM wl l ASOF LEFT JOIN wr r USING (k, t)")
    finally:
        both.ours.set("device_fallback", "error")
        both.ours.set("device_partitions", 0)
        both.ours.set("device_join", "auto")


@pytest.mark.parametrize(("same", "refused"), [(30, False), pytest.param(300, True, marks=pytest.mark.slow)])
def test_texts_as_times(both: Both, same: int, refused: bool) -> None:
    """Texts are compared by a prefix long enough to tell them apart, up to a limit."""
    texts = [f"{'x' * same}{number:04}" for number in range(60)]
    tables = {name: pa.table({"t": texts[at::2], "id": list(range(30))}) for at, name in enumerate(("wl", "wr"))}
    both.tables(tables, stored=True)
    sql = "SELECT l.id, r.id FROM wl l ASOF JOIN wr r ON l.t >= r.t"
    if refused:
        with pytest.raises(warpmill.Error, match="248 bytes"):
            both.ours.execute(sql).fetchall()
        both.ours.set("device_fallback", "allow")
    both.check(sql)
    both.ours.set("device_fallback", "error")


def test_several_devices(both: Both) -> None:
    """One of them runs the program, whatever the placement."""
    with warpmill.connect(device="sim:2", fallback="error") as con:
        con.create_table("wl", wide(3000, 30, 1))
        con.create_table("wr", wide(2000, 30, 2))
        both.tables({"wl": wide(3000, 30, 1), "wr": wide(2000, 30, 2)}, stored=True)
        sql = "SELECT count(*), count(r.t), sum(r.t), min(r.s) FROM wl l ASOF LEFT JOIN wr r USING (k, t)"
        for placement in ("program", "segment", "range"):
            con.set("placement", placement)
            assert con.execute(sql).fetchall() == both.theirs.execute(sql).fetchall()
