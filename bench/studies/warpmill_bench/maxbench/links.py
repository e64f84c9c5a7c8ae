"""Transfers by size, over every link that this machine has: to and from a GPU, within main memory, from the disk.

A process of its own, ``python -m warpmill_bench.maxbench.links``, so that no other one shares the GPU's memory with it.
Copies to and from a GPU are timed by events around the copy; those in main memory and from disk by the clock.
"""

from __future__ import annotations

import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpmill_bench.cuda import CudaError, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Row = dict[str, Any]

#: Sizes of a transfer in bytes: powers of 4 from 4 KiB, and the largest of each kind of run.
SMALLEST = 4 << 10
LARGEST = 1 << 30
LARGEST_QUICK = 16 << 20

#: Timed transfers of each size.
RUNS = 9

#: Seconds that all of them may take.
SECONDS = 60.0


def measure(folder: Path, quick: bool, gpu: bool, seconds: float = SECONDS) -> tuple[list[Row], list[Row]]:
    """Times of transfers, and reasons for missing ones; measured in a separate process, which then ends.

    A process that takes longer than `seconds`, or `SECONDS`, is ended.
    """
    seconds = min(seconds, SECONDS)
    command = [sys.executable, "-m", "warpmill_bench.maxbench.links", str(folder)]
    command += [*(["--quick"] if quick else []), *(["--gpu"] if gpu else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return [], [{"what": "links", "reason": f"they took more than {seconds:.0f} s"}]
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [], [{"what": "links", "reason": reason}]
    found = json.loads(done.stdout)
    return found["links"], found["skipped"]


def sizes(quick: bool) -> list[int]:
    """The sizes that are measured."""
    largest, found = LARGEST_QUICK if quick else LARGEST, [SMALLEST]
    while found[-1] * 4 <= largest:
        found.append(found[-1] * 4)
    return [*found, *([] if found[-1] == largest else [largest])]


def memory(quick: bool) -> Iterator[Row]:
    """Copies within main memory, by one thread: the link of the simulated device."""
    for size in sizes(quick):
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        yield _row("memory copy", size, partial(_clocked, target, source))


def _clocked(target: Any, source: Any) -> float:
    begun = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - begun


def disk(folder: Path, quick: bool) -> Iterator[Row]:
    """Reads past the page cache of a file in a folder; a `OSError` where its file system has no such reads."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [size for size in sizes(quick) if size <= 1 << 28]
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        block = os.urandom(1 << 20)
        for _ in range(max(wanted[-1] >> 20, 1)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        handle = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        try:
            for size in wanted:
                # Anonymous memory is aligned to pages, as direct reads need it.
                with mmap.mmap(-1, size) as buffer:
                    yield _row("disk", size, partial(_read, handle, buffer))
        finally:
            os.close(handle)


def _read(handle: int, buffer: mmap.mmap) -> float:
    begun, at = time.perf_counter(), 0
    with memoryview(buffer) as view:
        while at < len(view):
            with view[at:] as rest:
                at += os.preadv(handle, [rest], at)
    return time.perf_counter() - begun


def gpu(device: Device, quick: bool) -> Iterator[Row]:
    """Copies between the first GPU and page-locked and pageable memory of the host."""
    largest = sizes(quick)[-1]
    pinned = device.pinned(largest // 4)
    pageable = np.ones(largest // 4, np.int32)
    with device.allocate(largest) as buffer:
        for place, values in (("pinned", pinned), ("pageable", pageable)):
            address = values.ctypes.data
            for size in sizes(quick):
                to = partial(device.time_copy_in, buffer.pointer, address, size)
                back = partial(device.time_copy_out, address, buffer.pointer, size)
                yield _row(f"{place} to device", size, to, device.name)
                yield _row(f"device to {place}", size, back, device.name)


def _row(link: str, size: int, transfer: Callable[[], float], device: str | None = None) -> Row:
    """The median of some transfers, after one that warms up."""
    transfer()
    seconds = [transfer() for _ in range(RUNS)]
    return {
        "link": link,
        "device": device,
        "bytes": size,
        "seconds": statistics.median(seconds),
        "best_seconds": min(seconds),
        "runs": RUNS,
    }


def main() -> None:
    """The process that measures."""
    arguments = sys.argv[1:]
    quick, wants_gpu = "--quick" in arguments, "--gpu" in arguments
    links, skipped = list(memory(quick)), []
    try:
        links += disk(Path(arguments[0]), quick)
    except OSError as error:
        skipped.append({"what": "the link from disk", "reason": str(error)})
    try:
        links += gpu(Device(), quick) if wants_gpu else []
    except CudaError as error:
        skipped.append({"what": "links to a GPU", "reason": str(error)})
    json.dump({"links": links, "skipped": skipped}, sys.stdout)


if __name__ == "__main__":
    main()
