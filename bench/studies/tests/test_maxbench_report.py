"""The model and the page of reports whose links, complexities and efficiencies are known."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic import INPUTS, QUERIES, SIZES, TABLES, matrix, on_cpu
from typer.testing import CliRunner

from warpmill.cli import app
from warpmill_bench.maxbench import errors
from warpmill_bench.maxbench.fits import Link
from warpmill_bench.maxbench.observations import observe, short
from warpmill_bench.maxbench.report import Report

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

H100: dict[str, Any] = {"gpu": "H100", "efficiency": 1.0, "bmax": 55e9, "s0": 1e5}
H200: dict[str, Any] = {"gpu": "H200", "efficiency": 1.3, "bmax": 57e9, "s0": 2e5}


@pytest.fixture(scope="module")
def exact() -> Report:
    """Two machines without noise, whose copies do not overlap with other work."""
    return Report([matrix(**H100), matrix(**H200)])


def test_what_the_machines_were_made_of_is_found_again(exact: Report) -> None:
    model = exact.model
    assert model.left_out == ()
    assert {one.title: (round(one.link.bmax / 1e9, 6), round(one.link.s0)) for one in model.links} == {
        "pinned to device (H100)": (55.0, 100_000),
        "pinned to device (H200)": (57.0, 200_000),
    }
    found = model.characteristics
    assert found is not None
    assert dict(zip(found.devices, found.efficiency, strict=True)) == pytest.approx({"H100": 1.0, "H200": 1.3})
    slopes = {f"tpch {name}": slope for name, (slope, _) in QUERIES.items()}
    assert dict(zip(found.queries, found.complexity, strict=True)) == pytest.approx(slopes)
    assert found.share == pytest.approx(1.0)
    assert model.weights == pytest.approx({("tpch", name): INPUTS[name] / TABLES for name in QUERIES})
    for (query, device), one in model.lines.items():
        assert one.line.b == pytest.approx(QUERIES[query[1]][1]), device
    for how in model.handling.values():
        assert (how.overlap, how.each) == pytest.approx((0.0, 0.0), abs=1e-9)
    (selection,) = {(one.kept, round(one.filtering, 15)) for one in model.selections.values()}
    assert selection == (0.02, 5e-11)


def test_predictions_of_what_was_held_out_are_right(exact: Report) -> None:
    kinds = {one.held_out for one in exact.predictions}
    assert kinds == {"size", "query", "device", "transfers", "copies", errors.HANDLED}
    assert max(abs(one.error) for one in exact.predictions) < 1e-6
    count = len(SIZES) * len(QUERIES) * 2
    assert sum(one.held_out == "size" for one in exact.predictions) == count
    # Probes are no predictions.
    assert sum(one.held_out == "device" for one in exact.predictions) == (len(QUERIES) - errors.PROBES) * len(SIZES) * 2
    for kind in ("query", "copies", "transfers", errors.HANDLED):
        assert sum(one.held_out == kind for one in exact.predictions) == count, kind


def test_overlap_is_an_error_of_the_model_without_it() -> None:
    found = Report([matrix(**H100, overlap=0.8)])
    assert [one.overlap for one in found.model.handling.values()] == pytest.approx([0.8])
    medians = {row["held_out"]: row["median_error"] for row in errors.summary(found.predictions)}
    assert medians["copies"] > 0.1
    assert medians[errors.HANDLED] < 1e-6
    # One device cannot be held out.
    assert not {"device", "query"} & set(medians)


def test_each_copy_has_its_costs() -> None:
    found = Report([matrix(**H100, pieces=40, each=2e-5)])
    (one,) = found.model.handling.values()
    assert one.each == pytest.approx(2e-5)
    medians = {row["held_out"]: row["median_error"] for row in errors.summary(found.predictions)}
    assert medians["transfers"] < 1e-6
    assert medians["copies"] > 0.03
    assert medians[errors.HANDLED] < 1e-6
    # Configurations have as many copies as were seen.
    row = next(row for row in found.configurations() if row["link"] == "pinned to device (H100)")
    copies, each = 40 * SIZES[-1], Link(55e9, 1e5)
    copying = sum(float(each.seconds(bytes_in * SIZES[-1], copies)) for bytes_in in INPUTS.values())
    assert row["per_query_seconds"] - row["operators_seconds"] == pytest.approx(copying)


def test_costs_of_copies_come_from_other_queries_at_other_sizes() -> None:
    report = matrix(**H100, pieces=40, each=2e-5)
    strange = [row for row in report["runs"] if row["query"] == "6" and row["location"] == "pinned"]
    for row in strange:
        row["median_ms"] += 50 * row["transfers"]["to device"]["count"] * 2e-2
    # The prediction for a query does not depend on its own times.
    own = [one for one in Report([report]).predictions if one.held_out == errors.HANDLED and one.query[1] == "6"]
    other = Report([matrix(**H100, pieces=40, each=2e-5)]).predictions
    expected = [one for one in other if one.held_out == errors.HANDLED and one.query[1] == "6"]
    assert [one.predicted for one in own] == pytest.approx([one.predicted for one in expected])
    assert all(abs(one.error) > 0.5 for one in own)
    # One suite at one size has no others.
    report["runs"] = [row for row in report["runs"] if row["size"] == 1.0]
    assert {one.held_out for one in Report([report]).predictions} == {"copies", "transfers"}


def test_a_query_at_one_size_takes_its_time_in_place() -> None:
    report = matrix(**H100)
    report["runs"] = [row for row in report["runs"] if row["query"] != "6" or row["size"] == 3.0]
    found = Report([report])
    assert (("tpch", "6"), "H100") not in found.model.lines
    (copied,) = (one for one in found.predictions if one.held_out == "copies" and one.query[1] == "6")
    assert abs(copied.error) < 1e-6


def test_a_cpu_and_a_gpu_are_of_different_kinds() -> None:
    report = matrix(**H100)
    report["runs"] += on_cpu(report, 0.05)
    found = Report([report])
    kinds = {(row["held_out"], row["device"]): row["largest_error"] for row in errors.summary(found.predictions)}
    cpu = "CPU (AMD EPYC 9124, 16 cores)"
    wanted = {(f"{what} {errors.ANOTHER}", device) for what in ("query", "device") for device in (cpu, "H100")}
    assert wanted <= set(kinds)
    assert max(kinds[at] for at in wanted) < 1e-6
    assert not {("query", cpu), ("device", "H100")} & set(kinds)


def test_cores_of_a_cpu_are_devices_of_one_kind() -> None:
    whole, half = matrix(**H100), matrix(**H100)
    whole["runs"] = on_cpu(whole, 0.05)
    half["runs"] = on_cpu(half, 0.03)
    half["machine"]["cores"] = 8
    found = Report([whole, half])
    assert found.seen.devices() == ["CPU (AMD EPYC 9124, 16 cores)", "CPU (AMD EPYC 9124, 8 cores)"]
    assert found.model.characteristics is not None
    assert found.model.characteristics.efficiency == pytest.approx([5 / 3, 1.0])
    queries = [one for one in found.predictions if one.held_out == "query"]
    assert len(queries) == 2 * len(QUERIES) * len(SIZES)
    assert max(abs(one.error) for one in queries) < 1e-6


def test_inputs_of_a_query_are_of_one_kind() -> None:
    report = matrix(**H100)
    cpu = on_cpu(report, 0.05)
    report["runs"] += cpu
    assert {run.input_bytes for run in observe([report]).runs if run.query[1] == "6"} == {
        INPUTS["6"] * size for size in SIZES
    }
    # A time that is over before the largest size is copied: bytes that the CPU reads there are no other inputs.
    report["runs"] = [row for row in report["runs"] if row["location"] != "pinned" or row["size"] < SIZES[-1]]
    found = {run.size: run.input_bytes for run in observe([report]).runs if run.query[1] == "6"}
    assert found == pytest.approx({size: INPUTS["6"] * size / 5 for size in SIZES})
    assert max(abs(one.error) for one in Report([report]).predictions) < 1e-6


def test_the_best_times_may_count() -> None:
    report = matrix(**H100)
    for row in report["runs"]:
        row["median_ms"] *= 1.5
    model = Report([report], times="best").model
    assert model.lines[("tpch", "6"), "H100"].line.a == pytest.approx(QUERIES["6"][0])
    assert Report([report]).model.lines[("tpch", "6"), "H100"].line.a == pytest.approx(1.5 * QUERIES["6"][0])


def test_a_device_that_is_not_like_the_others_is_seen() -> None:
    strange = matrix(**H200)
    for row in strange["runs"]:
        if row["query"] in ("1", "6"):
            row["median_ms"] *= 4
    found = Report([matrix(**H100), strange])
    assert found.model.characteristics is not None
    assert found.model.characteristics.largest_error > 0.3
    medians = {(row["held_out"], row["device"]): row["largest_error"] for row in errors.summary(found.predictions)}
    assert medians["device", "H200"] > 0.3
    assert medians["size (between others)", "H200"] < 1e-6


def test_limits_and_configurations_follow_from_the_parts(exact: Report) -> None:
    content = exact.as_json("warpmill bench model", "2026-11-26", None)
    limits = {(row["device"], row["policy"]): row["gb_per_s"] for row in content["limits"]}
    computing = sum(INPUTS[name] / TABLES * slope for name, (slope, _) in QUERIES.items())
    copied = sum(INPUTS.values()) / TABLES
    assert limits["H100", "per query"] == pytest.approx(copied / computing / 1e9)
    assert limits["H200", "per data set"] == pytest.approx(1.3 / computing / 1e9)
    rows = {(row["device"], row["link"]): row for row in content["configurations"]}
    assert {link for _, link in rows} >= {"pinned to device (H200)", "NVLink 4.0 (MaxBench)"}
    # A configuration that was not measured: the H200 behind the H100's link.
    row, size, link = rows["H200", "pinned to device (H100)"], SIZES[-1], Link(55e9, 1e5)
    operators = sum(slope / 1.3 * INPUTS[name] * size + fixed for name, (slope, fixed) in QUERIES.items())
    each = sum(float(link.seconds(bytes_in * size)) for bytes_in in INPUTS.values())
    assert row["per_query_seconds"] == pytest.approx(operators + each)
    assert row["per_data_set_seconds"] == pytest.approx(operators + float(link.seconds(TABLES * size)))
    assert row["transfer_share_per_query"] == pytest.approx(each / (operators + each))


def test_engines_are_summed_over_the_queries_that_all_have_run() -> None:
    report = matrix(**H100)
    own = [row for row in report["runs"] if row["location"] == "device" and row["size"] == 1.0]
    peer = [
        {**row, "engine": "duckdb", "site": "cpu", "location": "host", "median_ms": 2 * row["median_ms"]} for row in own
    ]
    report["runs"] += [row for row in peer if row["query"] != "18"]
    rows = [row for row in Report([report]).engines() if row["size"] == 1.0]
    assert {row["queries"] for row in rows} == {len(QUERIES) - 1}
    sums = {(row["engine"], row["location"]): row["total_ms"] for row in rows}
    assert sums["warpmill", "device"] == pytest.approx(sum(row["median_ms"] for row in own if row["query"] != "18"))
    assert sums["duckdb", "host"] == pytest.approx(2 * sums["warpmill", "device"])
    assert next(row["device"] for row in rows if row["engine"] == "duckdb") == "CPU (AMD EPYC 9124, 16 cores)"


def test_runs_that_tell_nothing_are_left_out() -> None:
    report = matrix(**H100)
    wrong, strayed, failed = (copy.deepcopy(report["runs"][0]) for _ in range(3))
    wrong |= {"verified": False, "median_ms": 1e9}
    strayed |= {"devices": ["cpu", "gpu"], "median_ms": 1e9}
    failed |= {"median_ms": None, "error": "out of memory"}
    report["runs"] += [wrong, strayed, failed]
    found = observe([report])
    assert found.runs == observe([matrix(**H100)]).runs
    where = "tpch 1, warpmill on gpu from device"
    assert found.left_out == (
        f"{where}: its rows differ from DuckDB's",
        f"{where}: it ran on cpu and gpu",
        f"{where}: it has no time: out of memory",
    )
    assert found.left_out == Report([report]).model.left_out


def test_a_query_that_one_device_could_not_run_is_completed() -> None:
    small = matrix(**H100)
    small["runs"] = [row for row in small["runs"] if row["query"] != "18"]
    found = Report([small, matrix(**H200)]).model.characteristics
    assert found is not None
    assert found.slope("tpch 18", "H100") == pytest.approx(QUERIES["18"][0])


def test_processors_have_short_names() -> None:
    assert short("NVIDIA H100 80GB HBM3") == "H100"
    assert short("NVIDIA H200") == "H200"
    assert short("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz") == "Intel Xeon Platinum 8481C"
    assert short("AMD EPYC 9124 16-Core Processor") == "AMD EPYC 9124"


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", "model", *map(str, arguments)])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the command over two noisy machines, one of them with HTML in its name."""
    folder: Path = tmp_path_factory.mktemp("model")
    evil = matrix(**H200, noise=0.03, overlap=0.4, seed=2)
    evil["skipped"].append({"what": "<script>alert(1)</script>", "reason": "a & b"})
    for name, report in {"h100": matrix(**H100, noise=0.03, overlap=0.4, seed=1), "h200": evil}.items():
        (folder / f"{name}.json").write_text(json.dumps(report))
    done = bench(folder / "h100.json", folder / "h200.json", "--link", "PCIe 7.0=242e9", "--out", folder / "out")
    assert done.exit_code == 0, done.output
    assert "pinned to device (H100)" in done.output
    return folder / "out"


def test_the_command_writes_numbers_that_are_near(written: Path) -> None:
    content: dict[str, Any] = json.loads((written / "model.json").read_text())
    assert content["characteristics"]["devices"]["H200"] == pytest.approx(1.3, rel=0.05)
    assert "PCIe 7.0" in {row["link"] for row in content["configurations"]}
    by_kind = {(row["held_out"], row["device"]): row["median_error"] for row in content["errors"]}
    assert by_kind["device", "H200"] < 0.15
    assert by_kind[errors.HANDLED, "H100"] < 0.1
    assert by_kind["query", "H200"] < 0.1
    assert content["matrices"][0]["commit"] == "0123456789ab"


def test_the_page_asks_for_nothing_and_hides_nothing(written: Path) -> None:
    text = (written / "report.html").read_text()
    for asking in (r"<script[^>]*src", r"<link(?![^>]*href=\"data:,)", r"@import", r"url\((?!#)", r"<img", r"<iframe"):
        assert re.search(asking, text) is None, asking
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "a &amp; b" in text
    for number in ("2", "3", "4", "5", "6", "7", "8", "9"):
        assert f"(Figure {number} of the paper)" in text, number
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(picture)
    # Every run has its row, with its value for sorting.
    runs = text[text.index('id="runs"') : text.index('id="missing"')]
    shown = re.findall(r"<tr><td>tpch</td>.*?</tr>", runs)
    assert len(shown) == 2 * 2 * len(SIZES) * len(QUERIES)
    medians = {row["median_ms"] for row in matrix(**H100, noise=0.03, overlap=0.4, seed=1)["runs"]}
    assert all(f'data-v="{median!r}"' in runs for median in medians)
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "ids of one picture are those of another"


def test_reports_that_are_none_are_named(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    for content, message in (
        ("{", "is no JSON"),
        ('{"benchmark": "golap"}', "is no report of"),
        ('{"benchmark": "matrix", "form": 99}', "has the form 99"),
    ):
        path.write_text(content)
        done = bench(path)
        assert done.exit_code == 1
        assert message in done.output
    empty = matrix(**H100) | {"runs": []}
    path.write_text(json.dumps(empty))
    assert "there is nothing to fit" in bench(path).output
    path.write_text(json.dumps(matrix(**H100)))
    for link in ("fast=x", "fast=-1", "fast=nan"):
        assert bench(path, "--link", link).exit_code == 2, link


def test_errors_are_summed_up_by_what_is_held_out() -> None:
    def one(measured: float, predicted: float, between: bool) -> errors.Prediction:
        return errors.Prediction("size", ("tpch", "1"), "H100", "in place", 1.0, measured, predicted, between)

    rows = errors.summary([one(1, 1.1, True), one(1, 0.8, True), one(1, 1.3, True), one(2, 2, False)])
    assert [row["held_out"] for row in rows] == ["size (between others)", "size (beyond others)"]
    assert rows[0]["median_error"] == pytest.approx(0.2)
    assert rows[0]["median_signed"] == pytest.approx(0.1)
    assert rows[0]["largest_error"] == pytest.approx(0.3)
    probes = errors.probe_rows(np.arange(9.0)[::-1])
    assert probes == [1, 4, 7]
