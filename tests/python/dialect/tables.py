"""Tables, views and schemas: how they are made, changed and found again."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Tables"

T = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v(x, s)"

CASES = (
    Case("`CREATE TABLE AS` takes rows and names of a query", "SELECT * FROM t ORDER BY x", setup=(T,)),
    Case(
        "tables are there when the database is opened again",
        "SELECT count(*) AS n FROM t",
        setup=("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2)) v(x)",),
        reopened=True,
    ),
    Case(
        "columns of `CREATE TABLE AS` take NULLs later",
        "SELECT count(*) AS n, count(x) AS x FROM t",
        setup=("CREATE TABLE t AS SELECT 1 AS x", "INSERT INTO t VALUES (NULL)"),
    ),
    Case("NOT NULL is enforced", "INSERT INTO t VALUES (NULL)", setup=("CREATE TABLE t (x INTEGER NOT NULL)",)),
    Case(
        "`INSERT` rounds as casts do",
        "SELECT x FROM t ORDER BY x",
        setup=("CREATE TABLE t (x BIGINT)", "INSERT INTO t VALUES (3.7), (2.5), (-2.5), (1.2)"),
    ),
    Case(
        "`INSERT` of a value that does not fit fails",
        "INSERT INTO t VALUES (300)",
        setup=("CREATE TABLE t (x TINYINT)",),
    ),
    Case(
        "`INSERT` with a list of columns puts NULL into the others",
        "SELECT * FROM t",
        setup=("CREATE TABLE t (x INTEGER, y INTEGER)", "INSERT INTO t (y) VALUES (1)"),
    ),
    Case(
        "`INSERT ... BY NAME`",
        "SELECT * FROM t",
        setup=("CREATE TABLE t (x INTEGER, y VARCHAR)", "INSERT INTO t BY NAME SELECT 'b' AS y, 1 AS x"),
    ),
    Case(
        "`DELETE` with conditions over other tables",
        "SELECT * FROM t ORDER BY x",
        setup=(
            T,
            "INSERT INTO t VALUES (3, 'c')",
            "DELETE FROM t USING (SELECT 1 AS y) u WHERE t.x = u.y OR t.x IS NULL",
        ),
    ),
    Case(
        "`UPDATE` reads old values only",
        "SELECT * FROM t",
        setup=("CREATE TABLE t AS SELECT 1 AS x, 2 AS y", "UPDATE t SET x = y, y = x"),
    ),
    Case(
        "`UPDATE ... FROM`",
        "SELECT * FROM t ORDER BY x",
        setup=(T, "UPDATE t SET s = u.s FROM (VALUES (2, 'new'), (5, 'none')) u(x, s) WHERE t.x = u.x"),
    ),
    Case("`UPDATE` with a value that does not fit fails", "UPDATE t SET x = 'abc'", setup=(T,)),
    Case(
        "`MERGE INTO`",
        "SELECT * FROM t ORDER BY x",
        setup=(
            T,
            "MERGE INTO t USING (VALUES (2, 'b'), (3, 'c')) AS u(x, s) ON t.x = u.x "
            "WHEN MATCHED THEN UPDATE SET s = u.s "
            "WHEN NOT MATCHED THEN INSERT VALUES (u.x, u.s) WHEN NOT MATCHED BY SOURCE THEN DELETE",
        ),
    ),
    Case("`TRUNCATE`", "SELECT count(*) AS n FROM t", setup=(T, "TRUNCATE t")),
    Case("views are not changed", "DELETE FROM v", setup=(T, "CREATE VIEW v AS SELECT x FROM t")),
    Case(
        "a schema has tables of its own",
        "SELECT a.x AS a, b.x AS b, c.x AS c FROM t a, s.t b, main.t c",
        setup=("CREATE TABLE t AS SELECT 1 AS x", "CREATE SCHEMA s", "CREATE OR REPLACE TABLE s.t AS SELECT 2 AS x"),
    ),
    Case(
        "schemas are there when the database is opened again",
        "SELECT x FROM s.t",
        setup=("CREATE SCHEMA s", "CREATE TABLE s.t AS SELECT 2 AS x"),
        reopened=True,
    ),
    Case("unknown schemas are errors", "CREATE TABLE nowhere.t (x INTEGER)"),
    Case(
        "`DROP SCHEMA` spares what is not empty",
        "DROP SCHEMA s",
        setup=("CREATE SCHEMA s", "CREATE TABLE s.t (x INTEGER)"),
    ),
    Case(
        "`DROP SCHEMA CASCADE`",
        "SELECT * FROM s.t",
        setup=("CREATE SCHEMA s", "CREATE TABLE s.t (x INTEGER)", "DROP SCHEMA s CASCADE"),
    ),
    Case("`USE` a schema", "SELECT x FROM t", setup=("CREATE SCHEMA s", "CREATE TABLE s.t AS SELECT 2 AS x", "USE s")),
    Case(
        "`SHOW TABLES`",
        "SHOW TABLES",
        setup=(T, "CREATE VIEW v AS SELECT x FROM t", "CREATE SCHEMA s", "CREATE TABLE s.u AS FROM t"),
    ),
    Case(
        "`DESCRIBE`",
        "DESCRIBE t",
        setup=("CREATE TABLE t (a INTEGER NOT NULL, b VARCHAR, c DECIMAL(10, 2), d DOUBLE, e DATE, f BOOLEAN)",),
    ),
    Case("names of tables match in any case", "SELECT x FROM MIXED", setup=('CREATE TABLE "Mixed" AS SELECT 1 AS x',)),
    Case("a table of a name in another case is the same table", "CREATE TABLE T (x INTEGER)", setup=(T,)),
    Case(
        "views are planned when they are used",
        "SELECT sum(y) AS y FROM w",
        setup=(
            T,
            "CREATE VIEW v AS SELECT x * 2 AS y FROM t",
            "CREATE VIEW w (y) AS SELECT y + 1 FROM v",
            "INSERT INTO t VALUES (5, 'c')",
        ),
    ),
    Case(
        "views are there when the database is opened again",
        "SELECT * FROM v",
        setup=(T, "CREATE VIEW v AS SELECT x FROM t WHERE s = 'a'"),
        reopened=True,
    ),
    Case(
        "a view of what is gone is an error",
        "SELECT * FROM v",
        setup=(T, "CREATE VIEW v AS SELECT x FROM t", "DROP TABLE t"),
    ),
    Case(
        "`CREATE OR REPLACE VIEW`",
        "SELECT * FROM v",
        setup=("CREATE VIEW v AS SELECT 1 AS x", "CREATE OR REPLACE VIEW v AS SELECT 2 AS y"),
    ),
    Case("`DROP TABLE` does not drop a view", "DROP TABLE v", setup=("CREATE VIEW v AS SELECT 1 AS x",)),
    Case("`DROP VIEW IF EXISTS` does not drop a table", "DROP VIEW IF EXISTS t", setup=(T,)),
    Case("`DROP TABLE IF EXISTS`", "SELECT 1 AS one", setup=("DROP TABLE IF EXISTS nothing",)),
    Case(
        "keys are declared",
        "SELECT x FROM t",
        setup=(
            "CREATE TABLE t (x INTEGER PRIMARY KEY, y INTEGER UNIQUE)",
            "CREATE INDEX i ON t (y)",
            "INSERT INTO t VALUES (1, 2)",
        ),
    ),
    Case(
        "a primary key",
        "INSERT INTO t VALUES (1)",
        setup=("CREATE TABLE t (x INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)"),
    ),
    Case(
        "a key of several columns",
        "INSERT INTO t VALUES (2, 1), (2, 1)",
        setup=("CREATE TABLE t (x INTEGER, y INTEGER, UNIQUE (y, x))", "INSERT INTO t VALUES (1, NULL), (1, NULL)"),
    ),
    Case(
        "a foreign key",
        "INSERT INTO t VALUES (1), (NULL), (2)",
        setup=(
            "CREATE TABLE p (id INTEGER PRIMARY KEY)",
            "INSERT INTO p VALUES (1)",
            "CREATE TABLE t (x INTEGER REFERENCES p)",
        ),
    ),
    Case(
        "`FOREIGN KEY` of a key that is referenced",
        "DELETE FROM p WHERE a = 1",
        setup=(
            "CREATE TABLE p (a INTEGER, b INTEGER, UNIQUE (a, b))",
            "INSERT INTO p VALUES (1, 2), (3, 4)",
            "CREATE TABLE t (x INTEGER, y INTEGER, FOREIGN KEY (x, y) REFERENCES p (a, b))",
            "INSERT INTO t VALUES (1, 2), (3, NULL)",
        ),
    ),
    Case("CHECK", "INSERT INTO t VALUES (0)", setup=("CREATE TABLE t (x INTEGER CHECK (x > 0))",)),
    Case(
        "`CREATE UNIQUE INDEX`",
        "INSERT INTO t VALUES (1)",
        setup=("CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (1)", "CREATE UNIQUE INDEX i ON t (x)"),
    ),
    Case(
        "`ALTER TABLE ... ADD PRIMARY KEY`",
        "INSERT INTO t VALUES (1)",
        setup=("CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD PRIMARY KEY (x)"),
    ),
    Case(
        "`INSERT OR REPLACE`",
        "SELECT * FROM t ORDER BY x",
        setup=(
            "CREATE TABLE t (x INTEGER PRIMARY KEY, y INTEGER)",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
            "INSERT OR REPLACE INTO t VALUES (2, 3), (3, 3)",
        ),
    ),
    Case("a primary key is NOT NULL", "INSERT INTO t VALUES (NULL)", setup=("CREATE TABLE t (x INTEGER PRIMARY KEY)",)),
    Case("temporary tables", "SELECT x FROM t", setup=("CREATE TEMP TABLE t AS SELECT 1 AS x",)),
    Case(
        "temporary tables do not stay",
        "SELECT x FROM t",
        setup=("CREATE TEMP TABLE t AS SELECT 1 AS x",),
        reopened=True,
    ),
    Case("`DELETE ... RETURNING`", "DELETE FROM t RETURNING x", setup=(T,)),
    Case("`UPDATE ... RETURNING`", "UPDATE t SET x = x + 1 RETURNING x, s || '!' AS y", setup=(T,)),
    Case(
        "`UPDATE ... FROM` with several values for a row",
        "UPDATE t SET s = u.s FROM (VALUES (1, 'b'), (1, 'c')) u(x, s) WHERE t.x = u.x",
        setup=(T,),
        differs="an error, unless they are the same: DuckDB takes one of them",
    ),
)
