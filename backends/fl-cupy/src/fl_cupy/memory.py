"""``CudaMemory``: the native memory of one CUDA device, and page-locked memory for its copies.

CuPy's own pools are not used: ``cudaMalloc`` and ``cudaHostAlloc`` are called directly, and a
memory manager of fl-memory stands above.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from fl_cupy.runtime import Runtime
from fl_memory import AllocationError, DeviceMemory, OutOfMemoryError, free_after_fork

__all__ = ["CudaMemory", "PinnedHostMemory"]

#: cudaMalloc aligns to this, at least. CUDA C++ Programming Guide, "Device Memory Accesses".
_ALIGNMENT = 256
#: cudaHostAllocPortable: page-locked for all devices.
_PORTABLE = 1


class CudaMemory(DeviceMemory):
    """The memory of a CUDA device, "cuda:0", "cuda:1", ...; "cuda" is the first.

    ``limit`` bounds the bytes that are out at the same time (None: no bound but the device's).
    Raises DeviceError where CuPy is missing or the system has no such device, AllocationError for a
    negative limit.
    """

    CONTRACT = (1, 0)

    def __init__(self, device: str = "cuda:0", limit: int | None = None) -> None:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise AllocationError(f"limit of {limit!r} bytes: give an integer >= 0, or None")
        self._runtime = Runtime(device)
        self.device = self._runtime.device
        self.limit = limit
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
        begin = self._runtime.allocate("malloc", nbytes + more)
        if begin is None:
            with self._lock:
                self._out -= nbytes
            raise OutOfMemoryError(nbytes, self.device, limit=self.limit, capacity=self.capacity())
        address = (begin + alignment - 1) & -alignment
        if more:
            self._begins[address] = begin
        return address

    def release(self, address: int, nbytes: int) -> None:
        self._runtime.release("free", self._begins.pop(address, address))
        with self._lock:
            self._out -= nbytes

    def capacity(self) -> int | None:
        """``limit``, or else the memory of the device."""
        return self._runtime.total_bytes() if self.limit is None else self.limit

    def record_event(self, stream: Hashable) -> Any:
        """An event of CuPy. stream: one of CuPy, its address, or None for the default stream."""
        return self._runtime.record_event(stream)

    def is_complete(self, event: Any, wait: bool = False) -> bool:
        return self._runtime.is_complete(event, wait)

    def pinned_host_memory(self) -> PinnedHostMemory:
        """Memory of ``cudaHostAlloc``, page-locked for all devices."""
        return PinnedHostMemory(self._runtime)


class PinnedHostMemory(DeviceMemory):
    """Page-locked memory of the host ("cpu"): what ``CudaMemory.pinned_host_memory`` returns.

    The driver copies ordinary memory through a buffer of its own, and waits for that. It copies
    page-locked memory directly, beside the work of the host and of other streams.
    """

    CONTRACT = (1, 0)

    device = "cpu"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: What cudaHostAlloc returned, by the aligned address.
        self._begins: dict[int, int] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        # The runtime promises no alignment.
        begin = self._runtime.allocate("hostAlloc", nbytes + alignment - 1, _PORTABLE)
        if begin is None:
            raise OutOfMemoryError(
                nbytes,
                self.device,
                hint="the system locks no more pages: free page-locked memory, or use the ordinary "
                "memory of the host",
            )
        address = (begin + alignment - 1) & -alignment
        self._begins[address] = begin
        return address

    def release(self, address: int, nbytes: int) -> None:
        self._runtime.release("freeHost", self._begins.pop(address))

    def capacity(self) -> int | None:
        """None: the system does not say how many pages it locks."""
        return None

    def record_event(self, stream: Hashable) -> Any:
        """As ``CudaMemory.record_event``."""
        return self._runtime.record_event(stream)

    def is_complete(self, event: Any, wait: bool = False) -> bool:
        return self._runtime.is_complete(event, wait)
