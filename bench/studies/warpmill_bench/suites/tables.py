"""Tables of a suite on disk: Parquet files, Warpmill's own tables, a database file of DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

import warpmill
from warpmill.bench.data import Data, make_duckdb
from warpmill.bench.data import prepare as prepare_native
from warpmill_bench.suites import groupby, hits, imdb, tpcds
from warpmill_bench.suites.registry import native, suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from warpmill.cli.progress import Reporter

#: Columns of trips that are moments.
MOMENTS = ("pickup_datetime", "dropoff_datetime")

#: Rows of a row group of the files.
ROW_GROUP = 1 << 20


def place(base: Path, name: str, size: float) -> Path:
    """The folder of a suite's tables at a size; suites over the same tables share it."""
    return base / f"{suite(name).data}-{size:g}"


def prepare(base: Path, name: str, size: float, bar: Reporter, *, tables: bool = True, duckdb: bool = True) -> Data:
    """Make what is missing of a suite's tables at a size: Parquet files; Warpmill's tables and DuckDB's file if wanted.

    A file is there completely or not at all, so a cancelled run goes on where it was.
    """
    data, folder = suite(name).data, place(base, name, size)
    if native(data):
        made = prepare_native(data, size, str(folder), bar, tables=tables, parquet=True)
        if data == "taxi":
            _with_moments(made.parquet["trips"])
    else:
        files = {table: folder / "parquet" / f"{table}.parquet" for table in suite(name).tables}
        made = Data(name, size, folder / "warpmill", files)
        if any(not path.exists() for path in files.values()):
            _make(data, size, files, bar)
        if tables:
            _import(made, bar)
    if duckdb and not made.duckdb.exists():
        bar("all tables (duckdb)")
        make_duckdb(made)
    return made


def _make(data: str, size: float, files: dict[str, Path], bar: Reporter) -> None:
    """Write the Parquet files of a suite that the engine's generator does not provide."""
    if data == "tpcds":
        bar("all tables (parquet)")
        tpcds.write(files, size)
        return
    for table, batches in _generated(data, size).items():
        files[table].parent.mkdir(parents=True, exist_ok=True)
        _write(files[table], batches, bar(f"{table} (parquet)"))


def _generated(data: str, size: float) -> dict[str, Iterator[Any]]:
    """The tables, each as tables of Arrow that follow each other."""
    if data == "h2o":
        return {"x": groupby.batches(int(size))}
    if data == "clickbench":
        return {"hits": hits.batches(int(size))}
    return {name: iter([table]) for name, table in imdb.tables(int(size)).items()}


def _with_moments(path: Path) -> None:
    """Write the file of trips anew where its moments are numbers of seconds: Parquet has no timestamps in seconds."""
    source = pyarrow.parquet.ParquetFile(path)
    kinds = source.schema_arrow
    if all(kinds.field(name).type != pa.int64() for name in MOMENTS):
        return

    def converted(batch: Any) -> Any:
        table = pa.Table.from_batches([batch])
        for name in MOMENTS:
            at = table.schema.get_field_index(name)
            moments = table.column(at).cast(pa.timestamp("s")).cast(pa.timestamp("us"))
            table = table.set_column(at, pa.field(name, pa.timestamp("us"), nullable=False), moments)
        return table

    _write(path, (converted(batch) for batch in source.iter_batches(ROW_GROUP)), lambda _done, _total: None)


def _write(path: Path, batches: Iterator[Any], progress: Any) -> None:
    partial = path.with_suffix(".partial")
    writer, rows = None, 0
    try:
        for batch in batches:
            writer = writer or pyarrow.parquet.ParquetWriter(partial, batch.schema)
            writer.write_table(batch, row_group_size=ROW_GROUP)
            rows += batch.num_rows
            progress(rows, 0)
    finally:
        if writer is not None:
            writer.close()
    partial.rename(path)


def _import(data: Data, bar: Reporter) -> None:
    data.database.mkdir(parents=True, exist_ok=True)
    with warpmill.connect(data.database, device="cpu") as con:
        there = {table.name for table in con.tables()}
        for name, path in data.parquet.items():
            if name not in there:
                bar(f"{name} (warpmill)")
                quoted = str(path.absolute()).replace("'", "''")
                con.sql(f"CREATE TABLE \"{name}\" AS SELECT * FROM '{quoted}'")


def sizes(data: Data) -> dict[str, Any]:
    """Rows and bytes of the tables: as values of Arrow, in Parquet files, in Warpmill's tables."""
    rows, plain, stored = 0, 0, 0
    for path in data.parquet.values():
        found = pyarrow.parquet.ParquetFile(path)
        rows += found.metadata.num_rows
        groups = range(found.metadata.num_row_groups)
        plain += sum(found.metadata.row_group(at).total_byte_size for at in groups)
        stored += path.stat().st_size
    tables = sum(path.stat().st_size for path in data.database.rglob("*.data"))
    return {"rows": rows, "parquet_plain_bytes": plain, "parquet_bytes": stored, "table_bytes": tables}
