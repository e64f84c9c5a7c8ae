"""Window functions compared with DuckDB: functions and frames over random rows, and positions of windows in queries."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 2**63 - 1


def rows(count: int, seed: int, groups: int, *, skew: bool = False) -> pa.Table:
    """`id` is unique, `g` and `s` are keys of partitions, `o` has peers, and `f` all kinds of floats."""
    draw = random.Random(seed)

    def some(share: float, make: Any) -> list[Any]:
        return [None if draw.random() < share else make() for _ in range(count)]

    def group() -> int:
        return int(groups * draw.random() ** (6 if skew else 1))

    floats = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 1e300]
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "id": (list(range(count)), pa.int32()),
        "g": (some(0.05, group), pa.int32()),
        "s": (some(0.05, lambda: f"group {draw.randrange(max(groups, 1))} with a long name"), pa.string()),
        "o": (some(0.1, lambda: draw.randrange(20)), pa.int16()),
        "i": (some(0.1, lambda: draw.randrange(-1000, 1000)), pa.int32()),
        "b": (some(0.1, lambda: draw.choice([MOST // 8, -MOST // 8, 7, -1])), pa.int64()),
        "d": (some(0.1, lambda: Decimal(draw.randrange(-(10**6), 10**6)) / 100), pa.decimal128(12, 2)),
        "h": (some(0.1, lambda: Decimal(draw.randrange(10**20))), pa.decimal128(30, 0)),
        "x": (some(0.1, lambda: draw.randrange(-800, 800) / 8), pa.float64()),
        "f": (some(0.1, lambda: draw.choice(floats)), pa.float64()),
        "t": (some(0.1, lambda: "".join(draw.choices("abcé", k=draw.randrange(20)))), pa.string()),
        "day": (some(0.1, lambda: draw.randrange(18000, 18100)), pa.date32()),
        "ts": (some(0.1, lambda: draw.randrange(10**15, 10**15 + 10**11)), pa.timestamp("us")),
        "p": (some(0.1, lambda: draw.random() < 0.5), pa.bool_()),
    }
    return pa.table({name: pa.array(values, ty) for name, (values, ty) in columns.items()})


TABLES = {
    "many": rows(1500, 1, 12),
    "skewed": rows(1200, 2, 400, skew=True),
    "single": rows(600, 3, 1),
    "one": rows(1, 4, 1),
    "none": rows(0, 5, 1),
}


class Both:
    """A connection of Warpmill that refuses fallbacks, and one of DuckDB, with the same tables."""

    def __init__(self) -> None:
        self.ours, self.theirs = warpmill.connect(), duckdb.connect()
        for name, table in TABLES.items():
            self.ours.register("source", table)
            self.ours.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self.theirs.register("source", table)
            self.theirs.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
        self.ours.execute("SET warpmill.fallback = 'error'")

    def check(self, sql: str) -> None:
        """Compare the ordered rows of a query."""
        ours, theirs = self.ours.execute(sql).fetchall(), self.theirs.execute(sql).fetchall()
        assert len(ours) == len(theirs), sql
        for mine, other in zip(ours, theirs, strict=True):
            same = len(mine) == len(other) and all(map(alike, mine, other))
            assert same, f"{sql}\n{mine}\n{other}"


def alike(a: Any, b: Any) -> bool:
    """Equal, floats nearly: sums of frames are added up in another order."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    pair = Both()
    yield pair
    pair.ours.close()
    pair.theirs.close()


PARTITIONS = ["", "PARTITION BY g", "PARTITION BY s", "PARTITION BY g, p", "PARTITION BY f"]
#: Orders without peers, for functions that depend on single rows.
ORDERS = [
    "id",
    "o, id",
    "i DESC NULLS LAST, id",
    "t NULLS FIRST, id DESC",
    "f DESC, id",
    "d NULLS FIRST, id",
    "s, t, id",
]
#: Orders with peers.
PEERS = ["o", "o DESC NULLS FIRST", "day", "f", "t DESC", "d, o", "p NULLS FIRST, o DESC", "h DESC"]
POSITIONS = ["row_number()", "ntile(3)", "ntile(1000)", "lag(i)", "lead(t, 2)", "lag(d, 3, 0.25)", "lead(i, 2, -77777)",
             "lag(t, 1, 'none')", "lag(day, -1)", "lead(x, 0)", "lag(i, 100000)", "lag(i IGNORE NULLS)",
             "lead(t, 2 IGNORE NULLS)", "lag(ts)", "lead(p, 1, true)", "lag(h)", "lag(f)"]  # fmt: skip
RANKS = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
FRAMED = ["count(*)", "count(t)", "sum(i)", "sum(b)", "sum(d)", "sum(h)", "sum(x)", "avg(i)", "avg(d)", "avg(x)", "min(i)",
          "max(d)", "min(t)", "max(f)", "min(f)", "max(day)", "min(ts)", "max(h)", "bool_and(p)", "bool_or(p)", "min(s)",
          "first_value(i)", "last_value(t)", "nth_value(d, 2)", "first_value(i IGNORE NULLS)",
          "last_value(day IGNORE NULLS)", "nth_value(t, 2 IGNORE NULLS)", "sum(i) FILTER (WHERE o < 10)",
          "count(*) FILTER (WHERE p)", "avg(d) FILTER (WHERE g > 3)"]  # fmt: skip
ENDS = ["UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING"]


def frames(units: str, distances: list[str]) -> list[str]:
    """Frames of every pair of bounds."""
    pairs = [(a, b) for a in range(4) for b in range(a, 5) if b > 0]
    near, far = distances
    return [f"{units} BETWEEN {ENDS[a].format(far if a == 1 else near)} AND {ENDS[b].format(near if a < 3 else far)}"
            for a, b in pairs]  # fmt: skip


def over(call: str, window: str) -> str:
    return f"{call} OVER ({window})"


@pytest.mark.trials
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_positions(both: Both, table: str, partition: str) -> None:
    draw = random.Random(partition + table)
    for order in draw.sample(ORDERS, trials(3, most=len(ORDERS))):
        calls = ", ".join(over(call, f"{partition} ORDER BY {order}") for call in POSITIONS + RANKS)
        both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")
    for order in PEERS:
        calls = ", ".join(over(call, f"{partition} ORDER BY {order}") for call in RANKS)
        both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")


@pytest.mark.trials
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("frame", [*frames("ROWS", ["2", "5"]), "ROWS BETWEEN 90 PRECEDING AND 70 PRECEDING", ""])
def test_rows(both: Both, table: str, frame: str) -> None:
    draw = random.Random(frame + table)
    for partition in draw.sample(PARTITIONS, trials(2, most=len(PARTITIONS))):
        order = draw.choice(ORDERS)
        calls = ", ".join(over(call, f"{partition} ORDER BY {order} {frame}") for call in FRAMED)
        both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")


#: Functions that do not tell peers apart.
OF_SETS = [call for call in FRAMED if "_value" not in call]


@pytest.mark.trials
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("frame", [*frames("GROUPS", ["1", "3"]), "RANGE UNBOUNDED PRECEDING", ""])
def test_groups(both: Both, table: str, frame: str) -> None:
    draw = random.Random(frame + table)
    for partition in draw.sample(PARTITIONS[:3], trials(2, most=3)):
        order = draw.choice(PEERS)
        calls = ", ".join(over(call, f"{partition} ORDER BY {order} {frame}") for call in OF_SETS)
        both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")


#: Order keys, and distances of them.
DISTANCES = [
    ("o", ["1", "4"]),
    ("o DESC NULLS FIRST", ["1", "4"]),
    ("i NULLS FIRST", ["10", "300"]),
    ("x", ["2.5", "30"]),
    ("x DESC", ["2.5", "30"]),
    ("day", ["INTERVAL '3' DAY", "INTERVAL '20' DAY"]),
    ("ts DESC NULLS LAST", ["INTERVAL '2' HOUR", "INTERVAL '1' DAY"]),
]


@pytest.mark.trials
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("key", "distances"), DISTANCES)
def test_ranges(both: Both, table: str, key: str, distances: list[str]) -> None:
    draw, all_frames = random.Random(key + table), frames("RANGE", distances)
    for frame in draw.sample(all_frames, trials(5, most=len(all_frames))):
        partition = draw.choice(PARTITIONS[:3])
        calls = ", ".join(over(call, f"{partition} ORDER BY {key} {frame}") for call in OF_SETS)
        both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")


LEFT_OUT = ["CURRENT ROW", "GROUP", "TIES", "NO OTHERS"]


@pytest.mark.trials
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_frames_without_some_rows(both: Both, table: str, left_out: str) -> None:
    draw = random.Random(left_out + table)
    of_rows = [*frames("ROWS", ["2", "5"]), "ROWS BETWEEN 5 FOLLOWING AND 9 FOLLOWING"]
    of_groups = [*frames("GROUPS", ["1", "3"]), "RANGE UNBOUNDED PRECEDING"]
    for frame in draw.sample(of_rows, trials(4, most=len(of_rows))):
        window = f"{draw.choice(PARTITIONS)} ORDER BY {draw.choice(ORDERS)} {frame} EXCLUDE {left_out}"
        both.check(f"SELECT id, {', '.join(over(call, window) for call in FRAMED)} FROM {table} ORDER BY id")
    for frame in draw.sample(of_groups, trials(4, most=len(of_groups))):
        window = f"{draw.choice(PARTITIONS[:3])} ORDER BY {draw.choice(PEERS)} {frame} EXCLUDE {left_out}"
        both.check(f"SELECT id, {', '.join(over(call, window) for call in OF_SETS)} FROM {table} ORDER BY id")
    key, distances = draw.choice(DISTANCES)
    for frame in draw.sample(frames("RANGE", distances), trials(2, most=8)):
        window = f"PARTITION BY g ORDER BY {key} {frame} EXCLUDE {left_out}"
        both.check(f"SELECT id, {', '.join(over(call, window) for call in OF_SETS)} FROM {table} ORDER BY id")
    # Functions of places in the partition do not look at frames.
    window = f"PARTITION BY g ORDER BY id ROWS 3 PRECEDING EXCLUDE {left_out}"
    both.check(f"SELECT id, {', '.join(over(call, window) for call in POSITIONS)} FROM {table} ORDER BY id")


def test_windows_with_names_leave_rows_out(both: Both) -> None:
    both.check(
        """SELECT id, sum(i) OVER w, count(*) OVER (v ROWS 4 PRECEDING EXCLUDE CURRENT ROW), max(d) OVER (v)
           FROM many WINDOW v AS (PARTITION BY g ORDER BY id),
           w AS (v GROUPS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE TIES) ORDER BY id"""
    )
    both.check(
        """SELECT id, sum(i) OVER (v PARTITION BY g % 2 ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM many
           WINDOW v AS (ORDER BY id) ORDER BY id"""
    )


def test_frames_that_differ_in_excluded_rows_only(both: Both) -> None:
    window = "PARTITION BY g ORDER BY o GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    ends = ["", *(f"EXCLUDE {left_out}" for left_out in LEFT_OUT)]
    calls = ", ".join(f"sum(i) OVER ({window} {end}), count(*) OVER ({window} {end})" for end in ends)
    both.check(f"SELECT id, {calls} FROM many ORDER BY id")
    total, others = f"sum(i) OVER ({window})", f"sum(i) OVER ({window} EXCLUDE GROUP)"
    both.check(
        f"SELECT id, {total} - {others} AS x FROM many QUALIFY {others} > {total} OR x < 9 ORDER BY {others}, id"
    )


@pytest.mark.parametrize("call", ["median(i)", "list(i)", "sum(DISTINCT i)", "stddev(x)", "arg_max(i, x)"])
def test_other_aggregates_of_frames_without_some_rows_are_refused(call: str) -> None:
    with warpmill.connect() as con:
        con.create_table("t", pa.table({"i": [1, 2, 3], "x": [0.5, 1.5, 2.5]}))
        for frame in ("ROWS 2 PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"):
            with pytest.raises(warpmill.Error, match="EXCLUDE"):
                con.execute(f"SELECT {call} OVER (ORDER BY i {frame} EXCLUDE TIES) FROM t").fetchall()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_without_an_order(both: Both, table: str, partition: str) -> None:
    calls = ", ".join(over(call, partition) for call in OF_SETS)
    both.check(f"SELECT id, {calls} FROM {table} ORDER BY id")


QUERIES = [
    "SELECT g, sum(d) AS s, rank() OVER (ORDER BY sum(d) DESC) AS r FROM many GROUP BY g ORDER BY r, g",
    "SELECT s, sum(d) * 100 / sum(sum(d)) OVER () AS share FROM many GROUP BY s ORDER BY s",
    "SELECT id FROM many QUALIFY row_number() OVER (PARTITION BY g ORDER BY d DESC, id) <= 2 ORDER BY id",
    "SELECT * FROM (SELECT id, g, rank() OVER (PARTITION BY s ORDER BY i) AS r FROM skewed) WHERE r = 3 AND g < 5 ORDER BY id",
    "SELECT id, sum(i) OVER (PARTITION BY g ORDER BY id) AS a, rank() OVER (ORDER BY o) AS b, "
    "max(t) OVER (PARTITION BY s, g) AS c, lag(id) OVER (PARTITION BY g ORDER BY id DESC) AS d FROM many ORDER BY id",
    "WITH w AS (SELECT g, i, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM many) "
    "SELECT a.g, count(*), sum(a.i - b.i) FROM w a JOIN w b ON a.g = b.g AND a.n = b.n + 1 GROUP BY a.g ORDER BY a.g",
    "SELECT m.id, k.r FROM many m JOIN (SELECT id, dense_rank() OVER (ORDER BY o, id) AS r FROM skewed) k ON m.id = k.r ORDER BY 1",
    "SELECT id, rank() OVER (ORDER BY r DESC, id) FROM (SELECT id, rank() OVER (PARTITION BY g ORDER BY o) AS r FROM many) ORDER BY id",
    "SELECT r, count(*) FROM (SELECT dense_rank() OVER (PARTITION BY g ORDER BY o) AS r FROM many) GROUP BY r ORDER BY r",
    "SELECT id, count(*) OVER (PARTITION BY p) FROM (SELECT id, p FROM many UNION ALL SELECT id + 10000, p FROM single) ORDER BY id",
    "SELECT id, i - (SELECT avg(i) FROM many), sum(i * (SELECT max(o) FROM many)) OVER (PARTITION BY g ORDER BY id) FROM many ORDER BY id",
    "SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) FROM many WHERE g IN (SELECT g FROM skewed) AND i > 0 ORDER BY id LIMIT 9",
    "SELECT count(*) FROM (SELECT rank() OVER (ORDER BY id) FROM many)",
    "SELECT DISTINCT max(o) OVER (PARTITION BY g) AS m FROM many ORDER BY m",
    "SELECT id, sum(o) OVER w, count(*) OVER (w ROWS 3 PRECEDING) FROM many WINDOW w AS (PARTITION BY s ORDER BY id) ORDER BY id",
    "SELECT id, sum(2 * i + 1) OVER (PARTITION BY upper(s) ORDER BY id % 7, id) FROM many ORDER BY id",
    "SELECT max(n) FROM (SELECT row_number() OVER () AS n FROM many)",
    "SELECT id, last_value(nullif(i, 7) IGNORE NULLS) OVER (ORDER BY id ROWS 2 PRECEDING), lag(abs(i) IGNORE NULLS) OVER (ORDER BY id) FROM many ORDER BY id",
    "SELECT id, rank() OVER (ORDER BY id) + lead(id) OVER (ORDER BY id) FROM one",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(both: Both, sql: str) -> None:
    both.check(sql)


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_of_files(both: Both, sql: str, tmp_path_factory: Any) -> None:
    """Plans that DataFusion's rules have sorted."""
    import pyarrow.parquet as pq

    with warpmill.connect() as con:
        folder = tmp_path_factory.mktemp("windows")
        for name, table in TABLES.items():
            pq.write_table(table, folder / f"{name}.parquet")
            con.register_file(name, folder / f"{name}.parquet")
        con.execute("SET warpmill.fallback = 'error'")
        ours = con.execute(sql).fetchall()
    theirs = both.theirs.execute(sql).fetchall()
    assert len(ours) == len(theirs)
    assert all(all(map(alike, mine, other)) for mine, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    "frame", ["", "ORDER BY v", "ORDER BY v ROWS 3 PRECEDING", "ORDER BY v ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING"]
)
def test_sums_beyond_their_type_are_errors(frame: str) -> None:
    with warpmill.connect() as con:
        con.execute("SET warpmill.fallback = 'error'")
        most = 10**38 - 1
        con.register(
            "r", pa.table({"v": pa.array([Decimal(most), Decimal(most - 1), Decimal(5)], pa.decimal128(38, 0))})
        )
        with pytest.raises(warpmill.Error, match="overflow"):
            con.execute(f"SELECT sum(v) OVER ({frame}) FROM r").fetchall()
        # Single rows fit, although the sums up to them do not.
        single = "ORDER BY v ROWS BETWEEN CURRENT ROW AND CURRENT ROW"
        values = con.execute(f"SELECT sum(v) OVER ({single}) FROM r").fetchall()
        assert sorted(int(value) for (value,) in values) == [5, most - 1, most]
        con.register("b", pa.table({"v": pa.array([MOST, MOST, MOST], pa.int64())}))
        assert con.execute("SELECT sum(v) OVER () FROM b").fetchall() == [(3 * MOST,)] * 3


def test_rows_beyond_the_memory_limit_are_put_aside_or_an_error() -> None:
    """With a memory limit, DataFusion runs windows and sorts their input in files; without spilling, an error."""
    query = "SELECT max(r) FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY i) AS r FROM t)"
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS i, range % 7 AS g FROM range(1000000)")
        assert con.sql(query).profile["fallbacks"] == []
        con.execute("SET warpmill.memory_limit = '4MB'")
        result = con.sql(query)
        assert result.fetchall() == [(142_858,)]
        assert "put no rows aside" in result.profile["fallbacks"][0]
        con.execute("SET warpmill.spill = 'off'")
        with pytest.raises(warpmill.OutOfMemoryError, match="memory_limit"):
            con.execute(query).fetchall()


@pytest.mark.parametrize("groups", [1, 17, 90_000])
def test_many_rows(both: Both, groups: int) -> None:
    """Partitions that several threads compute, and many that one does."""
    count = 200_000
    columns = f"i, i * 7919 % {groups} AS g, i * 31 % 1000 AS o, i * 17 % 101 / 4.0 AS x"
    for con in (both.ours, both.theirs):
        con.execute("DROP TABLE IF EXISTS large")
        con.execute(f"CREATE TABLE large AS SELECT {columns} FROM (SELECT range AS i FROM range({count})) q")
    calls = [
        "row_number() OVER (PARTITION BY g ORDER BY o, i)",
        "rank() OVER (PARTITION BY g ORDER BY o)",
        "sum(o) OVER (PARTITION BY g ORDER BY i ROWS 100 PRECEDING)",
        "sum(x) OVER (PARTITION BY g ORDER BY i)",
        "min(x) OVER (PARTITION BY g ORDER BY i ROWS BETWEEN 50 PRECEDING AND 20 FOLLOWING)",
        "max(i) OVER (PARTITION BY g ORDER BY o RANGE BETWEEN 5 PRECEDING AND 3 PRECEDING)",
        "count(*) OVER (PARTITION BY g ORDER BY o GROUPS 2 PRECEDING)",
        "lag(x, 3) OVER (PARTITION BY g ORDER BY i)",
        "ntile(7) OVER (PARTITION BY g ORDER BY i DESC)",
    ]
    for call in calls:
        both.check(f"SELECT count(*), sum(v), min(v), max(v), count(v) FROM (SELECT i, {call} AS v FROM large)")
        both.check(f"SELECT i, v FROM (SELECT i, {call} AS v FROM large) WHERE i % 997 = 0 ORDER BY i")
