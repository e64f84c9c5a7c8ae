"""Transfers by size: those of this machine, and those to a GPU, with a driver that has main memory in its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from warpmill_bench.maxbench import fits, links

if TYPE_CHECKING:
    from pathlib import Path

#: The calls that the study makes, with time that passes as over a link of 1 GB/s whose s0 is 100,000 bytes.
DRIVER = """
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
typedef uint64_t ptr;
static double now = 0, events[2];
static long made = 0;
static int copy(void *to, const void *from, size_t n) {
    memcpy(to, from, n);
    now += (n + 100000.0) / 1e9;
    return 0;
}
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetName(char *name, int n, int d) { strcpy(name, "NVIDIA Fake 80GB"); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = 0; return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuMemAlloc_v2(ptr *p, size_t n) { *p = (ptr)calloc(n, 1); return *p == 0; }
int cuMemFree_v2(ptr p) { free((void *)p); return 0; }
int cuMemAllocHost_v2(void **p, size_t n) { *p = calloc(n, 1); return *p == 0; }
int cuMemcpyHtoD_v2(ptr to, void *from, size_t n) { memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t n) { memcpy(to, (void *)from, n); return 0; }
int cuMemcpyHtoDAsync_v2(ptr to, void *from, size_t n, void *s) { return copy((void *)to, from, n); }
int cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t n, void *s) { return copy(to, (void *)from, n); }
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t n, void *s) { return 0; }
int cuMemsetD8Async(ptr p, unsigned char b, size_t n, void *s) { return 0; }
int cuStreamCreate(void **s, unsigned f) { *s = 0; return 0; }
int cuStreamSynchronize(void *s) { return 0; }
int cuEventCreate(void **e, unsigned f) { *e = &events[made++ % 2]; return 0; }
int cuEventRecord(void *e, void *s) { *(double *)e = now; return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1e3 * (*(double *)b - *(double *)a); return 0; }
int cuGetErrorString(int e, const char **s) { *s = "fake"; return 0; }
"""


def measured(folder: Path, *options: str, library_path: Path | None = None) -> dict[str, Any]:
    environment = dict(os.environ)
    if library_path:
        environment["LD_LIBRARY_PATH"] = str(library_path)
    program = [sys.executable, "-m", "warpmill_bench.maxbench.links", str(folder), "--quick", *options]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout))


def test_sizes_go_from_pages_to_the_largest() -> None:
    for quick, largest in ((True, links.LARGEST_QUICK), (False, links.LARGEST)):
        sizes = links.sizes(quick)
        assert (sizes[0], sizes[-1]) == (4096, largest)
        assert all(small < large for small, large in pairwise(sizes))


def test_memory_and_disk_have_links(tmp_path: Path) -> None:
    found = measured(tmp_path)
    by_link = {row["link"] for row in found["links"]}
    assert "memory copy" in by_link
    # Some file systems do not support direct reads; the report says so.
    assert ("disk" in by_link) != bool(found["skipped"])
    assert [row["bytes"] for row in found["links"] if row["link"] == "memory copy"] == links.sizes(True)
    assert all(0 < row["best_seconds"] <= row["seconds"] for row in found["links"])
    assert list(tmp_path.iterdir()) == []


def test_links_end_with_the_time(tmp_path: Path) -> None:
    assert links.measure(tmp_path, True, False, 0.01) == (
        [],
        [{"what": "links", "reason": "they took more than 0 s"}],
    )


def test_a_machine_without_a_driver_says_so(tmp_path: Path) -> None:
    found = measured(tmp_path, "--gpu", library_path=tmp_path)
    if not any(row["device"] for row in found["links"]):
        assert any(row["what"] == "links to a GPU" for row in found["skipped"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_copies_to_a_gpu_have_the_link_that_the_driver_has(tmp_path: Path) -> None:
    source = tmp_path / "driver.c"
    source.write_text(DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "libcuda.so.1", source], check=True)
    found = measured(tmp_path, "--gpu", library_path=tmp_path)
    rows = [row for row in found["links"] if row["device"]]
    assert {row["device"] for row in rows} == {"NVIDIA Fake 80GB"}
    names = {"pinned to device", "device to pinned", "pageable to device", "device to pageable"}
    assert {row["link"] for row in rows} == names
    for name in names:
        own = [row for row in rows if row["link"] == name]
        assert [row["bytes"] for row in own] == links.sizes(True)
        curve = fits.link([row["bytes"] for row in own], [row["seconds"] for row in own])
        assert curve.bmax == pytest.approx(1e9, rel=1e-3)
        assert curve.s0 == pytest.approx(1e5, rel=1e-2)
