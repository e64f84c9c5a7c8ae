"""EXPORT DATABASE and IMPORT DATABASE: each system reads the folders that the other one has written."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

SETUP = r"""
CREATE SCHEMA shop;
CREATE SCHEMA "odd schema";
CREATE TYPE mood AS ENUM ('sad', 'it''s ok');
CREATE SEQUENCE numbers START 5;
CREATE TABLE shop.items (id INTEGER PRIMARY KEY, name VARCHAR DEFAULT 'x' NOT NULL,
    price DECIMAL(9, 2) CHECK (price > 0), m mood, UNIQUE (name, price));
CREATE TABLE texts (i INTEGER, "a ""text"" of it" VARCHAR);
CREATE TABLE single (x VARCHAR);
CREATE TABLE one_number (x INTEGER);
CREATE TABLE "odd schema"."odd d-x" (i BIGINT, when_it_was TIMESTAMP, d DATE, f DOUBLE, b BOOLEAN);
CREATE TABLE shop_items (i INTEGER);
CREATE TABLE empty (i INTEGER, s VARCHAR);
CREATE UNIQUE INDEX by_price ON shop.items (price);
CREATE MACRO add_two(a, b := 2) AS a + b;
CREATE MACRO twice(a) AS TABLE SELECT a AS x UNION ALL SELECT a;
CREATE VIEW zz AS SELECT name, add_two(id) AS next FROM shop.items;
CREATE VIEW a_view AS SELECT next FROM zz;
INSERT INTO shop.items VALUES (1, 'a', 2.5, 'sad'), (2, '', 3, NULL), (3, 'NULL', 7, 'it''s ok');
INSERT INTO texts VALUES (NULL, ''), (1, NULL), (2, 'a,"b' || chr(10) || 'c'), (3, '\N'), (4, ' x '), (NULL, NULL);
INSERT INTO single VALUES ('q'), (NULL), (''), ('\N'), ('z');
INSERT INTO one_number VALUES (1), (NULL), (3);
INSERT INTO "odd schema"."odd d-x" VALUES (9007199254740993, '2024-02-29 12:34:56.789', '0044-03-15', 0.1, true),
    (NULL, NULL, NULL, 'nan', NULL), (-1, '1500-01-01', '9999-12-31', '-inf', false);
SELECT nextval('numbers');
COMMENT ON TABLE texts IS 'it''s all';
COMMENT ON COLUMN texts.i IS 'a number';
COMMENT ON VIEW zz IS 'names';
"""
TABLES = (
    "shop.items",
    "texts",
    "single",
    "one_number",
    '"odd schema"."odd d-x"',
    "shop_items",
    "empty",
    "zz",
    "a_view",
)
TOLD = (
    "SELECT table_name, sql FROM duckdb_tables()",
    "SELECT sql FROM duckdb_indexes()",
    "SELECT schema_name, table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
    "WHERE table_name NOT IN ('zz', 'a_view') AND NOT internal",
    "SELECT type_name, labels FROM duckdb_types() WHERE type_name = 'mood'",
    "FROM twice(add_two(1))",
)
OPTIONS = (
    "",
    " (FORMAT csv)",
    " (FORMAT csv, DELIMITER '|')",
    " (FORMAT parquet)",
    " (FORMAT parquet, COMPRESSION zstd)",
)


def contents(con: Any) -> dict[str, list[Any]]:
    rows = {name: con.sql(f"FROM {name}").fetchall() for name in TABLES}
    rows |= {query: con.sql(query).fetchall() for query in TOLD}
    return {name: sorted(map(repr, found)) for name, found in rows.items()}


def filled(con: Any) -> dict[str, list[Any]]:
    con.execute(SETUP)
    return contents(con)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
def test_there_and_back(options: str, stored: bool, tmp_path: Path) -> None:
    where = [str(tmp_path / "db")] if stored else []
    with warpmill.connect(*where) as con:
        before = filled(con)
        assert not con.execute(f"EXPORT DATABASE '{tmp_path}/out'{options}").notices
    with duckdb.connect() as theirs:
        assert filled(theirs) == before
        theirs.execute(f"EXPORT DATABASE '{tmp_path}/theirs'{options}")
    with duckdb.connect() as theirs:
        theirs.execute(f"IMPORT DATABASE '{tmp_path}/out'")
        assert contents(theirs) == before
        assert theirs.execute("SELECT nextval('numbers')").fetchall() == [(6,)]
        assert theirs.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'texts'").fetchall() == [
            ("it's all",)
        ]
    for folder in ("out", "theirs"):
        where = [str(tmp_path / f"again {folder}")] if stored else []
        with warpmill.connect(*where) as con:
            con.execute(f"IMPORT DATABASE '{tmp_path}/{folder}'")
            assert contents(con) == before, folder
            assert con.execute("SELECT nextval('numbers')").fetchall() == [(6,)]
            with pytest.raises(warpmill.ConstraintError):
                con.execute("INSERT INTO shop.items VALUES (1, 'b', 9, NULL)")
            if folder == "out":
                comments = "SELECT comment FROM duckdb_columns() WHERE comment IS NOT NULL"
                assert con.execute(comments).fetchall() == [("a number",)]
                assert con.execute("SELECT comment FROM duckdb_views()").fetchall()[-1] == ("names",)


def test_folders_may_move(tmp_path: Path) -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
        con.execute(f"EXPORT DATABASE '{tmp_path}/a'")
    shutil.move(tmp_path / "a", tmp_path / "b")
    with warpmill.connect() as con:
        con.execute(f"IMPORT DATABASE '{tmp_path}/b/'")
        assert con.execute("FROM t").fetchall() == [(1,)]
        with pytest.raises(warpmill.CatalogError, match="already exists"):
            con.execute(f"IMPORT DATABASE '{tmp_path}/b'")


def test_an_export_is_of_one_moment_and_changes_nothing(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i; BEGIN; INSERT INTO t VALUES (2)")
        con.execute(f"EXPORT DATABASE '{tmp_path}/within'")
        con.execute("ROLLBACK")
        con.execute(f"EXPORT DATABASE '{tmp_path}/after'")
        assert not con.in_transaction
        con.execute("INSERT INTO t VALUES (3)")
    assert (tmp_path / "within" / "t.csv").read_text().split() == ["i", "1", "2"]
    assert (tmp_path / "after" / "t.csv").read_text().split() == ["i", "1"]


def test_what_no_statement_makes_is_left_out_with_a_notice(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.register("frame", {"x": [1]})
        con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS i; CREATE TABLE t AS SELECT 2 AS i")
        done = con.execute(f"EXPORT DATABASE '{tmp_path}/out'")
        assert done.notices == []
    assert "mine" not in (tmp_path / "out" / "schema.sql").read_text()
    with warpmill.connect() as con:
        con.register("frame", {"x": [1]})
        with pytest.warns(warpmill.Notice, match="leaves out frame"):
            con.execute(f"EXPORT DATABASE '{tmp_path}/frames'")


REFUSED = {
    "EXPORT DATABASE 's3://bucket/x'": "folders of this machine",
    "EXPORT DATABASE 'OUT' (FORMAT json)": "json",
    "EXPORT DATABASE 'OUT/deep/er'": "OUT/deep",
    "EXPORT DATABASE": "EXPORT DATABASE 'folder'",
    "IMPORT DATABASE 'OUT/nothing'": "schema.sql",
    "IMPORT DATABASE 5": "IMPORT DATABASE 'folder'",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused(statement: str, tmp_path: Path) -> None:
    culprit = REFUSED[statement].replace("OUT", str(tmp_path))
    with warpmill.connect() as con, pytest.raises(warpmill.Error, match=culprit):
        con.execute(statement.replace("OUT", str(tmp_path)))


@pytest.mark.parametrize(
    ("schema", "load", "culprit"),
    [
        ("CREATE TABLE t (i INTEGER); DROP TABLE kept;", "", "DROP TABLE kept"),
        ("SET threads = 1;", "", "SET threads"),
        ("COPY kept TO 'x.csv';", "", "COPY kept"),
        ("CREATE TABLE t (i INTEGER);", "DELETE FROM kept;", "DELETE FROM kept"),
        ("CREATE TABLE t (i INTEGER);", "COPY kept TO 'x.csv';", "COPY kept"),
    ],
)
def test_other_statements_are_not_run(schema: str, load: str, culprit: str, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text(schema)
    (tmp_path / "load.sql").write_text(load)
    with warpmill.connect() as con:
        con.execute("CREATE TABLE kept AS SELECT 1 AS i")
        with pytest.raises(warpmill.NotSupportedError, match=culprit):
            con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert con.tables()[0].name == "kept"
        assert len(con.tables()) == 1


def test_files_are_those_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("i\n42\n")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "schema.sql").write_text("CREATE TABLE t (i INTEGER);")
    (folder / "load.sql").write_text(f"COPY t FROM '{tmp_path}/secret.csv' (FORMAT 'csv', header 1);")
    with warpmill.connect() as con, pytest.raises(warpmill.IOError, match=r"in/secret.csv"):
        con.execute(f"IMPORT DATABASE '{folder}'")


def test_nulls_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('a,b,c\n,"",1\nNA,"NA",2\n"",x,3\n')
    for options in ("", ", nullstr 'NA'", ", force_not_null ('b')", ", force_not_null 'a', nullstr 'NA'"):
        statement = f"COPY t FROM '{tmp_path}/x.csv' (FORMAT csv, HEADER, allow_quoted_nulls false{options})"
        rows = []
        for con in (warpmill.connect(), duckdb.connect()):
            con.execute("CREATE TABLE t (a VARCHAR, b VARCHAR, c INTEGER)")
            con.execute(statement)
            rows.append(con.execute("FROM t").fetchall())
            con.close()
        assert rows[0] == rows[1], options


def test_values_of_types_that_files_hold(tmp_path: Path) -> None:
    values = (
        "SELECT uuid() AS u, '\\x01a'::BLOB AS bl, "
        "TIMESTAMPTZ '2020-01-01 00:00:00+00' AS tz, TIME '10:00:00.5' AS t, 1.5::DECIMAL(38, 3) AS d, "
        "100000000000000000000::HUGEINT AS h, 200::UTINYINT AS ub, 1.25::FLOAT AS f, TIMESTAMP_NS '2020-01-01' AS ns"
    )
    with warpmill.connect() as con:
        con.execute(f"CREATE TABLE t AS {values}")
        before = con.execute("FROM t").fetchall()
        for options in ("(FORMAT parquet)", ""):
            folder = tmp_path / ("parquet" if options else "csv")
            con.execute(f"EXPORT DATABASE '{folder}' {options}")
            with warpmill.connect() as again:
                again.execute(f"IMPORT DATABASE '{folder}'")
                assert again.execute("FROM t").fetchall() == before, options
            with duckdb.connect() as theirs:
                theirs.execute(f"IMPORT DATABASE '{folder}'")
                found = theirs.execute("SELECT u, bl, t, d, h, ub, f FROM t").fetchall()
                assert repr(found) == repr(con.execute("SELECT u, bl, t, d, h, ub, f FROM t").fetchall()), options
    assert before[0][3] == datetime.time(10, 0, 0, 500000)
    assert before[0][4] == Decimal("1.500")


def test_structs_and_maps_are_read_from_parquet(tmp_path: Path) -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t AS SELECT [1, NULL] AS l, {'a': 1, 'b': 'x'} AS s, MAP {'k': [1, NULL]} AS m")
        before = con.execute("FROM t").fetchall()
        con.execute(f"EXPORT DATABASE '{tmp_path}/out' (FORMAT parquet)")
    engines: tuple[Any, Any] = (warpmill.connect(), duckdb.connect())
    for engine in engines:
        engine.execute(f"IMPORT DATABASE '{tmp_path}/out'")
        assert engine.execute("FROM t").fetchall() == before
        engine.close()
