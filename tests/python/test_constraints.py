"""PRIMARY KEY, UNIQUE and CHECK, beside DuckDB: statements one after the other, and the table after each."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from beside import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.synchronize import Barrier
    from pathlib import Path


@pytest.fixture(params=["memory", "database"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    place = () if request.param == "memory" else (str(tmp_path / "db"),)
    with warpmill.connect(*place) as con:
        yield con


#: Statements for both sides. `?`: it violates a constraint on both sides, with the text after `=>`; `!`: another error.
SCRIPTS = {
    "one column": """
        CREATE TABLE t (id INTEGER PRIMARY KEY, u VARCHAR UNIQUE)
        INSERT INTO t VALUES (1, 'a')
        ? INSERT INTO t VALUES (1, 'b') => Duplicate key "id: 1" violates primary key constraint.
        ? INSERT INTO t VALUES (2, 'a') => Duplicate key "u: a" violates unique constraint.
        ? INSERT INTO t VALUES (3, 'x'), (3, 'y')
        ? INSERT INTO t VALUES (4, 'x'), (5, 'x')
        ? INSERT INTO t VALUES (NULL, 'q') => NOT NULL constraint failed: t.id
        ? INSERT INTO t (u) VALUES ('q') => NOT NULL constraint failed: t.id
        INSERT INTO t VALUES (2, NULL), (3, NULL)
        INSERT INTO t BY NAME SELECT 4 AS id
        ? INSERT INTO t BY NAME SELECT 4 AS id => Duplicate key "id: 4" violates primary key constraint.
        INSERT INTO t SELECT i, 'text ' || i FROM range(10, 5000) r(i)
        ? INSERT INTO t SELECT i, NULL FROM range(4999, 6000) r(i) \
            => Duplicate key "id: 4999" violates primary key constraint.
        ? INSERT INTO t SELECT i + 10000, 'text ' || i FROM range(300, 500) r(i)
        INSERT INTO t SELECT i + 10000, 'text ' || i FROM range(5000, 7000) r(i)
        INSERT INTO t SELECT * FROM t WHERE id < 0
        TRUNCATE t
        INSERT INTO t VALUES (1, 'a')
    """,
    "several columns": """
        CREATE TABLE t (a INTEGER, b VARCHAR, c DOUBLE, PRIMARY KEY (a, b), UNIQUE (c, a))
        INSERT INTO t VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 1)
        ? INSERT INTO t VALUES (1, 'a', 5) => Duplicate key "a: 1, b: a" violates primary key constraint.
        ? INSERT INTO t VALUES (1, 'c', 2)
        ? INSERT INTO t VALUES (1, NULL, 7) => NOT NULL constraint failed: t.b
        INSERT INTO t VALUES (1, 'c', NULL), (1, 'd', NULL)
        UPDATE t SET b = b || '!'
        ? UPDATE t SET b = 'x' WHERE a = 1
        UPDATE t SET c = c + 1
        ? UPDATE t SET a = 1, c = 9
        UPDATE t SET a = a + 1
        INSERT INTO t VALUES (1, 'a', 5)
    """,
    "updates": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)
        INSERT INTO t SELECT i, i % 3 FROM range(10) r(i)
        UPDATE t SET a = a + 1
        ? UPDATE t SET a = 5 WHERE a = 6 => Duplicate key "a: 5" violates primary key constraint.
        ? UPDATE t SET a = 5
        UPDATE t SET a = 7 WHERE a = 7
        UPDATE t SET a = 11 - a
        UPDATE t SET n = 0
        ? UPDATE t SET a = NULL WHERE a = 3
        UPDATE t SET a = 77 WHERE a = 78
        UPDATE t SET a = s.b FROM (SELECT 1 AS a, 100 AS b) s WHERE s.a = t.a
        ? UPDATE t SET a = 2 WHERE n = 0 AND a = 3
        DELETE FROM t WHERE a = 2
        UPDATE t SET a = 2 WHERE a = 3
    """,
    "merge": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)
        INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)
        MERGE INTO t USING (VALUES (1, 7), (9, 9)) s(a, n) ON t.a = s.a WHEN MATCHED THEN UPDATE SET n = s.n WHEN \
            NOT MATCHED THEN INSERT VALUES (s.a, s.n)
        ? MERGE INTO t USING (VALUES (20, 7), (20, 9)) s(a, n) ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES \
            (s.a, s.n)
        ? MERGE INTO t USING (VALUES (20, 7), (21, 9)) s(a, n) ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES \
            (2, s.n)
        MERGE INTO t USING (VALUES (2, 5)) s(a, n) ON t.a = s.a WHEN MATCHED THEN DELETE
    """,
    "values": """
        CREATE TABLE t (x DOUBLE UNIQUE, d DECIMAL(38, 2) UNIQUE, u UBIGINT UNIQUE, b BLOB UNIQUE, m TIMESTAMP UNIQUE)
        INSERT INTO t (x) VALUES ('nan'), (0.0), ('inf'), (NULL)
        ? INSERT INTO t (x) VALUES ('nan') => Duplicate key "x: nan" violates unique constraint.
        ? INSERT INTO t (x) VALUES (-0.0) => Duplicate key "x: 0.0" violates unique constraint.
        ? INSERT INTO t (x) VALUES ('inf') => Duplicate key "x: inf" violates unique constraint.
        INSERT INTO t (x) VALUES ('-inf'), (1e300), (-1e300), (5e-324)
        INSERT INTO t (d) VALUES (1.5), (0), (-1.5), (999999999999999999999999999999999999.99)
        ? INSERT INTO t (d) VALUES (1.50) => Duplicate key "d: 1.50" violates unique constraint.
        ? INSERT INTO t (d) VALUES (999999999999999999999999999999999999.99)
        INSERT INTO t (u) VALUES (18446744073709551615), (0), (9223372036854775807), (9223372036854775808)
        ? INSERT INTO t (u) VALUES (18446744073709551615) \
            => Duplicate key "u: 18446744073709551615" violates unique constraint.
        ? INSERT INTO t (u) VALUES (5), (9223372036854775808)
        INSERT INTO t (b) VALUES ('a'), (''), ('b'::BLOB)
        ? INSERT INTO t (b) VALUES ('a'::BLOB) => Duplicate key "b: a" violates unique constraint.
        ? INSERT INTO t (b) VALUES ('')
        INSERT INTO t (m) VALUES ('2020-01-01 10:00:00'), ('2020-01-01 10:00:00.5'), ('1677-09-21')
        ? INSERT INTO t (m) VALUES ('2020-01-01 10:00:00') \
            => Duplicate key "m: 2020-01-01 10:00:00" violates unique constraint.
        ? INSERT INTO t (m) VALUES ('2020-01-01 10:00:00.500') \
            => Duplicate key "m: 2020-01-01 10:00:00.5" violates unique constraint.
    """,
    "more values": """
        CREATE TABLE t (d DATE UNIQUE, k TIME UNIQUE, f FLOAT UNIQUE, s SMALLINT UNIQUE, o BOOLEAN UNIQUE, h \
            HUGEINT UNIQUE)
        INSERT INTO t (d) VALUES ('2020-01-01'), ('0001-01-01'), ('9999-12-31')
        ? INSERT INTO t (d) VALUES ('2020-01-01') => Duplicate key "d: 2020-01-01" violates unique constraint.
        INSERT INTO t (k) VALUES ('10:00:00'), ('00:00:00')
        ? INSERT INTO t (k) VALUES ('10:00:00') => Duplicate key "k: 10:00:00" violates unique constraint.
        INSERT INTO t (f) VALUES (1.5), ('nan'), (-0.0)
        ? INSERT INTO t (f) VALUES (1.5) => Duplicate key "f: 1.5" violates unique constraint.
        ? INSERT INTO t (f) VALUES (0)
        INSERT INTO t (s) VALUES (-32768), (32767)
        ? INSERT INTO t (s) VALUES (-32768) => Duplicate key "s: -32768" violates unique constraint.
        INSERT INTO t (o) VALUES (true), (false), (NULL)
        ? INSERT INTO t (o) VALUES (true) => Duplicate key "o: true" violates unique constraint.
        INSERT INTO t (h) VALUES (1), (-99999999999999999999999999999999999999)
        ? INSERT INTO t (h) VALUES (1) => Duplicate key "h: 1" violates unique constraint.
    """,
    "texts": """
        CREATE TABLE t (s VARCHAR PRIMARY KEY, n INTEGER)
        INSERT INTO t VALUES ('', 1), ('a', 2), ('A', 3), ('ä', 4), ('a ', 5)
        ? INSERT INTO t VALUES ('', 9) => Duplicate key "s: " violates primary key constraint.
        ? INSERT INTO t VALUES ('ä', 9) => Duplicate key "s: ä" violates primary key constraint.
        INSERT INTO t SELECT repeat('long ', 10) || i, i FROM range(3000) r(i)
        ? INSERT INTO t SELECT repeat('long ', 10) || i, i FROM range(2999, 4000) r(i)
        ? INSERT INTO t VALUES (repeat('long ', 10) || '17', 0)
        INSERT INTO t VALUES (repeat('long ', 10) || '17x', 0)
    """,
    "check": """
        CREATE TABLE t (a INTEGER CHECK (a > 0), b VARCHAR, UNIQUE (a, b), CONSTRAINT foo CHECK (a < length(b)))
        ? INSERT INTO t VALUES (-1, 'a') => CHECK constraint failed on table "t" with expression CHECK((a > 0))
        ? INSERT INTO t VALUES (5, 'a') => CHECK constraint failed on table "t" with expression CHECK((a < length(b)))
        INSERT INTO t VALUES (NULL, 'a'), (3, NULL), (1, 'xy')
        ? INSERT INTO t SELECT i, 'abcdef' FROM range(1, 8) r(i)
        INSERT INTO t SELECT i, 'abcdef' FROM range(1, 6) r(i)
        ? UPDATE t SET b = 'x' => CHECK constraint failed on table "t" with expression CHECK((a < length(b)))
        ? UPDATE t SET a = -a
        UPDATE t SET b = b || '!' WHERE a = 1
        UPDATE t SET a = NULL WHERE a = 5
        DELETE FROM t WHERE a = 1
    """,
    "conditions": """
        CREATE TABLE t (a INTEGER, b VARCHAR CHECK (b IN ('x', 'y') OR b LIKE 'z%'), d DATE CHECK (d >= DATE \
            '2000-01-01'), s STRUCT(x INTEGER), CHECK (CASE WHEN a > 1 THEN b IS NOT NULL ELSE true END), CHECK \
            (a BETWEEN 0 AND 9), CHECK (s.x > 1), CHECK (a))
        ? INSERT INTO t VALUES (1, 'q', NULL, NULL)
        INSERT INTO t VALUES (1, 'zebra', '2000-01-01', {'x': 2})
        ? INSERT INTO t VALUES (1, 'x', '1999-12-31', NULL)
        ? INSERT INTO t VALUES (2, NULL, NULL, NULL)
        ? INSERT INTO t VALUES (10, 'x', NULL, NULL)
        ? INSERT INTO t VALUES (0, 'x', NULL, NULL) => CHECK constraint failed on table "t" with expression CHECK(a)
        ? INSERT INTO t VALUES (1, 'x', NULL, {'x': 1}) \
            => CHECK constraint failed on table "t" with expression CHECK((s.x > 1))
        INSERT INTO t VALUES (NULL, NULL, NULL, NULL)
    """,
    "macros": """
        CREATE MACRO big(x) AS x > 3
        CREATE TABLE t (a INTEGER CHECK (big(a)))
        ? INSERT INTO t VALUES (1) => CHECK constraint failed on table "t" with expression CHECK(big(a))
        INSERT INTO t VALUES (5)
    """,
    "names": """
        CREATE TABLE t ("A b" INTEGER CHECK ("A b" > 0), "select" INTEGER, PRIMARY KEY ("A b", "select"))
        INSERT INTO t VALUES (1, 2)
        ? INSERT INTO t VALUES (1, 2) => Duplicate key "A b: 1, select: 2" violates primary key constraint.
        ? INSERT INTO t VALUES (-1, 2) => CHECK constraint failed on table "t" with expression CHECK(("A b" > 0))
    """,
    "indexes": """
        CREATE TABLE t (a INTEGER, b INTEGER)
        INSERT INTO t VALUES (1, 2), (2, 2), (NULL, 3), (NULL, 4)
        ? CREATE UNIQUE INDEX i ON t (b)
        CREATE UNIQUE INDEX i ON t (a)
        ! CREATE UNIQUE INDEX i ON t (b, a)
        CREATE UNIQUE INDEX IF NOT EXISTS i ON t (b, a)
        ? INSERT INTO t VALUES (1, 9) => Duplicate key "a: 1" violates unique constraint.
        INSERT INTO t VALUES (NULL, 9)
        CREATE UNIQUE INDEX j ON t (b, a)
        ? UPDATE t SET a = 2 WHERE a = 1
        DROP INDEX i
        INSERT INTO t VALUES (1, 9)
        ? INSERT INTO t VALUES (1, 9)
        ! CREATE UNIQUE INDEX ON t (a)
        ! CREATE UNIQUE INDEX k ON t (nothing)
        ! CREATE UNIQUE INDEX k ON nothing (a)
    """,
    "alter": """
        CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER CHECK (c > 0), d INTEGER, CHECK (a < d))
        INSERT INTO t VALUES (1, 2, 3, 4), (2, 2, 3, 4)
        ? ALTER TABLE t ADD PRIMARY KEY (b)
        ALTER TABLE t ADD PRIMARY KEY (a)
        ? INSERT INTO t VALUES (1, 1, 1, 10)
        ! ALTER TABLE t ADD PRIMARY KEY (d)
        ALTER TABLE t ADD UNIQUE (b, c, a)
        ! ALTER TABLE t DROP COLUMN a
        ! ALTER TABLE t ALTER a TYPE BIGINT
        ! ALTER TABLE t ALTER a DROP NOT NULL
        ! ALTER TABLE t ADD CHECK (a > 0)
        ALTER TABLE t RENAME COLUMN a TO z
        ? INSERT INTO t VALUES (1, 1, 1, 10) => violates primary key constraint.
        ? INSERT INTO t VALUES (5, 1, 1, 4) => CHECK constraint failed on table "t" with expression CHECK((z < d))
        ! ALTER TABLE t DROP COLUMN d
        ! ALTER TABLE t DROP COLUMN c
        ALTER TABLE t ADD COLUMN e INTEGER UNIQUE
        INSERT INTO t VALUES (6, 1, 1, 10, 5)
        ? INSERT INTO t VALUES (7, 1, 1, 10, 5) => Duplicate key "e: 5" violates unique constraint.
        ? ALTER TABLE t ADD COLUMN f INTEGER DEFAULT 3 UNIQUE
        ! ALTER TABLE t ADD COLUMN f INTEGER PRIMARY KEY
        ALTER TABLE t ADD COLUMN f INTEGER DEFAULT 3
        ALTER TABLE t ALTER f TYPE VARCHAR
        ? INSERT INTO t VALUES (6, 1, 1, 10, 9, 'x')
    """,
    "dropped columns": """
        CREATE TABLE t (x INTEGER, a INTEGER CHECK (a > 0), b INTEGER)
        INSERT INTO t VALUES (1, 1, 1)
        ALTER TABLE t DROP COLUMN a
        INSERT INTO t VALUES (1, -1)
        ALTER TABLE t DROP COLUMN x
        ALTER TABLE t ADD UNIQUE (b)
        ! ALTER TABLE t DROP COLUMN b
        ? INSERT INTO t VALUES (1)
    """,
    "transactions": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER CHECK (n < 100))
        INSERT INTO t VALUES (1, 1), (2, 2)
        BEGIN
        INSERT INTO t VALUES (3, 3)
        ? INSERT INTO t VALUES (3, 4)
        ! SELECT 1
        ROLLBACK
        BEGIN
        DELETE FROM t WHERE a = 1
        INSERT INTO t VALUES (1, 5), (4, 4)
        UPDATE t SET a = a + 10
        INSERT INTO t VALUES (1, 1)
        COMMIT
        ? INSERT INTO t VALUES (11, 0)
        BEGIN
        INSERT INTO t VALUES (500, 1)
        ? INSERT INTO t VALUES (501, 1000)
        ROLLBACK
        BEGIN
        CREATE TABLE u (a INTEGER PRIMARY KEY)
        INSERT INTO u SELECT a FROM t
        ? INSERT INTO u VALUES (1)
        ROLLBACK
        ! SELECT * FROM u
    """,
    "on conflict": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER DEFAULT 5)
        INSERT INTO t VALUES (1, 1)
        INSERT INTO t VALUES (1, 7), (2, 2), (2, 3) ON CONFLICT DO NOTHING
        INSERT INTO t VALUES (1, 8) ON CONFLICT DO UPDATE SET n = excluded.n + 1
        INSERT OR REPLACE INTO t VALUES (1, 30), (3, 3)
        INSERT OR REPLACE INTO t (a) VALUES (1), (4)
        INSERT OR REPLACE INTO t BY NAME SELECT 50 AS n, 2 AS a
        INSERT OR IGNORE INTO t VALUES (1, 7), (9, 9), (9, 10)
        INSERT OR IGNORE INTO t SELECT a + 1, n FROM t
        INSERT OR REPLACE INTO t SELECT a, n * 2 FROM t WHERE a < 3
        INSERT OR REPLACE INTO t VALUES (1, 60) RETURNING n
        ? INSERT INTO t VALUES (1, 1)
        INSERT INTO t VALUES (1, 1) ON CONFLICT (a) DO NOTHING
    """,
    "on conflict of several keys": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER UNIQUE)
        INSERT INTO t VALUES (1, 1)
        INSERT INTO t VALUES (1, 2), (2, 1) ON CONFLICT DO NOTHING
        ! INSERT INTO t VALUES (1, 3) ON CONFLICT DO UPDATE SET b = 9
        ! INSERT OR REPLACE INTO t VALUES (1, 3)
        INSERT OR IGNORE INTO t VALUES (1, 3), (5, 1), (6, 6)
        INSERT INTO t VALUES (10, 6), (11, 11), (12, 12), (13, NULL) ON CONFLICT DO NOTHING
        ? INSERT INTO t VALUES (1, 6) ON CONFLICT (a) DO UPDATE SET b = excluded.b \
            => Duplicate key "b: 6" violates unique constraint.
        ? INSERT INTO t VALUES (30, 6) ON CONFLICT (a) DO NOTHING
        INSERT INTO t VALUES (40, 6) ON CONFLICT (b) DO UPDATE SET a = excluded.a
    """,
    "no key": """
        CREATE TABLE t (a INTEGER, n INTEGER)
        INSERT INTO t VALUES (1, 1)
        ! INSERT OR REPLACE INTO t VALUES (1, 3)
        ! INSERT OR IGNORE INTO t VALUES (1, 3)
        ! INSERT INTO t VALUES (1, 3) ON CONFLICT DO NOTHING
        ! REPLACE INTO t VALUES (1, 3)
        ! INSERT OR ROLLBACK INTO t VALUES (1, 3)
    """,
    "declarations": """
        CREATE TABLE t (a INTEGER PRIMARY KEY UNIQUE NOT NULL, b INTEGER UNIQUE UNIQUE)
        ! CREATE TABLE u (a INTEGER PRIMARY KEY, b INTEGER PRIMARY KEY)
        ! CREATE TABLE u (a INTEGER, PRIMARY KEY (a, a))
        ! CREATE TABLE u (a INTEGER, PRIMARY KEY (z))
        ! CREATE TABLE u (a INTEGER[] PRIMARY KEY)
        ! CREATE TABLE u (a STRUCT(x INTEGER) UNIQUE)
        ! CREATE TABLE u (a MAP(INTEGER, INTEGER) UNIQUE)
        ! CREATE TABLE u (a INTERVAL UNIQUE)
        ! CREATE TABLE u (a INTEGER CHECK (a > (SELECT 1)))
        ! CREATE TABLE u (a INTEGER CHECK (a IN (SELECT 1)))
        ! CREATE TABLE u (a INTEGER CHECK (sum(a) > 1))
        ! CREATE TABLE u (a INTEGER CHECK (row_number() OVER () > 1))
        ! CREATE TABLE u (a INTEGER CHECK (z > 1))
        ! CREATE TABLE u (a INTEGER CHECK (nothing(a)))
        ! CREATE TABLE u (a INTEGER PRIMARY KEY) AS SELECT 1
        ! SELECT * FROM u
        CREATE TABLE v AS SELECT * FROM t
        INSERT INTO v VALUES (NULL, NULL), (1, 1), (1, 1)
        CREATE OR REPLACE TABLE t (a INTEGER)
        INSERT INTO t VALUES (1), (1), (NULL)
        CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY)
        CREATE TEMP TABLE w (a INTEGER PRIMARY KEY)
        INSERT INTO w VALUES (1)
        ? INSERT INTO w VALUES (1)
    """,
    "other statements": """
        CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 3))
        INSERT INTO t VALUES (1, 1) RETURNING a
        ? INSERT INTO t VALUES (1, 1) RETURNING a
        ? INSERT INTO t VALUES (2, 3) RETURNING a
        ? UPDATE t SET n = 3 RETURNING a
        WITH new AS (INSERT INTO t VALUES (2, 2) RETURNING a) SELECT a FROM new
        ? WITH new AS (INSERT INTO t VALUES (3, 4) RETURNING a) INSERT INTO t SELECT a, 1 FROM new
        PREPARE p AS INSERT INTO t VALUES ($1, 5)
        ? EXECUTE p(1)
        EXECUTE p(7)
        ? EXECUTE p(7)
        CREATE SCHEMA s
        CREATE TABLE s.t (a INTEGER PRIMARY KEY)
        INSERT INTO s.t VALUES (1), (2)
        ? INSERT INTO s.t VALUES (2)
        ALTER TABLE t RENAME TO r
        ? INSERT INTO r VALUES (7, 7)
        ? INSERT INTO r VALUES (8, 3) => CHECK constraint failed on table "r" with expression CHECK((n != 3))
    """,
}


def steps(script: str) -> Iterator[tuple[str, str, str]]:
    """Give the mark, the statement and the text of the error of each line."""
    for line in script.strip().splitlines():
        statement, _, text = line.strip().partition(" => ")
        mark = statement[0] if statement[0] in "?!" else ""
        yield mark, statement.removeprefix(mark).strip(), text


def outcome(con: Any, sql: str) -> Any:
    """Give the rows of a statement, or its error."""
    try:
        return con.execute(sql).fetchall()
    except (warpmill.Error, duckdb.Error) as error:
        return error


def rows(con: Any, sql: str) -> Any:
    """Give the rows of a query in one order, or that there are none."""
    found = outcome(con, sql)
    return sorted(map(normal, found), key=repr) if isinstance(found, list) else "error"


def compare(con: warpmill.Connection, script: str, shared: Callable[[str], str] = str) -> None:
    """Run a script on both sides; `shared` gives the part of an error's text that both sides have."""
    with duckdb.connect() as theirs:
        for mark, sql, text in steps(script):
            found, expected = outcome(con, sql), outcome(theirs, sql)
            match mark:
                case "":
                    assert not isinstance(expected, Exception), (sql, expected)
                    assert not isinstance(found, Exception), (sql, found)
                    if sql.startswith(("INSERT", "UPDATE", "DELETE", "MERGE", "WITH")):
                        assert found == expected, sql
                case "?":
                    assert isinstance(expected, duckdb.ConstraintException), (sql, expected)
                    assert isinstance(found, warpmill.ConstraintError), (sql, found)
                    assert shared(text) in str(found), (sql, found)
                    assert shared(text) in str(expected), (sql, expected)
                case _:
                    assert isinstance(expected, duckdb.Error), (sql, expected)
                    assert isinstance(found, warpmill.Error), (sql, found)
                    assert not isinstance(found, warpmill.InternalError), (sql, found)
            # A transaction that was aborted tells nothing, and a table that is missing aborts DuckDB's.
            tables = outcome(theirs, "SELECT schema_name || '.' || table_name FROM duckdb_tables()")
            for (table,) in tables if isinstance(tables, list) else [("t",)]:
                query = f"SELECT * FROM {table}"
                assert rows(con, query) == rows(theirs, query), (sql, table)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_statements(con: warpmill.Connection, script: str) -> None:
    compare(con, script)


#: Tables whose constraints are listed.
TOLD = """
CREATE TABLE a (x INTEGER PRIMARY KEY, y VARCHAR NOT NULL, z INTEGER, UNIQUE (z, y));
CREATE TABLE b (x INTEGER, "Y z" INTEGER, CHECK (x > 0 AND "Y z" <> 3), PRIMARY KEY ("Y z", x), CHECK (x IS NULL));
CREATE TABLE c (x INTEGER);
CREATE UNIQUE INDEX i ON c (x);
CREATE VIEW v AS SELECT * FROM a;
CREATE TABLE d AS SELECT * FROM a;
"""


def test_they_are_told(con: warpmill.Connection) -> None:
    with duckdb.connect() as theirs:
        for side in (con, theirs):
            for statement in TOLD.strip().split(";")[:-1]:
                side.execute(statement)
        columns = "table_name, constraint_index, constraint_type, constraint_text, expression"
        numbers = "constraint_column_indexes, constraint_column_names, constraint_name"
        queries = [f"DESCRIBE {table}" for table in "abcd"]
        queries += [f"SELECT * FROM (DESCRIBE {table})" for table in "ab"]
        queries += [f"PRAGMA table_info('{table}')" for table in "abcd"]
        for order in ("constraint_type", "constraint_text"):
            # Constraint numbers differ between constraints declared with columns and table constraints.
            kept = columns.replace("constraint_index, ", "")
            queries.append(
                f"SELECT {kept}, {numbers} FROM duckdb_constraints() ORDER BY table_name, {order}, constraint_name"
            )
        named = "constraint_name, table_name, constraint_type, enforced, nulls_distinct"
        queries.append(f"SELECT {named} FROM information_schema.table_constraints ORDER BY ALL")
        named = "constraint_name, table_name, column_name, ordinal_position"
        queries.append(f"SELECT {named} FROM information_schema.key_column_usage ORDER BY ALL")
        queries.append("SELECT index_name, table_name, is_unique, is_primary, sql FROM duckdb_indexes()")
        for query in queries:
            assert con.execute(query).fetchall() == theirs.execute(query).fetchall(), query
    assert con.info("a").constraints == ("PRIMARY KEY(x)", "UNIQUE(z, y)")
    assert con.info("c").constraints == ("UNIQUE INDEX i(x)",)
    assert con.info("d").constraints == ()


def test_they_stay_when_the_database_is_opened_again(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER CHECK (n > 0))")
        con.execute("INSERT INTO t VALUES (1, 1)")
    with warpmill.connect(place) as con:
        for violation in ("INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES (2, -1)", "UPDATE t SET n = 0"):
            with pytest.raises(warpmill.ConstraintError):
                con.execute(violation)
        con.execute("INSERT INTO t SELECT i, 1 FROM range(2, 100) r(i)")
        con.execute("OPTIMIZE t")
        assert con.info("t").constraints == ("PRIMARY KEY(a)", "CHECK((n > 0))")
        with pytest.raises(warpmill.ConstraintError, match="a: 50"):
            con.execute("INSERT INTO t VALUES (50, 2)")


def test_row_segments_are_all_looked_at(con: warpmill.Connection) -> None:
    con.execute("SET warpmill.segment_rows = 1024")
    con.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, s VARCHAR UNIQUE, x INTEGER, y INTEGER, UNIQUE (x, y))")
    # Numbers in no order, over many row segments.
    con.execute("INSERT INTO t SELECT (i * 7919) % 20011, 'n' || (i * 31 % 20011), i % 100, i FROM range(20000) r(i)")
    assert con.sql("SELECT count(*), count(DISTINCT a) FROM t").fetchall() == [(20000, 20000)]
    there = {a for (a,) in con.sql("SELECT a FROM t").fetchall()}
    free = [number for number in range(20011) if number not in there]
    for value in (0, 7919, 20010 - 11 if 20010 - 11 in there else 1):
        with pytest.raises(warpmill.ConstraintError, match=f"a: {value}"):
            con.execute(f"INSERT INTO t VALUES ({value}, NULL, NULL, NULL)")
    for text in ("n0", "n31", "n19999"):
        with pytest.raises(warpmill.ConstraintError, match=f's: {text}"'):
            con.execute(f"INSERT INTO t VALUES (50000, '{text}', NULL, NULL)")
    with pytest.raises(warpmill.ConstraintError, match="x: 77, y: 10077"):
        con.execute("INSERT INTO t VALUES (50000, NULL, 77, 10077)")
    con.execute("INSERT INTO t VALUES (50000, NULL, 77, 10078)")
    con.executemany("INSERT INTO t VALUES (?, NULL, NULL, NULL)", [(number,) for number in free])
    with pytest.raises(warpmill.ConstraintError):
        con.execute(
            "INSERT INTO t SELECT a + 60000 - (CASE WHEN a = 5 THEN 60000 ELSE 0 END), NULL, NULL, NULL \
            FROM t"
        )
    con.execute("DELETE FROM t WHERE a % 2 = 0")
    con.execute("INSERT INTO t SELECT 2 * i, NULL, NULL, NULL FROM range(10005) r(i)")


def test_copy_is_looked_at(con: warpmill.Connection, tmp_path: Path) -> None:
    con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER CHECK (n > 0))")
    path = tmp_path / "x.csv"
    path.write_text("a,n\n1,1\n2,2\n")
    con.execute(f"COPY t FROM '{path}'")
    for lines in ("3,1\n2,1\n", "4,1\n4,1\n", "5,0\n", ",1\n"):
        path.write_text(f"a,n\n{lines}")
        with pytest.raises(warpmill.ConstraintError):
            con.execute(f"COPY t FROM '{path}'")
    assert con.sql("SELECT * FROM t ORDER BY a").fetchall() == [(1, 1), (2, 2)]


def test_rows_from_python_are_looked_at(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, n BIGINT CHECK (n > 0))")
    con.append("t", pa.table({"a": [1, 2], "n": [1, 2]}))
    for a, n in (([3, 3], [1, 1]), ([2], [1]), ([None], [1]), ([4], [-1])):
        with pytest.raises(warpmill.ConstraintError):
            con.append("t", pa.table({"a": pa.array(a, pa.int64()), "n": n}))
    with pytest.raises(warpmill.ConstraintError):
        con.executemany("INSERT INTO t VALUES (?, ?)", [(10, 1), (1, 1)])
    assert con.sql("SELECT count(*) FROM t WHERE a < 10").fetchall() == [(2,)]
    # Another table of that name has none.
    con.create_table("t", pa.table({"a": [1, 1]}), replace=True)
    assert con.info("t").constraints == ()


def test_errors_name_the_constraint() -> None:
    assert issubclass(warpmill.ConstraintError, warpmill.Error)
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER CHECK (10 / n > 1))")
        with pytest.raises(warpmill.ConstraintError, match=re.escape("CHECK(((10 / n) > 1))")):
            con.execute("INSERT INTO t VALUES (1, 100)")
        # A condition that cannot be computed is none that holds.
        con.execute("CREATE TABLE u (s VARCHAR CHECK (CAST(s AS INTEGER) > 1))")
        with pytest.raises(warpmill.ConstraintError, match="Error:"):
            con.execute("INSERT INTO u VALUES ('x')")


def test_rows_that_came_meanwhile_are_looked_at(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        con.begin()
        con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(warpmill.ConflictError):
            other.execute("INSERT INTO t VALUES (1)")
        con.commit()
        with pytest.raises(warpmill.ConstraintError):
            other.execute("INSERT INTO t VALUES (1)")
        other.begin()
        assert other.sql("SELECT count(*) FROM t").fetchall() == [(1,)]
        con.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(warpmill.ConflictError):
            other.execute("INSERT INTO t VALUES (2)")
        other.rollback()
        # Constraints that others have declared meanwhile count.
        con.execute("CREATE TABLE u (a INTEGER)")
        other.execute("INSERT INTO u VALUES (1)")
        con.execute("ALTER TABLE u ADD PRIMARY KEY (a)")
        with pytest.raises(warpmill.ConstraintError):
            other.execute("INSERT INTO u VALUES (1)")
        con.execute("CREATE UNIQUE INDEX i ON u (a)")
        other.execute("DROP INDEX i")
        assert con.info("u").constraints == ("PRIMARY KEY(a)",)


def test_declarations_are_part_of_transactions(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    con.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    con.begin()
    con.execute("CREATE UNIQUE INDEX i ON t (b)")
    con.execute("ALTER TABLE t ADD PRIMARY KEY (a)")
    con.rollback()
    assert con.info("t").constraints == ()
    con.execute("INSERT INTO t VALUES (3, 1)")
    con.begin()
    con.execute("DELETE FROM t WHERE a = 3")
    con.execute("CREATE UNIQUE INDEX i ON t (b)")
    con.execute("INSERT INTO t VALUES (NULL, 3)")
    con.commit()
    assert con.info("t").constraints == ("UNIQUE INDEX i(b)",)
    with pytest.raises(warpmill.ConstraintError, match="b: 3"):
        con.execute("INSERT INTO t VALUES (NULL, 3)")


def insert(place: str, start: Barrier, found: Any) -> None:
    """Insert the same numbers as other processes do."""
    done = 0
    with warpmill.connect(place) as con:
        start.wait(120)
        for number in range(40):
            with contextlib.suppress(warpmill.ConflictError, warpmill.ConstraintError):
                con.execute(f"INSERT INTO t VALUES ({number})")
                done += 1
    found.put(done)


def test_processes_insert_a_key_once(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    context = multiprocessing.get_context("spawn")
    start, found = context.Barrier(3), context.Queue()
    processes = [context.Process(target=insert, args=(place, start, found)) for _ in range(3)]
    for process in processes:
        process.start()
    done = sum(found.get(timeout=240) for _ in processes)
    for process in processes:
        process.join()
    with warpmill.connect(place) as con:
        assert con.sql("SELECT count(*), count(DISTINCT a) FROM t").fetchall() == [(done, done)]
    assert done >= 20
