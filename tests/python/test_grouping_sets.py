"""Grouping sets, ROLLUP and CUBE beside DuckDB, on the CPU and on the simulated device, without fallbacks."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_SIM = json.loads(_warpmill.devices())["no_simulated_device"]
DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(NO_SIM is not None, reason=str(NO_SIM)))]
MOST = 2**63 - 1
TABLES = {"many": 5000, "few": 40, "one": 1, "none": 0}


def rows(draw: random.Random, count: int) -> pa.Table:
    def some(share: float, make: Any) -> list[Any]:
        return [None if draw.random() < share else make() for _ in range(count)]

    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "a": (some(0.1, lambda: draw.randrange(5)), pa.int32()),
        "b": (some(0.1, lambda: int(20 * draw.random() ** 3)), pa.int64()),
        "s": (some(0.1, lambda: draw.choice(["x", "y", "", "a longer text than twelve"])), pa.string()),
        "u": (some(0.0, lambda: f"text {draw.randrange(10**9)}"), pa.string()),
        "day": (some(0.1, lambda: date(2020, 1, 1) + timedelta(days=draw.randrange(9))), pa.date32()),
        "i": (some(0.1, lambda: draw.randrange(-100, 100)), pa.int32()),
        "n": (some(0.0, lambda: draw.randrange(1000)), pa.int64()),
        "large": (some(0.1, lambda: draw.randrange(-MOST, MOST)), pa.int64()),
        "d": (some(0.1, lambda: Decimal(draw.randrange(-(10**6), 10**6)) / 100), pa.decimal128(15, 2)),
        "h": (some(0.1, lambda: Decimal(draw.randrange(-(10**20), 10**20)) / 1000), pa.decimal128(30, 3)),
        "x": (some(0.1, lambda: draw.randrange(-1000, 1000) / 8), pa.float64()),
        "p": (some(0.2, lambda: draw.random() < 0.3), pa.bool_()),
    }
    return pa.table({name: pa.array(values, ty) for name, (values, ty) in columns.items()})


class Both:
    """A connection of Warpmill that runs all of a query on one device, and one of DuckDB, with the same tables."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.ours, self.theirs = warpmill.connect(device=device, fallback="error"), duckdb.connect()
        self.ours.set("device_fallback", "error")
        for name, count in TABLES.items():
            source = rows(random.Random(name), count)
            self.ours.register("source", source)
            self.ours.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self.theirs.register("source", source)
            self.theirs.execute(f"CREATE TABLE {name} AS SELECT * FROM source")

    def check(self, sql: str) -> int:
        """Compare the rows, in any order; their number."""
        found, wanted = (normal(con.execute(sql).fetchall()) for con in (self.ours, self.theirs))
        assert found == wanted, (
            f"{sql}\n  more {list((found - wanted).items())[:5]}\n  less {list((wanted - found).items())[:5]}"
        )
        return sum(wanted.values())


def normal(found: list[Any]) -> Counter[Any]:
    def value(of: Any) -> Any:
        if isinstance(of, Decimal):
            of = float(of)
        if isinstance(of, float):
            # An average of decimals may lie between two numbers of seven digits; both sides round it the same way.
            return "nan" if math.isnan(of) else float(f"{of * (1 + 1e-9):.7g}")
        return of

    return Counter(tuple(value(of) for of in row) for row in found)


@pytest.fixture(scope="module", params=DEVICES)
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    pair = Both(request.param)
    yield pair
    pair.ours.close()
    pair.theirs.close()


PARTIAL = ["count(*)", "count(i)", "count(s)", "sum(i)", "sum(n)", "sum(large)", "sum(d)", "sum(h)", "sum(x)",
           "min(i)", "max(day)", "min(s)", "max(u)", "max(x)", "avg(i)", "avg(n)", "avg(d)", "avg(x)",
           "bool_and(p)", "bool_or(p)", "sum(i) FILTER (WHERE p)", "count(*) FILTER (WHERE n < 300)",
           "avg(d) FILTER (WHERE a = 1)"]  # fmt: skip
WHOLE = ["count(DISTINCT i)", "stddev(x)", "var_pop(n)", "sum(DISTINCT i)"]
SETS = ["ROLLUP (a, b, s)", "CUBE (a, s, day)", "GROUPING SETS ((a), (s))", "GROUPING SETS ((a, s), (b, day), ())",
        "ROLLUP (day)", "GROUPING SETS ((a, b), (a), (a), ())", "GROUPING SETS ((), ())", "GROUPING SETS ((u), (a))",
        "CUBE (u, a)", "a, ROLLUP (b, s)", "ROLLUP (a), ROLLUP (s)", "ROLLUP (a + 1, upper(s))"]  # fmt: skip


@pytest.mark.sample(5, both=["sim"])
@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("table", TABLES)
def test_sets(both: Both, table: str, sets: str) -> None:
    keys = [key for key in ("a", "b", "s", "day", "u") if f"{key}," in sets or f"{key})" in sets]
    if "+" in sets:
        keys = ["a + 1", "upper(s)"]
    shown = ", ".join([*keys, *PARTIAL])
    number = both.check(f"SELECT {shown} FROM {table} GROUP BY {sets}")
    assert number > 0 or table == "none"
    both.check(f"SELECT {', '.join([*keys, *PARTIAL[:4], *WHOLE])} FROM {table} GROUP BY {sets}")


@pytest.mark.sample(4, both=["sim"])
@pytest.mark.parametrize("table", TABLES)
def test_the_number_of_a_set(both: Both, table: str) -> None:
    for of in (
        "grouping(a)",
        "grouping(s)",
        "grouping(a, s)",
        "grouping(s, a)",
        "grouping(a), grouping(s)",
        "grouping_id(b, s, a)",
    ):
        both.check(f"SELECT a, b, s, {of}, count(*) FROM {table} GROUP BY CUBE (a, b, s)")
    both.check(f"SELECT a, count(*) FROM {table} GROUP BY ROLLUP (a, s) HAVING grouping(s) = 1")
    both.check(
        f"SELECT CASE WHEN grouping(a) = 1 THEN 'all' ELSE 'one' END AS what, sum(n) FROM {table} GROUP BY ROLLUP (a)"
    )


FOLLOWED = {
    "filter": "SELECT * FROM (SELECT a, s, count(*) AS c FROM {t} GROUP BY ROLLUP (a, s)) WHERE c > 3 OR a IS NULL",
    "having": "SELECT a, s, avg(n) AS m FROM {t} GROUP BY CUBE (a, s) HAVING count(*) > 10",
    "top": "SELECT a, s, sum(n) AS m FROM {t} GROUP BY ROLLUP (a, s) ORDER BY ALL DESC NULLS LAST LIMIT 7",
    "window": """SELECT a, c, sum(c) OVER (PARTITION BY a)
        FROM (SELECT a, s, count(*) AS c FROM {t} GROUP BY ROLLUP (a, s))""",
    "join": """SELECT l.a, r.c FROM {t} l JOIN (SELECT a, count(*) AS c FROM {t} GROUP BY ROLLUP (a)) r ON l.a = r.a
        WHERE l.n < 50""",
    "groups": "SELECT count(*), max(c) FROM (SELECT a, b, count(*) AS c FROM {t} GROUP BY CUBE (a, b))",
}


@pytest.mark.sample(5, both=["sim"])
@pytest.mark.parametrize("what", FOLLOWED)
@pytest.mark.parametrize("table", TABLES)
def test_what_follows(both: Both, table: str, what: str) -> None:
    both.check(FOLLOWED[what].format(t=table))


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_joins(both: Both, table: str) -> None:
    """The number of joined rows is an estimate: sums use 64 bits where that seems enough, and 128 after an overflow."""
    source = f"{table} l JOIN many r ON l.a = r.a"
    both.check(f"SELECT l.s, r.s, count(*), sum(l.n), avg(r.d), min(r.day) FROM {source} GROUP BY ROLLUP (l.s, r.s)")
    if table != "many":
        calls = "sum(r.large), sum(r.h), count(DISTINCT r.i)"
        both.check(f"SELECT l.s, r.b, {calls} FROM {source} GROUP BY GROUPING SETS ((l.s), (r.b), ())")


@pytest.mark.trials
def test_random_sets(both: Both) -> None:
    draw = random.Random(20261126)
    for _ in range(trials(60 if both.device == "cpu" else 6)):
        keys = draw.sample(["a", "b", "s", "day", "p", "i"], draw.randint(1, 4))
        subsets = [list(subset) for size in range(len(keys) + 1) for subset in combinations(keys, size)]
        sets = draw.sample(subsets, draw.randint(1, len(subsets)))
        # Selected columns must be a key of some set.
        used = sorted({key for subset in sets for key in subset})
        calls = draw.sample(PARTIAL if draw.random() < 0.7 else PARTIAL + WHOLE, draw.randint(1, 6))
        ids = [f"grouping({', '.join(draw.sample(used, draw.randint(1, len(used))))})"] if used else []
        where = draw.choice(["", "WHERE n < 500", "WHERE a > 100", "WHERE s LIKE 'a%'"])
        text = ", ".join(f"({', '.join(subset)})" for subset in sets)
        if not used and len(sets) == 1:
            continue
        shown, table = ", ".join([*used, *calls, *ids]), draw.choice(list(TABLES))
        both.check(f"SELECT {shown} FROM {table} {where} GROUP BY GROUPING SETS ({text})")


@pytest.mark.parametrize("device", ["cpu", *DEVICES[1:]])
def test_sets_are_of_the_same_rows(device: str, tmp_path: Path) -> None:
    """Rows that would differ between scans are computed once: random ones, those of a limit, and files."""
    with warpmill.connect(device=device) as con:
        con.execute("CREATE TABLE t AS SELECT i % 7 AS a, i % 11 AS b, i AS v FROM range(100000) r(i)")
        con.execute(f"COPY t TO '{tmp_path}/t.parquet'")
        sources = {
            "random": "(SELECT a, b, (random() * 1000)::INTEGER AS v FROM t)",
            "limit": "(SELECT * FROM t LIMIT 500)",
            "top": "(SELECT * FROM t ORDER BY a LIMIT 500)",
            "file": f"'{tmp_path}/t.parquet'",
        }
        for name, source in sources.items():
            for call in ("count(DISTINCT v)", "sum(DISTINCT v)", "stddev(v)"):
                sql = f"""SELECT grouping(a, b) AS g, {call} AS c, count(*) AS n, sum(v) AS s FROM {source}
                    GROUP BY GROUPING SETS ((a), (b), ())"""
                totals = con.execute(f"SELECT g, sum(n), sum(s) FROM ({sql}) GROUP BY g").fetchall()
                assert len(totals) == 3
                assert len({row[1:] for row in totals}) == 1, (name, call, totals)


@pytest.mark.skipif(NO_SIM is not None, reason=str(NO_SIM))
@pytest.mark.parametrize("settings", [{"placement": "segment"}, {"placement": "range", "device": "sim:2"}])
def test_sets_on_several_sites(settings: dict[str, str]) -> None:
    with warpmill.connect(device=settings.get("device", "sim"), segment_rows=1024) as con:
        con.set("placement", settings["placement"])
        con.execute("CREATE TABLE t AS SELECT i // 100 AS k, i % 7 AS a, i % 11 AS b, i AS v FROM range(20000) r(i)")
        for sets in ("ROLLUP (a, b)", "CUBE (a, b)", "ROLLUP (k, a)", "GROUPING SETS ((a), (b))"):
            for call in ("sum(v)", "count(DISTINCT v % 5)"):
                keys = "k, a" if "k" in sets else "a, b"
                sql = f"SELECT {keys}, count(*), avg(v), {call} FROM t GROUP BY {sets}"
                found = normal(con.execute(sql).fetchall())
                con.set("device", "cpu")
                wanted = normal(con.execute(sql).fetchall())
                con.set("device", settings.get("device", "sim"))
                assert found == wanted, sql


def test_one_scan_feeds_all_sets() -> None:
    with warpmill.connect(device="cpu", fallback="error") as con:
        con.execute("CREATE TABLE t AS SELECT i % 7 AS a, i % 11 AS b, i AS v FROM range(10000) r(i)")
        plan = con.sql("EXPLAIN SELECT a, b, sum(v), avg(v) FROM t GROUP BY CUBE (a, b)").fetchall()
        text = "\n".join(str(row[-1]) for row in plan)
        assert text.count("scan t") == 1, text
        plan = con.sql("EXPLAIN SELECT a, b, count(DISTINCT v) FROM t GROUP BY CUBE (a, b)").fetchall()
        text = "\n".join(str(row[-1]) for row in plan)
        assert text.count("scan t") == 4, text
