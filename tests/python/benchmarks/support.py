"""Commands of ``warpmill bench`` in separate processes, because they bind themselves to cores."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def command(*options: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "warpmill", "bench", *map(str, options)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def report(path: Path, *options: object) -> tuple[dict[str, Any], str]:
    """The JSON report of a command that succeeds, and its output."""
    done = command(*options, "--json", path)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    return found, done.stdout + done.stderr
