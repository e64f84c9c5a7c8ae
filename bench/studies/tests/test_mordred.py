"""Mordred's experiments on the simulated device: answers of all placements and policies, counts of the cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import warpmill
from warpmill import _warpmill
from warpmill.cli import app
from warpmill.cli.progress import bars
from warpmill_bench import mordred, mordred_workloads
from warpmill_bench.golap import Place

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

#: 60,073 rows of facts in segments of 1024.
SF = 0.01

QUERIES = dict(_warpmill.queries("ssb"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mordred")


@pytest.fixture(scope="module")
def database(data: Path) -> Path:
    with bars(quiet=True) as bar:
        return mordred.prepare(Place(data, SF, {}, bar), mordred.segment_rows(SF))


def study(database: Path, names: tuple[str, ...] = ("1.1", "3.1"), runs: int = 1) -> mordred.Study:
    types = mordred.facts(database)["types"]
    settings = {"device": "sim", "threads": "2"}
    return mordred.Study(database, types, settings, {name: QUERIES[name] for name in names}, runs, lambda _: None)


def run(data: Path, out: Path, *options: object) -> Any:
    shown = ["bench", "mordred", "--sf", SF, "--device", "sim", "--runs", 1, "--data", data, "--out", out, *options]
    return CliRunner().invoke(app, [str(argument) for argument in shown])


def report(data: Path, out: Path, what: str, *options: object) -> Any:
    done = run(data, out, "--what", what, *options)
    assert done.exit_code == 0, done.output
    found = json.loads((out / "mordred.json").read_text())
    assert list(found["experiments"]) == what.split(",")
    assert (found["wrong"], found["errors"]) == ([], [])
    for name in found["experiments"]:
        assert (out / f"mordred-{name}.png").stat().st_size > 10_000
    return found


def test_facts_are_sorted_by_date_in_as_many_segments_as_were_asked_for(database: Path) -> None:
    facts = mordred.facts(database)
    assert facts["segments"] == -(-facts["rows"] // 1024) == 59
    with warpmill.connect(database, device="cpu") as con:
        dates = [row[0] for row in con.sql("SELECT lo_orderdate FROM lineorder").fetchall()]
    assert dates == sorted(dates)
    assert [mordred.segment_rows(sf) for sf in (0.01, 1, 100, 1000)] == [1024, 65536, 1048576, 1048576]


@pytest.mark.long
def test_every_placement_has_the_same_answers_at_every_size(data: Path, tmp_path: Path) -> None:
    options = ["--points", "0,50,100", "--queries", "1.1,3.1", "--json", tmp_path / "again.json"]
    found = report(data, tmp_path, "baselines", *options)
    assert json.loads((tmp_path / "again.json").read_text()) == found
    assert (found["suite"], found["device"], found["column_bytes_fit"]) == ("mordred", "sim", True)
    assert found["column_bytes"] > 0
    one = found["experiments"]["baselines"]
    assert (one["kind"], one["first"]) == ("repeated", "new statement")
    rows = {(row["percent"], row["placement"]): row for row in one["results"]}
    assert list(rows) == [(percent, name) for percent in (0, 50, 100) for name in mordred.PLACEMENTS]
    for (percent, name), row in rows.items():
        assert (row["same_answer"], row["error"], row["repeated"]) == (True, None, True)
        assert list(row["queries"]) == ["1.1", "3.1"]
        assert row["ms"] == pytest.approx(sum(query["ms"] for query in row["queries"].values()))
        for kind in mordred.TRAFFIC:
            assert row[kind] == sum(query[kind] for query in row["queries"].values())
        if name == "cpu":
            assert row["gpu_bytes"] == row["link_bytes"] == 0 < row["cpu_bytes"]
            continue
        assert row["steady"]
        assert row["copies_bytes"] <= row["limit_bytes"]
        if name in ("gpu", "gpu_streaming"):
            assert row["cpu_bytes"] == 0 < row["gpu_bytes"]
            assert all(query["device"] == "sim" for query in row["queries"].values())
        if name != "gpu_streaming":
            assert (row["hits"] == 0) == (percent == 0)
            assert (row["misses"] == 0) == (percent == 100)
    # With copies of all segments almost nothing is transferred; the transfers saved equal the bytes found in copies.
    segments = [rows[percent, "gpu"] for percent in (0, 50, 100)]
    assert segments[0]["link_bytes"] > segments[1]["link_bytes"] > segments[2]["link_bytes"]
    assert segments[2]["link_bytes"] < 0.05 * segments[0]["link_bytes"]
    assert rows[0, "gpu_streaming"]["link_bytes"] == rows[100, "gpu_streaming"]["link_bytes"]
    assert len({row["hits"] + row["misses"] for row in segments}) == 1
    assert len({row["hit_bytes"] + row["miss_bytes"] for row in segments}) == 1
    # Each query ran twice: segments without copies were transferred, besides constants and results.
    for row in segments:
        assert 2 * row["link_bytes"] == pytest.approx(row["miss_bytes"], rel=0.01, abs=20_000)


def test_verdicts_are_against_the_better_site_and_the_sum_of_rates() -> None:
    def row(placement: str, percent: float, **ms: float) -> mordred.Row:
        queries = {name: {"ms": value, "segments": [3, 4] if name == "a" else []} for name, value in ms.items()}
        return {"placement": placement, "percent": percent, "ms": sum(ms.values()), "queries": queries}

    rows = [row("cpu", 25, a=30, b=30), row("gpu", 25, a=10, b=60), row("gpu_streaming", 25, a=20, b=70)]
    rows += [row("segment", 25, a=8, b=20), row("cpu", 50, a=1, b=1), row("segment", 50, a=1, b=1)]
    (verdict,) = mordred.verdicts(rows)
    assert (verdict["percent"], verdict["best"], verdict["best_ms"], verdict["hybrid_ms"]) == (25, "cpu", 60, 28)
    assert verdict["speedup"] == pytest.approx(60 / 28)
    assert verdict["of_sum"] == pytest.approx((7.5 + 20) / 28)
    assert (verdict["worst_query"], verdict["worst_query_speedup"]) == ("a", pytest.approx(10 / 8))
    assert verdict["not_shared"] == ["b"]


@pytest.mark.slow
def test_reads_are_counted_without_those_of_the_study(database: Path) -> None:
    one = study(database)
    every = 200
    found = {}
    for policy in mordred.POLICIES:
        with one.session(mordred.PLACEMENTS["gpu"], mordred.mirror(policy, 100_000, every)) as session:
            cache = mordred.Cache(session)
            cache.begin()
            # The next one is as far away as can be.
            cache.replace()
            cache.look()
            assert set(cache.read.values()) == {0}
            for _ in range(2):
                for sql in one.queries.values():
                    session.run(sql)
                cache.look()
            first = dict(cache.read)
            # Copies are of the one column that the study's own queries read.
            assert first["hits"] in (0, 4)
            assert first["misses"] > 100
            cache.replace()
            assert cache.read == first
            assert cache.moved()["replacements"] >= 1
            assert cache.moved()["copied_bytes"] > 0
            for _ in range(2):
                for sql in one.queries.values():
                    session.run(sql)
            cache.look()
            found[policy] = cache.read["hits"] - first["hits"], cache.read["misses"] - first["misses"]
            # The same queries read as much again, whatever there are copies of.
            assert sum(found[policy]) == first["hits"] + first["misses"]
            both = [reads["hit_bytes"] + reads["miss_bytes"] for reads in (first, cache.read)]
            assert both[1] == 2 * both[0]
            columns = cache.columns(one.queries.values())
            assert columns is not None
            assert set(columns) >= {"lo_orderdate", "lo_revenue", "c_region", "d_year"}
            assert 0 < sum(column["cached_bytes"] for column in columns.values()) <= cache.bytes <= 100_000
            assert all(column["cached_bytes"] <= column["bytes"] for column in columns.values())
            if policy.endswith("_column"):
                # Columns that queries read completely are cached completely or not at all.
                assert columns["lo_custkey"]["cached_bytes"] in (0, columns["lo_custkey"]["bytes"])
    assert (one.wrong, one.errors) == ([], [])
    assert all(hits > 4 for hits, _ in found.values())
    assert len({hits + misses for hits, misses in found.values()}) == 1


@pytest.mark.long
def test_sizes_say_what_is_cached_by_policy(data: Path, tmp_path: Path) -> None:
    options = ["--points", "30,100", "--queries", "1.1,3.1", "--policies", "lfu_column,semantic"]
    found = report(data, tmp_path, "sizes", *options)["experiments"]["sizes"]
    rows = {(row["percent"], row["policy"]): row for row in found["results"]}
    assert list(rows) == [(percent, policy) for percent in (30, 100) for policy in ("lfu_column", "semantic")]
    for (percent, _), row in rows.items():
        cached = sum(column["cached_bytes"] for column in row["cached"].values())
        assert 0 < cached <= row["limit_bytes"]
        assert row["copied_bytes"] > 0
        assert row["copies"] > 0
        if row["hit_rate"] is not None:
            assert row["hit_rate"] == row["hit_bytes"] / (row["hit_bytes"] + row["miss_bytes"])
        if percent == 100:
            assert (row["misses"], row["evictions"]) == (0, 0)
    assert [(gain["percent"], gain["best_other"]) for gain in found["gains"]] == [
        (30, "lfu_column"),
        (100, "lfu_column"),
    ]


@pytest.mark.slow
def test_workloads_count_what_policies_do(data: Path, tmp_path: Path) -> None:
    options = ["--rounds", "2", "--batch", "8", "--skew", "0,2", "--policies", "lru_segment,semantic", "--at", "30"]
    found = report(data, tmp_path, "skew,phases", *options)
    skew, phases = found["experiments"]["skew"], found["experiments"]["phases"]
    labels = [(row["workload"], row["policy"]) for row in skew["results"]]
    assert labels == [(theta, policy) for theta in ("0", "2") for policy in ("lru_segment", "semantic")]
    assert [(one["workload"], one["statements"]) for one in phases["cpu"]] == [("phases", 16)]
    for row in [*skew["results"], *phases["results"]]:
        assert (row["same_answer"], row["error"], row["repeated"]) == (True, None, True)
        # A replacement after each batch.
        assert row["replacements"] == len(row["batches_ms"]) == 2
        assert row["ms"] == pytest.approx(sum(row["batches_ms"]))
        assert row["run_ms"] <= row["ms"]
        assert 0 < row["new_statements"] <= 16
        assert row["new_statements_ms"] <= row["first_ms"]
        assert row["copies_bytes"] <= 0.3 * found["column_bytes"]
    # The more skewed a workload is, the fewer different statements it has.
    different = {one["workload"]: one["different"] for one in skew["cpu"]}
    assert different["2"] < different["0"]
    assert phases["phase_batches"] == 1


@pytest.mark.slow
def test_optimizations_are_left_out_one_by_one(data: Path, tmp_path: Path) -> None:
    found = report(data, tmp_path, "optimizations", "--at", "50", "--queries", "1.1")["experiments"]["optimizations"]
    rows = {(row["optimization"], row["variant"]): row for row in found["results"]}
    assert set(rows) == {
        ("all", None),
        ("none", None),
        *((name, variant) for name in mordred.OPTIMIZATIONS for variant in ("without", "alone")),
    }
    assert all(row["same_answer"] and row["error"] is None for row in rows.values())
    every, none = (rows[name, None]["ms"] for name in ("all", "none"))
    for (_, variant), row in rows.items():
        if variant is not None:
            quotient = row["ms"] / every if variant == "without" else none / row["ms"]
            assert row["speedup"] == pytest.approx(quotient)

    def read(name: str, variant: str | None) -> int:
        return int(rows[name, variant]["cpu_bytes"] + rows[name, variant]["gpu_bytes"])

    # The query selects one year of seven.
    assert read("segment skipping", "without") > 3 * read("all", None)
    assert read("segment skipping", "alone") < read("none", None) / 3


@pytest.mark.long
def test_a_wrong_answer_and_a_failing_query_are_told(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--what", "baselines", "--points", "50", "--queries", "1.1", "--placements"]
    monkeypatch.setattr(mordred.Study, "expected", lambda _, sql: [(len(sql),)])
    done = run(data, tmp_path / "wrong", *options, "cpu,segment")
    assert done.exit_code == 1
    assert "another answer than the CPU's" in done.output
    found = json.loads((tmp_path / "wrong" / "mordred.json").read_text())
    assert not any(row["same_answer"] for row in found["experiments"]["baselines"]["results"])
    assert {row["rows"] for row in found["wrong"]} == {1}
    monkeypatch.undo()
    monkeypatch.setitem(mordred.PLACEMENTS, "segment", {"device": "gpu", "device_fallback": "error"})
    if not json.loads(_warpmill.devices())["gpus"]:
        done = run(data, tmp_path / "failing", *options, "cpu,segment")
        assert done.exit_code == 1
        assert "did not run" in done.output
        found = json.loads((tmp_path / "failing" / "mordred.json").read_text())
        rows = {row["placement"]: row for row in found["experiments"]["baselines"]["results"]}
        assert rows["cpu"]["error"] is None is rows["segment"]["ms"]
        assert rows["segment"]["error"]


def test_months_are_drawn_as_papers_say() -> None:
    months = mordred_workloads.MONTHS
    assert (months[0], months[-1], len(months)) == ((1998, 7), (1992, 1), 79)
    assert mordred_workloads.span(0, 1) == ("19980701", "19980731")
    assert mordred_workloads.span(0, 12) == ("19970801", "19980731")
    assert mordred_workloads.span(78, 12) == ("19920101", "19920131")
    flat, steep = (mordred_workloads.zipf(theta, 4000, 7) for theta in (0, 2))
    assert flat == mordred_workloads.zipf(0, 4000, 7)
    assert flat.count(0) / 4000 == pytest.approx(1 / 79, abs=0.01)
    assert steep.count(0) / 4000 == pytest.approx(0.61, abs=0.05)
    moving = mordred_workloads.phases(10, 200, 7)
    assert len(moving) == 11 * 200
    means = [sum(moving[at : at + 200]) / 200 for at in range(0, len(moving), 200)]
    # The first batch is not measured; then five are about one year ago, and five about four.
    assert all(mean == pytest.approx(12, abs=2) for mean in means[:6])
    assert all(mean == pytest.approx(48, abs=2) for mean in means[6:])
    # A session keeps the plans of 256 statements.
    assert len(set(mordred_workloads.statements(flat, 7))) < 200


@pytest.mark.parametrize(
    "options",
    [
        ["--what", "speed"],
        ["--points", "101"],
        ["--points", "some"],
        ["--skew", "-1"],
        ["--policies", "fifo"],
        ["--placements", "segments"],
        ["--queries", "9.9"],
        ["--segment-rows", "1000"],
        ["--device", "cpu"],
        ["--set", "nothing"],
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, options: list[str]) -> None:
    assert run(tmp_path, tmp_path, *options).exit_code == 2
