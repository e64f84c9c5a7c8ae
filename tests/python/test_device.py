"""Queries on devices: the simulated one returns the CPU's answers; unsupported operators are reported, or refused."""

from __future__ import annotations

import decimal
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEVICES = json.loads(_warpmill.devices())

#: Skipped where there is no C++ compiler to build kernels with.
needs_sim = pytest.mark.skipif(DEVICES["no_simulated_device"] is not None, reason="no C++ compiler")
without_gpu = pytest.mark.skipif(DEVICES["default"] == "gpu", reason="there is a GPU")

QUERIES = {
    "filter": "SELECT id, amount FROM sales WHERE amount > 20 AND id < 900 ORDER BY id",
    "nulls": "SELECT count(*), count(amount), count(shop), sum(amount), min(amount), max(id), avg(amount) FROM sales",
    "null tests": "SELECT count(*) FROM sales WHERE amount IS NULL OR shop IS NULL",
    "strings": "SELECT id, shop, upper(shop) AS u FROM sales WHERE shop LIKE '%or%' OR shop = 'süd' ORDER BY id",
    "plain strings": "SELECT id, note FROM sales WHERE note LIKE '%7%' AND length(note) > 8 ORDER BY id",
    "group by string": "SELECT shop, count(*) AS n, sum(price) AS p FROM sales GROUP BY shop ORDER BY shop NULLS FIRST",
    "group by two": "SELECT shop, id % 7 AS k, sum(amount) AS s FROM sales GROUP BY shop, id % 7 ORDER BY k, shop, s",
    "variances": "SELECT shop, round(stddev(amount), 6), round(var_pop(price), 6) FROM sales GROUP BY 1 ORDER BY 1",
    "extreme strings": "SELECT shop, min(note || shop), max(shop || note) FROM sales GROUP BY shop ORDER BY shop",
    "wide distinct": "SELECT count(DISTINCT note || shop), sum(DISTINCT CAST(id % 97 AS DOUBLE) / 8) FROM sales",
    "distinct": "SELECT count(DISTINCT amount), count(DISTINCT shop) FROM sales",
    "having": "SELECT id % 50 AS k, sum(amount) AS s FROM sales GROUP BY id % 50 HAVING sum(amount) > 200 ORDER BY k",
    "join": "SELECT city, count(*), sum(amount) FROM sales JOIN shops ON shop = name GROUP BY city ORDER BY city",
    "outer join": """SELECT name, count(id) AS n FROM shops LEFT JOIN sales ON shop = name AND amount > 30
                     GROUP BY name ORDER BY name""",
    "semi join": "SELECT count(*) FROM sales WHERE shop IN (SELECT name FROM shops WHERE city = 'Kiel')",
    "not in": "SELECT count(*) FROM shops WHERE name NOT IN (SELECT shop FROM sales WHERE note > city)",
    "anti join": "SELECT count(*) FROM sales WHERE NOT EXISTS (SELECT 1 FROM shops WHERE name = shop)",
    "expressions": """SELECT id, CASE WHEN amount IS NULL THEN -1 ELSE amount * 2 END AS a, price / 3 AS p,
                      date_part('month', day) AS m FROM sales WHERE id % 100 = 3 ORDER BY id""",
    "no rows": "SELECT shop, sum(amount) FROM sales WHERE id < 0 GROUP BY shop",
    "one group of no rows": "SELECT sum(amount), count(*) FROM sales WHERE id < 0",
}


def fill(con: warpmill.Connection) -> None:
    """Two small tables with NULLs, strings with and without a dictionary, decimals, dates."""
    rows = range(1000)
    names = ["nord", "süd", None, "hafen", "tor"]
    day = 24 * 60 * 60
    con.create_table(
        "sales",
        pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "shop": [names[i * i % 5] for i in rows],
                "note": [f"note number {i * 37 % 1000}" for i in rows],
                "amount": pa.array([None if i % 11 == 0 else i * 13 % 41 for i in rows], pa.int32()),
                "price": pa.array([decimal.Decimal(i * 7 % 997) / 100 for i in rows], pa.decimal128(15, 2)),
                "day": pa.array([pa.scalar(i * day, pa.timestamp("s")).as_py().date() for i in rows], pa.date32()),
            }
        ),
    )
    con.create_table(
        "shops", {"name": ["nord", "süd", "hafen", "west", None], "city": ["Kiel", "Ulm", "Kiel", "Ulm", "?"]}
    )


@pytest.fixture(scope="module")
def shop() -> Iterator[warpmill.Connection]:
    with warpmill.connect(fallback="error", device_fallback="error") as con:
        fill(con)
        yield con


@needs_sim
@pytest.mark.parametrize("name", QUERIES)
def test_the_simulated_device_has_the_answers_of_the_cpu(shop: warpmill.Connection, name: str) -> None:
    shop.set("device", "cpu")
    expected = shop.sql(QUERIES[name])
    shop.set("device", "sim")
    found = shop.sql(QUERIES[name])
    assert found.fetchall() == expected.fetchall()
    assert {program["device"] for program in expected.profile["programs"]} == {"cpu"}
    programs = found.profile["programs"]
    assert {program["device"] for program in programs} == {"sim"}
    assert all(program["not_on_device"] is None for program in programs)
    assert all(program["on_device"]["kernels"] for program in programs)


@needs_sim
@pytest.mark.parametrize("strategy", ["fallback", "naive"])
def test_a_join_is_left_to_the_cpu_with_what_is_above(shop: warpmill.Connection, strategy: str) -> None:
    query = """SELECT name, city, count(*), sum(amount) FROM shops LEFT JOIN sales ON shop = name AND id % 3 > 0
               GROUP BY name, city ORDER BY name"""
    shop.set("device", "cpu")
    expected = shop.sql(query).fetchall()
    shop.set("device", "sim")
    # In parts, whatever the size.
    shop.set("device_join", strategy)
    shop.set("device_partitions", "1")
    try:
        result = shop.sql(query)
        (program,) = result.profile["programs"]
        join = program["on_device"]["join"]
        assert result.fetchall() == expected
        assert (join["strategy"], join["reason"], program["not_on_device"]) == (strategy, "forced", None)
        sides = ["cpu" if side == "cpu" else "device" for side in join["sides"]]
        assert len(sides) == len(program["pipelines"])
        assert sides[0] == ("cpu" if strategy == "naive" else "device")
        assert "device" in sides
        assert "cpu" in sides
        with pytest.raises(warpmill.SettingError, match="fallback, naive or cpu"):
            shop.set("device_join", "both")
    finally:
        shop.set("device_join", "auto")
        shop.set("device_partitions", "0")


@needs_sim
def test_rows_of_parquet_files_come_from_the_device_or_the_program_goes_to_the_cpu(tmp_path: Path) -> None:
    rows = range(3000)
    pq.write_table(pa.table({"k": [i * 7 % 1000 for i in rows], "x": list(rows)}), tmp_path / "facts.parquet")
    names = [None if i % 5 == 0 else f"name {i}" for i in range(800)]
    pq.write_table(pa.table({"k": list(range(800)), "name": names}), tmp_path / "names.parquet")
    query = f"""SELECT name, count(*), sum(x) FROM '{tmp_path}/names.parquet' n JOIN '{tmp_path}/facts.parquet' f
                ON n.k = f.k WHERE x % 2 = 0 GROUP BY name ORDER BY name"""
    with warpmill.connect(device="cpu") as con:
        expected = con.sql(query).fetchall()
        con.set("device", "sim")
        con.set("device_partitions", "1")
        for strategy in ("fallback", "naive"):
            con.set("device_join", strategy)
            result = con.sql(query)
            (program,) = result.profile["programs"]
            assert result.fetchall() == expected
            if strategy == "fallback":
                assert program["on_device"]["join"]["strategy"] == "fallback"
                assert all(scan["parquet"]["by_device"] > 0 for scan in program["on_device"]["scans"])
            else:
                assert "naive: the CPU back end would have to scan Parquet files" in program["not_on_device"]


@needs_sim
def test_what_the_device_lacks_falls_back_or_is_refused(shop: warpmill.Connection) -> None:
    query = "SELECT count(*) FROM sales WHERE regexp_like(note || shop, '7.*[a-t]$')"
    shop.set("device", "sim")
    with pytest.raises(
        warpmill.ExecutionError, match=r"not run on the sim: .*a regular expression on strings.*device_fallback"
    ):
        shop.sql(query)
    shop.set("device_fallback", "allow")
    try:
        result = shop.sql(query)
        (program,) = result.profile["programs"]
        assert program["device"] == "cpu"
        assert "a regular expression" in program["not_on_device"]
        assert result.fetchone() is not None
        for analyze in (False, True):
            text = shop.explain(query, analyze=analyze)
            assert "not on the device: " in text
            assert "a regular expression" in text
    finally:
        shop.set("device_fallback", "error")


@needs_sim
def test_too_little_device_memory_is_a_reason(shop: warpmill.Connection) -> None:
    shop.set("device", "sim")
    shop.set("gpu_memory_limit", "4kB")
    try:
        with pytest.raises(warpmill.ExecutionError, match=r"region needs .* bytes of device memory"):
            shop.sql("SELECT count(*) FROM sales WHERE amount > 3")
    finally:
        shop.set("gpu_memory_limit", "unlimited")


@without_gpu
def test_without_a_gpu_the_cpu_runs_queries_or_they_are_refused() -> None:
    with warpmill.connect(device="gpu") as con:
        con.create_table("t", {"a": [1, 2, 3]})
        result = con.sql("SELECT sum(a) FROM t")
        (program,) = result.profile["programs"]
        assert (result.fetchone(), program["device"]) == ((6,), "cpu")
        assert program["not_on_device"]
        assert f"program 0: cpu, not on the device: {program['not_on_device']}" in con.explain("SELECT sum(a) FROM t")
        con.set("device_fallback", "error")
        with pytest.raises(warpmill.ExecutionError, match="not run on the gpu"):
            con.sql("SELECT sum(a) FROM t")
        # auto promises no device, so it never refuses.
        con.set("device", "auto")
        assert con.sql("SELECT sum(a) FROM t").fetchone() == (6,)


@needs_sim
@pytest.mark.parametrize("device", ["sim", "cpu", "auto"])
def test_explain_kernels_shows_their_text(shop: warpmill.Connection, device: str) -> None:
    query = "SELECT shop, count(*) FROM sales WHERE amount > 5 GROUP BY shop"
    shop.set("device", device)
    text = shop.explain(query, kernels=True)
    assert text.count('extern "C" __global__') == text.count(", pipeline ")
    assert "pipeline 0: scan sales ==" in text
    assert "pipeline 0: groups to rows ==" in text
    rows = shop.sql(f"EXPLAIN KERNELS {query}")
    assert rows.columns == ["plan_type", "plan"]
    assert all(f"== {title} ==" in text for title, _ in rows)
    bound = shop.sql("SELECT id FROM sales WHERE amount = ?", [3]).explain(kernels=True)
    assert "extern" in bound
    with pytest.raises(ValueError, match="kernels, or analyze"):
        shop.explain(query, analyze=True, kernels=True)


@needs_sim
@pytest.mark.parametrize("kept", ["count(*)", "count(*), sum(n)"])
def test_keys_that_nearly_never_repeat(kept: str) -> None:
    """Keys are assumed unique where most are; the others have all their rows."""
    with warpmill.connect(device="sim", device_fallback="error") as con:
        con.execute("CREATE TABLE few AS SELECT CASE WHEN i < 960 THEN i ELSE 7 END AS k, i AS n FROM range(1000) r(i)")
        con.execute("CREATE TABLE many AS SELECT i % 500 AS k FROM range(20000) r(i)")
        query = f"SELECT {kept} FROM many JOIN few ON many.k = few.k"
        found = con.sql(query).fetchall()
        con.set("device", "cpu")
        assert found == con.sql(query).fetchall()
        assert found[0][0] == 20000 + 40 * 40
        con.set("device", "sim")
        exists = con.sql("SELECT count(*) FROM many WHERE k IN (SELECT k FROM few WHERE n > 950)").fetchall()
        assert exists == [(40,)]


@needs_sim
def test_kernels_are_timed_only_when_asked(shop: warpmill.Connection) -> None:
    query = "SELECT shop, sum(amount) FROM sales WHERE amount > 6 GROUP BY shop"

    def nanos() -> int:
        (program,) = shop.sql(query).profile["programs"]
        return sum(kernel["nanos"] for kernel in program["on_device"]["kernels"])

    shop.set("device", "sim")
    assert nanos() == 0
    text = shop.explain(query, analyze=True)
    assert " 0.000 ms in kernels" not in text
    for step in ("waiting for other programs", "queueing", "waiting for the device", "reading rows", "Arrow"):
        assert f"{step} " in text
    shop.set("profile", "kernels")
    try:
        assert nanos() > 0
        # The setting is none of the plan's.
        assert shop.sql(query).profile["plan_cached"]
    finally:
        shop.set("profile", "on")


@needs_sim
@pytest.mark.parametrize("data", ["pinned", "host", "disk", "cache"])
def test_data_comes_from_where_it_is_said_to_be(shop: warpmill.Connection, data: str) -> None:
    shop.set("device", "sim")
    shop.set("device_data", data)
    shop.set("device_fallback", "allow")
    try:
        for _ in range(2):
            result = shop.sql("SELECT shop, count(*) FROM sales WHERE note LIKE '%7%' GROUP BY shop ORDER BY shop")
            assert sum(count for _, count in result.fetchall()) == 271
            (program,) = result.profile["programs"]
            copies = [t["what"] for t in program["on_device"]["transfers"] if t["what"].startswith("segments")]
            assert data == "cache" or len(copies) == 1
    finally:
        shop.set("device_fallback", "error")
        shop.set("device_data", "cache")


@needs_sim
def test_data_stays_on_the_device_until_its_cache_is_cleared(shop: warpmill.Connection) -> None:
    def copied() -> bool:
        (program,) = shop.sql("SELECT max(id) FROM sales WHERE amount < 40").profile["programs"]
        return any(transfer["what"] == "segments to the device" for transfer in program["on_device"]["transfers"])

    shop.set("device", "sim")
    _warpmill.clear_device_caches()
    assert [copied(), copied()] == [True, False]
    _warpmill.clear_device_caches()
    assert copied()
