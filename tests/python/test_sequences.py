"""Sequences: CREATE SEQUENCE, nextval, currval, beside DuckDB and in folders that several processes open."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = (
    ("CREATE SEQUENCE s", "SELECT nextval('s')", "SELECT nextval('s'), currval('s')", "SELECT currval('s')"),
    ("CREATE SEQUENCE s START 10", "SELECT nextval('s') AS n FROM range(3) r(i) ORDER BY n"),
    ("CREATE SEQUENCE s START WITH 5 INCREMENT BY -2", "SELECT nextval('s')"),
    ("CREATE SEQUENCE s INCREMENT -1", "SELECT nextval('s')", "SELECT nextval('s')"),
    ("CREATE SEQUENCE s MINVALUE 3 MAXVALUE 5 CYCLE", *["SELECT nextval('s')"] * 5),
    ("CREATE SEQUENCE s MAXVALUE 2", *["SELECT nextval('s')"] * 3),
    ("CREATE SEQUENCE s MINVALUE -5 MAXVALUE 5 START 5 INCREMENT -5", *["SELECT nextval('s')"] * 4),
    (
        "CREATE SEQUENCE ids START 100",
        "CREATE TABLE t (id INTEGER DEFAULT nextval('ids'), s VARCHAR)",
        "INSERT INTO t (s) VALUES ('a'), ('b')",
        "INSERT INTO t VALUES (1, 'c')",
        "INSERT INTO t (s) SELECT 'd' || i FROM range(3) r(i)",
        "SELECT * FROM t ORDER BY id",
        "SELECT count(DISTINCT id) FROM t",
    ),
    ("CREATE SEQUENCE s", "CREATE SEQUENCE s", "CREATE SEQUENCE IF NOT EXISTS s", "SELECT nextval('s')"),
    ("CREATE SEQUENCE s", "SELECT nextval('s')", "CREATE OR REPLACE SEQUENCE s START 7", "SELECT nextval('S')"),
    ("CREATE SEQUENCE s", "DROP SEQUENCE s", "SELECT nextval('s')", "DROP SEQUENCE s", "DROP SEQUENCE IF EXISTS s"),
    ("CREATE SCHEMA a", "CREATE SEQUENCE a.s START 3", "SELECT nextval('a.s')", "SELECT nextval('s')"),
    ("CREATE SEQUENCE s", "SELECT currval('s')"),
    ("CREATE SEQUENCE s INCREMENT 0",),
    ("CREATE SEQUENCE s MINVALUE 5 MAXVALUE 5",),
    ("CREATE SEQUENCE s START 0",),
    ("CREATE SEQUENCE s", "SELECT nextval(NULL)"),
)


def _outcomes(con: duckdb.DuckDBPyConnection | warpmill.Connection, script: tuple[str, ...]) -> list[object]:
    outcomes: list[object] = []
    for statement in script:
        try:
            rows = con.execute(statement).fetchall()
        except (duckdb.Error, warpmill.Error):
            outcomes.append("error")
            continue
        outcomes.append(rows if statement.startswith("SELECT") else "done")
    return outcomes


@pytest.mark.parametrize("folder", [False, True], ids=["memory", "folder"])
@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_as_duckdb(script: tuple[str, ...], folder: bool, tmp_path: Path) -> None:
    with duckdb.connect() as theirs, warpmill.connect(tmp_path / "db" if folder else None) as ours:
        assert _outcomes(ours, script) == _outcomes(theirs, script)


def test_numbers_are_given_once_over_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with warpmill.connect(path) as con:
        con.execute("CREATE SEQUENCE s")
    take = (
        "import sys, warpmill\n"
        "with warpmill.connect(sys.argv[1]) as con:\n"
        "    for _ in range(20):\n"
        "        print(*[n for (n,) in con.execute(\"SELECT nextval('s') FROM range(5) r(i)\").fetchall()])\n"
    )
    command = [sys.executable, "-c", take, path]
    takers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    given = [int(number) for taker in takers for number in taker.communicate()[0].split()]
    assert all(taker.returncode == 0 for taker in takers)
    assert sorted(given) == list(range(1, 301))
    with warpmill.connect(path) as con:
        assert con.execute("SELECT nextval('s')").fetchone() == (301,)
        assert con.tables() == []


def test_schemas_with_sequences_are_dropped(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE SCHEMA a; CREATE SEQUENCE a.s; CREATE TEMP SEQUENCE hidden")
        assert con.execute("SELECT nextval('a.s'), nextval('hidden')").fetchall() == [(1, 1)]
        con.execute("DROP SCHEMA a CASCADE")
        with pytest.raises(warpmill.CatalogError):
            con.execute("SELECT nextval('a.s')")
    with warpmill.connect(tmp_path / "db") as con, pytest.raises(warpmill.CatalogError, match="hidden"):
        con.execute("SELECT nextval('hidden')")
