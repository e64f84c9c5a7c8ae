"""Tables of a suite made within a time, by another process: ``python -m warpmill_bench.suites.making``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from warpmill_bench.suites.tables import prepare

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare_within(seconds: float, base: Path, name: str, size: float, *, tables: bool, duckdb: bool) -> bool:
    """Make what is missing of a suite's tables, as `prepare` does; whether everything is there in time.

    A table that is not complete then is made anew by the next call. Raises `ValueError` with the last words of a
    process that failed.
    """
    wanted = [kind for kind, asked in (("tables", tables), ("duckdb", duckdb)) if asked]
    command = [sys.executable, "-m", "warpmill_bench.suites.making", str(base), name, repr(size), *wanted]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        # Generators start processes of their own: all of the group are ended.
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            code = process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            said.seek(0)
            lines = said.read().strip().splitlines() or [f"exit code {code}"]
            raise ValueError(f"the tables of {name} {size:g} were not made: {lines[-1]}")
    return True


def main() -> None:
    """The process that makes tables."""
    base, name, size, *wanted = sys.argv[1:]
    prepare(Path(base), name, float(size), _silent, tables="tables" in wanted, duckdb="duckdb" in wanted)


def _silent(_: str) -> Callable[[int, int], None]:
    return lambda _done, _total: None


if __name__ == "__main__":
    main()
