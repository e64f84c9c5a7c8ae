"""Window functions on the simulated device beside DuckDB: functions and frames over the rows of `test_windows`."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import warpmill
from test_windows import DISTANCES, MOST, ORDERS, PARTITIONS, PEERS, QUERIES, TABLES, Both, frames, over
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICES = json.loads(_warpmill.devices())
pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason=str(DEVICES["no_simulated_device"]))


class OnDevice(Both):
    """As `Both`, where only the simulated device may run programs."""

    def __init__(self) -> None:
        super().__init__()
        self.ours.set("device", "sim")
        self.ours.set("device_fallback", "error")


@pytest.fixture(scope="module")
def both() -> Iterator[OnDevice]:
    pair = OnDevice()
    yield pair
    pair.ours.close()
    pair.theirs.close()


RANKS = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
POSITIONS = ["row_number()", "ntile(3)", "ntile(1000)", "lag(i)", "lead(t, 2)", "lag(d, 3, 0.25)", "lead(i, 2, -7777)",
             "lag(t, 1, 'none')", "lag(day, -1)", "lead(x, 0)", "lag(i, 100000)", "lag(ts)", "lead(p, 1, true)",
             "lag(h)", "lag(f)", "lag(i IGNORE NULLS)", "lead(t, 2 IGNORE NULLS)",
             "lag(x, 0 IGNORE NULLS)"]  # fmt: skip
PICKED = ["first_value(i)", "last_value(t)", "nth_value(d, 2)", "last_value(h)", "first_value(p)", "nth_value(f, 1)",
          "first_value(i IGNORE NULLS)", "last_value(day IGNORE NULLS)", "nth_value(t, 2 IGNORE NULLS)"]  # fmt: skip
SUMMED = ["count(*)", "count(t)", "sum(i)", "sum(b)", "sum(d)", "sum(h)", "sum(x)", "avg(i)", "avg(b)", "avg(d)",
          "avg(h)", "avg(x)", "min(i)", "max(d)", "max(f)", "min(f)", "max(day)", "min(ts)", "max(h)", "min(h)",
          "bool_and(p)", "bool_or(p)", "min(o)", "max(b)"]  # fmt: skip


def listed(calls: list[str], window: str) -> str:
    return ", ".join(over(call, window) for call in calls)


@pytest.mark.sample(3)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_positions(both: OnDevice, table: str, partition: str) -> None:
    draw = random.Random(partition + table)
    window = f"{partition} ORDER BY {draw.choice(ORDERS)}"
    both.check(f"SELECT id, {listed(POSITIONS + RANKS + PICKED, window)} FROM {table} ORDER BY id")
    for order in draw.sample(PEERS, 2):
        both.check(f"SELECT id, {listed(RANKS, f'{partition} ORDER BY {order}')} FROM {table} ORDER BY id")


FRAMES = [*frames("ROWS", ["2", "5"]), "ROWS BETWEEN 90 PRECEDING AND 70 PRECEDING",
          "ROWS BETWEEN 300 PRECEDING AND 200 FOLLOWING", ""]  # fmt: skip


def some(draw: random.Random) -> list[str]:
    """Tables for one case, and one with many rows where it is one: every statement has kernels to compile."""
    wanted = trials(1, most=len(TABLES))
    return draw.sample(list(TABLES)[: 3 if wanted == 1 else None], wanted)


@pytest.mark.trials
@pytest.mark.parametrize("frame", FRAMES)
def test_rows(both: OnDevice, frame: str) -> None:
    draw = random.Random(frame)
    for table in some(draw):
        window = f"{draw.choice(PARTITIONS)} ORDER BY {draw.choice(ORDERS)} {frame}"
        both.check(f"SELECT id, {listed(SUMMED + PICKED, window)} FROM {table} ORDER BY id")


@pytest.mark.trials
@pytest.mark.parametrize("frame", [*frames("GROUPS", ["1", "3"]), "RANGE UNBOUNDED PRECEDING",
                                   "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", ""])  # fmt: skip
def test_groups(both: OnDevice, frame: str) -> None:
    draw = random.Random(frame)
    for table in some(draw):
        window = f"{draw.choice(PARTITIONS[:4])} ORDER BY {draw.choice(PEERS)} {frame}"
        both.check(f"SELECT id, {listed(SUMMED, window)} FROM {table} ORDER BY id")


@pytest.mark.trials
@pytest.mark.parametrize(("key", "distances"), DISTANCES)
def test_ranges(both: OnDevice, key: str, distances: list[str]) -> None:
    draw = random.Random(key)
    all_frames = frames("RANGE", distances)
    for frame in draw.sample(all_frames, trials(4, most=len(all_frames))):
        window = f"{draw.choice(PARTITIONS[:3])} ORDER BY {key} {frame}"
        for table in some(draw):
            both.check(f"SELECT id, {listed(draw.sample(SUMMED, 8), window)} FROM {table} ORDER BY id")


@pytest.mark.trials
@pytest.mark.parametrize("partition", PARTITIONS)
def test_without_an_order(both: OnDevice, partition: str) -> None:
    for table in some(random.Random(partition)):
        both.check(f"SELECT id, {listed(SUMMED, partition)} FROM {table} ORDER BY id")


#: Extremes of strings are the CPU's.
@pytest.mark.parametrize("sql", [sql for sql in QUERIES if "max(t)" not in sql])
def test_queries(both: OnDevice, sql: str) -> None:
    both.check(sql)


def test_what_is_refused_is_told(both: OnDevice) -> None:
    sql, reason = "SELECT id, max(t) OVER (ORDER BY id) FROM many ORDER BY id", "strings without a dictionary"
    with pytest.raises(warpmill.Error, match=reason):
        both.ours.execute(sql)
    assert reason in both.ours.explain(sql)
    both.ours.set("device_fallback", "allow")
    both.check(sql)
    both.ours.set("device_fallback", "error")


@pytest.mark.parametrize("frame", ["", "ORDER BY v", "ORDER BY v ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING"])
def test_sums_beyond_their_type_are_errors(frame: str) -> None:
    with warpmill.connect(device="sim", fallback="error") as con:
        most = 10**38 - 1
        values = [Decimal(most), Decimal(most - 1), Decimal(5)]
        con.create_table("r", pa.table({"v": pa.array(values, pa.decimal128(38, 0))}))
        with pytest.raises(warpmill.Error, match="overflow"):
            con.execute(f"SELECT sum(v) OVER ({frame}) FROM r").fetchall()
        con.set("device_fallback", "error")
        # Single rows fit, although the sums up to them do not.
        single = "ORDER BY v ROWS BETWEEN CURRENT ROW AND CURRENT ROW"
        found = con.execute(f"SELECT sum(v) OVER ({single}) FROM r").fetchall()
        assert sorted(int(value) for (value,) in found) == [5, most - 1, most]
        con.create_table("b", pa.table({"v": pa.array([MOST, MOST, MOST, -MOST - 1], pa.int64())}))
        assert con.execute("SELECT sum(v) OVER () FROM b").fetchall() == [(2 * MOST - 1,)] * 4
        found = con.execute("SELECT min(v) OVER (ORDER BY v), max(v) OVER (ORDER BY v) FROM b").fetchall()
        assert sorted(found) == [(-MOST - 1, -MOST - 1)] + [(-MOST - 1, MOST)] * 3


#: Partitions that many tiles belong to, of a few rows, and of one.
@pytest.mark.parametrize("groups", [1, 17, 9000, 20_000])
def test_many_rows(both: OnDevice, groups: int) -> None:
    count = 20_000
    columns = f"i, i * 7919 % {groups} AS g, i * 31 % 1000 AS o, i * 17 % 101 / 4.0 AS x"
    for con in (both.ours, both.theirs):
        con.execute("DROP TABLE IF EXISTS large")
        con.execute(f"CREATE TABLE large AS SELECT {columns} FROM (SELECT range AS i FROM range({count})) q")
    calls = [
        "row_number() OVER (PARTITION BY g ORDER BY o, i)",
        "rank() OVER (PARTITION BY g ORDER BY o)",
        "dense_rank() OVER (PARTITION BY g ORDER BY o)",
        "sum(o) OVER (PARTITION BY g ORDER BY i ROWS 100 PRECEDING)",
        "sum(x) OVER (PARTITION BY g ORDER BY i)",
        "avg(x) OVER (PARTITION BY g ORDER BY i ROWS 700 PRECEDING)",
        "max(x) OVER (PARTITION BY g ORDER BY i)",
        "min(x) OVER (PARTITION BY g ORDER BY i ROWS BETWEEN 50 PRECEDING AND 20 FOLLOWING)",
        "count(*) OVER (PARTITION BY g ORDER BY o GROUPS 2 PRECEDING)",
        "max(i) OVER (PARTITION BY g ORDER BY o RANGE BETWEEN 5 PRECEDING AND 3 PRECEDING)",
        "lag(x, 3) OVER (PARTITION BY g ORDER BY i)",
        "lead(nullif(o, 31), 2 IGNORE NULLS) OVER (PARTITION BY g ORDER BY i)",
        "last_value(CASE WHEN o <> 31 THEN o END IGNORE NULLS) OVER (PARTITION BY g ORDER BY i ROWS 9 PRECEDING)",
        "ntile(7) OVER (PARTITION BY g ORDER BY i DESC)",
    ]
    values = ", ".join(f"{call} AS v{at}" for at, call in enumerate(calls))
    sums = ", ".join(f"sum(v{at}), min(v{at}), max(v{at}), count(v{at})" for at in range(len(calls)))
    both.check(f"SELECT count(*), {sums} FROM (SELECT i, {values} FROM large)")
    both.check(f"SELECT * FROM (SELECT i, {values} FROM large) WHERE i % 97 = 0 ORDER BY i")


def test_strings_that_differ_late() -> None:
    """Strings of keys are looked at again, with more bytes, and in the end by the CPU."""
    texts = [f"{'x' * length}{number % 3}" for length in (20, 100) for number in range(60)]
    rows = pa.table({"id": range(len(texts)), "t": texts})
    long = pa.table({"id": range(60), "t": [f"{'y' * 300}{number % 3}" for number in range(60)]})
    sql = "SELECT id, count(*) OVER (PARTITION BY t), rank() OVER (ORDER BY t) FROM {} ORDER BY id"
    with warpmill.connect(device="sim", fallback="error") as con:
        for name, table in (("r", rows), ("l", long)):
            con.create_table(name, table)
            wanted = [(row, 20, 1 + sum(text < own for text in table["t"].to_pylist()))
                      for row, own in enumerate(table["t"].to_pylist())]  # fmt: skip
            assert con.execute(sql.format(name)).fetchall() == wanted


def test_rows_in_order_stay_in_it() -> None:
    with warpmill.connect(device="sim", fallback="error") as con:
        con.execute("CREATE TABLE t AS SELECT range AS i, range * 7919 % 10007 AS k FROM range(10007)")
        rows = "SELECT * FROM t ORDER BY k LIMIT 9000"
        found = con.execute(f"SELECT i, k, row_number() OVER () AS n FROM ({rows}) ORDER BY k")
        assert found.fetchall() == [(key * pow(7919, -1, 10007) % 10007, key, key + 1) for key in range(9000)]


PASSING = [
    """SELECT id, rank() OVER (PARTITION BY g ORDER BY o), lag(t) OVER (PARTITION BY s ORDER BY id)
       FROM many ORDER BY id""",
    """SELECT m.id, sum(k.i) OVER (PARTITION BY m.o ORDER BY m.id), max(m.d) OVER ()
       FROM many m JOIN single k USING (id) ORDER BY 1""",
    """SELECT g, n, sum(n) OVER (ORDER BY n, g) FROM (SELECT g, count(*) AS n FROM many GROUP BY g) ORDER BY g""",
]


@pytest.mark.parametrize("data", ["cache", "host"])
@pytest.mark.parametrize("partitions", [0, 3])
def test_data_that_passes_through(both: OnDevice, data: str, partitions: int) -> None:
    """Rows that come in batches, and of joins in parts."""
    both.ours.set("device_data", data)
    both.ours.set("device_partitions", partitions)
    for sql in PASSING:
        both.check(sql)
    both.ours.set("device_data", "cache")
    both.ours.set("device_partitions", 0)


def test_results_feed_the_device(both: OnDevice) -> None:
    """Operators above a window run on the device, too."""
    ranks = "SELECT o, rank() OVER (PARTITION BY g ORDER BY o) AS r FROM many"
    sql = f"SELECT r, count(*), sum(o) FROM ({ranks}) GROUP BY r ORDER BY r"
    both.check(sql)
    profile: Any = both.ours.sql(sql).profile
    assert profile["fallbacks"] == []
