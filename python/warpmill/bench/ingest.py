"""The speed of making tables: Parquet, CSV and frames into a database on disk, by ``CREATE TABLE AS``, against DuckDB.

The rows are TPC-H's. Both engines write all tables to a new database in the same folder, from the same files or frames,
and a run ends when the rows are there for good: Warpmill has committed the last table's version, DuckDB has
checkpointed and closed its file. What the two have stored is compared: numbers of rows, and a checksum of every column.
"""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass, field
from functools import cached_property
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

#: TPC-H's tables, in the order that they are made in.
TABLES = tuple(_warpmill.tables("tpch"))

#: Forms that the rows are read in: files, then frames of the libraries of these names.
FILES = ("parquet", "csv")
FRAMES = ("arrow", "polars", "pandas")
SOURCES = (*FILES, *FRAMES)

#: The name under which a frame is registered.
FRAME = "incoming"

#: Rows, and the checksum of each column.
Content = tuple[int, dict[str, int]]


@dataclass
class Rows:
    """The rows of one table in each form in which they are read; frames are created at their first use."""

    parquet: Path
    csv: Path

    @cached_property
    def arrow(self) -> Any:
        """A `pyarrow.Table`."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(self.parquet)

    @cached_property
    def polars(self) -> Any:
        """A `polars.DataFrame`."""
        import polars

        return polars.read_parquet(self.parquet)

    @cached_property
    def pandas(self) -> Any:
        """A `pandas.DataFrame` of NumPy's types: decimals are floats, dates are timestamps."""
        import pyarrow.compute
        import pyarrow.parquet

        columns = {}
        rows = pyarrow.parquet.read_table(self.parquet)
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            kind = column.type
            if pyarrow.types.is_decimal(kind):
                kind = pyarrow.float64()
            elif pyarrow.types.is_date(kind):
                kind = pyarrow.timestamp("us")
            columns[name] = pyarrow.compute.cast(column, kind)
        return pyarrow.table(columns).to_pandas()

    def size(self, source: str) -> int:
        """Bytes of a source: of the file, or of the frame's buffers."""
        if source in FILES:
            path: Path = getattr(self, source)
            return path.stat().st_size
        if source == "arrow":
            return int(self.arrow.nbytes)
        return int(self.polars.estimated_size() if source == "polars" else self.pandas.memory_usage(deep=True).sum())

    def forget(self, source: str) -> None:
        """Give the memory of a frame back."""
        if source in FRAMES:
            self.__dict__.pop(source, None)


@dataclass
class Ingested:
    """One engine on one source: all tables, one after the other."""

    engine: str
    source: str
    source_bytes: int
    rows: int = 0
    #: Bytes of the tables on disk.
    stored_bytes: int = 0
    #: Seconds of the runs, and of each table in them.
    seconds: list[float] = field(default_factory=list)
    tables: dict[str, list[float]] = field(default_factory=dict)
    #: Whether rows and checksums of all tables are those of DuckDB's; None for DuckDB.
    equal: bool | None = None
    #: The first table and column that differ.
    difference: str | None = None
    #: The reason why there are no times.
    error: str | None = None

    @property
    def median(self) -> float | None:
        """The median time of a run, in seconds."""
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def rate(self) -> float | None:
        """Megabytes of the source per second."""
        return self.source_bytes / self.median / 1e6 if self.median else None


class Database(Protocol):
    """A new database of an engine."""

    name: str

    def create(self, table: str, source: str, rows: Rows) -> None:
        """CREATE TABLE AS."""

    def finish(self) -> None:
        """Make the tables last."""

    def stored_bytes(self) -> int:
        """Bytes on disk."""
        ...

    def close(self) -> None:
        """Close the connection and files."""


class Warpmill:
    """A database directory."""

    name = "warpmill"

    def __init__(self, directory: Path, threads: int) -> None:
        self._con = warpmill.connect(directory / "warpmill", threads=threads)

    def create(self, table: str, source: str, rows: Rows) -> None:
        """CREATE TABLE AS: the version is committed when the statement is over."""
        if source in FRAMES:
            self._con.register(FRAME, getattr(rows, source))
        reads = FRAME if source in FRAMES else f"'{getattr(rows, source)}'"
        self._con.sql(f"CREATE TABLE {table} AS SELECT * FROM {reads}")
        if source in FRAMES:
            self._con.unregister(FRAME)

    def finish(self) -> None:
        """Nothing is left to do."""

    def stored_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(table.stored_bytes or 0 for table in self._con.tables())

    def content(self, table: str, types: dict[str, str]) -> Content:
        """Two columns at a time, so that there is memory for large tables."""
        import duckdb

        first = next(iter(types))
        counted, sums = 0, {}
        with duckdb.connect() as con:
            for column, kind in types.items():
                con.register("ours", self._con.sql(f'SELECT "{first}" AS k, "{column}" AS v FROM {table}').arrow())
                key, value = f"CAST(k AS {types[first]})", f"CAST(v AS {kind})"
                counted, sums[column] = _checksum(con, "ours", key, value)
                con.unregister("ours")
        return counted, sums

    def close(self) -> None:
        """Close the session."""
        self._con.close()


class DuckDB:
    """A database file."""

    name = "duckdb"

    def __init__(self, directory: Path, threads: int) -> None:
        import duckdb

        self._path = directory / "peer.duckdb"
        self._threads = threads
        self._con: Any = duckdb.connect(str(self._path), config={"threads": threads})

    def create(self, table: str, source: str, rows: Rows) -> None:
        """CREATE TABLE AS."""
        if source in FRAMES:
            self._con.register(FRAME, getattr(rows, source))
        reads = FRAME if source in FRAMES else f"read_{source}('{getattr(rows, source)}')"
        self._con.execute(f"CREATE TABLE {table} AS SELECT * FROM {reads}")
        if source in FRAMES:
            self._con.unregister(FRAME)

    def finish(self) -> None:
        """Write everything to the database file, and close it."""
        self._con.execute("CHECKPOINT")
        self._con.close()

    def stored_bytes(self) -> int:
        """Bytes of the file."""
        return self._path.stat().st_size

    def types(self, table: str) -> dict[str, str]:
        """The types of a table's columns."""
        return {row[0]: row[1] for row in self._con.execute(f"DESCRIBE {table}").fetchall()}

    def content(self, table: str, types: dict[str, str]) -> Content:
        """Rows and checksums."""
        first = next(iter(types))
        counted, sums = 0, {}
        for column in types:
            counted, sums[column] = _checksum(self._con, table, f'"{first}"', f'"{column}"')
        return counted, sums

    def close(self) -> None:
        """Close the file."""
        self._con.close()


def _checksum(con: Any, table: str, key: str, value: str) -> tuple[int, int]:
    """Rows, and the sum of the hashes of a column's values, each with the row's first value: in any order the same."""
    ((counted, total),) = con.sql(f"SELECT count(*), sum(hash({key}, {value})) FROM {table}").fetchall()
    return int(counted), int(total or 0)


def prepare(
    sf: float, directory: str | None, tables: list[str], csv: bool, bar: Reporter
) -> tuple[dict[str, Rows], Path]:
    """The sources of tables, files made where they are missing, and the folder that they are in."""
    import duckdb

    base = folder("ingest", sf, directory)
    base.mkdir(parents=True, exist_ok=True)
    rows = {name: Rows(base / f"{name}.parquet", base / f"{name}.csv") for name in tables}
    for name, files in rows.items():
        if not files.parquet.exists():
            _warpmill.generate_parquet("tpch", name, sf, str(files.parquet), 0, bar(f"{name} (parquet)"))
        if csv and not files.csv.exists():
            bar(f"{name} (csv)")
            # Written under another name first: a file that is there is complete.
            partial = files.csv.with_suffix(".partial")
            duckdb.connect().execute(f"COPY (FROM read_parquet('{files.parquet}')) TO '{partial}' (FORMAT csv, HEADER)")
            partial.rename(files.csv)
    return rows, base


def measure(
    rows: dict[str, Rows], sources: list[str], base: Path, threads: int, runs: int, told: Callable[[str, str], None]
) -> list[Ingested]:
    """Every source into every engine: one run that warms up, then `runs` rounds that take the engines in turn.

    What the first run has stored is compared.
    """
    measured: list[Ingested] = []
    for source in sources:
        source_bytes = sum(one.size(source) for one in rows.values())
        row = {kind.name: Ingested(kind.name, source, source_bytes) for kind in (Warpmill, DuckDB)}
        target = base / "written"
        for run in range(runs + 1):
            for kind in (Warpmill, DuckDB):
                told(source, kind.name)
                outcome = row[kind.name]
                if outcome.error:
                    continue
                _fresh(target / kind.name)
                try:
                    _run(kind(target / kind.name, threads), source, rows, outcome, run > 0)
                except Exception as error:  # of any library: it is reported, and the other engine goes on
                    outcome.error = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
            if run == 0:
                told(source, "checksums")
                _compare(row["warpmill"], row["duckdb"], list(rows), target, threads)
        shutil.rmtree(target)
        for one in rows.values():
            one.forget(source)
        measured += row.values()
    return measured


def _fresh(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def _run(database: Database, source: str, rows: dict[str, Rows], outcome: Ingested, timed: bool) -> None:
    start = before = time.perf_counter()
    try:
        for name, one in rows.items():
            database.create(name, source, one)
            now = time.perf_counter()
            if timed:
                outcome.tables.setdefault(name, []).append(round(now - before, 4))
            before = now
        database.finish()
        if timed:
            outcome.seconds.append(round(time.perf_counter() - start, 4))
        outcome.stored_bytes = database.stored_bytes()
    finally:
        database.close()


def _compare(ours: Ingested, theirs: Ingested, tables: list[str], target: Path, threads: int) -> None:
    """Compare rows and checksums of all tables of both databases."""
    if ours.error or theirs.error:
        return
    mine, peer = Warpmill(target / "warpmill", threads), DuckDB(target / "duckdb", threads)
    for name in tables:
        types = peer.types(name)
        (rows, sums), (peer_rows, peer_sums) = mine.content(name, types), peer.content(name, types)
        ours.rows += rows
        theirs.rows += peer_rows
        if rows != peer_rows:
            ours.difference = ours.difference or f"{name} has {rows} rows, expected {peer_rows}"
        different = [column for column in types if sums[column] != peer_sums[column]]
        if different:
            ours.difference = ours.difference or f"{name} has other values of {', '.join(different)}"
    ours.equal = ours.difference is None
    mine.close()
    peer.close()


def failed(measured: list[Ingested]) -> bool:
    """Whether Warpmill did not make the tables, or made others."""
    return any(one.equal is False or (one.error and one.engine == "warpmill") for one in measured)


def problems(measured: list[Ingested]) -> list[str]:
    """The imports that failed or gave other rows."""
    return [
        f"{one.engine} from {one.source}: {one.error or one.difference}"
        for one in measured
        if one.error or one.difference
    ]


def as_json(sf: float, threads: int, tables: list[str], measured: list[Ingested]) -> dict[str, Any]:
    """The report of docs/bench.md."""
    results = []
    for outcome in measured:
        row: dict[str, Any] = {
            "engine": outcome.engine,
            "source": outcome.source,
            "source_bytes": outcome.source_bytes,
            "rows": outcome.rows,
            "stored_bytes": outcome.stored_bytes,
            "runs_s": outcome.seconds,
            "median_s": None if outcome.median is None else round(outcome.median, 4),
            "mb_per_s": None if outcome.rate is None else round(outcome.rate, 1),
            "tables_s": {name: round(statistics.median(times), 4) for name, times in outcome.tables.items()},
            "equal": outcome.equal,
        }
        if outcome.error or outcome.difference:
            row["error"] = outcome.error or outcome.difference
        results.append(row)
    return {"suite": "ingest", "tables": tables, "sf": sf, "threads": threads, "machine": machine(), "results": results}


def table(title: str, measured: list[Ingested]) -> Table:
    """One line per source, the engines side by side."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    out.add_column("source")
    for name in ("size", "rows", "warpmill", "duckdb", "/ duckdb", "MB/s", "by duckdb", "stored", "by duckdb", "ratio"):
        out.add_column(name, justify="right", no_wrap=True)
    out.add_column("checksums")
    for source in dict.fromkeys(outcome.source for outcome in measured):
        ours, theirs = (outcome for outcome in measured if outcome.source == source)
        out.add_row(
            source,
            size(ours.source_bytes),
            f"{ours.rows:,}",
            *("did not run" if one.median is None else f"{one.median:.3f} s" for one in (ours, theirs)),
            f"{ours.median / theirs.median:.2f}x" if ours.median and theirs.median else "-",
            *("-" if one.rate is None else f"{one.rate:.0f}" for one in (ours, theirs)),
            size(ours.stored_bytes),
            size(theirs.stored_bytes),
            ratio(theirs.stored_bytes, ours.stored_bytes),
            "" if ours.equal is None else "equal" if ours.equal else "differ",
        )
    return out
