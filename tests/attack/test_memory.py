"""Statements that ask for more memory than there is: each is answered, or refused with a typed error."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from attack.hogs import HOGS
from attack.memory import peak_mb
from attack.serving import serving
from attack.test_statements import Outcome, sizes, survive

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds after which a statement hangs: texts of gigabytes are made by code that tests build with little optimization.
HANGS = 120


def check(outcomes: list[Outcome], peak_mb: int) -> None:
    wrong = [it for it in outcomes if it["outcome"] == "died" or it["seconds"] > HANGS]
    wrong += [it for it in outcomes if it.get("error", "OutOfMemoryError") != "OutOfMemoryError"]
    wrong += [it for it in outcomes if it.get("peak_mb", 0) > peak_mb]
    assert not wrong


def test_no_statement_exceeds_the_limit(tmp_path: Path) -> None:
    small = survive("limited", sizes(list(HOGS), 1000), 120, str(tmp_path / "db"), "128MB")
    assert all(it["outcome"] == "answered" for it in small)
    large = survive("limited", sizes(list(HOGS), 10_000_000), 300, str(tmp_path / "db"), "128MB")
    check(large, peak_mb=1200)
    assert sum(it["outcome"] == "refused" for it in large) >= len(HOGS) // 2


def test_planning_is_counted(tmp_path: Path) -> None:
    database = str(tmp_path / "db")
    kinds = ["union all", "ctes", "joins", "and", "case", "in list"]
    few = survive("limited", sizes(kinds, 100), 60, database, "256MB")
    assert all(it["outcome"] == "answered" for it in few)
    # Values take less than operators do.
    [many] = survive("limited", [("values", 100_000)], 120, database, "256MB")
    assert many["outcome"] == "answered"
    # Plans of a thousand operators exceed this limit; results of such conditions and lists fit.
    [*plans, condition, case, values] = survive("limited", sizes(kinds, 1000), 120, database, "64MB")
    assert [it.get("error") for it in plans] == ["OutOfMemoryError"] * 3
    assert all("planning needs" in it["message"] for it in plans)
    assert {it["outcome"] for it in (condition, case, values)} == {"answered"}


def test_no_statement_takes_all_memory(tmp_path: Path) -> None:
    # Each in its own process: the C library keeps address space of freed memory.
    most = 3 << 30
    large = [survive("limited", [(kind, 10_000_000)], 120, str(tmp_path / "db"), "", memory=most)[0] for kind in HOGS]
    check(large, peak_mb=3000)


def test_a_server_stays_within_its_memory(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_flightsql")
    with serving(tmp_path / "db", "--memory", "2GB", "--query-timeout", 30) as (server, uri):
        assert survive("flight", [("hog: repeat", 10)], 60, uri)[0]["outcome"] == "answered"
        with ThreadPoolExecutor(3) as pool:
            work = sizes(list(HOGS), 3_000_000) + sizes(list(HOGS), 10_000_000)
            done = [pool.submit(survive, "flight", work[at::3], 600, uri, "again") for at in range(3)]
            outcomes = [it for one in done for it in one.result()]
        assert not [it for it in outcomes if it["outcome"] == "died"]
        assert server.poll() is None, "the server has ended"
        peak = peak_mb(server.pid)
        print(f"the server had {peak:.0f} MB at most, of 2048 MB")
        assert peak <= 2 * 1024 * 1.2


WITHOUT_THREADS = """
import resource, warpmill
from pathlib import Path

connection = warpmill.connect()
size = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize:"))
most = (int(size.split()[1]) << 10) + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    connection.execute("SELECT 1")
except Exception as error:
    print(type(error).__name__)
"""


def test_a_system_without_threads_is_an_error() -> None:
    child = subprocess.run([sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() in {"OutOfMemoryError", "InternalError"}
