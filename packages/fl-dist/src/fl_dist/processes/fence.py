"""``fence()``: what this thread wrote before is visible to other processes before what it writes
afterwards, and what it reads afterwards is read afterwards.

x86 processors keep stores in order and loads in order (total store order), and the interpreter
does nothing to reorder them, so nothing is left to do there. Elsewhere, as on Arm, the fence is a
system call: ``membarrier(2)`` on Linux, which promises that all accesses of the calling thread
before it come before those after it, and ``OSMemoryBarrier`` on macOS.
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
