"""Shapes of data and of queries at which partitioned execution goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import warpmill
from distributed.support import Workers, in_order, is_distributed

if TYPE_CHECKING:
    from pathlib import Path

#: Queries over `t` (many segments), `u` (many), `one` (one row), `none` (no rows) and `small` (one segment).
QUERIES = [
    "SELECT count(*), sum(v), min(v), max(v), avg(v) FROM t",
    "SELECT k, count(*), count(v), sum(v), avg(v), min(s), max(s) FROM t GROUP BY k",
    "SELECT k, s, count(*) FROM t GROUP BY k, s",
    "SELECT s, count(DISTINCT k), sum(DISTINCT v) FROM t GROUP BY s",
    "SELECT count(DISTINCT k), count(DISTINCT s) FROM t",
    "SELECT DISTINCT k FROM t",
    "SELECT f, count(*) FROM t GROUP BY f",
    "SELECT stddev(v), var_pop(v), bool_and(v > 0), bool_or(v > 90) FROM t",
    "SELECT k, stddev(v) AS d FROM t GROUP BY k HAVING count(*) > 2",
    "SELECT sum(v) FILTER (WHERE k = 1), count(*) FILTER (WHERE v IS NULL) FROM t",
    "SELECT count(*) FROM t WHERE v > 1000000",
    "SELECT sum(v), count(v), avg(v) FROM t WHERE v > 1000000",
    "SELECT k, sum(v) FROM t WHERE v > 1000000 GROUP BY k",
    "SELECT * FROM t WHERE v = 7",
    "SELECT id FROM t ORDER BY id LIMIT 5",
    "SELECT id, s FROM t ORDER BY s NULLS FIRST, id DESC LIMIT 7 OFFSET 3",
    "SELECT id FROM t ORDER BY id OFFSET 49990",
    "SELECT count(*) FROM (SELECT * FROM t LIMIT 1234)",
    "SELECT t.k, count(*), sum(u.w) FROM t JOIN u ON t.k = u.k GROUP BY t.k",
    "SELECT count(*), sum(t.v), sum(u.w) FROM t JOIN u ON t.id = u.id",
    "SELECT count(*), count(u.id), sum(t.v) FROM t LEFT JOIN u ON t.id = u.id AND u.w > 50",
    "SELECT count(*), count(t.id), sum(u.w) FROM t RIGHT JOIN u ON t.id = u.id AND t.v > 50",
    "SELECT count(*), count(t.id), count(u.id) FROM t FULL JOIN u ON t.id = u.id",
    "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.w > t.v)",
    "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w = t.v)",
    "SELECT count(*) FROM t WHERE t.k IN (SELECT k FROM u)",
    "SELECT count(*) FROM t WHERE t.k NOT IN (SELECT k FROM u)",
    "SELECT count(*) FROM t WHERE t.k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
    "SELECT count(*) FROM t WHERE t.v > (SELECT avg(w) FROM u)",
    "SELECT count(*) FROM t JOIN small ON t.k = small.k",
    "SELECT small.n, count(t.id) FROM small LEFT JOIN t ON t.k = small.k GROUP BY small.n",
    "SELECT count(*), sum(small.k) FROM t, small WHERE t.v < small.k",
    "SELECT count(*) FROM small LEFT JOIN t ON t.v < small.k AND t.id < 100",
    "SELECT count(*), sum(one.x) FROM t, one",
    "SELECT count(*) FROM t JOIN none ON t.k = none.k",
    "SELECT count(*), count(none.k) FROM t LEFT JOIN none ON t.k = none.k",
    "SELECT count(*), sum(k) FROM none",
    "SELECT t.id, u.id FROM t JOIN u ON t.f = u.f AND t.id = u.id WHERE t.id % 1000 = 0",
    "SELECT count(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM u)",
    "SELECT k FROM t UNION SELECT k FROM small",
    "SELECT k FROM t INTERSECT SELECT k FROM u",
    "SELECT k FROM t EXCEPT SELECT k FROM small",
    "SELECT count(*), sum(r) FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM t)",
    "SELECT id, sum(v) OVER (ORDER BY id) AS r FROM t WHERE id < 50",
    "SELECT k, s, grouping(k), count(*) FROM t GROUP BY ROLLUP (k, s)",
    "SELECT k, sum(d), avg(d), min(day) FROM t GROUP BY k",
    "WITH a AS (SELECT k, sum(v) AS x FROM t GROUP BY k) SELECT a.k, b.x FROM a JOIN a b ON a.x = b.x AND a.k = b.k",
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s LIMIT 3",
    "SELECT upper(s), length(s), count(*) FROM t GROUP BY upper(s), length(s)",
    "SELECT CAST(v AS VARCHAR) AS x, count(*) FROM t GROUP BY x",
    "SELECT date_part('year', day) AS y, count(*) FROM t GROUP BY y",
    # Functions that sessions have for some types under DataFusion's names.
    "SELECT max(f), min(f), min(f::FLOAT), avg(day) FROM t",
    """SELECT k, max(g)::VARCHAR, min(g) FROM (SELECT k, CASE WHEN id % 17 = 0 THEN 'nan'::DOUBLE
        WHEN id % 19 = 0 THEN '-inf'::DOUBLE ELSE f END AS g FROM t) GROUP BY k""",
    "SELECT k, sum(v::HUGEINT * 1000000000000000000), avg(day) FROM t GROUP BY k",
    "SELECT sum(n), sum(n * n) FROM (SELECT k, sum(v) AS n FROM t GROUP BY k)",
    "SELECT s, max(f) FROM t GROUP BY s UNION ALL SELECT s, min(f) FROM t GROUP BY s",
    """SELECT k, max(g)::VARCHAR, count(*) FROM (
            SELECT k, CASE WHEN id % 17 = 0 THEN 'nan'::DOUBLE ELSE f END AS g FROM t
            UNION ALL SELECT k, CASE WHEN w % 7 = 0 THEN '-inf'::DOUBLE ELSE f END FROM u) GROUP BY k""",
    """SELECT isnan(n), count(*) FROM (SELECT k, id, max(f) AS n FROM t GROUP BY k, id UNION ALL
            SELECT k, id, min(CASE WHEN w % 7 = 0 THEN 'nan'::DOUBLE ELSE f END) FROM u GROUP BY k, id)
        GROUP BY isnan(n)""",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges") / "db"
    with warpmill.connect(folder, device="cpu") as con:
        con.execute("SET warpmill.segment_rows = 4096")
        # Nine of ten rows have one key; some keys and values are NULL.
        con.execute("""
            CREATE TABLE t AS SELECT i AS id,
                CASE WHEN i % 10 > 0 THEN 1 WHEN i % 30 = 0 THEN NULL ELSE i % 97 END AS k,
                CASE WHEN i % 11 = 0 THEN NULL ELSE i % 101 END AS v,
                CASE WHEN i % 13 = 0 THEN NULL ELSE 's' || (i % 7) END AS s,
                CASE WHEN i % 3 = 0 THEN -0.0::DOUBLE WHEN i % 3 = 1 THEN 0.0::DOUBLE ELSE (i % 5)::DOUBLE END AS f,
                (i % 1000)::DECIMAL(9, 2) / 4 AS d,
                DATE '1995-01-01' + (i % 3000)::INTEGER AS day
            FROM range(50000) r(i)""")
        con.execute("""
            CREATE TABLE u AS SELECT i * 3 AS id, CASE WHEN i % 9 = 0 THEN NULL ELSE i % 89 END AS k,
                i % 103 AS w, (i % 5)::DOUBLE AS f FROM range(20000) r(i)""")
        con.execute("CREATE TABLE small AS SELECT i AS k, 'n' || i AS n FROM range(20) r(i)")
        con.execute("CREATE TABLE one AS SELECT 5 AS x")
        con.execute("CREATE TABLE none (k BIGINT, n VARCHAR)")
    return folder


@pytest.fixture(scope="module")
def expected(database: Path) -> dict[str, list[tuple[object, ...]]]:
    with warpmill.connect(database, device="cpu") as con:
        return {sql: in_order(con.sql(sql).fetchall()) for sql in QUERIES}


@pytest.mark.parametrize("count", ["two", "four"])
def test_answers_are_those_of_one_process(
    database: Path,
    expected: dict[str, list[tuple[object, ...]]],
    count: str,
    request: pytest.FixtureRequest,
) -> None:
    workers: Workers = request.getfixturevalue(count)
    wrong, distributed = [], 0
    with workers.connect(database) as con:
        for sql in QUERIES:
            distributed += is_distributed(con, sql)
            for kept in (False, True):
                try:
                    found = in_order(con.sql(sql).fetchall())
                except warpmill.Error as error:
                    wrong.append((sql, kept, str(error)))
                    continue
                if found != expected[sql]:
                    wrong.append((sql, kept, f"{found[:3]} for {expected[sql][:3]}"))
    assert wrong == []
    assert distributed >= len(QUERIES) - 6


def test_windows_have_the_functions_of_sessions(database: Path, two: Workers) -> None:
    """Workers do not have the functions that sessions put in the place of DataFusion's where frames slide."""
    calls = ["max(f)", "string_agg(s, ',')", "bit_and(v)", "sum(DISTINCT v)", "sum(v)", "any_value(s)", "median(v)"]
    with two.connect(database) as con, warpmill.connect(database, device="cpu") as alone:
        for call in calls:
            frame = "PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
            sql = f"SELECT id, {call} OVER ({frame}) FROM t WHERE id < 9000"
            assert in_order(con.sql(sql).fetchall()) == in_order(alone.sql(sql).fetchall()), call


def test_orders_stay(database: Path, two: Workers) -> None:
    sql = "SELECT id, s, v FROM t WHERE v > 20 ORDER BY s DESC NULLS LAST, v, id"
    with two.connect(database) as con, warpmill.connect(database, device="cpu") as alone:
        assert is_distributed(con, sql)
        assert con.sql(sql).fetchall() == alone.sql(sql).fetchall()


def test_errors_keep_their_types(database: Path, two: Workers) -> None:
    with two.connect(database) as con:
        with pytest.raises(warpmill.ExecutionError, match=r"[Zz]ero|overflow|cast|Cast|convert"):
            con.sql("SELECT sum(CAST(s AS INTEGER)) FROM t")
        with pytest.raises(warpmill.BinderError):
            con.sql("SELECT nothing FROM t")
        assert con.sql("SELECT count(*) FROM t").fetchall() == [(50000,)]


def test_what_stays_here_says_why(database: Path, two: Workers) -> None:
    with two.connect(database) as con:
        con.execute("CREATE VIEW v AS SELECT * FROM t")
        frame = pa.table({"k": [1, 2]})
        con.register("frame", frame)
        for sql, reason in {
            "SELECT random() < 2, count(*) FROM t GROUP BY 1": "random",
            "SELECT count(*) FROM t JOIN frame ON t.k = frame.k": "neither in tables nor in Parquet files",
            "SELECT count(*) FROM small": "several row segments",
        }.items():
            text = con.explain(sql)
            assert reason in text.split("== not distributed ==")[1], text
            con.sql(sql)
        assert is_distributed(con, "SELECT sum(v) FROM v")


def test_new_versions_are_read(database: Path, two: Workers) -> None:
    with two.connect(database) as con:
        query = "SELECT count(*), sum(a) FROM changing"

        def read() -> list[tuple[object, ...]]:
            first, again = (con.sql(query) for _ in range(2))
            assert (first.profile["plan_cached"], again.profile["plan_cached"]) == (False, True)
            rows = first.fetchall()
            assert again.fetchall() == rows
            return rows

        con.execute("CREATE TABLE changing AS SELECT i AS a FROM range(20000) r(i)")
        assert read() == [(20000, 199990000)]
        con.execute("INSERT INTO changing SELECT 1 FROM range(20000) r(i)")
        assert read() == [(40000, 200010000)]
        con.execute("DROP TABLE changing")
        con.execute("CREATE TABLE changing AS SELECT 2 AS a FROM range(30000) r(i)")
        assert read() == [(30000, 60000)]
        con.execute("DROP TABLE changing")


def test_deleted_rows(tmp_path: Path, two: Workers) -> None:
    with warpmill.connect(tmp_path / "db", device="cpu") as con:
        con.execute("SET warpmill.segment_rows = 2048")
        con.execute("SET warpmill.debug.least_marked = 1")
        con.execute("CREATE TABLE t AS SELECT i AS k, i % 10 AS g FROM range(20000) r(i)")
        con.execute("DELETE FROM t WHERE k % 3 = 0 OR k BETWEEN 4000 AND 4500")
        queries = ("SELECT g, count(*), sum(k) FROM t GROUP BY g", "SELECT count(*), min(k) FROM t WHERE k > 3999")
        expected = [in_order(con.sql(query).fetchall()) for query in queries]
    with two.connect(tmp_path / "db") as con:
        assert is_distributed(con, queries[0])
        assert [in_order(con.sql(query).fetchall()) for query in queries] == expected
