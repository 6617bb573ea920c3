"""A call of a job's function (``thread_pools``), whose items are shared by threads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import threads
from fl_jit.kernels.codegen.arg_struct import FIELD, address, array
from fl_jit.kernels.codegen.thread_pools import HEADER


def run(function: int, items: int, work: float, arguments: Sequence[int]) -> None:
    """Call the function at an address for all ``items``, which take ``work`` nanoseconds.
    ``arguments`` are int64 and addresses, and outlive the call."""
    workers = threads.workers(work, items, threads.limit())
    pool = threads.pool() if workers > 1 else None
    header = [function, items, 0, 0, *(pool.header if pool else ())]
    job = array([*header, *[0] * (HEADER - len(header)), *arguments])
    if pool:
        pool.run(address(job), workers)
    else:
        _serial(function)(address(job) + HEADER * FIELD, 0, items, 0)


@functools.cache
def _serial(function: int) -> Any:
    i64 = ctypes.c_int64
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, i64, i64, i64)(function)
