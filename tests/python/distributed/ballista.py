"""A Ballista scheduler and executors on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from adbc_driver_flightsql import dbapi

if TYPE_CHECKING:
    from pathlib import Path

    from distributed.support import Rows


class Program:
    """A process of ``warpmill ballista-...``, and the addresses that it prints."""

    def __init__(self, command: str, *options: object) -> None:
        arguments = [sys.executable, "-m", "warpmill", command, *(str(option) for option in options)]
        # A pipe that nobody reads would stop it one day.
        with tempfile.TemporaryFile("w+") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
            assert self.process.stdout is not None
            self.addresses = re.findall(r"on (\S+:\d+)", self.process.stdout.readline())
            if not self.addresses:
                self.process.kill()
                self.process.wait()
                log.seek(0)
                raise AssertionError(log.read())

    def kill(self) -> None:
        """End it at once, as a machine that fails."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


class Ballista:
    """A scheduler of a database, and executors of one thread each."""

    def __init__(self, database: Path, executors: int, *options: object) -> None:
        self.scheduler = Program(
            "ballista-scheduler",
            "--database",
            database,
            "--listen",
            "127.0.0.1:0",
            "--port",
            0,
            "--timeout",
            3,
            *options,
        )
        self.executors = [self.executor() for _ in range(executors)]

    def executor(self, *options: object) -> Program:
        """One more executor."""
        settings = ["--scheduler", self.scheduler.addresses[0], "--threads", 1, "--device", "cpu"]
        return Program("ballista-executor", *settings, *options)

    def connect(self) -> Any:
        """A session of the Flight SQL server."""
        return dbapi.connect(f"grpc://{self.scheduler.addresses[1]}", autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in [*self.executors, self.scheduler]:
            if program.process.poll() is None:
                program.kill()


def rows(con: Any, sql: str) -> Rows:
    """The rows of a query; HUGEINTs, which travel as decimals, are integers again."""

    def value(value: Any) -> Any:
        return int(value) if isinstance(value, Decimal) and value.as_tuple().exponent == 0 else value

    with con.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(value(part) for part in row) for row in cursor.fetchall()]


def is_job(con: Any, sql: str) -> bool:
    """Whether executors run a query."""
    return any("JobExec" in str(value) for row in rows(con, f"EXPLAIN {sql}") for value in row)
