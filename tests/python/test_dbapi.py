"""Python's database API on connections: execute, fetch, executemany, cursors."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as con:
        yield con


def test_the_rows_of_the_last_statement(con: warpmill.Connection) -> None:
    with pytest.raises(warpmill.Error, match="execute"):
        con.fetchall()
    assert not con.description
    con.execute("SELECT i, i::VARCHAR AS s FROM range(5) r(i)")
    described = con.description or []
    assert [column[0] for column in described] == ["i", "s"]
    assert all(len(column) == 7 for column in described)
    assert con.rowcount == -1
    assert con.fetchone() == (0, "0")
    assert con.fetchmany(2) == [(1, "1"), (2, "2")]
    assert list(con) == [(3, "3"), (4, "4")]
    assert con.fetchone() is None
    assert con.execute("SELECT 1 AS one").df().to_dict("list") == {"one": [1]}
    assert con.arrow().column_names == ["one"]
    assert con.pl().rows() == [(1,)]
    assert con.fetchnumpy()["one"].tolist() == [1]


def test_a_statement_that_fails_leaves_no_rows(con: warpmill.Connection) -> None:
    con.execute("SELECT 1")
    with pytest.raises(warpmill.CatalogError):
        con.execute("SELECT * FROM nothing")
    with pytest.raises(warpmill.Error, match="execute"):
        con.fetchall()


def test_cursors_share_the_session(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    first, second = con.cursor(), con.cursor()
    first.execute("INSERT INTO t VALUES (1), (2)")
    first.execute("SELECT i FROM t ORDER BY i")
    second.execute("SELECT count(*) FROM t")
    assert (first.fetchone(), second.fetchone(), first.fetchone()) == ((1,), (2,), (2,))
    first.close()
    assert second.execute("SELECT sum(i) FROM t").fetchall() == [(3,)]
    con.commit()
    with pytest.raises(warpmill.ExecutionError, match="roll back"):
        con.rollback()


def test_executemany_inserts_all_rows(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (i BIGINT, x DOUBLE, s VARCHAR, d DATE, n DECIMAL(9, 2))")
    rows = [
        (2**60 + 1, 0.5, "a", dt.date(2026, 1, 1), Decimal("1.25")),
        (0.0, None, None, None, None),
        (None, 1, "it's; ?", "2026-01-02", 3),
        *[(i, i / 2, str(i), None, i) for i in range(2500)],
    ]
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", iter(rows))
    found = con.execute("SELECT * FROM t").fetchall()
    assert len(found) == len(rows)
    assert found[0] == rows[0]
    assert found[1] == (0, None, None, None, None)
    assert found[2] == (None, 1.0, "it's; ?", dt.date(2026, 1, 2), Decimal("3.00"))
    assert found[-1] == (2499, 1249.5, "2499", None, Decimal("2499.00"))


def test_executemany_writes_few_versions(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db") as con:
        con.execute("CREATE TABLE t (i INTEGER)")
        con.executemany("insert into t(i) values (?);", [(i,) for i in range(1000)])
        assert con.execute("SELECT count(*), sum(i) FROM t").fetchone() == (1000, 499500)
        assert len(list((tmp_path / "db").rglob("*"))) < 40


def test_executemany_of_other_statements(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT i, 0 AS n FROM range(4) r(i)")
    con.executemany("UPDATE t SET n = ? WHERE i = ?", [(10, 1), (20, 2)])
    assert con.execute("SELECT n FROM t ORDER BY i").fetchall() == [(0,), (10,), (20,), (0,)]
    assert con.cursor().executemany("INSERT INTO t VALUES (?, ?)", []) is None
    with pytest.raises(warpmill.Error):
        con.executemany("INSERT INTO t VALUES (?, ?)", [(1, 2), (3,)])


def test_several_statements_in_one_text(con: warpmill.Connection) -> None:
    found = con.execute(
        "CREATE TABLE t (s VARCHAR); -- ; none\n INSERT INTO t VALUES ('a;b'), ('c'); SELECT s FROM t WHERE s <> ?;",
        ["c"],
    )
    assert found.fetchall() == [("a;b",)]
    with pytest.raises(warpmill.CatalogError):
        con.execute("INSERT INTO t VALUES ('d'); SELECT * FROM nothing; INSERT INTO t VALUES ('e')")
    assert con.execute("SELECT count(*) FROM t;").fetchall() == [(3,)]


def test_rows_of_a_frame_are_appended(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER, s VARCHAR)")
    con.append("t", {"a": [1, 2], "b": ["x", None]})
    con.append("t", {"s": ["y"], "i": [3]}, by_name=True)
    assert con.query("SELECT * FROM t ORDER BY i").fetchall() == [(1, "x"), (2, None), (3, "y")]
    with pytest.raises(warpmill.Error):
        con.append("t", {"a": [1]})
    assert [table.name for table in con.tables()] == ["t"]


def test_duckdbs_names_of_results(con: warpmill.Connection) -> None:
    rows = con.sql("SELECT 1 AS one")
    assert [len(frame) for frame in (rows.to_df(), rows.fetchdf(), rows.fetch_df())] == [1, 1, 1]
    assert rows.to_arrow_table() == rows.fetch_arrow_table() == rows.arrow()
    con.execute("SELECT 2 AS two")
    assert con.fetch_arrow_table().to_pydict() == {"two": [2]}
    assert con.fetchdf()["two"].tolist() == [2]


def test_the_connection_of_the_module(tmp_path: Path) -> None:
    frame = pyarrow.table({"x": [1, 2, 3]})
    assert warpmill.sql("SELECT sum(x) FROM frame").fetchall() == [(sum(frame["x"].to_pylist()),)]
    warpmill.execute(f"COPY (SELECT 1 AS i) TO '{tmp_path}/one.parquet'")
    assert warpmill.read_parquet(tmp_path / "one.parquet").fetchall() == [(1,)]
    assert warpmill.default_connection() is warpmill.default_connection()


def test_names_of_the_module() -> None:
    assert (warpmill.apilevel, warpmill.paramstyle, warpmill.threadsafety) == ("2.0", "qmark", 2)
