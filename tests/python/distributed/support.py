"""Worker processes on this machine, and answers that are compared."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

import duckdb

import warpmill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Seconds after which a worker that does not answer is considered lost, in tests.
TIMEOUT = 3.0

Rows = list[tuple[Any, ...]]


def stored(folder: Path, tables: dict[str, str], segment_rows: int) -> Path:
    """A database of tables of DuckDB's queries, whose rows are in files beside it, too."""
    with warpmill.connect(folder / "db", device="cpu") as con, duckdb.connect() as other:
        con.execute(f"SET warpmill.segment_rows = {segment_rows}")
        for name, sql in tables.items():
            path = folder / f"{name}.parquet"
            other.execute(f"COPY ({sql}) TO '{path}'")
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
    return folder / "db"


class WorkerProcess:
    """One ``warpmill worker``."""

    def __init__(self, *options: str, listen: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "warpmill", "worker", "--listen", listen, "--threads", "1", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"Warpmill worker at (\S+)", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no worker: {line!r} {self.process.communicate()[1]}")
        self.address = found[1]

    def kill(self) -> None:
        """End it at once, as a machine that fails."""
        self.process.kill()
        self.process.communicate()

    def pause(self) -> None:
        """Let it answer nothing, as a machine that hangs."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process."""
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
        self.process.communicate(timeout=20)
        return self.process.returncode


class Workers:
    """Some workers."""

    def __init__(self, count: int, *options: str) -> None:
        self.workers = [WorkerProcess(*options) for _ in range(count)]

    @property
    def addresses(self) -> list[str]:
        """The addresses for sessions."""
        return [worker.address for worker in self.workers]

    def connect(self, database: Path | None = None, **settings: Any) -> warpmill.Connection:
        """A session that has them."""
        defaults: dict[str, Any] = {"threads": 1, "device": "cpu", "workers_timeout": TIMEOUT}
        return warpmill.connect(database, workers=self.addresses, **(defaults | settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()


def is_distributed(con: warpmill.Connection, sql: str) -> bool:
    """Whether workers run a part of a query."""
    return "== stages ==" in con.explain(sql)


def comparable(value: Any) -> Any:
    """A value in comparable form: numbers with nine digits, whatever their type."""
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if not math.isfinite(number) or number == 0 else float(f"{number:.9g}")
    return value


def in_order(rows: Sequence[Sequence[Any]]) -> Rows:
    """Rows in a canonical order."""
    made = [tuple(comparable(value) for value in row) for row in rows]
    return sorted(made, key=lambda row: [(value is None, str(type(value)), str(value)) for value in row])


def within(seconds: float, work: Any) -> Any:
    """The result of `work`, which must end in time."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    start = time.monotonic()
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"it has not ended after {time.monotonic() - start:.0f} seconds"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
