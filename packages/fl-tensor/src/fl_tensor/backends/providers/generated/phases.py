"""Calls of a loop nest of two functions, the second of which begins when all of the first is done.

How work is divided may depend on how many threads there are, so that is asked for when they are
known; results must not depend on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fl_memory import selection
from fl_tensor.backends.providers.generated.epilogue import Prepared
from fl_tensor.codegen import threads
from fl_tensor.codegen.compile import Code
from fl_tensor.codegen.pools import HEADER

_WORD = 8
_ALIGNMENT = 64
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Division(NamedTuple):
    """The work of a call: items of each function, words that depend on the number of threads, and
    bytes to work in."""

    items: tuple[int, int]
    words: Mapping[str, int]
    nbytes: int


class Phases:
    """A nest that is ready to be called with addresses, from any threads.

    code      with the functions ``first`` and ``second``, of the signature of ``codegen.pools``
    names     of their words: the addresses of operands, that of memory to work in ("workspace"),
              that of the epilogue's words if there may be one ("epilogue_words"), the others
    words     values of those that never change
    divide    how the work is divided among so many threads
    work      nanoseconds that it takes one of them, about
    """

    def __init__(
        self,
        code: Code,
        names: Sequence[str],
        words: Mapping[str, int],
        divide: Callable[[int], Division],
        work: float,
        epilogue: Prepared | None = None,
    ) -> None:
        self._code = code
        self._entries = [code.address(name) for name in ("first", "second")]
        self._functions = [_FUNCTION(entry) for entry in self._entries]
        self._places = {name: HEADER + i for i, name in enumerate(names)}
        self._words = words
        self._divide = divide
        self._work = work
        self._epilogue = epilogue
        self._workspace = self._places["workspace"]
        self._settled: tuple[int, Any, int, int] = (0, None, 0, 0)

    def __call__(self, addresses: Sequence[int], followed: Sequence[int] = ()) -> None:
        """Compute on operands at these addresses; ``followed`` are those of the epilogue."""
        limit = threads.limit()
        if limit != self._settled[0]:
            self._settled = self._settle(limit)
        _, template, workers, nbytes = self._settled
        # Words of its own, so that calls may overlap in time.
        words = type(template).from_buffer_copy(template)
        job = ctypes.addressof(words)
        memory = selection.current().alloc(nbytes + _ALIGNMENT)
        try:
            workspace = memory.address + -memory.address % _ALIGNMENT
            words[HEADER : self._workspace + 1] = [*addresses, workspace]
            if self._epilogue:
                place = HEADER + len(self._places)
                words[self._workspace + 1] = job + _WORD * place
                scratch = workspace + nbytes - self._epilogue.scratch(workers)
                self._epilogue.write(words, place, followed, scratch)
            self._run(job, workers)
        finally:
            memory.free()

    def _run(self, job: int, workers: int) -> None:
        pool = threads.pool() if workers > 1 else None
        if pool is not None:
            pool.run(job, workers)
            return
        header = ctypes.cast(job, ctypes.POINTER(ctypes.c_int64))
        for phase, function in enumerate(self._functions):
            function(job + _WORD * HEADER, 0, header[2 * phase + 1], 0)

    def _settle(self, limit: int) -> tuple[int, Any, int, int]:
        pool = threads.pool() if limit > 1 else None
        workers = threads.workers(self._work, limit, limit) if pool else 1
        items, more, nbytes = self._divide(workers)
        following = self._epilogue
        count = HEADER + len(self._places) + (following.words if following else 0)
        words: Any = (ctypes.c_int64 * count)()
        header = [self._entries[0], items[0], self._entries[1] if items[1] else 0, items[1]]
        header += pool.header if pool else ()
        words[: len(header)] = header
        for name, value in (*self._words.items(), *more.items()):
            words[self._places[name]] = value
        nbytes = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return limit, words, workers, nbytes + (following.scratch(workers) if following else 0)
