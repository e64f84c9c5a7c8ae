"""TPC-DS: tables and the 99 query texts of DuckDB's extension `tpcds`, which is a package of its own.

The texts are the TPC's, so that none is in this repository. The extension is published for some versions of DuckDB
only, not for the one that is measured: a folder has both packages, and a process of its own loads them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from warpmill_bench.suites import tpcds_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The packages that have the extension, and the DuckDB that loads it.
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5")

#: The environment variable that names the folder of the packages.
VARIABLE = "WARPMILL_TPCDS"

TABLES = (
    *("call_center", "catalog_page", "catalog_returns", "catalog_sales", "customer", "customer_address"),
    *("customer_demographics", "date_dim", "household_demographics", "income_band", "inventory", "item", "promotion"),
    *("reason", "ship_mode", "store", "store_returns", "store_sales", "time_dim", "warehouse", "web_page"),
    *("web_returns", "web_sales", "web_site"),
)

#: The smallest scale factor: at most of the smaller ones the extension's generator does not end.
SMALLEST = 0.01

#: The years that have sales.
FIRST_YEAR, LAST_YEAR = 1998, 2002

#: A year of a text, and the year before or after it that the text computes.
_YEAR = re.compile(r"\b(1998|1999|2000|2001|2002)\b(?:\s*([+-])\s*(\d)\b)?")

_LIMIT = re.compile(r"(?i)\blimit\s+(\d+)$")


class TpcdsUnavailableError(ImportError):
    """DuckDB's extension `tpcds` is not installed, or does not run; the message says what to install."""


def packages() -> str:
    """The folder of the packages; empty where this Python has them itself.

    Raises `TpcdsUnavailableError` where there are none.
    """
    if folder := os.environ.get(VARIABLE):
        if (Path(folder) / "duckdb_extension_tpcds").is_dir() and (Path(folder) / "duckdb").is_dir():
            return str(Path(folder).absolute())
        raise TpcdsUnavailableError(f"{VARIABLE} names {folder}, which has no packages for TPC-DS: {_advice(folder)}")
    versions = [_version(package.partition("==")[0]) for package in PACKAGES]
    if versions[0] is not None and versions[0] == versions[1]:
        return ""
    own = f"DuckDB {versions[0]}" if versions[0] else "no DuckDB"
    why = f"this Python has {own} and {'no extension' if versions[1] is None else f'that of {versions[1]}'}"
    raise TpcdsUnavailableError(f"TPC-DS needs DuckDB's extension tpcds ({why}): {_advice('FOLDER')}")


def _advice(folder: str) -> str:
    install = f"python -m pip install --no-deps --target {folder} {' '.join(PACKAGES)}"
    return f"run `{install}`, and set {VARIABLE}={folder}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def texts(folder: str | None = None) -> dict[str, str]:
    """The queries by number, without the semicolons at their ends.

    The packages are in `folder`, or where they are found.

    Raises `TpcdsUnavailableError` where the extension is not there.
    """
    return dict(_texts(packages() if folder is None else folder))


@cache
def _texts(folder: str) -> dict[str, str]:
    found: list[tuple[int, str]] = json.loads(_run(folder, "texts"))
    return {str(number): text.strip().rstrip(";").rstrip() for number, text in found}


def write(files: Mapping[str, Path], scale: float, folder: str | None = None) -> None:
    """Generate the tables at a scale factor, and put each where it belongs, complete or not at all.

    The packages are in `folder`, or where they are found.

    Raises `TpcdsUnavailableError` where the extension is not there or does not run, `ValueError` where the scale factor
    is less than `SMALLEST`.
    """
    if scale < SMALLEST:
        raise ValueError(f"TPC-DS has scale factors from {SMALLEST} on, not {scale:g}: its generator would not end")
    folder = packages() if folder is None else folder
    places = {path.parent for path in files.values()}
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix="making-", dir=min(places)))
    try:
        _run(folder, "generate", str(scale), str(making))
        for name, path in files.items():
            (making / f"{name}.parquet").rename(path)
    finally:
        shutil.rmtree(making)


def _run(folder: str, *arguments: str) -> str:
    """The output of the process that has the extension."""
    command: list[str] = [sys.executable, "-I", tpcds_process.__file__, folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1][:300] if lines else f"exit code {done.returncode}"
        raise TpcdsUnavailableError(f"DuckDB's extension tpcds did not run ({arguments[0]}): {reason}")
    return done.stdout


def others(sql: str) -> Iterator[str]:
    """The query in other years that have sales, and with another LIMIT at its end, as far as it has them.

    All years move by the same number. A further row of the sorted result leaves those before it as they are.
    """
    shifts = _shifts(sql)
    limit = _LIMIT.search(sql)
    if limit is None:
        yield from (_moved(sql, shift) for shift in shifts if shift)
        return
    for more in range(1, 1000):
        moved = _moved(sql, shifts[more % len(shifts)])
        yield _LIMIT.sub(f"LIMIT {int(limit[1]) + more}", moved)


def _shifts(sql: str) -> list[int]:
    """Numbers of years by which a text can move without leaving those that have sales; 0 first."""
    years = [int(found[1]) + int(f"{found[2] or '+'}{found[3] or 0}") for found in _YEAR.finditer(sql)]
    if not years:
        return [0]
    span = range(FIRST_YEAR - min(years), LAST_YEAR - max(years) + 1)
    return [0, *(shift for shift in span if shift)]


def _moved(sql: str, shift: int) -> str:
    def later(found: re.Match[str]) -> str:
        return str(int(found[1]) + shift) + found[0][len(found[1]) :]

    return _YEAR.sub(later, sql)
