"""nvCOMP's decompression of SSB's columns, beside Warpmill's: ``python -m warpmill_bench.nvcomp --json nvcomp.json``.

nvCOMP (NVIDIA's proprietary codecs, wheel ``nvidia-libnvcomp-cu13``) compresses each column on the GPU with every
combination of its options, and the decompression is timed. ``--against`` takes the report of ``warpmill bench decode``
and adds how many times as fast Warpmill decodes values of that width: written to memory, which is what nvCOMP does, and
fused with a sum.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import re
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char, c_double, c_int, c_size_t, c_uint8, c_uint32, c_uint64
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from warpmill_bench import cuda, lineorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: Structures are passed by value and change between major versions.
MAJOR = 6

#: The chunk size that nvCOMP's documentation recommends, and others to try with the fastest options.
CHUNK, OTHER_CHUNKS = 64 << 10, (16 << 10, 32 << 10, 128 << 10, 256 << 10, 1 << 20)

_UINT = 5
_MODES = {"asymmetric": 1, "symmetric": 2}
_ENCODINGS = {"delta": 1, "RLE": 2, "FOR": 4}
_BITPACK = 1


class NvcompError(RuntimeError):
    """nvCOMP is not there, or refused a call."""


class CascadedCommon(ctypes.Structure):
    """``nvcompCascadedCommonOpts_t``."""

    _fields_ = [
        ("data_type", c_int),
        ("mode", c_int),
        ("terminal_codec_flags", c_uint64),
        ("coarse_grained_encoding_flags", c_uint64),
    ]


class CascadedCompressOpts(ctypes.Structure):
    """``nvcompBatchedCascadedCompressOpts_t``."""

    _fields_ = [
        ("common_opts", CascadedCommon),
        ("fine_grained_encoding_flags", c_uint64),
        ("compression_level", c_uint8),
        ("reserved", c_char * 31),
    ]


class CascadedDecompressOpts(ctypes.Structure):
    """``nvcompBatchedCascadedDecompressOpts_t``."""

    _fields_ = [("backend", c_int), ("common_opts", CascadedCommon), ("reserved", c_char * 32)]


class BitcompCompressOpts(ctypes.Structure):
    """``nvcompBatchedBitcompCompressOpts_t``."""

    _fields_ = [
        ("algorithm", c_int),
        ("data_type", c_int),
        ("delta", c_double),
        ("mode", c_int),
        ("reserved", c_char * 44),
    ]


class BitcompDecompressOpts(ctypes.Structure):
    """``nvcompBatchedBitcompDecompressOpts_t``."""

    _fields_ = [("backend", c_int), ("reserved", c_char * 60)]


class LZ4CompressOpts(ctypes.Structure):
    """``nvcompBatchedLZ4CompressOpts_t``."""

    _fields_ = [("data_type", c_int), ("bitshuffle_mode", c_int), ("reserved", c_char * 56)]


class LZ4DecompressOpts(ctypes.Structure):
    """``nvcompBatchedLZ4DecompressOpts_t``."""

    _fields_ = [
        ("backend", c_int),
        ("sort_before_hw_decompress", c_int),
        ("data_type", c_int),
        ("bitshuffle_mode", c_int),
        ("reserved", c_char * 48),
    ]


class SnappyCompressOpts(ctypes.Structure):
    """``nvcompBatchedSnappyCompressOpts_t``."""

    _fields_ = [("reserved", c_char * 64)]


class SnappyDecompressOpts(ctypes.Structure):
    """``nvcompBatchedSnappyDecompressOpts_t``."""

    _fields_ = [("backend", c_int), ("sort_before_hw_decompress", c_int), ("reserved", c_char * 56)]


class Plain(ctypes.Structure):
    """Options of the other formats, all zero by default."""

    _fields_ = [("members", c_int * 16)]


class Alignments(ctypes.Structure):
    """``nvcompAlignmentRequirements_t``."""

    _fields_ = [("input", c_size_t), ("output", c_size_t), ("temp", c_size_t)]


class Properties(ctypes.Structure):
    """``nvcompProperties_t``."""

    _fields_ = [("version", c_uint32), ("cudart_version", c_uint32)]


@dataclass(frozen=True)
class Codec:
    """A format of nvCOMP with its options; `text` names them."""

    name: str
    text: str
    compress: ctypes.Structure
    decompress: ctypes.Structure


def cascaded() -> Iterator[Codec]:
    """Every combination of Cascaded's options that means something; asymmetric mode needs FOR, and has levels."""
    sets = ["none", "FOR", "delta+FOR", "RLE+FOR", "delta+RLE+FOR"]
    wanted = [("asymmetric", text, level) for text in sets[1:] for level in ((3, 7) if "RLE" in text else (3,))]
    wanted += [("symmetric", text, 0) for text in sets]
    for mode, text, level in wanted:
        flags = sum(_ENCODINGS[name] for name in text.split("+") if name in _ENCODINGS)
        # With the options of the compressor, the decompressor need not support all formats.
        common = CascadedCommon(_UINT, _MODES[mode], _BITPACK, 0)
        name = f"{mode} {text}" + (f" level {level}" if level else "")
        yield Codec("Cascaded", name, CascadedCompressOpts(common, flags, level), CascadedDecompressOpts(0, common))


def others() -> Iterator[Codec]:
    """nvCOMP's other formats, for orientation."""
    for algorithm in (0, 1):
        yield Codec("Bitcomp", f"algorithm {algorithm}", BitcompCompressOpts(algorithm, _UINT), BitcompDecompressOpts())
    yield Codec("LZ4", "", LZ4CompressOpts(_UINT), LZ4DecompressOpts(data_type=_UINT))
    yield Codec("Snappy", "", SnappyCompressOpts(), SnappyDecompressOpts())


class Library:
    """nvCOMP's batched C interface."""

    def __init__(self, path: str | None = None) -> None:
        try:
            self._library = ctypes.CDLL(path or _installed())
        except OSError as error:
            wheel = f"nvidia-libnvcomp-cu13=={MAJOR}.*"
            raise NvcompError(f"nvCOMP was not found ({error}): pip install {wheel!r}, or name the file") from error
        self._library.nvcompGetStatusString.restype = ctypes.c_char_p
        found = Properties()
        self.check("nvcompGetProperties", self._library.nvcompGetProperties(byref(found)))
        if found.version // 1000 != MAJOR:
            raise NvcompError(f"nvCOMP {found.version // 1000} was found; its structures are not those of {MAJOR}")
        self.version = f"{found.version // 1000}.{found.version // 100 % 10}.{found.version % 100}"

    def check(self, name: str, status: int) -> None:
        """Raise an error status as an exception."""
        if status:
            text = self._library.nvcompGetStatusString(status) or b"unknown status"
            raise NvcompError(f"{name}: {text.decode()} ({status})")

    def call(self, codec: Codec, name: str, *args: Any) -> None:
        """Call a codec's function. Addresses and sizes are 64-bit; structures go by value, as the interface has it."""
        full = f"nvcompBatched{codec.name}{name}"
        self.check(full, getattr(self._library, full)(*(c_uint64(a) if isinstance(a, int) else a for a in args)))

    def size(self, codec: Codec, name: str, *args: Any) -> int:
        """The size that a function gives back through a pointer, its place in `args` given as ``...``."""
        found = c_size_t()
        self.call(codec, name, *(byref(found) if arg is ... else arg for arg in args))
        return found.value


def _installed() -> str:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "libnvcomp" / "lib64" / f"libnvcomp.so.{MAJOR}"
        if path.exists():
            return str(path)
    return f"libnvcomp.so.{MAJOR}"


@dataclass
class Measurement:
    """One codec on one column; sizes in bytes, rates of decompressed bytes and of values."""

    codec: str
    options: str
    chunk_bytes: int
    compressed_bytes: int = 0
    ratio: float = 0.0
    median_ms: float = 0.0
    min_ms: float = 0.0
    gb_per_s: float = 0.0
    giga_values_per_s: float = 0.0
    verified: bool = False
    error: str | None = None


@dataclass
class ColumnReport:
    """A column's measurements; `bits` is the width that Warpmill packs it to."""

    column: str
    bits: int
    measurements: list[Measurement] = field(default_factory=list)

    def fastest(self, codec: str = "Cascaded", mode: str = "") -> Measurement | None:
        """The fastest decompression among options that begin with `mode`."""
        return max(self._of(codec, mode), key=lambda m: m.giga_values_per_s, default=None)

    def smallest(self, codec: str = "Cascaded") -> Measurement | None:
        """The best compression; the fastest among those within a thousandth."""
        best = max((m.ratio for m in self._of(codec)), default=0.0)
        near = [m for m in self._of(codec) if m.ratio >= 0.999 * best]
        return max(near, key=lambda m: m.giga_values_per_s, default=None)

    def _of(self, codec: str, mode: str = "") -> list[Measurement]:
        return [m for m in self.measurements if m.codec == codec and m.options.startswith(mode) and m.verified]


class Bench:
    """Decompression of one column, in every way."""

    def __init__(self, device: cuda.Device, library: Library, values: NDArray[np.int32], runs: int) -> None:
        self._device, self._library, self._runs = device, library, runs
        self._values = values
        self._back = device.pinned(len(values))
        self._input = device.allocate(values.nbytes)
        self._output = device.allocate(values.nbytes)

    def column(self, name: str, values: NDArray[np.int32]) -> ColumnReport:
        """All options with the recommended chunks, then the fastest of each mode with other chunks."""
        self.load(values)
        report = ColumnReport(name, lineorder.width(values))
        grid = list(cascaded())
        report.measurements += [self.measure(codec, CHUNK) for codec in [*grid, *others()]]
        for mode in _MODES:
            best = report.fastest(mode=mode)
            codecs = [codec for codec in grid if best and codec.text == best.options]
            report.measurements += [self.measure(codec, chunk) for codec in codecs for chunk in OTHER_CHUNKS]
        return report

    def load(self, values: NDArray[np.int32]) -> None:
        """Replace the input of compression by equally many values."""
        self._values = values
        with self._device.upload(values) as uploaded:
            self._device.copy(self._input.pointer, uploaded.pointer, values.nbytes)
            self._device.synchronize()

    def measure(self, codec: Codec, chunk: int) -> Measurement:
        """Compress, decompress, compare, time; failures of nvCOMP are reported."""
        found = Measurement(codec.name, codec.text, chunk)
        try:
            self._measure(codec, chunk, found)
        except NvcompError as error:
            found.error = str(error)
        return found

    def _measure(self, codec: Codec, chunk: int, found: Measurement) -> None:
        device, library, total = self._device, self._library, self._values.nbytes
        offsets = np.arange(0, total, chunk, dtype=np.uint64)
        sizes = np.minimum(chunk, total - offsets).astype(np.uint64)
        count = len(offsets)
        with (
            device.upload(self._input.pointer + offsets) as inputs,
            device.upload(self._output.pointer + offsets) as outputs,
            device.upload(sizes) as plain,
            device.allocate(8 * count) as written,
            device.allocate(4 * count) as statuses,
        ):
            device.fill(statuses, 0)
            packed, compressed = self._compress(codec, chunk, inputs, plain, statuses)
            temp = library.size(
                codec, "DecompressGetTempSize", count, chunk, codec.decompress, ..., total, device.stream
            )
            with (
                packed,
                device.upload(packed.pointer + _starts(compressed)) as pointers,
                device.upload(compressed) as lengths,
                device.allocate(temp) as scratch,
            ):

                def work() -> None:
                    library.call(
                        codec, "DecompressAsync", pointers.pointer, lengths.pointer, plain.pointer, written.pointer,
                        count, scratch.pointer, temp, outputs.pointer, codec.decompress, statuses.pointer,
                        device.stream,
                    )  # fmt: skip

                device.fill(self._output, 0xEE)
                work()
                self._check_statuses(codec, statuses, count)
                found.verified = self._is_equal()
                work()
                times = [device.time(work) for _ in range(self._runs)]
        found.compressed_bytes = int(compressed.sum())
        found.ratio = total / found.compressed_bytes
        found.median_ms, found.min_ms = statistics.median(times), min(times)
        found.gb_per_s = total / found.median_ms / 1e6
        found.giga_values_per_s = found.gb_per_s / 4

    def _compress(
        self, codec: Codec, chunk: int, inputs: cuda.Buffer, plain: cuda.Buffer, statuses: cuda.Buffer
    ) -> tuple[cuda.Buffer, NDArray[np.uint64]]:
        """The compressed chunks, close together, and their sizes."""
        device, library, total = self._device, self._library, self._values.nbytes
        count = inputs.size // 8
        most = library.size(codec, "CompressGetMaxOutputChunkSize", chunk, codec.compress, ...)
        stride = (most + 255) // 256 * 256
        temp = library.size(codec, "CompressGetTempSize", count, chunk, codec.compress, ..., total, device.stream)
        with (
            device.allocate(stride * count) as spread,
            device.upload(spread.pointer + stride * np.arange(count, dtype=np.uint64)) as pointers,
            device.allocate(8 * count) as lengths,
            device.allocate(temp) as scratch,
        ):
            library.call(
                codec, "CompressAsync", inputs.pointer, plain.pointer, chunk, count, scratch.pointer, temp,
                pointers.pointer, lengths.pointer, codec.compress, statuses.pointer, device.stream,
            )  # fmt: skip
            self._check_statuses(codec, statuses, count)
            compressed = device.download(lengths, np.empty(count, np.uint64))
            starts = _starts(compressed)
            packed = device.allocate(int(starts[-1] + compressed[-1]))
            for index, (start, size) in enumerate(zip(starts.tolist(), compressed.tolist(), strict=True)):
                device.copy(packed.pointer + start, spread.pointer + index * stride, size)
            device.synchronize()
        return packed, compressed

    def _check_statuses(self, codec: Codec, statuses: cuda.Buffer, count: int) -> None:
        bad = self._device.download(statuses, np.empty(count, np.int32))
        for status in bad[bad != 0][:1].tolist():
            self._library.check(f"{codec.name}, {int((bad != 0).sum())} of {count} chunks", status)

    def _is_equal(self) -> bool:
        back = self._device.download(self._output, self._back)
        pieces = range(0, len(back), 1 << 20)
        with ThreadPoolExecutor(16) as pool:
            same = pool.map(
                lambda at: np.array_equal(back[at : at + (1 << 20)], self._values[at : at + (1 << 20)]), pieces
            )
            return all(same)


def _starts(sizes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The offsets of chunks of these sizes, each aligned to 16 bytes (the formats require at most 8)."""
    padded = (sizes + np.uint64(15)) // np.uint64(16) * np.uint64(16)
    return np.cumsum(padded, dtype=np.uint64) - padded


def rates(report: dict[str, Any]) -> dict[tuple[int, str], float]:
    """Billions of values per second of Warpmill's decoding, by width and by what becomes of the values."""
    pattern = re.compile(r"uniform (\d+) bits lane FOR \1 bits (write|sum)")
    found = {}
    for row in report["measurements"]:
        match = pattern.fullmatch(row["name"])
        if match and row["verified"]:
            found[int(match[1]), match[2]] = float(row["giga_items_per_s"])
    return found


def quotients(ours: dict[tuple[int, str], float], bits: int, theirs: float) -> dict[str, float]:
    """The factor by which Warpmill is faster, at the narrowest measured width that holds the column."""
    width = min((w for w, kind in ours if w >= bits and kind == "write"), default=None)
    if width is None:
        raise ValueError(f"the report of `warpmill bench decode` has no width of {bits} bits or more")
    return {"bits": width, **{kind: ours[width, kind] / theirs for kind in ("write", "sum") if (width, kind) in ours}}


def summary(columns: list[ColumnReport], ours: dict[tuple[int, str], float] | None) -> list[dict[str, Any]]:
    """Per column: Cascaded at its fastest and at its smallest, the other formats' rates, and the quotients."""
    out: list[dict[str, Any]] = []
    for column in columns:
        row: dict[str, Any] = {"column": column.column, "bits": column.bits}
        for kind, best in (("fastest", column.fastest()), ("smallest", column.smallest())):
            row[kind] = asdict(best) if best else None
            if best and ours:
                row[f"{kind}_quotients"] = quotients(ours, column.bits, best.giga_values_per_s)
        for name in ("Bitcomp", "LZ4", "Snappy"):
            other = column.fastest(name)
            row[name] = asdict(other) if other else None
        out.append(row)
    return out


def table(rows: list[dict[str, Any]]) -> Table:
    """One line per column, and one for Cascaded with the best ratio where that is another choice of options."""
    out = Table(title="nvCOMP's decompression", title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("column", no_wrap=True)
    out.add_column("Cascaded", no_wrap=True)
    for name in ("chunk KiB", "ratio", "32 / bits", "GB/s", "G/s", "write /", "sum /", "Bitcomp G/s", "LZ4", "Snappy"):
        out.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        for kind in ("fastest", "smallest"):
            best, quotient = row[kind], row.get(f"{kind}_quotients", {})
            if best is None or (kind == "smallest" and best == row["fastest"]):
                continue
            rest = [
                f"{row[name]['giga_values_per_s']:.0f}" if row[name] else "-" for name in ("Bitcomp", "LZ4", "Snappy")
            ]
            out.add_row(
                row["column"] if kind == "fastest" else "  smallest",
                best["options"],
                str(best["chunk_bytes"] >> 10),
                f"{best['ratio']:.2f}",
                f"{32 / row['bits']:.2f}",
                f"{best['gb_per_s']:.0f}",
                f"{best['giga_values_per_s']:.0f}",
                *(f"{quotient[what]:.2f}x" if what in quotient else "-" for what in ("write", "sum")),
                *(rest if kind == "fastest" else ["", "", ""]),
            )
    return out


def run(options: argparse.Namespace) -> bool:
    """Measure, print, save; whether every round trip gave the column back."""
    ours = rates(json.loads(Path(options.against).read_text(encoding="utf-8"))) if options.against else None
    library, device = Library(options.library), cuda.Device()
    data = lineorder.columns(options.rows)
    names = options.columns.split(",") if options.columns else list(data)
    bench = Bench(device, library, data[names[0]], options.runs)
    reports: list[ColumnReport] = []
    found: dict[str, Any] = {
        "suite": "nvcomp",
        "rows": options.rows,
        "runs": options.runs,
        "nvcomp": library.version,
        "device": {"name": device.name, "driver": device.driver},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for name in names:
        reports.append(bench.column(name, data[name]))
        found["summary"] = summary(reports, ours)
        found["columns"] = [asdict(report) for report in reports]
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    Console(width=None if sys.stdout.isatty() else 180).print(table(found["summary"]))
    failed = [(r.column, m) for r in reports for m in r.measurements if not m.verified]
    for column, m in failed:
        sys.stdout.write(f"{column}, {m.codec} {m.options}, {m.chunk_bytes >> 10} KiB: {m.error or 'wrong values'}\n")
    return not any(m.error is None for _, m in failed)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m warpmill_bench.nvcomp", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=120_000_000, help="values per column")
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each, after two that warm up")
    parser.add_argument("--columns", metavar="NAME,...", help=f"of {', '.join(lineorder.NAMES)} (default: all)")
    parser.add_argument("--library", metavar="FILE", help=f"libnvcomp.so.{MAJOR} (default: the installed wheel's)")
    parser.add_argument("--against", metavar="FILE", help="the JSON of `warpmill bench decode` on the same GPU")
    parser.add_argument("--json", metavar="FILE", help="write the report here as well")
    sys.exit(0 if run(parser.parse_args(arguments)) else 1)


if __name__ == "__main__":
    main()
