"""``make demo``: the Star Schema Benchmark from nothing to answers."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill.bench.data import folder
from warpmill.cli.progress import bars
from warpmill.cli.units import milliseconds, ratio, size

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of a value in a plain column: integers, and strings as codes.
PLAIN_BYTES = 4


def load(con: warpmill.Connection, files: Path, sf: float) -> None:
    """Generate Parquet files and import them."""
    files.mkdir(parents=True, exist_ok=True)
    with bars() as bar:
        for name in _warpmill.tables("ssb"):
            path = files / f"{name}.parquet"
            if not path.exists():
                _warpmill.generate_parquet("ssb", name, sf, str(path), 0, bar(f"generate {name}"))
            con.create_table(name, path, replace=True, progress=bar(f"import {name}"))


def compression(con: warpmill.Connection) -> Table:
    """Stored bytes of every table against plain columns."""
    out = Table(title="Compression", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("table", "rows", "columns", "plain (4 bytes a value)", "stored", "ratio"):
        out.add_column(title, justify="left" if title == "table" else "right")
    all_plain = all_stored = 0
    for table in con.tables():
        columns = len(con.sql(f'SELECT * FROM "{table.name}" LIMIT 0').columns)
        plain = (table.rows or 0) * columns * PLAIN_BYTES
        stored = table.stored_bytes or 0
        all_plain, all_stored = all_plain + plain, all_stored + stored
        out.add_row(table.name, f"{table.rows:,}", str(columns), size(plain), size(stored), ratio(plain, stored))
    out.add_section()
    out.add_row("all", "", "", size(all_plain), size(all_stored), ratio(all_plain, all_stored))
    return out


def queries(con: warpmill.Connection, runs: int) -> Table:
    """Median times of the 13 queries."""
    out = Table(title=f"Queries (median of {runs} runs)", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("query", "time", "rows", "first row"):
        out.add_column(title, justify="right" if title in ("time", "rows") else "left")
    total = 0.0
    for name, sql in _warpmill.queries("ssb"):
        con.sql(sql)
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            relation = con.sql(sql)
            times.append((time.perf_counter() - start) * 1000)
        total += statistics.median(times)
        first = relation.fetchone() or ()
        out.add_row(name, milliseconds(statistics.median(times)), f"{len(relation):,}", ", ".join(map(str, first)))
    out.add_section()
    out.add_row("total", milliseconds(total), "", "")
    return out


def main() -> None:
    """Load, query, explain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each query")
    parser.add_argument("--data", help="where tables are kept")
    options = parser.parse_args()
    base = folder("ssb", options.sf, options.data)
    base.mkdir(parents=True, exist_ok=True)
    console = Console()
    with warpmill.connect(base / "demo", fallback="error") as con:
        start = time.perf_counter()
        load(con, base / "parquet", options.sf)
        console.print(f"SSB at scale factor {options.sf:g} loaded in {time.perf_counter() - start:.1f} s")
        console.print(compression(con))
        console.print(queries(con, options.runs))
        sql = dict(_warpmill.queries("ssb"))["2.1"]
        console.print("EXPLAIN of query 2.1", style="bold")
        console.print(con.explain(sql), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
