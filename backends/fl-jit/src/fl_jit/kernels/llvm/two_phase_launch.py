"""Launcher of a two-function loop nest with a barrier between the functions.

The division of the work may depend on the number of threads. It is therefore computed when that
number is known. Results must not depend on it.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fl_jit.kernels.codegen import threads
from fl_jit.kernels.codegen.compile import Code
from fl_jit.kernels.codegen.thread_pools import HEADER
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_memory import selection
from fl_memory.tags import SCRATCH

_WORD = 8
_ALIGNMENT = 64
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Division(NamedTuple):
    """The work of a call: items of each function, argument fields that depend on the number of
    threads, and bytes of workspace."""

    items: tuple[int, int]
    words: Mapping[str, int]
    nbytes: int


class TwoPhaseLauncher:
    """A loop nest that is ready to be called with addresses, from any thread.

    code      has the functions ``first`` and ``second``, with the signature of
              ``codegen.thread_pools``; optionally ``run(arguments)``, which calls both in one
              thread, at less cost
    names     names of their argument fields: addresses of operands, that of the workspace
              ("workspace"), that of the epilogue's arguments if there may be one
              ("epilogue_words"), then the others
    words     values of the constant fields
    divide    the division of the work among a number of threads
    work      approximate nanoseconds of one thread
    parts     maximum number of useful threads
    """

    def __init__(
        self,
        code: Code,
        names: Sequence[str],
        words: Mapping[str, int],
        divide: Callable[[int], Division],
        work: float,
        epilogue: Prepared | None = None,
        parts: int = sys.maxsize,
    ) -> None:
        self._code = code
        self._entries = [code.address(name) for name in ("first", "second")]
        self._places = {name: HEADER + i for i, name in enumerate(names)}
        self._words = words
        self._divide = divide
        self._work = work
        self._parts = parts
        self._epilogue = epilogue
        self._behind = self._places["workspace"] + 1
        self._settled: _Settled = (0, None, 0, 0, self._serially([]))

    def __call__(self, addresses: Sequence[int], followed: Sequence[int] = ()) -> None:
        """Compute on operands at these addresses; ``followed`` are those of the epilogue."""
        limit = threads.limit()
        if limit != self._settled[0]:
            self._settled = self._settle(limit)
        _, template, nbytes, more, run = self._settled
        # Each call has its own arguments, so that calls may run concurrently.
        words = type(template).from_buffer_copy(template)
        job = ctypes.addressof(words)
        memory = selection.current().alloc(nbytes + more + _ALIGNMENT, tag=SCRATCH)
        try:
            workspace = memory.address + -memory.address % _ALIGNMENT
            words[HEADER : self._behind] = [*addresses, workspace]
            if self._epilogue:
                place = HEADER + len(self._places)
                words[self._behind] = job + _WORD * place
                self._epilogue.write(words, place, followed, workspace + nbytes)
            run(job)
        finally:
            memory.free()

    def _settle(self, limit: int) -> _Settled:
        pool = threads.pool() if limit > 1 else None
        workers = threads.workers(self._work, self._parts, limit) if pool else 1
        items, more, nbytes = self._divide(workers)
        calls = [pair for pair in zip(self._entries, items, strict=True) if pair[1]]
        following = self._epilogue
        count = HEADER + len(self._places) + (following.words if following else 0)
        words: Any = (ctypes.c_int64 * count)()
        header = [*itertools.chain(*calls), 0, 0, 0, 0][:4] + list(pool.header if pool else ())
        words[: len(header)] = header
        for name, value in (*self._words.items(), *more.items()):
            words[self._places[name]] = value
        nbytes = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        scratch = following.scratch(workers) if following else 0
        if pool is None or workers == 1:
            return limit, words, nbytes, scratch, self._serially(calls)
        parallel = pool.run
        return limit, words, nbytes, scratch, lambda job: parallel(job, workers)

    def _serially(self, calls: Sequence[tuple[int, int]]) -> Callable[[int], object]:
        both = self._code.address("run")
        if both:
            whole = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(both)
            return lambda job: whole(job + _WORD * HEADER)
        functions = [(_FUNCTION(entry), count) for entry, count in calls]

        def run(job: int) -> None:
            for function, count in functions:
                function(job + _WORD * HEADER, 0, count, 0)

        return run


#: Number of threads, argument fields of a job, bytes of workspace, bytes of epilogue scratch, and
#: the function that runs the job.
_Settled: TypeAlias = tuple[int, Any, int, int, Callable[[int], object]]
