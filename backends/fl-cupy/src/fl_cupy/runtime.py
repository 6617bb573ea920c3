"""``Runtime``: the calls of the CUDA runtime that memory takes, on one device, through CuPy."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fl_memory import DeviceError

__all__ = ["Runtime"]

#: cudaErrorMemoryAllocation.
_EXHAUSTED = 2


class Runtime:
    """``cupy.cuda`` for the device "cuda:N"; "cuda" is the first.

    Raises DeviceError where CuPy is missing or the system has no such device.
    """

    def __init__(self, device: str) -> None:
        kind, _, index = device.partition(":")
        if kind != "cuda" or not (index or "0").isdigit():
            raise DeviceError(f"CudaMemory({device!r}): expected 'cuda:N', such as 'cuda:0'")
        self._cuda = _cuda(device)
        self._index = int(index or 0)
        self.device = f"cuda:{self._index}"
        self._check_exists()

    def allocate(self, function: str, nbytes: int, *options: int) -> int | None:
        """The address that ``malloc`` or ``hostAlloc`` returns; None when memory is exhausted.

        Raises DeviceError for other errors of the runtime.
        """
        if nbytes >= 1 << 63:  # the runtime takes a size_t
            return None
        try:
            with self._cuda.Device(self._index):
                return int(getattr(self._cuda.runtime, function)(nbytes, *options))
        except self._cuda.runtime.CUDARuntimeError as error:
            if error.status != _EXHAUSTED:
                raise DeviceError(f"[alloc] {nbytes} bytes on {self.device}: {error}") from error
            return None

    def release(self, function: str, address: int) -> None:
        """``free`` or ``freeHost``."""
        with self._cuda.Device(self._index):
            getattr(self._cuda.runtime, function)(address)

    def total_bytes(self) -> int:
        """The memory of the device."""
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
        """As ``DeviceMemory.is_complete``."""
        if wait:
            event.synchronize()
        return bool(event.done)

    # ------------------------------------------------------------------ inside

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
