"""The speed of the disk under a database, a baseline for reading from it."""

from __future__ import annotations

import mmap
import os
import statistics
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def disk_gb_per_s(database: Path, seconds: float = 3.0, threads: int = 4, block: int = 8 << 20) -> float | None:
    """GB/s at which the largest file of a database is read with O_DIRECT, for at most so many seconds.

    None where the file system cannot do that, or the file is smaller than a block.
    """
    files = sorted(database.glob("*/*.data"), key=lambda path: path.stat().st_size)
    blocks = files[-1].stat().st_size // block if files else 0
    if not blocks or not hasattr(os, "O_DIRECT"):
        return None
    try:
        handle = os.open(files[-1], os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    read = [0] * threads
    begun = time.perf_counter()

    def work(number: int) -> None:
        # Anonymous memory is aligned to pages, as direct reads need it.
        with mmap.mmap(-1, block) as buffer:
            at = number
            while at < blocks and time.perf_counter() - begun < seconds:
                read[number] += os.preadv(handle, [buffer], at * block)
                at += threads

    try:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        os.close(handle)
    return round(sum(read) / (time.perf_counter() - begun) / 1e9, 3)


class Disk:
    """The disk under databases, measured now and then: disks that others use, too, are not always equally fast."""

    def __init__(self) -> None:
        #: The one that is measured next.
        self.database: Path | None = None
        self._rates: list[float] = []

    def measure(self) -> None:
        """Measures it once more, for a second at most."""
        rate = disk_gb_per_s(self.database, seconds=1.0) if self.database else None
        if rate is not None:
            self._rates.append(rate)

    @property
    def gb_per_s(self) -> float | None:
        """The median of the measurements; None without any."""
        return round(statistics.median(self._rates), 3) if self._rates else None
