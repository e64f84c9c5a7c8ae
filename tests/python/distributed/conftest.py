from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import warpmill
from distributed.support import Rows, Workers, in_order
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def two() -> Iterator[Workers]:
    with Workers(2) as workers:
        yield workers


@pytest.fixture(scope="session")
def four() -> Iterator[Workers]:
    with Workers(4) as workers:
        yield workers


def benchmark(folder: Path, suite: str, scale: float) -> dict[str, Rows]:
    """Make a benchmark's tables, of many row segments, and DuckDB's answers."""
    answers = {}
    with warpmill.connect(folder / "db", device="cpu") as con, duckdb.connect() as other:
        con.execute("SET warpmill.segment_rows = 8192")
        for name in _warpmill.tables(suite):
            path = folder / f"{name}.parquet"
            _warpmill.generate_parquet(suite, name, scale, str(path), 0)
            con.execute(f"CREATE TABLE \"{name}\" AS SELECT * FROM '{path}'")
            other.execute(f"CREATE VIEW \"{name}\" AS SELECT * FROM '{path}'")
        for name, sql in _warpmill.queries(suite):
            answers[name] = in_order(other.execute(sql).fetchall())
    return answers


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Rows]]:
    folder = tmp_path_factory.mktemp("tpch")
    answers = benchmark(folder, "tpch", 0.05)
    return folder / "db", answers


@pytest.fixture(scope="session")
def ssb(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Rows]]:
    folder = tmp_path_factory.mktemp("ssb")
    answers = benchmark(folder, "ssb", 0.02)
    return folder / "db", answers
