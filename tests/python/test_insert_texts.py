"""INSERTs that differ in constants only: the third of a kind is not planned, and writes the rows of a planned one."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from beside import normal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Types of columns, and constants of each kind in turn, some of which do not fit.
VALUES: dict[str, list[str]] = {
    "TINYINT": ["1", "-7", "127", "300", "'12'", "'x'", "1.5", "2.5", "'-3'", "NULL", "true"],
    "INTEGER": ["0", "2147483647", "3000000000", "-2147483648", "'2147483648'", "0.49", "1.51", "99.99"],
    "BIGINT": ["1", "3000000000", "999999999999999999", "'-5'", "0.5", "10.5", "'9223372036854775808'"],
    "UBIGINT": ["1", "2", "-1", "-3000000000", "'7'", "1.4", "2.6"],
    "HUGEINT": ["1", "-2", "999999999999999999", "'123456789012345678901234567890'", "'1'"],
    "DOUBLE": ["0.5", "1.5", "10.25", "20.25", "'nan'", "'-inf'", "1", "-2", "3000000000", "'abc'"],
    "FLOAT": ["0.1", "0.2", "16777217", "16777219", "'1e40'", "'0.3'"],
    "DECIMAL(6, 2)": ["1", "12345", "1.005", "2.675", "9.995", "'3.14159'", "'x'", "99999", "-0.01", "-0.02"],
    "VARCHAR": ["'a'", "''", "'it''s'", "'''x'", "'ä€'", "1", "22", "0.5", "1.5", "DATE '2020-01-02'", "NULL", "true"],
    "DATE": ["DATE '2020-01-02'", "DATE '1999-12-31'", "'2021-02-03'", "'2021-02-30'", "DATE '2021-02-30'", "'x'"],
    "TIMESTAMP": [
        "TIMESTAMP '2020-01-02 03:04:05'",
        "TIMESTAMP '1999-12-31 00:00:00.5'",
        "'2020-01-01'",
        "'2020-01-02'",
    ],
    "TIME": ["'01:02:03'", "'23:59:59.999999'", "'25:00:00'", "'04:05:06'"],
    "BOOLEAN": ["true", "false", "'t'", "'no'", "'maybe'", "1", "0", "NULL"],
    "BLOB": ["'abc'", "'xyz'", "'ä'", "''"],
    "UUID": ["'8c4d3a1e-0b6f-4d7a-9c55-0123456789ab'", "'8C4D3A1E0B6F4D7A9C550123456789AC'", "'x'"],
    "INTERVAL": ["'1 day'", "'2 months'", "'3 hours 4 minutes'", "'x'"],
    "mood": ["'sad'", "'happy'", "'angry'", "'happy'", "NULL", "'sad'"],
}


@pytest.fixture(params=["memory", "stored"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    where = [] if request.param == "memory" else [str(tmp_path / "db")]
    with warpmill.connect(*where) as ours, duckdb.connect() as theirs:
        yield ours, theirs


def execute(con: Any, sql: str, params: list[Any] | None = None) -> bool:
    """Whether a statement runs."""
    try:
        con.execute(sql, params) if params is not None else con.execute(sql)
    except warpmill.InternalError:
        raise
    except (duckdb.Error, warpmill.Error):
        return False
    return True


def assert_equal(pair: tuple[Any, Any], query: str) -> None:
    ours, theirs = (sorted(map(normal, con.execute(query).fetchall()), key=repr) for con in pair)
    assert ours == theirs


def run_both(pair: tuple[Any, Any], sql: str, params: list[Any] | None = None) -> None:
    ours, theirs = (execute(con, sql, params) for con in pair)
    assert ours == theirs, f"{sql} {params or ''}: we run it: {ours}, DuckDB: {theirs}"


def from_text(con: warpmill.Connection, sql: str) -> bool:
    """Whether a statement runs without a plan."""
    return bool(con.sql(sql).profile["plan_from_text"])


@pytest.mark.parametrize("ty", VALUES)
def test_constants_are_converted_as_in_duckdb(pair: tuple[Any, Any], ty: str) -> None:
    for con in pair:
        con.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        con.execute(f"CREATE TABLE t (n INTEGER, a {ty})")
    for n in range(4):
        for value in VALUES[ty]:
            run_both(pair, f"INSERT INTO t VALUES ({n}, {value})")
            run_both(pair, f"INSERT INTO t (a, n) VALUES ({value}, {n}), ({value}, NULL)")
    assert_equal(pair, "SELECT n, CAST(a AS VARCHAR) FROM t")


def test_the_third_of_a_kind_is_not_planned(pair: tuple[Any, Any]) -> None:
    con = pair[0]
    con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
    assert [from_text(con, f"INSERT INTO t VALUES ({i}, 'x{i}')") for i in range(4)] == [False, False, True, True]
    assert [from_text(con, f"INSERT INTO t (b, a) VALUES ('y', {i})") for i in range(10, 13)] == [False, False, True]
    con.execute("SET warpmill.debug.plan_templates = 'off'")
    assert not any(from_text(con, f"INSERT INTO t VALUES ({i}, 'x')") for i in range(20, 24))
    con.execute("SET warpmill.debug.plan_templates = 'on'")
    assert con.execute("SELECT count(*), count(DISTINCT b) FROM t").fetchall() == [(11, 6)]


def test_constraints_hold(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR NOT NULL, c INTEGER CHECK (c > 0), UNIQUE (b, c))"
        )
    rows = [(1, "'a'", 1), (2, "'b'", 2), (3, "'c'", 3), (3, "'d'", 4), (4, "'a'", 1), (5, "NULL", 5), (6, "'f'", 0)]
    for a, b, c in [*rows, (7, "'g'", 7), (8, "'h'", -1), (9, "'i'", 9), (9, "'j'", 9)]:
        run_both(pair, f"INSERT INTO t VALUES ({a}, {b}, {c})")
    assert_equal(pair, "FROM t")
    with pytest.raises(warpmill.ConstraintError, match='Duplicate key "a: 7" violates primary key'):
        pair[0].execute("INSERT INTO t VALUES (7, 'z', 70)")
    for n in range(3):
        for con in pair:
            con.execute("BEGIN")
        run_both(pair, f"INSERT INTO t VALUES ({20 + n}, 'n{n}', 1)")
        run_both(pair, f"INSERT INTO t VALUES ({30 + n}, 'm{n}', {n})")
        for con in pair:
            con.execute("ROLLBACK" if n == 0 else "COMMIT")
    assert_equal(pair, "FROM t")


def test_tables_that_change_are_planned_for_anew(pair: tuple[Any, Any]) -> None:
    def insert(first: int) -> None:
        for n in range(first, first + 4):
            run_both(pair, f"INSERT INTO t VALUES ({n}, '{n}')")

    changes = [
        "ALTER TABLE t ADD COLUMN c INTEGER",
        "ALTER TABLE t DROP COLUMN c",
        "ALTER TABLE t ALTER COLUMN b TYPE INTEGER USING CAST(b AS INTEGER)",
        "DROP TABLE t",
        "CREATE VIEW t AS SELECT 1 AS a, 'x' AS b",
        "DROP VIEW t; CREATE TABLE t (a VARCHAR, b TINYINT)",
        "ALTER TABLE t RENAME TO u",
        "CREATE TABLE t (b DOUBLE, a DOUBLE PRIMARY KEY)",
    ]
    for con in pair:
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    insert(0)
    for number, change in enumerate(changes, 1):
        for con in pair:
            con.execute(change)
        insert(10 * number)
        if "DROP TABLE" not in change and "RENAME" not in change:
            assert_equal(pair, "FROM t")


def test_names_mean_the_tables_of_now(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE t (a INTEGER); CREATE TABLE s.t (a VARCHAR)")
        for n in range(4):
            con.execute(f"INSERT INTO t VALUES ({n})")
            con.execute(f"INSERT INTO s.t VALUES ({n})")
        con.execute("USE s")
        for n in range(10, 14):
            con.execute(f"INSERT INTO t VALUES ({n})")
        con.execute("USE main")
        con.execute('INSERT INTO "T" VALUES (20)')
        con.execute("CREATE TEMPORARY TABLE t (a DOUBLE)")
        for n in range(30, 34):
            con.execute(f"INSERT INTO t VALUES ({n})")
        assert con.execute("SELECT a FROM t").fetchall() == [(float(n),) for n in range(30, 34)]
        con.execute("DROP TABLE t")
        con.execute("INSERT INTO t VALUES (40)")
        assert con.execute("SELECT a FROM t").fetchall() == [(n,) for n in (0, 1, 2, 3, 20, 40)]
        assert con.execute("SELECT a FROM s.t").fetchall() == [(str(n),) for n in (0, 1, 2, 3, 10, 11, 12, 13)]


def test_other_connections_replace_the_table(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as one, warpmill.connect(str(tmp_path / "db")) as other:
        one.execute("CREATE TABLE t (a INTEGER)")
        for n in range(4):
            one.execute(f"INSERT INTO t VALUES ({n})")
        other.execute("DROP TABLE t; CREATE TABLE t (a VARCHAR, b INTEGER DEFAULT 7)")
        with pytest.raises(warpmill.Error):
            one.execute("INSERT INTO t VALUES (10, 11, 12)")
        one.execute("INSERT INTO t (a) VALUES (10)")
        other.execute("DROP TABLE t; CREATE TABLE t (a DOUBLE)")
        one.execute("INSERT INTO t VALUES (20)")
        assert other.execute("FROM t").fetchall() == [(20.0,)]


def test_defaults_and_sequences(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE SEQUENCE q")
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER DEFAULT 5, c VARCHAR DEFAULT 'it''s')")
        con.execute("CREATE TABLE u (a INTEGER, b BIGINT DEFAULT nextval('q'), m TIMESTAMP DEFAULT now())")
    for n in range(5):
        run_both(pair, f"INSERT INTO t (a) VALUES ({n})")
        run_both(pair, f"INSERT INTO t VALUES ({n}, DEFAULT, 'x')")
        run_both(pair, f"INSERT INTO t (c, a) VALUES (DEFAULT, {n})")
        run_both(pair, f"INSERT INTO u (a) VALUES ({n})")
    assert_equal(pair, "FROM t")
    assert_equal(pair, "SELECT a, b FROM u")
    for con in pair:
        con.execute("ALTER TABLE t ALTER COLUMN b SET DEFAULT 6")
    run_both(pair, "INSERT INTO t (a) VALUES (9)")
    assert_equal(pair, "FROM t")


def test_parameters(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b VARCHAR, c DECIMAL(8, 3), d DATE)")
    day = datetime.date(2020, 1, 2)
    rows: list[list[Any]] = [[n, f"it's {n}", decimal.Decimal(n) / 8, day + datetime.timedelta(n)] for n in range(5)]
    rows += [[10, None, None, None], [11, None, None, None], [12, None, None, None], [12, "x", None, None]]
    rows += [[20, 1, 2, "2020-01-01"], [21, 2, 3, "2020-01-02"], [22, 2, 3, "2020-01-03"], [23, 2, 3, "x"]]
    rows += [[2**40 + n, "y", 0.5 + n, day] for n in range(4)]
    for row in rows:
        run_both(pair, "INSERT INTO t VALUES (?, ?, ?, ?)", row)
    for n in range(4):
        run_both(pair, "INSERT INTO t (b, a) VALUES ($2, $1), ('const', $3)", [100 + n, "p", 200 + n])
    for con in pair:
        con.executemany("INSERT INTO t (a, b) VALUES (?, ?)", [[1000 + n, str(n)] for n in range(20)])
    assert_equal(pair, "FROM t")


def test_transactions(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
    for round_ in range(6):
        for con in pair:
            con.execute("BEGIN")
        for n in range(40):
            run_both(pair, f"INSERT INTO t VALUES ({100 * round_ + n}, 'r{round_ % 3}')")
        assert_equal(pair, "SELECT count(*), sum(a), min(b), max(b) FROM t")
        for con in pair:
            con.execute("COMMIT" if round_ % 2 == 0 else "ROLLBACK")
        assert_equal(pair, "SELECT count(*), sum(a), min(b), max(b) FROM t")
    assert_equal(pair, "FROM t")


def test_foreign_keys_are_checked(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
        con.execute("CREATE TABLE c (id INTEGER, p INTEGER REFERENCES p (id))")
    for n in range(6):
        run_both(pair, f"INSERT INTO p VALUES ({n})")
    for n in [0, 1, 2, 3, 99, 4, 100, 5]:
        run_both(pair, f"INSERT INTO c VALUES ({n}, {n})")
        run_both(pair, "INSERT INTO c VALUES (?, ?)", [n, n + 1])
    assert_equal(pair, "FROM c")


def test_a_transaction_of_many_inserts_is_whole_for_others(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with warpmill.connect(path) as con, warpmill.connect(path) as other:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        con.execute("BEGIN")
        for n in range(200):
            con.execute(f"INSERT INTO t VALUES ({n}, 'x')")
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
        con.execute("COMMIT")
        assert other.execute("SELECT count(*), sum(a) FROM t").fetchall() == [(200, 19900)]
        con.execute("INSERT INTO t VALUES (200, 'x')")
        assert len(list((tmp_path / "db" / "t").glob("*.data"))) < 32
    with warpmill.connect(path) as con:
        assert con.execute("SELECT count(*), sum(a) FROM t").fetchall() == [(201, 20100)]


@pytest.mark.parametrize(
    "values",
    [
        "1, 0.5 + 1",
        "1, 2 + 0.25), (2, 1",
        "1, 0.5), (2, 1 + 0.25",
        "1, -(0.5 + 1)",
        "1, abs(-2.5)",
    ],
)
def test_computed_values_have_the_types_of_their_columns(pair: tuple[Any, Any], values: str) -> None:
    for con in pair:
        con.execute("CREATE TABLE t (a INTEGER, b DOUBLE)")
        con.execute(f"INSERT INTO t VALUES ({values})")
    assert_equal(pair, "FROM t")
    assert_equal(pair, f"SELECT * FROM (VALUES ({values})) v (a, b)")
