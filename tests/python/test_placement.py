"""Programs that the CPU and devices run together: whichever site runs which row segment, the answer is the same."""

from __future__ import annotations

import decimal
import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import warpmill
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEVICES = json.loads(_warpmill.devices())

pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")

#: Rows of `facts`: twelve row segments, of which the last is not full.
ROWS = 11 * 1024 + 300

#: Placements at random that are tried of all queries together. `WARPMILL_PLACEMENTS` says how many.
PLACEMENTS = trials(10_000, "WARPMILL_PLACEMENTS")

#: Each shares a scan of `facts`, with states or rows as results of the sites.
QUERIES = {
    "sums": "SELECT sum(amount), count(*), count(amount), avg(amount), min(price), max(day) FROM facts",
    "filtered": "SELECT sum(price), max(note), min(shop) FROM facts WHERE amount > 20 AND day < DATE '1990-01-01'",
    "no rows": "SELECT sum(amount), count(*), min(note) FROM facts WHERE (id % 7) * (id % 7) = 3",
    "by dictionary": "SELECT shop, sum(price) AS p, avg(price) AS a, count(amount) AS n FROM facts GROUP BY shop",
    "by number": "SELECT id % 700 AS k, sum(amount) AS s, min(shop) AS m, max(note) AS x FROM facts GROUP BY id % 700",
    "by text": "SELECT note, count(*) AS n, sum(price) AS p FROM facts GROUP BY note",
    "by float": "SELECT ratio, count(*) AS n, max(id) AS m FROM facts GROUP BY ratio",
    "by two": "SELECT shop, day, sum(amount) AS s, avg(ratio) AS r FROM facts WHERE id % 3 = 0 GROUP BY shop, day",
    "many groups": "SELECT id, any_value(shop) AS s, sum(big) AS b FROM facts GROUP BY id",
    "wide sums": "SELECT shop, sum(huge) AS h, avg(huge) AS a, sum(big) AS b FROM facts GROUP BY shop",
    "booleans": "SELECT shop, bool_and(amount > 3) AS a, bool_or(amount > 39) AS o FROM facts GROUP BY shop",
    "filters": """SELECT sum(amount) FILTER (WHERE id % 2 = 0) AS e, count(*) FILTER (WHERE shop = 'tor') AS t
                  FROM facts""",
    "having": "SELECT id % 50 AS k, sum(amount) AS s FROM facts GROUP BY id % 50 HAVING sum(amount) > 4400",
    "join": "SELECT city, count(*) AS n, sum(amount) AS s FROM facts JOIN shops ON shop = name GROUP BY city",
    "two joins": """SELECT city, weekday, sum(price) AS p FROM facts JOIN shops ON shop = name
                    JOIN days ON facts.day = days.day WHERE city <> 'Ulm' GROUP BY city, weekday""",
    "outer join": "SELECT id, city FROM facts LEFT JOIN shops ON shop = name AND amount > 30 WHERE id % 97 < 2",
    "semi join": "SELECT count(*), sum(id) AS s FROM facts WHERE shop IN (SELECT name FROM shops WHERE city = 'Kiel')",
    "anti join": "SELECT count(*) AS n FROM facts WHERE NOT EXISTS (SELECT 1 FROM shops WHERE name = shop)",
    "scalar": "SELECT count(*) AS n FROM facts WHERE amount > (SELECT avg(amount) FROM facts)",
    "rows": "SELECT id, shop, note, amount, price FROM facts WHERE id % 61 = 7",
    "top": "SELECT id, price FROM facts WHERE amount IS NOT NULL ORDER BY price DESC, id LIMIT 25 OFFSET 3",
    "sorted": "SELECT id, note FROM facts WHERE id % 40 = 1 ORDER BY note, id",
    "sorted groups": "SELECT shop, sum(amount) AS s FROM facts GROUP BY shop ORDER BY s DESC NULLS LAST, shop LIMIT 3",
    "float keys": """SELECT r.a, count(*) AS n FROM facts
                     JOIN (SELECT shop, avg(ratio) AS a FROM facts GROUP BY shop) AS r ON facts.shop = r.shop
                     GROUP BY r.a""",
    "groups joined": """SELECT city, n FROM (SELECT shop, count(*) AS n FROM facts GROUP BY shop) AS g
                        JOIN shops ON g.shop = name""",
}

#: One site runs these.
NOT_SHARED = {
    "distinct": "SELECT count(DISTINCT note), count(DISTINCT day) FROM facts",
    "variance": "SELECT stddev(ratio) FROM facts",
    "limit": "SELECT sum(id) FROM (SELECT id FROM facts WHERE id % 97 > 3 LIMIT 20000)",
    "one segment": "SELECT name FROM shops WHERE city = 'Kiel'",
    "logarithms": "SELECT ln(id + 1) AS k, count(*) AS n FROM facts GROUP BY ln(id + 1)",
    "rows from outside": """SELECT city, n FROM (SELECT shop, count(*) AS n FROM facts GROUP BY shop) AS g
                            JOIN outside ON g.shop = outside.name""",
}

#: Why, as EXPLAIN tells it.
REASONS = {
    "distinct": "sets of values are not merged",
    "variance": "moments are not merged",
    "limit": "a limit counts all rows",
    "one segment": "the table has one row segment",
    "logarithms": "functions of floats",
    "rows from outside": "rows from outside are read once",
}


def fill(con: warpmill.Connection) -> None:
    """A table of twelve row segments and two of one, with NULLs, texts, decimals, values beyond 64 bits."""
    rows = range(ROWS)
    names = ["nord", "süd", None, "hafen", "tor"]
    days = pa.array([i * 7 % 9000 for i in rows], pa.int32()).cast(pa.date32())
    con.execute("SET warpmill.segment_rows = 1024")
    con.create_table(
        "facts",
        pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "shop": [names[i * i % 5] for i in rows],
                "note": [f"note number {i * 37 % 1000}" for i in rows],
                "amount": pa.array([None if i % 11 == 0 else i * 13 % 41 for i in rows], pa.int32()),
                "price": pa.array([decimal.Decimal(i * 7 % 997) / 100 for i in rows], pa.decimal128(15, 2)),
                "ratio": pa.array([None if i % 13 == 0 else (i % 17) / 8 for i in rows], pa.float64()),
                "big": pa.array([(i * 2**40) * (-1) ** i for i in rows], pa.int64()),
                "huge": pa.array([decimal.Decimal(i * 10**25 + 1) for i in rows], pa.decimal128(38, 0)),
                "day": days,
            }
        ),
    )
    con.create_table(
        "shops", {"name": ["nord", "süd", "hafen", "west", None], "city": ["Kiel", "Ulm", "Kiel", "Ulm", "?"]}
    )
    calendar = sorted(set(days.to_pylist()))
    con.create_table("days", pa.table({"day": calendar, "weekday": [day.weekday() for day in calendar]}))
    con.register("outside", pa.table({"name": ["nord", "tor", "west"], "city": ["Kiel", "Ulm", "Ulm"]}))


@pytest.fixture(scope="module", params=["sim", "sim:3"])
def placed(request: pytest.FixtureRequest) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device=request.param, placement="segment") as con:
        fill(con)
        yield con


def rows(answer: Any) -> list[tuple[Any, ...]]:
    """The rows in a canonical order, floats rounded to the precision of sums."""

    def value(item: Any) -> Any:
        return float(f"{item:.9g}") if isinstance(item, float) and math.isfinite(item) else item

    found = [tuple(value(item) for item in row) for row in zip(*answer.arrow().to_pydict().values(), strict=True)]
    return sorted(found, key=lambda row: [(item is None, str(item)) for item in row])


def expected(con: warpmill.Connection, query: str) -> list[tuple[Any, ...]]:
    con.execute("SET warpmill.placement = 'program'")
    device = con.sql("SHOW warpmill.device").fetchall()[0][-1]
    con.execute("SET warpmill.device = 'cpu'")
    try:
        return rows(con.sql(query))
    finally:
        con.execute(f"SET warpmill.device = '{device}'")
        con.execute("SET warpmill.placement = 'segment'")


@pytest.mark.trials
@pytest.mark.parametrize("name", QUERIES)
def test_every_placement_has_the_same_answer(placed: warpmill.Connection, name: str) -> None:
    query = QUERIES[name]
    answer = expected(placed, query)
    sites, shared = set(), 0
    for seed in range(max(PLACEMENTS // (2 * len(QUERIES)), 4)):
        placed.execute(f"SET warpmill.debug.placement_seed = {seed}")
        result = placed.sql(query)
        assert rows(result) == answer, f"placement {seed} of {query}"
        segments = result.profile["programs"][0]["segments"] if "programs" in result.profile else []
        shared += bool(segments)
        sites |= {site for site, count in enumerate(segments) if count}
    assert shared > 0, "no placement shared the scan"
    assert len(sites) >= 2, f"only sites {sites} had row segments"


@pytest.mark.parametrize("name", QUERIES)
def test_whoever_comes_first_has_the_same_answer(placed: warpmill.Connection, name: str) -> None:
    answer = expected(placed, QUERIES[name])
    placed.execute("SET warpmill.debug.placement_seed = off")
    for _ in range(5):
        assert rows(placed.sql(QUERIES[name])) == answer


@pytest.mark.trials
@pytest.mark.parametrize("device", ["sim", "sim:3"])
@pytest.mark.parametrize("data", ["host", "pinned", "mirrored", "cache"])
def test_no_row_segment_is_lost_to_a_faster_site(tmp_path: Path, device: str, data: str) -> None:
    """The CPU leaves row segments that other sites finish sooner, and waits for them."""
    count = 200_000
    with warpmill.connect(tmp_path / "db", segment_rows=8192) as con:
        con.execute(f"CREATE TABLE t AS SELECT i AS k, i % 7 AS g FROM range(0, {count}) r(i)")
    with warpmill.connect(tmp_path / "db", device=device, placement="segment", device_data=data, threads=1) as con:
        con.execute("SET warpmill.device_cache_every = 3")
        for _ in range(trials(10)):
            result = con.sql("SELECT count(*), sum(k), count(DISTINCT g) FROM (SELECT g, k FROM t WHERE k >= 0)")
            assert result.fetchall() == [(count, count * (count - 1) // 2, 7)]
            # Pruned row segments are assigned to no site.
            assert con.sql("SELECT count(*), sum(k) FROM t WHERE k < 50000").fetchall() == [(50_000, 1_249_975_000)]
            assert rows(con.sql("SELECT g, count(*) FROM t GROUP BY g")) == sorted(
                (g, len(range(g, count, 7))) for g in range(7)
            )


@pytest.mark.parametrize("name", NOT_SHARED)
def test_what_cannot_be_shared_runs_on_one_site(placed: warpmill.Connection, name: str) -> None:
    query = NOT_SHARED[name]
    answer = expected(placed, query)
    placed.execute("SET warpmill.debug.placement_seed = 1")
    assert rows(placed.sql(query)) == answer


def test_explain_says_who_runs_what(placed: warpmill.Connection) -> None:
    plan = str(placed.sql(f"EXPLAIN {QUERIES['by dictionary']}").fetchall())
    assert "claim the 12 row segments of pipeline 0; states of the aggregation arrive at the cpu" in plan
    plan = str(placed.sql(f"EXPLAIN {QUERIES['rows']}").fetchall())
    assert "claim the 12 row segments of pipeline 0; rows arrive at the cpu" in plan


@pytest.mark.parametrize("name", NOT_SHARED)
def test_explain_says_why_one_site_runs_all(placed: warpmill.Connection, name: str) -> None:
    plan = str(placed.sql(f"EXPLAIN {NOT_SHARED[name]}").fetchall())
    assert "not shared: " in plan, plan
    assert REASONS[name] in plan, plan
    assert "claim the" not in plan


def test_first_runs_need_not_wait_for_a_compiler(placed: warpmill.Connection, request: pytest.FixtureRequest) -> None:
    # The process caches kernels: those of this query are new in each test case.
    aggregate = {"sim": "max", "sim:3": "min"}[request.node.callspec.params["placed"]]
    query = f"SELECT shop, {aggregate}(id % 13) AS m, sum(amount) AS s FROM facts WHERE id % 5 <> 2 GROUP BY shop"
    other = query.replace("<> 2", "<> 3")
    answer, other_answer = expected(placed, query), expected(placed, other)
    placed.execute("SET warpmill.placement = 'program'")
    placed.execute("SET warpmill.debug.first_runs = 'cpu'")
    try:
        first = placed.sql(query)
        assert rows(first) == answer
        profile = first.profile["programs"][0]
        assert (profile["device"], profile["not_on_device"]) == ("cpu", "its kernels are not compiled yet")
        assert _warpmill.wait_for_background(60)
        again = placed.sql(query)
        assert rows(again) == answer
        assert again.profile["programs"][0]["device"] == "sim"
        # Another literal needs no other kernels.
        new = placed.sql(other)
        assert rows(new) == other_answer
        assert new.profile["programs"][0]["device"] == "sim"
    finally:
        placed.execute("SET warpmill.debug.first_runs = 'auto'")
        placed.execute("SET warpmill.placement = 'segment'")


def test_the_faster_way_is_found(tmp_path: Path) -> None:
    """Shared and on the device alone are both tried, with the same answer; the simulated device is slower."""
    query = "SELECT g, sum(k), count(*) FROM t GROUP BY g ORDER BY g"
    with warpmill.connect(tmp_path / "db", segment_rows=8192) as con:
        con.execute("CREATE TABLE t AS SELECT i AS k, i % 7 AS g FROM range(0, 400000) r(i)")
        answer = con.sql(query).fetchall()
    with warpmill.connect(tmp_path / "db", device="sim", placement="segment", device_data="host") as con:
        ways = []
        for _ in range(24):
            result = con.sql(query)
            assert result.fetchall() == answer
            ways.append("shared" if result.profile["programs"][0]["segments"] else "alone")
            # The kernels for all of the program are compiled meanwhile.
            assert _warpmill.wait_for_background(60)
        assert ways[:2] == ["shared", "shared"]
        assert "alone" in ways[2:6], ways
        assert ways[8:].count("shared") > ways[8:].count("alone"), ways
        con.execute("SET warpmill.placement = 'program'")
        assert not con.sql(query).profile["programs"][0]["segments"]
