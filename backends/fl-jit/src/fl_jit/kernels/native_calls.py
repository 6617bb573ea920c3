"""Native calls with arguments that stay in memory, run in order as one call from Python.

A launch from Python takes microseconds: addresses, a structure of arguments, a foreign call. Where
the same launches follow one another again and again on the same memory, as in a compiled training
step, all of that is done once. A call then runs a table of functions and arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Protocol

from fl_jit.kernels.library import Kernel


class NativeCall(Protocol):
    """A launch that keeps its arguments.

    entries  functions and the addresses of their arguments, to be called in order; none where it
             runs on several threads by ``run``
    run      runs it
    nbytes   of memory to work in, aligned to 64 bytes
    work     approximate nanoseconds of one thread
    """

    nbytes: int
    work: float
    entries: list[tuple[int, int]]
    run: Callable[[], object]

    def write(self, addresses: Sequence[int], scalars: Sequence[complex], workspace: int) -> None:
        """Write the arguments: addresses of operands, numbers, and address of the memory to work
        in. All must stay where they are until the call has run."""


class KernelCall:
    """A call of a kernel of a library, by its Python interface."""

    entries: list[tuple[int, int]] = []
    nbytes = 0
    work = 0.0

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._addresses: tuple[int, ...] = ()

        self.run: Callable[[], object] = self._run

    def _run(self) -> None:
        self._kernel(*self._addresses)

    def write(self, addresses: Sequence[int], scalars: Sequence[complex], workspace: int) -> None:
        self._addresses = tuple(addresses)


def native_call(kernel: Kernel) -> NativeCall:
    """A call of ``kernel``: its own (``bound``), or one through Python."""
    bound: Callable[[], NativeCall] | None = getattr(kernel, "bound", None)
    return KernelCall(kernel) if bound is None else bound()


class NativeCalls:
    """Calls in order, in the calling thread. A call that has no ``entries`` is no part of one."""

    def __init__(self, calls: Sequence[NativeCall]) -> None:
        from fl_jit.kernels.codegen import batch, threads

        self._calls = list(calls)  # which own the arguments
        entries = [entry for call in calls for entry in call.entries]
        words = [len(entries), *(word for entry in entries for word in entry)]
        self._table = (ctypes.c_int64 * len(words))(*words)
        self._address = ctypes.addressof(self._table)
        is_short = sum(call.work for call in calls) < threads.WORTH_A_THREAD
        self._run = batch.run_all(keeps_gil=is_short)

    def __call__(self) -> None:
        self._run(self._address)
