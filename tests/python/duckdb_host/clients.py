"""Other clients of DuckDB than this process: other versions of the Python package, and the command line.

Packages are installed once, into a cache (`WARPMILL_CLIENTS_CACHE`, or `warpmill-clients` among the user's caches).
Where the package index cannot be reached, the tests that need them are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import warpmill._warpmill as native
from warpmill.duckdb import extension_path

QUERIES = Path(__file__).parents[3] / "queries" / "tpch"

#: TPC-H's query texts.
TPCH = {path.stem: path.read_text().strip().rstrip(";") for path in sorted(QUERIES.glob("*.sql"))}


def cache() -> Path:
    """The cache folder of packages."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("WARPMILL_CLIENTS_CACHE", home / "warpmill-clients"))


def package(name: str, version: str) -> Path:
    """The folder of a package's installed files; skips the test where it cannot be had."""
    folder = cache() / f"{name}-{version}-{sys.implementation.cache_tag}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent))
    except OSError as error:
        pytest.skip(f"{name} {version} cannot be kept: {error}")
    try:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=1"]
        command += ["--disable-pip-version-check", "--target", str(part), f"{name}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        if done.returncode != 0:
            pytest.skip(f"{name} {version} cannot be installed: {done.stderr.strip()[-300:]}")
        if not folder.is_dir():
            part.rename(folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} {version} cannot be installed: no answer in 3 minutes")
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def tpch(folder: Path) -> Path:
    """TPC-H at SF 0.01 as Parquet files in `folder`."""
    for table in native.tables("tpch"):
        native.generate_parquet("tpch", table, 0.01, str(folder / f"{table}.parquet"), 2)
    return folder


def literal(text: str) -> str:
    """`text` as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def without_shims(folder: Path) -> Path:
    """The extension in the state for a DuckDB version without a shim."""
    there = folder / "warpmill.duckdb_extension"
    if not there.exists():
        shutil.copy(extension_path(), there)
    return there
