"""The speed of making tables: Parquet, CSV and Arrow into a database on disk, against DuckDB's CREATE TABLE AS.

The rows are TPC-H's lineitem. Both engines write to a new database in the same folder, and a run ends when the rows
are there for good: Warpmill has committed the table's version, DuckDB has checkpointed its file.
"""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rich import box
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill.bench.data import folder
from warpmill.bench.report import machine
from warpmill.cli.units import ratio, size

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from warpmill.cli.progress import Reporter

TABLE = "lineitem"
SOURCES = ("parquet", "csv", "arrow")


@dataclass
class Sources:
    """The rows in every form that they are read in."""

    parquet: Path
    csv: Path
    arrow: Any

    def size(self, source: str) -> int:
        """Bytes of a source: of the file, or of Arrow's buffers."""
        if source == "arrow":
            return int(self.arrow.nbytes)
        path: Path = getattr(self, source)
        return path.stat().st_size


@dataclass
class Ingested:
    """One engine on one source."""

    engine: str
    source: str
    source_bytes: int
    rows: int = 0
    #: Bytes of the table on disk.
    stored_bytes: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median time of a run, in seconds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Megabytes of the source per second."""
        return self.source_bytes / self.median / 1e6


class Writer(Protocol):
    """An engine that makes a table of a source, in a new database."""

    name: str

    def write(self, source: str, sources: Sources, directory: Path) -> tuple[int, int]:
        """Make the table; its rows and its bytes on disk."""
        ...


class Warpmill:
    """Imports into a database directory."""

    name = "warpmill"

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def write(self, source: str, sources: Sources, directory: Path) -> tuple[int, int]:
        """Make the table; its rows and its bytes on disk."""
        with warpmill.connect(directory / "warpmill", threads=self._threads) as con:
            con.create_table(TABLE, getattr(sources, source))
            (table,) = con.tables()
        return table.rows or 0, table.stored_bytes or 0


class DuckDB:
    """CREATE TABLE AS into a database file, checkpointed."""

    name = "duckdb"

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def write(self, source: str, sources: Sources, directory: Path) -> tuple[int, int]:
        """Make the table; its rows and its bytes on disk."""
        import duckdb

        path = directory / "peer.duckdb"
        con = duckdb.connect(str(path), config={"threads": self._threads})
        if source == "arrow":
            con.register("incoming", sources.arrow)
            reads = "incoming"
        else:
            reads = f"read_{source}('{getattr(sources, source)}')"
        con.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM {reads}")
        con.execute("CHECKPOINT")
        rows = con.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
        con.close()
        return int(rows[0]) if rows else 0, path.stat().st_size


def prepare(sf: float, directory: str | None, bar: Reporter) -> tuple[Sources, Path]:
    """The sources, made where they are missing, and the folder they are in."""
    import duckdb
    import pyarrow.parquet

    base = folder("ingest", sf, directory)
    base.mkdir(parents=True, exist_ok=True)
    parquet, csv = base / f"{TABLE}.parquet", base / f"{TABLE}.csv"
    if not parquet.exists():
        _warpmill.generate_parquet("tpch", TABLE, sf, str(parquet), 0, bar(f"{TABLE} (parquet)"))
    if not csv.exists():
        # Written under another name first: a file that is there is complete.
        partial = csv.with_suffix(".partial")
        duckdb.connect().execute(f"COPY (FROM read_parquet('{parquet}')) TO '{partial}' (FORMAT csv, HEADER)")
        partial.rename(csv)
    return Sources(parquet, csv, pyarrow.parquet.read_table(parquet)), base


def measure(sources: Sources, base: Path, threads: int, runs: int, told: Callable[[str, str], None]) -> list[Ingested]:
    """Every source into every engine: one run that warms up, then `runs` rounds that take the engines in turn."""
    writers: list[Writer] = [Warpmill(threads), DuckDB(threads)]
    measured: list[Ingested] = []
    for source in SOURCES:
        row = {writer.name: Ingested(writer.name, source, sources.size(source)) for writer in writers}
        for run in range(runs + 1):
            for writer in writers:
                told(source, writer.name)
                target = base / "written"
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                start = time.perf_counter()
                counted = writer.write(source, sources, target)
                seconds = time.perf_counter() - start
                shutil.rmtree(target)
                outcome = row[writer.name]
                outcome.rows, outcome.stored_bytes = counted
                if run > 0:
                    outcome.seconds.append(round(seconds, 4))
        measured += row.values()
    return measured


def as_json(sf: float, threads: int, measured: list[Ingested]) -> dict[str, Any]:
    """The report of docs/bench.md."""
    results = [
        {
            "engine": outcome.engine,
            "source": outcome.source,
            "source_bytes": outcome.source_bytes,
            "rows": outcome.rows,
            "stored_bytes": outcome.stored_bytes,
            "runs_s": outcome.seconds,
            "median_s": round(outcome.median, 4),
            "mb_per_s": round(outcome.rate, 1),
        }
        for outcome in measured
    ]
    return {"suite": "ingest", "table": TABLE, "sf": sf, "threads": threads, "machine": machine(), "results": results}


def table(title: str, measured: list[Ingested]) -> Table:
    """One line per source, the engines side by side."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("source")
    for name in ("size", "rows", "warpmill", "duckdb", "/ duckdb", "stored", "by duckdb", "ratio"):
        out.add_column(name, justify="right", no_wrap=True)
    for source in SOURCES:
        ours, theirs = (outcome for outcome in measured if outcome.source == source)
        out.add_row(
            source,
            size(ours.source_bytes),
            f"{ours.rows:,}",
            f"{ours.rate:.0f} MB/s",
            f"{theirs.rate:.0f} MB/s",
            f"{ours.rate / theirs.rate:.2f}x",
            size(ours.stored_bytes),
            size(theirs.stored_bytes),
            ratio(theirs.stored_bytes, ours.stored_bytes),
        )
    return out
