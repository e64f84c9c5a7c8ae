"""The comparison with nvCOMP, as far as it needs no GPU: arguments by value, data, ratios."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import struct
from ctypes import c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest

import warpmill
from warpmill import _warpmill

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from warpmill_bench import lineorder, nvcomp  # noqa: E402 - needs the packages above

#: The C types of the headers' structures.
SIZES = {"char": 1, "uint8_t": 1, "int": 4, "uint32_t": 4, "uint64_t": 8, "size_t": 8, "double": 8}

STRUCTURES: dict[str, tuple[type[ctypes.Structure], int]] = {
    "nvcompCascadedCommonOpts_t": (nvcomp.CascadedCommon, 24),
    "nvcompBatchedCascadedCompressOpts_t": (nvcomp.CascadedCompressOpts, 64),
    "nvcompBatchedCascadedDecompressOpts_t": (nvcomp.CascadedDecompressOpts, 64),
    "nvcompBatchedBitcompCompressOpts_t": (nvcomp.BitcompCompressOpts, 64),
    "nvcompBatchedBitcompDecompressOpts_t": (nvcomp.BitcompDecompressOpts, 64),
    "nvcompBatchedLZ4CompressOpts_t": (nvcomp.LZ4CompressOpts, 64),
    "nvcompBatchedLZ4DecompressOpts_t": (nvcomp.LZ4DecompressOpts, 64),
    "nvcompBatchedSnappyCompressOpts_t": (nvcomp.SnappyCompressOpts, 64),
    "nvcompBatchedSnappyDecompressOpts_t": (nvcomp.SnappyDecompressOpts, 64),
    "nvcompAlignmentRequirements_t": (nvcomp.Alignments, 24),
    "nvcompProperties_t": (nvcomp.Properties, 8),
}


def installed() -> Path | None:
    """The folder of nvCOMP's wheel, which no extra of this package asks for."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((Path(folder) / "libnvcomp" for folder in folders if (Path(folder) / "libnvcomp").is_dir()), None)


needs_wheel = pytest.mark.skipif(installed() is None, reason="nvidia-libnvcomp-cu13 is not installed")


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_have_the_documented_sizes(name: str) -> None:
    structure, size = STRUCTURES[name]
    assert ctypes.sizeof(structure) == size


def test_fields_are_where_c_puts_them() -> None:
    assert nvcomp.CascadedCompressOpts.fine_grained_encoding_flags.offset == 24
    assert nvcomp.CascadedCompressOpts.compression_level.offset == 32
    assert nvcomp.CascadedDecompressOpts.common_opts.offset == 8, "its 64-bit members align it"
    assert nvcomp.BitcompCompressOpts.mode.offset == 16
    assert nvcomp.LZ4DecompressOpts.bitshuffle_mode.offset == 12


@needs_wheel
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_those_of_the_headers(name: str) -> None:
    folder = installed()
    assert folder is not None
    text = "".join(path.read_text() for path in sorted((folder / "include" / "nvcomp").glob("*.h")))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    body = re.search(r"typedef struct\s*\{([^{}]*)\}\s*" + name, text)
    assert body is not None
    fields = re.findall(r"(\w+)\s+(\w+)(?:\[(\d+)\])?;", body[1])
    structure = STRUCTURES[name][0]
    assert [field[1] for field in fields] == [field[0] for field in structure._fields_]
    for kind, field, count in fields:
        # Other types are enumerations of the size of int, and one structure.
        size = STRUCTURES[kind][1] if kind in STRUCTURES else SIZES.get(kind, 4)
        assert getattr(structure, field).size == size * int(count or 1), field


@needs_wheel
def test_the_library_takes_every_option_by_value() -> None:
    library = nvcomp.Library()
    assert library.version.startswith("6.")
    for codec in [*nvcomp.cascaded(), *nvcomp.others()]:
        assert library.size(codec, "CompressGetMaxOutputChunkSize", nvcomp.CHUNK, codec.compress, ...) >= nvcomp.CHUNK
        found = nvcomp.Alignments()
        library.call(codec, "DecompressGetRequiredAlignments", codec.decompress, ctypes.byref(found))
        assert 1 <= found.input <= 16
        assert 1 <= found.output <= 16
    nonsense = nvcomp.Codec("Cascaded", "", nvcomp.CascadedCompressOpts(), nvcomp.CascadedDecompressOpts())
    with pytest.raises(nvcomp.NvcompError, match="nvcompBatchedCascadedCompressGetMaxOutputChunkSize"):
        library.size(nonsense, "CompressGetMaxOutputChunkSize", nvcomp.CHUNK, nonsense.compress, ...)


@needs_wheel
def test_the_engine_finds_the_wheel() -> None:
    found = json.loads(_warpmill.devices())["nvcomp"]
    assert found["version"].startswith("6.")


@needs_wheel
def test_nvcomp_reads_the_gdeflate_of_tables(tmp_path: Path) -> None:
    """Its decoder for CPUs, of every block of a column."""
    folder = installed()
    assert folder is not None
    library = ctypes.CDLL(str(folder / "lib64" / "libnvcomp_cpu.so.6"))
    decompress = library._ZN6nvcomp8gdeflate13decompressCPUEPKPKvPKmmPKPvPmSA_
    decompress.restype = None
    values = np.arange(60_000, dtype=np.float64) % 777 / 8
    with warpmill.connect(tmp_path) as con:
        con.create_table("t", pa.table({"x": values}), codec="gdeflate", pruning="none")
    manifest = json.loads(next((tmp_path / "t").glob("*.manifest")).read_text().splitlines()[1])
    chunk = manifest["segments"][0]["columns"][0]
    assert chunk["codec"]["name"] == "gdeflate"
    data = next((tmp_path / "t").glob("*.data")).read_bytes()[chunk["offset"] :][: chunk["bytes"]]
    size, count, total = struct.unpack_from("<IIQ", data, 8)
    segment = b""
    for offset, length in struct.iter_unpack("<QQ", data[64 : 64 + 16 * count]):
        block, out = (
            ctypes.create_string_buffer(data[offset : offset + length], length),
            ctypes.create_string_buffer(size),
        )
        written, one = c_size_t(), c_size_t * 1
        decompress(
            (c_void_p * 1)(ctypes.addressof(block)), one(length), c_size_t(1), (c_void_p * 1)(ctypes.addressof(out)),
            one(size), ctypes.byref(written),
        )  # fmt: skip
        segment += out.raw[: written.value]
    assert len(segment) == total
    assert values.tobytes() in segment


def test_a_missing_library_says_what_to_install() -> None:
    with pytest.raises(nvcomp.NvcompError, match="pip install 'nvidia-libnvcomp-cu13==6"):
        nvcomp.Library("/nonexistent/libnvcomp.so.6")


def test_options_are_all_different() -> None:
    texts = [codec.text for codec in nvcomp.cascaded()]
    assert len(texts) == len(set(texts)) == 11


def test_the_fastest_of_a_mode_is_of_that_mode() -> None:
    rates = {"asymmetric FOR level 3": 200.0, "symmetric FOR": 100.0}
    found = [
        nvcomp.Measurement("Cascaded", text, 65536, giga_values_per_s=rate, verified=True)
        for text, rate in rates.items()
    ]
    report = nvcomp.ColumnReport("custkey", 22, found)
    assert report.fastest(mode="symmetric") == found[1]
    assert report.fastest(mode="asymmetric") == report.fastest() == found[0]


def test_columns_have_the_ranges_of_scale_factor_100() -> None:
    found = lineorder.columns(200_000)
    assert tuple(found) == lineorder.NAMES
    assert all(values.dtype == np.int32 and len(values) == 200_000 for values in found.values())
    widths = {name: lineorder.width(values) for name, values in found.items()}
    assert widths == {
        "orderkey": 18, "custkey": 22, "partkey": 21, "suppkey": 18, "orderdate": 16, "quantity": 6,
        "extendedprice": 24, "discount": 4, "revenue": 24, "supplycost": 17,
    }  # fmt: skip
    orders = np.unique(found["orderkey"])
    assert 3.9 < 200_000 / len(orders) < 4.1
    assert not (found["custkey"] % 3 == 0).any()
    assert (np.diff(found["orderkey"]) >= 0).all()
    again = lineorder.columns(200_000)
    assert all(np.array_equal(values, again[name]) for name, values in found.items())


def test_columns_are_like_those_of_the_generator() -> None:
    ours = lineorder.columns(60_000)
    with warpmill.connect() as con:
        con.generate("ssb", "lineorder", 0.01)
        for name in ("orderdate", "quantity", "discount"):
            sql = f"select min(lo_{name}), max(lo_{name}), avg(lo_{name}) from lineorder"
            low, high, mean = con.sql(sql).fetchall()[0]
            assert (low, high) == (ours[name].min(), ours[name].max()), name
            assert float(mean) == pytest.approx(ours[name].mean(), rel=0.02), name
        sql = "select count(*) from lineorder where lo_revenue <> lo_extendedprice * (100 - lo_discount) // 100"
        assert con.sql(sql).fetchall() == [(0,)]
    assert np.array_equal(ours["revenue"], ours["extendedprice"] * (100 - ours["discount"]) // 100)


def decode_report() -> dict[str, Any]:
    rows = [(16, "write", 600.0), (16, "sum", 2000.0), (18, "write", 500.0), (18, "sum", 1800.0)]
    measurements = [
        {"name": f"uniform {bits} bits lane FOR {bits} bits {kind}", "giga_items_per_s": rate, "verified": True}
        for bits, kind, rate in rows
    ]
    other = {"name": "uniform 16 bits GPU-FOR write", "giga_items_per_s": 1.0, "verified": True}
    return {"measurements": [*measurements, other, {**measurements[0], "giga_items_per_s": 1.0, "verified": False}]}


def test_quotients_are_of_the_width_that_holds_the_column() -> None:
    ours = nvcomp.rates(decode_report())
    assert ours == {(16, "write"): 600.0, (16, "sum"): 2000.0, (18, "write"): 500.0, (18, "sum"): 1800.0}
    assert nvcomp.quotients(ours, 16, 200.0) == {"bits": 16, "write": 3.0, "sum": 10.0}
    assert nvcomp.quotients(ours, 17, 250.0) == {"bits": 18, "write": 2.0, "sum": 7.2}
    with pytest.raises(ValueError, match="19 bits"):
        nvcomp.quotients(ours, 19, 1.0)


def test_the_summary_takes_the_fastest_and_the_smallest_that_gave_the_values_back() -> None:
    def made(options: str, ratio: float, rate: float, verified: bool = True) -> nvcomp.Measurement:
        return nvcomp.Measurement("Cascaded", options, 65536, ratio=ratio, giga_values_per_s=rate, verified=verified)

    fast, small, wrong = made("a", 1.5, 200.0), made("b", 2.0, 100.0), made("c", 9.0, 900.0, verified=False)
    slow = made("d", 2.001, 50.0)
    report = nvcomp.ColumnReport("orderdate", 16, [fast, small, wrong, slow])
    assert report.fastest() == fast
    assert report.smallest() == small, "a thousandth smaller at half the speed is no better"
    (row,) = nvcomp.summary([report], nvcomp.rates(decode_report()))
    assert row["fastest_quotients"] == {"bits": 16, "write": 3.0, "sum": 10.0}
    assert row["smallest_quotients"] == {"bits": 16, "write": 6.0, "sum": 20.0}
    assert row["LZ4"] is None
    assert nvcomp.table([row]).row_count == 2
