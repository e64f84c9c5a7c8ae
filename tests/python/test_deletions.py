"""Deleted rows that stay where they are, marked: statements see none of them, on any back end and through any door."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
from simulated import needs_sim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEVICES = ["cpu", pytest.param("sim", marks=needs_sim)]

TABLE = """CREATE TABLE t AS SELECT i AS k, (i * 7919) % 1000 AS g, CASE WHEN i % 11 = 0 THEN NULL ELSE i * 3 END AS v,
    'text ' || (i % 37) AS s, 'long text ' || i AS l, (i % 100)::DECIMAL(12,2) / 4 AS d, i / 8.0 AS x, i % 5 < 2 AS b,
    DATE '2020-01-01' + (i % 400)::INTEGER AS day FROM range({rows}) r(i)"""

# Of columns, of one table and of several, with conditions that fail for deleted rows or could be answered without them.
QUERIES = [
    "SELECT count(*), count(v), sum(k), min(k), max(k), min(s), max(l), avg(x), count(DISTINCT g) FROM t",
    "SELECT min(k) FROM t",
    "SELECT count(*) FROM t WHERE k < 5000",
    "SELECT s, count(*), sum(d), max(day) FROM t GROUP BY s ORDER BY s",
    "SELECT g, b, count(*) FROM t WHERE b GROUP BY g, b ORDER BY g LIMIT 20",
    "SELECT k, v, s, l, d, x, b, day FROM t WHERE g = 500 OR k % 1000 = 0 ORDER BY k",
    "SELECT * FROM t ORDER BY k DESC LIMIT 10",
    "SELECT count(*), sum(a.v), sum(c.x) FROM t a JOIN t c ON a.k = c.g",
    "SELECT count(*), count(c.k) FROM t a LEFT JOIN (SELECT * FROM t WHERE k < 300) c ON a.g = c.k",
    "SELECT count(*) FROM t WHERE k NOT IN (SELECT g FROM t)",
    "SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t c WHERE c.k = a.g)",
    "SELECT k, row_number() OVER (PARTITION BY s ORDER BY k), lag(k) OVER (ORDER BY k) FROM t ORDER BY k LIMIT 50",
    "SELECT s, g % 3 AS r, count(*) FROM t GROUP BY ROLLUP (s, r) ORDER BY ALL",
    "SELECT DISTINCT day FROM t WHERE l LIKE '%9%' ORDER BY day",
    "SELECT 1000000 // k AS q, count(*) FROM t GROUP BY q ORDER BY q LIMIT 20",
]


def same(ours: Any, theirs: Any, query: str, context: object = "") -> None:
    """Assert that a query has the same answer."""
    found, expected = ours.execute(query).fetchall(), theirs.execute(query).fetchall()
    if "ORDER BY" not in query:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert found == expected, f"{query} {context}"


@pytest.fixture(scope="module", params=["memory", "stored"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Both packages with the same table, of which rows have been deleted."""
    where = [] if request.param == "memory" else [str(tmp_path_factory.mktemp("deletions") / "db")]
    with warpmill.connect(*where) as ours, duckdb.connect() as theirs:
        ours.execute("SET warpmill.segment_rows = 4096")
        ours.execute("SET warpmill.debug.least_marked = 1")
        for con in (ours, theirs):
            con.execute(TABLE.format(rows=20_000))
            con.execute("DELETE FROM t WHERE k = 0 OR k = 19999")
            con.execute("DELETE FROM t WHERE g % 17 = 3")
            con.execute("DELETE FROM t WHERE k BETWEEN 9000 AND 9500")
            con.execute("INSERT INTO t SELECT k + 100000, g, v, s, l, d, x, b, day FROM t WHERE k < 100")
        yield ours, theirs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("query", QUERIES)
def test_queries(both: tuple[Any, Any], query: str, device: str) -> None:
    ours, theirs = both
    ours.execute(f"SET warpmill.device = '{device}'")
    same(ours, theirs, query)
    same(ours, theirs, query.replace("k < 5000", "k < 17000").replace("g = 500", "g = 900"))


@pytest.mark.parametrize("device", DEVICES)
def test_conditions_that_fail_for_deleted_rows(device: str) -> None:
    with warpmill.connect() as con:
        con.execute(f"SET warpmill.device = '{device}'")
        con.execute("SET warpmill.debug.least_marked = 1")
        con.execute(
            "CREATE TABLE t AS SELECT i AS k, CASE WHEN i = 700 THEN 'x' ELSE i::VARCHAR END AS s FROM range(3000) r(i)"
        )
        con.execute("INSERT INTO t VALUES (9000000000000000000, '5')")
        with pytest.raises(warpmill.Error):
            con.execute("SELECT count(*) FROM t WHERE s::INTEGER > 10 AND k % 2 = 0").fetchall()
        con.execute("DELETE FROM t WHERE k = 700 OR k = 9000000000000000000")
        expected = [(len([i for i in range(3000) if i > 10 and i % 2 == 0 and i != 700]),)]
        assert con.execute("SELECT count(*) FROM t WHERE s::INTEGER > 10 AND k % 2 = 0").fetchall() == expected
        assert con.execute("SELECT count(*) FROM t WHERE k % 2 = 0 AND s::INTEGER > 10").fetchall() == expected
        assert con.execute("SELECT sum(s::INTEGER), sum(k * 2000000000000000) FROM t").fetchone() is not None
        assert con.execute("SELECT count(*) FROM t WHERE k * 2000000000000000 >= 0").fetchall() == [(2999,)]
        assert con.execute("SELECT count(*) FROM t a JOIN t c ON a.s::INTEGER = c.k").fetchall() == [(2999,)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", ["memory", "stored"])
def test_random_changes(tmp_path: Path, place: str, seed: int) -> None:
    own = random.Random(seed)
    folder = tmp_path / "db"
    ours = warpmill.connect(*([] if place == "memory" else [folder]))
    theirs = duckdb.connect()
    ours.execute("SET warpmill.segment_rows = 2048")
    for con in (ours, theirs):
        con.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s VARCHAR, l VARCHAR)")
    columns = "i, (i * 7919) % 1000, nullif(i * 3, 33), 'text ' || (i % 37), 'long ' || i"
    end, within = 0, False
    for step in range(60):
        least = own.choice([1, 1, 1000, 16384])
        ours.execute(f"SET warpmill.debug.least_marked = {least}")
        low = own.randrange(end + 1)
        some = own.choice(
            [
                f"k = {low}",
                f"k BETWEEN {low} AND {low + own.randrange(600)}",
                f"g % {own.randrange(20, 90)} = {own.randrange(20)}",
                f"s = 'text {own.randrange(40)}' AND k < {low}",
                "v IS NULL",
            ]
        )
        kind = own.randrange(12)
        if step == 0 or kind < 2:
            count = own.choice([1, 3, 700, 5000])
            text = f"INSERT INTO t SELECT {columns} FROM range({end}, {end + count}) r(i)"
            end += count
        elif kind < 3:
            source = f"range({low}, {low + own.randrange(1, 400)}) r(i)"
            text = f"INSERT INTO t SELECT {columns} FROM {source} ON CONFLICT DO NOTHING"
            end = max(end, low + 400)
        elif kind < 4:
            text = f"INSERT INTO t SELECT {columns} FROM range({low}, {low + 20}) r(i) ON CONFLICT DO UPDATE SET v = -1"
            end = max(end, low + 20)
        elif kind < 8:
            text = f"DELETE FROM t WHERE {some}"
        elif kind < 10:
            text = f"UPDATE t SET v = v + {step}, s = 'new {step % 5}' WHERE {some}"
        elif kind < 11:
            text = "COMMIT" if within else "BEGIN"
            within = not within
        else:
            text = f"UPDATE t SET k = k + 1000000000 WHERE {some} AND k < 1000000000"
        counts = [con.execute(text).fetchall() for con in (ours, theirs)]
        assert text in ("BEGIN", "COMMIT") or counts[0] == counts[1], text
        if step % 9 == 4 and not within:
            ours.execute("OPTIMIZE t")
        for query in (
            "SELECT count(*), sum(k), sum(v), min(s), max(l), count(v) FROM t",
            "SELECT * FROM t ORDER BY k",
            f"SELECT k, v FROM t WHERE k = {low}",
        ):
            same(ours, theirs, query, (step, text))
        if place == "stored" and step % 8 == 7 and not within:
            ours.close()
            ours = warpmill.connect(folder)
            ours.execute("SET warpmill.segment_rows = 2048")
    ours.close()
    theirs.close()


def test_large_row_segments_keep_their_files(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.execute(TABLE.format(rows=100_000))
        con.execute("SET warpmill.keep_versions = 10")
        size = sum(path.stat().st_size for path in (tmp_path / "t").iterdir())
        for k in range(5):
            assert con.execute(f"DELETE FROM t WHERE k = {k * 9999}").fetchall() == [(1,)]
        grown = sum(path.stat().st_size for path in (tmp_path / "t").iterdir()) - size
        assert grown < 60_000, f"{grown} bytes"
        counts = [con.execute(f"SELECT count(*) FROM t AT (VERSION => {n})").fetchone() for n in range(1, 7)]
        assert counts == [(100_000 - n,) for n in range(6)]
    with warpmill.connect(tmp_path) as con:
        assert con.execute("SELECT count(*), min(k), sum(k) FROM t").fetchall() == [(99_995, 1, 4999950000 - 99990)]
        con.execute("OPTIMIZE t")
        assert con.execute("SELECT count(*), min(k), sum(k) FROM t").fetchall() == [(99_995, 1, 4999950000 - 99990)]


def test_inspect_counts_deleted_rows(tmp_path: Path) -> None:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute("CREATE TABLE t AS SELECT i FROM range(20000) r(i)")
        assert [column["deleted"] for column in con.inspect("t")] == [0]
        con.execute("DELETE FROM t WHERE i % 100 = 0")
        (column,) = con.inspect("t")
        assert (column["rows"], column["deleted"]) == (20_000, 200)
        con.execute("OPTIMIZE t")
        (column,) = con.inspect("t")
        assert (column["rows"], column["deleted"]) == (19_800, 0)


def test_nested_columns(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con, duckdb.connect() as other:
        con.execute("SET warpmill.debug.least_marked = 1")
        for engine in (con, other):
            engine.execute(
                "CREATE TABLE t AS SELECT i AS k, [i, i + 1] AS l, {'a': i, 'b': 'x' || i} AS r, "
                "INTERVAL (i) DAY AS n, ('\\x' || '41')::BLOB AS y FROM range(5000) r(i)"
            )
            engine.execute("DELETE FROM t WHERE k % 10 = 3 OR k < 5")
        for query in (
            "SELECT * FROM t ORDER BY k LIMIT 20",
            "SELECT sum(r.a), sum(len(l)), count(n) FROM t",
            "SELECT k, l, r FROM t WHERE r.a % 100 = 7 ORDER BY k",
            "SELECT count(*), sum(e) FROM (SELECT unnest(l) AS e FROM t)",
            "SELECT * FROM t WHERE k = 4999",
        ):
            same(con, other, query)


def test_rules_of_columns_that_deleted_rows_break() -> None:
    with warpmill.connect() as con:
        con.execute("SET warpmill.debug.least_marked = 1")
        con.execute("CREATE TABLE t AS SELECT i AS k, nullif(i, 77) AS v FROM range(3000) r(i)")
        with pytest.raises(warpmill.Error, match="NULL"):
            con.execute("ALTER TABLE t ALTER v SET NOT NULL")
        con.execute("DELETE FROM t WHERE v IS NULL")
        con.execute("ALTER TABLE t ALTER v SET NOT NULL")
        con.execute("ALTER TABLE t ADD PRIMARY KEY (k)")
        con.execute("INSERT INTO t VALUES (77, 77)")
        with pytest.raises(warpmill.ConstraintError):
            con.execute("INSERT INTO t VALUES (78, 78)")
        con.execute("ALTER TABLE t ALTER v TYPE INTEGER")
        con.execute("ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 5")
        con.execute("ALTER TABLE t DROP COLUMN v")
        assert con.execute("SELECT count(*), sum(k), sum(z) FROM t").fetchall() == [(3000, 4498500, 15000)]


def test_referenced_keys_of_deleted_rows() -> None:
    with warpmill.connect() as con:
        con.execute("SET warpmill.debug.least_marked = 1")
        con.execute("CREATE TABLE p (k BIGINT PRIMARY KEY)")
        con.execute("CREATE TABLE c (k BIGINT REFERENCES p (k), v BIGINT)")
        con.execute("INSERT INTO p SELECT * FROM range(3000)")
        con.execute("INSERT INTO c SELECT i % 1000, i FROM range(3000) r(i)")
        with pytest.raises(warpmill.ConstraintError):
            con.execute("DELETE FROM p WHERE k = 500")
        con.execute("DELETE FROM c WHERE k = 500")
        con.execute("DELETE FROM p WHERE k = 500")
        with pytest.raises(warpmill.ConstraintError):
            con.execute("INSERT INTO c VALUES (500, 1)")
        con.execute("DELETE FROM p WHERE k >= 2000 AND k % 2 = 0")
        con.execute("DELETE FROM c")
        con.execute("DELETE FROM p WHERE k < 100")
        assert con.execute("SELECT count(*) FROM p").fetchall() == [(2399,)]
