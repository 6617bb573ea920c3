"""Host memory on the C library's aligned allocator, through ctypes (loaded with this module)."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from mmap import PAGESIZE

from fl_memory.argument_checks import checked_limit
from fl_memory.cgroups import memory_limit
from fl_memory.errors import AllocationError, DeviceError, OutOfMemoryError
from fl_memory.forks import free_after_fork
from fl_memory.manager import ADVICE, DeviceMemory

__all__ = ["HostMemory"]

#: Blocks from this size on lie in pages of 2 MiB: five times as fast to get as pages of 4 KiB, and
#: a processor finds more of them without looking up where they are.
_LARGE = 4 << 20
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14
#: MADV_WILLNEED, MADV_COLD, MADV_DONTNEED of <sys/mman.h>.
_MADVISE = {"willneed": 3, "cold": 20, "free": 4}

if sys.platform == "win32":
    _c = ctypes.CDLL("msvcrt", use_errno=True)
    _aligned_malloc = _c._aligned_malloc
    _aligned_malloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    _aligned_malloc.restype = ctypes.c_void_p
    _free = _c._aligned_free

    def _allocate(nbytes: int, alignment: int) -> int:
        return _aligned_malloc(nbytes, alignment) or 0

else:
    _c = ctypes.CDLL(None)
    _posix_memalign = _c.posix_memalign
    _posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    _posix_memalign.restype = ctypes.c_int
    if sys.platform == "linux":
        _madvise = _c.madvise
        _madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    _free = _c.free

    def _allocate(nbytes: int, alignment: int) -> int:
        address = ctypes.c_void_p()
        # posix_memalign wants at least the size of a pointer.
        alignment = max(alignment, 8 if nbytes < _LARGE else _HUGE_PAGE)
        if _posix_memalign(ctypes.addressof(address), alignment, nbytes):
            return 0
        if nbytes >= _LARGE and sys.platform == "linux":
            # Where the system gives large pages only to who asks; a refusal does no harm.
            _madvise(address, nbytes - nbytes % _HUGE_PAGE, _MADV_HUGEPAGE)
        return address.value or 0


_free.argtypes = [ctypes.c_void_p]
_free.restype = None


class HostMemory(DeviceMemory):
    """The "cpu" device. ``limit`` bounds the bytes that are out at the same time (None: no bound).

    A limit makes out-of-memory behaviour testable and keeps a process within its share.
    """

    CONTRACT = (1, 0)

    lazy_commit = True

    def __init__(self, limit: int | None = None, device: str = "cpu") -> None:
        self.device = device
        self.limit = checked_limit(limit)
        self._out = 0
        # Re-entrant: release may run in a finaliser that interrupts allocate.
        self._lock = free_after_fork(threading.RLock())

    @classmethod
    def for_device(cls, device: str) -> HostMemory:
        """The host's memory; DeviceError unless ``device`` is "cpu"."""
        if device != "cpu":
            raise DeviceError(f"no device {device!r}: all memory of the host is 'cpu'")
        return cls()

    def allocate(self, nbytes: int, alignment: int) -> int:
        if self.limit is not None:
            with self._lock:
                if self._out + nbytes > self.limit:
                    raise OutOfMemoryError(nbytes, self.device, limit=self.limit)
                self._out += nbytes
        # ctypes would silently wrap a size beyond size_t.
        address = 0 if nbytes > sys.maxsize else _allocate(nbytes, alignment)
        if not address:
            if self.limit is not None:
                with self._lock:
                    self._out -= nbytes
            raise OutOfMemoryError(nbytes, self.device, limit=self.limit)
        return address

    def release(self, address: int, nbytes: int) -> None:
        _free(address)
        if self.limit is not None:
            with self._lock:
                self._out -= nbytes

    def capacity(self) -> int | None:
        """``limit``, or else the memory of the machine, or of the control group if that is less.
        None where the system does not say."""
        if self.limit is not None:
            return self.limit
        try:
            machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return None
        return min(machine, memory_limit() or machine) if machine > 0 else None

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        """Linux: "willneed" reads swapped pages ahead, "cold" makes pages the first to be swapped
        out when memory is short, "free" gives them back at once; they read as zeros then. False on
        other systems, and where the kernel does not know the advice."""
        if advice not in ADVICE:
            raise AllocationError(f"advise({advice!r}): one of {', '.join(map(repr, ADVICE))}")
        if sys.platform != "linux":
            return False
        begin, end = -(-address // PAGESIZE) * PAGESIZE, (address + nbytes) // PAGESIZE * PAGESIZE
        # Memory of the C library is anonymous: "cold" must not be MADV_DONTNEED, which loses bytes.
        return end > begin and _madvise(begin, end - begin, _MADVISE[advice]) == 0
