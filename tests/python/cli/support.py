"""The command line in this process, and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from warpmill.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


class Terminal:
    """A process whose stdin, stdout and stderr are a terminal."""

    def __init__(self, *command: str, folder: Path, columns: int = 80) -> None:
        self._own, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "XDG_STATE_HOME": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
        )
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def until(self, text: str, seconds: float = 60) -> str:
        """The output up to and including `text`."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._own], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._own, 1 << 16).decode(errors="replace")
                except OSError:
                    break
        assert text in self.seen, self.seen
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def end(self) -> int:
        """All of it, until the process has ended."""
        while True:
            try:
                part = os.read(self._own, 1 << 16)
            except OSError:
                break
            if not part:
                break
            self.seen += part.decode(errors="replace")
        os.close(self._own)
        return self.process.wait(timeout=60)
