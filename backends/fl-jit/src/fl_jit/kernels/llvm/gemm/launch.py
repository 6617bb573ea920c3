"""Launcher of a GEMM loop nest: kernel arguments, scratch memory, threads.

The 64-bit fields of a job (``codegen.thread_pools``):

    header | queues, queue count | per call | constant | queues | arguments of the epilogue
    of pools |<---------- arguments of the function ------->|

Each call in flight has private arguments and scratch memory, so that calls may run concurrently.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import threads
from fl_jit.kernels.codegen.thread_pools import HEADER
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_jit.kernels.llvm.gemm import work_stealing
from fl_memory import selection
from fl_memory.tags import SCRATCH

_WORD = 8
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_int64] * 3)
#: Keeps the GIL, for kernels that take less time than to reacquire it.
_SHORT = ctypes.PYFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_int64] * 3)


class GemmLauncher:
    """Calls the function of a loop nest (``work_stealing.WorkQueues``).

    function      its address
    words         its arguments after the first two; the first ``changing`` of them differ from
                  call to call: addresses of operands, then that of the workers' memory, then that
                  of the epilogue's arguments
    items         number of items, for the maximum number of threads
    work          approximate nanoseconds of one thread
    worker_bytes  bytes of memory per worker, a multiple of 64
    first         a function that runs before, on items of its own, and their number
    shared_bytes  bytes of memory before that of the workers, a multiple of 64
    """

    def __init__(
        self,
        function: int,
        words: Sequence[int],
        changing: int,
        items: int,
        work: float,
        worker_bytes: int,
        epilogue: Prepared | None = None,
        first: tuple[int, int] | None = None,
        shared_bytes: int = 0,
    ) -> None:
        count = threads.workers(work, items, threads.limit()) if threads.pool() else 1
        self.workers = count
        self._items = items
        self._call = (_SHORT if work < threads.WORTH_A_THREAD else _FUNCTION)(function)
        self._functions = (*first, function) if first else (function,)
        self._first = (_FUNCTION(first[0]), first[1]) if first else None
        self._words = list(words)
        self._epilogue = epilogue
        self._own = worker_bytes * count
        self._shared = shared_bytes
        self._scratch = shared_bytes + self._own + (epilogue.scratch(count) if epilogue else 0)
        self._shares = work_stealing.cut(items, count)
        self._pack = struct.Struct(f"={changing}q").pack_into
        self._free: list[_Words] = []

    def __call__(self, operands: Sequence[int], followed: Sequence[int] = ()) -> None:
        """Run on operands at these addresses; ``followed`` are those of the epilogue's operands."""
        if not self._items:
            return
        try:
            job = self._free.pop()
        except IndexError:
            job = _Words(self._functions, self._words, self._shares, self._epilogue)
        block = selection.current().alloc(self._scratch, tag=SCRATCH) if self._scratch else None
        scratch = block.address + self._shared if block else 0
        self._pack(job.words, _CHANGING, *operands, scratch, job.epilogue)
        if self._epilogue:
            self._epilogue.write(job.words, job.epilogue_at, followed, scratch + self._own)
        ctypes.memmove(job.shares, job.fresh, job.nbytes)
        workers = min(self.workers, threads.limit())
        pool = threads.pool() if workers > 1 else None
        if pool:
            pool.run(job.address, workers)
        else:
            if self._first:
                self._first[0](job.arguments, 0, self._first[1], 0)
            self._call(job.arguments, 0, self.workers, 0)
        if block:
            block.free()
        self._free.append(job)


_CHANGING = (HEADER + 2) * _WORD


class _Words:
    # The argument fields of a call. One call at a time uses them.

    def __init__(
        self,
        functions: Sequence[int],
        arguments: Sequence[int],
        cut: Sequence[int],
        epilogue: Prepared | None,
    ) -> None:
        # ``functions``: the first function and its number of items, if there is one; then the last
        # function.
        pool = threads.pool()
        count = len(cut) // work_stealing.SHARE
        phases = [*functions, count, 0, 0][:4]
        header = [*phases, *(pool.header if pool else ())]
        header += [0] * (HEADER - len(header))
        size = HEADER + 2 + len(arguments)
        more = epilogue.words if epilogue else 0
        self.words: Any = (ctypes.c_int64 * (size + len(cut) + more))()
        self.address = ctypes.addressof(self.words)
        self.arguments = self.address + HEADER * _WORD
        self.shares = self.address + size * _WORD
        self.words[: size + len(cut)] = [*header, self.shares, count, *arguments, *cut]
        self._template = (ctypes.c_int64 * len(cut))(*cut)
        self.fresh = ctypes.addressof(self._template)
        self.nbytes = len(cut) * _WORD
        self.epilogue_at = size + len(cut)
        self.epilogue = self.address + self.epilogue_at * _WORD
