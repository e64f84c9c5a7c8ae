"""The explicit door, `FROM warpmill(...)`: with the shim beside it, and alone, as in clients that hide C++ symbols."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill._warpmill as native
import warpmill.duckdb
from warpmill.bench.verify import difference

from .clients import TPCH, literal, tpch, without_shims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Door:
    """A connection, and whether plain SELECTs are accelerated as well."""

    def __init__(self, con: Any, transparent: bool) -> None:
        self.con, self.transparent = con, transparent

    def plain(self, sql: str) -> tuple[list[tuple[str, str]], list[Any]]:
        """DuckDB's own answer: names, types, rows."""
        if self.transparent:
            self.con.execute("SET warpmill_enabled = false")
        try:
            return self.read(sql)
        finally:
            if self.transparent:
                self.con.execute("SET warpmill_enabled = true")

    def explicit(self, sql: str) -> tuple[list[tuple[str, str]], list[Any]]:
        return self.read(f"FROM warpmill({literal(sql)})")

    def read(self, sql: str) -> tuple[list[tuple[str, str]], list[Any]]:
        result = self.con.execute(sql)
        return [(column[0], str(column[1])) for column in result.description], result.fetchall()

    def strict(self, on: bool) -> None:
        value = "error" if on else "allow"
        self.con.execute(f"SET {'' if self.transparent else 'VARIABLE '}warpmill_fallback = '{value}'")

    def same(self, sql: str) -> None:
        """Both return the same, and the door does not fall back."""
        expected = self.plain(sql)
        self.strict(on=True)
        try:
            columns, rows = self.explicit(sql)
        finally:
            self.strict(on=False)
        assert columns == expected[0], sql
        assert difference(rows, expected[1], [name for name, _ in columns], sql) is None, sql


@pytest.fixture(params=["with shim", "alone"])
def open_door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Door]]:
    opened: list[Any] = []

    def make(database: str = ":memory:", read_only: bool = False) -> Door:
        if request.param == "with shim":
            opened.append(warpmill.duckdb.connect(database, read_only=read_only))
            return Door(opened[-1], True)
        con = duckdb.connect(database, read_only=read_only, config={"allow_unsigned_extensions": "true"})
        opened.append(con)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WARPMILL_ENGINE", native.__file__)
            con.execute(f"LOAD {literal(str(without_shims(tmp_path)))}")
        return Door(con, False)

    yield make
    for con in opened:
        con.close()


@pytest.fixture
def door(open_door: Callable[..., Door]) -> Door:
    door = open_door()
    door.con.execute(
        "CREATE TABLE t AS SELECT i::INTEGER AS a, i % 3 AS g, 's' || i AS s, CASE WHEN i % 2 = 0 THEN i END AS n, "
        "DATE '2020-01-01' + i::INTEGER AS d, (i * 1.25)::DECIMAL(10,2) AS m FROM range(5000) r(i)"
    )
    door.con.execute("CREATE TABLE none AS FROM t WHERE false")
    return door


def test_tpch(open_door: Callable[..., Door], tmp_path: Path) -> None:
    door, folder = open_door(), tpch(tmp_path)
    for table in native.tables("tpch"):
        door.con.execute(f"CREATE TABLE {table} AS FROM read_parquet('{folder}/{table}.parquet')")
    for sql in TPCH.values():
        door.same(sql)


QUERIES = [
    "SELECT g, sum(a) AS sa, max(n), min(s), avg(m), count(DISTINCT a % 7) FROM t GROUP BY g ORDER BY g DESC",
    "SELECT count(*), sum(a), max(s), min(d) FROM none",
    "SELECT g, sum(a) FROM none GROUP BY g",
    "SELECT count(*) FROM t",
    "SELECT count(*) AS x, sum(a) AS y FROM (FROM t WHERE n IS NULL) q -- a comment",
    "WITH q AS (SELECT g, sum(m) AS m FROM t GROUP BY g) SELECT x.g, y.m FROM q x JOIN q y USING (g) ORDER BY ALL",
    "SELECT sum(a) FROM t WHERE d < DATE '2020-03-05' AND d >= TIMESTAMP '2020-01-02 12:00:00' + INTERVAL 1 DAY",
    "SELECT sum(m * 2 - 0.5) / 7, 'it''s' AS \"a \"\"name\" FROM t WHERE s LIKE 's1%' OR s IN ('s2', 's3')",
    "SELECT g, CASE WHEN g = 1 THEN NULL ELSE sum(n) END FROM t GROUP BY GROUPING SETS ((g), ()) ORDER BY ALL",
    "SELECT count(*) FROM t x WHERE EXISTS (FROM t y WHERE y.a = x.a + 1 AND y.g <> x.g)",
    "SELECT count(*) FROM t x WHERE NOT EXISTS (FROM t y WHERE y.n = x.a)",
    "SELECT count(*) FROM t WHERE a IN (SELECT n FROM t)",
    "SELECT count(*) FROM t x WHERE a > (SELECT avg(y.a) FROM t y WHERE y.g = x.g)",
    "SELECT count(*), sum(a) FROM t WHERE a > (SELECT avg(a) FROM t)",
    "SELECT g, count(*) FROM t GROUP BY g UNION ALL SELECT a, count(*) FROM t WHERE a < 3 GROUP BY a",
    "SELECT x.g, count(y.n) FROM t x LEFT JOIN t y ON x.a = y.n + 1 GROUP BY x.g ORDER BY 1 LIMIT 2 OFFSET 1;",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_equal_to_duckdb(door: Door, sql: str) -> None:
    door.same(sql)


def test_every_type(door: Door) -> None:
    door.con.execute("""CREATE TABLE u AS SELECT i % 2 AS k, (i % 3 = 0) AS b, i::TINYINT AS t1, i::SMALLINT AS t2,
        i::BIGINT * 1000000000000 AS t8, i::UTINYINT AS u1, i::USMALLINT AS u2, i::UINTEGER AS u4, i::UBIGINT AS u8,
        i::FLOAT / 3 AS f, i / 7.0::DOUBLE AS x, (i * 1.5)::DECIMAL(4,1) AS d4, (-i * 1.5)::DECIMAL(9,3) AS d9,
        (i * 1.5)::DECIMAL(18,0) AS d18, (i * -1.5)::DECIMAL(38,20) AS d38, 'text ' || i || ' of more than twelve' AS v,
        DATE '1969-12-28' + i::INTEGER AS dt, TIMESTAMP '1970-01-01 01:02:03' - INTERVAL (i) HOUR AS ts
        FROM range(9) r(i)""")
    columns = [row[0] for row in door.con.execute("DESCRIBE u").fetchall() if row[0] not in ("k", "b")]
    extremes = ", ".join(f"min({column}), max({column})" for column in columns)
    door.same(f"SELECT k, {extremes}, sum(d4), sum(d9), sum(d18), sum(t8), avg(d4) FROM u GROUP BY k ORDER BY k")
    # All of them as NULL, and booleans as groups.
    door.con.execute("INSERT INTO u(k) VALUES (2), (2)")
    door.same(f"SELECT b, count(*), {extremes} FROM u GROUP BY b ORDER BY b")


def test_what_the_caller_sees(door: Door) -> None:
    sql = "SELECT count(*), sum(a) FROM t"
    other = door.con.cursor()
    other.begin()
    before = other.execute(sql).fetchall()
    door.con.execute("INSERT INTO t(a) VALUES (1000000)")
    door.same(sql)
    assert other.execute(f"FROM warpmill('{sql}')").fetchall() == before
    other.rollback()
    door.con.begin()
    door.con.execute("DELETE FROM t WHERE a % 2 = 0")
    door.con.execute("CREATE TEMP TABLE w AS SELECT 7 AS b")
    door.same(sql)
    door.same("SELECT sum(b), count(*) FROM w")
    door.con.rollback()
    door.same(sql)
    door.con.execute("CREATE SCHEMA x; CREATE TABLE x.t AS SELECT 1 AS a")
    door.con.execute("CREATE TEMP MACRO twice(v) AS v * 2")
    door.same("SELECT sum(twice(a)) FROM x.t")
    door.con.execute("ATTACH ':memory:' AS elsewhere; CREATE TABLE elsewhere.t AS SELECT 5 AS a FROM range(3)")
    door.same("SELECT sum(e.a), sum(t.a) FROM elsewhere.t e, main.t t WHERE t.a < 10")


def test_inside_of_other_statements(door: Door) -> None:
    con = door.con
    assert con.execute("SELECT s + 1 FROM warpmill('SELECT sum(a) AS s FROM t') UNION ALL SELECT 5").fetchall() == [
        (12497501,),
        (5,),
    ]
    joined = (
        "SELECT g, s, c FROM warpmill('SELECT g, sum(a) s FROM t GROUP BY g') JOIN "
        "warpmill('SELECT g, count(*) c FROM t GROUP BY g') USING (g) ORDER BY g"
    )
    assert (
        con.execute(joined).fetchall()
        == con.execute("SELECT g, sum(a) s, count(*) c FROM t GROUP BY g ORDER BY g").fetchall()
    )
    con.execute("CREATE TABLE made AS FROM warpmill('SELECT g, sum(m) AS m FROM t GROUP BY g')")
    assert con.execute("SELECT sum(m) FROM made").fetchall() == con.execute("SELECT sum(m) FROM t").fetchall()
    # Part of a result, and then something else.
    rows = con.execute("FROM warpmill('SELECT a, count(*) FROM t GROUP BY a ORDER BY a')").fetchmany(3)
    assert rows == [(0, 1), (1, 1), (2, 1)]
    # As for any subquery, column names are unique.
    assert [column[0] for column in con.execute("FROM warpmill('SELECT sum(a) x, max(a) x FROM t')").description] == [
        "x",
        "x_1",
    ]
    assert con.execute("FROM query(warpmill_sql('SELECT max(a) FROM t'))").fetchall() == [(4999,)]


def test_prepared(door: Door) -> None:
    con = door.con
    con.execute("PREPARE p AS FROM warpmill('SELECT sum(a) AS s FROM t WHERE a < 10')")
    assert con.execute("EXECUTE p").fetchall() == [(45,)]
    con.execute("INSERT INTO t(a) VALUES (5)")
    assert con.execute("EXECUTE p").fetchall() == [(50,)]
    con.execute("ALTER TABLE t ALTER a TYPE VARCHAR USING 'x'")
    with pytest.raises(duckdb.Error, match=r"sum|Cannot"):
        con.execute("EXECUTE p")
    con.execute("ALTER TABLE t ALTER a TYPE INTEGER USING 3")
    assert con.execute("EXECUTE p").fetchall() == [(15003,)]
    assert con.execute("FROM warpmill(?)", ["SELECT max(a) FROM t"]).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sum(x) FROM nowhere", "nowhere"),
        ("SELEC", "syntax error"),
        ("INSERT INTO t(a) VALUES (1)", "single SELECT"),
        ("SELECT 1; SELECT 2", "single SELECT"),
        ("", "single SELECT"),
        ("SELECT sum(a) FROM t WHERE a < $1", "parameter"),
        ("SELECT sum(a // (a - a)) FROM t", "without warpmill"),
        ("SELECT max(a::TINYINT) FROM t", "without warpmill"),
    ],
)
def test_errors(door: Door, sql: str, message: str) -> None:
    with pytest.raises(duckdb.Error, match=message) as raised:
        door.explicit(sql)
    assert not isinstance(raised.value, (duckdb.InternalException, duckdb.FatalException))
    door.same("SELECT sum(a) FROM t")


def test_infinite_dates_are_not_guessed(door: Door) -> None:
    door.con.execute("INSERT INTO t(d) VALUES ('infinity')")
    with pytest.raises(duckdb.InvalidInputException, match=r"infinite.*without warpmill"):
        door.explicit("SELECT max(d) FROM t")
    door.same("SELECT sum(a) FROM t")


def test_fallback_and_its_reason(door: Door) -> None:
    assert door.explicit("SELECT median(a) FROM t")[1] == [(2499.5,)]
    assert door.explicit("SELECT 1 AS one") == ([("one", "INTEGER")], [(1,)])
    door.strict(on=True)
    ordered = [
        "FROM t",
        "SELECT a FROM t WHERE a IN (SELECT n FROM t)",
        "FROM t x WHERE NOT EXISTS (FROM t y WHERE y.n = x.a)",
    ]
    limited = [f"SELECT sum(a) FROM ({sql} LIMIT 3)" for sql in ordered]
    refused = [("SELECT median(a) FROM t", "the aggregate median"), *((sql, "rows as they come") for sql in ordered)]
    for sql, reason in [*refused, *((sql, "LIMIT without ORDER BY") for sql in limited)]:
        with pytest.raises(duckdb.InvalidInputException, match=f"does not run this query: {reason}"):
            door.explicit(sql)
    assert door.explicit("SELECT 1 AS one")[1] == [(1,)]
    door.strict(on=False)
    [(accelerated, text)] = door.con.execute("FROM warpmill_explain('SELECT sum(a) FROM t')").fetchall()
    assert accelerated
    assert "WarpmillExec" in text
    [(accelerated, text)] = door.con.execute("FROM warpmill_explain('SELECT median(a) FROM t')").fetchall()
    assert (accelerated, text.split("(")[0]) == (False, "the aggregate median")


def test_what_it_did(open_door: Callable[..., Door]) -> None:
    door = open_door()
    if door.transparent:
        pytest.skip("the shim's own functions tell of plain SELECTs: test_extension.py")
    con = door.con
    con.execute("CREATE TABLE t AS SELECT i AS a FROM range(100) r(i)")
    before = dict(con.execute("FROM warpmill_stats()").fetchall())
    door.explicit("SELECT sum(a) FROM t")
    [(accelerated, reason, profile)] = con.execute("FROM warpmill_last()").fetchall()
    assert (accelerated, reason) == (True, None)
    assert '"input_rows":[100]' in profile
    door.explicit("SELECT median(a) FROM t")
    assert con.execute("FROM warpmill_last()").fetchall() == [(False, "the aggregate median(BIGINT)", None)]
    with pytest.raises(duckdb.InvalidInputException):
        door.explicit("SELECT sum(a // 0) FROM t")
    assert "failed while it ran" in con.execute("FROM warpmill_last()").fetchall()[0][1]
    after = dict(con.execute("FROM warpmill_stats()").fetchall())
    assert {name: after[name] - before[name] for name in after} == {
        "queries_accelerated": 1,
        "queries_left_to_duckdb": 1,
        "queries_failed_at_run_time": 1,
        "inputs_scanned": 2,
    }
    assert '"tables":' in con.execute("FROM warpmill_cache()").fetchall()[0][0]
    assert con.execute("CALL warpmill_clear_cache()").fetchall() == [(True,)]


def test_a_database_in_a_file(open_door: Callable[..., Door], tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    door = open_door(path)
    con = door.con
    con.execute("CREATE TABLE t AS SELECT i AS a FROM range(10) r(i)")
    if not door.transparent:
        with pytest.raises(duckdb.BinderException, match="CREATE TEMP MACRO warpmill"):
            door.explicit("SELECT sum(a) FROM t")
        con.execute("CREATE TEMP MACRO warpmill(q) AS TABLE FROM query(warpmill_sql(q))")
    door.same("SELECT sum(a) FROM t")
    con.close()
    # Nothing is left in the file, and it is free.
    code = f"import duckdb; c = duckdb.connect({path!r}); print(c.execute('SELECT (SELECT sum(a) FROM t), count(*) "
    code += "FROM duckdb_functions() WHERE function_name LIKE $$warpmill%$$').fetchall())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == "[(45, 0)]"
    read_only = open_door(path, True)
    assert read_only.con.execute("FROM query(warpmill_sql('SELECT sum(a) FROM t'))").fetchall() == [(45,)]


def test_many_columns(door: Door) -> None:
    names = [f"c{i}" for i in range(70)]
    door.con.execute(
        "CREATE TABLE wide AS SELECT " + ", ".join(f"i + {k} AS c{k}" for k in range(70)) + " FROM range(5) r(i)"
    )
    door.same("SELECT " + ", ".join(f"sum({name})" for name in names[:64]) + " FROM wide")
    door.strict(on=True)
    with pytest.raises(duckdb.InvalidInputException, match="70 columns of one table"):
        door.explicit("SELECT " + ", ".join(f"sum({name})" for name in names) + " FROM wide")
