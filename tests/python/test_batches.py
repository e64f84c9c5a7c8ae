"""Codecs that a device decompresses through a library: where they run, equal answers, damage, no library.

The simulated device uses the host's libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

ROWS = 9000

QUERY = "SELECT count(*), sum(k), count(n), max(n), min(text), max(text), sum(x) FROM t WHERE k % 3 = 1"


def rows(count: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "n": pa.array([None if n % 11 == 0 else n * 13 % 41 - 20 for n in range(count)], pa.int32()),
            "x": pa.array([n % 100 * 0.25 for n in range(count)], pa.float64()),
            "text": pa.array([None if n % 7 == 3 else f"row {n} of {count}, {n * 31 % 97}" for n in range(count)]),
        }
    )


def on_device(con: warpmill.Connection, query: str = QUERY) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The answer, and how the data of the only program passed."""
    result = con.sql(query)
    (program,) = result.profile["programs"]
    assert program["device"] == "sim", program
    return result.fetchall(), program["on_device"]["path"]


@pytest.mark.parametrize("codec", ["zstd", "deflate", "gdeflate"])
def test_tables_are_undone_where_they_are_asked_to_be(codec: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"segment_rows": 2048, "device_fallback": "error", "fallback": "error"}
    with warpmill.connect(tmp_path, device="cpu", **settings) as con:
        con.create_table("t", rows(), codec=codec, codec_block=4096)
        expected = con.sql(QUERY).fetchall()
        con.set("device", "sim")
        for source in ("host", "pinned"):
            con.set("device_data", source)
            for form, undone in (("heavy", "the host's libraries"), ("heavy_host", "host")):
                con.set("representation", form)
                answer, path = on_device(con)
                assert answer == expected, (source, form)
                assert {column["undone_by"] for column in path["columns"]} == {undone}, path
                assert path["no_library"] is None
                passed = [sum(column[what] for column in path["columns"]) for what in ("stored_bytes", "copied_bytes")]
                assert (passed[0] == passed[1]) == (form == "heavy"), path
        con.set("device_data", "host")
        con.set("representation", "heavy")
        assert f"{codec} undone by the host's libraries" in con.explain(QUERY, analyze=True)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_undone_where_they_are_asked_to_be(codec: str, version: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    options: dict[str, Any] = {"data_page_version": version, "data_page_size": 4000, "write_batch_size": 500}
    pq.write_table(rows(), path, compression=codec, row_group_size=2500, use_dictionary=["n", "text"], **options)
    # Columns are cached during runs that compile kernels first: cached columns need no decompression.
    with warpmill.connect(device="cpu", device_fallback="error", column_cache="off") as con:
        con.register_file("t", path)
        expected = con.sql(QUERY).fetchall()
        con.set("device", "sim")
        library = "device" if codec in ("snappy", "lz4") else "the host's libraries"
        for form, undone in (("heavy", library), ("heavy_host", "host"), ("light", "host")):
            con.set("representation", form)
            answer, found = on_device(con)
            assert answer == expected, form
            assert {(column["codec"], column["undone_by"]) for column in found["columns"]} == {(codec, undone)}
        con.set("representation", "auto")
        answer, found = on_device(con)
        assert answer == expected
        # A file's program is translated anew for each run, by rates that are kept.
        assert found["reason"] == "predicted"
        assert len(found["fixed"]) == 3


def test_files_of_different_codecs_are_one_table(tmp_path: Path) -> None:
    codecs = ("zstd", "gzip", "snappy", "none", "lz4")
    for number, codec in enumerate(codecs):
        part = rows().slice(number * 1800, 1800)
        pq.write_table(part, tmp_path / f"{number}.parquet", compression=codec, row_group_size=600)
    with warpmill.connect(device="cpu", device_fallback="error") as con:
        con.register_file("t", f"{tmp_path}/*.parquet")
        expected = con.sql(QUERY).fetchall()
        con.set("device", "sim")
        for form in ("heavy", "heavy_host"):
            con.set("representation", form)
            assert on_device(con)[0] == expected, form


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_damaged_pages_are_errors_that_name_them(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(rows(3000), path, compression=codec, row_group_size=1000, use_dictionary=False)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    errors = 0
    with warpmill.connect() as con:
        con.set("representation", "heavy")
        for number in range(14):
            damaged = bytearray(whole)
            for flip in range(1 + number % 3):
                damaged[4 + (number * 7919 + flip * 104_729 + 1234) % (len(whole) - footer - 4)] ^= 1 << number % 8
            path.write_bytes(damaged)
            con.register_file("t", path)
            # Pages have no checksums: undetected damage returns other rows, the same on the device and on the host.
            found = [outcome(con, device) for device in ("sim", "cpu")]
            failed = [isinstance(answer, str) for answer in found]
            assert found[0] == found[1] or failed[0], found
            if failed[0]:
                errors += 1
                assert "t.parquet" in str(found[0]), found
    assert errors >= 5


def outcome(con: warpmill.Connection, device: str) -> list[tuple[Any, ...]] | str:
    """The answer, or the error."""
    con.set("device", device)
    try:
        return con.sql("SELECT count(n), sum(n), max(text), min(text), sum(k) FROM t WHERE k >= 0").fetchall()
    except warpmill.Error as error:
        return str(error)


# Columns cached after the first run need no decompression.
WITHOUT = """
import json, sys
import warpmill
settings = {"device_data": "host", "representation": "heavy", "column_cache": "off", "fallback": "error"}
with warpmill.connect(sys.argv[1], device="sim", **settings) as con:
    con.register_file("p", sys.argv[2])
    told = {}
    for table in ("t", "p"):
        query = f"SELECT sum(k), max(text) FROM {table} WHERE x > 1"
        (program,) = con.sql(query).profile["programs"]
        told[table] = program["on_device"]["path"] | {"explained": con.explain(query, analyze=True)}
    print(json.dumps(told))
"""


def test_without_the_library_the_host_undoes_and_it_is_told(tmp_path: Path) -> None:
    with warpmill.connect(tmp_path / "db", device="cpu") as con:
        con.create_table("t", rows(), codec="zstd")
    pq.write_table(rows(), tmp_path / "p.parquet", compression="gzip")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path / "db"), str(tmp_path / "p.parquet")],
        env={**os.environ, "WARPMILL_NVCOMP": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for path in json.loads(done.stdout).values():
        assert {column["undone_by"] for column in path["columns"]} == {"host"}, path
        assert "no library" in path["no_library"], path
        assert path["no_library"] in path["explained"], path


def test_other_libraries_are_refused_with_a_reason(tmp_path: Path) -> None:
    code = "import json; from warpmill import _warpmill; print(json.loads(_warpmill.devices())['no_nvcomp'])"
    for value, expected in (
        ("off", "switched off"),
        (str(tmp_path), "libnvcomp.so.6"),
        ("libm.so.6", "nvcompGetProperties"),
    ):
        env = {**os.environ, "WARPMILL_NVCOMP": value}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert expected in done.stdout, (value, done.stdout)
        assert value == "off" or "pip install" in done.stdout
