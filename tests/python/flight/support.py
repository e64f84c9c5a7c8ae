"""A server in a separate process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Served:
    """A process of `warpmill serve`, and its addresses."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        self.process, self.log = process, log
        line = process.stdout.readline()
        found = re.fullmatch(r"Warpmill serves (\S+)\n", line)
        assert found, (line, log.read_text())
        self.uri = found[1]
        self.port = int(self.uri.rsplit(":", 1)[1])
        self.metrics = process.stdout.readline().split()[3].removesuffix("/metrics")

    def metric(self, name: str) -> float:
        """A metric, labels added up."""
        text = urllib.request.urlopen(f"{self.metrics}/metrics").read().decode()
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def serve(folder: Path, *options: object, environment: dict[str, str] | None = None) -> Iterator[Served]:
    """A server that ends with the block."""
    command = [sys.executable, "-m", "warpmill", "serve", "--database", folder / "db", "--port", 0, "--metrics-port", 0]
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(part) for part in (*command, *options)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield Served(process, log)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def until(condition: Callable[[], Any], seconds: float = 15) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
