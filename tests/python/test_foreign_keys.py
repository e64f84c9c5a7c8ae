"""FOREIGN KEY beside DuckDB: statements one after the other, and all tables after each; then several connections."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from test_constraints import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Barrier
    from pathlib import Path


@pytest.fixture(params=["memory", "database"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    place = () if request.param == "memory" else (str(tmp_path / "db"),)
    with warpmill.connect(*place) as con:
        yield con


MISSING = "does not exist in the referenced table"
THERE = "is still referenced by a foreign key in a different table"

#: Statements for both sides. `?`: it violates a constraint on both sides, with the text after `=>`; `!`: another error.
SCRIPTS = {
    "one column": f"""
        CREATE TABLE p (id INTEGER PRIMARY KEY, u VARCHAR UNIQUE, x INTEGER)
        CREATE TABLE c (a INTEGER REFERENCES p (id), b VARCHAR REFERENCES p (u), c INTEGER)
        ? INSERT INTO c VALUES (1, 'a', 1) => key "id: 1" {MISSING}
        INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)
        INSERT INTO c VALUES (1, 'a', 1), (NULL, NULL, NULL), (2, NULL, 2)
        ? INSERT INTO c VALUES (9, 'a', 1) => key "id: 9" {MISSING}
        ? INSERT INTO c VALUES (1, 'z', 1) => key "u: z" {MISSING}
        ? INSERT INTO c SELECT i, NULL, i FROM range(1, 5) r(i) => key "id: 4" {MISSING}
        INSERT INTO c SELECT id, u, 7 FROM p
        ? UPDATE c SET a = 9 WHERE a = 1 => key "id: 9" {MISSING}
        UPDATE c SET a = 2 WHERE a = 1
        UPDATE c SET c = 9
        UPDATE c SET b = NULL WHERE b = 'b'
        ? DELETE FROM p WHERE id = 1 => key "b: a" {THERE}
        ? DELETE FROM p WHERE id = 2 => key "a: 2" {THERE}
        ? DELETE FROM p => {THERE}
        ? UPDATE p SET id = 7 WHERE id = 2 => key "a: 2" {THERE}
        UPDATE p SET x = 7 WHERE id = 2
        UPDATE p SET x = 8
        ? TRUNCATE p => {THERE}
        ! DROP TABLE p
        ! DROP TABLE IF EXISTS p CASCADE
        DELETE FROM c WHERE a = 3
        DELETE FROM p WHERE id = 3
        DELETE FROM c
        DELETE FROM p WHERE id = 2
        TRUNCATE p
        ! DROP TABLE p
        DROP TABLE c
        DROP TABLE p
    """,
    "several columns": f"""
        CREATE TABLE p (a INTEGER, b VARCHAR, PRIMARY KEY (a, b), UNIQUE (b, a))
        CREATE TABLE c (x INTEGER, y VARCHAR, FOREIGN KEY (x, y) REFERENCES p (a, b))
        CREATE TABLE d (x VARCHAR, y INTEGER, FOREIGN KEY (x, y) REFERENCES p (b, a))
        CREATE TABLE e (x INTEGER, y VARCHAR, FOREIGN KEY (x, y) REFERENCES p)
        INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')
        INSERT INTO c VALUES (1, 'a'), (1, NULL), (NULL, 'z'), (5, NULL)
        ? INSERT INTO c VALUES (1, 'b') => key "a: 1, b: b" {MISSING}
        ? INSERT INTO c VALUES (2, 'a') => key "a: 2, b: a" {MISSING}
        INSERT INTO d VALUES ('b', 2)
        ? INSERT INTO d VALUES ('a', 2) => {MISSING}
        INSERT INTO e SELECT * FROM p WHERE a = 1
        ? DELETE FROM p WHERE a = 1 => key "x: 1, y: a" {THERE}
        ? DELETE FROM p WHERE a = 2 => key "x: b, y: 2" {THERE}
        DELETE FROM p WHERE a = 3
        ? UPDATE c SET y = 'q' WHERE x = 1 AND y = 'a' => key "a: 1, b: q" {MISSING}
        UPDATE c SET x = 2, y = 'b' WHERE x = 1 AND y = 'a'
        DELETE FROM e
        DELETE FROM p WHERE a = 1
    """,
    "types": f"""
        CREATE TABLE p (d DECIMAL(9, 2) UNIQUE, f DOUBLE UNIQUE, t TIMESTAMP UNIQUE, b BLOB UNIQUE, u UBIGINT UNIQUE)
        CREATE TABLE c (d DECIMAL(9, 2) REFERENCES p (d), f DOUBLE REFERENCES p (f), t TIMESTAMP REFERENCES p (t), \
            b BLOB REFERENCES p (b), u UBIGINT REFERENCES p (u))
        INSERT INTO p VALUES (1.5, 0.0, '2020-01-01', 'x', 18446744073709551615), (2, 'nan', NULL, NULL, 0)
        INSERT INTO c SELECT * FROM p
        INSERT INTO c VALUES (1.50, 0, NULL, NULL, NULL), (NULL, 'nan', NULL, NULL, 18446744073709551615)
        ? INSERT INTO c VALUES (1.51, NULL, NULL, NULL, NULL) => key "d: 1.51" {MISSING}
        ? INSERT INTO c VALUES (NULL, 1, NULL, NULL, NULL) => key "f: 1.0" {MISSING}
        ? INSERT INTO c (t) VALUES ('2020-01-01 00:00:01') => key "t: 2020-01-01 00:00:01" {MISSING}
        ? INSERT INTO c (b) VALUES ('y') => key "b: y" {MISSING}
        ? INSERT INTO c (u) VALUES (1) => key "u: 1" {MISSING}
        ? DELETE FROM p WHERE u = 0 => {THERE}
    """,
    "many rows": f"""
        CREATE TABLE p (id BIGINT PRIMARY KEY, s VARCHAR UNIQUE)
        CREATE TABLE c (a BIGINT REFERENCES p (id), s VARCHAR REFERENCES p (s))
        INSERT INTO p SELECT i, 'text ' || i FROM range(100000) r(i)
        INSERT INTO c SELECT i % 50000, 'text ' || (i % 70000) FROM range(200000) r(i)
        ? INSERT INTO c SELECT i, NULL FROM range(99000, 100001) r(i) => key "id: 100000" {MISSING}
        ? INSERT INTO c SELECT NULL, 'text ' || i FROM range(99000, 100001) r(i) => key "s: text 100000" {MISSING}
        ? DELETE FROM p WHERE id >= 69999 => key "s: text 69999" {THERE}
        DELETE FROM p WHERE id >= 70000
        ? UPDATE p SET id = id + 1000000 WHERE id > 40000 => {THERE}
        UPDATE c SET a = a + 1 WHERE a < 20000
        DELETE FROM c WHERE a > 100
        DELETE FROM p WHERE id BETWEEN 50000 AND 50010 AND s NOT IN (SELECT s FROM c WHERE s IS NOT NULL)
    """,
    "to itself": f"""
        CREATE TABLE t (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t (id))
        INSERT INTO t VALUES (1, NULL)
        INSERT INTO t VALUES (2, 1)
        ? INSERT INTO t VALUES (8, 9) => key "id: 9" {MISSING}
        ? DELETE FROM t WHERE id = 1 => key "up: 1" is still referenced
        ? UPDATE t SET id = 9 WHERE id = 1 => key "up: 1" is still referenced
        ? UPDATE t SET up = 77 WHERE id = 2 => key "id: 77" {MISSING}
        DELETE FROM t WHERE id = 2
        DELETE FROM t WHERE id = 1
        INSERT INTO t VALUES (1, NULL)
        ALTER TABLE t RENAME TO r
        DROP TABLE r
    """,
    "declarations": """
        CREATE TABLE p (a INTEGER, b VARCHAR, PRIMARY KEY (a, b))
        CREATE TABLE u (x INTEGER UNIQUE)
        CREATE TABLE f (x INTEGER)
        CREATE TABLE i (x INTEGER)
        CREATE UNIQUE INDEX ix ON i (x)
        CREATE VIEW v AS SELECT 1 AS a
        ! CREATE TABLE c (x INTEGER REFERENCES p (a))
        ! CREATE TABLE c (x INTEGER REFERENCES nope (a))
        ! CREATE TABLE c (x INTEGER REFERENCES p (zz))
        ! CREATE TABLE c (x INTEGER REFERENCES u)
        ! CREATE TABLE c (x INTEGER REFERENCES f)
        ! CREATE TABLE c (x INTEGER REFERENCES f (x))
        ! CREATE TABLE c (x INTEGER REFERENCES i (x))
        ! CREATE TABLE c (x INTEGER REFERENCES v (a))
        ! CREATE TABLE c (x BIGINT REFERENCES u (x))
        ! CREATE TABLE c (x VARCHAR REFERENCES u (x))
        ! CREATE TABLE c (x INTEGER, FOREIGN KEY (zz) REFERENCES u (x))
        ! CREATE TABLE c (x INTEGER, FOREIGN KEY (x) REFERENCES p (a, b))
        ! CREATE TABLE c (x INTEGER REFERENCES p)
        ! CREATE TABLE c (x INTEGER REFERENCES u (x) ON DELETE CASCADE)
        ! CREATE TABLE c (x INTEGER REFERENCES u (x) ON UPDATE SET NULL)
        ! CREATE TABLE c (x INTEGER REFERENCES c (x))
        ! CREATE TABLE c (x INTEGER REFERENCES u (x)) AS SELECT 1
        ! SELECT * FROM c
        CREATE TABLE c (x INTEGER DEFAULT 5 REFERENCES u (x) ON UPDATE NO ACTION ON DELETE RESTRICT NOT NULL)
        ? INSERT INTO c VALUES (DEFAULT) => key "x: 5" does not exist
        CREATE TABLE IF NOT EXISTS c (x INTEGER REFERENCES u (x))
        ! ALTER TABLE c ADD COLUMN y INTEGER REFERENCES u (x)
        CREATE TABLE own (x INTEGER PRIMARY KEY, y INTEGER REFERENCES OWN (X))
        CREATE TABLE twice (x INTEGER REFERENCES u (x), FOREIGN KEY (x) REFERENCES own (x))
        CREATE TABLE g AS SELECT * FROM c
        INSERT INTO g VALUES (77)
    """,
    "other statements": f"""
        CREATE TABLE p (id INTEGER PRIMARY KEY, x INTEGER)
        CREATE TABLE c (a INTEGER REFERENCES p (id), k INTEGER PRIMARY KEY)
        INSERT INTO p VALUES (1, 1), (2, 2)
        INSERT INTO c VALUES (1, 1)
        INSERT INTO p VALUES (1, 5) ON CONFLICT DO UPDATE SET x = excluded.x
        INSERT OR REPLACE INTO p VALUES (1, 6)
        ? MERGE INTO p USING (SELECT 1 AS id) s ON p.id = s.id WHEN MATCHED THEN DELETE => key "a: 1" {THERE}
        ? MERGE INTO c USING (SELECT 8 AS id) s ON c.a = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 2) \
            => key "id: 8" {MISSING}
        ? MERGE INTO c USING (SELECT 1 AS id) s ON c.a = s.id WHEN MATCHED THEN UPDATE SET a = 77 => {MISSING}
        ? INSERT INTO c VALUES (99, 2) ON CONFLICT DO NOTHING => key "id: 99" {MISSING}
        ? INSERT INTO c VALUES (99, 1) ON CONFLICT (k) DO UPDATE SET a = excluded.a => {MISSING}
        INSERT INTO c VALUES (2, 1) ON CONFLICT (k) DO UPDATE SET a = excluded.a
        ? INSERT INTO c VALUES (3, 3) RETURNING a => {MISSING}
        ? WITH new AS (INSERT INTO c VALUES (3, 3) RETURNING a) SELECT a FROM new => {MISSING}
        PREPARE q AS INSERT INTO c VALUES ($1, $2)
        ? EXECUTE q(5, 5)
        EXECUTE q(1, 5)
        INSERT INTO c BY NAME SELECT 2 AS a, 6 AS k
        DELETE FROM c
        DELETE FROM p WHERE id = 2
        CREATE TEMP TABLE tp (id INTEGER PRIMARY KEY)
        CREATE TEMP TABLE tc (a INTEGER REFERENCES tp (id))
        ? INSERT INTO tc VALUES (1)
        INSERT INTO tp VALUES (1)
        INSERT INTO tc VALUES (1)
        ? DELETE FROM tp
        ! DROP TABLE tp
        ! CREATE OR REPLACE TEMP TABLE tp (id INTEGER)
        DROP TABLE tc
        DROP TABLE tp
    """,
    "schemas": f"""
        CREATE SCHEMA s
        CREATE TABLE p (id INTEGER PRIMARY KEY)
        CREATE TABLE s.p (id INTEGER PRIMARY KEY)
        ! CREATE TABLE c (a INTEGER REFERENCES s.p (id))
        CREATE TABLE s.c (a INTEGER REFERENCES p (id))
        CREATE TABLE s.d (a INTEGER REFERENCES s.p (id))
        CREATE TABLE e (a INTEGER REFERENCES main.p (id))
        INSERT INTO p VALUES (1)
        ? INSERT INTO s.c VALUES (1) => {MISSING}
        INSERT INTO s.p VALUES (1), (2)
        INSERT INTO s.c VALUES (1)
        INSERT INTO s.d VALUES (2)
        DELETE FROM p
        ? DELETE FROM s.p WHERE id = 2 => {THERE}
        ! DROP SCHEMA s
        DROP SCHEMA s CASCADE
    """,
    "changes of tables": f"""
        CREATE TABLE p (id INTEGER PRIMARY KEY, x INTEGER)
        CREATE TABLE c (b INTEGER REFERENCES p (id), d INTEGER)
        INSERT INTO p VALUES (1, 1), (7, 7)
        INSERT INTO c VALUES (1, 1)
        ! ALTER TABLE p DROP COLUMN id
        ! ALTER TABLE p RENAME COLUMN id TO idd
        ! ALTER TABLE p RENAME TO pp
        ! ALTER TABLE p ALTER COLUMN id TYPE BIGINT
        ! ALTER TABLE c DROP COLUMN b
        ! ALTER TABLE c ALTER COLUMN b TYPE BIGINT
        ALTER TABLE p ADD COLUMN z INTEGER
        ALTER TABLE c RENAME COLUMN d TO dd
        ALTER TABLE c ADD COLUMN e INTEGER
        ? INSERT INTO c VALUES (2, 2, 2) => key "id: 2" {MISSING}
        INSERT INTO c VALUES (7, 2, 2)
        ? DELETE FROM p WHERE id = 7 => key "b: 7" {THERE}
        ! CREATE OR REPLACE TABLE p (id INTEGER)
        CREATE OR REPLACE TABLE c (id INTEGER)
        DELETE FROM p
        DROP TABLE p
    """,
    "transactions": f"""
        CREATE TABLE p (id INTEGER PRIMARY KEY)
        CREATE TABLE c (a INTEGER REFERENCES p (id))
        INSERT INTO p VALUES (1), (2)
        BEGIN
        DELETE FROM p WHERE id = 1
        ? INSERT INTO c VALUES (1) => key "id: 1" {MISSING}
        ROLLBACK
        BEGIN
        INSERT INTO c VALUES (1)
        DELETE FROM c
        DELETE FROM p WHERE id = 1
        COMMIT
        BEGIN
        INSERT INTO p VALUES (3)
        INSERT INTO c VALUES (3)
        ? DELETE FROM p WHERE id = 3 => {THERE}
        ROLLBACK
        ? INSERT INTO c VALUES (3) => {MISSING}
        BEGIN
        CREATE TABLE x (a INTEGER PRIMARY KEY)
        CREATE TABLE y (a INTEGER REFERENCES x (a))
        INSERT INTO x VALUES (1)
        INSERT INTO y VALUES (1)
        ? INSERT INTO y VALUES (2) => key "a: 2" {MISSING}
        ROLLBACK
        ! SELECT * FROM x
        BEGIN
        CREATE TABLE x (a INTEGER PRIMARY KEY)
        CREATE TABLE y (a INTEGER REFERENCES x (a))
        INSERT INTO x VALUES (1)
        INSERT INTO y VALUES (1)
        COMMIT
        ? DELETE FROM x => key "a: 1" {THERE}
        ! DROP TABLE x
        BEGIN
        DROP TABLE y
        DROP TABLE x
        COMMIT
        BEGIN
        ! DROP TABLE p
        ROLLBACK
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_statements(con: warpmill.Connection, script: str) -> None:
    # Of several foreign keys that are violated, either side names another one.
    compare(con, script, lambda text: THERE if THERE in text else text)


def test_errors_name_constraint_table_and_key(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
    with pytest.raises(warpmill.ConstraintError) as missing:
        con.execute("INSERT INTO c VALUES (5)")
    assert str(missing.value).startswith(
        'Violates foreign key constraint because key "id: 5" does not exist in the referenced table "p": '
        'FOREIGN KEY (a) REFERENCES p(id) of table "c"'
    )
    con.execute("INSERT INTO p VALUES (5); INSERT INTO c VALUES (5)")
    with pytest.raises(warpmill.ConstraintError) as there:
        con.execute("TRUNCATE p")
    assert str(there.value).startswith(
        'Violates foreign key constraint because key "a: 5" is still referenced by a foreign key in a different table: '
        'FOREIGN KEY (a) REFERENCES p(id) of table "c"'
    )
    with pytest.raises(warpmill.CatalogError, match='main key table of the table "c"'):
        con.execute("DROP TABLE p")
    with pytest.raises(warpmill.CatalogError, match='main key table of the table "c"'):
        con.create_table("p", pa.table({"id": [1]}), replace=True)


#: Statements that DuckDB refuses because it looks at each row by itself: here, the state after the statement counts.
AFTERWARDS = {
    "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 3), (4, 5), (5, NULL)": 5,
    "UPDATE t SET id = id": 5,
    "DELETE FROM t WHERE id IN (4, 5)": 2,
    "UPDATE t SET up = 2 WHERE id = 1": 1,
    "TRUNCATE t": 3,
}


def test_the_state_after_a_statement_counts(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t (id))")
    for sql, count in AFTERWARDS.items():
        assert con.execute(sql).fetchall() == [(count,)], sql
    con.execute(
        "CREATE TABLE c (a INTEGER REFERENCES t (id)); INSERT INTO t VALUES (1, NULL); INSERT INTO c VALUES (1)"
    )
    con.execute("BEGIN; DELETE FROM c; DELETE FROM t; COMMIT")
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_rows_from_python_and_files(con: warpmill.Connection, tmp_path: Path) -> None:
    con.execute("CREATE TABLE p (id BIGINT PRIMARY KEY); CREATE TABLE c (a BIGINT REFERENCES p (id))")
    con.execute("INSERT INTO p VALUES (1), (2)")
    con.append("c", pa.table({"a": [1, None, 2, 2]}))
    with pytest.raises(warpmill.ConstraintError, match='key "id: 3" does not exist'):
        con.append("c", pa.table({"a": [1, 3]}))
    (tmp_path / "good.csv").write_text("a\n2\n1\n")
    (tmp_path / "bad.csv").write_text("a\n2\n4\n")
    con.execute(f"COPY c FROM '{tmp_path / 'good.csv'}'")
    with pytest.raises(warpmill.ConstraintError, match='key "id: 4" does not exist'):
        con.execute(f"COPY c FROM '{tmp_path / 'bad.csv'}'")
    con.executemany("INSERT INTO c VALUES (?)", [(1,), (2,)])
    with pytest.raises(warpmill.ConstraintError):
        con.execute("INSERT INTO c VALUES (?)", [9])
    assert con.sql("SELECT count(*), count(a) FROM c").fetchall() == [(8, 7)]


def test_they_are_told(con: warpmill.Connection) -> None:
    told = """
        CREATE TABLE p (a INTEGER, b VARCHAR, PRIMARY KEY (a, b), UNIQUE (b, a));
        CREATE TABLE q (id INTEGER PRIMARY KEY, up INTEGER REFERENCES q (id));
        CREATE TABLE c (x INTEGER, y VARCHAR, z INTEGER REFERENCES q, FOREIGN KEY (x, y) REFERENCES p (a, b));
    """
    names = "constraint_text, constraint_column_names, constraint_name, referenced_table, referenced_column_names"
    schema = "information_schema"
    queries = [
        f"SELECT table_name, constraint_type, {names} FROM duckdb_constraints() ORDER BY ALL",
        f"SELECT constraint_name, table_name, constraint_type FROM {schema}.table_constraints ORDER BY ALL",
        "SELECT constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint "
        f"FROM {schema}.key_column_usage ORDER BY ALL",
        "SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule "
        f"FROM {schema}.referential_constraints ORDER BY ALL",
        "SELECT table_name, sql FROM duckdb_tables() ORDER BY 1",
        "DESCRIBE c",
        "PRAGMA table_info('c')",
    ]
    with duckdb.connect() as theirs:
        for side in (con, theirs):
            for statement in told.strip().split(";")[:-1]:
                side.execute(statement)
        for query in queries:
            assert con.execute(query).fetchall() == theirs.execute(query).fetchall(), query
    assert "FOREIGN KEY (x, y) REFERENCES p(a, b)" in con.info("c").constraints
    assert con.info("q").constraints == ("PRIMARY KEY(id)", "FOREIGN KEY (up) REFERENCES q(id)")
    assert con.info("p").constraints == ("PRIMARY KEY(a, b)", "UNIQUE(b, a)")


def test_names_follow(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
        con.execute("INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); ALTER TABLE c RENAME TO d")
        con.execute("ALTER TABLE d RENAME COLUMN a TO b")
    with warpmill.connect(place) as con:
        with pytest.raises(warpmill.ConstraintError, match='REFERENCES p\\(id\\) of table "d"'):
            con.execute("DELETE FROM p")
        # A new table of the old name refers to nothing.
        con.execute("CREATE TABLE c (a INTEGER); INSERT INTO c VALUES (1); DELETE FROM d; DELETE FROM p")
        with pytest.raises(warpmill.CatalogError, match='"d"'):
            con.execute("DROP TABLE p")
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t (id))")
        con.execute("ALTER TABLE t RENAME COLUMN id TO number; ALTER TABLE t RENAME TO tree")
        con.execute("INSERT INTO tree VALUES (1, 1)")
        with pytest.raises(warpmill.ConstraintError, match='key "number: 2" does not exist'):
            con.execute("INSERT INTO tree VALUES (3, 2)")
        con.execute("DROP TABLE d; DROP TABLE p; DROP TABLE tree")


def test_export_and_import(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("CREATE TABLE z (id INTEGER PRIMARY KEY)")
        con.execute(
            "CREATE TABLE m (id INTEGER UNIQUE REFERENCES z (id)); CREATE TABLE a (x INTEGER REFERENCES m (id))"
        )
        con.execute("INSERT INTO z VALUES (1); INSERT INTO m VALUES (1); INSERT INTO a VALUES (1), (NULL)")
        con.execute(f"EXPORT DATABASE '{folder}' (FORMAT parquet)")
    with duckdb.connect() as theirs:
        theirs.execute(f"IMPORT DATABASE '{folder}'")
        with pytest.raises(duckdb.ConstraintException):
            theirs.execute("DELETE FROM m")
        theirs.execute(f"EXPORT DATABASE '{tmp_path / 'theirs'}' (FORMAT parquet)")
    for from_folder in (folder, tmp_path / "theirs"):
        with warpmill.connect() as con:
            con.execute(f"IMPORT DATABASE '{from_folder}'")
            assert con.sql("SELECT count(*), count(x) FROM a").fetchall() == [(2, 1)]
            for table in ("m", "z"):
                with pytest.raises(warpmill.ConstraintError):
                    con.execute(f"DELETE FROM {table}")


def test_stored_and_temporary_tables_do_not_refer_to_each_other(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con, duckdb.connect() as theirs:
        for side in (con, theirs):
            side.execute("CREATE TABLE s (id INTEGER PRIMARY KEY); CREATE TEMP TABLE t (id INTEGER PRIMARY KEY)")
            for sql in ("CREATE TABLE c (a INTEGER REFERENCES t)", "CREATE TEMP TABLE c (a INTEGER REFERENCES s)"):
                with pytest.raises((warpmill.CatalogError, duckdb.CatalogException), match="does not exist"):
                    side.execute(sql)


def test_a_stored_table_behind_a_temporary_one(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
        con.execute("INSERT INTO p VALUES (1); CREATE TEMP TABLE p AS SELECT 2 AS id")
        con.execute("INSERT INTO c VALUES (1)")
        with pytest.raises(warpmill.ConstraintError, match='key "id: 2" does not exist'):
            con.execute("INSERT INTO c VALUES (2)")


def test_damage_of_other_tables(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
        con.execute("INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1)")
    for file in (tmp_path / "db" / "c").glob("*manifest*"):
        file.write_bytes(b"damaged")
    with warpmill.connect(str(tmp_path / "db")) as con:
        for sql in ("DELETE FROM p", "DROP TABLE p"):
            with pytest.raises(warpmill.Error, match="c"):
                con.execute(sql)
        con.execute("INSERT INTO p VALUES (3); DROP TABLE c; DELETE FROM p; DROP TABLE p")


def test_a_transaction_does_not_see_a_key_that_is_gone(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as one, warpmill.connect(place) as two:
        one.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
        one.execute("INSERT INTO p VALUES (1), (2)")
        one.execute("BEGIN")
        assert one.sql("SELECT count(*) FROM p").fetchall() == [(2,)]
        two.execute("DELETE FROM p WHERE id = 1")
        with pytest.raises(warpmill.ConflictError):
            one.execute("INSERT INTO c VALUES (1)")
        one.execute("ROLLBACK; BEGIN; INSERT INTO c VALUES (2)")
        # The referring table is locked until the transaction ends.
        with pytest.raises(warpmill.ConflictError):
            two.execute("DELETE FROM p WHERE id = 2")
        two.execute("INSERT INTO p VALUES (3)")
        one.execute("COMMIT")
        with pytest.raises(warpmill.ConstraintError):
            two.execute("DELETE FROM p WHERE id = 2")
        one.execute("BEGIN; DELETE FROM p WHERE id = 3")
        with pytest.raises(warpmill.ConflictError):
            two.execute("INSERT INTO c VALUES (3)")
        one.execute("ROLLBACK")
        two.execute("INSERT INTO c VALUES (3)")


def refer(place: str, start: Barrier, found: Any, seed: int) -> None:
    """Insert references to keys, or delete and insert the keys."""
    done = 0
    with warpmill.connect(place) as con:
        start.wait(120)
        for number in range(60):
            key = (number * 7 + seed) % 5
            sql = f"INSERT INTO c VALUES ({key})" if seed % 2 else f"DELETE FROM p WHERE id = {key}"
            if number % 3 == 0:
                sql = f"DELETE FROM c WHERE a = {key}" if seed % 2 else f"INSERT INTO p VALUES ({key})"
            if number % 4 == 0:
                sql = f"BEGIN; {sql}; SELECT count(*) FROM c; COMMIT"
            try:
                con.execute(sql)
                done += 1
            except (warpmill.ConflictError, warpmill.ConstraintError):
                if con.in_transaction:
                    con.execute("ROLLBACK")
    found.put(done)


def test_processes_leave_no_reference_without_its_key(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a INTEGER REFERENCES p (id))")
        con.execute("INSERT INTO p SELECT i FROM range(5) r(i)")
    context = multiprocessing.get_context("spawn")
    start, found = context.Barrier(4), context.Queue()
    processes = [context.Process(target=refer, args=(place, start, found, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    done = sum(found.get(timeout=240) for _ in processes)
    for process in processes:
        process.join()
    with warpmill.connect(place) as con:
        assert con.sql("SELECT count(*) FROM c WHERE a NOT IN (SELECT id FROM p)").fetchall() == [(0,)]
    assert done >= 40


def test_tables_are_made_and_dropped_beside_each_other(tmp_path: Path) -> None:
    place = str(tmp_path / "db")
    with warpmill.connect(place) as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")

    def work(own: int) -> None:
        with warpmill.connect(place) as con:
            for _ in range(15):
                statements = ["CREATE TABLE IF NOT EXISTS p (id INTEGER PRIMARY KEY)"]
                statements += [f"CREATE TABLE c{own} (a INTEGER REFERENCES p (id))", "DROP TABLE p"]
                for sql in [*statements, f"DROP TABLE IF EXISTS c{own}", "DROP TABLE p"]:
                    with contextlib.suppress(warpmill.ConflictError, warpmill.CatalogError):
                        con.execute(sql)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with warpmill.connect(place) as con:
        names = {table.name for table in con.tables()}
        assert "p" in names or not any(name.startswith("c") for name in names)
