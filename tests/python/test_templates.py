"""Plans that run with other literals: off, for planning decides by values that they do not follow (`DEPENDENT`)."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 20_000

DEVICES = ["cpu"]
if json.loads(_warpmill.devices())["no_simulated_device"] is None:
    DEVICES.append("sim")


def _tables() -> dict[str, pa.Table]:
    noise = random.Random(5)
    days = [noise.randrange(8_000, 10_000) for _ in range(ROWS)]
    sales = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "item": pa.array([noise.randrange(200) for _ in range(ROWS)], pa.int32()),
            "amount": pa.array([noise.randrange(-50, 5_000) if i % 13 else None for i in range(ROWS)], pa.int16()),
            "tiny": pa.array([noise.randrange(-128, 128) for _ in range(ROWS)], pa.int8()),
            "day": pa.array(days, pa.int32()).cast(pa.date32()),
            "moment": pa.array([day * 86_400_000_000 + i for i, day in enumerate(days)], pa.timestamp("us")),
            "rate": pa.array([noise.randrange(0, 11) for _ in range(ROWS)], pa.int32()).cast(pa.decimal128(15, 2)),
            "real": pa.array([noise.random() * 100 for _ in range(ROWS)], pa.float64()),
            "city": pa.array([f"city {noise.randrange(40)}" if i % 7 else None for i in range(ROWS)]),
        }
    )
    items = pa.table(
        {
            "item": pa.array(range(200), pa.int32()),
            "name": pa.array([f"item {i % 60}" for i in range(200)]),
            "price": pa.array([i * 7 % 100 for i in range(200)], pa.int32()).cast(pa.decimal128(15, 2)),
        }
    )
    return {"sales": sales, "items": items}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    path, peer = tmp_path_factory.mktemp("db"), duckdb.connect()
    with warpmill.connect(path) as con:
        for name, table in _tables().items():
            for one in (con, peer):
                one.register("given", table)
                one.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    yield str(path), peer
    peer.close()


def _rows(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(round(value, 6) if isinstance(value, float) else value for value in row)) for row in rows)


#: Texts with {0}, {1}, ... and the literals of three and more statements: the plan of the third is that of the second.
SHARED: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "numbers": (
        "SELECT count(*), sum(amount) FROM sales WHERE amount > {0} AND item < {1}",
        [(300, 150), (400, 130), (999, 140), (256, 190), (700, 180)],
    ),
    "ranges": (
        "SELECT count(*), sum(amount), min(id) FROM sales WHERE amount BETWEEN {0} AND {1}",
        [(300, 2_000), (400, 4_000), (999, 1_000), (500, 1_500)],
    ),
    "small integers": (
        "SELECT tiny, count(*) FROM sales WHERE tiny >= {0} AND item = {1} GROUP BY tiny",
        [(10, 33), (20, 44), (99, 55), (77, 66)],
    ),
    "whole numbers of decimals": (
        "SELECT count(*), sum(price) FROM items WHERE price < {0}",
        [(24,), (99,), (10,), (50,)],
    ),
    "decimals": (
        "SELECT count(*), sum(rate) FROM sales WHERE rate >= {0} AND rate < {1} + 0.50",
        [("1.50", "3.00"), ("2.00", "4.00"), ("1.25", "9.25")],
    ),
    "sums of decimals": (
        "SELECT count(*), sum(amount) FROM sales WHERE rate BETWEEN {0} - 1.50 AND {0} + 2.51",
        [("3.00",), ("4.00",), ("8.00",), ("5.25",)],
    ),
    "dates": (
        "SELECT count(*), sum(amount) FROM sales WHERE day >= DATE '{0}' AND day < DATE '{0}' + INTERVAL '1' YEAR",
        [("1992-01-01",), ("1993-01-01",), ("1996-02-29",), ("1995-06-30",)],
    ),
    "days before": (
        "SELECT city, count(*) FROM sales WHERE day <= DATE '{0}' - INTERVAL '{1}' DAY GROUP BY city",
        [("1996-12-01", 90), ("1995-12-01", 60), ("1994-03-01", 10)],
    ),
    "timestamps": (
        "SELECT count(*), max(moment) FROM sales WHERE moment < DATE '{0}' + INTERVAL '3' MONTH",
        [("1994-01-31",), ("1995-08-31",), ("1995-11-30",)],
    ),
    "texts": (
        "SELECT city, count(*), sum(amount) FROM sales WHERE city = '{0}' GROUP BY city",
        [("city 1",), ("city 22",), ("nowhere",), ("city 7",), ("",)],
    ),
    "lists": (
        "SELECT city, count(*) FROM sales WHERE city IN ('{0}', '{1}', '{2}', '{3}') GROUP BY city",
        [
            ("city 1", "city 2", "city 3", "city 4"),
            ("city 5", "city 6", "nowhere", "city 8"),
            ("city 9", "city 10", "city 11", "x"),
        ],
    ),
    "lists with equal values": (
        "SELECT item, count(*) FROM sales WHERE item IN ({0}, {1}, {2}) GROUP BY item",
        [(11, 12, 13), (14, 15, 16), (17, 17, 17), (18, 18, 19)],
    ),
    "joins": (
        "SELECT name, sum(amount) AS s FROM sales JOIN items ON sales.item = items.item AND price > {0} "
        "WHERE city <> '{1}' GROUP BY name HAVING sum(amount) > {2} ORDER BY s DESC, name LIMIT 5",
        [(10, "city 1", 10_000), (20, "city 2", 20_000), (30, "city 3", 30_000), (99, "city 4", 15_000)],
    ),
    "outer joins": (
        "SELECT count(*), count(name) FROM sales LEFT JOIN items ON sales.item = items.item AND price > {0} "
        "WHERE amount < {1}",
        [(10, 1_000), (20, 2_000), (95, 3_000)],
    ),
    "subqueries": (
        "SELECT count(*) FROM sales WHERE item IN (SELECT item FROM items WHERE price > {0}) "
        "AND amount > (SELECT avg(amount) FROM sales WHERE city = '{1}')",
        [(50, "city 1"), (60, "city 2"), (70, "city 9")],
    ),
    "correlated": (
        "SELECT count(*) FROM items WHERE EXISTS (SELECT 1 FROM sales WHERE sales.item = items.item AND amount > {0})",
        [(4_000,), (4_900,), (4_990,), (4_500,)],
    ),
    "unions": (
        "SELECT city, amount FROM sales WHERE amount > {0} UNION ALL SELECT name, price FROM items WHERE price < {1}",
        [(4_980, 10), (4_990, 20), (4_950, 15)],
    ),
    "disjunctions": (
        "SELECT count(*) FROM sales WHERE (city = '{0}' AND amount < {1}) OR (NOT item >= {2} AND tiny = {3})",
        [("city 1", 300, 20, 15), ("city 2", 400, 50, 16), ("city 3", 900, 99, 17)],
    ),
    "floats": (
        "SELECT count(*) FROM sales WHERE real < {0}",
        [("10.5",), ("20.5",), ("99.5",), ("70.1",)],
    ),
    "no rows": (
        "SELECT city, sum(amount) FROM sales WHERE amount > {0} AND amount < {1} GROUP BY city",
        [(1_000, 2_000), (3_000, 3_500), (4_000, 1_000), (1_500, 4_000)],
    ),
}

#: The same of statements whose plans depend on their literals: each is planned.
ALONE: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "conditions that imply others": (
        "SELECT count(*) FROM sales WHERE amount > {0} AND amount > {1}",
        [(100, 200), (300, 400), (600, 500), (900, 800)],
    ),
    "equal and not": (
        "SELECT count(*) FROM sales WHERE item = {0} AND item = {1}",
        [(11, 12), (13, 14), (15, 15), (16, 16)],
    ),
    "limits": ("SELECT id FROM sales ORDER BY id LIMIT {0}", [(3,), (5,), (0,), (7,)]),
    "patterns": ("SELECT count(*) FROM sales WHERE city LIKE '{0}'", [("city 1%",), ("%2",), ("%",), ("city 3",)]),
    "places": ("SELECT round(avg(real), {0}) FROM sales", [(1,), (2,), (3,)]),
    "values of results": ("SELECT id + {0} FROM sales WHERE id < 3", [(10,), (20,), (30,)]),
    "groups": ("SELECT item % {0}, count(*) FROM sales GROUP BY 1", [(3,), (4,), (5,)]),
    "texts of dates": (
        "SELECT count(*) FROM sales WHERE day < '{0}'",
        [("1993-01-01",), ("1994-01-01",), ("1995-1-1",)],
    ),
}


def _texts(of: tuple[str, list[tuple[object, ...]]]) -> list[str]:
    text, literals = of
    return [text.format(*values) for values in literals]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SHARED)
def test_other_literals_run_the_same_plan(data: tuple[str, Any], name: str, device: str) -> None:
    path, peer = data
    with warpmill.connect(path, device=device) as con:
        con.execute("SET warpmill.profile = 'on'")
        con.execute("SET warpmill.debug.templates = 'on'")
        for number, text in enumerate(_texts(SHARED[name])):
            result = con.sql(text)
            assert result.profile["plan_template"] == (number >= 2), text
            assert not result.profile["plan_cached"]
            assert _rows(result.fetchall()) == _rows(peer.sql(text).fetchall()), text
            again = con.sql(text)
            assert again.profile["plan_cached"]
            assert _rows(again.fetchall()) == _rows(peer.sql(text).fetchall()), text


@pytest.mark.parametrize("name", ALONE)
def test_others_are_planned(data: tuple[str, Any], name: str) -> None:
    path, peer = data
    with warpmill.connect(path) as con:
        con.execute("SET warpmill.profile = 'on'")
        con.execute("SET warpmill.debug.templates = 'on'")
        for text in _texts(ALONE[name]):
            result = con.sql(text)
            assert not result.profile["plan_template"], text
            assert _rows(result.fetchall()) == _rows(peer.sql(text).fetchall()), text


@pytest.mark.parametrize(
    "texts",
    [
        ["amount > 1000", "amount > 2000", "amount > 40000", "amount > 99999", "amount > 3000000000", "amount > 5"],
        ["rate < 1.50", "rate < 2.50", "rate < 2.505", "rate < 10.5", "rate < 3", "rate < 1e0"],
        ["price = 24", "price = 35", "price = 100", "price = 7"],
        ["city = 'city 1'", "city = 'city 2'", "city = 'it''s'", "city = 'Zürich'", r"city = 'a\nb'"],
        ["day = DATE '1995-01-01'", "day = DATE '1995-02-01'", "day = DATE '1995-2-1'"],
        ["item IN (11, 12)", "item IN (13, 14)", "item IN (15, NULL)", "item IN (15, 200)"],
    ],
    ids=lambda texts: texts[0],
)
def test_literals_of_other_kinds_are_planned(data: tuple[str, Any], texts: list[str]) -> None:
    path, peer = data
    with warpmill.connect(path) as con:
        for text in texts:
            table = "items" if "price" in text else "sales"
            sql = f"SELECT count(*) FROM {table} WHERE {text}"
            assert con.sql(sql).fetchall() == peer.sql(sql).fetchall(), text


def test_bad_dates_are_errors_as_ever(data: tuple[str, Any]) -> None:
    with warpmill.connect(data[0]) as con:
        text = "SELECT count(*) FROM sales WHERE day < DATE '{}'"
        for day in ("1995-01-01", "1995-02-01", "1995-03-01"):
            con.sql(text.format(day)).fetchall()
        with pytest.raises(warpmill.Error, match="1995-02-30"):
            con.sql(text.format("1995-02-30")).fetchall()


def test_plans_follow_tables_and_settings(tmp_path: Any) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("SET warpmill.profile = 'on'")
        con.execute("SET warpmill.debug.templates = 'on'")
        con.execute("CREATE TABLE t AS SELECT range AS x FROM range(100)")
        text = "SELECT count(*), max(x) FROM t WHERE x >= {}"
        asked = iter(range(10, 100))

        def run() -> tuple[int, tuple[Any, ...], bool]:
            least = next(asked)
            result = con.sql(text.format(least))
            return least, result.fetchall()[0], result.profile["plan_template"]

        assert [run()[2] for _ in range(4)] == [False, False, True, True]
        con.execute("INSERT INTO t VALUES (1000)")
        least, found, template = run()
        assert (found, template) == ((101 - least, 1000), False)
        least, found, template = run()
        assert (found, template) == ((101 - least, 1000), True)
        con.execute("DROP TABLE t")
        con.execute("CREATE TABLE t AS SELECT CAST(range AS DOUBLE) AS x FROM range(200)")
        least, found, _ = run()
        assert found == (200 - least, 199.0)
        assert run()[2]
        con.execute("SET warpmill.plan_cache = 'off'")
        least, found, template = run()
        assert (found, template) == ((200 - least, 199.0), False)


def test_wide_sums_of_other_literals(tmp_path: Any) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("SET warpmill.profile = 'on'")
        con.execute("SET warpmill.debug.templates = 'on'")
        con.execute(
            "CREATE TABLE few AS SELECT 1 AS k, x FROM (VALUES (9223372036854775807), (9223372036854775806)) t(x)"
        )
        con.execute("CREATE TABLE many AS SELECT 1 AS k, range AS n FROM range(1000)")
        # Estimates take the join for one of few rows.
        text = "SELECT sum(x) FROM few JOIN many ON few.k = many.k WHERE n < {}"
        for least in (10, 20, 30, 99, 50):
            found = con.sql(text.format(least)).fetchall()
            assert found == [((2**63 - 1 + 2**63 - 2) * least,)]


def test_random_statements(data: tuple[str, Any]) -> None:
    """Conditions at random, each with literals at random."""
    path, peer = data
    noise = random.Random(11)

    def number(digits: int) -> str:
        return str(noise.randrange(10 ** (digits - 1), 10**digits))

    def literal(column: str, digits: int) -> str:
        return {
            "day": f"DATE '199{noise.randrange(2, 8)}-0{noise.randrange(1, 10)}-1{noise.randrange(10)}'",
            "city": f"'city {noise.randrange(45)}'",
            "rate": f"{noise.randrange(10)}.{noise.randrange(10)}{noise.randrange(10)}",
        }.get(column, number(digits))

    def condition() -> tuple[str, str, int]:
        column = noise.choice(["amount", "item", "tiny", "day", "city", "rate", "id"])
        return column, noise.choice(["=", "<>", "<", "<=", ">", ">="]), noise.choice([1, 2, 3])

    templates = 0
    with warpmill.connect(path) as con:
        con.execute("SET warpmill.profile = 'on'")
        con.execute("SET warpmill.debug.templates = 'on'")
        for _ in range(150):
            parts = [condition() for _ in range(noise.randrange(1, 5))]
            glue = [noise.choice([" AND ", " OR ", " AND NOT "]) for _ in parts]
            for _ in range(4):
                where = "".join(
                    f"{join if n else ''}{column} {op} {literal(column, digits)}"
                    for n, (join, (column, op, digits)) in enumerate(zip(glue, parts, strict=True))
                )
                sql = f"SELECT count(*), sum(amount), min(day), max(city) FROM sales WHERE {where}"
                result = con.sql(sql)
                templates += result.profile["plan_template"]
                assert result.fetchall() == peer.sql(sql).fetchall(), sql
    # Most have conditions that do not concern each other.
    assert templates > 100


#: Statements whose plans depend on literals in ways that marks of constants do not show; the last ones are at fault.
DEPENDENT: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "a condition that the earlier value implied": (
        "SELECT count(*) FROM a x, e y WHERE x.k = y.k AND x.k > 20 AND y.k > 20 AND x.k > {}",
        [(30,), (31,), (12,)],
    ),
    "a cast constant": ("SELECT count(*) FROM b WHERE g <> 2::BIGINT AND g = {}", [(1,), (3,), (2,)]),
    "a view": ("SELECT count(*) FROM v WHERE k > {}", [(60,), (70,), (20,)]),
    "NULL that is rejected or not": (
        "SELECT count(*) FROM a LEFT JOIN e ON a.k = e.k WHERE coalesce(e.k, 0) = {}",
        [(7,), (8,), (0,)],
    ),
    "NULL on both sides": (
        "SELECT count(*) FROM a FULL JOIN e ON a.k = e.k WHERE coalesce(e.k, 15) < {}",
        [(12,), (13,), (20,)],
    ),
    "a condition on both sides of a join": (
        "SELECT count(*) FROM (SELECT * FROM a WHERE k < {}) x LEFT JOIN e ON x.k = e.k WHERE x.k < {}",
        [(20, 40), (21, 41), (40, 20)],
    ),
    "an anti-join": (
        "SELECT count(*) FROM (SELECT * FROM a WHERE k < {}) x WHERE x.k < {} "
        "AND NOT EXISTS (SELECT 1 FROM e WHERE e.k = x.k)",
        [(20, 40), (21, 41), (40, 20)],
    ),
    "a constant branch": (
        "SELECT count(*) FROM (SELECT 5 AS k FROM a UNION ALL SELECT k FROM e) WHERE k > {}",
        [(2,), (3,), (7,)],
    ),
    "branches with conditions": (
        "WITH q AS (SELECT k, g FROM b WHERE k < 50 UNION ALL SELECT k, g FROM b WHERE k >= 50) "
        "SELECT g, count(*) FROM q WHERE k < {} GROUP BY g",
        [(70,), (80,), (20,)],
    ),
    "underscores": (
        "SELECT count(*) FROM b WHERE k < 1_000_000_000 AND (SELECT k FROM a ORDER BY k LIMIT 1 OFFSET {}) > {}",
        [(1, 1), (2, 2), (2, 3), (9, 2)],
    ),
}

FEW = (
    "CREATE TABLE a AS SELECT range AS k FROM range(50)",
    "CREATE TABLE e AS SELECT range * 2 + 10 AS k FROM range(50)",
    "CREATE TABLE b AS SELECT range AS k, range % 7 AS g FROM range(100)",
    "CREATE TEMP VIEW v AS SELECT * FROM b WHERE k > 50",
)


@pytest.mark.parametrize("name", DEPENDENT)
def test_each_statement_has_its_own_plan(tmp_path: Any, name: str) -> None:
    with warpmill.connect(tmp_path / "db") as con, duckdb.connect() as peer:
        for made in FEW:
            con.execute(made)
            peer.execute(made)
        for text in _texts(DEPENDENT[name]):
            result = con.sql(text)
            assert not result.profile["plan_template"]
            assert _rows(result.fetchall()) == _rows(peer.sql(text).fetchall()), text


def test_execute_runs_what_is_prepared_now(tmp_path: Any) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute(FEW[2])
        con.execute("PREPARE p AS SELECT max(k) FROM b WHERE k < $1")
        assert con.sql("EXECUTE p(40)").fetchall() == con.sql("EXECUTE p(40)").fetchall() == [(39,)]
        con.execute("DEALLOCATE p")
        con.execute("PREPARE p AS SELECT min(k) + 1000 FROM b WHERE k < $1")
        assert con.sql("EXECUTE p(40)").fetchall() == [(1000,)]
