"""ASOF joins compared with DuckDB: random keys, times, conditions and settings, and places in queries."""

from __future__ import annotations

import math
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 2**63 - 1
DAY, MOMENT = date(2020, 1, 1), datetime(2020, 1, 1)
#: Values of times by name: the Arrow type, and a function from numbers to values.
TIMES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n - 50),
    "short": (pa.int16(), lambda n: n),
    "long": (pa.int64(), lambda n: [-MOST - 1, MOST, 0, -1][n] if n < 4 else (n - 60) * 10**15),
    "date": (pa.date32(), lambda n: DAY + timedelta(days=n)),
    "timestamp": (pa.timestamp("us"), lambda n: MOMENT + timedelta(microseconds=n * n)),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n - 50) / 4),
    "wide": (pa.decimal128(38, 1), lambda n: Decimal((n - 50) * 10**30)),
    "float": (pa.float64(), lambda n: [math.nan, math.inf, -math.inf, -0.0, 1e300][n] if n < 5 else (n - 50) / 8),
    "single": (pa.float32(), lambda n: [math.nan, math.inf, -math.inf, -0.0][n] if n < 4 else (n - 50) / 8),
    "text": (pa.string(), lambda n: f"{n:03} and a long text behind it" if n % 2 else f"{n:03}"),
    "bool": (pa.bool_(), lambda n: bool(n % 2)),
}
KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n),
    "far": (pa.int64(), lambda n: n * 10**17 - 5),
    "text": (pa.string(), lambda n: f"key {n}"),
    "decimal": (pa.decimal128(10, 3), lambda n: Decimal(n) / 8),
    "float": (pa.float64(), lambda n: [math.nan, -0.0, 0.0][n] if n < 3 else n / 2),
    "date": (pa.date32(), lambda n: DAY + timedelta(days=n)),
}


def side(
    draw: random.Random, rows: int, kinds: list[str], groups: int, time: str, spread: int, *, ties: bool
) -> pa.Table:
    """`id` is unique, `k0`, `k1` are keys, `t` is a time, `v` and `s` are payload.

    Without ties, times differ among rows of equal keys.
    """
    seen: set[Any] = set()
    columns: dict[str, list[Any]] = {"id": [], "t": [], "v": [], "s": [], **{f"k{at}": [] for at in range(len(kinds))}}
    for row in range(rows):
        keys = [None if draw.random() < 0.05 else int(groups * draw.random() ** 3) for _ in kinds]
        number = None if draw.random() < 0.08 else draw.randrange(spread)
        value = None if number is None else TIMES[time][1](number)
        made = [None if key is None else KEYS[kind][1](key) for key, kind in zip(keys, kinds, strict=True)]
        place = (str([0.0 if key == 0 else key for key in made]), str(0.0 if value == 0 else value))
        if not ties and place in seen:
            continue
        seen.add(place)
        columns["id"].append(row)
        columns["t"].append(value)
        columns["v"].append(None if draw.random() < 0.1 else draw.randrange(100))
        columns["s"].append(None if draw.random() < 0.1 else f"row {row}")
        for at, key in enumerate(made):
            columns[f"k{at}"].append(key)
    types = {"id": pa.int32(), "t": TIMES[time][0], "v": pa.int32(), "s": pa.string()}
    types |= {f"k{at}": KEYS[kind][0] for at, kind in enumerate(kinds)}
    order = list(range(len(columns["id"])))
    if draw.random() < 0.3 and time != "float":
        order.sort(key=lambda row: (columns["t"][row] is None, str(columns["t"][row])))
    return pa.table({name: pa.array([values[row] for row in order], types[name]) for name, values in columns.items()})


class Both:
    """A connection of Warpmill that refuses fallbacks, and one of DuckDB, with the same tables."""

    def __init__(self, device: str = "cpu") -> None:
        self.ours = warpmill.connect(device=device, device_fallback="error", fallback="error")
        self.theirs = duckdb.connect()

    def tables(self, tables: dict[str, pa.Table], *, stored: bool) -> None:
        for name, table in tables.items():
            self.ours.execute(f"DROP TABLE IF EXISTS {name}")
            self.ours.register("source" if stored else name, table)
            if stored:
                self.ours.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self.theirs.register("source", table)
            self.theirs.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM source")

    def unregister(self, tables: dict[str, pa.Table]) -> None:
        for name in tables:
            self.ours.unregister(name)

    def check(self, sql: str) -> int:
        """Compares the rows of a query, in any order; gives their number."""
        # DuckDB's joins make one zero of two.
        ours, theirs = (sorted(repr(row).replace("-0.0", "0.0") for row in con.execute(sql).fetchall())
                        for con in (self.ours, self.theirs))  # fmt: skip
        assert ours == theirs, (
            f"{sql}\n{[r for r in ours if r not in theirs][:3]}\n{[r for r in theirs if r not in ours][:3]}"
        )
        return len(ours)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    pair = Both()
    yield pair
    pair.ours.close()
    pair.theirs.close()


FORMS = [
    "SELECT l.*, {right} FROM l {join}",
    "SELECT l.id, {right} FROM l {join} WHERE r.v > 40",
    "SELECT l.id, {right} FROM l {join} WHERE l.v > 40",
    "SELECT l.id, {right} FROM l {join} WHERE l.v > 20 AND (r.v IS NULL OR r.v < l.v)",
    "SELECT l.v, count(*), count(r.t), sum(r.v), min(r.t) FROM l {join} GROUP BY l.v",
    "SELECT count(*), sum(r.v), sum(l.v) FROM l {join}",
    "SELECT l.id, {right}, o.id, o.s FROM l {join} JOIN o ON o.v = r.v",
    "SELECT l.id, {right}, o.id FROM l {join} LEFT JOIN o ON o.id = r.id WHERE l.id % 3 = 0",
    "SELECT x.id, x.t FROM (SELECT l.id, r.t FROM l {join}) x WHERE x.id IN (SELECT id FROM o)",
    "SELECT l.id, {right} FROM (SELECT * FROM l WHERE v < 70) l {join}",
    "SELECT o.id, l.id, {right} FROM o JOIN l ON o.id = l.id {join}",
]


#: Kinds of keys.
KINDS: list[list[str]] = [[], ["int"], ["int"], ["text"], ["far"], ["int", "text"], ["decimal"], ["date", "int"],
                          ["float"]]  # fmt: skip


def case(both: Both, seed: int, *, forms: int = 3, time: str | None = None, kinds: list[str] | None = None) -> int:
    """One random case; gives the number of rows that were compared."""
    draw = random.Random(seed)
    drawn = draw.choice(KINDS), draw.choice(list(TIMES))
    kinds, time = drawn[0] if kinds is None else kinds, time or drawn[1]
    groups, spread = draw.choice([1, 2, 5, 20]), draw.choice([6, 60, 100])
    sizes = [0, 1, 2, 10, 65, 200, 600]
    left, right = draw.choice(sizes), draw.choice(sizes)
    ties = draw.random() < 0.3
    tables = {
        "l": side(draw, left, kinds, groups, time, spread, ties=True),
        "r": side(draw, right, kinds, groups, time, spread, ties=ties),
        "o": side(draw, 50, [], 1, "int", 60, ties=True),
    }
    stored = draw.random() < 0.6
    both.tables(tables, stored=stored)
    for key, values in (("threads", [1, 2, 4]), ("chunk_rows", [4, 64, 2048]), ("equal_hashes", ["off", "off", "on"])):
        both.ours.set(key, draw.choice(values))
    both.theirs.execute(f"SET asof_loop_join_threshold = {draw.choice([0, 64])}")
    op = draw.choice([">=", ">", "<=", "<"])
    turned = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
    conditions = [f"l.k{at} = r.k{at}" if draw.random() < 0.5 else f"r.k{at} = l.k{at}" for at in range(len(kinds))]
    conditions.append(f"l.t {op} r.t" if draw.random() < 0.7 else f"r.t {turned[op]} l.t")
    conditions += [c for c in ("r.v < 80", "l.v > 30", "r.s IS NOT NULL") if draw.random() < 0.15]
    draw.shuffle(conditions)
    kind = draw.choice(["ASOF JOIN", "ASOF LEFT JOIN", "ASOF INNER JOIN", "ASOF LEFT OUTER JOIN"])
    on = f"ON {' AND '.join(conditions)}"
    join = f"{kind} r {on}"
    # Which of several rows of one time is taken is for each system to say.
    shown = "r.t" if ties else "r.id, r.t, r.s"
    rows = 0
    for form in draw.sample(FORMS, forms):
        sql = form.format(join=join, right=shown)
        if ties and any(part in form for part in ("r.v", "r.id")):
            continue
        rows += both.check(sql)
    if ties:
        # The row is one of the right side.
        sql = f"SELECT r.id, r.t, r.v, r.s FROM l {kind} r {on}"
        known = set(map(repr, both.ours.execute("SELECT id, t, v, s FROM r").fetchall()))
        assert {repr(row) for row in both.ours.execute(sql).fetchall() if row[0] is not None} <= known
    if not stored:
        both.unregister(tables)
    return rows


@pytest.mark.trials
@pytest.mark.parametrize("seed", range(trials(30)))
def test_random(both: Both, seed: int) -> None:
    for part in range(4):
        case(both, seed * 1000 + part)


def fill(both: Both) -> Both:
    """Tables of trades; times on the right side are unique."""
    both.ours.set("threads", 2)
    both.ours.set("chunk_rows", 2048)
    both.ours.set("equal_hashes", "off")
    draw = random.Random(9)
    tables = {
        "l": side(draw, 500, ["int"], 20, "timestamp", 5000, ties=True),
        "r": side(draw, 400, ["int"], 20, "timestamp", 5000, ties=False),
        "o": side(draw, 50, [], 1, "int", 60, ties=True),
    }
    right = tables["r"].to_pylist()
    times = [row["t"] for row in right]
    # No two rows have the same time, whatever their keys.
    tables["r"] = tables["r"].take([at for at, time in enumerate(times) if time is None or times.index(time) == at])
    both.tables(tables, stored=True)
    return both


#: ASOF joins within queries over `l`, `r` and `o`.
QUERIES = [
    "SELECT * FROM l ASOF JOIN r USING (k0, t)",
    "SELECT * FROM l ASOF LEFT JOIN r USING (k0, t)",
    "SELECT * EXCLUDE (t) FROM l ASOF LEFT JOIN r USING (t)",
    "SELECT l.id, r.id, b.id FROM l ASOF JOIN r USING (k0, t) ASOF LEFT JOIN r b ON b.k0 = l.k0 AND b.t >= l.t",
    "SELECT l.id, b.id FROM l, o ASOF LEFT JOIN r b ON b.v = o.v AND b.id <= o.id WHERE l.id = o.id",
    "SELECT l.id, r.id FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t - INTERVAL 1 SECOND >= r.t + INTERVAL 2 SECOND",
    "SELECT l.id, r.id FROM l ASOF JOIN r ON l.k0 + 1 = r.k0 * 2 AND l.id >= r.id % 50 + r.id / 1000",
    "SELECT l.id, r.id FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t::DATE > r.t WHERE l.k0 = 3",
    "SELECT l.id, r.id FROM l ASOF LEFT JOIN r USING (k0, t) WHERE l.k0 IN (1, 2) AND r.v IS NOT NULL",
    "SELECT count(*) FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t >= r.t WHERE false",
    "SELECT count(*) FROM l ASOF LEFT JOIN r ON l.k0 = r.k0 AND l.t >= r.t AND false",
    "SELECT id, (SELECT sum(r.v) FROM l b ASOF JOIN r USING (k0, t) WHERE b.id = l.id) FROM l",
    "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM o ASOF JOIN r ON o.id >= r.id WHERE o.id = l.id)",
    "WITH x AS (SELECT l.id, r.id rid FROM l ASOF JOIN r USING (k0, t)) SELECT * FROM x a JOIN x b ON a.rid = b.id",
    "SELECT id, sum(rid) OVER (ORDER BY id) FROM (SELECT l.id, r.id rid FROM l ASOF LEFT JOIN r USING (k0, t))",
    "SELECT l.id, r.id FROM l ASOF JOIN r USING (k0, t) ORDER BY l.id DESC LIMIT 10",
    "SELECT l.id, r.id FROM l ASOF JOIN r USING (k0, t) UNION ALL SELECT id, v FROM o",
    "SELECT l.id, r.id FROM l ASOF JOIN (SELECT k0, t, max(id) AS id FROM r GROUP BY ALL) r USING (k0, t)",
    "SELECT l.id, r.id FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t >= r.t AND l.t < '2020-01-01 00:00:09' "
    "AND r.t > '2020-01-01 00:00:01'",
    "SELECT l.id, r.v, r.t FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t >= r.t WHERE l.t < r.t + INTERVAL 1 SECOND",
    "SELECT l.id, r.id FROM l ASOF JOIN r ON l.v = r.v AND l.id::DOUBLE >= r.id::DECIMAL(10, 2)",
]


@pytest.fixture
def trades(both: Both) -> Both:
    return fill(both)


@pytest.mark.parametrize("sql", QUERIES)
def test_in_queries(trades: Both, sql: str) -> None:
    trades.check(sql)


def test_match_condition(trades: Both) -> None:
    """Snowflake's spelling keeps rows of the left side without a partner."""
    ours, theirs = trades.ours, trades.theirs
    for condition, on in [("l.t >= r.t", "ON l.k0 = r.k0"), ("r.t > l.t", "USING (k0)"), ("l.t < r.t", "")]:
        mine = f"SELECT l.id, r.id FROM l ASOF JOIN r MATCH_CONDITION ({condition}) {on} ORDER BY ALL"
        both = f"ON {condition}" if not on else f"ON l.k0 = r.k0 AND {condition}"
        other = f"SELECT l.id, r.id FROM l ASOF LEFT JOIN r {both} ORDER BY ALL"
        assert ours.execute(mine).fetchall() == theirs.execute(other).fetchall()


def test_views_and_parameters(trades: Both) -> None:
    ours = trades.ours
    ours.execute("CREATE OR REPLACE VIEW matched AS SELECT l.id, r.id AS rid FROM l ASOF LEFT JOIN r USING (k0, t)")
    expected = trades.theirs.execute(
        "SELECT l.id, r.id FROM l ASOF LEFT JOIN r USING (k0, t) WHERE l.id < 50"
    ).fetchall()
    assert sorted(ours.execute("SELECT * FROM matched WHERE id < ?", [50]).fetchall(), key=str) == sorted(
        expected, key=str
    )
    sql = "SELECT l.id, r.id FROM l ASOF JOIN r ON l.k0 = r.k0 AND l.t >= r.t AND r.v > ? ORDER BY 1"
    for least in (10, 90):
        assert ours.execute(sql, [least]).fetchall() == trades.theirs.execute(sql, [least]).fetchall()
    ours.execute("DROP VIEW matched")


def test_filters_stay_on_their_side_of_the_join(trades: Both) -> None:
    """Only conditions on the left side and on keys of both sides are pushed below the join."""
    sql = "SELECT l.id FROM l ASOF JOIN r USING (k0, t) WHERE l.k0 = 3 AND l.v > 5 AND r.v > 7"
    plan = "\n".join(str(row) for row in trades.ours.execute(f"EXPLAIN {sql}").fetchall())
    build, probe = plan.split("pipeline 1")
    assert "k0 = 3" in build
    assert "k0 = 3" in probe.split("probe")[0]
    assert "v > 5" in probe.split("probe")[0]
    assert "v > 7" not in build
    assert "v > 7" in probe.split("probe")[1]


@pytest.mark.parametrize(
    ("sql", "error", "text"),
    [
        ("SELECT * FROM l ASOF JOIN r ON l.k0 = r.k0", warpmill.BinderError, "Missing ASOF JOIN inequality"),
        (
            "SELECT * FROM l ASOF JOIN r ON l.t >= r.t AND l.v > r.v",
            warpmill.BinderError,
            "Multiple ASOF JOIN inequalities",
        ),
        ("SELECT * FROM l ASOF JOIN r ON l.t >= r.t AND l.v <> r.v", warpmill.NotSupportedError, "l.v != r.v"),
        ("SELECT * FROM l ASOF JOIN r ON l.t BETWEEN r.t AND r.t", warpmill.NotSupportedError, "BETWEEN"),
        (
            "SELECT * FROM l ASOF JOIN r ON l.t >= r.t AND l.k0 IS NOT DISTINCT FROM r.k0",
            warpmill.NotSupportedError,
            "neither",
        ),
        ("SELECT * FROM l ASOF RIGHT JOIN r ON l.t >= r.t", warpmill.NotSupportedError, "ASOF RIGHT JOIN"),
        ("SELECT * FROM l ASOF FULL OUTER JOIN r USING (t)", warpmill.NotSupportedError, "ASOF FULL JOIN"),
        ("SELECT * FROM l ASOF SEMI JOIN r USING (t)", warpmill.NotSupportedError, "ASOF SEMI JOIN"),
        ("SELECT * FROM l ASOF ANTI JOIN r USING (t)", warpmill.NotSupportedError, "ASOF ANTI JOIN"),
        ("SELECT * FROM l ASOF JOIN r ON l.t >= r.t AND l.v = (SELECT 1)", warpmill.NotSupportedError, "subqueries"),
        ("SELECT * FROM l ASOF JOIN r", warpmill.BinderError, "ON or a USING"),
        ("SELECT * FROM l ASOF JOIN r ON l.v >= r.s", warpmill.BinderError, "explicit cast"),
        ("SELECT * FROM l ASOF JOIN r ON l.t >= r.nothing", warpmill.BinderError, "nothing"),
        (
            "SELECT * FROM l ASOF JOIN (SELECT t + INTERVAL (l.v) DAY AS t FROM r) r USING (t)",
            warpmill.NotSupportedError,
            "left side",
        ),
        (
            "SELECT (SELECT max(r.id) FROM o ASOF JOIN r ON r.v >= o.v AND r.k0 = l.k0) FROM l",
            warpmill.NotSupportedError,
            "outer",
        ),
    ],
)
def test_refusals(trades: Both, sql: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        trades.ours.execute(sql).fetchall()


def wide(rows: int, keys: int, seed: int) -> pa.Table:
    draw = random.Random(seed)
    times = draw.sample(range(10 * rows), rows)
    return pa.table(
        {
            "k": pa.array([draw.randrange(keys) for _ in range(rows)], pa.int32()),
            "t": pa.array(times, pa.int64()),
            "s": pa.array([f"the payload of the row at {time}" for time in times]),
        }
    )


@pytest.mark.parametrize("kind", ["ASOF JOIN", "ASOF LEFT JOIN"])
def test_put_aside(both: Both, kind: str) -> None:
    """Both sides are partitioned by key where the right side does not fit."""
    both.tables({"wl": wide(30_000, 400, 1), "wr": wide(40_000, 500, 2)}, stored=True)
    sql = f"SELECT count(*), count(r.t), sum(r.t), min(r.s), max(l.s) FROM wl l {kind} wr r USING (k, t)"
    both.ours.set("memory_limit", 1 << 20)
    try:
        both.check(sql)
        relation = both.ours.execute(sql)
        assert sum(program["spilled_bytes"] for program in relation.profile["programs"]) > 0
    finally:
        both.ours.set("memory_limit", "unlimited")


@pytest.mark.parametrize("on", ["l.t >= r.t", "l.k % 1 = r.k % 1 AND l.t >= r.t"])
def test_rows_of_one_key_have_to_fit(both: Both, on: str) -> None:
    both.tables({"wl": wide(3_000, 4, 1), "wr": wide(60_000, 4, 2)}, stored=True)
    both.ours.set("memory_limit", 256 << 10)
    try:
        with pytest.raises(warpmill.OutOfMemoryError, match="ASOF"):
            both.ours.execute(f"SELECT count(*), min(r.s) FROM wl l ASOF JOIN wr r ON {on}").fetchall()
    finally:
        both.ours.set("memory_limit", "unlimited")


def test_plans_say_which_row_is_taken(both: Both) -> None:
    both.tables({"wl": wide(10, 2, 1)}, stored=True)
    plan = both.ours.explain("SELECT * FROM wl l ASOF JOIN wl r USING (k, t)")
    assert "asof" in plan
    assert ">= its order" in plan
