"""Tables from files and frames: every form by both engines, rows and checksums compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.support import report
from warpmill import _warpmill
from warpmill.bench import ingest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_every_source_makes_the_same_tables(tmp_path: Path) -> None:
    options = ["ingest", "--sf", 0.001, "--runs", 2, "--threads", 1, "--data", tmp_path / "data"]
    found, output = report(tmp_path / "ingest.json", *options)
    results = found["results"]
    assert {(row["engine"], row["source"]) for row in results} == {
        (engine, source)
        for engine in ("warpmill", "duckdb")
        for source in ("parquet", "csv", "arrow", "polars", "pandas")
    }
    assert set(found["tables"]) == set(_warpmill.tables("tpch"))
    assert len({row["rows"] for row in results}) == 1
    for row in results:
        assert row["mb_per_s"] > 0
        assert row["stored_bytes"] > 0
        assert len(row["runs_s"]) == 2
        assert set(row["tables_s"]) == set(found["tables"])
        assert row["equal"] is (True if row["engine"] == "warpmill" else None)
    assert output.count(" equal ") == 5
    # Tables that were written are removed; the sources stay for the next run.
    files = {f"{table}.{kind}" for table in found["tables"] for kind in ("csv", "parquet")}
    assert {path.name for path in (tmp_path / "data").iterdir()} == files


def test_tables_and_sources_can_be_chosen(tmp_path: Path) -> None:
    options = ["ingest", "--sf", 0.001, "--runs", 1, "--threads", 1, "--data", tmp_path / "data"]
    found, output = report(tmp_path / "ingest.json", *options, "--tables", "nation,region", "--sources", "arrow")
    assert [(row["source"], row["rows"]) for row in found["results"]] == [("arrow", 30), ("arrow", 30)]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["nation.parquet", "region.parquet"]
    assert "2 tables of TPC-H" in output


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("SELECT * FROM {} WHERE n_nationkey > 0", "nation has 24 rows, expected 25"),
        (
            "SELECT n_nationkey, upper(n_name) || 'x' AS n_name, n_regionkey, n_comment FROM {}",
            "nation has other values of n_name",
        ),
        # The same values, in other rows.
        (
            "SELECT n_nationkey, n_name, 4 - n_regionkey AS n_regionkey, n_comment FROM {}",
            "nation has other values of n_regionkey",
        ),
        ("SELECT * FROM {} ORDER BY n_name DESC", None),
    ],
)
def test_checksums_find_what_differs(
    select: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, base = ingest.prepare(0.001, str(tmp_path), ["nation"], False, lambda _: lambda *_: None)

    def create(self: Any, table: str, source: str, files: Any) -> None:
        self._con.sql(f"CREATE TABLE {table} AS {select.format(repr(str(getattr(files, source))))}")

    monkeypatch.setattr(ingest.Warpmill, "create", create)
    measured = ingest.measure(rows, ["parquet"], base, 1, 1, lambda *_: None)
    assert ingest.failed(measured) is (said is not None)
    assert ingest.problems(measured) == ([f"warpmill from parquet: {said}"] if said else [])


def test_an_engine_that_fails_does_not_stop_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, base = ingest.prepare(0.001, str(tmp_path), ["region"], False, lambda _: lambda *_: None)

    def create(*_: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(ingest.Warpmill, "create", create)
    ours, theirs = ingest.measure(rows, ["parquet"], base, 1, 2, lambda *_: None)
    assert (ours.error, ours.median, ours.equal) == ("RuntimeError: no room", None, None)
    assert len(theirs.seconds) == 2
    assert ingest.failed([ours, theirs])
    assert ingest.table("t", [ours, theirs]).row_count == 1
    assert ingest.as_json(0.001, 1, ["region"], [ours, theirs])["results"][0]["error"] == "RuntimeError: no room"
