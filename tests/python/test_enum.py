"""ENUMs and types of CREATE TYPE beside plain DuckDB: of constants, of tables in memory and of stored ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import warpmill
from beside import assert_both_refuse, pair_with

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE t (i INTEGER, m mood, s VARCHAR, n ENUM('happy', 'other', 'it''s'), l mood[]);
    INSERT INTO t VALUES (1, 'happy', 'ok', 'happy', ['ok', NULL, 'sad']), (2, 'sad', 'zz', 'other', []),
        (3, NULL, NULL, NULL, NULL), (4, 'ok', 'ok', 'it''s', ['happy']), (5, 'ok', 'sad', 'happy', [NULL]);
    CREATE TABLE none (i INTEGER, m mood);
    CREATE TABLE single AS SELECT 'ok'::mood AS m;
"""

pair = pair_with(TABLE)

EQUAL = [
    "SELECT typeof(m), typeof(n), typeof(l), typeof([m]), typeof({'a': m}) FROM t",
    "DESCRIBE t",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
    "SELECT i, m, n, l FROM t ORDER BY i",
    "SELECT NULL::mood, typeof(NULL::mood), 'ok'::mood, 'a'::ENUM('b', 'a'), ''::ENUM('')",
    # Casts.
    "SELECT m::VARCHAR, m::mood, m::BLOB, l::VARCHAR, l::VARCHAR[], {'a': m}::VARCHAR FROM t ORDER BY i",
    "SELECT m::ENUM('happy', 'sad', 'ok') FROM t ORDER BY i",
    "SELECT TRY_CAST(s AS mood), TRY_CAST(n AS mood), TRY_CAST(i AS mood), TRY_CAST(m AS INTEGER) FROM t ORDER BY i",
    "SELECT ['ok', 'sad']::mood[], {'a': 'ok'}::STRUCT(a mood), map {'k': 'ok'}::MAP(VARCHAR, mood)",
    # Comparisons: within one ENUM by position, else as text.
    "SELECT i, m = 'ok', m <> 'ok', m = 'zz', m > 'ok', m > 'zz', 'ok' >= m FROM t ORDER BY i",
    "SELECT i FROM t WHERE m = 'ok' ORDER BY i",
    "SELECT i, m = s, m < s, m = n, m < n FROM t ORDER BY i",
    "SELECT i, m = 'ok'::mood, m < 'happy'::mood, m >= 'ok'::mood, m = m FROM t ORDER BY i",
    "SELECT i, m IN ('ok', 'zz'), m NOT IN ('ok', 'sad'), m IN (s, 'happy'), m IN ('ok'::mood) FROM t ORDER BY i",
    "SELECT i, m BETWEEN 'ok' AND 'sad', m BETWEEN 'ok'::mood AND 'happy'::mood FROM t ORDER BY i",
    "SELECT i FROM t WHERE m IS DISTINCT FROM 'ok'::mood ORDER BY i",
    "SELECT i FROM t WHERE m IS NULL OR m IN (SELECT s FROM t) ORDER BY i",
    "SELECT i FROM t WHERE m IN (SELECT m FROM t WHERE i < 3) ORDER BY i",
    "SELECT i, CASE m WHEN 'ok' THEN 'a' WHEN 'sad' THEN 'b' ELSE 'c' END FROM t ORDER BY i",
    "SELECT i, CASE m WHEN 'ok'::mood THEN 'a' ELSE 'c' END FROM t ORDER BY i",
    # Order, groups, joins, windows.
    "SELECT i, m FROM t ORDER BY m, i",
    "SELECT i, m FROM t ORDER BY m DESC NULLS FIRST, i LIMIT 3",
    "SELECT m, count(*), sum(i) FROM t GROUP BY m ORDER BY m",
    "SELECT m, n, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT m FROM t ORDER BY m",
    "SELECT min(m), max(m), count(m), count(DISTINCT m), any_value(m), arg_max(m, i), arg_max(i, m) FROM t",
    "SELECT min(m), max(m), count(m), list(m), first(m) FROM none",
    "SELECT min(m), max(m), count(m), list(m), first(m) FROM single",
    "SELECT i % 2, min(m), max(m), list(m ORDER BY i), first(m ORDER BY i) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT mode(m), list(m ORDER BY m DESC) FROM t",
    "SELECT a.i, b.i FROM t a JOIN t b ON a.m = b.m ORDER BY ALL",
    "SELECT a.i, b.i FROM t a JOIN t b USING (m) ORDER BY ALL",
    "SELECT a.i, b.i FROM t a JOIN t b ON a.m = b.s ORDER BY ALL",
    "SELECT a.i, b.i FROM t a JOIN t b ON a.m = b.n ORDER BY ALL",
    "SELECT a.i, b.i FROM t a JOIN t b ON a.m < b.m ORDER BY ALL",
    "SELECT i FROM t a WHERE EXISTS (FROM t b WHERE b.m = a.m AND b.i <> a.i) ORDER BY i",
    "SELECT i, (rank() OVER (ORDER BY m))::BIGINT AS a, lag(m) OVER (ORDER BY i) FROM t ORDER BY i",
    "SELECT i, count(*) OVER (PARTITION BY m), min(m) OVER (ORDER BY i) FROM t ORDER BY i",
    # Functions and operators of several values.
    "SELECT i, coalesce(m, 'ok'), coalesce(m, s), coalesce(m, m), coalesce(m, n) FROM t ORDER BY i",
    "SELECT i, CASE WHEN i = 1 THEN m ELSE 'ok' END, CASE WHEN i = 1 THEN m ELSE n END FROM t ORDER BY i",
    "SELECT i, CASE WHEN i > 1 THEN m END, if(i = 2, m, m) FROM t ORDER BY i",
    "SELECT i, greatest(m, 'ok'), least(m, s), nullif(m, 'ok'), nullif(m, m) FROM t ORDER BY i",
    "SELECT i, [m, 'x'], [m, s], [m, m], [m, NULL] FROM t ORDER BY i",
    "SELECT m FROM t UNION SELECT n FROM t ORDER BY 1",
    "SELECT m FROM t UNION ALL SELECT 'zz' ORDER BY 1",
    "SELECT m FROM t UNION ALL SELECT m FROM single ORDER BY 1",
    "SELECT m FROM t UNION SELECT s FROM t ORDER BY 1",
    # Texts.
    "SELECT upper(m), length(m)::BIGINT, m || 'x', m || m, 'x' || m, m LIKE 'h%', m ILIKE 'H%' FROM t ORDER BY i",
    "SELECT substr(m, 1, 2), replace(m, 'a', 'b'), starts_with(m, 'h'), regexp_matches(m, 'a') FROM t ORDER BY i",
    "SELECT concat(m, i), concat_ws('-', m, n), format('{}', m), string_split(m, 'a'), md5(m) FROM t ORDER BY i",
    "SELECT to_json(m)::VARCHAR, to_json([m])::VARCHAR, to_json({'a': m})::VARCHAR FROM t WHERE i < 3 ORDER BY i",
    # Parts.
    "SELECT i, l[1], len(l), {'a': m}.a, [m][1] FROM t ORDER BY i",
    "SELECT unnest(l) AS x FROM t ORDER BY x",
    "SELECT list_sort(l), list_min(l), list_max(l), list_contains(l, m) FROM t ORDER BY i",
    "SELECT map {m: i} FROM t WHERE m IS NOT NULL ORDER BY i",
    "SELECT l = ['ok'], l < ['ok'::mood], [m] = [n], [m] = [m], {'a': m} = {'a': s} FROM t ORDER BY i",
    "SELECT coalesce([m], ['x']), coalesce(l, [n]), [[m], [n]], [{'a': m}, {'a': n}] FROM t ORDER BY i",
    "SELECT l FROM t UNION ALL SELECT [n] FROM t ORDER BY 1",
    "SELECT i, list_contains(l, 'ok'), list_position(l, m), list_concat(l, [m]) FROM t ORDER BY i",
    "SELECT i, list_sort(list_distinct(l)) FROM t ORDER BY i",
    "SELECT i, list_transform(l, lambda x: upper(x)), list_filter(l, lambda x: x = 'ok'), l[1:1] FROM t ORDER BY i",
    "SELECT string_agg(m, ',' ORDER BY i), string_agg(m, '-' ORDER BY m) FROM t",
    "SELECT i, lag(m, 1, 'ok') OVER (ORDER BY i), lead(m, 1, 'sad'::mood) OVER (ORDER BY i) FROM t ORDER BY i",
    "SELECT m, count(*) FROM t GROUP BY ROLLUP (m) ORDER BY ALL",
    "SELECT DISTINCT ON (m) m, i FROM t ORDER BY m, i DESC",
    "SELECT m FROM t EXCEPT SELECT 'ok'::mood ORDER BY 1",
    "SELECT m FROM t INTERSECT SELECT s FROM t ORDER BY 1",
    "SELECT a.i, b.i FROM t a LEFT JOIN t b ON a.m = b.n AND b.m = 'ok' ORDER BY ALL",
    "SELECT i, (SELECT max(m) FROM t b WHERE b.i < a.i) FROM t a ORDER BY i",
    "SELECT i, m FROM (SELECT i, m FROM t WHERE m <> 'sad') WHERE m > 'ok'::mood OR m IS NULL ORDER BY i",
    "SELECT i, m::VARCHAR = 'ok', m SIMILAR TO 'o.*', m GLOB 'o*', m[1] FROM t ORDER BY i",
    "PIVOT (SELECT i, m FROM t) ON m USING count(*) GROUP BY i ORDER BY i",
    # Their own functions.
    "SELECT enum_range(NULL::mood), enum_first(NULL::mood), enum_last(NULL::mood), typeof(enum_code(NULL::mood))",
    "SELECT enum_range(m), enum_first(n), enum_last(m), enum_code(m), enum_code(n) FROM t ORDER BY i",
    "SELECT enum_range_boundary('ok'::mood, NULL), enum_range_boundary(NULL, 'ok'::mood)",
    "SELECT enum_range_boundary('ok'::mood, 'happy'::mood)",
    "SELECT i, m BETWEEN 'ok'::mood AND 'happy', m NOT BETWEEN n AND 'z' FROM t ORDER BY i",
    "SELECT i, CASE WHEN i < 3 THEN l ELSE [n] END, map([m], [n])[m], [m]::VARCHAR[] FROM t WHERE i <> 3 ORDER BY i",
    "SELECT i, position('a' IN m) > 0, list_append(l, n), list_append(l, 'zz') FROM t ORDER BY i",
    "SELECT i, array_to_string(l, '-'), list_has_any(l, ['ok']) FROM t ORDER BY i",
    "SELECT list(DISTINCT m ORDER BY m), list(m ORDER BY m DESC) FROM t",
    "WITH RECURSIVE r AS (SELECT 'ok'::mood AS m, 1::BIGINT AS n UNION ALL SELECT m, n + 1 FROM r WHERE n < 3) FROM r",
]


@pytest.mark.parametrize("query", EQUAL)
def test_as_duckdb_does(query: str, pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    expected, found = theirs.sql(query).fetchall(), ours.sql(query).fetchall()
    if query.startswith("DESCRIBE"):
        expected, found = ([row[:3] for row in rows] for rows in (expected, found))
    assert found == expected
    if query.startswith("SELECT"):
        kinds = [[row[:2] for row in con.sql(f"DESCRIBE {query}").fetchall()] for con in (ours, theirs)]
        assert kinds[0] == kinds[1]


REFUSED = [
    "SELECT 'zz'::mood",
    "SELECT s::mood FROM t",
    "SELECT n::mood FROM t",
    "SELECT 1::mood",
    "SELECT true::mood",
    "SELECT m::INTEGER FROM t",
    "SELECT 'a'::ENUM('a', 'a')",
    "SELECT 'a'::nothing",
    "INSERT INTO t (i, m) VALUES (9, 'zz')",
    "INSERT INTO t (i, m) SELECT 9, s FROM t",
    "INSERT INTO t (i, m) VALUES (9, 1)",
    "SELECT sum(m) FROM t",
    "SELECT avg(m) FROM t",
    "SELECT m + 1 FROM t",
    "SELECT enum_range(s) FROM t",
    "SELECT enum_code('ok') FROM t",
    "SELECT enum_range_boundary('ok'::mood, 'happy'::ENUM('happy'))",
    "CREATE TYPE mood AS ENUM ('x')",
    "CREATE TYPE two AS ENUM ('x', 'x')",
    "CREATE TYPE integer AS ENUM ('x')",
    "DROP TYPE nothing",
    "DROP TYPE mood, other",
    "SELECT 'ok'::nothing.mood",
    "SELECT m = i FROM t",
    "SELECT coalesce(m, i) FROM t",
    "SELECT m::mood[] FROM t",
    'SELECT m."$ position" FROM t',
    "SELECT unnest(m) FROM t",
    "SELECT struct_keys(m) FROM t",
]


@pytest.mark.parametrize("query", REFUSED)
def test_refused_as_by_duckdb(query: str, pair: tuple[Any, Any]) -> None:
    assert_both_refuse(query, pair)


def test_changes(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TABLE d (id INTEGER, m mood DEFAULT 'ok')")
    for change in (
        "INSERT INTO d (id) VALUES (1), (2)",
        "INSERT INTO d VALUES (3, 'happy'), (4, NULL)",
        "INSERT INTO d SELECT i, m FROM t",
        "UPDATE d SET m = 'sad' WHERE id = 1",
        "UPDATE d SET m = NULL WHERE m = 'happy'",
        "DELETE FROM d WHERE m < 'sad'::mood OR m = 'ok'",
        "MERGE INTO d USING (SELECT 'sad'::mood AS k) n ON d.m = n.k WHEN MATCHED THEN UPDATE SET id = 50",
        "ALTER TABLE d ALTER COLUMN m TYPE VARCHAR",
        "ALTER TABLE d ALTER COLUMN m TYPE mood",
        "ALTER TABLE d ADD COLUMN x mood DEFAULT 'happy'",
    ):
        for con in pair:
            con.execute(change)
        rows = [con.sql("FROM d ORDER BY ALL").fetchall() for con in pair]
        assert rows[0] == rows[1], change
    assert pair[0].sql("DESCRIBE d").fetchall() == pair[1].sql("DESCRIBE d").fetchall()
    for con in pair:
        con.execute("DROP TABLE d")


def test_types_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with warpmill.connect(path) as con:
        con.execute("CREATE TYPE mood AS ENUM ('b', 'a'); CREATE TYPE age AS INTEGER; CREATE TEMP TYPE mine AS DOUBLE")
        con.execute("CREATE TYPE pair AS STRUCT(x age, m mood); CREATE TYPE IF NOT EXISTS age AS VARCHAR")
        con.execute("CREATE TABLE s AS SELECT * FROM (VALUES ('y'), ('x'), ('y'), (NULL)) v(s)")
        con.execute("CREATE TYPE seen AS ENUM (SELECT DISTINCT s FROM s WHERE s IS NOT NULL ORDER BY s DESC)")
        con.execute("CREATE TABLE t AS SELECT 'a'::mood AS m, 1::age AS i, 'x'::seen AS s, 1::mine AS d")
        con.execute("INSERT INTO t VALUES ('b', 2, 'y', 3)")
        con.execute("CREATE VIEW v AS SELECT m, m = 'a'::mood AS is_a, upper(m) AS u FROM t")
    with warpmill.connect(path) as con, warpmill.connect(path) as other:
        assert con.sql("FROM t ORDER BY m").fetchall() == [("b", 2, "y", 3.0), ("a", 1, "x", 1.0)]
        assert con.sql("FROM v ORDER BY m").fetchall() == [("b", False, "B"), ("a", True, "A")]
        assert con.sql("SELECT typeof({'x': 1, 'm': 'a'}::pair)").fetchall() == [
            ("STRUCT(x INTEGER, m ENUM('b', 'a'))",)
        ]
        assert con.sql("SELECT enum_range(NULL::seen)").fetchall() == [(["y", "x"],)]
        with pytest.raises(warpmill.Error, match="mine"):
            con.sql("SELECT 1::mine")
        con.execute("CREATE OR REPLACE TYPE mood AS ENUM ('c')")
        assert other.sql("SELECT 'c'::mood, typeof(m) FROM t LIMIT 1").fetchall() == [("c", "ENUM('b', 'a')")]
        con.execute("DROP TYPE mood; DROP TYPE IF EXISTS mood")
        with pytest.raises(warpmill.Error, match="mood"):
            other.sql("SELECT 'c'::mood")
        assert other.sql("SELECT m FROM t ORDER BY m").fetchall() == [("b",), ("a",)]
        con.execute("BEGIN; CREATE TYPE x AS ENUM ('a'); ROLLBACK")
        with pytest.raises(warpmill.Error, match="x"):
            con.sql("SELECT 'a'::x")


def test_keys_and_conditions(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TABLE k (m mood PRIMARY KEY, n ENUM('a', 'b', 'c') CHECK (n > 'a'), i INTEGER)")
        con.execute("INSERT INTO k VALUES ('ok', 'b', 1), ('happy', 'c', 2)")
        con.execute("CREATE TABLE two (m mood, i INTEGER, UNIQUE (i, m))")
        con.execute("INSERT INTO two VALUES ('ok', 1), ('sad', 1), (NULL, 1), (NULL, 1)")
    for change in (
        "INSERT INTO k VALUES ('ok', 'b', 3)",
        "INSERT INTO k VALUES (NULL, 'b', 3)",
        "INSERT INTO k VALUES ('sad', 'a', 3)",
        "INSERT INTO k VALUES ('sad', 'b', 3), ('sad', 'c', 4)",
        "UPDATE k SET m = 'happy' WHERE m = 'ok'",
        "UPDATE k SET m = 'zz'",
        "INSERT INTO two VALUES ('sad', 1)",
    ):
        errors = []
        for con, kind in zip(pair, (warpmill.Error, duckdb.Error), strict=True):
            with pytest.raises(kind) as refused:
                con.execute(change)
            errors.append(str(refused.value))
        if "Duplicate key" in errors[1]:
            assert errors[1].split("Error: ")[1].split("\n")[0].rstrip(".") in errors[0]
    for change in (
        "INSERT OR REPLACE INTO k VALUES ('ok', 'c', 5)",
        "INSERT OR IGNORE INTO k VALUES ('ok', 'c', 6), ('sad', 'c', 7)",
        "INSERT INTO k VALUES ('sad', 'b', 8) ON CONFLICT (m) DO UPDATE SET i = excluded.i",
        "DELETE FROM k WHERE m = 'happy'",
        "INSERT INTO k VALUES ('happy', 'b', 9)",
    ):
        for con in pair:
            con.execute(change)
        rows = [con.sql("FROM k ORDER BY m").fetchall() for con in pair]
        assert rows[0] == rows[1], change
    for con in pair:
        with pytest.raises((warpmill.Error, duckdb.Error), match="uplicate"):
            con.execute("CREATE TABLE c AS SELECT m FROM t; CREATE UNIQUE INDEX by_m ON c (m)")
        con.execute("DROP TABLE c; DROP TABLE k; DROP TABLE two")


def test_types_that_are_used(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE TYPE used AS ENUM ('a', 'b')")
        con.execute("CREATE TABLE d (x used DEFAULT 'a'::used)")
        con.execute("CREATE TABLE c (x used CHECK (x = 'a'::used))")
    for table in ("d", "c"):
        for con, kind in zip(pair, (warpmill.Error, duckdb.Error), strict=True):
            for statement in ("DROP TYPE used", "CREATE OR REPLACE TYPE used AS ENUM ('c')"):
                with pytest.raises(kind, match="used"):
                    con.execute(statement)
            con.execute(f"DROP TABLE {table}")
    for con in pair:
        con.execute("CREATE TABLE d (x used); DROP TYPE used; INSERT INTO d VALUES ('b'); DROP TABLE d")


def test_names_of_types(pair: tuple[Any, Any]) -> None:
    query = """SELECT schema_name, lower(type_name), logical_type, labels FROM duckdb_types()
        WHERE lower(type_name) IN ('mood', 'moods', 'my t', 'whole') ORDER BY ALL"""
    for con in pair:
        con.execute("CREATE SCHEMA s; CREATE TYPE s.mood AS ENUM ('x'); CREATE TYPE \"My T\" AS DECIMAL(10, 2)")
        con.execute('CREATE TYPE moods AS mood[]; CREATE TYPE whole AS STRUCT(m mood, "a b" INTEGER)')
    for ask in (
        query,
        "SELECT 'x'::s.mood, upper('x'::s.mood), 'ok'::main.mood, 'ok'::MOOD, typeof(1.5::\"my t\")",
        "SELECT ['ok']::moods, {'m': 'ok', 'a b': 1}::whole, typeof(NULL::whole)",
    ):
        rows = [con.sql(ask).fetchall() for con in pair]
        assert rows[0] == rows[1], ask
    for con in pair:
        with pytest.raises((warpmill.Error, duckdb.Error)):
            con.sql("SELECT 'ok'::s.mood").fetchall()
        con.execute('DROP TYPE s.mood; DROP SCHEMA s; DROP TYPE "My T"; DROP TYPE moods; DROP TYPE whole')
        assert con.sql(query).fetchall() == [("main", "mood", "ENUM", ["sad", "ok", "happy"])]


def test_values_in_python(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    query = "SELECT m, l FROM t ORDER BY i"
    found, expected = ours.sql(query).df(), theirs.sql(query).df()
    assert isinstance(found["m"].dtype, pd.CategoricalDtype)
    assert list(found["m"].cat.categories) == list(expected["m"].cat.categories)
    assert found["m"].astype(object).tolist()[:2] == expected["m"].astype(object).tolist()[:2]
    table = ours.sql(query).to_arrow_table()
    assert pa.types.is_dictionary(table.schema.field("m").type)
    assert table.schema == theirs.sql(query).to_arrow_table().schema
    assert found["m"].cat.ordered == expected["m"].cat.ordered
    assert table.to_pylist() == theirs.sql(query).to_arrow_table().to_pylist()
    assert ours.sql(query).pl()["m"].to_list() == ["happy", "sad", None, "ok", "ok"]
    assert ours.sql("SELECT m FROM t WHERE m = ? OR m < ?", ["ok", "a"]).fetchall() == [("ok",), ("ok",)]


def test_results_that_are_read_again_keep_their_order(pair: tuple[Any, Any]) -> None:
    ours, _ = pair
    rows = ours.sql("SELECT m, l FROM t")
    assert ours.sql("SELECT m FROM rows ORDER BY m").fetchall() == [("sad",), ("ok",), ("ok",), ("happy",), (None,)]
    ours.create_table("copied", rows, replace=True)
    assert ours.sql("SELECT min(m), max(m), typeof(min(m)) FROM copied").fetchall()[0][:2] == ("sad", "happy")


def test_categories_of_frames(pair: tuple[Any, Any]) -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["ok", None, "sad"], ["sad", "ok", "x"])})
    for con in pair:
        con.register("categories", frame)
        con.execute("CREATE TABLE c (m mood)")
        con.execute("INSERT INTO c SELECT c FROM categories")
    for query in (
        "SELECT m FROM c ORDER BY m",
        "SELECT c::mood FROM categories ORDER BY 1",
        "SELECT c.m FROM c JOIN categories f ON c.m = f.c ORDER BY ALL",
    ):
        rows = [con.sql(query).fetchall() for con in pair]
        assert rows[0] == rows[1], query
    for con in pair:
        con.execute("DROP TABLE c")
        con.unregister("categories")


def test_files(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    for name, con in zip(("ours", "theirs"), pair, strict=True):
        for kind in ("csv", "json", "parquet"):
            con.execute(f"COPY (SELECT i, m, l FROM t ORDER BY i) TO '{tmp_path}/{name}.{kind}'")
    for kind in ("csv", "json"):
        assert (tmp_path / f"ours.{kind}").read_text() == (tmp_path / f"theirs.{kind}").read_text()
    rows = [pair[1].sql(f"FROM '{tmp_path}/{name}.parquet' ORDER BY i").fetchall() for name in ("ours", "theirs")]
    assert rows[0] == rows[1]
    assert pair[0].sql(f"SELECT i, m, l FROM '{tmp_path}/theirs.parquet' ORDER BY i").fetchall() == rows[1]
    result = pair[0].sql("SELECT m FROM t ORDER BY i")
    for kind in ("csv", "json", "parquet", "arrow"):
        result.write(str(tmp_path / f"written.{kind}"))
    assert (tmp_path / "written.csv").read_text() == 'm\nhappy\nsad\n""\nok\nok\n'
    assert pair[0].sql(f"FROM '{tmp_path}/written.parquet'").fetchall() == result.fetchall()
    for con in pair:
        con.execute("CREATE TABLE read (i INTEGER, m mood, l mood[])")
        con.execute(f"INSERT INTO read SELECT * FROM '{tmp_path}/theirs.parquet'")
        con.execute(f"CREATE TABLE lines (m mood); COPY lines FROM '{tmp_path}/written.csv' (HEADER)")
    rows = [con.sql("SELECT * FROM read ORDER BY m, i").fetchall() for con in pair]
    assert rows[0] == rows[1]
    for con in pair:
        assert con.sql("SELECT min(m), max(m) FROM lines").fetchall() == [("sad", "happy")]
    pair[0].append("lines", pd.DataFrame({"m": ["ok", "sad"]}))
    with pytest.raises(warpmill.Error, match="zz"):
        pair[0].append("lines", pd.DataFrame({"m": ["zz"]}))
    for con in pair:
        con.execute("DROP TABLE read; DROP TABLE lines")
