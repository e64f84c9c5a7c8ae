"""Views, macros and types that are made and dropped in transactions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

#: Statements about names, each of which works after those before it, and queries that see their effects.
DEFINING = (
    "CREATE VIEW v AS SELECT i + 1 AS j FROM t",
    "CREATE OR REPLACE VIEW w AS SELECT 2 AS x, 3 AS y",
    "CREATE MACRO n(x) AS x * 10",
    "CREATE OR REPLACE MACRO m(x) AS x + 100",
    "CREATE TYPE color AS ENUM ('red', 'green')",
    "CREATE TABLE painted (c color)",
    "INSERT INTO painted VALUES ('green')",
    "CREATE VIEW all_of_it AS SELECT n(j) AS a, m(x) AS b FROM v, w",
    "DROP VIEW gone",
    "DROP MACRO gone_macro",
    "DROP TYPE gone_type",
    "COMMENT ON VIEW v IS 'made'",
)
SEEING = (
    "SELECT sum(j) FROM v",
    "FROM w",
    "SELECT n(1), m(1)",
    "SELECT 'red'::color < 'green'::color",
    "FROM painted",
    "SELECT sum(a), sum(b) FROM all_of_it",
    "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1",
    "SELECT function_name FROM duckdb_functions() WHERE NOT internal ORDER BY 1",
    "FROM gone",
    "SELECT gone_macro(1)",
    "SELECT 'a'::gone_type",
)


def seen(con: Any) -> list[Any]:
    """The rows of all of [`SEEING`], and which of them fail."""
    found: list[Any] = []
    for query in SEEING:
        try:
            found.append(con.execute(query).fetchall())
        except (warpmill.Error, duckdb.Error):
            found.append("fails")
    return found


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_views_macros_and_types_are_part_of_it(stored: bool, end: str, tmp_path: Path) -> None:
    where = tmp_path / "db" if stored else None
    ours, theirs = warpmill.connect(where), duckdb.connect()
    pair = (ours, theirs)
    for con in pair:
        con.execute("CREATE TABLE t AS SELECT i FROM range(3) r(i); CREATE VIEW w AS SELECT 1 AS x")
        con.execute("CREATE MACRO m(x) AS x + 1; CREATE VIEW gone AS SELECT 1; CREATE MACRO gone_macro(x) AS x")
        con.execute("CREATE TYPE gone_type AS ENUM ('a')")
    before = seen(ours)
    assert before == seen(theirs)
    assert before[8:] == [[(1,)], [(1,)], [("a",)]]
    for con in pair:
        con.execute("BEGIN")
        for statement in DEFINING:
            con.execute(statement)
    # A query that fails aborts a transaction: only those that work are asked.
    for query in SEEING[:8]:
        assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query
    if stored:
        with warpmill.connect(where) as other:
            assert seen(other) == before
    for con in pair:
        con.execute(end)
    after = seen(theirs)
    assert seen(ours) == after
    assert (after == before) == (end == "ROLLBACK")
    if stored:
        ours.close()
        ours = warpmill.connect(where)
        assert seen(ours) == after
        assert not any(name.startswith(".") and "commit" in name for name in os.listdir(where))
    ours.close()
    theirs.close()


def test_an_error_undoes_views(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("BEGIN; CREATE VIEW v AS SELECT 1 AS x; CREATE TEMP VIEW mine AS SELECT 2 AS x")
        with pytest.raises(warpmill.CatalogError):
            con.execute("CREATE VIEW v AS SELECT 3 AS x")
        con.execute("ROLLBACK; BEGIN; CREATE TEMP VIEW mine AS SELECT 2 AS x; COMMIT")
        assert con.execute("FROM mine").fetchall() == [(2,)]
        assert [table.name for table in con.tables()] == ["mine"]
        con.execute("BEGIN; DROP VIEW mine; COMMIT")
        assert con.tables() == []
        con.execute("CREATE VIEW twice AS SELECT 1 AS x; CREATE TEMP VIEW twice AS SELECT 2 AS x; BEGIN")
        with pytest.raises(warpmill.NotSupportedError, match="temporary and a stored one"):
            con.execute("DROP VIEW twice")
