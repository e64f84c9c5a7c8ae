"""``RETURNING`` of INSERT, UPDATE and DELETE, beside DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

TABLE = (
    "CREATE TABLE t (id INTEGER NOT NULL, s VARCHAR DEFAULT 'none', v DECIMAL(9, 2), d DATE)",
    "INSERT INTO t VALUES (1, 'a', 1.5, DATE '2024-01-01'), (2, NULL, 2.5, NULL), (3, 'c', NULL, DATE '2024-01-03')",
    "CREATE TABLE u (id INTEGER, w INTEGER)",
    "INSERT INTO u VALUES (1, 10), (1, 10), (3, 30)",
)

STATEMENTS = (
    "INSERT INTO t VALUES (4, 'd', 4.125, NULL) RETURNING *",
    "INSERT INTO t (id) VALUES (5), (6) RETURNING id, s, v",
    "INSERT INTO t (id, v) SELECT id + 10, v FROM t WHERE id < 3 RETURNING id * 2 AS twice, v + 1 AS more, upper(s)",
    "INSERT INTO t SELECT * FROM t WHERE false RETURNING *",
    "INSERT INTO t BY NAME SELECT 7 AS id, DATE '2024-07-07' AS d RETURNING d, id",
    "INSERT INTO t (id, s) VALUES (8, 'returning (x)') RETURNING s || '!' AS said;",
    "INSERT INTO t VALUES (9, 'i', 1, NULL) RETURNING t.*, t.id AS again",
    "UPDATE t SET v = v * 2 RETURNING *",
    "UPDATE t SET v = coalesce(v, 0) + 1, s = 'new' WHERE id >= 2 RETURNING id, v, s",
    "UPDATE t SET id = id + 1 RETURNING id - 1 AS old, id",
    "UPDATE t AS x SET s = DEFAULT WHERE x.id = 1 RETURNING x.s, x.d",
    "UPDATE t SET v = u.w FROM u WHERE u.id = t.id RETURNING t.id, v",
    "UPDATE t SET s = 'no' WHERE false RETURNING *",
    "DELETE FROM t WHERE id = 2 RETURNING *",
    "DELETE FROM t RETURNING id, CASE WHEN v IS NULL THEN 'none' ELSE 'some' END AS kind",
    "DELETE FROM t USING u WHERE t.id = u.id RETURNING t.id, d",
    "DELETE FROM t AS x WHERE x.id > 1 RETURNING x.id",
    "DELETE FROM t WHERE false RETURNING s",
    "DELETE FROM t WHERE id IN (SELECT id FROM u) RETURNING 1 AS one",
    "MERGE INTO t USING (SELECT 3 AS id) AS n ON t.id = n.id WHEN MATCHED THEN DELETE RETURNING id, s, d",
    "MERGE INTO t USING (SELECT unnest([2, 3, 4]) AS id) AS n ON t.id = n.id WHEN MATCHED AND n.id = 2 THEN UPDATE "
    "SET v = 9 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (n.id, 'new') RETURNING id, s, v",
)

#: Statements over a table with a key.
UPSERTS = (
    "INSERT INTO k VALUES (1, 5), (9, 6) ON CONFLICT (id) DO NOTHING RETURNING *",
    "INSERT INTO k VALUES (1, 5), (9, 6) ON CONFLICT (id) DO UPDATE SET n = excluded.n + k.n RETURNING id, n * 2 AS m",
    "INSERT INTO k (id) VALUES (9) ON CONFLICT (id) DO UPDATE SET n = 1 RETURNING k.*",
    "INSERT INTO k VALUES (2, 5) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE k.n > 100 RETURNING id",
)

REFUSED = (
    ("INSERT INTO t VALUES (4, 'd', 1, NULL) RETURNING nothing", "nothing"),
    ("UPDATE t SET v = 1 RETURNING count(*)", "count"),
    ("DELETE FROM t RETURNING (SELECT max(id) FROM t)", "RETURNING"),
    ("DELETE FROM t RETURNING sum(id) OVER ()", "RETURNING"),
    ("UPDATE t SET v = u.w FROM u WHERE u.id = t.id RETURNING u.w", "u.w"),
    ("INSERT INTO t VALUES (NULL, 'd', 1, NULL) RETURNING *", "id"),
    ("INSERT INTO t VALUES (4, 'd', 1, NULL) RETURNING CAST(s AS INTEGER)", "d"),
    ("UPDATE t SET id = NULL RETURNING id", "id"),
    ("DELETE FROM t RETURNING CAST(s AS INTEGER)", "a"),
    ("TRUNCATE t RETURNING *", "RETURNING"),
    ("INSERT OR REPLACE INTO t VALUES (1, 'a', 1, NULL) RETURNING *", "no UNIQUE/PRIMARY KEY"),
    ("INSERT INTO t VALUES (1, 'a', 1, NULL) ON CONFLICT DO NOTHING RETURNING *", "ON CONFLICT"),
)


def _rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.fixture(params=["memory", "stored"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> warpmill.Connection:
    made = warpmill.connect(tmp_path / "db") if request.param == "stored" else warpmill.connect()
    for sql in TABLE:
        made.execute(sql)
    return made


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_same_rows(con: warpmill.Connection, sql: str) -> None:
    with duckdb.connect() as theirs, con:
        for setup in TABLE:
            theirs.execute(setup)
        expected, found = theirs.sql(sql), con.sql(sql)
        assert found.columns == expected.columns
        assert _rows(found.fetchall()) == _rows(expected.fetchall())
        answers = [_rows(other.sql("FROM t").fetchall()) for other in (con, theirs)]
        assert answers[0] == answers[1]


@pytest.mark.parametrize("sql", UPSERTS)
def test_the_same_rows_of_upserts(con: warpmill.Connection, sql: str) -> None:
    with duckdb.connect() as theirs, con:
        for side in (theirs, con):
            side.execute("CREATE TABLE k (id INTEGER PRIMARY KEY, n INTEGER)")
            side.execute("INSERT INTO k VALUES (1, 10), (2, 20)")
        expected, found = theirs.sql(sql), con.sql(sql)
        assert found.columns == expected.columns
        assert _rows(found.fetchall()) == _rows(expected.fetchall())
        assert _rows(con.sql("FROM k").fetchall()) == _rows(theirs.sql("FROM k").fetchall())


@pytest.mark.parametrize(("sql", "culprit"), REFUSED)
def test_what_fails_changes_nothing(con: warpmill.Connection, sql: str, culprit: str) -> None:
    with con:
        before = _rows(con.sql("FROM t").fetchall())
        with pytest.raises(warpmill.Error, match=culprit):
            con.execute(sql)
        assert _rows(con.sql("FROM t").fetchall()) == before


def test_parameters(con: warpmill.Connection) -> None:
    with con:
        rows = con.execute("INSERT INTO t (id, s) VALUES (?, ?) RETURNING id + ?, s", [20, "x", 5]).fetchall()
        assert rows == [(25, "x")]
        rows = con.execute("UPDATE t SET s = $s WHERE id = $id RETURNING s, $id", {"s": "y", "id": 20}).fetchall()
        assert rows == [("y", 20)]
        assert con.execute("DELETE FROM t WHERE id = ? RETURNING s || ?", [20, "!"]).fetchall() == [("y!",)]


def test_explain(con: warpmill.Connection) -> None:
    with con:
        con.execute("EXPLAIN DELETE FROM t WHERE id = 1 RETURNING *")
        assert con.sql("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_many_rows(con: warpmill.Connection) -> None:
    with con:
        sql = "INSERT INTO u SELECT range, range * 2 FROM range(100000) RETURNING w"
        assert sum(row[0] for row in con.execute(sql).fetchall()) == sum(range(0, 200000, 2))
        rows = con.execute("DELETE FROM u WHERE w % 2 = 0 AND id > 3 RETURNING id").fetchall()
        assert len(rows) == 100_000 - 4
