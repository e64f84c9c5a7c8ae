"""Tables whose files are read instead of mapped: the same answers, on every device; memory is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import warpmill
from warpmill import _warpmill

needs_sim = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

ON_DEVICE = ("1", "6", "12")
"""Queries of TPC-H that the simulated device runs, too, where each takes seconds to compile."""


def rows(relation: warpmill.Relation) -> list[str]:
    """Rows as text, sorted: rows with equal keys come in any order."""
    return sorted(map(str, relation.fetchall()))


def mapped(folder: Path) -> list[str]:
    """The data files below `folder` that this process has mapped."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if str(folder) in line and ".data" in line]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H, some of it compressed."""
    folder = tmp_path_factory.mktemp("tpch")
    with warpmill.connect(folder / "database", segment_rows=16384) as con:
        for number, name in enumerate(_warpmill.tables("tpch")):
            path = folder / f"{name}.parquet"
            _warpmill.generate_parquet("tpch", name, 0.01, str(path), 0)
            con.create_table(name, path, codec=("none", "lz4", "zstd")[number % 3])
    return folder / "database"


@pytest.fixture(scope="module")
def answers(database: Path) -> dict[str, list[str]]:
    with warpmill.connect(database, device="cpu") as con:
        return {name: rows(con.sql(sql)) for name, sql in _warpmill.queries("tpch")}


def test_tpch_has_the_same_answers(database: Path, answers: dict[str, list[str]]) -> None:
    with warpmill.connect(database, device="cpu", fallback="error", file_access="read") as con:
        for name, sql in _warpmill.queries("tpch"):
            assert rows(con.sql(sql)) == answers[name], name
        assert not mapped(database)
        # Both in sequence, in one session.
        sql = dict(_warpmill.queries("tpch"))["3"]
        con.set("file_access", "map")
        assert rows(con.sql(sql)) == answers["3"]
        assert mapped(database)
        con.set("file_access", "read")
        assert rows(con.sql(sql)) == answers["3"]


@needs_sim
@pytest.mark.parametrize("location", ["cache", "host", "disk"])
def test_the_simulated_device_reads_them_too(database: Path, answers: dict[str, list[str]], location: str) -> None:
    settings: dict[str, Any] = {"device": "sim", "device_fallback": "error", "device_data": location}
    with warpmill.connect(database, file_access="read", **settings) as con:
        for _ in range(2):
            for name, sql in _warpmill.queries("tpch"):
                if name in ON_DEVICE:
                    assert rows(con.sql(sql)) == answers[name], name
        assert not mapped(database)


def test_tables_are_written_and_read(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "database", file_access="read", segment_rows=1024) as con:
        con.sql("CREATE TABLE t AS SELECT range AS k, 'text ' || range AS s FROM range(5000)")
        for _ in range(2):
            con.sql("INSERT INTO t SELECT k + 10000, s || '.' FROM t")
        question = "SELECT count(*), sum(k), max(s), sum(length(s)) FROM t"
        found = con.sql(question).fetchall()
        assert found[0][0] == 20000
        assert not mapped(tmp_path)
        with warpmill.connect(tmp_path / "database") as other:
            assert other.sql(question).fetchall() == found
        con.sql("DROP TABLE t")


def test_what_is_read_is_counted(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "database", threads=1, device="cpu") as con:
        con.sql("CREATE TABLE t AS SELECT range * 7919 % 1000003 AS k, 'some text ' || range AS s FROM range(400000)")
        question = "SELECT sum(k), max(length(s)) FROM t"
        found = con.sql(question).fetchall()
        con.set("memory_limit", "1MB")
        assert con.sql(question).fetchall() == found
        con.set("file_access", "read")
        with pytest.raises(warpmill.OutOfMemoryError, match="segments"):
            con.sql(question).fetchall()
        con.set("memory_limit", "64MB")
        assert con.sql(question).fetchall() == found


def test_other_ways_are_refused() -> None:
    with warpmill.connect() as con, pytest.raises(warpmill.SettingError, match="file_access"):
        con.set("file_access", "tape")
