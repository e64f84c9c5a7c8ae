"""Codecs through the whole engine, on the device and by the host's threads, beside nvCOMP alone; answers compared.

`python -m warpmill_bench.nvcomp_check --json FILE` writes one table per codec and Parquet files, runs the same queries
on the CPU, and on the device with the codec undone there (`heavy`: LZ4 and Snappy by kernels of Warpmill, the rest by
nvCOMP) and by the host (`heavy_host`), and prints bytes per second of each. `--device sim` does all of it without a
GPU, for its correctness.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from rich import box
from rich.console import Console
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill_bench import cuda, lineorder, nvcomp

#: The codecs of tables and Parquet files.
CODECS = ("lz4", "snappy", "zstd", "deflate", "gdeflate")
PAGES = ("snappy", "zstd", "gzip")

#: Formats of nvCOMP that are measured alone.
ALONE = ("LZ4", "Snappy", "Zstd", "Deflate", "Gdeflate")

QUERIES = {
    "numbers": "SELECT max(price), min(price), max(customer), max(day), count(*) FROM t WHERE part < 1e7",
    "text": "SELECT count(*), min(note), max(note) FROM t WHERE note LIKE '%77%'",
}

#: The order and number of turns of the forms.
FORMS = ("heavy", "heavy_host")

Row = dict[str, Any]


def rows(count: int) -> pa.Table:
    """Lines of SSB as doubles, which no light encoding makes smaller, and a text for each."""
    data = lineorder.columns(count)
    order, part = (pyarrow.compute.cast(pa.array(data[name]), pa.string()) for name in ("orderkey", "partkey"))
    notes = pyarrow.compute.binary_join_element_wise("order", order, "has part", part, " ")
    names = {"price": "extendedprice", "customer": "custkey", "day": "orderdate", "part": "partkey"}
    numbers = {name: pa.array(data[column].astype(np.float64) / 4) for name, column in names.items()}
    return pa.table({**numbers, "note": notes})


def passed(profile: dict[str, Any]) -> dict[str, Any]:
    """The form in which the only program's data were streamed, or the reason why they were not."""
    program = profile["programs"][0]
    found = (program.get("on_device") or {}).get("path")
    if not found:
        raise RuntimeError(f"not on the device: {json.dumps(profile.get('not_on_device', program))[:600]}")
    return dict(found)


def measure(con: warpmill.Connection, codec: str, place: str, options: argparse.Namespace) -> list[Row]:
    """One row per query and form, the answers compared with the CPU's."""
    out = []
    for name, query in QUERIES.items():
        con.set("device", "cpu")
        expected = con.sql(query).fetchall()
        con.set("device", options.device)
        for form in FORMS:
            con.set("representation", form)
            for source in ("host", "pinned") if place == "table" else ("host",):
                con.set("device_data", source)
                row: Row = {"codec": codec, "from": place, "query": name, "form": form, "source": source}
                try:
                    times = []
                    for _ in range(options.runs):
                        start = time.perf_counter()
                        result = con.sql(query)
                        answer = result.fetchall()
                        times.append(time.perf_counter() - start)
                    path = passed(result.profile)
                    stages = path["measured"]
                    row |= {
                        "equal": answer == expected,
                        "seconds": min(times),
                        "undone_by": sorted({c["undone_by"] for c in path["columns"] if c["undone_by"]}),
                        "stored_bytes": sum(c["stored_bytes"] for c in path["columns"]),
                        "copied_bytes": sum(c["copied_bytes"] for c in path["columns"]),
                        "stages": stages,
                        "no_library": path["no_library"],
                    }
                except Exception as error:
                    row |= {"equal": False, "error": str(error)[:600]}
                out.append(row)
    return out


def rates(found: list[Row]) -> None:
    """Add the bandwidth in decompressed bytes: data that the host decompresses are transferred decompressed."""
    plain = {(r["codec"], r["from"], r["query"]): r.get("copied_bytes", 0) for r in found if r["form"] == "heavy_host"}
    for row in found:
        size = plain.get((row["codec"], row["from"], row["query"]), 0)
        stages = row.get("stages")
        if not size or not stages:
            continue
        # Copies that stay in page-locked memory are decompressed once, before the reported runs.
        on_host = stages["host"] if row["source"] == "host" else 0
        stage = stages["decompress"] if row["form"] == "heavy" else on_host
        row["plain_bytes"] = size
        row["decompress_gb_per_s"] = size / stage / 1e9 if stage > 0 else None
        row["all_gb_per_s"] = size / stages["total"] / 1e9


def alone(values: np.ndarray[Any, Any], library: str | None, runs: int) -> list[Row]:
    """nvCOMP on the same bytes, by its own compressors, in blocks of 64 KiB."""
    out: list[Row] = []
    device = cuda.Device()
    data = np.ascontiguousarray(values).view(np.int32)
    bench = nvcomp.Bench(device, nvcomp.Library(library), data, runs)
    bench.load(data)
    for name in ALONE:
        # The first member of these two is the compression effort: 2 is about zlib's first level.
        effort = 2 if name in ("Deflate", "Gdeflate") else 0
        codec = nvcomp.Codec(name, "", nvcomp.Plain((ctypes.c_int * 16)(effort)), nvcomp.Plain())
        found = bench.measure(codec, 64 << 10)
        out.append({"codec": name, "ratio": found.ratio, "gb_per_s": found.gb_per_s, "error": found.error})
    return out


def table(found: list[Row]) -> Table:
    """The report for people."""
    out = Table(title="decompressed GB/s", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("codec", "from", "query", "form", "source", "undone by", "decompressing", "all of it", "ms", "equal"):
        out.add_column(name, no_wrap=True)
    for row in found:
        rate = row.get("decompress_gb_per_s")
        out.add_row(
            row["codec"],
            row["from"],
            row["query"],
            row["form"],
            row["source"],
            ", ".join(row.get("undone_by", [])),
            f"{rate:.2f}" if rate else "-",
            f"{row['all_gb_per_s']:.2f}" if "all_gb_per_s" in row else "-",
            f"{row['seconds'] * 1e3:.1f}" if "seconds" in row else "-",
            "yes" if row["equal"] else f"NO {row.get('error', '')}",
        )
    return out


def run(options: argparse.Namespace) -> bool:
    """All of it within the given seconds; whether every answer was equal."""
    start = time.perf_counter()
    report: dict[str, Any] = {
        "suite": "nvcomp_check",
        "rows": options.rows,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "devices": json.loads(_warpmill.devices()),
        "measurements": [],
    }

    def save() -> None:
        rates(report["measurements"])
        report["seconds"] = round(time.perf_counter() - start, 1)
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    def late() -> bool:
        return bool(time.perf_counter() - start > options.limit)

    data = rows(options.rows)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for codec in options.codecs.split(","):
            if late():
                report.setdefault("left_out", []).append(codec)
                continue
            with warpmill.connect(Path(folder) / codec) as con:
                try:
                    con.create_table("t", data, codec=codec)
                except Exception as error:
                    report["measurements"].append(
                        {"codec": codec, "from": "table", "query": "", "form": "", "source": "", "equal": False}
                        | {"error": str(error)[:600]}
                    )
                    continue
                report["measurements"] += measure(con, codec, "table", options)
            save()
        for codec in PAGES:
            if late():
                report.setdefault("left_out", []).append(f"{codec} pages")
                continue
            path = Path(folder) / f"{codec}.parquet"
            pyarrow.parquet.write_table(data, path, compression=codec, row_group_size=1 << 20, use_dictionary=False)
            with warpmill.connect() as con:
                con.register_file("t", path)
                report["measurements"] += measure(con, codec, "parquet", options)
            save()
    if options.device == "gpu" and not late():
        try:
            report["nvcomp_alone"] = alone(data["price"].to_numpy(), options.library, 5)
        except (nvcomp.NvcompError, cuda.CudaError) as error:
            report["nvcomp_alone"] = [{"error": str(error)}]
    save()
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(report["measurements"]))
    for row in report.get("nvcomp_alone", []):
        console.print(json.dumps(row))
    console.print(f"{report['seconds']} s; left out: {report.get('left_out', 'nothing')}")
    return all(row["equal"] for row in report["measurements"])


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m warpmill_bench.nvcomp_check", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=6_000_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=3, help="runs of each query, of which the last is reported")
    parser.add_argument("--codecs", default=",".join(CODECS), help="codecs of tables")
    parser.add_argument("--device", default="gpu", choices=["gpu", "sim"])
    parser.add_argument("--folder", help="where tables are written for the time (default: the system's)")
    parser.add_argument("--library", metavar="FILE", help=f"libnvcomp.so.{nvcomp.MAJOR}, to be measured alone")
    parser.add_argument("--limit", type=float, default=45, help="seconds after which no codec is begun")
    parser.add_argument("--json", metavar="FILE", help="write the report here as well")
    options = parser.parse_args(arguments)
    sys.exit(0 if run(options) else 1)


if __name__ == "__main__":
    main()
