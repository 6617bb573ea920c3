"""``fence()``: memory accesses of this thread before the call come before those after it.

x86 processors keep stores in order and loads in order (total store order). The interpreter does
not reorder them either, so nothing is left to do there. Elsewhere, as on Arm, the fence is a call
of the system. ``membarrier(2)`` on Linux promises this order for the calling thread. On macOS it
is ``OSMemoryBarrier``.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

__all__ = ["fence"]

_KEEPS_ORDER = {"x86_64", "amd64", "i386", "i686", "s390x"}
_CALL_NUMBERS = {"aarch64": 283, "arm64": 283, "riscv64": 283, "ppc64le": 365, "x86_64": 324}
_GLOBAL_EXPEDITED, _REGISTER_GLOBAL_EXPEDITED = 1 << 1, 1 << 2


def _nothing() -> None:
    pass


def membarrier(machine: str) -> Callable[[], None] | None:
    """The fence by membarrier; None where the kernel (before 4.16) or machine does not have it."""
    import ctypes

    number = _CALL_NUMBERS.get(machine)
    if number is None or not sys.platform.startswith("linux"):
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(number, _REGISTER_GLOBAL_EXPEDITED, 0) != 0:
        return None

    def fence() -> None:
        if call(number, _GLOBAL_EXPEDITED, 0) != 0:
            raise OSError(ctypes.get_errno(), "membarrier failed")

    return fence


def _make(machine: str) -> Callable[[], None] | None:
    if machine in _KEEPS_ORDER:
        return _nothing
    if sys.platform == "darwin":
        import ctypes

        barrier: Callable[[], None] = ctypes.CDLL(None).OSMemoryBarrier
        return barrier
    return membarrier(machine)


_found = _make(platform.machine().lower())
#: Whether this machine has a fence; without one, ranks send messages instead.
available = _found is not None
fence: Callable[[], None] = _found or _nothing
