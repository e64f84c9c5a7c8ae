"""A suite's tables on disk: Warpmill's, Parquet files, and a database file of DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from warpmill.cli.progress import Reporter


@dataclass(frozen=True)
class Data:
    """The folder of a suite's tables."""

    suite: str
    sf: float
    database: Path
    parquet: dict[str, Path]

    @property
    def duckdb(self) -> Path:
        """DuckDB's database file, for new processes that open it."""
        return self.database.with_name("duckdb.db")


def folder(suite: str, sf: float, directory: str | None) -> Path:
    """The folder of a suite at a scale: the one given, else ``data/<suite>-sf<N>``."""
    return Path(directory) if directory else Path("data") / f"{suite}-sf{sf:g}"


def prepare(
    suite: str,
    sf: float,
    directory: str | None,
    bar: Reporter,
    *,
    tables: bool = True,
    parquet: bool = False,
    duckdb: bool = False,
) -> Data:
    """Make what is missing of Warpmill's tables, Parquet files and DuckDB's file (from the Parquet files).

    A table is there completely or not at all, so a cancelled run goes on where it was.
    """
    base = folder(suite, sf, directory)
    names = _warpmill.tables(suite)
    files = base / "parquet"
    data = Data(suite, sf, base / "warpmill", {name: files / f"{name}.parquet" for name in names})
    if tables:
        data.database.mkdir(parents=True, exist_ok=True)
        with warpmill.connect(data.database) as con:
            there = {table.name for table in con.tables()}
            for name in names:
                if name not in there:
                    con.generate(suite, name, sf, progress=bar(f"{name} (warpmill)"))
    if parquet or (duckdb and not data.duckdb.exists()):
        files.mkdir(parents=True, exist_ok=True)
        for name, path in data.parquet.items():
            if not path.exists():
                _warpmill.generate_parquet(suite, name, sf, str(path), 0, bar(f"{name} (parquet)"))
    if duckdb and not data.duckdb.exists():
        bar("all tables (duckdb)")
        make_duckdb(data)
    return data


def make_duckdb(data: Data) -> None:
    """Copy the Parquet files into a database file of DuckDB."""
    import duckdb

    # Under another name first: a file that is there is complete.
    partial = data.duckdb.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with duckdb.connect(str(partial)) as con:
        copy_tables(con, data.parquet)
    partial.rename(data.duckdb)


def copy_tables(con: Any, files: dict[str, Path]) -> None:
    """Copy Parquet files into tables of DuckDB."""
    for name, path in files.items():
        con.execute(f"CREATE TABLE \"{name}\" AS SELECT * FROM read_parquet('{path}')")
