"""``INSERT ... ON CONFLICT (columns)`` beside DuckDB, whose tables have the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "INSERT INTO t VALUES (1, 'a', 1.5, 10), (2, 'b', 2.5, 20), (3, NULL, NULL, 30)"
TABLE = "CREATE TABLE t (id INTEGER{key}, s VARCHAR DEFAULT 'none', v DECIMAL(9, 2), n BIGINT)"

STATEMENTS = (
    "INSERT INTO t VALUES (2, 'x', 9, 9), (4, 'd', 4, 40) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t VALUES (4, 'd', 4, 40), (4, 'e', 5, 50) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t (id, n) VALUES (1, 100), (7, 700) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t VALUES (2, 'x', 9, 9), (4, 'd', 4, 4) ON CONFLICT (id) DO UPDATE SET s = excluded.s, n = excluded.n",
    "INSERT INTO t VALUES (1, 'x', 9, 9) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n, v = t.v * 2",
    "INSERT INTO t (s, id) VALUES ('y', 3), ('z', 9) ON CONFLICT (id) DO UPDATE SET s = excluded.s WHERE t.s IS NULL",
    "INSERT INTO t VALUES (1, 'x', 9, 9), (3, 'q', 1, 1) ON CONFLICT (id) DO UPDATE SET s = excluded.s WHERE n > 20",
    "INSERT INTO t SELECT id + 1, s, v, n FROM t ON CONFLICT (id) DO UPDATE SET s = excluded.s || '!'",
    "INSERT INTO t SELECT * FROM t WHERE false ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t VALUES ('2', 'text', '7.25', '8') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
)


@pytest.mark.parametrize("folder", [False, True], ids=["memory", "folder"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_duckdb(statement: str, folder: bool, tmp_path: Path) -> None:
    with duckdb.connect() as theirs, warpmill.connect(tmp_path / "db" if folder else None) as ours:
        theirs.execute(TABLE.format(key=" PRIMARY KEY"))
        ours.execute(TABLE.format(key=""))
        counts = []
        for con in (theirs, ours):
            con.execute(ROWS)
            counts.append(con.execute(statement).fetchall())
        assert counts[0] == counts[1]
        query = "SELECT * FROM t ORDER BY ALL"
        assert ours.execute(query).fetchall() == theirs.execute(query).fetchall()


def test_rows_without_a_key_are_all_inserted() -> None:
    with warpmill.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER, n INTEGER)")
        con.execute("INSERT INTO t VALUES (1, NULL, 1), (1, 2, 2)")
        con.execute(
            "INSERT INTO t VALUES (1, NULL, 3), (1, NULL, 4), (1, 2, 5), (2, 2, 6)"
            " ON CONFLICT (a, b) DO UPDATE SET n = excluded.n"
        )
        rows = con.execute("SELECT a, b, n FROM t ORDER BY n").fetchall()
        assert rows == [(1, None, 1), (1, None, 3), (1, None, 4), (1, 2, 5), (2, 2, 6)]


def test_parameters_and_defaults() -> None:
    with warpmill.connect() as con:
        con.execute(TABLE.format(key=""))
        upsert = "INSERT INTO t (id, n) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
        con.executemany(upsert, [(1, 10), (2, 20), (1, 11)])
        assert con.execute("SELECT id, s, v, n FROM t ORDER BY id").fetchall() == [
            (1, "none", None, 11),
            (2, "none", None, 20),
        ]


@pytest.mark.parametrize(
    ("statement", "culprit"),
    [
        ("INSERT INTO t VALUES (5, 'a', 1, 1), (5, 'b', 2, 2) ON CONFLICT (id) DO UPDATE SET n = 1", "twice"),
        ("INSERT INTO t VALUES (1, 'a', 1, 1), (1, 'b', 2, 2) ON CONFLICT (id) DO UPDATE SET n = 1", "twice"),
        ("INSERT INTO t VALUES (1, 'a', 1, 1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
        ("INSERT INTO t VALUES (1, 'a', 1, 1) ON CONFLICT (nothing) DO NOTHING", "nothing"),
        ("INSERT INTO t (n) VALUES (1) ON CONFLICT (id) DO NOTHING", "id"),
        ("INSERT INTO t VALUES (1, 'a', 1, 1) ON CONFLICT (id) DO UPDATE SET nothing = 1", "nothing"),
        ("INSERT OR REPLACE INTO t VALUES (1, 'a', 1, 1)", "ON CONFLICT"),
        ("INSERT INTO missing VALUES (1) ON CONFLICT (id) DO NOTHING", "missing"),
    ],
)
def test_refused(statement: str, culprit: str) -> None:
    with warpmill.connect() as con:
        con.execute(TABLE.format(key=""))
        con.execute(ROWS)
        before = con.execute("SELECT * FROM t ORDER BY id").fetchall()
        with pytest.raises(warpmill.Error, match=culprit):
            con.execute(statement)
        assert con.execute("SELECT * FROM t ORDER BY id").fetchall() == before
