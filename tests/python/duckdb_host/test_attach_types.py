"""Types and names of columns in tables of Warpmill's inside DuckDB, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

from .attached import assert_equal, attached, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Types of both systems, with values of each in SQL: the smallest, the greatest, and values that are easily confused.
TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127", "0"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "UTINYINT": ["0", "255"],
    "USMALLINT": ["0", "65535"],
    "UINTEGER": ["0", "4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", "1"],
    "FLOAT": ["'nan'", "'inf'", "'-inf'", "3.4028235e38", "1.401298464324817e-45", "0.1"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "1.7976931348623157e308", "5e-324", "-0.1"],
    "DECIMAL(4,1)": ["-999.9", "999.9", "0.1"],
    "DECIMAL(9,4)": ["-99999.9999", "99999.9999"],
    "DECIMAL(18,0)": ["-999999999999999999", "999999999999999999"],
    "DECIMAL(38,10)": ["-9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"],
    "VARCHAR": ["''", "'a'", "'ä€😀'", "repeat('lång ', 3000)", "'twelve bytes'"],
    "BLOB": ["'\\x00\\xFF'::BLOB", "''::BLOB", "'only text'::BLOB"],
    "DATE": ["'0001-01-01'", "'9999-12-31'", "'1970-01-01'", "'2024-02-29'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'"],
    "TIMESTAMP": ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"],
    "TIMESTAMP_S": ["'1969-12-31 23:59:59'", "'9999-12-31 23:59:59'"],
    "TIMESTAMP_MS": ["'1969-12-31 23:59:59.999'", "'9999-12-31 23:59:59.999'"],
    "TIMESTAMP_NS": ["'1969-12-31 23:59:59.999999999'", "'2262-04-11 23:47:16.854775806'"],
    "TIMESTAMPTZ": ["'2024-01-01 12:00:00+00'", "'1969-12-31 23:59:59.999999+00'"],
    "INTERVAL": ["'13 months 5 days 3.000001 seconds'", "'-1 month'", "'-2 days'", "'0 days'"],
    "UUID": [
        "'00000000-0000-0000-0000-000000000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    ],
    "ENUM('sad', 'ok', 'happy')": ["'sad'", "'happy'", "'ok'"],
    "INTEGER[]": ["[]", "[1, NULL, 3]", "[NULL]", "range(3000)::INTEGER[]"],
    "VARCHAR[][]": ["[['a', NULL], [], NULL]", "[]"],
    "INTEGER[2]": ["[1, 2]", "[NULL, 4]"],
    "STRUCT(a INTEGER, b VARCHAR)": ["{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': NULL}"],
    "STRUCT(u UUID, e ENUM('p', 'q'))[]": ["[{'u': 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'e': 'q'}, NULL]", "[]"],
    "MAP(VARCHAR, HUGEINT)": ["MAP {'a': 1, 'b': NULL}", "MAP {}"],
}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[warpmill.Connection]:
    """Warpmill's own connection."""
    with warpmill.connect(tmp_path / "db") as connection:
        yield connection


@pytest.fixture
def con(tmp_path: Path) -> Iterator[Any]:
    with attached(tmp_path / "db") as connection:
        yield connection


def values_of(ty: str) -> str:
    return ", ".join(f"({at}, ({value})::{ty})" for at, value in enumerate([*TYPES[ty], "NULL"]))


@pytest.mark.parametrize("ty", TYPES)
def test_types_are_read(own: warpmill.Connection, con: Any, ty: str) -> None:
    for connection in (own, con):
        connection.execute(f"CREATE TABLE t (i INTEGER, v {ty})")
        connection.execute(f"INSERT INTO t VALUES {values_of(ty)}")
    assert_equal(con, "w.t", "t")


@pytest.mark.parametrize("ty", TYPES)
def test_types_are_written(own: warpmill.Connection, con: Any, ty: str) -> None:
    con.execute(f"CREATE TABLE t (i INTEGER, v {ty})")
    con.execute(f"INSERT INTO t VALUES {values_of(ty)}")
    con.execute("CREATE TABLE w.made AS FROM t")
    con.execute(f"CREATE TABLE w.declared (i INTEGER, v {ty})")
    con.execute("INSERT INTO w.declared FROM t")
    for table in ("w.made", "w.declared"):
        assert_equal(con, table, "t")
    # A table that Warpmill writes itself, for comparison.
    own.execute(f"CREATE TABLE same (i INTEGER, v {ty})")
    own.execute(f"INSERT INTO same VALUES {values_of(ty)}")
    [[same]] = own.sql(
        "SELECT count(*) FROM (SELECT i, v::VARCHAR AS v FROM made EXCEPT SELECT i, v::VARCHAR FROM same)"
    ).fetchall()
    assert same == 0
    assert own.sql("SELECT count(*) FROM made WHERE v IS NULL").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("value", "ty", "error"),
    [
        ("'infinity'", "DATE", "infinite"),
        ("'-infinity'", "TIMESTAMP", "infinite"),
        ("['infinity'::TIMESTAMPTZ]", "TIMESTAMPTZ[]", "infinite"),
        ("170141183460469231731687303715884105727", "HUGEINT", "170141183460469231731687303715884105727"),
        ("INTERVAL '2147483647 hours'", "INTERVAL", "nanoseconds"),
        ("1", "UHUGEINT", '"v" has the type UHUGEINT'),
        ("['101']", "BIT[]", r'"v" has the type BIT\[\]'),
        ("1", "UNION(a INTEGER, b VARCHAR)", '"v" has the type UNION'),
        ("'12:00:00+01'", "TIMETZ", '"v" has the type TIME WITH TIME ZONE'),
        ("'{}'", "JSON", '"v" has the type JSON'),
    ],
)
def test_values_and_types_that_warpmill_has_not(con: Any, value: str, ty: str, error: str) -> None:
    with pytest.raises(duckdb.Error, match=error):
        con.execute(f"CREATE TABLE w.t AS SELECT ({value})::{ty} AS v")
    assert rows(con, "SHOW TABLES FROM w") == []


def test_spelling_and_types_of_nothing(own: warpmill.Connection, con: Any) -> None:
    con.execute(
        """CREATE TABLE w."Mixed" (MyCol INTEGER, S STRUCT(MyField INTEGER), "order" VARCHAR, CHECK (MyCol > 0))"""
    )
    con.execute("""INSERT INTO w.mixed VALUES (1, {'MyField': 2}, 'o')""")
    assert own.sql('FROM "Mixed"').columns == ["MyCol", "S", "order"]
    assert rows(con, 'SELECT mycol, s.myfield, "ORDER" FROM w.MIXED') == [(1, 2, "o")]
    con.execute("CREATE TABLE w.nothing AS SELECT NULL AS a, [] AS b, {'x': NULL} AS c, MAP {} AS d, 1 AS A")
    types = ["INTEGER", "INTEGER[]", "STRUCT(x INTEGER)", "MAP(INTEGER, INTEGER)", "INTEGER"]
    assert rows(con, "SELECT column_type FROM (DESCRIBE w.nothing)") == [(ty,) for ty in types]
    assert rows(con, "FROM w.nothing") == [(None, [], {"x": None}, {}, 1)]
