"""Statements: tables, views, macros, sequences, transactions."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Statements"

_T = "CREATE TABLE t (id INTEGER, name VARCHAR)"
_ROWS = "INSERT INTO t VALUES (1, 'a'), (2, 'b')"

CASES = (
    Everyday("SELECT * FROM t ORDER BY id", setup=(_T, _ROWS)),
    Everyday("SELECT * FROM u", setup=("CREATE TEMP TABLE u AS SELECT 1 AS x",)),
    Everyday(
        "SELECT * FROM t",
        setup=(
            "CREATE TABLE t (id INTEGER, kind VARCHAR DEFAULT 'none', n INTEGER DEFAULT 1 + 2)",
            "INSERT INTO t (id) VALUES (1)",
        ),
    ),
    Everyday(
        "SELECT * FROM t",
        setup=("CREATE TABLE t (id INTEGER, n INTEGER DEFAULT 7)", "INSERT INTO t VALUES (1, DEFAULT)"),
    ),
    Everyday(
        "SELECT * FROM t",
        setup=("CREATE TABLE t (id INTEGER, n INTEGER DEFAULT 7)", "INSERT INTO t DEFAULT VALUES"),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(_T, _ROWS, "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 5"),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(_T, _ROWS, "ALTER TABLE t DROP COLUMN name"),
    ),
    Everyday(
        "SELECT label FROM t ORDER BY id",
        setup=(_T, _ROWS, "ALTER TABLE t RENAME COLUMN name TO label"),
    ),
    Everyday(
        "SELECT * FROM u ORDER BY id",
        setup=(_T, _ROWS, "ALTER TABLE t RENAME TO u"),
    ),
    Everyday(
        "SELECT id, typeof(id) AS t FROM t ORDER BY id",
        setup=(_T, _ROWS, "ALTER TABLE t ALTER COLUMN id TYPE BIGINT"),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(_T, _ROWS, "UPDATE t SET name = 'z' WHERE id = 2"),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(_T, _ROWS, "DELETE FROM t WHERE id = 1"),
    ),
    Everyday(
        "SELECT count(*) AS n FROM t",
        setup=(_T, _ROWS, "TRUNCATE t"),
    ),
    Everyday(
        "INSERT INTO t VALUES (3, 'c') RETURNING id",
        setup=(_T, _ROWS),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)",
            "INSERT INTO t VALUES (1, 1)",
            "INSERT OR IGNORE INTO t VALUES (1, 2)",
        ),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        setup=(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)",
            "INSERT INTO t VALUES (1, 1)",
            "INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
        ),
    ),
    Everyday("SELECT * FROM t ORDER BY id", setup=(_T, "INSERT INTO t BY NAME SELECT 'x' AS name, 5 AS id")),
    Everyday("SELECT * FROM t ORDER BY id", setup=(_T, "BEGIN", _ROWS, "COMMIT")),
    Everyday("SELECT * FROM t ORDER BY id", setup=(_T, "BEGIN TRANSACTION", _ROWS, "ROLLBACK")),
    Everyday("SELECT * FROM v", setup=(_T, _ROWS, "CREATE VIEW v AS SELECT name FROM t WHERE id = 1")),
    Everyday(
        "SELECT add1(4) AS a",
        setup=("CREATE MACRO add1(x) AS x + 1",),
    ),
    Everyday(
        "SELECT pick(4) AS a, pick(4, b := 9) AS b",
        setup=("CREATE FUNCTION pick(a, b := 2) AS a * b",),
    ),
    Everyday(
        "SELECT * FROM top(2) ORDER BY 1",
        setup=("CREATE MACRO top(n) AS TABLE SELECT i FROM range(n) r(i)",),
    ),
    Everyday(
        "SELECT nextval('s') AS a, nextval('s') AS b",
        setup=("CREATE SEQUENCE s START 5",),
    ),
    Everyday("SHOW TABLES", setup=(_T, "CREATE VIEW v AS SELECT 1 AS x")),
    Everyday("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1", setup=(_T,)),
    Everyday(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
        setup=(_T,),
    ),
    Everyday(
        "SELECT table_name FROM duckdb_tables()",
        setup=(_T,),
    ),
    Everyday("PRAGMA table_info('t')", setup=(_T,)),
    Everyday("SELECT name, type FROM pragma_table_info('t')", setup=(_T,)),
    Everyday("SELECT sql FROM duckdb_tables()", setup=(_T,)),
    Everyday(
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal", setup=(_T, "CREATE VIEW v AS SELECT 1 AS x")
    ),
    Everyday("SELECT count(*) > 5 AS n FROM duckdb_functions() WHERE function_name LIKE 'regexp%'"),
    Everyday("SELECT name, tbl_name FROM sqlite_master", setup=(_T,)),
    Everyday(
        "SELECT value FROM duckdb_settings() WHERE name = 'default_null_order'",
    ),
    Everyday(
        "SELECT count(*) AS n FROM t", setup=(_T, "PREPARE gone AS DELETE FROM t WHERE id = $1", "EXECUTE gone(1)")
    ),
    Everyday("FROM made", setup=("CREATE TABLE made(a, b) AS SELECT 1, 'x'",)),
    Everyday("FROM v", setup=("BEGIN", "CREATE VIEW v AS SELECT 1 AS x", "COMMIT")),
    Everyday(
        "SELECT current_schema() AS a, current_database() IS NOT NULL AS b",
    ),
    Everyday("SELECT 1 AS x", setup=(_T, "DROP TABLE t", "DROP TABLE IF EXISTS t")),
    Everyday("SELECT x + 1 AS y FROM t", setup=("CREATE OR REPLACE TABLE t AS FROM (VALUES (1), (2)) v(x)",)),
    Everyday("EXECUTE p(3)", setup=("PREPARE p AS SELECT $1 + 1 AS x",)),
    Everyday(
        "SELECT getvariable('v') AS a",
        setup=("SET VARIABLE v = 5",),
    ),
    Everyday(
        "SELECT * FROM t ORDER BY id",
        state="refused",
        why="column twice: GENERATED ALWAYS AS (id * 2) VIRTUAL",
        setup=(
            "CREATE TABLE t (id INTEGER, twice INTEGER GENERATED ALWAYS AS (id * 2) VIRTUAL)",
            "INSERT INTO t (id) VALUES (4)",
        ),
    ),
    Everyday(
        "SELECT comment FROM duckdb_tables()",
        setup=(_T, "COMMENT ON TABLE t IS 'mine'"),
    ),
)
