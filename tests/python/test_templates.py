"""Statements that differ in constants only: they share one optimized plan, and each has its own result."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = [
    """CREATE TABLE t AS SELECT range AS id, range % 50 AS k, range * 7919 % 1000 - 300 AS v,
       CASE WHEN range % 11 <> 0 THEN 'name ' || (range % 20) END AS s, CAST(range % 997 AS DECIMAL(12, 2)) / 8 AS d,
       range * 0.25 AS f, DATE '2020-01-01' + CAST(range % 1500 AS INTEGER) AS day,
       TIMESTAMP '2020-01-01 12:00:00' + INTERVAL (range) HOUR AS moment FROM range(4000)""",
    "CREATE TABLE g AS SELECT range AS k, 'group ' || (range % 3) AS name, range % 10 AS x FROM range(40)",
]

#: Statements with places for constants, by name, and the constants of each statement in turn.
STATEMENTS: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "numbers": ("SELECT count(*), sum(v) FROM t WHERE v > {} AND k <> {}", [("1", "2"), ("-20", "7"), ("400", "0")]),
    "decimals": ("SELECT count(*) FROM t WHERE d BETWEEN {} - 0.5 AND {} + 0.5", [("3.5", "9.5"), ("4.1", "8.7")]),
    "other digits": ("SELECT count(*) FROM t WHERE d < {}", [("3.5",), ("3.25",), ("3.125",), ("7",), ("9.5",)]),
    "floats": ("SELECT count(*), sum(f) FROM t WHERE f >= {}", [("10.5",), ("99.25",), ("1e2",), ("500.75",)]),
    "texts": ("SELECT count(*) FROM t WHERE s = '{}'", [("name 3",), ("name 19",), ("none",), ("it''s",), ("",)]),
    "ranges of texts": ("SELECT count(*) FROM t WHERE s >= '{}' AND s < '{}'", [("name 1", "name 3"), ("a", "z")]),
    "patterns": (
        "SELECT s, count(*) FROM t WHERE s LIKE '{}' GROUP BY s",
        [("name 1%",), ("%9",), ("name _",), ("%",), ("",), ("name 7",), ("%am%",)],
    ),
    "dates": ("SELECT count(*) FROM t WHERE day >= DATE '{}'", [("2020-05-01",), ("2022-01-31",), ("1999-01-01",)]),
    "dates as texts": ("SELECT count(*) FROM t WHERE day < '{}'", [("2020-05-01",), ("2022-02-28",), ("2021-07-09",)]),
    "dates and intervals": (
        "SELECT count(*) FROM t WHERE day >= DATE '{}' AND day < DATE '{}' + INTERVAL '1' YEAR",
        [("2020-05-01", "2020-05-01"), ("2021-01-31", "2021-01-31"), ("2020-02-29", "2020-02-29")],
    ),
    "moments": (
        "SELECT count(*), max(moment) FROM t WHERE moment > TIMESTAMP '{}'",
        [("2020-02-01 00:00:00",), ("2020-03-01 13:14:15.5",), ("2020-04-01 01:00:00",)],
    ),
    "dates and moments": (
        "SELECT count(*) FROM t WHERE day > TIMESTAMP '{}'",
        [("2020-02-01 10:00:00",), ("2020-03-01 13:14:15",), ("2020-04-01 00:00:00",), ("2020-05-01 00:00:00",)],
    ),
    "joins": (
        "SELECT g.name, count(*), sum(v) FROM t JOIN g ON t.k = g.k WHERE x < {} AND v > {} GROUP BY g.name",
        [("5", "100"), ("7", "-50"), ("2", "300")],
    ),
    "conditions of outer joins": (
        "SELECT count(*), count(g.k) FROM t LEFT JOIN g ON t.k = g.k AND g.x > {} WHERE t.id < {}",
        [("3", "100"), ("8", "2000"), ("0", "50")],
    ),
    "semi-joins": (
        "SELECT count(*) FROM t WHERE k IN (SELECT k FROM g WHERE x = {}) AND id > {}",
        [("3", "100"), ("9", "2000"), ("11", "0")],
    ),
    "anti-joins": (
        "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.k = t.k AND g.x >= {}) AND v < {}",
        [("3", "100"), ("9", "300"), ("0", "0")],
    ),
    "scalar subqueries": (
        "SELECT count(*) FROM t WHERE v > (SELECT avg(x) * {} FROM g WHERE k < {})",
        [("3", "10"), ("30", "30"), ("1", "1")],
    ),
    "HAVING": ("SELECT k, sum(v) FROM t GROUP BY k HAVING sum(v) > {} AND count(*) > {}", [("5000", "3"), ("0", "9")]),
    "QUALIFY": (
        "SELECT id FROM t WHERE v > {} QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) <= {}",
        [("0", "2"), ("100", "1"), ("-100", "3")],
    ),
    "choices": (
        "SELECT count(*) FROM t WHERE CASE WHEN v > {} THEN k ELSE 50 - k END < {}",
        [("0", "20"), ("100", "10"), ("-100", "45")],
    ),
    "rejected by all": ("SELECT count(*), min(s) FROM t WHERE id > {} AND id < {}", [("10", "90"), ("90", "10")]),
    "implied": ("SELECT count(*) FROM t WHERE k >= {} AND k >= {}", [("10", "20"), ("20", "10"), ("0", "0")]),
    "no rows": ("SELECT count(*) FROM t WHERE id < {}", [("100",), ("-1",), ("100000",)]),
    "other kinds of numbers": (
        "SELECT count(*) FROM t WHERE k < {}",
        [("30",), ("3000000000",), ("30.5",), ("3e1",), ("99999999999999999999",), ("-30",)],
    ),
    "a constant column": (
        "SELECT count(*) FROM (SELECT 5 AS k FROM g UNION ALL SELECT k FROM g) WHERE k > {}",
        [("2",), ("3",), ("7",), ("5",)],
    ),
    "constants outside of conditions": (
        "SELECT v + {} AS c, '{}' AS n FROM t WHERE id < {} ORDER BY c, n LIMIT {}",
        [("1", "a", "10", "5"), ("2", "b", "20", "7"), ("3", "c", "30", "30")],
    ),
    "counts of groups": (
        "SELECT count(*) FROM t WHERE (SELECT count(*) FROM g WHERE g.k = t.k HAVING count(*) < {}) > {}",
        [("5", "0"), ("1", "0"), ("9", "-1")],
    ),
    "functions of constants": (
        "SELECT count(*) FROM t WHERE day > make_date({}, 2, 3) AND v > date_diff('day', DATE '2020-01-01', DATE '{}')",
        [("2020", "2020-02-03"), ("2021", "2020-03-03"), ("2022", "2020-01-03")],
    ),
    "texts of constants": ("SELECT count(*) FROM t WHERE s < lpad('{}', 6, 'n')", [("name",), ("na",), ("zzzz",)]),
    "conditions of outer joins on their keys": (
        "SELECT count(*), count(g.k) FROM t LEFT JOIN g ON t.k = g.k WHERE t.k < {}",
        [("30",), ("7",), ("45",)],
    ),
    "numbers that are equal in some statements": (
        "SELECT count(*), sum(v) FROM t WHERE v >= {} AND k < 20 OR v >= {} AND s < 'name 5' OR v >= {} AND k = 3",
        [(str(n), str(n if n % 3 else 7), str(n)) for n in range(10, 20)],
    ),
    "parts of dates": (
        "SELECT count(*) FROM t WHERE date_part('{}', day) = {}",
        [("year", "2021"), ("month", "2"), ("day", "29"), ("year", "2022")],
    ),
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        for table in TABLES:
            con.execute(table)
        yield con


@pytest.fixture(scope="module", params=["cpu", "sim"])
def ours(request: pytest.FixtureRequest) -> Iterator[warpmill.Connection]:
    with warpmill.connect(device=request.param, device_fallback="allow") as con:
        for table in TABLES:
            con.execute(table)
        yield con


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("name", STATEMENTS)
def test_answers(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, name: str) -> None:
    text, constants = STATEMENTS[name]
    # The first ones again: whatever was planned in between.
    for values in constants + constants[:2]:
        statement = text.format(*values)
        assert _sorted(ours.execute(statement).fetchall()) == _sorted(duck.execute(statement).fetchall()), statement


def _from_template(con: warpmill.Connection, statement: str, params: list[Any] | None = None) -> bool:
    result = con.sql(statement, params)
    result.fetchall()
    assert not result.profile["plan_cached"]
    return bool(result.profile["plan_from_template"])


@pytest.fixture
def own() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as con:
        for table in TABLES:
            con.execute(table)
        yield con


def test_from_the_third_on(own: warpmill.Connection) -> None:
    found = [_from_template(own, f"SELECT sum(v) FROM t WHERE k = {k} AND s > 'name {k}'") for k in range(4)]
    assert found == [False, False, True, True]
    found = [_from_template(own, "SELECT sum(v) FROM t WHERE k = ? AND s > ?", [k, f"name {k}"]) for k in range(4, 8)]
    assert found == [True, True, True, True]
    assert not _from_template(own, "SELECT max(v) FROM t WHERE k = 9 AND s > 'name 9'")


def test_other_orders_of_joins(own: warpmill.Connection) -> None:
    """Constants that keep many more rows, or far fewer, get a plan of their own."""
    own.execute("CREATE TABLE many AS SELECT range AS a, range % 50 AS k FROM range(20000)")
    text = "SELECT count(*) FROM many JOIN t ON many.k = t.k WHERE many.a < {} AND t.id < {}"
    assert [_from_template(own, text.format(a, 2000)) for a in (10, 11, 12)] == [False, False, True]
    rows = [own.execute(text.format(a, 2000)).fetchall() for a in (10, 19_000, 19_001)]
    own.set("plan_cache", "off")
    assert rows == [own.execute(text.format(a, 2000)).fetchall() for a in (10, 19_000, 19_001)]


def test_tables_that_change(own: warpmill.Connection) -> None:
    count = "SELECT count(*) FROM g WHERE x < {}"

    def counts() -> list[int]:
        return [own.execute(count.format(x)).fetchall()[0][0] for x in (8, 9, 10)]

    before = counts()
    own.execute("INSERT INTO g VALUES (100, 'more', 8)")
    assert counts() == [before[0], before[1] + 1, before[2] + 1]
    own.execute("DROP TABLE g")
    own.execute("CREATE TABLE g AS SELECT range * 1.5 AS x FROM range(20)")
    assert counts() == [6, 6, 7]
    own.set("plan_cache", "off")
    assert counts() == [6, 6, 7]


def test_bounds_of_constants(own: warpmill.Connection) -> None:
    """Constants are computed within bounds, as without templates."""
    for n in range(3):
        with pytest.raises(warpmill.Error, match="bytes"):
            own.execute(f"SELECT count(*) FROM t WHERE s < lpad('a', 200000000{n}, 'x')")


def test_tables_that_change_meanwhile(own: warpmill.Connection) -> None:
    """A template that is made while another statement writes is not taken for one of the new rows."""
    joins = " ".join(f"JOIN g g{n} ON g{n}.k = g.k" for n in range(1, 9))
    text = f"SELECT max(g.x) FROM g {joins} WHERE g.k > -{{}}"
    own.execute(text.format(1))
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(lambda: own.execute(text.format(2)).fetchall())
        own.execute("INSERT INTO g VALUES (100, 'more', 1000)")
        answers = [own.execute(text.format(n)).fetchall() for n in (3, 4, 5)]
        assert slow.result()[0][0] in (9, 1000)
    assert answers == [[(1000,)]] * 3


def test_versions(tmp_path: Any) -> None:
    """Versions of a table have one name in plans."""
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE TABLE h AS SELECT range AS i FROM range(10)")
        con.execute("INSERT INTO h SELECT range AS i FROM range(100)")
        for i in (3, 4, 5):
            old = con.execute(f"SELECT count(*) FROM h AT (VERSION => 1) WHERE i >= {i}").fetchall()
            new = con.execute(f"SELECT count(*) FROM h WHERE i >= {i}").fetchall()
            assert (old, new) == ([(10 - i,)], [(110 - 2 * i,)])


def _state(con: warpmill.Connection, statement: str, params: list[Any] | None = None) -> str:
    """How the plan of a statement came about."""
    result = con.sql(statement, params)
    result.fetchall()
    if result.profile["plan_from_text"]:
        assert result.profile["plan_from_template"]
        return "text"
    return "template" if result.profile["plan_from_template"] else "plan"


#: Texts that are planned by their constants alone from the fourth on, and the constants.
TEXTS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "numbers": ("SELECT count(*), sum(v) FROM t WHERE v > {} AND k <> {}", [(n * 9, -n) for n in range(-4, 5)]),
    "decimals": ("SELECT count(*) FROM t WHERE d BETWEEN {} - 0.5 AND 90.25", [(f"{n}.75",) for n in range(1, 8)]),
    "columns of fewer digits": ("SELECT sum(v) FROM t WHERE d < {}", [(n,) for n in (40, 50, 60, 70, 44, 45)]),
    "texts": ("SELECT count(*) FROM t WHERE s = 'name {}'", [(n,) for n in range(12)]),
    "patterns": ("SELECT count(*) FROM t WHERE s LIKE '%{}'", [(text,) for text in ("1", "7", "3", "5", "2", "8")]),
    "dates": ("SELECT count(*) FROM t WHERE day >= DATE '2021-0{}-01'", [(n,) for n in range(1, 8)]),
    "days": ("SELECT sum(v) FROM t WHERE day < DATE '2021-0{}-01' + INTERVAL '1' MONTH", [(n,) for n in range(1, 8)]),
    "texts as dates": ("SELECT count(*) FROM t WHERE day >= '2021-0{}-01'", [(n,) for n in range(1, 8)]),
    "moments": ("SELECT max(v) FROM t WHERE moment < TIMESTAMP '2020-03-0{} 10:00:00'", [(n,) for n in range(1, 8)]),
    "joins": (
        "SELECT g.name, count(*) AS n FROM t JOIN g ON t.k = g.k WHERE x < {} AND v > {} GROUP BY ALL ORDER BY n, name",
        [(5, n) for n in range(100, 108)],
    ),
    "outer joins": (
        "SELECT count(*), count(g.k) FROM t LEFT JOIN g ON t.k = g.k AND g.x > {} WHERE t.id < 3000",
        [(n,) for n in (3, 4, 5, 3, 6, 2)],
    ),
    "subqueries": (
        "SELECT count(*) FROM t WHERE v > (SELECT avg(x) FROM g WHERE k < {}) AND k IN (SELECT k FROM g WHERE x > {})",
        [(n, n % 3) for n in range(20, 28)],
    ),
    "lists": (
        "SELECT count(*), sum(v) FROM t WHERE s IN ('name {}', 'name {}', 'x', 'name 4', 'y')",
        [(n, n * 2) for n in range(5, 12)],
    ),
    "short lists": ("SELECT count(*) FROM t WHERE s IN ('name {}', 'name {}')", [(n, n + 5) for n in range(7)]),
    "lists of others": ("SELECT count(*) FROM t WHERE s NOT IN ('name {}') AND v > 5", [(n,) for n in range(7)]),
    "lists of numbers": ("SELECT count(*) FROM t WHERE v IN ({}, {}, 3, -4, 5)", [(n, n * 2) for n in range(7, 14)]),
    "intervals": (
        "SELECT count(*) FROM t WHERE day <= DATE '2021-12-01' - INTERVAL '{}' DAY",
        [(n,) for n in range(60, 67)],
    ),
    "narrow columns in OR": (
        """SELECT count(*), sum(v) FROM t JOIN g ON t.k = g.k WHERE (d >= 2 AND d <= {} AND g.x > 1)
        OR (d >= 3 AND d <= 60 AND g.x > 5 AND s <> 'name {}')""",
        [(n * 9, n) for n in range(1, 8)],
    ),
    "conditions that OR has in common": (
        """SELECT count(*), sum(v) FROM t JOIN g ON t.k = g.k WHERE (v BETWEEN 1 AND {} AND x > 1 AND s < 'name {}')
        OR (v BETWEEN 1 AND 80 AND x > 5 AND s > 'name 7') OR (v BETWEEN 1 AND 10 + 10 AND x > 3 AND s = 'name 5')""",
        [(n * 9, n) for n in range(1, 8)],
    ),
    "HAVING": ("SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > {} ORDER BY k", [(n,) for n in range(99, 106)]),
    "best rows": ("SELECT id, v FROM t WHERE v < {} ORDER BY v DESC, id LIMIT 5", [(n,) for n in range(99, 106)]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_planned_by_text(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, name: str) -> None:
    text, constants = TEXTS[name]
    for values in dict.fromkeys(constants):
        statement = text.format(*values)
        assert ours.execute(statement).fetchall() == duck.execute(statement).fetchall(), statement
    # Another connection: this one has cached the plans of all of these.
    with warpmill.connect() as con:
        for table in TABLES:
            con.execute(table)
        states = [_state(con, text.format(*values)) for values in dict.fromkeys(constants)]
    assert states == ["plan", "plan", "template"] + ["text"] * (len(states) - 3)


def test_patterns_that_keep_other_rows_are_planned_anew(own: warpmill.Connection) -> None:
    """A sample of the column tells that `n%` keeps nearly all rows, and `zz%` none."""
    text = "SELECT count(*) FROM t WHERE s LIKE '{}'"
    assert [_state(own, text.format(pattern)) for pattern in ("%1", "%2", "%3")] == ["plan", "plan", "template"]
    assert [_state(own, text.format(pattern)) for pattern in ("n%", "zz%")] == ["plan", "plan"]
    assert _state(own, text.format("%4")) == "text"


@pytest.mark.parametrize("kind", ["small", "deep", "wide"])
def test_sizes_of_conditions(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, kind: str) -> None:
    states = []
    for n in range(7):
        condition = {
            "small": f"t.v > {n} * 2 AND t.k < {600 + n}",
            "deep": "t.v > " + " + ".join(str((n + at) % 11) for at in range(150)) + " - 700",
            "wide": "t.v IN (" + ", ".join(str((n + 1) * at % 1000) for at in range(1200)) + ")",
        }[kind]
        statement = f"SELECT count(*), sum(t.v) FROM t WHERE {condition}"
        states.append(_state(ours, statement))
        assert ours.execute(statement).fetchall() == duck.execute(statement).fetchall()
    assert kind == "wide" or states[-1] == "text"


def test_parameters_are_planned_by_text(own: warpmill.Connection) -> None:
    text = "SELECT count(*) FROM t WHERE s LIKE $1 AND v < $2 AND day >= CAST($3 AS DATE)"
    params = [[f"%{n}", n * 10, f"2021-0{n}-01"] for n in range(1, 8)]
    assert [_state(own, text, values) for values in params] == [
        "plan",
        "plan",
        "template",
        "text",
        "text",
        "text",
        "text",
    ]
    rows = [own.execute(text, values).fetchall() for values in params]
    own.set("warpmill.debug.plan_templates", "off")
    assert rows == [own.execute(text, values).fetchall() for values in params]
    # With constants of other types the meaning differs.
    own.set("warpmill.debug.plan_templates", "on")
    assert _state(own, text, ["%1", 10.5, "2021-01-01"]) == "plan"


def _names(count: int) -> list[tuple[str, ...]]:
    """Four names each, some of them equal."""
    rng = random.Random(count)
    return [tuple(f"name {rng.randint(1, 4)}" for _ in range(4)) for _ in range(count)]


def test_constants_that_mean_something_else(own: warpmill.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    """Positions, limits, units and names are no constants; nor is a moment that is no day where days are compared."""
    texts: list[tuple[str, list[tuple[Any, ...]]]] = [
        (
            "SELECT k, {} AS c FROM t WHERE k = {} ORDER BY {} LIMIT {}",
            [(1, 2, 1, 3), (2, 3, 1, 3), (3, 4, 2, 5), (4, 5, 1, 1)],
        ),
        ("SELECT v > {} FROM t WHERE id < {} ORDER BY id", [(5, 10), (6, 11), (7, 12), (8, 13), (9, 14)]),
        (
            "SELECT k + {} AS s, count(*) FROM t WHERE k + {} > {} GROUP BY k + {} ORDER BY 1",
            [(n,) * 4 for n in range(6)],
        ),
        (
            "SELECT count(*) FROM t WHERE day < DATE '2021-01-0{}' + INTERVAL '{}' HOUR",
            [(n, h) for n, h in zip(range(1, 8), [0, 24, 12, 0, 7, 48, 1], strict=True)],
        ),
        (
            "SELECT count(*) FROM t WHERE day < TIMESTAMP '2021-01-01 {}:00:00'",
            [("00",), ("01",), ("00",), ("02",), ("23",), ("12",)],
        ),
        ("SELECT count(*) FROM t WHERE {} < v AND v < -{} * -1", [(n, n + 100) for n in range(6)]),
        (
            "SELECT count(*) FROM t WHERE s = '{}'",
            [("name 1",), ("it''s",), ("name 2",), ("",), ("name 3",), ("x' OR '1' = '1",)],
        ),
        (
            "SELECT count(*) FROM t WHERE s = '{}' AND v > 0 OR s <= '{}' AND k < 20 OR s IN ('{}', 'z')",
            [
                ("name 1", "name 1", "name 1"),
                ("name 2", "name 2", "name 2"),
                ("name 3", "name 3", "name 3"),
                ("name 4", "name 4", "name 4"),
                ("name 5", "name 4", "name 4"),
                ("name 4", "name 5", "name 4"),
                ("name 4", "name 4", "name 5"),
                ("name 7", "name 8", "name 9"),
                ("z", "z", "z"),
            ],
        ),
        (
            "SELECT count(*) FROM t WHERE s IN ('{}', '{}') AND s IN ('{}', '{}')",
            [tuple("abcd"), tuple("abab"), *_names(6)],
        ),
        ("SELECT count(*) FROM t WHERE s IN ('{}') OR s NOT IN ('{}', '{}', '{}')", _names(6)),
        ("SELECT count(*) FROM t WHERE k IN (SELECT {}) AND v NOT IN ({}, NULL, {})", [(n, n, n) for n in range(5)]),
        ("SELECT count(*) FROM t WHERE v = {} OR k = {}", [(1, 1), (2, 3), (2, 2), (5, 5), (6, 7)]),
        ("SELECT count(*) FROM t WHERE v BETWEEN {} AND {}", [(1, 50), (9, 60), (7, 70), (70, 7), (8, 80)]),
        (
            "SELECT v AS a FROM t WHERE k = {} UNION ALL SELECT v FROM t WHERE k = {} ORDER BY a",
            [(1, 1), (2, 2), (3, 3), (3, 4), (5, 4)],
        ),
    ]
    for text, constants in texts:
        for values in constants:
            statement = text.format(*values)
            assert own.execute(statement).fetchall() == duck.execute(statement).fetchall(), statement


def test_texts_that_have_no_value(own: warpmill.Connection) -> None:
    text = "SELECT count(*) FROM t WHERE day >= DATE '{}'"
    for day in ("2021-01-01", "2021-01-02", "2021-01-03", "2021-01-04"):
        own.execute(text.format(day))
    with pytest.raises(warpmill.Error, match="2021-02-30"):
        own.execute(text.format("2021-02-30"))
    assert _state(own, text.format("2021-01-05")) == "text"


def test_sums_that_become_wide(own: warpmill.Connection) -> None:
    """An abandoned program is rebuilt with the constants of its own statement."""
    # The join gives 40,200 rows where 800 are expected.
    own.execute(
        "CREATE TABLE skew AS SELECT CASE WHEN range < 200 THEN 0 ELSE range END AS k, range AS n, "
        "CAST(500000000000000 AS DECIMAL(18, 0)) AS v FROM range(400)"
    )
    text = "SELECT sum(a.v) FROM skew a JOIN skew b ON a.k = b.k WHERE a.n > {}"
    limits = range(1, 8)
    answers, widened = [], 0
    for limit in limits:
        result = own.sql(text.format(limit))
        answers.append(result.fetchall())
        widened += result.profile["widened"]
    assert widened == len(limits)
    own.set("plan_cache", "off")
    assert answers == [own.execute(text.format(limit)).fetchall() for limit in limits]


def test_answers_from_statistics_are_of_their_statement(own: warpmill.Connection) -> None:
    """Bounds that leave one value, or none, say nothing of the next constants."""
    text = "SELECT count(DISTINCT id), count(DISTINCT k) FROM t WHERE id >= {} AND k >= {}"
    constants = [(3998, 49), (3997, 49), (3999, 49), (3998, 48), (3996, 48), (3996, 47), (9999, 60)]
    expected = [(1, 1), (1, 1), (1, 1), (2, 2), (2, 2), (3, 3), (0, 0)]
    for values, counts in zip(constants, expected, strict=True):
        assert own.execute(text.format(*values)).fetchall() == [counts]
    # Nor do they say that any row is left.
    assert own.execute("SELECT count(DISTINCT x), count(DISTINCT k) FROM g WHERE x = 3 AND k = 4").fetchall() == [
        (0, 0)
    ]


def test_programs_that_are_placed_again_within_others() -> None:
    """A program is replaced by one whose functions the host calls, and a part of that by one with wide sums."""

    def total(x: Any) -> Any:
        found = 0
        for v in x:
            if v is not None:
                found += v
        return found

    with warpmill.connect(device="sim", device_fallback="allow", gpu_memory_limit=20_000) as con:
        con.create_aggregate("total", total)
        con.execute(
            "CREATE TABLE skew AS SELECT CASE WHEN range < 200 THEN 0 ELSE range END AS k, range AS n, "
            "CAST(500000000000000 AS DECIMAL(18, 0)) AS v FROM range(400)"
        )
        for n in range(1, 7):
            text = (
                f"SELECT x, z FROM (SELECT total(a.n) AS x FROM skew a WHERE a.n > {n}) p, "
                f"(SELECT sum(a.v) AS y, count(*) AS z FROM skew a JOIN skew b ON a.k = b.k WHERE a.n > {n}) q"
            )
            rest = range(n + 1, 400)
            assert con.execute(text).fetchall() == [(sum(rest), sum(200 if i < 200 else 1 for i in rest))]


def test_tables_that_change_under_texts(own: warpmill.Connection) -> None:
    count = "SELECT count(*) FROM g WHERE x < {} AND k >= 0"
    assert [_state(own, count.format(x)) for x in (7, 8, 9, 10)] == ["plan", "plan", "template", "text"]
    own.execute("INSERT INTO g VALUES (100, 'more', 5)")
    before = own.execute("SELECT count(*) FROM g").fetchall()[0][0]
    assert own.execute(count.format(11)).fetchall() == [(before,)]
    own.execute("CREATE OR REPLACE TABLE g AS SELECT range AS k, range * 2.5 AS x FROM range(10)")
    assert [own.execute(count.format(x)).fetchall() for x in (12, 13, 14, 15, 16)] == [
        [(5,)],
        [(6,)],
        [(6,)],
        [(6,)],
        [(7,)],
    ]


#: Conditions of random statements: `?` is a comparison, `#` a constant.
CONDITIONS = [
    "t.v ? #",
    "t.k ? #",
    "t.d ? #.5",
    "t.f ? #.25",
    "t.s ? 'name #'",
    "t.s LIKE '%#'",
    "t.day ? DATE '2021-03-01' + #",
    "t.v BETWEEN # AND #",
    "t.v + t.k ? #",
    "t.v ? # - # * 2",
    "NOT (t.k ? # OR t.v ? #)",
    "coalesce(t.s, 'x') ? 'name #'",
    "t.v IS NULL",
    "t.k IN (#, #, 3)",
    "t.s IN ('name #', 'name #')",
    "t.s NOT IN ('name #', 'name #', 'name 3', 'name #')",
    "t.day ? DATE '2021-03-01' - INTERVAL '#' DAY",
    "CAST(t.v AS DOUBLE) ? #",
    "CAST(t.v AS BIGINT) ? #",
    "t.k IN (SELECT g.k FROM g WHERE g.x ? #)",
    "EXISTS (SELECT 1 FROM g h WHERE h.k = t.k AND h.x ? #)",
    "t.v > (SELECT # * max(h.x) FROM g h WHERE h.k ? #)",
]
SOURCES = [
    "t",
    "t JOIN g ON t.k = g.k AND g.x ? #",
    "t LEFT JOIN g ON t.k = g.k AND g.x ? #",
    "t FULL JOIN g ON t.k = g.k",
]


def _filled(text: str, place: str, values: list[Any], rng: random.Random) -> str:
    first, *rest = text.split(place)
    return first + "".join(str(rng.choice(values)) + part for part in rest)


@pytest.mark.parametrize("seed", range(trials(6)))
def test_random_constants(ours: warpmill.Connection, duck: duckdb.DuckDBPyConnection, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        where = f" {rng.choice(['AND', 'OR'])} ".join(rng.sample(CONDITIONS, rng.randint(1, 3)))
        text = f"SELECT count(*), sum(t.v), min(t.s) FROM {rng.choice(SOURCES)} WHERE {where}"
        text = _filled(text, "?", ["<", "<=", "=", "<>", ">", ">="], rng)
        for _ in range(4):
            statement = _filled(text, "#", [0, 1, 7, 19, 42, 300, 650], rng)
            expected = duck.execute(statement).fetchall()
            assert _sorted(ours.execute(statement).fetchall()) == _sorted(expected), statement
