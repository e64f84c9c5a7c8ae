"""DELETE, UPDATE, MERGE and TRUNCATE beside DuckDB, over tables of several row segments, in memory and on disk."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = """k INTEGER, g SMALLINT, v BIGINT, d DECIMAL(12,2), h DECIMAL(30,0), x DOUBLE, f REAL, s VARCHAR, t VARCHAR,
    day DATE, ts TIMESTAMP, p BOOLEAN"""

ROWS = """SELECT i::INTEGER AS k, CASE WHEN i % 11 > 0 THEN (i * 7 % 50)::SMALLINT END AS g,
    CASE WHEN i % 1001 = 5 THEN 9223372036854775807 WHEN i % 13 > 0 THEN i * 1000003 % 1000000007 END::BIGINT AS v,
    CASE WHEN i % 7 > 0 THEN (i * 37 % 100000 / 100.0)::DECIMAL(12,2) END AS d, (i * 1000000007)::DECIMAL(30,0) AS h,
    CASE WHEN i % 97 = 3 THEN 'NaN'::DOUBLE WHEN i % 5 > 0 THEN (i % 800) / 8.0 END AS x, ((i % 64) / 4.0)::REAL AS f,
    CASE WHEN i % 9 > 0 THEN 'name ' || (i % 23) END AS s, CASE WHEN i % 10 > 0 THEN 'text ' || i END AS t,
    CASE WHEN i % 6 > 0 THEN DATE '2001-02-03' + (i % 1000)::INTEGER END AS day,
    TIMESTAMP '2001-02-03 04:05:06' AS ts, CASE WHEN i % 4 > 0 THEN i % 3 = 0 END AS p
    FROM range({rows}) r(i)"""

ALL = "SELECT * FROM t ORDER BY ALL"


def values(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that compare: a NaN is one."""
    return [tuple("NaN" if value != value else value for value in row) for row in rows]


class Both:
    """The same table in both engines."""

    def __init__(self, ours: warpmill.Connection, rows: int) -> None:
        self.ours, self.theirs = ours, duckdb.connect()
        # On a simulated device comparing takes longer than changing; errors would persist for two more changes.
        simulated = ours.sql("SHOW warpmill.device").fetchall()[0][-1] == "sim"
        self.every, self.changes = 3 if simulated else 1, 0
        self.both(f"CREATE TABLE t ({COLUMNS})")
        if rows:
            self.theirs.execute(f"INSERT INTO t {ROWS.format(rows=rows)}")
            ours.register("given", self.theirs.sql("SELECT * FROM t").to_arrow_table())
            ours.execute("INSERT INTO t SELECT * FROM given")
        self.both("CREATE TABLE u (k INTEGER, v BIGINT, s VARCHAR)")
        self.both(
            "INSERT INTO u VALUES (1, 10, 'new one'), (5, NULL, NULL), (77, 7, 'name 3'), (-1, 5, 'other'), "
            "(NULL, 1, 'null')"
        )

    def both(self, sql: str) -> None:
        self.ours.execute(sql)
        self.theirs.execute(sql)

    def change(self, sql: str) -> None:
        """Runs it in both: the same number of rows, or an error in both, and the same table."""
        try:
            wanted = self.theirs.execute(sql).fetchall()
        except duckdb.Error:
            with pytest.raises(warpmill.Error):
                self.ours.execute(sql)
        else:
            try:
                assert self.ours.execute(sql).fetchall() == wanted, sql
            except warpmill.ExecutionError:
                # Constants that do not fit are errors without any row, too.
                assert wanted == [(0,)]
        self.changes += 1
        if self.changes % self.every == 0:
            self.same(sql)

    def same(self, why: str) -> None:
        for sql in (
            ALL,
            "SELECT count(*), min(k), max(v), count(DISTINCT s), min(t), max(day), sum(d) FROM t",
            "SELECT s, count(*), sum(v::HUGEINT) FROM t GROUP BY s ORDER BY s",
            "SELECT count(*) FROM t WHERE k BETWEEN 100 AND 110",
            "SELECT count(*) FROM t WHERE s = 'name 3'",
            "SELECT count(*) FROM t WHERE s IS NULL OR x > 50",
            "SELECT count(*) FROM t JOIN u ON t.k = u.k",
        ):
            found, wanted = values(self.ours.execute(sql).fetchall()), values(self.theirs.execute(sql).fetchall())
            assert found == wanted, (why, sql)


@pytest.fixture(params=["memory", "disk", "sim"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[warpmill.Connection]:
    with warpmill.connect() if request.param == "memory" else warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("SET warpmill.segment_rows = 1024")
        con.execute("SET warpmill.zone_rows = 1024")
        if request.param == "sim":
            try:
                con.execute("SET warpmill.device = 'sim'")
            except warpmill.Error as error:
                pytest.skip(str(error))
        yield con


STATEMENTS = [
    "DELETE FROM t WHERE k = 5",
    "DELETE FROM t WHERE k BETWEEN 1000 AND 1100",
    "DELETE FROM t WHERE g > 40 AND p",
    "DELETE FROM t WHERE NOT p",
    "DELETE FROM t WHERE NULL",
    "DELETE FROM t WHERE k IN (SELECT k FROM u)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "DELETE FROM t AS x WHERE x.v = (SELECT max(v) FROM t)",
    "DELETE FROM t USING u WHERE t.k = u.k",
    "DELETE FROM t USING u, (SELECT 1 AS one) o WHERE t.k + one > u.k AND t.k < 3",
    "WITH c AS (SELECT 77 AS k) DELETE FROM t WHERE k IN (SELECT k FROM c)",
    "UPDATE t SET v = 1 WHERE k = 3",
    "UPDATE t SET s = 'fresh ' || (k % 7) WHERE k % 3 = 0",
    "UPDATE t SET s = NULL, t = s WHERE g = 4",
    "UPDATE t SET k = g, g = k WHERE k BETWEEN 10 AND 2000",
    "UPDATE t SET (v, x) = (v + 1, x * 2) WHERE v < 1000000",
    "UPDATE t SET d = 1.005, p = TRUE, day = '2020-01-01', f = 'NaN' WHERE k % 5 = 1",
    "UPDATE t SET h = 99999999999999999999999999999 WHERE k = 7",
    "UPDATE t SET v = u.v, s = u.s FROM u WHERE t.k = u.k",
    "UPDATE t SET v = (SELECT max(u.v) FROM u) WHERE k < 20",
    "UPDATE t AS y SET v = y.v - 1 WHERE y.k > 500",
    "UPDATE t SET g = 40000 WHERE k = 8",
    "UPDATE t SET v = 'abc' WHERE k = 8",
    "UPDATE t SET v = 1.6 WHERE k = 9",
    "UPDATE t SET v = 1, v = 2",
    "UPDATE t SET nothing = 2",
    "UPDATE t SET v = DEFAULT WHERE k = 11",
    "UPDATE t SET x = 'NaN', ts = TIMESTAMP '2030-01-01 00:00:00'",
    "WITH c AS (SELECT 14 AS k) UPDATE t SET v = c.k FROM c WHERE t.k = c.k",
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET v = u.v, s = u.s "
    "WHEN NOT MATCHED THEN INSERT (k, v, s) VALUES (u.k, u.v, u.s)",
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.v > 8 THEN DELETE "
    "WHEN MATCHED AND t.g > 3 THEN UPDATE SET g = 3 "
    "WHEN NOT MATCHED AND u.k IS NOT NULL THEN INSERT (k, t) VALUES (u.k, 'in')",
    "MERGE INTO t AS a USING (SELECT k * 2 AS k, v FROM u WHERE k > 0) AS b ON a.k = b.k "
    "WHEN MATCHED THEN UPDATE SET v = a.v + b.v, t = 'm' WHEN NOT MATCHED BY SOURCE AND a.k % 100 = 1 THEN DELETE",
    "MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 1) w ON t.k = w.k WHEN MATCHED THEN UPDATE SET v = 0",
    "MERGE INTO t USING u ON FALSE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (u.k, u.v)",
    "INSERT INTO t (k, s) VALUES (1, 'inserted'), (5, NULL), (9999, 'name 3')",
]  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_statements(ours: warpmill.Connection, rows: int) -> None:
    both = Both(ours, rows)
    for sql in STATEMENTS:
        both.change(sql)
    both.change("TRUNCATE t")
    both.change("INSERT INTO t (k, s) VALUES (1, 'after')")
    both.same("TRUNCATE")
    both.change("DELETE FROM t")
    both.change("TRUNCATE TABLE t")
    both.same("TRUNCATE TABLE")


@pytest.mark.trials
@pytest.mark.sample(2, ours=["sim"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_random_sequences(ours: warpmill.Connection, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    both = Both(ours, 5000)
    for _ in range(trials(25)):
        sql = draw.choice(STATEMENTS)
        if sql.startswith("UPDATE t SET x = 'NaN', ts") and draw.random() < 0.7:
            continue
        both.change(sql)
        if draw.random() < 0.15:
            ours.execute("OPTIMIZE t")
            both.same("OPTIMIZE")
    both.same("the end")
    if (tmp_path / "db").exists():
        sums = "SELECT count(*), sum(k::HUGEINT), min(s), max(t) FROM t"
        other = (
            f"import sys, warpmill\nwith warpmill.connect(sys.argv[1]) as con: print(con.execute('{sums}').fetchall())"
        )
        found = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path / "db")], capture_output=True, text=True, check=True
        )
        wanted = both.theirs.execute(sums).fetchall()
        assert found.stdout.strip() == str(wanted)


def test_large(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        both = Both(con, 2_500_000)
        for sql in (
            "DELETE FROM t WHERE k % 100 = 3",
            "UPDATE t SET v = v + 1 WHERE k BETWEEN 1500000 AND 1600000 AND v < 1000000007",
            "DELETE FROM t WHERE k > 2200000",
            "UPDATE t SET s = 'x' || (k % 300) WHERE k % 50 = 1",
        ):
            assert con.execute(sql).fetchall() == both.theirs.execute(sql).fetchall()
        for sql in (
            "SELECT count(*), sum(k::HUGEINT), sum(v::HUGEINT), count(s), count(t), sum(d), count(DISTINCT s) FROM t",
            "SELECT s, count(*) FROM t GROUP BY s ORDER BY s",
            "SELECT t FROM t WHERE k = 1550000",
        ):
            assert con.execute(sql).fetchall() == both.theirs.execute(sql).fetchall()


def test_what_is_refused(ours: warpmill.Connection) -> None:
    ours.execute("CREATE TABLE t (a INTEGER NOT NULL, b VARCHAR)")
    ours.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    ours.execute("CREATE VIEW v AS SELECT * FROM t")
    before = ours.execute("SELECT * FROM t ORDER BY a").fetchall()
    for sql, text in [
        ("DELETE FROM v", "is a view"),
        ("UPDATE nothing SET a = 1", "not found"),
        ("UPDATE t SET a = NULL", "NOT NULL"),
        ("UPDATE t SET c = 1", "no column c"),
        ("UPDATE t SET t.a = 1", "without the table"),
        ("UPDATE t SET a = u.n FROM (SELECT 5 AS n UNION ALL SELECT 6) u", "same row"),
        ("INSERT INTO t VALUES (1, 'z') ON CONFLICT DO NOTHING", "no UNIQUE/PRIMARY KEY"),
        ("INSERT OR REPLACE INTO t VALUES (1, 'z')", "no UNIQUE/PRIMARY KEY"),
        ("INSERT OR IGNORE INTO t VALUES (1, 'z')", "no UNIQUE/PRIMARY KEY"),
        ("MERGE INTO t USING t AS s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (b) VALUES ('n')", ""),
        (
            "MERGE INTO t USING (SELECT 9 AS a) AS s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (b) VALUES ('n')",
            "NOT NULL",
        ),
        ("OPTIMIZE nothing", "not found"),
    ]:
        if text:
            with pytest.raises(warpmill.Error, match=text):
                ours.execute(sql)
        else:
            ours.execute(sql)
        assert ours.execute("SELECT * FROM t ORDER BY a").fetchall() == before, sql
    # Equal values of several partners are no contradiction.
    assert ours.execute("UPDATE t SET b = u.n FROM (SELECT 'e' AS n UNION ALL SELECT 'e') u").fetchall() == [(2,)]


def test_foreign_tables_are_refused(con: warpmill.Connection) -> None:
    con.register("frame", {"a": [1]})
    with pytest.raises(warpmill.Error, match="no table of Warpmill"):
        con.execute("DELETE FROM frame")


def test_parameters_and_names(con: warpmill.Connection) -> None:
    con.execute("CREATE SCHEMA s")
    con.execute('CREATE TABLE s."My Table" (a INTEGER, "B c" VARCHAR)')
    con.execute("INSERT INTO s.\"My Table\" VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    assert con.execute('DELETE FROM s."my table" WHERE A = ?', [2]).fetchall() == [(1,)]
    assert con.execute('UPDATE s."My Table" AS m SET "b C" = $2 WHERE m.a = $1', [3, "new"]).fetchall() == [(1,)]
    assert con.execute('SELECT * FROM s."My Table" ORDER BY a').fetchall() == [(1, "x"), (3, "new")]
    with pytest.raises(warpmill.Error):
        con.execute('DELETE FROM s."My Table" WHERE a = ?', [])


def test_explain_changes_nothing(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert con.execute("EXPLAIN DELETE FROM t WHERE a = 1").fetchall()
    assert con.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_kept_plans_see_changes(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT * FROM range(3000) r(i)")
    for left in (2999, 2998, 2997):
        con.execute(f"DELETE FROM t WHERE i = {left}")
        assert con.execute("SELECT count(*), max(i) FROM t").fetchall() == [(left, left - 1)]


def test_versions(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path)) as con:
        con.execute("SET warpmill.keep_versions = 10")
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.execute("UPDATE t SET a = 2")
        con.execute("INSERT INTO t VALUES (3)")
        con.execute("TRUNCATE t")
        counts = [
            con.execute(f"SELECT count(*), sum(t.a) FROM t AT (VERSION => {n})").fetchall()[0] for n in range(1, 5)
        ]
        assert counts == [(1, 1), (1, 2), (2, 5), (0, None)]
        both = "SELECT x.a, y.a FROM main.t AT (VERSION => 1) x, t AT (VERSION => 2) AS y"
        assert con.execute(both).fetchall() == [(1, 2)]
        assert con.execute("INSERT INTO t SELECT * FROM t AT (VERSION => 3)").fetchall()[0][0] == 2
        with pytest.raises(warpmill.Error, match="has no version 77"):
            con.execute("SELECT * FROM t AT (VERSION => 77)")


def test_small_inserts_become_few_segments(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path)) as con:
        con.execute("CREATE TABLE t (a INTEGER, s VARCHAR)")
        for i in range(150):
            con.execute(f"INSERT INTO t VALUES ({i}, 'x{i % 5}')")
        assert len(list((tmp_path / "t").glob("*.data"))) < 32
        con.execute("OPTIMIZE t")
        con.execute("INSERT INTO t VALUES (150, 'x0')")
        assert len(list((tmp_path / "t").glob("*.data"))) < 5
        assert con.execute("SELECT count(*), sum(a), count(DISTINCT s) FROM t").fetchall() == [(151, 11325, 5)]
        assert con.execute("SELECT a FROM t").fetchall() == [(i,) for i in range(151)]


WRITER = """
import sys, warpmill
with warpmill.connect(sys.argv[1]) as con:
    for i in range(40):
        while True:
            try:
                con.execute(sys.argv[2])
                break
            except warpmill.ConflictError:
                pass
"""


def test_no_update_is_lost_between_processes(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path)) as con:
        con.execute("CREATE TABLE t AS SELECT 0 AS a, 0 AS b")
        statements = ["UPDATE t SET a = a + 1", "UPDATE t SET b = b + 1, a = a", "INSERT INTO t VALUES (-1000000, 0)"]
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), sql]) for sql in statements]
        assert [writer.wait(120) for writer in writers] == [0, 0, 0]
        assert con.execute("SELECT a, b FROM t ORDER BY a DESC LIMIT 1").fetchall() == [(40, 40)]
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(41,)]


def test_no_update_is_lost_between_threads(ours: warpmill.Connection) -> None:
    ours.execute("CREATE TABLE t AS SELECT 0 AS a")
    failed: list[BaseException] = []

    def count() -> None:
        try:
            for _ in range(15):
                while True:
                    try:
                        ours.execute("UPDATE t SET a = a + 1")
                        break
                    except warpmill.ConflictError:
                        pass
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert ours.execute("SELECT a FROM t").fetchall() == [(60,)]


def test_memory_limit(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path)) as con:
        con.execute("CREATE TABLE t AS SELECT i, 'text ' || i AS s FROM range(1000000) r(i)")
        con.execute("SET warpmill.memory_limit = '4MB'")
        with pytest.raises(warpmill.OutOfMemoryError):
            con.execute("UPDATE t SET s = s || 'more'")
        con.execute("SET warpmill.memory_limit = '1GB'")
        assert con.execute("SELECT max(s) FROM t").fetchall() == [("text 999999",)]


def test_deep_conditions(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT * FROM range(3000) r(i)")
    deep = " OR ".join(f"i = {i}" for i in range(2400))
    assert con.execute(f"DELETE FROM t WHERE {deep}").fetchall() == [(2400,)]
    assert con.execute(f"UPDATE t SET i = i {'+ 1 ' * 2000}").fetchall() == [(600,)]
    with pytest.raises(warpmill.LimitError):
        con.execute(f"UPDATE t SET i = i {'+ 1 ' * 3000}")


def test_sources_of_merge(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS a, 'x' AS b FROM range(3) r(i)")
    con.execute("MERGE INTO t USING (VALUES (1, 'v')) AS v(a, b) ON t.a = v.a WHEN MATCHED THEN UPDATE SET b = v.b")
    con.execute(
        "MERGE INTO t USING (SELECT 2 AS k) ON t.a = k WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'alone'"
    )
    assert con.execute("SELECT * FROM t ORDER BY a").fetchall() == [(0, "alone"), (1, "alone")]


def test_compressed_and_read_tables(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("SET warpmill.codec = 'zstd'")
        con.execute("SET warpmill.file_access = 'read'")
        con.execute("SET warpmill.sideways = ''")
        both = Both(con, 3000)
        con.execute("SET warpmill.segment_rows = 1024")
        for sql in STATEMENTS:
            both.change(sql)


def test_strings_that_stop_repeating(ours: warpmill.Connection) -> None:
    """A column with a dictionary loses it when its strings become too many."""
    both = Both(ours, 0)
    both.both("INSERT INTO t (k, s) SELECT i, 'few ' || (i % 10) FROM range(40000) r(i)")
    both.change("UPDATE t SET s = 'many ' || k WHERE k % 2 = 0 AND k < 30000")
    both.change("UPDATE t SET s = 'few again' WHERE k > 100")
    both.change("DELETE FROM t WHERE k BETWEEN 50 AND 20000")
    both.change("UPDATE t SET s = s || s")
    ours.execute("OPTIMIZE t")
    both.same("OPTIMIZE")


def test_interrupted_changes_change_nothing(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path)) as con:
        con.execute("CREATE TABLE t AS SELECT i AS a, i AS b FROM range(2000000) r(i)")
        timer = threading.Timer(0.01, con.interrupt)
        timer.start()
        try:
            con.execute("UPDATE t SET b = b + 1")
            expected = 1
        except warpmill.InterruptError:
            expected = 0
        timer.join()
        assert con.execute("SELECT min(b - a), max(b - a) FROM t").fetchall() == [(expected, expected)]
        assert con.execute("UPDATE t SET b = a").fetchall() == [(2000000,)]
