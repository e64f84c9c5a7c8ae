"""GOLAP's experiments: answers equal in all modes, metadata prunes more than bounds, settings have their effect."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from typer.testing import CliRunner

import warpmill
from warpmill import _warpmill
from warpmill.cli import app
from warpmill.cli.progress import bars
from warpmill_bench import golap, golap_joins, golap_sweeps
from warpmill_bench.disk import Disk, disk_gb_per_s

if TYPE_CHECKING:
    from pathlib import Path

needs_sim = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golap")


def run(data: Path, out: Path, *options: object) -> Any:
    arguments = ["bench", "golap", "--sf", "0.01", "--runs", "1", "--data", data, "--out", out, *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def report(data: Path, out: Path, name: str, *options: object) -> Any:
    done = run(data, out, *options)
    assert done.exit_code == 0, done.output
    assert list(out.glob(f"{name}*.png"))
    assert all(picture.stat().st_size > 10_000 for picture in out.glob("*.png"))
    return json.loads((out / f"{name}.json").read_text())


def test_every_mode_has_the_same_answers_and_metadata_prunes_at_least_as_much_as_bounds(
    data: Path, tmp_path: Path
) -> None:
    zones = ["--set", "zone_rows=2048"]
    found = report(data, tmp_path, "golap", "--device", "cpu", "--codec", "zstd", "--layouts", "clustered", *zones)
    rows = found["results"]
    assert (found["experiment"], found["settings"]["device"]) == ("modes", "cpu")
    assert len(rows) == (13 + 3 + 4) * 5
    assert all(row["same_answer"] and row["device"] == "cpu" and row["moved_bytes"] is None for row in rows)
    queries: dict[Any, dict[str, Any]] = {}
    for row in rows:
        queries.setdefault((row["suite"], row["layout"], row["query"]), {})[row["mode"]] = row
    for modes in queries.values():
        assert modes["none"]["pruned"] == modes["compression"]["pruned"] == 0
        assert modes["minmax"]["pruned"] <= modes["pruning"]["pruned"] == modes["both"]["pruned"]
        # The counted bytes are those that the query would read without encodings, whatever is skipped.
        assert len({row["plain_bytes"] for row in modes.values()}) == 1
        for row in modes.values():
            assert row["effective_gb_per_s"] == pytest.approx(row["plain_bytes"] / row["seconds"] / 1e9)
    assert queries["taxi", "clustered", "1.2"]["pruning"]["pruned"] > 0.5
    assert queries["ssb", "clustered", "3.1"]["pruning"]["pruned"] > 0.5
    for one in found["summary"]:
        assert one["pruned_at_least_as_much_as_minmax"] == one["queries"]
    stores = {(store["suite"], store["layout"], store["form"]): store for store in found["stores"]}
    assert len(stores) == 3 * 2
    for (suite, layout, form), store in stores.items():
        assert store["rows"] == stores[suite, layout, "light"]["rows"]
        assert set().union(*store["codecs"].values()) - {"none"} == ({"zstd"} if form == "codec" else set())
        assert store["stored_bytes"] <= stores[suite, layout, "light"]["stored_bytes"] < store["plain_bytes"]


def test_facts_can_be_clustered_by_what_the_queries_filter_on(data: Path, tmp_path: Path) -> None:
    facts = golap.SUITES["ssb"]
    assert facts.of("clustered", facts.queries.values()) is facts
    flight = [facts.queries[name] for name in ("1.1", "1.2", "1.3")]
    assert facts.of("filtered", flight).sideways == (
        "lo_orderdate=date.d_datekey:d_year,d_yearmonthnum,d_weeknuminyear",
    )
    some = facts.of("filtered", [facts.queries["2.1"], facts.queries["3.2"]])
    assert some.label == "c_nation+s_region+s_nation+p_category+d_year-"
    done = run(data, tmp_path, "--suites", "ssb,taxi", "--layouts", "filtered")
    assert done.exit_code == 2
    assert "taxi are clustered by what queries filter on already" in " ".join(done.output.replace("│", " ").split())
    options = ["--suites", "ssb", "--queries", "1.2", "--layouts", "clustered,filtered", "--codec", "lz4"]
    sizes = ["--set", "zone_rows=1024", "--set", "segment_rows=2048", "--set", "pruning_metadata=all"]
    found = report(data / "filtered", tmp_path, "golap", "--device", "cpu", *options, *sizes)
    pruned = {row["layout"]: row["pruned"] for row in found["results"] if row["mode"] == "pruning"}
    assert all(row["same_answer"] for row in found["results"])
    # A month of seven years is contiguous, where it is not spread over regions.
    assert pruned["filtered"] > 0.95 > pruned["clustered"]


def test_taxi_queries_are_duckdbs(data: Path) -> None:
    with bars(quiet=True) as bar:
        database = golap.prepare(golap.SUITES["taxi"], golap.Shape("clustered"), golap.Place(data, 0.01, {}, bar))
    with duckdb.connect() as theirs, warpmill.connect(database, device="cpu") as ours:
        theirs.register("trips", ours.sql("SELECT * FROM trips").arrow())
        for name, sql in golap.TAXI.items():
            expected = sorted(theirs.execute(sql).fetchall())
            found = sorted(ours.sql(sql).fetchall())
            assert [row[:-1] for row in found] == [row[:-1] for row in expected]
            assert [float(row[-1]) for row in found] == pytest.approx([float(row[-1]) for row in expected])
            # A quarter of the trips, and two in a hundred.
            (kept,) = theirs.execute(f"SELECT count(*) FROM trips WHERE {condition(sql)}").fetchone() or (0,)
            assert kept / 100_000 == pytest.approx(0.25 if name.endswith(".1") else 0.02, rel=0.2)


def condition(sql: str) -> str:
    (found,) = re.findall(r"WHERE (.*)", sql)
    return str(found)


def test_copied_facts_are_the_sorted_ones_in_their_order(data: Path) -> None:
    facts = golap.SUITES["ssb"]
    with bars(quiet=True) as bar:
        place = golap.Place(data / "copies", 0.03, {}, bar)
        first = golap.prepare(facts, golap.Shape("clustered"), place)
        copy = golap.prepare(facts, golap.Shape("clustered", "codec", "lz4", segment_rows=8192), place)
        alike = golap.prepare(facts, golap.Shape("clustered", "codec", "lz4"), place)
    keys = "SELECT lo_orderkey, lo_linenumber FROM lineorder"
    with warpmill.connect(first, device="cpu") as one, warpmill.connect(copy, device="cpu") as other:
        assert one.sql(keys).fetchall() == other.sql(keys).fetchall()
        # Sorted rows are cut into smaller segments than others, copies of them as they are.
        segments = [sum(con.inspect("lineorder")[0]["encodings"].values()) for con in (one, other)]
        assert segments == [3, 22]
        with warpmill.connect(alike, device="cpu") as same:
            assert sum(same.inspect("lineorder")[0]["encodings"].values()) == 3
        # Attributes of dimensions came along.
        assert golap.counters(other.sql(facts.queries["3.1"]).profile)[1]["zones_by_sideways"] > 0


@pytest.mark.parametrize("kind", [pytest.param("zones", marks=pytest.mark.long), "chunks"])
def test_smaller_zones_and_chunks_prune_more(data: Path, tmp_path: Path, kind: str) -> None:
    options = ["--values", "2048,65536", "--layouts", "clustered", "--queries", "3.1", "--device", "cpu"]
    found = report(data, tmp_path, f"golap-{kind}", "--sweep", kind, *options)
    rows = {(row["value"], row["mode"]): row for row in found["results"]}
    assert len(rows) == 2 * len(golap_sweeps.SIZES[kind][1])
    assert all(row["same_answer"] for row in rows.values())
    assert rows[2048, "pruning"]["pruned"] > rows[65536, "pruning"]["pruned"]
    assert rows[2048, "pruning"]["zones"] > rows[65536, "pruning"]["zones"]
    assert rows[2048, "pruning"]["pruned"] >= rows[2048, "minmax"]["pruned"]


@needs_sim
def test_pipelines_are_swept_on_a_device(data: Path, tmp_path: Path) -> None:
    with warpmill.connect() as con:
        try:
            golap_sweeps.supported(con)
        except warpmill.Error as error:
            pytest.skip(str(error))
    options = ["--device", "sim", "--pipelines", "1,3", "--values", "64KiB,1MiB"]
    found = report(data, tmp_path, "golap-pipelines", "--sweep", "pipelines", *options)
    rows = found["results"]
    assert len(rows) == 2 * 2 * 2 * 2
    assert all(row["same_answer"] and row["device"] == "sim" for row in rows)
    assert {(row["pipelines"], row["batch_bytes"]) for row in rows} == {
        (count, size) for count in (1, 3) for size in (65536, 1048576)
    }
    # All of the column travels each time.
    assert min(row["moved_bytes"] for row in rows) >= found["stores"][0]["stored_bytes"] * 0.99


@needs_sim
@pytest.mark.long
def test_joins_with_more_customers_than_fit(data: Path, tmp_path: Path) -> None:
    options = ["--device", "sim", "--values", "500", "--queries", "3.1"]
    found = report(data, tmp_path, "golap-coexecution", "--sweep", "coexecution", *options)
    rows = {(row["factor"], row["strategy"]): row for row in found["results"]}
    there = [name for name in golap_joins.STRATEGIES if name not in found["not_in_this_build"]]
    assert list(rows) == [(factor, name) for factor in (500,) for name in ("unlimited", *there)]
    assert all(row["same_answer"] and row["error"] is None for row in rows.values())
    assert rows[500, "unlimited"]["ran"] == "fits"
    assert rows[500, "hybrid"]["ran"] == "hybrid"
    assert rows[500, "hybrid"]["mapped_bytes"] > 0
    assert rows[500, "partitioned"]["ran"] == "partitioned"
    assert rows[500, "partitioned"]["bytes_again"] > 0
    assert (rows[500, "cpu"]["ran"], rows[500, "cpu"]["device"]) == ("cpu", "cpu")


@needs_sim
def test_a_strategy_that_takes_too_long_is_stopped(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golap_joins, "PATIENCE", 0.02)
    options = ["--device", "sim", "--values", "500", "--queries", "3.1", "--gpu-memory-limit", "1MiB"]
    found = report(data, tmp_path, "golap-coexecution", "--sweep", "coexecution", *options)
    stopped = {row["strategy"]: row for row in found["results"] if row["stopped"]}
    assert "partitioned" in stopped
    assert all(row["seconds"] is None and "stopped after" in row["error"] for row in stopped.values())


def test_more_customers_have_the_same_distribution(data: Path) -> None:
    with bars(quiet=True) as bar:
        place = golap.Place(data / "customers", 0.01, {}, bar)
        one, ten = (golap_joins.prepare(factor, place) for factor in (1, 10))
    sql = "SELECT lo_custkey, lo_revenue FROM lineorder"
    with warpmill.connect(one) as before, warpmill.connect(ten) as after:
        few: Counter[int] = Counter()
        many: Counter[int] = Counter()
        for (key, _), count in Counter(before.sql(sql).fetchall()).items():
            few[key] += count
        for (key, _), count in Counter(after.sql(sql).fetchall()).items():
            many[(key - 1) // 10 + 1] += count
        assert few == many
        ((customers, used),) = after.sql(
            "SELECT (SELECT max(c_custkey) FROM customer), (SELECT count(DISTINCT lo_custkey % 10) FROM lineorder)"
        ).fetchall()
        assert (customers, used) == (3000, 10)


def test_the_disk_is_measured_by_large_files_only(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    file = tmp_path / "table" / "1.data"
    file.write_bytes(bytes(1 << 20))
    assert disk_gb_per_s(tmp_path) is None
    file.write_bytes(bytes(16 << 20))
    rate = disk_gb_per_s(tmp_path, seconds=0.5)
    assert rate is None or rate > 0
    disk = Disk()
    disk.measure()
    assert disk.gb_per_s is None
    disk.database = tmp_path
    disk.measure()
    disk.measure()
    assert (disk.gb_per_s is None) == (rate is None)


@pytest.mark.parametrize(
    "options",
    [
        ["--suites", "tpcds"],
        ["--layouts", "sorted"],
        ["--suites", "ssb", "--queries", "9.9"],
        ["--values", "1024"],
        ["--sweep", "zones", "--values", "many"],
        ["--sweep", "zones", "--values", "0"],
        ["--sweep", "pipelines", "--device", "cpu"],
        ["--sweep", "coexecution", "--suites", "tpch", "--device", "sim"],
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, options: list[str]) -> None:
    assert run(tmp_path, tmp_path, *options).exit_code == 2
