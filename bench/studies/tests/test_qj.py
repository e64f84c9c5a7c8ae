"""The suite of joins, selectivities, drives and codecs: right answers, all six columns moved, verdicts from numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from typer.testing import CliRunner

import warpmill
from warpmill import _warpmill
from warpmill.cli import app
from warpmill_bench import qj
from warpmill_bench.qj_findings import NOISE, auto_text, findings

if TYPE_CHECKING:
    from pathlib import Path


needs_sim = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)


def run(*args: object) -> Any:
    return CliRunner().invoke(app, ["bench", "qj", *map(str, args)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qj")


def test_answers_are_duckdbs_with_every_codec(data: Path, tmp_path: Path) -> None:
    # The second form is fixed: a choice by samples would depend on the current speed of the machine.
    options = ["--device", "cpu", "--runs", 1, "--selectivities", "0.02,0.5,1", "--heavy", "zstd"]
    done = run(*options, "--data", data, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "qj.json").read_text())
    assert (report["device"], report["drive_bandwidth"]) == ("cpu", 180e6)
    assert len(report["points"]) == 5 * 3
    assert len(report["results"]) == 5 * 3 * 6
    assert all(row["verified"] and row["error"] is None for row in report["results"])
    assert all(point["equal_answers"] and point["best"] in qj.FIXED for point in report["points"])
    assert (tmp_path / "qj.png").stat().st_size > 10_000
    # No drives are emulated on the CPU: nothing can be said.
    assert [finding["verdict"] for finding in report["findings"]] == ["not covered"] * 3
    for store in report["stores"]:
        used = {codec for codecs in store["columns"].values() for codec in codecs} - {"none"}
        assert used <= ({store["codec"]} if store["codec"] != "sampled" else {"lz4", "snappy", "zstd", "deflate"})
        # Both forms: each column without a codec, and columns that a codec makes smaller with it.
        assert (store["heavy_bytes"] > 0) == (store["codec"] == "auto")
        assert store["codec"] != "auto" or (not used and "lo_orderdate" in store["heavy"])
        assert store["stored_bytes"] <= store["light_bytes"] < store["plain_bytes"]
        assert set(store["columns"]) == set(qj.COLUMNS)
    # `--verify` compares with the CPU back end; that is compared with DuckDB here.
    with duckdb.connect() as theirs:
        for name in _warpmill.tables("ssb"):
            path = tmp_path / f"{name}.parquet"
            _warpmill.generate_parquet("ssb", name, 0.01, str(path), 0)
            theirs.execute(f"CREATE TABLE \"{name}\" AS SELECT * FROM '{path}'")
        stores = data / "ssb-sf0.01"
        (both,) = stores.glob("both-*")
        for codec in ("none", "lz4", "snappy", "zstd", both.name):
            with warpmill.connect(stores / codec, device="cpu") as ours:
                for joins in range(5):
                    sql = qj.query(joins, 0.3)
                    assert ours.sql(sql).fetchall() == theirs.execute(sql).fetchall()
        # The measured selectivity matches its name.
        kept = theirs.execute("SELECT avg((lo_quantity < 16)::INT) FROM lineorder").fetchone()
        assert kept is not None
        assert abs(kept[0] - 0.3) < 0.01


@needs_sim
@pytest.mark.long
def test_a_device_moves_all_columns_for_every_query(data: Path, tmp_path: Path) -> None:
    options = ["--device", "sim", "--runs", 1, "--joins", "0,4", "--selectivities", 1, "--data", data]
    options += ["--drives", "unlimited", "--gpu-memory-limit", "1GB", "--heavy", "zstd", "--out", tmp_path]
    done = run(*options)
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "qj.json").read_text())
    assert (report["device"], report["data_location"]) == ("sim", "disk")
    for row in report["results"]:
        assert row["verified"]
        assert row["moved_bytes"] >= row["stored_bytes"] * 0.99, row
        assert row["kernel_ms"] > 0
        if row["codec"] == "auto":
            # The choice and its reason, once all forms have been tried.
            assert set(row["choice"]["forms"]) == set(qj.COLUMNS)
            assert row["choice"]["reason"] in ("measured", "tried", "predicted")
            assert {fixed["form"] for fixed in row["choice"]["fixed"]} == {"light", "heavy", "heavy_host"}
    assert all(point["auto_over_best"] is not None for point in report["points"])
    assert all("simulated" in finding["text"] for finding in report["findings"])


def test_what_a_form_takes_is_what_is_stored_in_it() -> None:
    columns = [
        {"name": "a", "stored_bytes": 100, "heavy_bytes": 40, "once_bytes": 10},
        {"name": "b", "stored_bytes": 50, "heavy_bytes": 0, "once_bytes": 50},
    ]
    with warpmill.connect(device="cpu") as con:
        store = qj.Store("auto", con, columns)
        assert store.form_bytes({}) == 150
        assert store.form_bytes({"a": "light", "b": "light"}) == 150
        assert store.form_bytes({"a": "heavy", "b": "heavy"}) == 100
        assert store.form_bytes({"a": "heavy_host", "b": "light"}) == 100


@needs_sim
@pytest.mark.slow
def test_a_slow_drive_is_waited_for(data: Path, tmp_path: Path) -> None:
    # Half a megabyte at a megabyte per second, and at a hundred.
    options = ["--device", "sim", "--runs", 1, "--joins", 1, "--selectivities", 0.02, "--data", data]
    done = run(*options, "--drives", "1,100", "--drive-bandwidth", "1MB", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "qj.json").read_text())["results"]
    times = {(row["drives"], row["codec"]): row["median_s"] for row in results}
    assert {row["bandwidth"] for row in results} == {1e6, 100e6}
    # Not compared with a hundred: the simulated device may take as long as one drive.
    assert all(times[1, codec] > 0.3 for codec in qj.CODECS)


@pytest.mark.parametrize(
    "options",
    [
        ["--selectivities", "0.03"],
        ["--selectivities", "0"],
        ["--selectivities", "half"],
        ["--joins", "5"],
        ["--drives", "0"],
        ["--drives", "2", "--device", "cpu"],
        ["--drives", "2", "--device", "sim", "--data-location", "pinned"],
        ["--drive-bandwidth", "fast"],
        ["--data-location", "gpu"],
    ],
)
def test_what_cannot_be_swept_is_refused(options: list[str]) -> None:
    assert run(*options).exit_code == 2


RATIOS = {"none": 2.0, "lz4": 2.5, "snappy": 2.4, "zstd": 3.0, "sampled": 2.5, "auto": 2.5}
PLAIN, DRIVE = 24_000_000, 1e9


def made(
    decompress: dict[str, float], per_join: float, light: float = 0.0, drives: tuple[int, ...] = (1, 2, 4, 8)
) -> list[dict[str, Any]]:
    """Times of a machine that reads at its drives' rate, or is as slow as kernels and decompression together."""
    rows = []
    for count in drives:
        for joins in range(5):
            for part in (0.02, 0.5, 1.0):
                for codec, factor in RATIOS.items():
                    kernels = 0.001 + light + per_join * joins * part
                    work = kernels + decompress.get(codec, 0.0)
                    seconds = max(PLAIN / factor / (count * DRIVE), work)
                    rows.append(
                        {
                            "drives": count,
                            "joins": joins,
                            "selectivity": part,
                            "query": f"Q{joins}J",
                            "bandwidth": count * DRIVE,
                            "codec": codec,
                            "verified": True,
                            "median_s": seconds,
                            "plain_bytes": PLAIN,
                            "ratio": factor,
                            "kernel_ms": kernels * 1000,
                            "device": "gpu",
                        }
                    )
    return rows


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    return [finding["verdict"] for finding in findings(rows)]


def test_findings_follow_from_the_numbers() -> None:
    slow = {"lz4": 0.004, "snappy": 0.004, "zstd": 0.006}
    assert verdicts(made(slow, 0.0005)) == ["reproduced"] * 3
    # Decompression for free: codecs gain everywhere.
    assert verdicts(made({}, 0.00001)) == ["refuted", "partly reproduced", "reproduced"]
    # The device is the bottleneck everywhere: codecs make no difference.
    assert verdicts(made({}, 0.0, light=1.0))[1:] == ["refuted", "refuted"]
    # One number of drives says nothing about drives.
    assert verdicts(made(slow, 0.0005, drives=(1,)))[:2] == ["not covered"] * 2
    wrong = [{**row, "verified": False} for row in made(slow, 0.0005)]
    assert verdicts(wrong) == ["not covered"] * 3
    # On the CPU there are no kernels to time.
    assert verdicts([{**row, "kernel_ms": None} for row in made(slow, 0.0005)])[2] == "not covered"


def test_the_automatic_choice_is_judged_at_its_worst_point() -> None:
    points = [
        {"query": "Q0J", "selectivity": 0.5, "drives": 1, "best": "zstd", "auto_over_best": NOISE},
        {"query": "Q4J", "selectivity": 1.0, "drives": 8, "best": "none", "auto_over_best": 0.31},
    ]
    text = auto_text(points)
    assert "at 1 of 2 points" in text
    assert "+31.0% (Q4J, selectivity 1, 8 drive(s); best there: none)" in text
