"""The process that has DuckDB's extension `tpcds`, which may be of another version than this Python's DuckDB.

It is run as a script: `tpcds_process.py FOLDER texts` prints the 99 queries by number as JSON, `tpcds_process.py FOLDER
generate SF OUT` writes the 24 tables as Parquet files. FOLDER has the packages; where it is empty, they are this
Python's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

#: Rows of a row group of the files.
ROW_GROUP = 1 << 20


def main(folder: str, job: str, *arguments: str) -> None:
    """Run the command of the arguments."""
    if folder:
        sys.path.insert(0, folder)
    duckdb = importlib.import_module("duckdb")
    if job == "texts":
        con = duckdb.connect()
        _load(con)
        found = con.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
        print(json.dumps(found))
    else:
        scale, out = float(arguments[0]), Path(arguments[1])
        # A database on disk: tables of a large scale factor need not fit in memory.
        con = duckdb.connect(str(out / "tpcds.db"))
        _load(con)
        _generate(con, scale, out)


def _load(con: Any) -> None:
    spec = importlib.util.find_spec("duckdb_extension_tpcds")
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        for extension in sorted(Path(place).glob("extensions/*/tpcds.duckdb_extension")):
            con.execute(f"LOAD '{_quoted(extension)}'")
            return
    raise ImportError("there is no package duckdb_extension_tpcds with the extension")


def _generate(con: Any, scale: float, out: Path) -> None:
    con.execute(f"CALL dsdgen(sf = {scale})")
    for (name,) in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
        file = _quoted(out / f"{name}.parquet")
        con.execute(f"COPY {name} TO '{file}' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {ROW_GROUP})")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


if __name__ == "__main__":
    main(*sys.argv[1:])
