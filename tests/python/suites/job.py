"""All texts of the Join Order Benchmark for tests, which are skipped where `WARPMILL_JOB` names no folder of them."""

from __future__ import annotations

import os

import pytest

from warpmill_bench.suites import job


def texts() -> dict[str, str]:
    """The queries by name; a folder that lacks some is an error, not a reason to skip."""
    if not os.environ.get(job.VARIABLE):
        pytest.skip(f"{job.VARIABLE} is not set")
    return job.texts()
