"""``CudaMemory``: the native memory of one CUDA device.

CuPy's own pool is not used: ``cudaMalloc`` and ``cudaFree`` are called directly, and a memory
manager of fl-memory stands above.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from fl_memory import AllocationError, DeviceError, DeviceMemory, OutOfMemoryError, free_after_fork

__all__ = ["CudaMemory"]

#: cudaMalloc aligns to this, at least. CUDA C++ Programming Guide, "Device Memory Accesses".
_ALIGNMENT = 256
#: cudaErrorMemoryAllocation.
_EXHAUSTED = 2


class CudaMemory(DeviceMemory):
    """The memory of a CUDA device, "cuda:0", "cuda:1", ...; "cuda" is the first.

    ``limit`` bounds the bytes that are out at the same time (None: no bound but the device's).
    Raises DeviceError where CuPy is missing or the system has no such device, AllocationError for a
    negative limit.
    """

    CONTRACT = (1, 0)

    def __init__(self, device: str = "cuda:0", limit: int | None = None) -> None:
        kind, _, index = device.partition(":")
        if kind != "cuda" or not (index or "0").isdigit():
            raise DeviceError(f"CudaMemory({device!r}): expected 'cuda:N', such as 'cuda:0'")
        if limit is not None and limit < 0:
            raise AllocationError(f"limit of {limit} bytes; give a number >= 0, or None for none")
        self._cuda = _cuda(device)
        self._index = int(index or 0)
        self.device = f"cuda:{self._index}"
        self.limit = limit
        self._check_exists()
        self._out = 0
        #: What cudaMalloc returned, where it had to be aligned further.
        self._begins: dict[int, int] = {}
        # Re-entrant: release may run in a finaliser that interrupts allocate.
        self._lock = free_after_fork(threading.RLock())

    def allocate(self, nbytes: int, alignment: int) -> int:
        with self._lock:
            if self.limit is not None and self._out + nbytes > self.limit:
                raise OutOfMemoryError(nbytes, self.device, limit=self.limit)
            self._out += nbytes
        more = alignment if alignment > _ALIGNMENT else 0
        begin = self._malloc(nbytes + more)
        if begin is None:
            with self._lock:
                self._out -= nbytes
            raise OutOfMemoryError(nbytes, self.device, limit=self.capacity())
        address = (begin + alignment - 1) & -alignment
        if more:
            self._begins[address] = begin
        return address

    def release(self, address: int, nbytes: int) -> None:
        with self._cuda.Device(self._index):
            self._cuda.runtime.free(self._begins.pop(address, address))
        with self._lock:
            self._out -= nbytes

    def capacity(self) -> int | None:
        """``limit``, or else the memory of the device."""
        if self.limit is not None:
            return self.limit
        with self._cuda.Device(self._index):
            return int(self._cuda.runtime.memGetInfo()[1])

    def record_event(self, stream: Hashable) -> Any:
        """An event of CuPy. stream: one of CuPy, its address, or None for the default stream."""
        with self._cuda.Device(self._index):
            if stream is None:
                stream = self._cuda.Stream.null
            elif isinstance(stream, int):
                stream = self._cuda.ExternalStream(stream)
            event = self._cuda.Event(disable_timing=True)
            event.record(stream)
            return event

    def is_complete(self, event: Any, wait: bool = False) -> bool:
        if wait:
            event.synchronize()
        return bool(event.done)

    # ------------------------------------------------------------------ inside

    def _malloc(self, nbytes: int) -> int | None:
        # The runtime takes a size_t.
        if nbytes >= 1 << 63:
            return None
        try:
            with self._cuda.Device(self._index):
                return int(self._cuda.runtime.malloc(nbytes))
        except self._cuda.runtime.CUDARuntimeError as error:
            if error.status != _EXHAUSTED:
                raise DeviceError(f"[alloc] {nbytes} bytes on {self.device}: {error}") from error
            return None

    def _check_exists(self) -> None:
        try:
            count = self._cuda.runtime.getDeviceCount()
        except self._cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(
                f"no device {self.device!r}: {error}; is a driver installed that fits CuPy's CUDA?"
            ) from error
        if self._index >= count:
            raise DeviceError(f"no device {self.device!r}: the system has {count} CUDA devices")


def _cuda(device: str) -> Any:
    try:
        from cupy import cuda
    except ImportError as error:
        raise DeviceError(
            f"device {device!r} needs CuPy, which cannot be imported ({error}); install "
            f"fl-cupy[cuda12] or fl-cupy[cuda13]"
        ) from error
    return cuda
