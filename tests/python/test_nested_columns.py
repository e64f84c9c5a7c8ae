"""Columns of lists, structs, maps, bytes and intervals of own tables, beside DuckDB."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TYPES = """
    id INTEGER, l INTEGER[], texts VARCHAR[], deep INTEGER[][], a INTEGER[3], s STRUCT(x INTEGER, y VARCHAR),
    inner_ STRUCT(p STRUCT(q DOUBLE, r DATE), l INTEGER[]), m MAP(VARCHAR, INTEGER), b BLOB, i INTERVAL
"""
ROWS = """
    (1, [1, 2, NULL], ['a', NULL, ''], [[1], [], NULL, [2, 3]], [1, 2, 3], {'x': 1, 'y': 'one'},
     {'p': {'q': 1.5, 'r': DATE '2020-01-01'}, 'l': [1]}, MAP {'k': 1, 'l': NULL}, '\\x00\\xFFab'::BLOB,
     INTERVAL '1 year 2 days 3 hours'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, [], [], [], [NULL, -1, 2147483647], {'x': NULL, 'y': NULL}, {'p': NULL, 'l': NULL}, MAP {}, ''::BLOB,
     INTERVAL '0 days'),
    (4, [-2147483648], ['a longer text than fits'], [[]], [0, 0, 0], {'x': -5, 'y': ''},
     {'p': {'q': NULL, 'r': NULL}, 'l': []}, MAP {'': 0}, '\\x80'::BLOB, INTERVAL '-3 months 1 microsecond'),
    (5, [1, 2, NULL], ['a', NULL, ''], [[1], [], NULL, [2, 3]], [1, 2, 3], {'x': 1, 'y': 'one'},
     {'p': {'q': 'nan'::DOUBLE, 'r': DATE '1900-02-28'}, 'l': [1, 2]}, MAP {'k': 1, 'l': NULL}, '\\x00\\xFFab'::BLOB,
     INTERVAL '1 year 2 days 3 hours')
"""
QUERIES = [
    "SELECT * FROM t ORDER BY id",
    "SELECT id, l, s FROM t WHERE id > 2 ORDER BY id",
    "SELECT l FROM t WHERE id = 4",
    "SELECT s FROM t ORDER BY id DESC LIMIT 2",
    "SELECT id, m FROM t LIMIT 0",
    "SELECT id, l[1], l[-1], len(l), list_sum(l), list_contains(l, 2) FROM t ORDER BY id",
    "SELECT id, s.x, s.y, s.x + 1, upper(s.y) FROM t ORDER BY id",
    "SELECT id FROM t WHERE s.x = 1 ORDER BY id",
    "SELECT id, l FROM t WHERE s.x < 1 OR s.y = 'one' ORDER BY id",
    "SELECT s.x AS x, count(*) AS n, sum(id) AS i FROM t GROUP BY ALL ORDER BY x NULLS LAST",
    "SELECT sum(s.x), min(s.y), max(inner_.p.q), count(inner_.p.r), count(inner_), count(s) FROM t",
    "SELECT id, inner_.p.r FROM t WHERE inner_.p.r >= DATE '2000-01-01'",
    "SELECT id, inner_.p, inner_.l FROM t WHERE inner_.p IS NOT NULL ORDER BY id",
    "SELECT id FROM t WHERE l IS NULL",
    "SELECT id, l FROM t WHERE len(l) >= 1 AND texts IS NOT NULL ORDER BY id",
    "SELECT id, len(texts), octet_length(b), cardinality(m) FROM t WHERE l IS NOT NULL OR m IS NULL ORDER BY id",
    "SELECT id FROM t WHERE inner_.l IS NULL ORDER BY id",
    "SELECT id, inner_ FROM t WHERE len(inner_.l) = 0 OR octet_length(b) = 1 ORDER BY id",
    "SELECT len(l) AS n, count(*) AS c FROM t GROUP BY n ORDER BY n NULLS LAST",
    "SELECT id FROM t WHERE s IS NOT NULL ORDER BY id",
    "SELECT l, count(*) AS n FROM t GROUP BY l ORDER BY n, l NULLS LAST",
    "SELECT DISTINCT s FROM t ORDER BY s NULLS LAST",
    "SELECT id, unnest(l) AS e FROM t ORDER BY id, e NULLS LAST",
    "SELECT id, list_transform(l, lambda e: e % 2) FROM t ORDER BY id",
    "SELECT id, m['k'], map_keys(m), map_values(m), cardinality(m) FROM t ORDER BY id",
    "SELECT id, octet_length(b), hex(b) FROM t ORDER BY id",
    "SELECT id FROM t WHERE b = '\\x80'::BLOB",
    "SELECT id, i, TIMESTAMP '2020-01-31' + i FROM t ORDER BY id",
    "SELECT id FROM t WHERE i > INTERVAL '1 day' ORDER BY id",
    "SELECT a.id, b.id, b.l FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.id > 2 ORDER BY a.id",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.l = b.l ORDER BY a.id, b.id",
    "SELECT a.id, b.s FROM t a LEFT JOIN t b ON a.s.x = b.s.x AND a.id <> b.id ORDER BY a.id",
    "SELECT id, l FROM t WHERE id IN (SELECT max(id) FROM t) OR s.x IS NULL ORDER BY id",
    "SELECT id, row_number() OVER (ORDER BY s.x NULLS LAST, id) AS n, l FROM t ORDER BY id",
    "SELECT id, l FROM t WHERE id < 3 UNION ALL SELECT id, l FROM t WHERE id = 5 ORDER BY id",
    "SELECT count(*) FROM t WHERE list_contains(texts, 'a')",
    "SELECT id, to_json(s) FROM t WHERE id = 1",
    "SELECT list(s ORDER BY id) FROM t",
    "SELECT arg_max(l, id), first(s ORDER BY id) FROM t",
]


def plain(value: Any) -> Any:
    """A value in the common form of both packages."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        if set(value) == {"key", "value"} and isinstance(value["key"], list):
            return list(zip(plain(value["key"]), plain(value["value"]), strict=True))
        return sorted((str(name), plain(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        pairs = bool(items) and all(isinstance(item, tuple) for item in value)
        return sorted((str(item[0]), item[1]) for item in items) if pairs and isinstance(value, list) else items
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return value


def rows(cursor: Any) -> list[Any]:
    return [[plain(value) for value in row] for row in cursor.fetchall()]


@pytest.fixture(params=["memory", "folder"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    with warpmill.connect(*[tmp_path / "db"] if request.param == "folder" else []) as connection:
        yield connection


@pytest.fixture
def beside() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("made", ["created", "selected"])
def test_every_type_as_in_duckdb(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection, made: str) -> None:
    for each in (con, beside):
        each.execute(f"CREATE TABLE t ({TYPES})")
        each.execute(f"INSERT INTO t VALUES {ROWS}")
        if made == "selected":
            each.execute("CREATE TABLE u AS SELECT * FROM t")
            each.execute("DROP TABLE t")
            each.execute("ALTER TABLE u RENAME TO t")
    different = []
    for sql in QUERIES:
        wanted = rows(beside.execute(sql))
        try:
            found = rows(con.execute(sql))
        except warpmill.Error as error:
            different.append(f"{sql}\n  {error}")
            continue
        if found != wanted:
            different.append(f"{sql}\n  {found}\n  {wanted}")
    assert not different, "\n".join(different)


def test_rows_that_change(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection) -> None:
    for each in (con, beside):
        each.execute(f"CREATE TABLE t ({TYPES})")
        each.execute(f"INSERT INTO t VALUES {ROWS}")
        each.execute("UPDATE t SET l = [id, id + 1], s = {'x': 7, 'y': 'seven'} WHERE id IN (2, 3)")
        each.execute("UPDATE t SET id = 40 WHERE s.x = -5")
        each.execute("DELETE FROM t WHERE list_contains(l, 1) AND id > 1")
        each.execute("INSERT INTO t (id, m, i) VALUES (9, MAP {'n': 9}, INTERVAL '9 days')")
        each.execute("INSERT INTO t SELECT * FROM t WHERE id <> 9")
        each.execute("ALTER TABLE t ADD COLUMN z VARCHAR[] DEFAULT ['z']")
        each.execute("ALTER TABLE t DROP COLUMN deep")
    for sql in ["SELECT * FROM t ORDER BY id, l", "SELECT id, s.y FROM t WHERE s.x = 7 ORDER BY id, s.y"]:
        assert rows(con.execute(sql)) == rows(beside.execute(sql))


def test_a_summary(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection) -> None:
    found = {}
    for each in (con, beside):
        each.execute(f"CREATE TABLE t ({TYPES})")
        each.execute(f"INSERT INTO t VALUES {ROWS}")
        names = ["l", "texts", "b"] if each is beside else ["l", "texts", "b", "s", "m", "i"]
        lines = [row for row in each.execute("SUMMARIZE t").fetchall() if row[0] in names]
        found[each] = {row[0]: (row[1], row[2], row[3], row[10], row[11]) for row in lines}
    # Structs, maps and intervals have no least value here.
    assert {found[con].pop(name)[1:3] for name in ["s", "m", "i"]} == {(None, None)}
    assert found[con] == found[beside]


def test_no_rows(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection) -> None:
    for each in (con, beside):
        each.execute(f"CREATE TABLE t ({TYPES})")
    for sql in QUERIES:
        assert rows(con.execute(sql)) == rows(beside.execute(sql)), sql


def test_a_database_is_opened_again(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute(f"CREATE TABLE t ({TYPES})")
        con.execute(f"INSERT INTO t VALUES {ROWS}")
        wanted = rows(con.execute("SELECT * FROM t ORDER BY id"))
        types = con.execute("SELECT column_name, data_type FROM information_schema.columns ORDER BY 1").fetchall()
    with warpmill.connect(tmp_path / "db") as con:
        assert rows(con.execute("SELECT * FROM t ORDER BY id")) == wanted
        again = con.execute("SELECT column_name, data_type FROM information_schema.columns ORDER BY 1").fetchall()
        assert again == types
        assert con.execute("SELECT id FROM t WHERE s.x = 1 ORDER BY id").fetchall() == [(1,), (5,)]


def test_a_parquet_file_becomes_a_table(con: warpmill.Connection, tmp_path: Path) -> None:
    count = 30_000
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "tags": pa.array([None if i % 11 == 0 else [f"tag {i % 7}"] * (i % 4) for i in range(count)]),
            "point": pa.array([None if i % 13 == 0 else {"x": i, "y": i / 2} for i in range(count)]),
            "raw": pa.array([i.to_bytes(4, "little") for i in range(count)], pa.binary()),
            "fixed": pa.array([i.to_bytes(16, "big") for i in range(count)], pa.binary(16)),
            "when": pa.array([dt.timedelta(seconds=i) for i in range(count)], pa.duration("us")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    con.execute("SET warpmill.segment_rows = 4096")
    con.execute(f"CREATE TABLE t AS SELECT * FROM '{tmp_path}/x.parquet'")
    found = con.execute("SELECT * FROM t ORDER BY id").arrow()
    for name in ["id", "tags", "point", "raw"]:
        assert found[name].to_pylist() == table[name].to_pylist(), name
    assert [bytes(value) for value in found["fixed"].to_pylist()] == table["fixed"].to_pylist()
    beside = duckdb.connect()
    for sql in [
        "SELECT sum(point.x), avg(point.y), count(point) FROM {} WHERE point.x % 3 = 0",
        "SELECT id, tags FROM {} WHERE point.x BETWEEN 5000 AND 5010 ORDER BY id",
        "SELECT tags, count(*) AS n FROM {} GROUP BY tags ORDER BY n, tags",
        "SELECT id, tags, point FROM {} ORDER BY point.y DESC NULLS LAST LIMIT 5",
        "SELECT e, count(*) FROM (SELECT unnest(tags) AS e FROM {}) q GROUP BY e ORDER BY e",
        "SELECT id, raw FROM {} WHERE id % 5000 = 1 ORDER BY id",
    ]:
        wanted = rows(beside.execute(sql.format(f"'{tmp_path}/x.parquet'")))
        assert rows(con.execute(sql.format("t"))) == wanted, sql


def test_programs_run_what_they_can(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i AS id, [i, i + 1] AS l, {'x': i % 10, 'y': 'y' || i} AS s FROM range(5000) r(i)"
    )
    text = con.explain("SELECT l FROM t WHERE id % 1000 = 7")
    assert "FetchExec: table=t, columns=[l]" in text
    assert con.execute("SELECT l FROM t WHERE id % 1000 = 7 ORDER BY id").fetchall()[4] == ([4007, 4008],)
    # Fields of structs are columns: nothing is left to DataFusion.
    for sql in [
        "SELECT s.x, count(*) FROM t WHERE s.y <> 'y7' GROUP BY s.x",
        "SELECT max(id) FROM t WHERE len(l) = 2 AND l IS NOT NULL",
    ]:
        text = con.explain(sql)
        assert "FetchExec" not in text, text
        assert "run by DataFusion" not in text, text
    con.execute("SET warpmill.device = 'sim'")
    con.execute("SET warpmill.device_fallback = 'error'")
    found = con.execute("SELECT s.x, count(*) FROM t WHERE s.y <> 'y7' GROUP BY s.x ORDER BY 1").fetchall()
    assert found == [(x, 499 if x == 7 else 500) for x in range(10)]
    assert con.execute("SELECT max(id) FROM t WHERE len(l) = 2 AND l IS NOT NULL").fetchone() == (4999,)


@pytest.mark.parametrize("setting", ["file_access = 'read'", "codec = 'lz4'", "codec = 'zstd'"])
def test_texts_of_structs_stay_while_they_are_used(tmp_path: Path, setting: str) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("SET warpmill.segment_rows = 1024")
        con.execute(f"SET warpmill.{setting}")
        con.execute(
            "CREATE TABLE t AS SELECT i AS id, "
            "CASE WHEN i % 5 > 0 THEN {'b': 'é' || chr((65 + i // 500)::INTEGER)} END AS s FROM range(2500) r(i)"
        )
        for _ in range(3):
            found = con.execute("SELECT s.b, count(*) FROM t GROUP BY 1 ORDER BY 1 NULLS LAST").fetchall()
            assert found == [(f"é{letter}", 400) for letter in "ABCDE"] + [(None, 500)]
            assert con.execute("SELECT min(s.b), max(s.b) FROM t").fetchone() == ("éA", "éE")
            ends = con.execute("SELECT s.b FROM t WHERE id % 500 = 1 ORDER BY s.b").fetchall()
            assert ends == [(f"é{letter}",) for letter in "ABCDE"]


def test_names_of_fields(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection) -> None:
    for each in (con, beside):
        each.execute('CREATE TABLE t (id INTEGER, s STRUCT(X2 INTEGER, "a b" VARCHAR, r STRUCT(Q DECIMAL(5, 2))))')
        each.execute("INSERT INTO t SELECT 1, {'X2': 5, 'a b': 'q', 'r': {'Q': 1.25}}")
        each.execute("INSERT INTO t VALUES (2, {'x2': 6, 'A B': 'r', 'r': {'q': 2.5}})")
        each.execute("INSERT INTO t SELECT 3, row(7, 's', row(3.75))")
    for sql in ["SELECT * FROM t ORDER BY id", "SELECT id, s.x2, s.R.q, s['X2'] FROM t WHERE s.X2 > 5 ORDER BY id"]:
        assert rows(con.execute(sql)) == rows(beside.execute(sql)), sql


def test_fields_of_rows_around_a_subquery(con: warpmill.Connection, beside: duckdb.DuckDBPyConnection) -> None:
    for each in (con, beside):
        each.execute(f"CREATE TABLE t ({TYPES})")
        each.execute(f"INSERT INTO t VALUES {ROWS}")
    for sql in [
        "SELECT id FROM t o WHERE EXISTS (SELECT 1 FROM t n WHERE n.s.x = o.s.x AND n.id <> o.id) ORDER BY id",
        "SELECT id, (SELECT max(n.id) FROM t n WHERE n.s.x = o.s.x) AS m FROM t o ORDER BY id",
        "SELECT id FROM t o WHERE o.s.x IN (SELECT n.id FROM t n WHERE n.id = o.s.x) ORDER BY id",
    ]:
        assert rows(con.execute(sql)) == rows(beside.execute(sql)), sql


def test_lists_of_maps_are_given_once(con: warpmill.Connection) -> None:
    found = con.execute("SELECT [MAP {'k': i, 'z': 1}, MAP {'k': i}] AS m FROM range(4) r(i) WHERE i > 1 ORDER BY i")
    assert found.fetchall() == [([{"k": 2, "z": 1}, {"k": 2}],), ([{"k": 3, "z": 1}, {"k": 3}],)]


def test_what_cannot_be_stored_is_refused(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (l INTEGER[], s STRUCT(x TINYINT))")
    with pytest.raises(warpmill.Error, match="l"):
        con.execute("INSERT INTO t VALUES (['a'], NULL)")
    with pytest.raises(warpmill.Error, match="128"):
        con.execute("INSERT INTO t VALUES (NULL, {'x': 128})")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
