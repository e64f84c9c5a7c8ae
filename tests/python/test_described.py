"""Functions and statements that describe the catalog, and comments, compared with DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from beside import assert_both_refuse, pair_with

if TYPE_CHECKING:
    from pathlib import Path

SETUP = """
CREATE SCHEMA shop;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE SEQUENCE numbers START 5;
CREATE SEQUENCE down INCREMENT -2 MINVALUE -9 MAXVALUE 3 CYCLE;
CREATE TABLE shop.items (id INTEGER PRIMARY KEY, name VARCHAR DEFAULT 'x' NOT NULL,
    price DECIMAL(9, 2) CHECK (price > 0), m mood, "E f" STRUCT(x INTEGER, y VARCHAR)[], UNIQUE (name, price));
CREATE TABLE plain (i BIGINT UNIQUE, d DATE DEFAULT '2024-01-01', t TIMESTAMP, l INTEGER[], m MAP(VARCHAR, INTEGER));
CREATE TABLE empty (b BLOB);
CREATE UNIQUE INDEX by_price ON shop.items (price);
CREATE VIEW shop.names AS SELECT name, id + 1 AS next FROM shop.items;
CREATE VIEW whole AS SELECT * FROM plain;
CREATE MACRO add_two(a, b := 2) AS a + b;
CREATE MACRO twice(a) AS TABLE SELECT a AS x UNION ALL SELECT a;
INSERT INTO plain (i) VALUES (1), (2);
SELECT nextval('numbers'), nextval('down'), nextval('down');
SET VARIABLE limit_of = 7::BIGINT;
COMMENT ON TABLE shop.items IS 'what''s sold';
COMMENT ON COLUMN shop.items.price IS 'in euros';
COMMENT ON COLUMN plain.l IS 'gone';
COMMENT ON COLUMN plain.l IS NULL;
COMMENT ON VIEW shop.names IS 'a view';
COMMENT ON COLUMN shop.names.next IS 'the next id';
COMMENT ON TABLE whole IS 'a view, too';
"""
pair = pair_with(SETUP)

QUERIES = (
    "SELECT schema_name, table_name, comment, internal, temporary, has_primary_key, estimated_size, column_count, "
    "index_count, check_constraint_count FROM duckdb_tables()",
    "SELECT table_name, sql FROM duckdb_tables()",
    "SELECT schema_name, view_name, comment, temporary, column_count FROM duckdb_views() WHERE NOT internal",
    "SELECT schema_name, table_name, column_name, column_index, comment, column_default, is_nullable, data_type "
    "FROM duckdb_columns() WHERE NOT internal",
    "SELECT schema_name, index_name, table_name, is_unique, is_primary, sql FROM duckdb_indexes()",
    "SELECT schema_name, sequence_name, temporary, start_value, min_value, max_value, increment_by, cycle, last_value, "
    "sql FROM duckdb_sequences()",
    "SELECT DISTINCT schema_name FROM duckdb_schemas() WHERE NOT internal",
    "SELECT schema_name FROM duckdb_schemas() WHERE schema_name = 'main' LIMIT 1",
    "SELECT count(*) FROM duckdb_databases() WHERE NOT internal AND NOT readonly",
    "SELECT function_name, function_type, parameters, schema_name FROM duckdb_functions() WHERE NOT internal",
    "SELECT DISTINCT function_name, function_type FROM duckdb_functions() WHERE function_name IN "
    "('abs', 'sum', 'range', 'nextval', 'row_number', 'list_value', 'regexp_matches', 'median', 'arg_max', 'read_csv', "
    "'string_agg', 'strftime', 'list_transform', 'no such function')",
    "SELECT DISTINCT has_side_effects, stability FROM duckdb_functions() WHERE function_name IN ('random', 'nextval')",
    "SELECT name, value, type FROM duckdb_variables()",
    "SELECT name, aliases FROM duckdb_settings() WHERE name IN ('threads', 'default_null_order')",
    "SELECT value FROM duckdb_settings() WHERE name IN ('default_null_order', 'schema')",
    "SELECT type, name, tbl_name, rootpage FROM sqlite_master",
    "SELECT sql FROM sqlite_master WHERE type <> 'view'",
    "SELECT table_name FROM duckdb_tables",
    "SELECT count(*) FROM pragma_database_list",
    "FROM pragma_table_info('shop.items')",
    "SELECT name, pk FROM pragma_table_info('plain') t WHERE NOT \"notnull\"",
    "SELECT x.name FROM pragma_table_info('whole') AS x JOIN duckdb_columns() c ON c.column_name = x.name "
    "AND c.table_name = 'plain'",
    "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'shop'",
    "PRAGMA table_info('plain')",
    "SHOW plain",
    "SHOW shop.items",
    "SHOW SELECT d, t FROM plain",
    "SELECT column_name FROM (SHOW FROM plain)",
    "SHOW TABLES",
    "SHOW VARIABLES",
    "SHOW TABLES FROM shop",
    "SELECT current_setting('default_null_order'), current_setting('schema')",
)

REFUSED = (
    "COMMENT ON TABLE nothing IS 'x'",
    "COMMENT ON COLUMN plain.nothing IS 'x'",
    "COMMENT ON COLUMN whole.nothing IS 'x'",
    "COMMENT ON TABLE plain IS 5",
    "COMMENT ON COLUMN i IS 'x'",
    "FROM pragma_table_info('nothing')",
    "FROM pragma_table_info()",
)


@pytest.mark.parametrize("query", QUERIES)
def test_same(pair: tuple[Any, Any], query: str) -> None:
    ours, theirs = (con.sql(query) for con in pair)
    assert ours.columns == theirs.columns
    assert sorted(ours.fetchall(), key=repr) == sorted(theirs.fetchall(), key=repr)


@pytest.mark.parametrize("statement", REFUSED)
def test_refused(pair: tuple[Any, Any], statement: str) -> None:
    assert_both_refuse(statement, pair)


@pytest.mark.parametrize("statement", ["SHOW ALL TABLES", "SHOW", "PRAGMA show_tables_expanded"])
def test_all_tables(pair: tuple[Any, Any], statement: str) -> None:
    rows = []
    for con in pair:
        found = con.execute(statement)
        assert found.description[0][0] == "database"
        # Literals in views are BIGINT in Warpmill.
        rows.append([row[1:] for row in found.fetchall() if row[2] != "names"])
    assert rows[0] == rows[1]


def test_settings_have_scopes() -> None:
    with warpmill.connect() as con:
        con.execute("SET SESSION threads = 3")
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(3,)]
        con.execute("SET GLOBAL threads TO 2; SET LOCAL default_null_order = 'nulls_first'")
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(2,)]
        assert con.execute("SELECT current_setting('default_null_order')").fetchall() == [("NULLS_FIRST",)]
        assert con.execute("PRAGMA version").fetchall() == con.execute("SELECT version()").fetchall()


def test_the_database_is_told(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
        name = con.execute("SELECT current_database()").fetchall()
        assert con.execute("SHOW DATABASES").fetchall() == name
        assert con.execute("SHOW DATABASES").description[0][0] == "database_name"
        assert con.execute("PRAGMA database_list").fetchall() == [(0, *name[0], str(tmp_path / "db"))]
        assert con.execute("SELECT path FROM duckdb_databases()").fetchall() == [(str(tmp_path / "db"),)]
    with warpmill.connect() as con:
        assert con.execute("SELECT file FROM pragma_database_list()").fetchall() == [(None,)]


def test_own_tables_hide_those_that_tell() -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            con.execute("CREATE TABLE duckdb_tables AS SELECT 42 AS table_name")
            assert con.execute("FROM duckdb_tables").fetchall() == [(42,)]
            assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("duckdb_tables",)]


def test_texts_make_the_same_tables(pair: tuple[Any, Any]) -> None:
    ours, _ = pair
    columns = "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns()"
    with warpmill.connect() as con:
        con.execute("CREATE SCHEMA shop")
        for (sql,) in ours.execute("SELECT sql FROM duckdb_tables()").fetchall():
            con.execute(sql)
        tables = " WHERE table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY table_name, column_index"
        assert con.execute(columns + tables).fetchall() == ours.execute(columns + tables).fetchall()


CHANGES = (
    "ALTER TABLE t RENAME a TO x",
    "ALTER TABLE t ALTER x TYPE BIGINT",
    "ALTER TABLE t ADD COLUMN c INTEGER",
    "INSERT INTO t VALUES (5, 'z', 1)",
    "UPDATE t SET b = 'q'",
    "ALTER TABLE t DROP b",
    "ALTER TABLE t RENAME TO u",
    "CREATE OR REPLACE TABLE u (x INTEGER)",
)


@pytest.mark.parametrize("stored", [False, True])
def test_comments_stay(stored: bool, tmp_path: Path) -> None:
    told = (
        "SELECT table_name, comment FROM duckdb_tables() ORDER BY 1",
        "SELECT column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY table_name, column_index",
    )
    where = tmp_path / "db" if stored else None
    ours, theirs = warpmill.connect(where), duckdb.connect()
    for con in (ours, theirs):
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        con.execute("COMMENT ON TABLE t IS 'all'")
        con.execute("COMMENT ON COLUMN t.a IS 'first'")
        con.execute("COMMENT ON COLUMN t.b IS 'second'")
    for change in CHANGES:
        ours.execute(change)
        theirs.execute(change)
        if stored:
            ours.close()
            ours = warpmill.connect(where)
        for query in told:
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), change
    ours.close()
    theirs.close()


def test_comments_are_part_of_a_transaction() -> None:
    comment = "SELECT comment FROM duckdb_tables()"
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            con.execute(
                "CREATE TABLE t (a INTEGER); COMMENT ON TABLE t IS 'before'; BEGIN; COMMENT ON TABLE t IS 'within'"
            )
            assert con.execute(comment).fetchall() == [("within",)]
            con.execute("ROLLBACK")
            assert con.execute(comment).fetchall() == [("before",)]
            con.execute("BEGIN; COMMENT ON TABLE t IS NULL; INSERT INTO t VALUES (1); COMMIT")
            assert con.execute(comment).fetchall() == [(None,)]
            assert con.execute("FROM t").fetchall() == [(1,)]


def test_comments_change_no_plan() -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i, i % 3 AS g FROM range(100) r(i)")
        con.execute("COMMENT ON TABLE t IS 'rows'; COMMENT ON COLUMN t.g IS 'group'")
        query = "SELECT g, count(*), max(a.i) FROM t a JOIN t b USING (g) GROUP BY g ORDER BY g"
        assert con.execute(query).fetchall() == [(0, 1156, 99), (1, 1089, 97), (2, 1089, 98)]
        con.execute("CREATE TABLE u AS FROM t UNION ALL FROM t")
        assert con.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'u'").fetchall() == [
            (None,),
            (None,),
        ]
        con.execute("CREATE VIEW v AS FROM t")
        assert con.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'v'").fetchall() == [
            (None,),
            (None,),
        ]
