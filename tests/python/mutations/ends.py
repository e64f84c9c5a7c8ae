"""The ends of processes by signals: what the interpreter and the system say of them, for the next run may not end so.

``WARPMILL_CORES`` names a folder for core files; where there is ``gdb``, the stack of the thread that failed is told.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

LINES = 40
"""The lines of each that are told, at most."""


def cores() -> Path | None:
    """The folder for core files, made where it does not exist."""
    name = os.environ.get("WARPMILL_CORES")
    if not name:
        return None
    folder = Path(name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def limit_cores() -> None:
    """Lets this process leave a core file behind where there is a folder for it."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most if cores() else 0, most))


def faults() -> list[str]:
    """The process faults that the kernel log reports, if readable: addresses, and the library of the instruction."""
    if sys.platform != "linux" or shutil.which("dmesg") is None:
        return []
    told = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout
    return [line for line in told.splitlines() if "segfault at" in line or "traps: " in line]


def stack(core: Path) -> list[str]:
    """The stack of the thread of a core file that failed."""
    if shutil.which("gdb") is None:
        return []
    command = ["gdb", "-batch", "-ex", "info registers rip rsp", "-ex", f"bt {LINES}", sys.executable, str(core)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()


def told(code: int, said: str, before: list[str]) -> str:
    """The end of a process that `said` this in the end; `before`: the faults before it was started."""
    parts = [f"the process ended with {code}"]
    if code < 0:
        parts += [line for line in faults() if line not in before]
        parts += said.splitlines()[-LINES:]
        folder = cores()
        found = sorted(folder.glob("core*"), key=lambda path: path.stat().st_mtime) if folder else []
        parts += stack(found[-1]) if found else []
    return "\n    ".join(parts)
