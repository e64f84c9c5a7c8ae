"""Tables whose column chunks go through a codec: the same answers, everywhere; damage is named; memory is counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import warpmill
from warpmill import _warpmill
from warpmill.cli import app
from warpmill.cli.data import CodecName

if TYPE_CHECKING:
    from pathlib import Path

CODECS = ("lz4", "snappy", "zstd", "deflate", "gdeflate", "auto")

needs_sim = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

#: Queries of TPC-H on the simulated device, where each takes seconds to compile: scans with sums, joins with strings.
ON_DEVICE = ("1", "6", "12", "14")


def rows(relation: warpmill.Relation) -> list[str]:
    """Rows as text, sorted: rows with equal keys come in any order, sums of floats need none here."""
    return sorted(map(str, relation.fetchall()))


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("parquet")
    files = {name: folder / f"{name}.parquet" for name in _warpmill.tables("tpch")}
    for name, path in files.items():
        _warpmill.generate_parquet("tpch", name, 0.01, str(path), 0)
    return files


@pytest.fixture(scope="module")
def answers(parquet: dict[str, Path]) -> dict[str, list[str]]:
    with warpmill.connect(device="cpu") as con:
        for name, path in parquet.items():
            con.create_table(name, path)
        return {name: rows(con.sql(sql)) for name, sql in _warpmill.queries("tpch")}


@pytest.mark.parametrize("codec", CODECS)
def test_tpch_has_the_same_answers(
    codec: str, parquet: dict[str, Path], answers: dict[str, list[str]], tmp_path: Path
) -> None:
    # Slow storage: `auto` has something to choose. Small segments: several chunks a column.
    settings: dict[str, Any] = {"storage_bandwidth": "50MB", "segment_rows": 16384, "fallback": "error"}
    with warpmill.connect(tmp_path, device="cpu", **settings) as con:
        for name, path in parquet.items():
            con.create_table(name, path, codec=codec, codec_block=4096 if codec == "snappy" else None)
        columns = con.inspect("lineitem")
        used = {name for column in columns for name in column["codecs"]} - {"none"}
        assert used if codec == "auto" else used == {codec}
        for name, sql in _warpmill.queries("tpch"):
            assert rows(con.sql(sql)) == answers[name], name
        stored = sum(column["stored_bytes"] for column in columns)
        light = sum(column["light_bytes"] for column in columns)
        assert stored < light < sum(column["plain_bytes"] for column in columns)


@needs_sim
@pytest.mark.parametrize("codec", CODECS[:5])
def test_the_simulated_device_reads_them_too(
    codec: str, parquet: dict[str, Path], answers: dict[str, list[str]], tmp_path: Path
) -> None:
    with warpmill.connect(tmp_path, device="sim", device_fallback="error", fallback="error") as con:
        for name in ("lineitem", "orders", "part"):
            con.create_table(name, parquet[name], codec=codec)
        for location in ("cache", "disk"):
            con.set("device_data", location)
            for name, sql in _warpmill.queries("tpch"):
                if name in ON_DEVICE:
                    assert rows(con.sql(sql)) == answers[name], (location, name)


def build(path: Path, **settings: Any) -> warpmill.Connection:
    """A table of three segments: an ascending key, text without a dictionary, numbers, with NULLs."""
    con = warpmill.connect(path, segment_rows=65536, device="cpu", fallback="error", **settings)
    count = range(150_000)
    data = pa.table(
        {
            "id": pa.array(count, pa.int64()),
            "text": [None if i % 13 == 5 else f"text number {i * 7919 % 150_000} of many" for i in count],
            "n": pa.array([None if i % 11 == 3 else (i * i) % 1009 for i in count], pa.int32()),
            "x": pa.array([(i % 100) / 8 for i in count], pa.float64()),
        }
    )
    con.create_table("t", data, codec="zstd")
    return con


STRINGS = (
    "SELECT text FROM t WHERE text LIKE '%number 7_7 %' ORDER BY text",
    "SELECT max(text), min(text), count(text) FROM t",
    "SELECT text, count(*) AS n FROM t WHERE n < 20 GROUP BY text ORDER BY n DESC, text LIMIT 20",
    "SELECT a.text, b.id FROM t a JOIN t b ON a.text = b.text AND a.id < 500 ORDER BY b.id",
    "SELECT text FROM t ORDER BY text DESC LIMIT 7",
    "SELECT substring(text, 13, 6) AS s, sum(n) AS n FROM t GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 9",
    "SELECT text FROM t WHERE id BETWEEN 70000 AND 70005 OR text IS NULL AND id > 149990 ORDER BY id",
)


@pytest.mark.parametrize("threads", [1, 3])
def test_strings_outlive_the_segments_they_come_from(threads: int, tmp_path: Path) -> None:
    with build(tmp_path / "db", threads=threads) as con, warpmill.connect(device="cpu") as light:
        assert con.inspect("t")[1]["codecs"] == {"zstd": 3}
        light.create_table("t", con.sql("SELECT * FROM t").arrow())
        for query in STRINGS:
            assert con.sql(query).fetchall() == light.sql(query).fetchall(), query


def test_decompressed_segments_count_as_the_querys_memory(tmp_path: Path) -> None:
    with build(tmp_path / "db", threads=1) as con:
        text = con.inspect("t")[1]
        con.set("memory_limit", text["light_bytes"] // 6)
        with pytest.raises(warpmill.OutOfMemoryError, match=r"Scan .decompressed segments"):
            con.sql("SELECT max(text) FROM t")
        # One segment at a time: less than the whole column.
        con.set("memory_limit", text["light_bytes"] * 2 // 3)
        ends = sum(1 for i in range(150_000) if i % 13 != 5 and i * 7919 % 150_000 % 100 == 99)
        assert con.sql("SELECT count(*) FROM t WHERE text LIKE '%99 of%'").fetchone() == (ends,)
        # Strings of results are kept, and counted.
        con.set("memory_limit", text["light_bytes"] * 4 // 10)
        with pytest.raises(warpmill.OutOfMemoryError):
            con.sql("SELECT text FROM t ORDER BY n, text")


def test_a_column_that_no_row_reaches_is_not_decompressed(tmp_path: Path) -> None:
    build(tmp_path / "db").close()
    (data,) = (tmp_path / "db" / "t").glob("*.data")
    manifest = next((tmp_path / "db" / "t").glob("*.manifest")).read_text().splitlines()[1]
    chunk = json.loads(manifest)["segments"][1]["columns"][3]
    assert chunk["codec"]["name"] == "zstd"
    bytes_ = bytearray(data.read_bytes())
    bytes_[chunk["offset"] + chunk["bytes"] // 2] ^= 16
    data.write_bytes(bytes_)
    with warpmill.connect(tmp_path / "db", device="cpu", fallback="error") as con:
        # In the range of n, but there is no such square.
        assert con.sql("SELECT sum(x) FROM t WHERE n = 11").fetchone() == (None,)
        assert con.sql("SELECT count(x) FROM t WHERE text LIKE 'nothing%'").fetchone() == (0,)
        assert con.sql("SELECT count(n) FROM t WHERE id < 100000").fetchone() is not None
        for device in ("cpu", "sim"):
            con.set("device", device)
            with pytest.raises(warpmill.CorruptDataError, match=r'\.data \(column "x", segment 1\): checksum'):
                con.sql("SELECT sum(x) FROM t")


def test_sql_writes_through_codecs_and_appends_keep_them(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path) as con:
        con.sql("SET warpmill.codec = 'lz4'")
        con.sql("CREATE TABLE t AS SELECT value AS a, (value % 7) || ' and some text' AS b FROM range(20000) r(value)")
        con.sql("SET warpmill.codec = 'keep'")
        con.sql("INSERT INTO t SELECT value, value || ' and other text' FROM range(5000) r(value)")
        assert con.inspect("t")[1]["codecs"] == {"lz4": 2}
        con.sql("CREATE TABLE plain AS SELECT * FROM t")
        assert con.inspect("plain")[1]["codecs"] == {"none": 1}
        # A table without rows has its codec, too.
        con.sql("SET warpmill.codec = 'zstd'")
        con.sql("CREATE TABLE later (a BIGINT, b VARCHAR)")
        con.sql("SET warpmill.codec = 'keep'")
        con.sql("INSERT INTO later SELECT * FROM t")
        assert con.inspect("later")[1]["codecs"] == {"zstd": 1}
        assert con.sql("SELECT count(*), sum(a) FROM later").fetchone() == (25_000, 212_487_500)
        assert con.sql("SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM later)").fetchone() == (0,)
        for value in ("'rar'", "'bitcomp'"):
            with pytest.raises(warpmill.Error, match="codec"):
                con.sql(f"SET warpmill.codec = {value}")


def test_the_command_line_compresses_and_shows_it(tmp_path: Path) -> None:
    with warpmill.connect() as con:
        con.create_table(
            "t", "SELECT value AS a, 'page ' || (value % 1000) AS b, random() AS r FROM range(30000) v(value)"
        )
        con.sql("SELECT * FROM t").write(str(tmp_path / "t.parquet"))
    source, target = str(tmp_path / "t.parquet"), str(tmp_path / "db" / "t")
    run = CliRunner().invoke
    done = run(app, ["import", source, target, "--codec", "deflate", "--codec-block", "16KiB"])
    assert done.exit_code == 0, done.output
    columns = {
        column["name"]: column for column in json.loads(run(app, ["inspect", target, "--json"]).output)["columns"]
    }
    assert columns["b"]["codecs"] == {"deflate": 1}
    assert columns["b"]["block_bytes"] == [16384]
    assert columns["b"]["stored_bytes"] < columns["b"]["light_bytes"] < columns["b"]["plain_bytes"]
    assert columns["b"]["decompress_bytes_per_s"] > 0
    assert columns["b"]["predicted_bytes_per_s"] > 0
    shown = run(app, ["inspect", target]).output
    assert "deflate x1 (16K)" in shown
    assert "heavy" in shown
    assert "GB/s" in shown
    auto = ["import", source, target, "--replace", "--objective", "size", "--codec-sample", "0.05", "--json"]
    assert run(app, auto).exit_code == 0
    assert sum(
        column["stored_bytes"] for column in json.loads(run(app, ["inspect", target, "--json"]).output)["columns"]
    )
    # A codec that cannot be is refused, and the table stays.
    wrong = run(app, ["import", source, target, "--replace", "--codec", "lz4", "--codec-block", "5000"])
    assert wrong.exit_code != 0
    assert "codec_block" in wrong.output
    assert run(app, ["inspect", target]).exit_code == 0


@needs_sim
def test_both_forms_are_stored_shown_and_read(tmp_path: Path) -> None:
    with warpmill.connect() as con:
        con.create_table(
            "t", "SELECT value AS a, 'page ' || (value % 1000) AS b, value % 7 AS c FROM range(30000) r(value)"
        )
        con.sql("SELECT * FROM t").write(str(tmp_path / "t.parquet"))
    source, target = str(tmp_path / "t.parquet"), str(tmp_path / "db" / "t")
    done = CliRunner().invoke(app, ["import", source, target, "--codec", "lz4", "--codec-light"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["inspect", target]).output
    assert "+ lz4 x1 (64K)" in shown
    sql = "SELECT b, count(*), sum(a) FROM t WHERE c < 5 GROUP BY b ORDER BY b"
    with warpmill.connect(tmp_path / "db", device="cpu", fallback="error") as con:
        columns = {column["name"]: column for column in con.inspect("t")}
        assert (columns["b"]["codecs"], columns["b"]["heavy"]) == ({"none": 1}, {"lz4": 1})
        assert 0 < columns["b"]["heavy_bytes"] < columns["b"]["light_bytes"] == columns["b"]["stored_bytes"]
        expected = con.sql(sql).fetchall()
        con.set("device", "sim")
        con.set("device_fallback", "error")
        con.set("device_data", "host")
        for form in ("light", "heavy", "heavy_host", "auto"):
            con.set("representation", form)
            result = con.sql(sql)
            assert result.fetchall() == expected
            path = result.profile["programs"][0]["on_device"]["path"]
            assert path["reason"] == "forced" or form == "auto"
            read = {column["column"]: column for column in path["columns"]}
            assert form == "auto" or read["b"]["form"] == form
            heavy = read["b"]["stored_bytes"] == columns["b"]["heavy_bytes"]
            assert heavy == (read["b"]["form"] != "light")
        with pytest.raises(warpmill.Error, match="auto, light, heavy or heavy_host"):
            con.set("representation", "thin")
        # Later rows have both forms, too, until told otherwise.
        con.sql("INSERT INTO t SELECT * FROM t WHERE a < 20000")
        assert con.inspect("t")[1]["heavy"] == {"lz4": 2}


@pytest.mark.parametrize("codec", CodecName)
def test_the_command_line_has_every_codec(tmp_path: Path, codec: CodecName) -> None:
    assert set(CodecName) == {"none", *CODECS}
    with warpmill.connect() as con:
        con.sql("SELECT value % 7 AS a, 'page ' || (value % 1000) AS b FROM range(30000) r(value)").write(
            str(tmp_path / "t.parquet")
        )
    source, target = str(tmp_path / "t.parquet"), str(tmp_path / "db" / "t")
    done = CliRunner().invoke(app, ["import", source, target, "--codec", codec, "--set", "segment_rows=16384"])
    assert done.exit_code == 0, done.output
    with warpmill.connect(tmp_path / "db") as con:
        columns = con.inspect("t")
        found = {name for column in columns for name in column["codecs"]}
        assert codec == "auto" or codec in found
        assert found <= ({codec, "none"} if codec != "auto" else {"none", *CODECS})
        assert sum(columns[0]["codecs"].values()) == 2
        assert con.sql("SELECT count(*), sum(a), count(DISTINCT b) FROM t").fetchone() == (30000, 89995, 1000)
