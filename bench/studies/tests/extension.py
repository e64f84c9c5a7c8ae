"""DuckDB's extension `tpcds` for tests: where it cannot be had, they are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suites import tpcds

if TYPE_CHECKING:
    from pathlib import Path


def packages() -> Path:
    """The folder of the packages, for `WARPMILL_TPCDS`."""
    try:
        return tpcds.packages()
    except tpcds.UnavailableError as reason:
        pytest.skip(f"no TPC-DS: {reason}")
