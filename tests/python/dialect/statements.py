"""ALTER TABLE, defaults, macros, variables: what changes what there is."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Definitions"

T = "CREATE TABLE t (id INTEGER NOT NULL, name VARCHAR, n DECIMAL(5, 2))"
R = "INSERT INTO t VALUES (1, 'a', 1.5), (2, NULL, NULL), (3, 'c', -2.25)"
D = "CREATE TABLE d (id INTEGER, kind VARCHAR DEFAULT 'it''s', n INTEGER DEFAULT 1 + 2, \"a b\" DOUBLE)"

CASES = (
    Case("`ADD COLUMN`", "FROM t ORDER BY id", setup=(T, R, "ALTER TABLE t ADD COLUMN x BIGINT")),
    Case(
        "`ADD COLUMN` with a default",
        "FROM t ORDER BY id",
        setup=(T, R, "ALTER TABLE t ADD COLUMN x VARCHAR DEFAULT 'new'", "INSERT INTO t (id) VALUES (9)"),
    ),
    Case("`ADD COLUMN` to no rows", "FROM t", setup=(T, 'ALTER TABLE t ADD COLUMN "a b" INTEGER DEFAULT 5')),
    Case("`ADD COLUMN` that is there", "ALTER TABLE t ADD COLUMN NAME INTEGER", setup=(T,)),
    Case("`ADD COLUMN IF NOT EXISTS`", "FROM t", setup=(T, "ALTER TABLE t ADD COLUMN IF NOT EXISTS name INTEGER")),
    Case("`DROP COLUMN`", "FROM t ORDER BY id", setup=(T, R, "ALTER TABLE t DROP COLUMN name")),
    Case("`DROP COLUMN` that is not there", "ALTER TABLE t DROP COLUMN nothing", setup=(T,)),
    Case("`DROP COLUMN IF EXISTS`", "FROM t", setup=(T, "ALTER TABLE t DROP COLUMN IF EXISTS nothing")),
    Case(
        "the only column stays",
        "ALTER TABLE o DROP COLUMN x",
        setup=("CREATE TABLE o (x INTEGER)",),
    ),
    Case("`RENAME COLUMN`", "FROM t ORDER BY id", setup=(T, R, 'ALTER TABLE t RENAME name TO "a b"')),
    Case("`RENAME COLUMN` to one that is there", "ALTER TABLE t RENAME name TO id", setup=(T,)),
    Case(
        "NOT NULL stays", "INSERT INTO t VALUES (NULL, 'x', 1, 2)", setup=(T, R, "ALTER TABLE t ADD COLUMN x INTEGER")
    ),
    Case(
        "`ALTER ... TYPE`",
        "SELECT n, typeof(n) AS t FROM t ORDER BY id",
        setup=(T, R, "ALTER TABLE t ALTER n TYPE DOUBLE"),
    ),
    Case(
        "`ALTER ... TYPE ... USING`",
        "SELECT name FROM t ORDER BY id",
        setup=(T, R, "ALTER TABLE t ALTER COLUMN name SET DATA TYPE VARCHAR USING upper(name) || id"),
    ),
    Case("`ALTER ... TYPE` of what does not fit", "ALTER TABLE t ALTER name TYPE INTEGER", setup=(T, R)),
    Case(
        "`SET NOT NULL` with NULLs there",
        "ALTER TABLE t ALTER name SET NOT NULL",
        setup=(T, R),
    ),
    Case(
        "`DROP NOT NULL`",
        "FROM t ORDER BY id",
        setup=(T, R, "ALTER TABLE t ALTER id DROP NOT NULL", "INSERT INTO t (n) VALUES (1)"),
    ),
    Case(
        "`SET DEFAULT`, `DROP DEFAULT`",
        "FROM d ORDER BY id",
        setup=(
            D,
            "ALTER TABLE d ALTER kind DROP DEFAULT",
            'ALTER TABLE d ALTER "a b" SET DEFAULT 0.5',
            "INSERT INTO d (id) VALUES (1)",
        ),
    ),
    Case("`RENAME TO`", "FROM u ORDER BY id", setup=(T, R, "ALTER TABLE t RENAME TO u")),
    Case("`RENAME TO` leaves nothing behind", "FROM t", setup=(T, R, "ALTER TABLE t RENAME TO u")),
    Case("`RENAME TO` what is there", "ALTER TABLE t RENAME TO u", setup=(T, "CREATE TABLE u (x INTEGER)")),
    Case("`RENAME TO` lasts", "FROM u ORDER BY id", setup=(T, R, "ALTER TABLE t RENAME TO u"), reopened=True),
    Case("changed columns last", "FROM t ORDER BY id", setup=(T, R, "ALTER TABLE t DROP COLUMN name"), reopened=True),
    Case("`ALTER TABLE IF EXISTS`", "SELECT 1 AS x", setup=("ALTER TABLE IF EXISTS nothing DROP COLUMN x",)),
    Case("`ALTER TABLE` of nothing", "ALTER TABLE nothing DROP COLUMN x"),
    Case("`ALTER TABLE` of a view", "ALTER TABLE v DROP COLUMN x", setup=("CREATE VIEW v AS SELECT 1 AS x, 2 AS y",)),
    Case(
        "defaults of columns that are left out", "FROM d ORDER BY id", setup=(D, "INSERT INTO d (id) VALUES (1), (2)")
    ),
    Case("defaults do not take values that are too many", "INSERT INTO d (id) VALUES (1, 'x', 7)", setup=(D,)),
    Case(
        "`DEFAULT` as a value",
        "FROM d ORDER BY id",
        setup=(D, "INSERT INTO d VALUES (1, DEFAULT, 5, DEFAULT), (2, 'x', DEFAULT, 1)"),
    ),
    Case("`DEFAULT VALUES`", "FROM d", setup=(D, "INSERT INTO d DEFAULT VALUES")),
    Case(
        "defaults beside a query",
        "FROM d ORDER BY id",
        setup=(D, "INSERT INTO d (n, id) SELECT 7, i FROM range(3) r(i) ORDER BY i LIMIT 2"),
    ),
    Case("NULL is no default", "FROM d", setup=(D, "INSERT INTO d (id, kind) VALUES (1, NULL)")),
    Case("`INSERT BY NAME` takes defaults", "FROM d", setup=(D, "INSERT INTO d BY NAME SELECT 1 AS id")),
    Case(
        "`UPDATE ... SET x = DEFAULT`",
        "FROM d",
        setup=(D, "INSERT INTO d VALUES (1, 'x', 9, 9)", "UPDATE d SET kind = DEFAULT, n = DEFAULT"),
    ),
    Case("defaults last", "FROM d", setup=(D, "INSERT INTO d (id) VALUES (1)"), reopened=True),
    Case(
        "a default that is none of the type", "CREATE TABLE x (a INTEGER DEFAULT 'abc'); INSERT INTO x DEFAULT VALUES"
    ),
    Case("a default that names a column", "CREATE TABLE x (a INTEGER, b INTEGER DEFAULT a)"),
    Case(
        "defaults stay in joins and unions",
        "SELECT * FROM d JOIN (FROM d UNION ALL FROM d) e USING (id, kind)",
        setup=(D, "INSERT INTO d (id) VALUES (1)"),
    ),
    Case(
        "macros",
        "SELECT add1(4) AS a, add1(x) AS b FROM (VALUES (1), (NULL)) t(x)",
        setup=("CREATE MACRO add1(x) AS x + 1",),
    ),
    Case(
        "macros with defaults",
        "SELECT pick(4) AS a, pick(4, b := 9) AS b, pick(1, 2) AS c",
        setup=("CREATE FUNCTION pick(a, b := 2) AS a * 10 + b",),
    ),
    Case(
        "macros of macros",
        "SELECT twice(twice(3)) AS a",
        setup=("CREATE MACRO once(x) AS x + 1", "CREATE MACRO twice(y) AS once(once(y))"),
    ),
    Case(
        "macros with queries",
        "SELECT total(1) AS a",
        setup=("CREATE TABLE t AS FROM range(5) r(i)", "CREATE MACRO total(m) AS (SELECT sum(i) FROM t WHERE i > m)"),
    ),
    Case(
        "macros with aggregates",
        "SELECT g, share(x) AS s FROM (VALUES ('a', 1), ('a', 3), ('b', NULL)) t(g, x) GROUP BY g ORDER BY g",
        setup=("CREATE MACRO share(v) AS sum(v) / count(*)",),
    ),
    Case(
        "macros with lambdas",
        "SELECT more([1, 2], 5) AS a",
        setup=("CREATE MACRO more(l, x) AS list_transform(l, lambda y: y + x)",),
    ),
    Case(
        "macros that are tables",
        "SELECT * FROM top(2) ORDER BY 1",
        setup=("CREATE MACRO top(n) AS TABLE SELECT i, i * n AS j FROM range(n) r(i)",),
    ),
    Case(
        "macros that are tables, with a name",
        "SELECT x.i + y.i AS s FROM top(2) x, top(3) AS y ORDER BY 1",
        setup=("CREATE MACRO top(n) AS TABLE SELECT i FROM range(n) r(i)",),
    ),
    Case("a macro with too few arguments", "SELECT pick(1)", setup=("CREATE MACRO pick(a, b) AS a + b",)),
    Case("a macro with too many arguments", "SELECT pick(1, 2, 3)", setup=("CREATE MACRO pick(a, b) AS a + b",)),
    Case("a macro that is there", "CREATE MACRO f() AS 2", setup=("CREATE MACRO f() AS 1",)),
    Case(
        "`CREATE OR REPLACE MACRO`",
        "SELECT f() AS a",
        setup=("CREATE MACRO f() AS 1", "CREATE OR REPLACE MACRO f() AS 2"),
    ),
    Case("`DROP MACRO`", "SELECT f()", setup=("CREATE MACRO f() AS 1", "DROP MACRO f")),
    Case("`DROP MACRO IF EXISTS`", "SELECT 1 AS x", setup=("DROP MACRO IF EXISTS f",)),
    Case("macros last", "SELECT f(2) AS a", setup=("CREATE MACRO f(x) AS x || '!'",), reopened=True),
    Case("temporary macros do not last", "SELECT f(2) AS a", setup=("CREATE TEMP MACRO f(x) AS x + 1",), reopened=True),
    Case(
        "views call macros",
        "FROM v",
        setup=("CREATE MACRO f(x) AS x + 1", "CREATE VIEW v AS SELECT f(1) AS a"),
        reopened=True,
    ),
    Case(
        "variables",
        "SELECT getvariable('v') + 1 AS a, getvariable('d') AS d, getvariable('nothing') IS NULL AS n",
        setup=("SET VARIABLE v = 5", "SET VARIABLE d = DATE '2024-02-29'"),
    ),
    Case(
        "variables of queries",
        "SELECT getvariable('V') AS a",
        setup=("SET VARIABLE v = (SELECT max(x) FROM (VALUES ('a'), ('it''s')) t(x))",),
    ),
    Case("`RESET VARIABLE`", "SELECT getvariable('v') IS NULL AS a", setup=("SET VARIABLE v = 5", "RESET VARIABLE v")),
    Case(
        "`information_schema.columns`",
        "SELECT column_name, ordinal_position, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_name = 't' ORDER BY 2",
        setup=(T,),
    ),
    Case(
        "`duckdb_tables()`",
        "SELECT schema_name, table_name, estimated_size, column_count FROM duckdb_tables()",
        setup=(T, R),
    ),
    Case(
        "`duckdb_columns()`",
        "SELECT column_name, column_index, data_type FROM duckdb_columns() WHERE table_name = 't' ORDER BY 2",
        setup=(T,),
    ),
    Case("`PRAGMA table_info`", "PRAGMA table_info('t')", setup=(T,)),
    Case("`pragma_table_info`", "SELECT name, type, pk FROM pragma_table_info('t') i WHERE cid > 0", setup=(T,)),
    Case("`duckdb_tables()` has the text that makes a table", "SELECT sql FROM duckdb_tables()", setup=(T,)),
    Case(
        "`duckdb_functions()`",
        "SELECT function_name, function_type, parameters FROM duckdb_functions() WHERE NOT internal",
        setup=("CREATE MACRO f(x, y := 2) AS x + y",),
    ),
    Case(
        "`duckdb_settings()`",
        "SELECT name, value FROM duckdb_settings() WHERE name = 'default_null_order'",
        setup=("SET default_null_order = 'nulls_first'",),
    ),
    Case(
        "`sqlite_master`",
        "SELECT type, name, tbl_name FROM sqlite_master ORDER BY ALL",
        setup=(T, "CREATE VIEW v AS FROM t"),
    ),
    Case(
        "`COMMENT ON`",
        "SELECT column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL",
        setup=(T, "COMMENT ON COLUMN t.id IS 'the key'"),
        reopened=True,
    ),
    Case(
        "`PREPARE` of changes",
        "SELECT count(*) AS n FROM t",
        setup=(T, R, "PREPARE p AS DELETE FROM t WHERE id = $1", "EXECUTE p(1)", "DEALLOCATE p"),
    ),
    Case(
        "`CREATE TABLE` with names of columns", "SELECT a, b FROM x", setup=("CREATE TABLE x(a, b) AS SELECT 1, 'y'",)
    ),
    Case(
        "`CREATE RECURSIVE VIEW`",
        "FROM v",
        setup=("CREATE RECURSIVE VIEW v(n) AS VALUES (1) UNION ALL SELECT n + 1 FROM v WHERE n < 3",),
    ),
    Case(
        "views, macros and types in transactions",
        "SELECT f(x) AS y FROM v",
        setup=("BEGIN", "CREATE MACRO f(x) AS x + 1", "CREATE VIEW v AS SELECT 1 AS x", "COMMIT"),
        reopened=True,
    ),
    Case(
        "names of tables and sequences in transactions",
        "SELECT x, nextval('s') AS n FROM u",
        setup=(
            "CREATE TABLE t AS SELECT 1 AS x",
            "BEGIN",
            "ALTER TABLE t RENAME TO u",
            "CREATE SEQUENCE s START 5",
            "COMMIT",
        ),
        reopened=True,
    ),
    Case("`current_schema()`", "SELECT current_schema() AS s", setup=("CREATE SCHEMA x", "USE x")),
    Case(
        "transactions",
        "SELECT count(*) AS n FROM t",
        setup=(T, "BEGIN", R, "COMMIT"),
    ),
    Case(
        "a change among CTEs",
        "WITH new AS (INSERT INTO t VALUES (7, 'x', 1) RETURNING id) SELECT id, (SELECT count(*) FROM t) AS n FROM new",
        setup=(T,),
    ),
    Case(
        "`INSERT ... RETURNING`",
        "INSERT INTO t VALUES (1, 'a', 1) RETURNING id",
        setup=(T,),
    ),
)
