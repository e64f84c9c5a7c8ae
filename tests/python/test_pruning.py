"""Tables laid out so that queries skip rows: options of Python, the command line, and the benchmark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import warpmill
from warpmill.cli import app

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT count(*), sum(v) FROM fact JOIN dim ON fk = key WHERE region = 'south'"
SIDEWAYS = "fact.fk=dim.key:region"


def dimension(con: warpmill.Connection) -> None:
    keys = list(range(100))
    con.create_table("dim", {"key": keys, "region": ["north" if key % 5 else "south" for key in keys]})


def facts() -> pa.Table:
    rows = 100_000
    return pa.table({"fk": [row * 7 % 100 for row in range(rows)], "v": list(range(rows))})


def counters(result: warpmill.Relation) -> dict[str, int]:
    """The counts of the scan of the most zones."""
    profile: dict[str, Any] = result.profile
    operators = [op for program in profile["programs"] for line in program["pipelines"] for op in line["operators"]]
    scans = [dict(op["counters"]) for op in operators if op["name"].startswith("Scan ")]
    return max(scans, key=lambda scan: scan["zones"])


def test_tables_with_metadata_of_another(con: warpmill.Connection) -> None:
    dimension(con)
    con.create_table("fact", facts(), cluster=["region", "v"], sideways=[SIDEWAYS])
    result = con.sql(QUERY)
    assert result.fetchone() == (20_000, sum(row for row in range(100_000) if row * 7 % 100 % 5 == 0))
    assert counters(result)["zones_by_sideways"] >= 4
    con.create_table("bare", facts(), pruning="none", sort_by="v")
    # Row segments: sorted rows have one for every 65536.
    assert counters(con.sql("SELECT count(*) FROM bare WHERE v < 10"))["zones"] == 2
    with pytest.raises(ValueError, match="exclude each other"):
        con.create_table("x", facts(), sort_by=["v"], cluster="auto")
    with pytest.raises(warpmill.Error, match="unknown pruning metadata"):
        con.create_table("x", facts(), pruning="most")
    with pytest.raises(warpmill.Error, match="sideways metadata"):
        con.create_table("x", facts(), sideways="fk=dim")


def test_import_with_a_layout(tmp_path: Path) -> None:
    pq.write_table(facts(), tmp_path / "facts.parquet")
    database = tmp_path / "db"
    with warpmill.connect(database) as con:
        dimension(con)
    arguments = ["import", str(tmp_path / "facts.parquet"), str(database / "fact")]
    layout = ["--cluster", "auto", "--sideways", SIDEWAYS, "--pruning", "all"]
    result = CliRunner().invoke(app, [*arguments, *layout, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["tables"][0]["pruning_bytes"] > 0
    with warpmill.connect(database) as con:
        assert counters(con.sql(QUERY))["zones_by_sideways"] >= 4
        text = con.sql("EXPLAIN ANALYZE " + QUERY).fetchall()[-1][1]
        assert "zones_by_sideways" in text
    wrong = CliRunner().invoke(app, [*arguments, "--replace", "--cluster", "auto", "--sort-by", "v"])
    assert wrong.exit_code == 2


def test_compressed_tables_are_pruned_alike(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path, segment_rows=32768, zone_rows=4096, device="cpu", fallback="error") as con:
        con.set("codec", "zstd")
        keys = list(range(2000))
        regions = ["south" if key % 5 == 0 else "north" for key in keys]
        con.create_table("dim", {"key": [key * key for key in keys], "region": regions})
        rows = range(100_000)
        fact = pa.table({"fk": [(row * 7 % 2000) ** 2 for row in rows], "v": [row * 7919 % 100_003 for row in rows]})
        sideways = "fk=dim.key:region"
        con.create_table("fact", fact, cluster=["region", "v"], sideways=[sideways], pruning="all")
        assert {name for table in ("dim", "fact") for column in con.inspect(table) for name in column["codecs"]} >= {
            "zstd"
        }
        queries = (QUERY, "SELECT count(*), sum(fk) FROM fact WHERE v < 4000 AND fk > 100 OR v = 99999")
        read = {}
        for query in queries:
            answers = []
            for mode in ("none", "minmax", "all"):
                con.set("pruning", mode)
                result = con.sql(query)
                answers.append(result.fetchall())
                read[query, mode] = counters(result)["rows_scanned"]
            assert answers[0] == answers[1] == answers[2]
            assert read[query, "all"] < read[query, "none"] == 100_000
        assert counters(con.sql(QUERY))["zones_by_sideways"] >= 15
        # Later rows keep the codecs and get metadata of their own values.
        con.sql("INSERT INTO fact SELECT * FROM fact").fetchall()
        doubled = con.sql(QUERY).fetchall()
        con.set("pruning", "none")
        assert doubled == con.sql(QUERY).fetchall()
