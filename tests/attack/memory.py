"""The memory of processes."""

from __future__ import annotations

from pathlib import Path


def peak_mb(process: int | str) -> float:
    """The most memory that a process ever had since its program began.

    ``resource`` would tell that of the process that started it, too.
    """
    lines = Path("/proc", str(process), "status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
