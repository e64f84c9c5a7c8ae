"""Sequences, schemas and names of tables in transactions: beside DuckDB, and beside other connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from test_constraints import outcome, rows, steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["memory", "database"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    place = () if request.param == "memory" else (str(tmp_path / "db"),)
    with warpmill.connect(*place) as con:
        yield con


#: Statements for both sides; `!`: an error on both sides.
SCRIPTS = {
    "sequences": """
        CREATE SEQUENCE s
        SELECT nextval('s')
        BEGIN
        CREATE SEQUENCE q START 5
        SELECT nextval('q')
        SELECT nextval('q')
        SELECT currval('q')
        SELECT nextval('s')
        DROP SEQUENCE s
        CREATE TABLE u (id INTEGER DEFAULT nextval('q'), v INTEGER)
        INSERT INTO u (v) VALUES (1), (2)
        COMMIT
        SELECT nextval('q')
        ! SELECT nextval('s')
        BEGIN
        CREATE SEQUENCE r
        SELECT nextval('r')
        SELECT nextval('q')
        ROLLBACK
        ! SELECT nextval('r')
        SELECT nextval('q')
        BEGIN
        CREATE OR REPLACE SEQUENCE s START 100
        SELECT nextval('s')
        SELECT sequence_name, start_value FROM duckdb_sequences() ORDER BY 1
        COMMIT
        SELECT nextval('s')
        SELECT sequence_name, last_value FROM duckdb_sequences() ORDER BY 1
        BEGIN
        DROP SEQUENCE s
        ! SELECT nextval('s')
        ROLLBACK
        SELECT nextval('s')
        BEGIN
        CREATE SEQUENCE IF NOT EXISTS s START 7
        ! CREATE SEQUENCE s
        ROLLBACK
        BEGIN
        DROP SEQUENCE IF EXISTS nothing
        CREATE SEQUENCE gone
        DROP SEQUENCE gone
        COMMIT
        ! SELECT nextval('gone')
    """,
    "names of tables": """
        CREATE TABLE t AS SELECT 1 AS x
        CREATE TABLE w AS SELECT 2 AS x
        BEGIN
        ALTER TABLE t RENAME TO r
        INSERT INTO r VALUES (10)
        SELECT * FROM r ORDER BY 1
        ! SELECT * FROM t
        ROLLBACK
        SELECT * FROM t
        BEGIN
        ALTER TABLE t RENAME TO r
        INSERT INTO r VALUES (10)
        CREATE TABLE t AS SELECT 99 AS y
        ALTER TABLE t RENAME COLUMN y TO z
        SELECT z FROM t
        ALTER TABLE w RENAME TO v
        ALTER TABLE v RENAME COLUMN x TO y
        SELECT y FROM v
        SELECT table_name FROM duckdb_tables() ORDER BY 1
        COMMIT
        SELECT table_name FROM duckdb_tables() ORDER BY 1
        SELECT y FROM v
        BEGIN
        ALTER TABLE r RENAME TO tmp
        ALTER TABLE t RENAME TO r
        ALTER TABLE tmp RENAME TO t
        SELECT * FROM r
        SELECT * FROM t ORDER BY 1
        COMMIT
        BEGIN
        CREATE TABLE n AS SELECT 5 AS a
        ALTER TABLE n RENAME TO m
        DROP TABLE v
        ALTER TABLE m RENAME TO v
        SELECT a FROM v
        COMMIT
        SELECT a FROM v
        BEGIN
        ALTER TABLE v RENAME TO v2
        DROP TABLE v2
        COMMIT
        ! SELECT * FROM v
        ! SELECT * FROM v2
        BEGIN
        ! ALTER TABLE t RENAME TO r
        ROLLBACK
        BEGIN
        ALTER TABLE t RENAME TO T2
        ALTER TABLE T2 RENAME TO t
        INSERT INTO t VALUES (3)
        COMMIT
        SELECT * FROM t ORDER BY 1
        BEGIN
        ALTER TABLE t RENAME TO a
        DROP TABLE a
        CREATE TABLE t AS SELECT 'new' AS s
        CREATE TABLE a AS SELECT 'another' AS s
        ALTER TABLE r RENAME TO b
        COMMIT
        SELECT s FROM t
        SELECT s FROM a
        SELECT * FROM b
        BEGIN
        ALTER TABLE b RENAME TO c
        CREATE OR REPLACE TABLE c AS SELECT 7 AS seven
        ALTER TABLE a RENAME TO b
        COMMIT
        SELECT seven FROM c
        SELECT s FROM b
        BEGIN
        ALTER TABLE b RENAME TO b2
        ! SELECT * FROM nothing
        ROLLBACK
        SELECT s FROM b
    """,
    "schemas": """
        CREATE SCHEMA old
        CREATE TABLE old.t AS SELECT 1 AS x
        CREATE VIEW old.v AS SELECT 2 AS x
        CREATE TABLE t AS SELECT 3 AS x
        BEGIN
        CREATE SCHEMA s
        CREATE TABLE s.t AS SELECT 10 AS x
        INSERT INTO s.t VALUES (11)
        CREATE VIEW s.v AS SELECT x + 1 AS y FROM s.t
        CREATE SEQUENCE s.q START 7
        CREATE MACRO s.m(a) AS a + 1
        SELECT x FROM s.t ORDER BY 1
        SELECT y FROM s.v ORDER BY 1
        SELECT nextval('s.q')
        SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('s', 'old') ORDER BY 1
        ! CREATE SCHEMA s
        ROLLBACK
        ! SELECT * FROM s.t
        SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('s', 'old') ORDER BY 1
        BEGIN
        CREATE SCHEMA s
        CREATE TABLE s.t AS SELECT 10 AS x
        INSERT INTO s.t VALUES (11)
        CREATE VIEW s.v AS SELECT x + 1 AS y FROM s.t
        CREATE SEQUENCE s.q START 7
        INSERT INTO t SELECT x FROM s.t
        COMMIT
        SELECT x FROM s.t ORDER BY 1
        SELECT y FROM s.v ORDER BY 1
        SELECT nextval('s.q')
        INSERT INTO s.t VALUES (12)
        CREATE TABLE s.u AS SELECT 5 AS five
        ALTER TABLE s.u RENAME TO w
        SELECT five FROM s.w
        BEGIN
        ! DROP SCHEMA s
        ROLLBACK
        BEGIN
        DROP SCHEMA s CASCADE
        ! SELECT * FROM s.t
        ROLLBACK
        SELECT count(*) FROM s.t
        BEGIN
        DROP SCHEMA s CASCADE
        SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('s', 'old') ORDER BY 1
        COMMIT
        ! SELECT * FROM s.t
        SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('s', 'old') ORDER BY 1
        BEGIN
        DROP SCHEMA old CASCADE
        CREATE SCHEMA old
        CREATE TABLE old.t AS SELECT 'new' AS y
        COMMIT
        SELECT y FROM old.t
        ! SELECT * FROM old.v
        BEGIN
        CREATE SCHEMA brief
        DROP SCHEMA brief
        CREATE SCHEMA empty
        CREATE SCHEMA IF NOT EXISTS empty
        DROP SCHEMA IF EXISTS nothing
        COMMIT
        ! CREATE TABLE brief.t AS SELECT 1 AS x
        CREATE TABLE empty.t AS SELECT 1 AS x
        BEGIN
        ALTER TABLE empty.t RENAME TO u
        INSERT INTO empty.u VALUES (2)
        COMMIT
        SELECT x FROM empty.u ORDER BY 1
        DROP SCHEMA empty CASCADE
        DROP SCHEMA old CASCADE
    """,
    "tables with foreign keys": """
        CREATE TABLE p (id INTEGER PRIMARY KEY)
        CREATE TABLE c (a INTEGER REFERENCES p (id))
        INSERT INTO p VALUES (1)
        BEGIN
        ! ALTER TABLE p RENAME TO q
        ROLLBACK
        BEGIN
        ALTER TABLE c RENAME TO d
        INSERT INTO d VALUES (1)
        COMMIT
        ! INSERT INTO d VALUES (2)
        ! DELETE FROM p
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_statements(con: warpmill.Connection, script: str) -> None:
    with duckdb.connect() as theirs:
        for mark, sql, _ in steps(script):
            found, expected = outcome(con, sql), outcome(theirs, sql)
            if mark:
                assert isinstance(expected, duckdb.Error), (sql, expected)
                assert isinstance(found, warpmill.Error), (sql, found)
                assert not isinstance(found, warpmill.InternalError), (sql, found)
                continue
            assert not isinstance(expected, Exception), (sql, expected)
            assert not isinstance(found, Exception), (sql, found)
            if sql.startswith("SELECT"):
                assert found == expected, sql
        names = theirs.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        assert con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall() == names
        for (name,) in names:
            assert rows(con, f"FROM {name}") == rows(theirs, f"FROM {name}"), name


def state(con: Any) -> list[Any]:
    """The rows of all tables, and the sequences."""
    names = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
    tables: list[Any] = [(name, rows(con, f"FROM {name}")) for name in names]
    return [*tables, con.execute("SELECT sequence_name, start_value FROM duckdb_sequences() ORDER BY 1").fetchall()]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_others_see_it_at_the_commit(end: str, tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE t AS SELECT 1 AS x; CREATE TABLE u AS SELECT 2 AS x; CREATE SEQUENCE s START 3")
        before = state(other)
        con.execute("BEGIN; ALTER TABLE t RENAME TO v; INSERT INTO v VALUES (4); ALTER TABLE u RENAME TO t")
        con.execute("CREATE SEQUENCE q START 8; DROP SEQUENCE s")
        assert state(other) == before
        with pytest.raises(warpmill.ConflictError):
            other.execute("INSERT INTO t VALUES (5)")
        after = state(con)
        con.execute(end)
        expected = after if end == "COMMIT" else before
        assert state(con) == state(other) == expected
        other.execute("INSERT INTO t VALUES (6)")
    with warpmill.connect(place) as con:
        assert con.sql("SELECT max(x) FROM t").fetchall() == [(6,)]
        assert not any(path.name.startswith(".commits") for path in (tmp_path / "db").iterdir())


def test_conflicts_with_others(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute("CREATE TABLE t AS SELECT 1 AS x; CREATE SEQUENCE s")
        con.execute("BEGIN; ALTER TABLE t RENAME TO u")
        other.execute("CREATE TABLE u AS SELECT 2 AS x")
        with pytest.raises(warpmill.ConflictError):
            con.execute("COMMIT")
        assert con.sql("FROM t").fetchall() == [(1,)]
        assert con.sql("FROM u").fetchall() == [(2,)]
        con.execute("BEGIN; FROM t")
        other.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(warpmill.ConflictError):
            con.execute("ALTER TABLE t RENAME TO v")
        con.execute("ROLLBACK; BEGIN; CREATE SEQUENCE q")
        other.execute("CREATE SEQUENCE q START 50")
        with pytest.raises(warpmill.ConflictError, match="sequence 'q'"):
            con.execute("COMMIT")
        assert con.sql("SELECT nextval('q')").fetchall() == [(50,)]
        con.execute("BEGIN; DROP SEQUENCE s")
        other.execute("DROP SEQUENCE s")
        with pytest.raises(warpmill.ConflictError, match="sequence 's'"):
            con.execute("COMMIT")
        con.execute("BEGIN; CREATE SCHEMA one; CREATE TABLE one.t AS SELECT 1 AS x")
        other.execute("CREATE SCHEMA one")
        with pytest.raises(warpmill.ConflictError):
            con.execute("COMMIT")
        con.execute("BEGIN; DROP SCHEMA one")
        other.execute("CREATE TABLE one.u AS SELECT 1 AS x")
        with pytest.raises(warpmill.ConflictError):
            con.execute("COMMIT")
        con.execute("BEGIN; FROM one.u; INSERT INTO t VALUES (3)")
        with pytest.raises(warpmill.ConflictError):
            other.execute("BEGIN; INSERT INTO one.u VALUES (2); DROP TABLE t")
        other.execute("ROLLBACK")
        con.execute("COMMIT")


def test_others_see_a_schema_at_the_commit(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con, warpmill.connect(place) as other:
        con.execute(
            "CREATE SCHEMA old; CREATE TABLE old.t AS SELECT 1 AS x; CREATE SEQUENCE old.q; SELECT nextval('old.q')"
        )
        con.execute("BEGIN; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 2 AS x; DROP SCHEMA old CASCADE")
        with pytest.raises(warpmill.Error):
            other.execute("FROM s.t")
        assert other.sql("FROM old.t").fetchall() == [(1,)]
        con.execute("COMMIT")
        assert other.sql("FROM s.t").fetchall() == [(2,)]
        with pytest.raises(warpmill.Error):
            other.execute("FROM old.t")
        other.execute("INSERT INTO s.t VALUES (3)")
        con.execute(
            "BEGIN; CREATE SCHEMA brief; CREATE TABLE brief.t AS SELECT 1 AS x; DROP SCHEMA brief CASCADE; COMMIT"
        )
        con.execute("USE s; BEGIN; INSERT INTO t VALUES (4); CREATE VIEW v AS FROM t; COMMIT")
    with warpmill.connect(place) as con:
        assert con.sql("SELECT count(*) FROM s.v").fetchall() == [(3,)]
        con.execute("BEGIN; CREATE SCHEMA gone; CREATE TABLE gone.t AS SELECT 1 AS x; INSERT INTO s.t VALUES (5)")
    with warpmill.connect(place) as con:
        con.execute("INSERT INTO s.t VALUES (5)")
    assert sorted(path.name for path in (tmp_path / "db").iterdir()) == ["s.schema"]


def test_temporary_sequences(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("BEGIN; CREATE TEMP SEQUENCE s START 4")
        assert con.sql("SELECT nextval('s'), nextval('s')").fetchall() == [(4, 5)]
        con.execute("COMMIT")
        assert con.sql("SELECT nextval('s')").fetchall() == [(6,)]
        with warpmill.connect(str(tmp_path / "db")) as other, pytest.raises(warpmill.CatalogError):
            other.execute("SELECT nextval('s')")
        con.execute("BEGIN; DROP SEQUENCE s; ROLLBACK")
        assert con.sql("SELECT nextval('s')").fetchall() == [(7,)]
        con.execute("BEGIN; DROP SEQUENCE s; COMMIT")
        with pytest.raises(warpmill.CatalogError):
            con.execute("SELECT nextval('s')")
