"""Programs in parts, one per device: with any ranges, the answer equals that of one site."""

from __future__ import annotations

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import warpmill
from test_placement import DEVICES, NOT_SHARED, QUERIES, fill, rows
from trials import trials
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Kernels of simulated devices need a C++ compiler: without one, the reason says so.
pytestmark = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason=str(DEVICES["no_simulated_device"]))

#: Queries over `orders` and `lines`, which lie in the order of their key, `lines` with several rows of most keys. True:
#: in parts.
KEYED = {
    "joined": ("SELECT c, count(*), sum(v) FROM lines JOIN orders ON l = o GROUP BY c", True),
    "grouped by the key": ("SELECT l, sum(v) AS s, count(DISTINCT w) AS d FROM lines GROUP BY l", True),
    "top groups": (
        "SELECT l, c, sum(v) AS s FROM lines JOIN orders ON l = o GROUP BY l, c ORDER BY s DESC, l LIMIT 7",
        True,
    ),
    "having": (
        "SELECT c, count(*) FROM orders WHERE o IN (SELECT l FROM lines GROUP BY l HAVING sum(v) > 60) GROUP BY c",
        True,
    ),
    "outer": ("SELECT o, c, v FROM orders LEFT JOIN lines ON l = o AND v > 17 WHERE o % 7 = 0", True),
    "full": ("SELECT count(*), count(o), count(l), sum(v) FROM orders FULL JOIN lines ON l = o", True),
    "exists": (
        "SELECT c, count(*) FROM orders WHERE EXISTS (SELECT 1 FROM lines WHERE l = o AND v > w) GROUP BY c",
        True,
    ),
    "not exists": (
        "SELECT c, count(*) FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines WHERE l = o) GROUP BY c",
        True,
    ),
    "not in": ("SELECT count(*) FROM orders WHERE o NOT IN (SELECT l FROM lines)", None),
    "itself": ("SELECT count(*), sum(a.v) FROM lines a JOIN lines b ON a.l = b.l AND a.w < b.w", True),
    "three": (
        """SELECT c, count(*) FROM lines a JOIN orders ON a.l = o WHERE EXISTS
           (SELECT 1 FROM lines b WHERE b.l = a.l AND b.w <> a.w) AND NOT EXISTS
           (SELECT 1 FROM lines d WHERE d.l = a.l AND d.v > 18) GROUP BY c""",
        True,
    ),
    "by another column": ("SELECT w, count(*), min(c) FROM lines JOIN orders ON l = o GROUP BY w ORDER BY w", True),
    "on another column": ("SELECT count(*), sum(v) FROM lines JOIN orders ON w = o", True),
    "a bit of both": ("SELECT count(*) FROM lines a JOIN orders ON a.w = o JOIN lines b ON b.l = o", None),
    "with an expression": ("SELECT count(*), sum(v) FROM lines JOIN orders ON l = o + 1", True),
    "both sides": (
        "SELECT l, n FROM (SELECT l, count(*) AS n FROM lines GROUP BY l) JOIN orders ON l = o WHERE n > 4",
        True,
    ),
    "union": ("SELECT k, count(*) FROM (SELECT l AS k FROM lines UNION ALL SELECT o FROM orders) GROUP BY k", None),
    "crossed union": (
        """SELECT k, x, count(*) FROM (SELECT l AS k, w AS x FROM lines UNION ALL SELECT w, l FROM lines)
           GROUP BY k, x""",
        None,
    ),
    "windows": (
        "SELECT l, v, row_number() OVER (PARTITION BY l ORDER BY v, w, t) AS n FROM lines WHERE l % 5 = 0",
        None,
    ),
    "a limit below": ("SELECT count(*) FROM (SELECT l FROM lines LIMIT 100000) JOIN orders ON l = o", None),
    "a value of all": ("SELECT count(*) FROM lines WHERE v > (SELECT avg(v) FROM lines)", None),
    "nothing": ("SELECT l, sum(v) FROM lines WHERE v > 1000 GROUP BY l", True),
    "no groups": ("SELECT sum(v), min(t), count(*) FROM lines JOIN orders ON l = o WHERE c = 'none'", True),
    "narrow and wide": ("SELECT count(*), count(o), count(k), sum(x) FROM wide FULL JOIN orders ON k = o", None),
    "wide only": ("SELECT k, x FROM wide WHERE NOT EXISTS (SELECT 1 FROM lines WHERE l = k)", None),
    "wide and lines": ("SELECT count(*), sum(v), count(k) FROM lines LEFT JOIN wide ON l = k", None),
    "few": ("SELECT count(*), sum(v), sum(y) FROM lines JOIN few ON l = f", True),
    "none of few": ("SELECT count(*), sum(v) FROM lines WHERE l NOT IN (SELECT f FROM few WHERE f IS NOT NULL)", None),
    "few or not": ("SELECT l, y FROM lines LEFT JOIN few ON l = f WHERE l % 11 = 3", True),
    "another order": ("SELECT o, count(e), min(x) FROM orders LEFT JOIN events ON o = e GROUP BY o", True),
    "another order, counted": (
        """SELECT n, count(*) FROM (SELECT o, count(e) AS n FROM orders LEFT JOIN events ON o = e AND x <> 3 GROUP BY o)
           GROUP BY n""",
        True,
    ),
    "another order, largest": (
        "SELECT o, c, sum(v) AS s FROM lines JOIN orders ON w = o GROUP BY o, c ORDER BY s DESC, o LIMIT 9",
        True,
    ),
    "another order, in between": (
        """SELECT o, sum(v), count(*) FROM lines JOIN events ON l = x JOIN orders ON e = o GROUP BY o""",
        True,
    ),
    "texts": ("SELECT l, min(t) AS a, max(t) AS b FROM lines GROUP BY l", True),
}


def tables(orders: int, skew: str) -> dict[str, pa.Table]:
    """Orders, and lines in the order of their key; `skew`: how many lines orders have."""
    source = random.Random(orders)
    keys = list(range(-orders // 4, orders - orders // 4))
    sizes: dict[str, Callable[[int], int]] = {
        "even": lambda _: source.randrange(7),
        "one": lambda key: orders if key == orders // 2 else source.randrange(2),
        "same": lambda key: orders if key == 3 else 0,
    }
    lines = sizes[skew]
    lined = [key for key in keys for _ in range(lines(key))]
    names = ["red", "green", None, "blue"]
    # Keys beyond 32 bits, and keys of some of the orders.
    wide = [*range(-2 * orders, 2 * orders, 3), *(2**31 + 7 * i for i in range(1500)), 2**31 - 1, -(2**31)]
    few = list(range(10, 1500))
    return {
        "wide": pa.table({"k": pa.array(wide, pa.int64()), "x": pa.array(range(len(wide)), pa.int64())}),
        "events": pa.table(
            {
                "e": pa.array([source.choice(keys) for _ in range(3 * orders)], pa.int64()),
                "x": pa.array([source.randrange(50) for _ in range(3 * orders)], pa.int64()),
            }
        ),
        "few": pa.table({"f": pa.array(few, pa.int64()), "y": pa.array([key % 9 for key in few], pa.int32())}),
        "orders": pa.table({"o": pa.array(keys, pa.int64()), "c": [names[key % 4] for key in keys]}),
        "lines": pa.table(
            {
                "l": pa.array(lined, pa.int64()),
                "v": pa.array([None if source.random() < 0.1 else source.randrange(20) for _ in lined], pa.int32()),
                "w": pa.array([source.randrange(orders // 2) for _ in lined], pa.int64()),
                "t": [f"text {source.randrange(3000)}" for _ in lined],
            }
        ),
    }


@pytest.fixture(scope="module", params=["even", "one", "same"])
def keyed(request: pytest.FixtureRequest) -> Iterator[tuple[warpmill.Connection, duckdb.DuckDBPyConnection]]:
    data = tables(4000, request.param)
    other = duckdb.connect()
    with warpmill.connect(device="sim:3", placement="range") as con:
        con.execute("SET warpmill.segment_rows = 1024")
        for name, table in data.items():
            con.create_table(name, table)
            other.register(name, table)
        yield con, other


def parts(con: warpmill.Connection, query: str) -> str | None:
    """The lines of EXPLAIN about the parts of a query."""
    lines = [line for row in con.sql(f"EXPLAIN {query}").fetchall() for line in str(row[-1]).splitlines()]
    return next((line for line in lines if "of them), each with its" in line), None)


def sorted_rows(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=lambda row: [(item is None, str(item)) for item in row])


@pytest.mark.trials
@pytest.mark.sample(4, keyed=["one", "same"])
@pytest.mark.parametrize("name", KEYED)
def test_parts_by_a_key_add_up(
    keyed: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], name: str, request: pytest.FixtureRequest
) -> None:
    con, other = keyed
    query, in_parts = KEYED[name]
    expected = sorted_rows(other.sql(query).fetchall())
    con.execute("SET warpmill.debug.placement_seed = off")
    # With one key in most rows there is nothing to cut.
    if in_parts is not None and request.node.callspec.params["keyed"] == "even":
        assert (parts(con, query) is not None) == in_parts, con.sql(f"EXPLAIN {query}").fetchall()
    for seed in ["off", *range(1, 1 + trials(2))]:
        con.execute(f"SET warpmill.debug.placement_seed = {seed}")
        assert sorted_rows(con.sql(query).fetchall()) == expected, f"ranges {seed} of {query}"


def test_scans_that_meet_are_split_by_the_same_key(
    keyed: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], request: pytest.FixtureRequest
) -> None:
    con, _ = keyed
    con.execute("SET warpmill.debug.placement_seed = off")
    found = parts(con, KEYED["top groups"][0])
    if request.node.callspec.params["keyed"] == "even":
        assert found is not None
        assert "each with its range of lines.l in 2 scans" in found
        assert "rows of pipeline" in found, found
        assert "in 3 scans" in str(parts(con, KEYED["three"][0])) or "in 4 scans" in str(parts(con, KEYED["three"][0]))
        # A table in another order is read completely, for the rows of a device's range.
        assert "its range of orders.o in 2 scans" in str(parts(con, KEYED["another order"][0]))
        assert "its range of orders.o in 2 scans" in str(parts(con, KEYED["another order, largest"][0]))
    # No order to cut by.
    assert "each with its row segments ([" in str(parts(con, "SELECT count(*), sum(v) FROM lines"))


@pytest.fixture(scope="module")
def filled() -> Iterator[warpmill.Connection]:
    with warpmill.connect(placement="range") as con:
        fill(con)
        yield con


@pytest.mark.trials
@pytest.mark.parametrize("device", ["sim:2", "sim:3"])
@pytest.mark.parametrize("name", [*QUERIES, *NOT_SHARED])
def test_parts_by_row_segments_add_up(filled: warpmill.Connection, device: str, name: str) -> None:
    query = {**QUERIES, **NOT_SHARED}[name]
    filled.execute("SET warpmill.device = 'cpu'")
    expected = rows(filled.sql(query))
    filled.execute(f"SET warpmill.device = '{device}'")
    for seed in ["off", *range(1, 1 + trials(2))]:
        filled.execute(f"SET warpmill.debug.placement_seed = {seed}")
        assert rows(filled.sql(query)) == expected, f"ranges {seed} of {query}"


#: TPC-H queries that are in parts, and whether by ranges of the order key.
TPCH = {
    "1": False, "3": True, "4": True, "5": True, "6": False, "7": True, "8": True, "9": True, "12": True,
    "14": False, "18": True, "19": False, "21": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[tuple[Any, ...]]]]:
    folder = tmp_path_factory.mktemp("tpch")
    with warpmill.connect(folder / "db", device="cpu") as con:
        con.execute("SET warpmill.segment_rows = 4096")
        for name in _warpmill.tables("tpch"):
            _warpmill.generate_parquet("tpch", name, 0.02, str(folder / f"{name}.parquet"), 0)
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder}/{name}.parquet'")
        return folder / "db", {name: rows(con.sql(sql)) for name, sql in _warpmill.queries("tpch")}


@pytest.mark.parametrize("devices", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 8))])
@pytest.mark.long
def test_tpch_in_parts(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]], devices: int) -> None:
    folder, expected = tpch
    found = {}
    with warpmill.connect(folder, device=f"sim:{devices}", placement="range") as con:
        for name, sql in _warpmill.queries("tpch"):
            line = parts(con, sql)
            if line is not None:
                found[name.lstrip("q0")] = "lineitem.l_orderkey" in line
            for seed in ["off", 5]:
                con.execute(f"SET warpmill.debug.placement_seed = {seed}")
                result = con.sql(sql)
                assert rows(result) == expected[name], f"query {name}, ranges {seed}"
            con.execute("SET warpmill.debug.placement_seed = off")
    assert TPCH.items() <= found.items(), found


def test_each_device_reads_its_part_only(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    """Devices copy the row segments of their ranges, and those on a cut twice."""
    folder, expected = tpch
    sql = dict(_warpmill.queries("tpch"))
    name = next(name for name in sql if name.lstrip("q0") == "12")

    def travelled(devices: int) -> int:
        with warpmill.connect(folder, device=f"sim:{devices}", placement="range") as con:
            result = con.sql(sql[name])
            assert rows(result) == expected[name]
            (program,) = result.profile["programs"]
            assert program["segments"] or devices == 1
            return sum(transfer["bytes"] for transfer in program["on_device"]["transfers"])

    one, two = travelled(1), travelled(2)
    assert 0 < two < 1.3 * one, (one, two)


@pytest.mark.parametrize(
    ("sql", "less"),
    [
        ("SELECT k, sum(v) AS s FROM big GROUP BY k ORDER BY s DESC, k LIMIT 5", 10_000_000),
        ("SELECT count(*), sum(a.v) FROM big a JOIN big b ON a.k = b.k WHERE b.v % 3 > 0", 2_500_000),
        (
            "SELECT count(*) FROM big a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE a.k = b.k AND b.v > a.v)",
            2_500_000,
        ),
    ],
)
def test_tables_of_a_device_are_as_large_as_its_range_of_keys(tmp_path: Path, sql: str, less: int) -> None:
    """Each of three devices needs `less` bytes less than one that has all 800,000 possible keys."""
    data = pa.table({"k": [4 * (i // 2) - 400_000 for i in range(400_000)], "v": [i % 7 for i in range(400_000)]})
    found = {}
    for devices in (1, 3):
        with warpmill.connect(tmp_path, device=f"sim:{devices}", placement="range", segment_rows=16_384) as con:
            con.create_table("big", data, replace=True)
            result = con.sql(sql)
            (program,) = result.profile["programs"]
            assert bool(program["segments"]) == (devices > 1)
            found[devices] = result.fetchall(), program["on_device"]["processing_bytes"]
    assert found[1][0] == found[3][0] == duckdb.execute(sql.replace("big", "data")).fetchall()
    assert found[1][1] - found[3][1] > less, (found[1][1], found[3][1])


def exchanged(
    con: warpmill.Connection, name: str, expected: list[tuple[Any, ...]]
) -> tuple[int, list[list[int]] | None]:
    """Bytes that a query copies from the host, and between devices, all of which must be as planned."""
    result = con.sql(dict(_warpmill.queries("tpch"))[name])
    assert rows(result) == expected
    (program,) = result.profile["programs"]
    found = program["on_device"]
    assert program["segments"]
    assert found["runs"] == 1, "what runs before the last one have copied is not shown"
    copied = {transfer["what"]: transfer["bytes"] for transfer in found["transfers"]}
    traffic = None
    if found["exchange"]:
        traffic = found["exchange"]["traffic"]
        assert traffic == found["exchange"]["planned"]
        assert all(row[number] == 0 for number, row in enumerate(traffic))
    assert copied.get("data from other devices", 0) == sum(map(sum, traffic or []))
    return copied.get("segments to the device", 0), traffic


@pytest.mark.parametrize("number", ["3", "5", "9", "14", "19"])
def test_what_all_devices_need_crosses_the_link_to_the_host_once(
    tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]], number: str
) -> None:
    folder, expected = tpch
    name = next(name for name in expected if name.lstrip("q0") == number)
    totals = {}
    for count in (2, 3):
        found = {}
        with warpmill.connect(folder, device=f"sim:{count}", placement="range") as con:
            for way in ("off", "auto", "staged"):
                _warpmill.clear_device_caches()
                con.set("device_exchange", way)
                found[way] = exchanged(con, name, expected[name])
            # Everything is there now.
            assert exchanged(con, name, expected[name]) == (0, None)
        (off, nothing), (once, traffic) = found["off"], found["auto"]
        assert nothing is None
        assert traffic is not None
        totals[count] = sum(map(sum, traffic))
        assert totals[count] > 0
        assert off == once + totals[count], "what does not come from the host comes from another device"
        assert found["staged"] == found["auto"]
    if not TPCH[number]:
        # Only data that all devices need is on two devices.
        assert totals[3] == 2 * totals[2]


def test_what_one_device_has_is_copied_from_it(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    folder, expected = tpch
    sql = dict(_warpmill.queries("tpch"))
    name = next(name for name in sql if name.lstrip("q0") == "14")
    _warpmill.clear_device_caches()
    with warpmill.connect(folder, device="sim:3", placement="program") as con:
        assert rows(con.sql(sql[name])) == expected[name]
        con.set("placement", "range")
        host, traffic = exchanged(con, name, expected[name])
        assert traffic is not None
        assert [row[0] for row in traffic] == [0, 0, 0], "the first device has all"
        assert traffic[1] == traffic[2] == [0, 0, 0], "nobody else has anything"
        assert min(traffic[0][1:]) > 0
        # Dictionaries contain addresses: each device gets its own from the host.
        assert host < min(traffic[0][1:]) / 10
        _warpmill.clear_device_caches()
        text = "\n".join(str(row[-1]) for row in con.sql(f"EXPLAIN ANALYZE {sql[name]}").fetchall())
        assert "data from other devices" in text
        assert re.search(r"device \d to device \d +bytes", text)


@pytest.mark.parametrize(("replication", "limit"), [("never", "0"), ("always", "0"), ("auto", "0"), ("auto", "100kB")])
def test_mirrored_data_is_read_from_other_devices(
    tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]], replication: str, limit: str
) -> None:
    folder, expected = tpch
    sql = dict(_warpmill.queries("tpch"))
    names = [name for name in sql if name.lstrip("q0") in {"5", "14"}]
    _warpmill.clear_device_caches()
    with warpmill.connect(folder, device="sim:3", placement="range", device_data="mirrored") as con:
        con.set("device_cache_every", 2)
        con.set("device_cache_limit", limit)
        con.set("device_replication", replication)
        moved = {}
        for _ in range(3):
            for name in names:
                result = con.sql(sql[name])
                assert rows(result) == expected[name]
                (program,) = result.profile["programs"]
                found = program["on_device"]
                assert found["exchange"]["traffic"] == found["exchange"]["planned"]
                moved[name] = sum(map(sum, found["exchange"]["traffic"]))
                copied = {transfer["what"]: transfer["bytes"] for transfer in found["transfers"]}
                assert copied.get("data from other devices", 0) == moved[name]
    # With room for everything, replicated data are not copied between devices, and other data are.
    if limit == "0":
        assert all((bytes_moved > 0) == (replication == "never") for bytes_moved in moved.values()), moved


#: Queries whose rows devices exchange under some placement, and the exchange.
SENT = {
    "a scan in another order": (
        "SELECT o, count(e), min(x) FROM orders LEFT JOIN events ON o = e AND x < 40 GROUP BY o",
        "rows of events go to the device of their range",
    ),
    "another order, and what has no partner": (
        "SELECT count(*), sum(n) FROM (SELECT o, count(e) AS n FROM orders LEFT JOIN events ON o = e GROUP BY o)",
        "rows of events go to the device of their range",
    ),
    "groups": (
        "SELECT n, count(*) FROM (SELECT w, count(*) AS n FROM lines GROUP BY w) GROUP BY n",
        "groups of pipeline 0 go to the device of their keys' hash",
    ),
    "groups of NULLs": (
        """SELECT c, v, count(*) AS n, sum(w), min(w), max(v) FROM lines JOIN orders ON l = o GROUP BY c, v
           HAVING count(*) > 1 ORDER BY n DESC, c, v LIMIT 20""",
        "go to the device of their keys' hash",
    ),
    "groups of many keys": (
        """SELECT count(*), sum(n), sum(s) FROM
           (SELECT w, v, l % 7 AS m, count(v) AS n, sum(v) AS s FROM lines GROUP BY w, v, m) WHERE n < 3""",
        "go to the device of their keys' hash",
    ),
    "groups of texts": (
        """SELECT count(*), sum(n), min(k), max(k), min(u) FROM
           (SELECT t || '-' || CAST(w % 500 AS VARCHAR) AS k, min(t) AS u, count(*) AS n FROM lines GROUP BY k)
           WHERE n < 3""",
        "go to the device of their keys' hash",
    ),
    "texts in rows": (
        """SELECT t || c AS k, l % 50 AS m, count(*) AS n, max(upper(t)) FROM lines JOIN orders ON l = o GROUP BY k, m
           ORDER BY n DESC, k, m LIMIT 25""",
        "go to the device of their keys' hash",
    ),
    "texts of a scan in another order": (
        """SELECT o, min(y), count(z) FROM orders LEFT JOIN
           (SELECT e, upper(CAST(x AS VARCHAR)) AS y, x AS z FROM events) ON e = o GROUP BY o""",
        "rows of events go to the device of their range",
    ),
    "no rows": (
        "SELECT n, count(*) FROM (SELECT w, count(*) AS n FROM lines WHERE v > 1000 GROUP BY w) GROUP BY n",
        "go to the device of their keys' hash",
    ),
    "groups for one device": (
        "SELECT n, count(*), avg(w) FROM (SELECT w, count(*) AS n FROM lines GROUP BY w) GROUP BY n",
        "go to the first device, which goes on",
    ),
    "groups that are joined with what is read again": (
        """SELECT count(*), sum(n) FROM orders JOIN
           (SELECT w, v, count(*) AS n, sum(l) AS s FROM lines GROUP BY w, v) AS g ON g.w = o AND g.s > o
           WHERE o NOT IN (SELECT e FROM events WHERE x < 10)""",
        "go to the first device, which goes on",
    ),
    "groups of texts for one device": (
        """SELECT k, n, row_number() OVER (ORDER BY n DESC, k) AS r FROM
           (SELECT t || '-' || CAST(w % 500 AS VARCHAR) AS k, count(*) AS n FROM lines GROUP BY k) LIMIT 40""",
        "go to the first device, which goes on",
    ),
    "no groups for one device": (
        "SELECT count(*), sum(n) FROM (SELECT w, count(*) AS n FROM lines WHERE v > 1000 GROUP BY w)",
        "go to the first device, which goes on",
    ),
}


@pytest.mark.trials
@pytest.mark.sample(4, keyed=["one", "same"])
@pytest.mark.parametrize("name", SENT)
def test_devices_send_rows_to_each_other(
    keyed: tuple[warpmill.Connection, duckdb.DuckDBPyConnection], name: str, request: pytest.FixtureRequest
) -> None:
    con, other = keyed
    query, sent = SENT[name]
    expected, moved = sorted_rows(other.sql(query).fetchall()), 0
    for seed in range(1, 1 + trials(4)):
        con.execute(f"SET warpmill.debug.placement_seed = {seed}")
        line = parts(con, query)
        result = con.sql(query)
        assert sorted_rows(result.fetchall()) == expected, f"{line} of {query}"
        if line is not None and sent in line:
            moved += 1
            (program,) = result.profile["programs"]
            assert program["segments"], (line, program)
            exchange = program["on_device"]["exchange"]
            assert exchange["traffic"] == exchange["planned"]
            assert (sum(map(sum, exchange["traffic"])) > 0) == (not name.startswith("no "))
        con.execute("SET warpmill.device_exchange = off")
        assert "go to the" not in str(parts(con, query))
        assert sorted_rows(con.sql(query).fetchall()) == expected
        con.execute("SET warpmill.device_exchange = staged")
        assert sorted_rows(con.sql(query).fetchall()) == expected
        con.execute("SET warpmill.device_exchange = auto")
    con.execute("SET warpmill.debug.placement_seed = off")
    # With one key in most rows there is nothing to cut.
    assert moved or request.node.callspec.params["keyed"] != "even", "no placement sends rows"


def test_many_queries_send_rows_at_once(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    """With little memory for queries that wait for each other, some run again elsewhere, without a deadlock."""
    folder, expected = tpch
    sql = dict(_warpmill.queries("tpch"))
    names = [name for name in sql if name.lstrip("q0") in {"13", "16", "20"}]

    def run(number: int) -> None:
        with warpmill.connect(folder, device="sim:2", placement="range", gpu_memory_limit="24MB") as con:
            con.execute(f"SET warpmill.debug.placement_seed = {1 + number % 4}")
            name = names[number % len(names)]
            assert rows(con.sql(sql[name])) == expected[name]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(24)))


def test_a_device_that_fails_leaves_it_to_one(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    """Parts that have no room end in a run of all of it, and its reason."""
    folder, expected = tpch
    with warpmill.connect(folder, device="sim:2", placement="range", gpu_memory_limit="1MB") as con:
        for name, sql in _warpmill.queries("tpch"):
            if name.lstrip("q0") in {"1", "3", "18"}:
                assert rows(con.sql(sql)) == expected[name]


def test_the_faster_way_is_taken_with_several_devices(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    folder, expected = tpch
    sql = dict(_warpmill.queries("tpch"))
    name = next(name for name in sql if name.lstrip("q0") == "12")
    with warpmill.connect(folder, device="sim:2") as con:
        ways = []
        for _ in range(8):
            result = con.sql(sql[name])
            assert rows(result) == expected[name]
            ways.append(bool(result.profile["programs"][0]["segments"]))
            # The kernels for all of the program are compiled meanwhile.
            assert _warpmill.wait_for_background(60)
        assert ways[:2] == [True, True]
        assert ways[2:6].count(False) >= 2, ways


def test_strict_devices_have_no_parts(tpch: tuple[Path, dict[str, list[tuple[Any, ...]]]]) -> None:
    folder, _ = tpch
    with warpmill.connect(folder, device="sim:2", placement="range", device_fallback="error") as con:
        plan = json.dumps([str(row) for row in con.sql("EXPLAIN SELECT sum(l_quantity) FROM lineitem").fetchall()])
        assert "must not take part" in plan
