"""``warpmill bench parquet``: how fast columns of Parquet files are decoded, on a device and on the CPU.

The same files, the same queries, which do nothing but read columns of one kind: on the device the pages travel as they
are stored, and its kernels decompress and decode them; on the CPU DataFusion does. Bandwidths are bytes of decoded
values, and stored bytes, by the time of the whole query, so that the two can be compared. Answers have to be the same.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from warpmill.cli.progress import Reporter

Row = dict[str, Any]

TABLE = "lineitem"

#: The codecs of the files.
CODECS = ("none", "snappy", "lz4", "zstd")

#: Queries that read columns of one kind, and little else.
QUERIES = {
    "keys": "SELECT max(l_orderkey), max(l_partkey), max(l_suppkey) FROM lineitem WHERE l_linenumber >= 0",
    "decimals": "SELECT max(l_quantity), max(l_extendedprice), max(l_discount) FROM lineitem WHERE l_linenumber >= 0",
    "dates": "SELECT max(l_shipdate), max(l_commitdate), max(l_receiptdate) FROM lineitem WHERE l_linenumber >= 0",
    "few strings": "SELECT count(*) FROM lineitem WHERE l_shipmode < 'Z' AND l_shipinstruct < 'Z'",
    "many strings": "SELECT count(*) FROM lineitem WHERE l_comment < 'zz'",
}


def prepare(sf: float, base: Path, bar: Reporter) -> dict[str, Path]:
    """The table in one file per codec, made where it is missing: row groups of 2^20 rows, by PyArrow."""
    import pyarrow.parquet

    base.mkdir(parents=True, exist_ok=True)
    source = base / f"{TABLE}-{sf:g}.parquet"
    if not source.exists():
        _warpmill.generate_parquet("tpch", TABLE, sf, str(source), 0, bar(f"{TABLE} (parquet)"))
    files = {codec: base / f"{TABLE}-{sf:g}-{codec}.parquet" for codec in CODECS}
    for codec, path in files.items():
        if path.exists():
            continue
        partial = path.with_suffix(".partial")
        rows = pyarrow.parquet.ParquetFile(source)
        with pyarrow.parquet.ParquetWriter(partial, rows.schema_arrow, compression=codec) as writer:
            for batch in rows.iter_batches(batch_size=1 << 20):
                writer.write_batch(batch, row_group_size=1 << 20)
        partial.rename(path)
    return files


def measure(files: dict[str, Path], device: str, memory: str, runs: int, told: Callable[[str], None]) -> list[Row]:
    """The median of `runs` runs of every query on every file, on `device` and on the CPU."""
    found = []
    for codec, path in files.items():
        answers: dict[str, Any] = {}
        for where in dict.fromkeys((device, "cpu")):
            with warpmill.connect(device=where, column_cache="off") as con:
                con.set("gpu_memory_limit", memory)
                con.register_file(TABLE, path)
                for name, query in QUERIES.items():
                    told(f"{codec}, {name} on {where}")
                    row = _measure(con, query, runs)
                    answer = row.pop("answer")
                    if answers.setdefault(name, answer) != answer:
                        raise RuntimeError(f"{codec}, {name}: {where} has another answer than {device}")
                    found.append({"codec": codec, "columns": name, "asked": where, **row})
    return _with_bandwidths(found)


def _measure(con: warpmill.Connection, query: str, runs: int) -> Row:
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        result = con.sql(query)
        answer = result.fetchall()
        times.append(1e3 * (time.perf_counter() - started))
    profile = result.profile
    programs = profile["programs"]
    scans = [scan for program in programs for scan in (program["on_device"] or {}).get("scans", [])]
    parquet = [scan["parquet"] for scan in scans if scan["parquet"]]
    reasons = [program["not_on_device"] for program in programs if program["not_on_device"]]
    return {
        "ms": round(statistics.median(times[1:]), 3),
        "first_ms": round(times[0], 3),
        "device": programs[0]["device"] if programs else "cpu",
        "by_device": sum(scan["by_device"] for scan in parquet),
        "by_host": sum(scan["by_host"] for scan in parquet),
        "reasons": reasons + [reason for scan in parquet for reason in scan["reasons"]],
        "stored_bytes": sum(scan["stored_bytes"] for scan in parquet),
        "decoded_bytes": sum(scan["decoded_bytes"] for scan in parquet),
        "answer": answer,
    }


def _with_bandwidths(rows: list[Row]) -> list[Row]:
    """GB/s of stored and of decoded bytes, as the device counted them, for the CPU's times as well."""
    known = {(row["codec"], row["columns"]): row for row in rows if row["decoded_bytes"]}
    for row in rows:
        counted = known.get((row["codec"], row["columns"]), row)
        for kind in ("stored", "decoded"):
            row[f"{kind}_gbs"] = round(counted[f"{kind}_bytes"] / row["ms"] / 1e6, 3)
    return rows


def table(title: str, rows: list[Row]) -> Table:
    """One line per file and kind of column, with the device next to the CPU."""
    shown = Table(title=title, box=box.SIMPLE)
    for name in ("codec", "columns", "on", "ms", "stored GB/s", "decoded GB/s", "chunks by device", "by host"):
        shown.add_column(name, justify="left" if name in ("codec", "columns", "on") else "right")
    for row in rows:
        bandwidths = (f"{row['stored_gbs']:.2f}", f"{row['decoded_gbs']:.2f}")
        counts = (str(row["by_device"]), str(row["by_host"]))
        shown.add_row(row["codec"], row["columns"], row["device"], f"{row['ms']:.1f}", *bandwidths, *counts)
    return shown


def as_json(asked: Row, rows: list[Row]) -> Row:
    """The report."""
    return {"version": warpmill.__version__, "benchmark": "parquet", **asked, "queries": QUERIES, "measured": rows}
