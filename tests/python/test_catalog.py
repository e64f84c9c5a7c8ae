"""Schemas, views and declarations in a database directory: persistence, refusals, messages."""

from __future__ import annotations

import os
import shutil
import stat
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def names(con: warpmill.Connection) -> list[str]:
    return [table.qualified for table in con.tables()]


def shown(con: warpmill.Connection) -> list[str]:
    return [row[0] for row in con.sql("SHOW TABLES").fetchall()]


def test_schemas_are_folders_and_stay(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE TABLE x AS SELECT 1 AS a")
        con.sql("CREATE SCHEMA s")
        con.sql("CREATE OR REPLACE TABLE s.x AS SELECT 2 AS a")
        con.create_table("s.Frame", {"b": [3]})
        con.sql("COPY s.x TO '" + str(tmp_path / "out.parquet") + "'")
    assert (tmp_path / "x").is_dir()
    assert (tmp_path / "s.schema" / "x").is_dir()
    with warpmill.connect(tmp_path) as con:
        assert names(con) == ["x", "s.Frame", "s.x"]
        assert con.sql("SELECT a FROM x").fetchall() == [(1,)]
        assert con.sql("SELECT a FROM S.X").fetchall() == [(2,)]
        assert con.table("s.frame").fetchall() == [(3,)]
        assert con.info("s.x").rows == 1
        assert [column["name"] for column in con.inspect("s.x")] == ["a"]
        with pytest.raises(warpmill.CatalogError, match="exists"):
            con.create_table("s.frame", {"b": [4]})
        con.create_table("s.frame", {"b": [4]}, replace=True)
        assert names(con) == ["x", "s.Frame", "s.x"]
        with pytest.raises(warpmill.CatalogError, match="schema 'nowhere' does not exist"):
            con.create_table("nowhere.t", {"b": [4]})
        con.sql("DROP SCHEMA s CASCADE")
        assert names(con) == ["x"]
    assert sorted(os.listdir(tmp_path)) == ["out.parquet", "x"]


def test_databases_without_schemas_are_read_as_before(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE TABLE old AS SELECT 1 AS a")
    # A table that was made when its name was free for tables.
    (tmp_path / "old").rename(tmp_path / "odd.schema")
    with warpmill.connect(tmp_path) as con:
        assert names(con) == ["odd.schema"]
        assert con.sql('SELECT a FROM "odd.schema"').fetchall() == [(1,)]
        with pytest.raises(warpmill.CatalogError, match="cannot be a name"):
            con.sql('CREATE TABLE "new.schema" AS SELECT 1 AS a')


def test_dropping_a_schema_takes_nothing_that_is_not_ours(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE SCHEMA s")
        con.sql("CREATE TABLE s.t AS SELECT 1 AS a")
        letter = tmp_path / "s.schema" / "letter.txt"
        letter.write_text("mine")
        with pytest.raises(warpmill.CatalogError, match=r"letter\.txt"):
            con.sql("DROP SCHEMA s CASCADE")
        assert con.sql("SELECT a FROM s.t").fetchall() == [(1,)]
        letter.unlink()
        con.sql("DROP SCHEMA s CASCADE")
    assert os.listdir(tmp_path) == []


def test_views_are_stored(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "x.parquet")
    with warpmill.connect(tmp_path / "db") as con:
        con.sql("CREATE TABLE t AS SELECT 1 AS a")
        con.sql("CREATE VIEW v AS SELECT a + 1 AS b FROM t")
        con.sql("CREATE VIEW w AS SELECT b * 10 AS c FROM v")
        con.sql(f"CREATE VIEW f AS SELECT sum(a) AS s FROM '{tmp_path}/x.parquet'")
    with warpmill.connect(tmp_path / "db") as con, warpmill.connect(tmp_path / "db") as other:
        assert shown(con) == ["f", "t", "v", "w"]
        assert {table.name: table.kind for table in con.tables()} == {
            "f": "view",
            "t": "stored",
            "v": "view",
            "w": "view",
        }
        con.sql("INSERT INTO t VALUES (2)")
        for _ in range(3):
            assert con.sql("SELECT sum(c) FROM w").fetchall() == [(50,)]
        assert con.sql("SELECT s FROM f").fetchall() == [(3,)]
        # A change of another session is seen, in plans that were made before too.
        other.sql("CREATE OR REPLACE VIEW v AS SELECT a AS b FROM t")
        assert con.sql("SELECT sum(c) FROM w").fetchall() == [(30,)]
        (tmp_path / "x.parquet").unlink()
        with pytest.raises(warpmill.IOError, match=r"view 'f'.*x\.parquet"):
            con.sql("SELECT s FROM f")
        con.sql("DROP VIEW v")
        with pytest.raises(warpmill.CatalogError, match=r"view 'w'.*v"):
            con.sql("SELECT * FROM w")
        assert shown(con) == ["f", "t", "w"]
        columns = con.sql("SELECT table_name, column_name FROM information_schema.columns").fetchall()
        assert ("t", "a") in columns
    view = tmp_path / "db" / "w.view"
    view.write_text(view.read_text()[:20])
    with warpmill.connect(tmp_path / "db") as con:
        with pytest.raises(warpmill.CorruptDataError, match=r"w\.view"):
            con.sql("SELECT * FROM w")
        con.sql("CREATE OR REPLACE VIEW w AS SELECT 1 AS c")
        assert con.sql("SELECT c FROM w").fetchall() == [(1,)]


@pytest.mark.parametrize("damage", ["manifest", "no manifest"])
def test_a_damaged_table_hides_nothing_and_can_go(tmp_path: Path, damage: str) -> None:
    def spoil() -> None:
        for manifest in (tmp_path / "bad").glob("*.manifest"):
            if damage == "manifest":
                manifest.write_bytes(b"nonsense")
            else:
                manifest.unlink()

    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE TABLE good AS SELECT 1 AS a")
        con.sql("CREATE TABLE bad AS SELECT 1 AS a")
    spoil()
    with warpmill.connect(tmp_path) as con:
        assert shown(con) == ["bad", "good"]
        assert {table.name: table.kind for table in con.tables()} == {"bad": "damaged", "good": "stored"}
        assert ("good", "a") in con.sql("SELECT table_name, column_name FROM information_schema.columns").fetchall()
        with pytest.raises(warpmill.CorruptDataError):
            con.sql("SELECT * FROM bad")
        with pytest.raises(warpmill.CatalogError, match="exists"):
            con.sql("CREATE TABLE bad AS SELECT 2 AS a")
        con.sql("CREATE OR REPLACE TABLE bad AS SELECT 2 AS a")
        assert con.sql("SELECT a FROM bad").fetchall() == [(2,)]
    spoil()
    with warpmill.connect(tmp_path) as con:
        with pytest.raises(warpmill.Error):
            con.sql("CREATE OR REPLACE TABLE bad AS SELECT CAST('x' AS INTEGER) AS a FROM good")
        assert shown(con) == ["bad", "good"]
        con.sql("DROP TABLE bad")
        assert shown(con) == ["good"]
    assert os.listdir(tmp_path) == ["good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_drop_says_what_the_system_refuses(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE TABLE t AS SELECT 1 AS a")
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        try:
            for statement in ("DROP TABLE t", "DROP TABLE IF EXISTS t"):
                with pytest.raises(warpmill.IOError):
                    con.sql(statement)
        finally:
            tmp_path.chmod(stat.S_IRWXU)
        assert con.sql("SELECT a FROM t").fetchall() == [(1,)]


def test_drop_is_refused_while_there_is_a_writer(tmp_path: Path) -> None:
    """A table that is being written is neither dropped nor written to after it was dropped."""
    with warpmill.connect(tmp_path) as con, warpmill.connect(tmp_path) as other:
        con.sql("CREATE TABLE t AS SELECT 1 AS a")

        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"a": [2]})
            for statement in ("DROP TABLE t", "DROP TABLE IF EXISTS t"):
                with pytest.raises(warpmill.ConflictError):
                    other.sql(statement)
            yield pa.record_batch({"a": [3]})

        con.create_table("t", pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), rows()), replace=True)
        assert con.sql("SELECT a FROM t ORDER BY a").fetchall() == [(2,), (3,)]
        other.sql("DROP TABLE t")
        assert shown(con) == []


def test_declarations_are_noticed() -> None:
    with warpmill.connect() as con:
        assert con.sql("CREATE TABLE p (id INTEGER PRIMARY KEY, u VARCHAR UNIQUE)").notices == []
        assert con.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER REFERENCES p (id))").notices == []
        with pytest.warns(warpmill.Notice, match="INDEX i"):
            made = con.sql("CREATE INDEX i ON t (u)")
        assert len(made.notices) == 1
        assert con.sql("SELECT 1").notices == []


def test_queries_make_tables_that_take_nulls(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("CREATE TABLE a AS SELECT 1 AS x")
        con.create_table("b", "SELECT count(*) AS x FROM a")
        con.create_table("c", con.sql("SELECT count(*) AS x FROM a"))
        for name in ("a", "b", "c"):
            con.sql(f"INSERT INTO {name} VALUES (NULL)")
            assert con.sql(f"SELECT count(*), count(x) FROM {name}").fetchall() == [(2, 1)]
        declared = pa.schema([pa.field("x", pa.int64(), nullable=False)])
        con.create_table("d", pa.table({"x": [1]}, schema=declared))
        with pytest.raises(warpmill.Error, match="x"):
            con.sql("INSERT INTO d VALUES (NULL)")


def test_copy_goes_both_ways(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.sql("CREATE TABLE t (a INTEGER, s VARCHAR)")
        con.sql("INSERT INTO t VALUES (1, 'x|y'), (NULL, 'z')")
        con.sql(f"COPY t TO '{tmp_path}/out.csv' (HEADER, DELIMITER '|')")
        assert (tmp_path / "out.csv").read_text() == 'a|s\n1|"x|y"\n|z\n'
        con.sql(f"COPY t FROM '{tmp_path}/out.csv' (DELIMITER '|')")
        con.sql(f"COPY t TO '{tmp_path}/out.parquet' (FORMAT parquet, COMPRESSION zstd)")
        con.sql(f"COPY t FROM '{tmp_path}/out.parquet'")
        assert con.sql("SELECT count(*), count(a), sum(a) FROM t").fetchall() == [(8, 4, 4)]
        (tmp_path / "bare.csv").write_text("5,five\n")
        with pytest.raises(warpmill.BinderError, match="HEADER"):
            con.sql(f"COPY t FROM '{tmp_path}/bare.csv'")
        con.sql(f"COPY t FROM '{tmp_path}/bare.csv' (HEADER false)")
        assert con.sql("SELECT s FROM t WHERE a = 5").fetchall() == [("five",)]
        (tmp_path / "bare.csv").write_text("five,6\n")
        con.sql(f"COPY t (s, a) FROM '{tmp_path}/bare.csv' (HEADER false)")
        assert con.sql("SELECT s FROM t WHERE a = 6").fetchall() == [("five",)]
        before = con.sql("SELECT count(*) FROM t").fetchall()
        (tmp_path / "bare.csv").write_text("1,fine\nno number,bad\n")
        with pytest.raises(warpmill.Error, match="no number"):
            con.sql(f"COPY t FROM '{tmp_path}/bare.csv' (HEADER false)")
        with pytest.raises(warpmill.IOError, match=r"nothing\.csv"):
            con.sql(f"COPY t FROM '{tmp_path}/nothing.csv'")
        with pytest.raises(warpmill.Error, match=r"(?i)no_option"):
            con.sql(f"COPY t FROM '{tmp_path}/bare.csv' (NO_OPTION 3)")
        assert con.sql("SELECT count(*) FROM t").fetchall() == before
    assert sorted(os.listdir(tmp_path)) == ["bare.csv", "db", "out.csv", "out.parquet"]


def test_copy_casts_as_sql_does(tmp_path: Path) -> None:
    values = {
        "a": [3.7, -2.5],
        "b": [Decimal("2.5"), None],
        "c": ["1_000", "3.7"],
        "d": [1e20, 0.5],
        "e": ["1.005", None],
    }
    pq.write_table(pa.table(values), tmp_path / "in.parquet")
    with warpmill.connect() as con:
        con.sql("CREATE TABLE t (a BIGINT, b BIGINT, c INTEGER, d VARCHAR, e DECIMAL(5,2))")
        con.sql(f"COPY t FROM '{tmp_path}/in.parquet'")
        expected = [(4, 3, 1000, "1e+20", Decimal("1.01")), (-2, None, 4, "0.5", None)]
        assert con.sql("FROM t ORDER BY a DESC").fetchall() == expected
        con.sql("CREATE TABLE f (x FLOAT)")
        pq.write_table(pa.table({"x": [1.0, 1e39]}), tmp_path / "large.parquet")
        with pytest.raises(warpmill.Error, match="1e39 is out of range"):
            con.sql(f"COPY f FROM '{tmp_path}/large.parquet'")
        assert con.sql("FROM f").fetchall() == []


def test_files_are_written_over_files_only(con: warpmill.Connection, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(warpmill.NotSupportedError, match=r"pipe\.csv"):
        con.sql(f"COPY (SELECT 1 AS x) TO '{tmp_path}/pipe.csv'")
    reader = os.open(tmp_path / "pipe.csv", os.O_RDONLY | os.O_NONBLOCK)
    con.sql("SELECT 1 AS x").write(str(tmp_path / "pipe.csv"))
    assert os.read(reader, 100) == b"x\n1\n"
    os.close(reader)
    for name in ("first.csv", "second.csv"):
        (tmp_path / name).write_text("before")
        (tmp_path / f"link to {name}").symlink_to(tmp_path / name)
    con.sql(f"COPY (SELECT 2 AS x) TO '{tmp_path}/link to first.csv'")
    con.sql("SELECT 2 AS x").write(str(tmp_path / "link to second.csv"))
    assert [(tmp_path / name).read_text() for name in ("first.csv", "second.csv")] == ["x\n2\n", "x\n2\n"]
    assert (tmp_path / "link to first.csv").is_symlink()
    kinds = [stat.S_ISFIFO(path.stat().st_mode) for path in sorted(tmp_path.iterdir())]
    assert kinds == [False, False, False, True, False]


def test_copy_escapes_quotes_as_it_is_told(con: warpmill.Connection, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    for options, written in [
        ("", '"a""b"'),
        ("(ESCAPE '\\')", '"a\\"b"'),
        ("(ESCAPE '\"')", '"a""b"'),
    ]:
        con.sql(f"COPY (SELECT 'a\"b' AS x) TO '{out}' {options}")
        assert out.read_text() == f"x\n{written}\n"


def test_json_has_finite_numbers_only(con: warpmill.Connection, tmp_path: Path) -> None:
    con.sql("SELECT 1e0 AS x, NULL AS y").write(str(tmp_path / "out.json"))
    for value in ("CAST('nan' AS DOUBLE)", "CAST('-inf' AS FLOAT)"):
        with pytest.raises(warpmill.IOError, match=r'"x": .* is no number in JSON'):
            con.sql(f"SELECT {value} AS x").write(str(tmp_path / "out.json"))
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_failing_copy_leaves_the_file_that_was_there(con: warpmill.Connection, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    with pytest.raises(warpmill.Error):
        con.sql(f"COPY (SELECT CAST(x AS INTEGER) AS x FROM (VALUES ('1'), ('x')) AS v(x)) TO '{out}'")
    assert os.listdir(tmp_path) == ["out.csv"]
    assert out.read_text() == "before"
    con.sql(f"COPY (SELECT 1 AS p, 2 AS x) TO '{tmp_path}/parts' STORED AS PARQUET PARTITIONED BY (p)")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["p=1"]
    shutil.rmtree(tmp_path / "parts")
    assert os.listdir(tmp_path) == ["out.csv"]


def test_names_match_in_any_case(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.create_table("Mixed", {"a": [1]})
        con.register("Frame", {"a": [2]})
        assert con.sql("SELECT a FROM MIXED").fetchall() == [(1,)]
        assert con.sql('SELECT a FROM "mIXED"').fetchall() == [(1,)]
        assert con.sql("SELECT a FROM frame").fetchall() == [(2,)]
        con.sql("CREATE OR REPLACE TABLE mixed AS SELECT 3 AS a")
        assert shown(con) == ["Frame", "Mixed"]
        con.sql("DROP TABLE MIXED")
        con.unregister("FRAME")
        assert shown(con) == []


def test_only_macros_that_are_called_are_read(tmp_path: Path) -> None:
    """A damaged macro affects only its own calls, and can be replaced."""
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE MACRO broken(x) AS x + 1")
        con.execute("CREATE MACRO whole(x) AS x + 2")
        (file,) = (tmp_path / "db").rglob("broken.macro")
        file.write_text("{}")
        assert con.sql("SELECT whole(1) AS a, abs(-1)").fetchall() == [(3, 1)]
        with pytest.raises(warpmill.Error, match=r"broken\.macro"):
            con.sql("SELECT broken(1)")
        con.execute("CREATE OR REPLACE MACRO broken(x) AS x + 3")
        assert con.sql("SELECT broken(1)").fetchall() == [(4,)]
