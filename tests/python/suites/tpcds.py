"""TPC-DS for tests: the suite of `warpmill bench matrix`, whose data and query texts are kept under target/tpcds.

The texts are the TPC's, so that none is in this repository: DuckDB's extension `tpcds` gives them when the tests run.
It exists on PyPI for DuckDB 1.5.5, which is installed into a folder of its own: the DuckDB of the tests is another
version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from warpmill_bench.suites import tpcds

FOLDER = Path(__file__).parents[3] / "target" / "tpcds"

#: Large enough for most queries to find rows, small enough for a second per query at worst.
SCALE = 0.02

_VERSION = tpcds.PACKAGES[0].partition("==")[2]


class UnavailableError(Exception):
    """The extension cannot be had here."""


def packages() -> Path:
    """The folder of the extension and its DuckDB: the one that `WARPMILL_TPCDS` names, or one of the tests' own.

    Raises:
        UnavailableError: the packages cannot be installed (no network).

    """
    if named := os.environ.get(tpcds.VARIABLE):
        return Path(named)
    folder = FOLDER / f"packages-{_VERSION}"
    if folder.exists():
        return folder
    made = FOLDER / f"installing-{os.getpid()}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made), *tpcds.PACKAGES]
    try:
        done = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            reason = lines[-1] if lines else f"exit code {done.returncode}"
            raise UnavailableError(f"installing DuckDB's extension tpcds failed: {reason}")
        # Another process may have finished first.
        with suppress(OSError):
            made.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(str(error)) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def suite(scale: float = SCALE) -> tuple[dict[str, Path], dict[int, str]]:
    """Parquet files of the 24 tables at a scale factor, and the 99 query texts.

    Raises:
        UnavailableError: the extension's packages cannot be installed (no network), or do not run here.

    """
    folder = FOLDER / f"{scale}-{_VERSION}"
    described = folder / "suite.json"
    if not described.exists():
        site = str(packages())
        try:
            tpcds.write({name: folder / f"{name}.parquet" for name in tpcds.TABLES}, scale, site)
            content = {"tables": tpcds.TABLES, "queries": tpcds.texts(site)}
        except (OSError, tpcds.TpcdsUnavailableError) as error:
            raise UnavailableError(str(error)) from error
        described.write_text(json.dumps(content))
    content = json.loads(described.read_text())
    tables = {name: folder / f"{name}.parquet" for name in content["tables"]}
    return tables, {int(number): text for number, text in content["queries"].items()}
