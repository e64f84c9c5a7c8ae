"""A suite's tables on disk: Warpmill's, and one Parquet copy for the peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from warpmill.cli.progress import Reporter


@dataclass(frozen=True)
class Data:
    """The place where a suite's tables are."""

    suite: str
    sf: float
    database: Path
    parquet: dict[str, Path]


def folder(suite: str, sf: float, directory: str | None) -> Path:
    """The folder of a suite at a scale: the one given, else ``data/<suite>-sf<N>``."""
    return Path(directory) if directory else Path("data") / f"{suite}-sf{sf:g}"


def prepare(suite: str, sf: float, directory: str | None, peers: bool, bar: Reporter) -> Data:
    """Make what is missing; a table is there completely or not at all, so a cancelled run goes on where it was."""
    base = folder(suite, sf, directory)
    database, files = base / "warpmill", base / "parquet"
    database.mkdir(parents=True, exist_ok=True)
    names = _warpmill.tables(suite)
    with warpmill.connect(database) as con:
        there = {table.name for table in con.tables()}
        for name in names:
            if name not in there:
                con.generate(suite, name, sf, progress=bar(f"{name} (warpmill)"))
    paths = {name: files / f"{name}.parquet" for name in names}
    if peers:
        files.mkdir(exist_ok=True)
        for name, path in paths.items():
            if not path.exists():
                _warpmill.generate_parquet(suite, name, sf, str(path), 0, bar(f"{name} (parquet)"))
    return Data(suite, sf, database, paths)
