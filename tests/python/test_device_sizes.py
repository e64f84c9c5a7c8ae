"""Sizes of tables on a device, unused positions, folded bitmaps and searched strings, compared with the CPU."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = json.loads(_warpmill.devices())
# Kernels of the simulated device are C++, which needs a compiler.
pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")


@pytest.fixture
def con(tmp_path: Path) -> Any:
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.set("device", "sim")
        yield con


def on_device(con: warpmill.Connection, sql: str) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a query on the simulated device, and the bytes that it processed them in."""
    result = con.sql(sql)
    rows = result.fetchall()
    (program,) = result.profile["programs"]
    assert not program["not_on_device"]
    return rows, program["on_device"]["processing_bytes"]


def on_cpu(con: warpmill.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the CPU; the device is chosen again afterwards, which forgets plans and sizes."""
    con.set("device", "cpu")
    rows = con.sql(sql).fetchall()
    con.set("device", "sim")
    return rows


# Keys of a wide range: a hash table is guessed to have as many groups as rows.
COUNTED = """SELECT c, count(*), count(s) FILTER (s > 2), sum(s), min(s), max(s), sum(s + 0.5), avg(s)
    FROM (SELECT k, 1000000 * count(*) AS c, {second} AS s FROM t GROUP BY k) GROUP BY c ORDER BY c"""


@pytest.mark.parametrize(
    ("second", "keys"),
    [
        ("max(v)", 90_000),
        ("nullif(count(v), 3)", 90_000),
        ("CASE WHEN k % 2 = 0 THEN sum(v) END", 90_000),
        # So many that positions of groups are reserved: the first count is too high.
        ("max(v)", 1_200_000),
    ],
)
def test_few_groups_get_small_tables(con: warpmill.Connection, second: str, keys: int) -> None:
    con.execute(
        f"CREATE TABLE t AS SELECT (i * 48271 % 2147483647 % {keys})::BIGINT AS k, "
        f"(i * 69621 % 2147483647 % 7)::INTEGER AS v FROM range({2 * keys}) r(i)"
    )
    sql = COUNTED.format(second=second)
    expected = on_cpu(con, sql)
    rows, first = on_device(con, sql)
    assert rows == expected
    times_smaller = 0
    for _ in range(100):
        rows, size = on_device(con, sql)
        assert rows == expected
        times_smaller += size < first
        if times_smaller > 4:
            break
        # Kernels for smaller tables are compiled meanwhile.
        time.sleep(0.3)
    assert size < first


@pytest.mark.parametrize(
    "groups",
    [
        # Each row of the join is counted, each customer without one is not.
        "SELECT c.k, count(o.v) AS n FROM c LEFT JOIN o ON c.k = o.k GROUP BY c.k",
        # Some groups have only NULLs.
        "SELECT c.k, count(o.s) AS n FROM c LEFT JOIN o ON c.k = o.k GROUP BY c.k",
        "SELECT k, count(s) AS n FROM o GROUP BY k",
        "SELECT c.k, count(o.v) FILTER (o.v % 5 = 0) + count(o.v) AS n FROM c LEFT JOIN o ON c.k = o.k GROUP BY c.k",
        "SELECT c.k, count(o.s) + coalesce(sum(o.v), 0) AS n FROM c LEFT JOIN o ON c.k = o.k GROUP BY c.k",
        "SELECT o.k, count(c.k) AS n FROM o LEFT JOIN c ON c.k = o.k AND c.k < 100 GROUP BY o.k",
    ],
)
def test_groups_that_are_only_counted_exist(con: warpmill.Connection, groups: str) -> None:
    con.execute("CREATE TABLE c AS SELECT i::INTEGER AS k FROM range(30000) r(i)")
    con.execute(
        "CREATE TABLE o AS SELECT (i * 7 % 20011)::INTEGER AS k, i AS v, "
        "CASE WHEN i % 20011 % 3 = 0 THEN i END AS s FROM range(60000) r(i)"
    )
    sql = f"SELECT n, count(*), min(k), max(k) FROM ({groups}) GROUP BY n ORDER BY n"
    assert on_device(con, sql)[0] == on_cpu(con, sql)


def test_other_constants_get_the_sizes_that_were_counted(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (i * 48271 % 2147483647 % 90000)::BIGINT AS k, (i % 1000)::INTEGER AS v "
        "FROM range(180000) r(i)"
    )
    sql = """SELECT c, count(*), sum(s)
        FROM (SELECT k, 1000000 * count(*) AS c, sum(v) AS s FROM t WHERE v < {bound} GROUP BY k)
        GROUP BY c ORDER BY c"""
    sizes = []
    for bound in range(900, 960):
        rows, size = on_device(con, sql.format(bound=bound))
        assert sum(row[0] * row[1] for row in rows) == 1000000 * 180 * bound
        sizes.append(size)
        if sum(size < sizes[0] for size in sizes) > 4:
            break
        time.sleep(0.3)
    assert sizes[-1] < sizes[0]


def test_other_patterns_get_the_sizes_that_were_counted(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (i * 48271 % 2147483647 % 90000)::BIGINT AS k, 'text ' || i || ' of ' || i % 97 AS s "
        "FROM range(180000) r(i)"
    )
    sql = """SELECT c, count(*)
        FROM (SELECT k, 1000000 * count(*) AS c FROM t WHERE s NOT LIKE '%{a}%of {b}' GROUP BY k)
        GROUP BY c ORDER BY c"""
    sizes = []
    for step in range(60):
        rows, size = on_device(con, sql.format(a=step % 10, b=step))
        assert sum(row[0] // 1000000 * row[1] for row in rows) > 170000
        sizes.append(size)
        if sum(size < sizes[0] for size in sizes) > 4:
            break
        time.sleep(0.3)
    assert sizes[-1] < sizes[0]


def test_other_constants_with_more_groups_than_were_counted(con: warpmill.Connection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (i % 1000)::INTEGER AS v, (i * 48271 % 2147483647 % 25000)::BIGINT AS n "
        "FROM range(180000) r(i)"
    )
    # A handful of groups with small bounds, tens of thousands with large ones.
    sql = """SELECT count(*), sum(c), max(c)
        FROM (SELECT CASE WHEN n < {bound} THEN n * 1000000 ELSE -5000000 END AS g, count(*) AS c
            FROM t WHERE v < 990 GROUP BY g)"""
    expected = {}
    con.set("device", "cpu")
    bounds = [*range(10, 30), 25_000, 12, 20_000, 11, 24_000]
    for bound in bounds:
        expected[bound] = con.sql(sql.format(bound=bound)).fetchall()
    con.set("device", "sim")
    for bound in bounds:
        assert on_device(con, sql.format(bound=bound))[0] == expected[bound]
        time.sleep(0.2)


def test_more_groups_than_expected(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT (i * 48271 % 2147483647 % 90000)::BIGINT AS k FROM range(300000) r(i)")
    sql = "SELECT c, count(*) FROM (SELECT k, 1000000 * count(*) AS c FROM t GROUP BY k) GROUP BY c ORDER BY c"
    for _ in range(4):
        on_device(con, sql)
        time.sleep(1)
    # Ten thousand counts instead of a dozen.
    con.execute("INSERT INTO t SELECT (100000 + sqrt(2 * i)::INTEGER)::BIGINT FROM range(40000) r(i)")
    expected = on_cpu(con, sql)
    for _ in range(3):
        assert on_device(con, sql)[0] == expected


@pytest.mark.parametrize(
    "condition",
    [
        "EXISTS (SELECT 1 FROM probe WHERE probe.k = build.k)",
        "NOT EXISTS (SELECT 1 FROM probe WHERE probe.k = build.k)",
        "NOT EXISTS (SELECT 1 FROM probe WHERE probe.k = build.k AND probe.v <> build.v)",
    ],
)
def test_rows_of_a_build_with_unused_positions(con: warpmill.Connection, condition: str) -> None:
    con.execute("CREATE TABLE build AS SELECT i AS k, i % 5 AS v FROM range(1200000) r(i)")
    con.execute(
        "CREATE TABLE probe AS SELECT (i * 48271 % 2147483647 % 2000000)::BIGINT AS k, "
        "(i * 69621 % 2147483647 % 5)::BIGINT AS v FROM range(1500000) r(i)"
    )
    sql = f"SELECT v, count(*), sum(k), min(k), max(k) FROM build WHERE v <> 3 AND {condition} GROUP BY v ORDER BY v"
    expected = on_cpu(con, sql)
    for _ in range(2):
        assert on_device(con, sql)[0] == expected


def test_unmatched_rows_of_outer_joins(con: warpmill.Connection) -> None:
    con.execute("CREATE TABLE build AS SELECT i // 2 AS k, i % 5 AS v FROM range(1100000) r(i)")
    con.execute("CREATE TABLE probe AS SELECT (i * 48271 % 2147483647 % 1000000)::BIGINT AS k FROM range(1300000) r(i)")
    for kind in ("FULL", "RIGHT", "LEFT"):
        sql = f"""SELECT p.k IS NULL AS lonely, b.k IS NULL AS unknown, count(*), sum(v), sum(b.k), sum(p.k)
            FROM probe p {kind} JOIN build b ON p.k = b.k GROUP BY ALL ORDER BY ALL"""
        assert on_device(con, sql)[0] == on_cpu(con, sql)


@pytest.mark.parametrize("least", [0, -250_000, 9_000_000_000])
def test_folded_bitmaps(con: warpmill.Connection, least: int) -> None:
    con.execute(f"CREATE TABLE dim AS SELECT {least} + i AS k, i % 1000 AS f FROM range(400000) r(i)")
    con.execute(
        f"""CREATE TABLE fact AS SELECT i % 97 AS v,
            CASE WHEN i % 11 <> 0 THEN {least} - 20000 + i * 48271 % 2147483647 % 500000 END AS k
            FROM range(700000) r(i)"""
    )
    for chosen in ("f = 7", "f BETWEEN 990 AND 993", "f = 7 AND k % 3 = 0", "f = 2000"):
        sql = f"SELECT count(*), sum(v), min(k), max(k) FROM fact JOIN dim USING (k) WHERE {chosen}"
        if chosen == "f = 7":
            assert "fold_bits" in con.explain(sql, kernels=True)
        rows = on_device(con, sql)[0]
        assert rows == on_cpu(con, sql)


@pytest.mark.parametrize(("kept", "tested"), [("k % 20 = 7", 1), ("s < 40", 2), ("k % 20 = 7 AND s < 40", 2)])
def test_keys_with_all_values_are_not_tested(con: warpmill.Connection, kept: str, tested: int) -> None:
    """Of two keys of a join, scans are pruned by those that the other side's rows are selected by."""
    con.execute(
        "CREATE TABLE offers AS SELECT i // 4 AS k, i * 7919 % 100 AS s, i % 10 AS cost FROM range(200000) r(i)"
    )
    con.execute(
        "CREATE TABLE sales AS SELECT i * 48271 % 2147483647 % 52000 AS k, i * 69621 % 2147483647 % 101 AS s, "
        "i % 7 AS n FROM range(400000) r(i)"
    )
    sql = f"""SELECT count(*), sum(n * cost), min(k), max(k) FROM sales
        JOIN (SELECT k AS ok, s AS os, cost FROM offers WHERE {kept}) ON k = ok AND s = os"""
    rows = on_device(con, sql)[0]
    assert rows == on_cpu(con, sql)
    assert rows[0][0] > 0
    kernels = con.explain(sql, kernels=True)
    assert kernels.count("lane_keys_mask<") == tested


@pytest.mark.parametrize(("rows", "repeats"), [(30_000, 1), (30_000, 3), (700_000, 1), (700_000, 3)])
def test_lists_of_rows_with_one_key(con: warpmill.Connection, rows: int, repeats: int) -> None:
    """Keys of a hash table that repeat and that do not, with residual conditions and outer rows, in one program."""
    con.execute(
        f"CREATE TABLE build AS SELECT (i // {repeats}) * 1000003 AS a, i % 5 AS b, i AS v FROM range({rows}) r(i)"
    )
    con.execute(
        f"CREATE TABLE probe AS SELECT (i * 48271 % 2147483647 % {rows * 4 // 3}) * 1000003 AS a, i % 5 AS b, "
        f"i % 11 AS n FROM range({rows + 20_000}) r(i)"
    )
    for join in (
        "JOIN build USING (a, b)",
        "LEFT JOIN build USING (a, b)",
        "JOIN build ON probe.a = build.a AND n <> v % 11",
        "JOIN build ON probe.a = build.a JOIN build more ON more.a = build.a AND more.b = probe.b",
    ):
        sql = f"SELECT count(*), sum(n), sum(build.v), count(build.v) FROM probe {join}"
        if join.startswith("LEFT"):
            # Of tables that are larger than the cache, keys and heads are loaded together.
            assert ("find_head(" in con.explain(sql, kernels=True)) == (rows > 500_000)
        assert on_device(con, sql)[0] == on_cpu(con, sql), join
    for exists in ("EXISTS", "NOT EXISTS"):
        same = "SELECT 1 FROM build WHERE build.a = probe.a AND v % 11 <> n"
        sql = f"SELECT count(*), sum(n) FROM probe WHERE {exists} ({same})"
        assert on_device(con, sql)[0] == on_cpu(con, sql), exists


@pytest.mark.parametrize("letters", ["ab", "abcd", "é漢a"])
def test_searched_strings(con: warpmill.Connection, letters: str) -> None:
    random.seed(letters)

    def text(most: int) -> str:
        return "".join(random.choice(letters) for _ in range(random.randint(0, most)))

    # So many distinct strings that no dictionary is kept, which would be searched instead.
    texts = [None if i % 50 == 7 else text(70) for i in range(3000)]
    con.register("texts", pa.table({"i": range(len(texts)), "s": texts}))
    con.execute("CREATE TABLE t AS SELECT * FROM texts")
    for _ in range(25):
        needles = [text(8) or "a" for _ in range(random.choice([1, 1, 2, 3]))]
        pattern = "%" + "%".join(needles) + random.choice(["%", "%", ""])
        sql = " UNION ALL ".join(
            f"SELECT count(*), sum(i) FROM t WHERE s {like} '{pattern}'" for like in ("LIKE", "NOT LIKE")
        )
        found = con.sql(sql).fetchall()
        assert found == on_cpu(con, sql), pattern
