"""Common table expressions whose rows differ from run to run: all readers of one see the same rows."""

from __future__ import annotations

import pytest

import warpmill


@pytest.fixture
def con() -> warpmill.Connection:
    con = warpmill.connect()
    con.execute("CREATE TABLE t AS SELECT range AS x, range % 7 AS k FROM range(1000)")
    con.execute("CREATE VIEW rv AS SELECT x, random() AS r FROM t")
    return con


#: Statements with one number as their answer, whatever random values are drawn.
STATEMENTS = {
    "names": ("WITH t AS (SELECT uuid() AS u FROM range(30)) SELECT count(*) FROM t a JOIN t b ON a.u = b.u", 30),
    "materialized": (
        "WITH t AS MATERIALIZED (SELECT random() AS r FROM range(30)) SELECT count(*) FROM t a JOIN t b USING (r)",
        30,
    ),
    "samples": ("WITH s AS (SELECT x FROM t USING SAMPLE 100 ROWS) SELECT count(*) FROM s a JOIN s b USING (x)", 100),
    "both parts": (
        "WITH train AS (SELECT x FROM t USING SAMPLE 70%), "
        "test AS (SELECT x FROM t WHERE x NOT IN (SELECT x FROM train)) "
        "SELECT (SELECT count(*) FROM train) + (SELECT count(*) FROM test)",
        1000,
    ),
    "read by others": (
        "WITH a AS (SELECT x, random() AS r FROM t), b AS (SELECT max(r) AS m FROM a) "
        "SELECT count(*) FROM a, b WHERE r = m",
        1,
    ),
    "filters above": (
        "WITH a AS (SELECT x, random() AS r FROM t) SELECT (SELECT count(*) FROM a WHERE r < 0.5) + "
        "(SELECT count(*) FROM a WHERE r >= 0.5)",
        1000,
    ),
    "names of columns": (
        "WITH a(i, r) AS (SELECT x, random() FROM t) SELECT count(*) FROM a p JOIN a q ON p.i = q.i AND p.r = q.r",
        1000,
    ),
    "within": (
        "SELECT n FROM (WITH a AS (SELECT uuid() AS u FROM t) SELECT count(*) AS n FROM a p, a q WHERE p.u = q.u) AS d",
        1000,
    ),
    "groups": (
        "WITH a AS (SELECT k, random() AS r FROM t), g AS (SELECT k, max(r) AS r FROM a GROUP BY k) "
        "SELECT count(*) FROM a JOIN g USING (k, r)",
        7,
    ),
    "beside recursive ones": (
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3), "
        "a AS (SELECT x, random() AS r FROM t, n) SELECT count(*) FROM a p JOIN a q ON p.x = q.x AND p.r = q.r",
        3000,
    ),
    "of views": ("WITH a AS (SELECT * FROM rv) SELECT count(*) FROM a p JOIN a q ON p.x = q.x AND p.r = q.r", 1000),
    "unions": (
        "WITH a AS (SELECT uuid() AS u FROM t) SELECT count(*) FROM (SELECT u FROM a UNION SELECT u FROM a)",
        1000,
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_all_read_the_same_rows(con: warpmill.Connection, name: str) -> None:
    text, expected = STATEMENTS[name]
    for _ in range(3):
        assert con.execute(text).fetchall() == [(expected,)]


def test_runs_differ(con: warpmill.Connection) -> None:
    text = "WITH a AS (SELECT random() AS r FROM range(3)) SELECT sum(a.r) FROM a JOIN a b USING (r)"
    assert len({con.execute(text).fetchall()[0][0] for _ in range(5)}) == 5
    prepared = "PREPARE p AS " + text
    con.execute(prepared)
    assert len({con.execute("EXECUTE p").fetchall()[0][0] for _ in range(3)}) == 3


def test_subqueries_are_drawn_each_for_itself(con: warpmill.Connection) -> None:
    text = "SELECT count(*) FROM (SELECT uuid() AS u FROM t) a JOIN (SELECT uuid() AS u FROM t) b ON a.u = b.u"
    assert con.execute(text).fetchall() == [(0,)]


def test_readers_of_views_draw_each_for_itself(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE VIEW pairs AS WITH a AS (SELECT x, random() AS r FROM t) "
        "SELECT p.r AS p, q.r AS q FROM a p JOIN a q USING (x)"
    )
    assert con.execute("SELECT count(*) FROM pairs WHERE p = q").fetchall() == [(1000,)]
    assert con.execute("SELECT count(*) FROM pairs m JOIN pairs n ON m.p = n.p").fetchall() == [(0,)]


def test_what_is_written(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE TABLE w AS WITH a AS (SELECT x, random() AS r FROM t) "
        "SELECT p.r AS p, q.r AS q FROM a p JOIN a q USING (x)"
    )
    assert con.execute("SELECT count(*), count(*) FILTER (WHERE p = q) FROM w").fetchall() == [(1000, 1000)]


def test_the_plan_says_so(con: warpmill.Connection) -> None:
    text = "WITH a AS (SELECT random() AS r FROM t) SELECT count(*) FROM a JOIN a b USING (r)"
    assert "OnceExec" in con.explain(text)
    assert "OnceExec" not in con.explain("WITH a AS (SELECT random() AS r FROM t) SELECT count(*) FROM a")
    assert "OnceExec" not in con.explain("WITH a AS (SELECT x FROM t) SELECT count(*) FROM a JOIN a b USING (x)")
