"""Servers to attack."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(database: Path, *options: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a server of a database; yields its process and its address."""
    words = ["--database", database, "--port", 0, *options]
    command = [sys.executable, "-m", "warpmill", "serve", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, server.stdout.readline().split()[-1]
        finally:
            server.kill()
