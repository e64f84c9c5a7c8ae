"""TPC-DS from DuckDB's own extension `tpcds`: data and query texts, made in another process, kept under target/tpcds.

The texts are the TPC's, so that none is in this repository: the extension gives them when the tests run. It exists on
PyPI for DuckDB 1.5.5, which is installed into a folder of its own: the DuckDB of the tests is another version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "target" / "tpcds"
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5")

#: Large enough for most queries to find rows, small enough for a second per query at worst.
SCALE = 0.02

_GENERATE = """
import json, pathlib, sys
site, out, scale = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
sys.path.insert(0, str(site))
import duckdb
con = duckdb.connect()
extension = next(site.glob("duckdb_extension_tpcds/extensions/*/tpcds.duckdb_extension"))
con.execute(f"LOAD '{extension}'")
con.execute(f"CALL dsdgen(sf = {scale})")
tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
for name in tables:
    con.execute(f"COPY {name} TO '{out / name}.parquet'")
queries = dict(con.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
(out / "suite.json").write_text(json.dumps({"tables": tables, "queries": queries}))
"""


class UnavailableError(Exception):
    """The extension cannot be had here."""


def _run(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise UnavailableError(f"{what} failed: {lines[-1] if lines else done.returncode}")


def suite(scale: float = SCALE) -> tuple[dict[str, Path], dict[int, str]]:
    """Parquet files of the 24 tables at a scale factor, and the 99 query texts.

    Raises:
        UnavailableError: the extension's packages cannot be installed (no network), or do not run here.

    """
    folder = FOLDER / f"{scale}-{PACKAGES[0].partition('==')[2]}"
    described = folder / "suite.json"
    if not described.exists():
        made = FOLDER / f"making-{os.getpid()}"
        shutil.rmtree(made, ignore_errors=True)
        (made / "data").mkdir(parents=True)
        site = made / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
        try:
            _run("installing DuckDB's extension tpcds", [*pip, *PACKAGES])
            script = [sys.executable, "-I", "-c", _GENERATE, str(site), str(made / "data"), str(scale)]
            _run("generating TPC-DS", script)
            shutil.rmtree(folder, ignore_errors=True)
            (made / "data").rename(folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(str(error)) from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
    content = json.loads(described.read_text())
    tables = {name: folder / f"{name}.parquet" for name in content["tables"]}
    return tables, {int(number): text for number, text in content["queries"].items()}
