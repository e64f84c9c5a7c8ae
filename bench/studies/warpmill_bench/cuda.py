"""The little of CUDA's driver API that a comparison needs: memory, copies, one stream, events; through ``ctypes``."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Read and written between timed runs: several times the largest L2 cache.
FLUSH_BYTES = 256 << 20

_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [c_void_p],
    "cuDeviceGet": [c_void_p, c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [c_void_p, c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuMemAlloc_v2": [c_void_p, c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemAllocHost_v2": [c_void_p, c_size_t],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD8Async": [c_uint64, c_ubyte, c_size_t, c_void_p],
    "cuStreamCreate": [c_void_p, c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuEventCreate": [c_void_p, c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventElapsedTime": [c_void_p, c_void_p, c_void_p],
    "cuGetErrorString": [c_int, c_void_p],
}


class CudaError(RuntimeError):
    """A call of the driver failed."""


class Device:
    """The first GPU: its primary context, made current in this thread, and one stream."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no NVIDIA driver: {error}") from error
        for name, types in _PROTOTYPES.items():
            getattr(self._driver, name).argtypes = types
        self._call("cuInit", 0)
        device, version, context, stream = c_int(), c_int(), c_void_p(), c_void_p()
        text = (c_char * 256)()
        self._call("cuDeviceGet", byref(device), 0)
        self._call("cuDeviceGetName", text, len(text), device)
        self._call("cuDriverGetVersion", byref(version))
        self._call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", byref(stream), 0)
        self.stream = stream
        self.name = text.value.decode()
        self.driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
        self._events = (self._event(), self._event())
        self._flush = (self.allocate(FLUSH_BYTES), self.allocate(FLUSH_BYTES))

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._driver, name)(*args)
        if status:
            text = c_char_p()
            self._driver.cuGetErrorString(status, byref(text))
            raise CudaError(f"{name}: {(text.value or b'unknown error').decode()} ({status})")

    def _event(self) -> c_void_p:
        event = c_void_p()
        self._call("cuEventCreate", byref(event), 0)
        return event

    def allocate(self, size: int) -> Buffer:
        """Device memory of at least `size` bytes."""
        pointer = c_uint64()
        self._call("cuMemAlloc_v2", byref(pointer), max(size, 16))
        return Buffer(self, pointer.value, size)

    def free(self, pointer: int) -> None:
        """Give memory of `allocate` back."""
        self._call("cuMemFree_v2", pointer)

    def upload(self, values: NDArray[Any]) -> Buffer:
        """An array's bytes in device memory of their own."""
        buffer = self.allocate(values.nbytes)
        self._call("cuMemcpyHtoD_v2", buffer.pointer, np.ascontiguousarray(values).ctypes.data, values.nbytes)
        return buffer

    def download(self, buffer: Buffer, into: NDArray[Any]) -> NDArray[Any]:
        """Fill a contiguous array from the start of `buffer`, after all queued work."""
        self.synchronize()
        self._call("cuMemcpyDtoH_v2", into.ctypes.data, buffer.pointer, into.nbytes)
        return into

    def pinned(self, count: int) -> NDArray[np.int32]:
        """Page-locked host memory, kept until the process ends: copies into it are several times faster."""
        pointer = c_void_p()
        self._call("cuMemAllocHost_v2", byref(pointer), 4 * count)
        words = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int32))
        return np.ctypeslib.as_array(words, shape=(count,))

    def copy(self, to: int, source: int, size: int) -> None:
        """Queue a copy within the device's memory."""
        self._call("cuMemcpyDtoDAsync_v2", to, source, size, self.stream)

    def time_copy_in(self, to: int, source: int, size: int) -> float:
        """Seconds of a copy from an address of the host's memory to the device."""
        return self.time(lambda: self._call("cuMemcpyHtoDAsync_v2", to, source, size, self.stream)) / 1e3

    def time_copy_out(self, to: int, source: int, size: int) -> float:
        """Seconds of a copy from the device to an address of the host's memory."""
        return self.time(lambda: self._call("cuMemcpyDtoHAsync_v2", to, source, size, self.stream)) / 1e3

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Queue overwriting a buffer with one byte."""
        self._call("cuMemsetD8Async", buffer.pointer, byte, buffer.size, self.stream)

    def synchronize(self) -> None:
        """Wait for all queued work, and raise its errors."""
        self._call("cuStreamSynchronize", self.stream)

    def time(self, work: Callable[[], None]) -> float:
        """Milliseconds between events around the work that `work` queues, with nothing of it left in the L2 cache."""
        start, end = self._events
        self.copy(self._flush[1].pointer, self._flush[0].pointer, FLUSH_BYTES)
        self._call("cuEventRecord", start, self.stream)
        work()
        self._call("cuEventRecord", end, self.stream)
        self.synchronize()
        milliseconds = c_float()
        self._call("cuEventElapsedTime", byref(milliseconds), start, end)
        return float(milliseconds.value)


class Buffer:
    """Device memory; freed at the end of a ``with`` block."""

    def __init__(self, device: Device, pointer: int, size: int) -> None:
        self._device = device
        self.pointer = pointer
        self.size = size

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._device.free(self.pointer)
