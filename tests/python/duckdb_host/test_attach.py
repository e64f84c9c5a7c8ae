"""Warpmill's own tables inside DuckDB: `ATTACH 'db' AS w (TYPE warpmill)`."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
import warpmill._warpmill as native
import warpmill.duckdb
from warpmill.bench.verify import difference

from .attached import assert_equal, attached, rows
from .clients import TPCH, tpch

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A number of rows with several row segments.
MANY = 300_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def own(folder: Path) -> Iterator[warpmill.Connection]:
    """Warpmill's own connection."""
    with warpmill.connect(folder) as connection:
        yield connection


@pytest.fixture
def con(folder: Path) -> Iterator[Any]:
    with attached(folder) as connection:
        yield connection


def scanned(node: Any) -> list[int]:
    """The numbers of rows that the scans of an analyzed plan have returned."""
    if isinstance(node, list):
        return [count for child in node for count in scanned(child)]
    if not isinstance(node, dict):
        return []
    counts = [count for child in node.values() for count in scanned(child)]
    if "TABLE_SCAN" in (node.get("type"), node.get("operator_type")):
        rows_of = "intermediate_rows" if "intermediate_rows" in node else "operator_cardinality"
        counts.append(int(node[rows_of]))
    return counts


def test_an_empty_table(own: warpmill.Connection, con: Any) -> None:
    own.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    assert rows(con, "FROM w.t") == []
    assert rows(con, "SELECT count(*), sum(a), max(b) FROM w.t") == [(0, None, None)]
    con.execute("INSERT INTO w.t SELECT 1, 'a' WHERE false")
    con.execute("CREATE TABLE w.u AS FROM w.t")
    assert rows(con, "FROM w.u") == []


def test_columns_filters_and_joins(own: warpmill.Connection, con: Any) -> None:
    own.execute("SET warpmill.segment_rows = 65536")
    sql = f"""
        SELECT i AS a, i % 7 AS b, 's' || (i // 100) AS s, (i * 3)::DECIMAL(12,2) AS d,
            CASE WHEN i < 1000 THEN NULL ELSE i::DOUBLE END AS f, DATE '2020-01-01' + (i // 1000)::INTEGER AS day
        FROM range({MANY}) r(i)"""
    own.execute(f"CREATE TABLE t AS {sql}")
    con.execute("CREATE TABLE t AS FROM w.t")
    con.execute("CREATE TABLE small AS SELECT i AS b, 'name ' || i AS name FROM range(5) r(i)")
    for query in (
        "SELECT * FROM {t}",
        "SELECT s, a FROM {t} WHERE a BETWEEN 70000 AND 70010",
        "SELECT count(*) FROM {t} WHERE 200000 < a",
        "SELECT a FROM {t} WHERE a = 5 OR a = 299999",
        "SELECT a, s FROM {t} WHERE s = 's2999'",
        "SELECT a FROM {t} WHERE d >= 899990",
        "SELECT a FROM {t} WHERE a IN (131071, 131072, 5)",
        "SELECT a FROM {t} WHERE f IN (5, NULL, 290000, 'nan') AND s >= 's2'",
        "SELECT count(*) FROM {t} WHERE f IS NULL",
        "SELECT count(*) FROM {t} WHERE f IS NOT NULL AND a < 2000",
        "SELECT min(a), max(a) FROM {t} WHERE day = '2020-05-01'",
        "SELECT name, sum(d) FROM {t} JOIN small USING (b) GROUP BY name",
        "SELECT a FROM {t} SEMI JOIN small USING (b) WHERE a < 20",
        "SELECT x.a FROM {t} x, {t} y WHERE x.a = y.a + 299990",
        "SELECT a, row_number() OVER (ORDER BY a DESC) FROM {t} QUALIFY row_number() OVER (ORDER BY a DESC) < 5",
        "SELECT * FROM {t} ORDER BY a DESC LIMIT 3",
        "SELECT count(*) FROM {t}",
    ):
        for enabled in ("true", "false"):
            con.execute(f"SET warpmill_enabled = {enabled}")
            found, expected = (rows(con, query.format(t=table)) for table in ("w.t", "t"))
            assert sorted(found, key=repr) == sorted(expected, key=repr), (query, enabled)
    # Rows have the order in which they were inserted.
    assert rows(con, "SELECT a FROM w.t") == [(i,) for i in range(MANY)]
    assert rows(con, "SELECT a, rowid FROM w.t LIMIT 3 OFFSET 250000") == [(i, i) for i in range(250_000, 250_003)]


def test_rows_are_left_out(own: warpmill.Connection, con: Any) -> None:
    """Conditions decide which rows are read: row segments by statistics, and parts of them by zones."""
    own.execute("SET warpmill.segment_rows = 131072; SET warpmill.pruning_metadata = 'minmax'")
    own.execute(f"CREATE TABLE t AS SELECT i AS a, 's' || (100000 + i) AS s FROM range({MANY}) r(i)")
    con.execute("SET warpmill_enabled = false")
    for condition, read in (
        ("a < 10", 16384),
        ("a BETWEEN 20000 AND 20010", 16384),
        ("a IN (200000, 200001)", 16384),
        ("a % 300000 < 10", MANY),
        ("a > 300000", 0),
        ("a IS NULL", 0),
    ):
        plan = rows(con, f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT max(s) FROM w.t WHERE {condition}")[0][1]
        assert scanned(json.loads(plan)) == [read], condition


def test_names(own: warpmill.Connection, con: Any) -> None:
    own.execute('CREATE SCHEMA "Shop"; CREATE TABLE "Shop"."a ""b" ("x y" INTEGER, "select" INTEGER)')
    own.execute("""INSERT INTO "Shop"."a ""b" VALUES (1, 2)""")
    own.execute("CREATE VIEW v AS SELECT 1 AS one; CREATE TABLE T1 AS SELECT 1::INTEGER AS a")
    assert rows(con, """SELECT "X Y", "select" FROM w.shop."A ""B" """) == [(1, 2)]
    assert sorted(rows(con, "SHOW TABLES FROM w")) == [("T1",), ('a "b',)]
    assert rows(con, "SHOW TABLES FROM w.main") == [("T1",)]
    listed = (
        "SELECT schema_name, table_name, estimated_size, column_count FROM duckdb_tables() WHERE database_name = 'w'"
    )
    assert sorted(rows(con, listed)) == [("Shop", 'a "b', 1, 2), ("main", "T1", 1, 1)]
    columns = "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns"
    columns += " WHERE table_catalog = 'w'"
    assert ("main", "T1", "a", "INTEGER") in rows(con, columns)
    schemas = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'w' ORDER BY lower(schema_name)"
    assert rows(con, schemas) == [("main",), ("Shop",)]
    con.execute("USE w")
    assert rows(con, "FROM t1") == [(1,)]
    con.execute("USE memory")
    for query, error in (
        ("FROM w.none", "none"),
        ("FROM w.none.t", "none"),
        ("FROM w.v", "v"),
        ("SELECT b FROM w.t1", '"b"'),
        ("DROP TABLE w.none", "none"),
        ("CREATE TABLE w.t1 (a INTEGER)", "(?i)t1.*already exists"),
        ("CREATE TABLE w.none.t (a INTEGER)", "none"),
    ):
        with pytest.raises((duckdb.CatalogException, duckdb.BinderException), match=error):
            con.execute(query)
    con.execute("CREATE TABLE IF NOT EXISTS w.t1 (b INTEGER); DROP TABLE IF EXISTS w.none")
    con.execute("CREATE OR REPLACE TABLE w.t1 AS SELECT 'new' AS b")
    assert own.sql("FROM t1").fetchall() == [("new",)]
    con.execute("CREATE SCHEMA w.more; CREATE SCHEMA IF NOT EXISTS w.more; CREATE TABLE w.more.t AS SELECT 3 AS c")
    assert own.sql("FROM more.t").fetchall() == [(3,)]
    with pytest.raises(duckdb.Error, match="more"):
        con.execute("DROP SCHEMA w.more")
    con.execute("DROP SCHEMA w.more CASCADE")
    assert rows(con, schemas) == [("main",), ("Shop",)]


def test_constraints_and_defaults(own: warpmill.Connection, con: Any) -> None:
    con.execute(
        "CREATE TABLE w.t (id INTEGER PRIMARY KEY, a INTEGER DEFAULT 7 CHECK (a > 0), s VARCHAR NOT NULL DEFAULT 'x')"
    )
    con.execute("INSERT INTO w.t (id) VALUES (1)")
    con.execute("INSERT INTO w.t BY NAME SELECT 2 AS id, 3 AS a")
    for values, error in (("(1, 1, 'd')", "Duplicate key"), ("(3, -1, 'c')", "CHECK"), ("(4, 1, NULL)", "NOT NULL")):
        with pytest.raises(duckdb.ConstraintException, match=error):
            con.execute(f"INSERT INTO w.t VALUES (9, 9, 'fine'), {values}")
    assert rows(con, "FROM w.t ORDER BY id") == own.sql("FROM t ORDER BY id").fetchall() == [(1, 7, "x"), (2, 3, "x")]
    con.execute("CREATE TABLE w.pairs (a INTEGER, b INTEGER UNIQUE, c INTEGER, UNIQUE (a, c))")
    keys = "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints()"
    keys += " WHERE database_name = 'w' AND constraint_type <> 'NOT NULL' ORDER BY ALL"
    found = [("pairs", "UNIQUE", ["a", "c"]), ("pairs", "UNIQUE", ["b"]), ("t", "PRIMARY KEY", ["id"])]
    assert rows(con, keys) == found
    assert rows(con, "SELECT column_name, key FROM (DESCRIBE w.t)")[0] == ("id", "PRI")
    own.execute("CREATE SEQUENCE s; CREATE TABLE n (id INTEGER DEFAULT nextval('s'), a INTEGER)")
    con.execute("INSERT INTO w.n VALUES (5, 6)")
    with pytest.raises(duckdb.Error, match="nextval"):
        con.execute("INSERT INTO w.n (a) VALUES (6)")
    with pytest.raises(duckdb.NotImplementedException, match="FOREIGN KEY"):
        con.execute("CREATE TABLE w.f (a INTEGER REFERENCES f (b), b INTEGER UNIQUE)")


def test_writes_are_seen_at_once(own: warpmill.Connection, con: Any) -> None:
    con.execute("CREATE TABLE w.t (a INTEGER)")
    assert rows(con, "INSERT INTO w.t SELECT i FROM range(10) r(i)") == [(10,)]
    assert own.sql("SELECT sum(a) FROM t").fetchall() == [(45,)]
    con.execute("PREPARE q AS SELECT sum(a) FROM w.t")
    for expected, enabled in ((145, "true"), (245, "false")):
        con.execute(f"SET warpmill_enabled = {enabled}")
        own.execute("INSERT INTO t VALUES (100)")
        assert rows(con, "SELECT sum(a) FROM w.t") == rows(con, "EXECUTE q") == [(expected,)]
    own.execute("ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'n'")
    assert rows(con, "SELECT DISTINCT b FROM w.t") == [("n",)]
    own.execute("DROP TABLE t")
    with pytest.raises(duckdb.CatalogException, match="t"):
        con.execute("FROM w.t")
    con.execute("COPY (SELECT 1 AS a, 'x' AS b) TO '/dev/null'")
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    con.execute("INSERT INTO w.t SELECT a + 1 FROM w.t; INSERT INTO w.t SELECT a + 2 FROM w.t")
    assert sorted(own.sql("FROM t").fetchall()) == [(1,), (2,), (3,), (4,)]


def test_whole_databases_are_copied(own: warpmill.Connection, con: Any, tmp_path: Path) -> None:
    con.execute("CREATE SCHEMA s; CREATE TABLE s.b AS SELECT 'x' AS x; CREATE TABLE a (i INTEGER NOT NULL DEFAULT 3)")
    con.execute("INSERT INTO a SELECT i FROM range(10) r(i)")
    con.execute("CREATE SCHEMA w.s")
    con.execute("COPY FROM DATABASE memory TO w")
    for table in ("a", "s.b"):
        assert_equal(con, f"w.{table}", f"memory.{table}")
    assert own.sql("DESCRIBE a").fetchall()[0][2:5] == ("NO", None, "3")
    con.execute(f"COPY w.a TO '{tmp_path / 'a.parquet'}'; COPY w.a FROM '{tmp_path / 'a.parquet'}'")
    assert own.sql("SELECT count(*), sum(i) FROM a").fetchall() == [(20, 90)]


def test_failing_statements_leave_nothing(own: warpmill.Connection, con: Any, folder: Path) -> None:
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    fails = f"SELECT CASE WHEN i = {MANY - 1} THEN error('here') ELSE i END FROM range({MANY}) r(i)"
    for statement in (
        f"INSERT INTO w.t {fails}",
        f"CREATE TABLE w.u AS {fails}",
        f"CREATE OR REPLACE TABLE w.t AS {fails}",
    ):
        with pytest.raises(duckdb.InvalidInputException, match="here"):
            con.execute(statement)
    assert rows(con, "FROM w.t") == own.sql("FROM t").fetchall() == [(1,)]
    assert [name for (name,) in rows(con, "SHOW TABLES FROM w")] == ["t"]
    con.execute("INSERT INTO w.t VALUES (2)")
    own.execute("INSERT INTO t VALUES (3)")
    assert sorted(rows(con, "FROM w.t")) == [(1,), (2,), (3,)]
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".") and path.is_dir()]


def test_cancelled_statements_leave_nothing(own: warpmill.Connection, con: Any) -> None:
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    for statement in ("INSERT INTO w.t", "CREATE TABLE w.u AS"):
        timer = threading.Timer(0.5, con.interrupt)
        timer.start()
        with pytest.raises(duckdb.InterruptException):
            con.execute(f"{statement} SELECT a.i + b.i FROM range(100000) a(i), range(1000000) b(i)")
        timer.join()
    assert own.sql("SHOW TABLES").fetchall() == [("t",)]
    assert rows(con, "FROM w.t") == [(1,)]
    con.execute("INSERT INTO w.t VALUES (2)")
    assert own.sql("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_transactions(own: warpmill.Connection, con: Any) -> None:
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    con.execute("BEGIN")
    con.execute("INSERT INTO w.t VALUES (2)")
    con.execute("CREATE TABLE w.u AS SELECT sum(a) AS s FROM w.t")
    assert rows(con, "SELECT (SELECT sum(a) FROM w.t), s FROM w.u") == [(3, 3)]
    assert own.sql("SELECT sum(a) FROM t").fetchall() == [(1,)]
    assert own.sql("SHOW TABLES").fetchall() == [("t",)]
    with pytest.raises(warpmill.ConflictError):
        own.execute("INSERT INTO t VALUES (9)")
    con.execute("COMMIT")
    assert own.sql("SELECT sum(a) FROM t").fetchall() == own.sql("FROM u").fetchall() == [(3,)]
    con.execute("BEGIN; INSERT INTO w.t VALUES (3); DROP TABLE w.u; CREATE TABLE w.x (a INTEGER); ROLLBACK")
    assert own.sql("SELECT sum(a) FROM t").fetchall() == own.sql("FROM u").fetchall() == [(3,)]
    # A transaction reads a table as it was when it first named it.
    con.execute("BEGIN")
    assert rows(con, "SELECT sum(a) FROM w.t") == [(3,)]
    own.execute("INSERT INTO t VALUES (10)")
    assert rows(con, "SELECT sum(a) FROM w.t") == [(3,)]
    with pytest.raises(duckdb.TransactionException, match="changed by another writer"):
        con.execute("INSERT INTO w.t VALUES (4)")
    with pytest.raises(duckdb.Error, match="aborted"):
        con.execute("FROM w.t")
    con.execute("ROLLBACK")
    assert rows(con, "SELECT sum(a) FROM w.t") == [(13,)]
    # A table that a transaction has created does not replace one that another transaction has created meanwhile.
    con.execute("BEGIN; CREATE TABLE w.x AS SELECT 1 AS a; INSERT INTO w.t VALUES (4)")
    own.execute("CREATE TABLE x AS SELECT 2 AS b")
    with pytest.raises(duckdb.TransactionException, match="Failed to commit"):
        con.execute("COMMIT")
    assert rows(con, "FROM w.x") == [(2,)]
    assert rows(con, "SELECT sum(a) FROM w.t") == [(13,)]
    # After an error, nothing of a transaction remains; DuckDB's COMMIT of it is a ROLLBACK.
    con.execute("BEGIN; INSERT INTO w.t VALUES (4)")
    with pytest.raises(duckdb.CatalogException, match="already exists"):
        con.execute("CREATE TABLE w.x (a INTEGER)")
    with pytest.raises(duckdb.Error, match="aborted"):
        con.execute("FROM w.t")
    con.execute("COMMIT")
    assert rows(con, "SELECT sum(a) FROM w.t") == [(13,)]
    con.execute("CREATE TABLE d (a INTEGER); BEGIN; INSERT INTO w.t VALUES (4)")
    with pytest.raises(duckdb.TransactionException, match="single"):
        con.execute("INSERT INTO d VALUES (1)")
    con.execute("ROLLBACK; BEGIN")
    with pytest.raises(duckdb.TransactionException, match="CREATE SCHEMA"):
        con.execute("CREATE SCHEMA w.s")
    con.execute("ROLLBACK")


def test_two_writers(own: warpmill.Connection, con: Any) -> None:
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    own.execute("BEGIN")
    own.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(duckdb.TransactionException, match="written by another writer"):
        con.execute("INSERT INTO w.t VALUES (3)")
    with pytest.raises(duckdb.TransactionException, match="written by another writer"):
        con.execute("DROP TABLE w.t")
    own.execute("COMMIT")
    con.execute("INSERT INTO w.t VALUES (3)")
    other = con.cursor()
    con.execute("BEGIN; INSERT INTO w.t VALUES (4)")
    assert rows(other, "SELECT count(*) FROM w.t") == [(3,)]
    with pytest.raises(duckdb.TransactionException, match="written by another writer"):
        other.execute("INSERT INTO w.t VALUES (5)")
    con.execute("COMMIT")
    other.execute("INSERT INTO w.t VALUES (5)")
    assert own.sql("SELECT sum(a) FROM t").fetchall() == [(15,)]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE w.t SET a = 2", "UPDATE"),
        ("DELETE FROM w.t", "DELETE"),
        ("DELETE FROM w.t WHERE a = 1", "DELETE"),
        ("MERGE INTO w.t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE", "MERGE"),
        ("ALTER TABLE w.t ADD COLUMN b INTEGER", "ALTER"),
        ("ALTER TABLE w.t RENAME TO u", "ALTER"),
        ("CREATE INDEX i ON w.t (a)", "CREATE INDEX"),
        ("CREATE VIEW w.v AS SELECT 1", "CREATE VIEW"),
        ("CREATE SEQUENCE w.s", "CREATE SEQUENCE"),
        ("CREATE TYPE w.e AS ENUM ('a')", "CREATE TYPE"),
        ("CREATE MACRO w.m(x) AS x + 1", "CREATE MACRO"),
        ("INSERT INTO w.t VALUES (1) RETURNING a", "RETURNING"),
        ("INSERT INTO w.t VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
    ],
)
def test_statements_of_warpmill_only(con: Any, statement: str, what: str) -> None:
    con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    with pytest.raises((duckdb.NotImplementedException, duckdb.BinderException), match=f"(?is){what}"):
        con.execute(statement)
    assert rows(con, "FROM w.t") == [(1,)]


def test_deleted_rows(own: warpmill.Connection, folder: Path) -> None:
    own.execute("SET warpmill.segment_rows = 65536")
    source = "SELECT i AS a, i % 100 AS g, 'text ' || i AS s, [i] AS l FROM range(300000) r(i)"
    own.execute(f"CREATE TABLE t AS {source}")
    kept = "a % 7 <> 3 AND a NOT BETWEEN 140000 AND 150000"
    own.execute(f"DELETE FROM t WHERE NOT ({kept})")
    with attached(folder) as con:
        con.execute(f"CREATE TABLE u AS FROM ({source}) WHERE {kept}")
        assert_equal(con, "w.t", "u")
        for query in (
            "SELECT count(*) FROM {}",
            "SELECT count(*), sum(a), min(s), max(len(l)) FROM {} WHERE a > 139000 AND a < 151000",
            "SELECT g, count(*) FROM {} GROUP BY g ORDER BY g",
            "SELECT min(a), max(a) FROM {} WHERE a BETWEEN 145000 AND 160000",
            "SELECT a, s FROM {} ORDER BY a DESC LIMIT 5",
        ):
            assert rows(con, query.format("w.t")) == rows(con, query.format("u"))
        assert rows(con, "SELECT count(DISTINCT rowid), min(rowid), max(rowid), count(*) FROM w.t") == [
            (count := rows(con, "SELECT count(*) FROM u")[0][0], 0, count - 1, count)
        ]
        assert rows(con, "SELECT rowid, a FROM w.t WHERE a = 299999") == [(count - 1, 299999)]
    own.execute("OPTIMIZE t")
    with attached(folder) as con:
        assert rows(con, "SELECT count(*) FROM w.t") == [(count,)]


def test_read_only(own: warpmill.Connection, folder: Path) -> None:
    own.execute("CREATE TABLE t AS SELECT 1 AS a")
    with warpmill.duckdb.connect() as con:
        con.execute(f"ATTACH '{folder}' AS w (TYPE warpmill, READ_ONLY)")
        assert rows(con, "FROM w.t") == [(1,)]
        for statement in (
            "INSERT INTO w.t VALUES (2)",
            "CREATE TABLE w.u (a INTEGER)",
            "DROP TABLE w.t",
            "CREATE SCHEMA w.s",
        ):
            with pytest.raises(duckdb.InvalidInputException, match="read-only"):
                con.execute(statement)
    assert own.sql("FROM t").fetchall() == [(1,)]


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with warpmill.duckdb.connect() as con:
        for path, options, error in (
            ("file", "", "not a directory"),
            ("none", ", READ_ONLY", "READ_ONLY"),
            ("none/deeper", "", "cannot be made"),
        ):
            with pytest.raises(duckdb.IOException, match=error):
                con.execute(f"ATTACH '{tmp_path / path}' AS w (TYPE warpmill{options})")
        with pytest.raises(duckdb.BinderException, match=r"(?i)color"):
            con.execute(f"ATTACH '{tmp_path / 'none'}' AS w (TYPE warpmill, COLOR 'red')")
        assert not (tmp_path / "none").exists()
        con.execute(f"ATTACH '{tmp_path / 'none'}' AS w (TYPE warpmill)")
        assert rows(con, "SHOW TABLES FROM w") == []
        con.execute("CREATE TABLE w.t AS SELECT 1 AS a")
    with warpmill.connect(tmp_path / "none") as own:
        assert own.sql("FROM t").fetchall() == [(1,)]
    with warpmill.duckdb.connect() as con:
        con.execute("SET enable_external_access = false")
        with pytest.raises(duckdb.Error, match=r"(?i)disabled"):
            con.execute(f"ATTACH '{tmp_path / 'none'}' AS w (TYPE warpmill)")


def test_damage(own: warpmill.Connection, con: Any, folder: Path) -> None:
    own.execute("CREATE TABLE good AS SELECT 1 AS a")
    for name in ("bad", "torn"):
        own.execute(f"CREATE TABLE {name} AS SELECT i AS a FROM range(10000) r(i)")
    for manifest in (folder / "bad").glob("*manifest*"):
        manifest.write_bytes(b"none")
    with warpmill.duckdb.connect() as con:
        con.execute(f"ATTACH '{folder}' AS w (TYPE warpmill)")
        assert [name for (name,) in rows(con, "SHOW TABLES FROM w")] == ["good", "torn"]
        assert rows(con, "FROM w.good") == [(1,)]
        with pytest.raises(duckdb.IOException, match="bad"):
            con.execute("FROM w.bad")
        for data in (folder / "torn").glob("*.data"):
            content = bytearray(data.read_bytes())
            content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
            data.write_bytes(content)
        for query in ("SELECT a FROM w.torn", "SELECT sum(a) FROM w.torn"):
            with pytest.raises(duckdb.IOException, match="torn"):
                con.execute(query).fetchall()
        assert rows(con, "FROM w.good") == [(1,)]


def test_threads(own: warpmill.Connection, con: Any) -> None:
    own.execute("SET warpmill.segment_rows = 65536")
    own.execute(f"CREATE TABLE t AS SELECT i AS a, i % 10 AS g, 's' || i AS s FROM range({MANY}) r(i)")
    con.execute("SET threads = 4")
    expected = rows(con, "SELECT g, sum(a), max(s) FROM w.t GROUP BY g ORDER BY g")
    failures: list[Any] = []

    def read(enabled: str) -> None:
        try:
            with con.cursor() as cursor:
                for _ in range(5):
                    cursor.execute(f"SET warpmill_enabled = {enabled}")
                    if rows(cursor, "SELECT g, sum(a), max(s) FROM w.t GROUP BY g ORDER BY g") != expected:
                        failures.append("another answer")
                    if rows(cursor, "SELECT count(*) FROM w.t WHERE a > 290000") != [(MANY - 290_001,)]:
                        failures.append("another count")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=[enabled]) for enabled in ("true", "false", "true", "false")]
    for thread in threads:
        thread.start()
    for number in range(5):
        con.execute(f"CREATE TABLE w.other{number} AS FROM w.t LIMIT 1000")
    for thread in threads:
        thread.join()
    assert failures == []


def test_readers_beside_a_writer(own: warpmill.Connection, con: Any) -> None:
    """A statement that names a table several times reads one version of it, while another connection writes."""
    own.execute("CREATE TABLE t AS SELECT i AS id, 100 AS amount FROM range(1000) r(i)")
    done = threading.Event()
    failures: list[Any] = []

    def write() -> None:
        try:
            for number in range(20):
                own.execute(f"BEGIN; UPDATE t SET amount = amount - 1 WHERE id = {number}")
                own.execute("UPDATE t SET amount = amount + 1 WHERE id = 999; COMMIT")
        except Exception as error:
            failures.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    rounds = 0
    while not done.is_set() or rounds < 4:
        con.execute(f"SET warpmill_enabled = {['true', 'false'][rounds % 2]}")
        paid = "(SELECT max(amount) FROM w.t) - (SELECT sum(100 - amount) FROM w.t WHERE id < 20)"
        assert rows(con, f"SELECT sum(amount), {paid} FROM w.t") == [(100_000, 100)]
        rounds += 1
    writer.join()
    assert failures == []
    assert rows(con, "SELECT amount FROM w.t WHERE id = 999") == [(120,)]


def test_detach_frees(own: warpmill.Connection, folder: Path) -> None:
    own.execute(f"CREATE TABLE t AS SELECT i AS a, 's' || i AS s FROM range({MANY}) r(i)")
    own.close()

    def mapped() -> int:
        return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines()) + sum(
            str(folder) in str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()
        )

    before = mapped()
    with warpmill.duckdb.connect() as con:
        con.execute(f"ATTACH '{folder}' AS w (TYPE warpmill)")
        assert rows(con, "SELECT count(DISTINCT s), sum(a) FROM w.t") == [(MANY, MANY * (MANY - 1) // 2)]
        con.execute("SET warpmill_enabled = false")
        assert rows(con, "SELECT sum(a) FROM w.t") == [(MANY * (MANY - 1) // 2,)]
        con.execute("DETACH w")
        with pytest.raises(duckdb.Error, match="w"):
            con.execute("FROM w.t")
        for _ in range(50):
            if mapped() <= before:
                break
            time.sleep(0.1)
        assert mapped() <= before
        shutil.rmtree(folder)
        con.execute(f"ATTACH '{folder}' AS w (TYPE warpmill)")
        assert rows(con, "SHOW TABLES FROM w") == []


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """TPC-H in tables of DuckDB, and in tables of Warpmill with the same names in `w`, the default database."""
    con = warpmill.duckdb.connect()
    folder = tpch(tmp_path_factory.mktemp("attached"))
    con.execute(f"ATTACH '{folder / 'db'}' AS w (TYPE warpmill)")
    for table in native.tables("tpch"):
        con.execute(f"CREATE TABLE memory.{table} AS FROM read_parquet('{folder / table}.parquet')")
        con.execute(f"CREATE TABLE w.{table} AS FROM memory.{table}")
        assert_equal(con, f"w.{table}", f"memory.{table}")
    yield con
    con.close()


@pytest.mark.parametrize("query", sorted(TPCH))
def test_tpch(both: Any, query: str) -> None:
    sql = TPCH[query]
    answers = {}
    for database, enabled in (("memory", "false"), ("w", "false"), ("w", "true")):
        both.execute(f"USE {database}; SET warpmill_enabled = {enabled}")
        both.execute(f"SET warpmill_fallback = '{'error' if enabled == 'true' else 'allow'}'")
        before = dict(rows(both, "FROM warpmill_stats()"))
        result = both.execute(sql)
        columns = [(column[0], str(column[1])) for column in result.description]
        answers[database, enabled] = columns, result.fetchall()
        after = dict(rows(both, "FROM warpmill_stats()"))
        own = after["inputs_own"] - before["inputs_own"]
        assert (own > 0) == (enabled == "true")
        assert after["inputs_scanned"] == before["inputs_scanned"]
    expected = answers.pop(("memory", "false"))
    for columns, found in answers.values():
        assert columns == expected[0]
        assert difference(found, expected[1], [name for name, _ in columns], sql) is None
