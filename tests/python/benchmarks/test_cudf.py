"""cudf-polars as a peer: an interpreter with a stand-in for it, whose queries Polars runs on the CPU.

What is not tested here is the package itself: it needs a GPU.
"""

from __future__ import annotations

import stat
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from benchmarks.support import command, report
from warpmill.bench.engines import TOLERANCES
from warpmill.bench.states import State
from warpmill.bench.verify import difference, equal

if TYPE_CHECKING:
    from pathlib import Path

PDSH = """
import datetime
from dataclasses import dataclass
import polars as pl

print("a library that prints")

@dataclass
class OnGpu:
    lazy: pl.LazyFrame

    def collect(self, engine):
        assert isinstance(engine, pl.GPUEngine), engine
        assert engine.config.get("raise_on_fail"), engine.config
        return self.lazy.collect()

@dataclass
class QueryResult:
    frame: OnGpu
    sort_by: list
    limit: int | None = None

def get(config, table):
    return pl.scan_parquet(f"{config.dataset_path}/{table}{config.suffix}")

class PDSHQueries:
    @staticmethod
    def q1(config):
        wrong = WRONG
        lines = get(config, "lineitem").filter(pl.col("l_shipdate") <= datetime.date(1998, 9, 2))
        rows = lines.group_by("l_returnflag", "l_linestatus").agg(
            pl.sum("l_quantity").alias("sum_qty"),
            pl.sum("l_extendedprice").alias("sum_base_price"),
            (pl.col("l_extendedprice") * (1.0 - pl.col("l_discount"))).sum().alias("sum_disc_price"),
            (pl.col("l_extendedprice") * (1.0 - pl.col("l_discount")) * (1.0 + pl.col("l_tax"))).sum().alias("charge"),
            pl.mean("l_quantity").alias("avg_qty"),
            pl.mean("l_extendedprice").alias("avg_price"),
            pl.mean("l_discount").alias("avg_disc"),
            (pl.len() + wrong).alias("count_order"),
        )
        return RESULT(OnGpu(rows.sort("l_returnflag", "l_linestatus")))

    @staticmethod
    def q6(config):
        assert config.scale_factor == 0.01
        raise NotImplementedError("not on a GPU")
"""


def interpreter(
    folder: Path, module: str = "streaming", result: str = "QueryResult(FRAME, [])", wrong: int = 0
) -> Path:
    """A Python that finds a package `cudf_polars` with PDS-H queries where `module` says."""
    package = folder / "site" / "cudf_polars"
    queries = package / module / "benchmarks"
    queries.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "26.12.0"\n')
    for place in (package / module, queries):
        (place / "__init__.py").write_text("")
    returned = result.replace("FRAME", "frame")
    text = PDSH.replace("WRONG", str(wrong)) + f"\ndef RESULT(frame):\n    return {returned}\n"
    (queries / "pdsh.py").write_text(text)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder / "site"}" exec "{sys.executable}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    data = tmp_path_factory.mktemp("bench") / "data"
    small = ["tpch", "--sf", 0.01, "--runs", 2, "--processes", 1, "--verify", "--source", "parquet", "--data", data]
    return [*small, "--against", "cudf-polars"]


@pytest.mark.parametrize(("module", "result"), [("streaming", "QueryResult(FRAME, [])"), ("experimental", "FRAME")])
def test_its_own_queries_run_in_its_own_environment(
    module: str, result: str, tmp_path: Path, options: list[object]
) -> None:
    python = interpreter(tmp_path, module, result)
    found, output = report(tmp_path / "report.json", *options, "--queries", "1,6", "--cudf-python", python)
    rows = {row["query"]: row for row in found["results"] if row["engine"] == "cudf-polars"}
    for state in State:
        answered = rows["1"]["states"][state]
        assert answered["verified"] is True
        assert len(answered["runs_ms"]) == (1 if state is State.NEW_PROCESS else 2)
        # A query that does not run is no time, and does not end the process.
        assert "NotImplementedError: not on a GPU" in rows["6"]["states"][state]["error"]
        assert found["totals_by_state_ms"][state]["cudf-polars"] is None
    assert found["machine"]["versions"]["cudf-polars"].startswith("26.12.0 (polars ")
    assert "cudf-polars 6 did not run (new process, new statement, repeated)" in output.replace("\n", " ")


def test_a_wrong_answer_is_found(tmp_path: Path, options: list[object]) -> None:
    done = command(*options, "--queries", "1", "--cudf-python", interpreter(tmp_path, wrong=1))
    assert done.returncode == 1
    assert "cudf-polars 1 differs from duckdb (new process)" in done.stderr
    assert "cudf-polars 1 differs from duckdb (repeated)" in done.stderr


@pytest.mark.parametrize("states", ["new-process", "repeated"])
def test_an_environment_without_it_is_an_error(states: str, tmp_path: Path, options: list[object]) -> None:
    done = command(*options, "--queries", "1", "--states", states)
    assert done.returncode == 1
    assert f"error: cudf-polars is not installed for {sys.executable} (--cudf-python names" in done.stderr
    done = command(*options, "--queries", "1", "--states", states, "--cudf-python", tmp_path / "nowhere")
    assert done.returncode == 1
    assert f"error: {tmp_path / 'nowhere'} does not start: " in done.stderr
    # A program that is no Python.
    done = command(*options, "--queries", "1", "--states", states, "--cudf-python", "/bin/false")
    assert done.returncode == 1
    assert "ended with exit code 1" in done.stderr


def test_a_package_without_the_queries_is_an_error(tmp_path: Path, options: list[object]) -> None:
    python = interpreter(tmp_path, "elsewhere")
    done = command(*options, "--queries", "1", "--cudf-python", python)
    assert done.returncode == 1
    assert "cudf_polars has no PDS-H queries" in done.stderr


def test_its_decimals_may_be_rounded() -> None:
    tolerance = TOLERANCES["cudf-polars"]
    exact, rounded = Decimal("100.1234"), Decimal("100.12")
    assert not equal(rounded, exact)
    assert equal(rounded, exact, tolerance)
    assert not equal(Decimal("101.12"), exact, tolerance)
    # Rows with nearly equal keys may come in either order.
    sql = "select k, s from t order by s desc"
    expected = [(1, Decimal("5.0001")), (2, Decimal("5.0000")), (3, Decimal("4.0"))]
    swapped = [(2, Decimal("5.00")), (1, Decimal("5.00")), (3, Decimal("4.00"))]
    assert difference(swapped, expected, ["k", "s"], sql, tolerance) is None
    assert difference(swapped, expected, ["k", "s"], sql)
    assert difference([*swapped[:2], (4, Decimal("4.00"))], expected, ["k", "s"], sql, tolerance)
