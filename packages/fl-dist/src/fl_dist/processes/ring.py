"""all_reduce between hosts: a chain in rank order, then a ring.

A chunk starts on rank 0, and every rank adds its own value and passes it on; the last one finishes
it. The result goes on around the ring: rank 0, 1, ... Chunks follow one another, so all connections
work at once, and each carries every element twice, as in a ring that rotates its shares. Unlike in
that one, the sum is in rank order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_dist.host_arrays import HostArray, empty
from fl_dist.processes import fold
from fl_tensor import DType

__all__ = ["all_reduce"]

CHUNK = 1 << 18  # bytes
IN_FLIGHT = 4  # chunks per rank that are sent before the first result is waited for
PARTIAL, RESULT = 0, 1

#: (elements, which of the two): to the next rank; and from the rank before, as bytes.
Send = Callable[[HostArray, int], None]
Receive = Callable[[int], HostArray]


def all_reduce(
    x: HostArray,
    out: HostArray,
    op: str,
    dtype: DType,
    rank: int,
    ranks: int,
    send: Send,
    receive: Receive,
) -> None:
    """The reduction of every rank's ``x`` in rank order into ``out``, which may be ``x`` itself."""
    each = CHUNK // x.itemsize
    parts = [slice(start, start + each) for start in range(0, max(x.size, 1), each)]
    last, in_flight = ranks - 1, IN_FLIGHT * ranks
    for step in range(len(parts) + in_flight):
        if step < len(parts):
            part = parts[step]
            total = _partial(x[part], op, dtype, rank, receive)
            if rank < last:
                send(total, PARTIAL)
            else:
                result = _finished(total, x.dtype, op, dtype, ranks)
                send(result, RESULT)
                out[part] = result
        if step >= in_flight and rank < last:
            part = parts[step - in_flight]
            result = receive(RESULT)
            if rank < last - 1:
                send(result, RESULT)
            out[part] = result.view(x.dtype)


def _partial(x: HostArray, op: str, dtype: DType, rank: int, receive: Receive) -> HostArray:
    """The ranks up to this one."""
    mine = fold.widened(dtype, x) if fold.is_widened(op, dtype) else x
    if rank == 0:
        return mine
    total = receive(PARTIAL).view(mine.dtype)
    fold.accumulate(op, total, mine)
    return total


def _finished(
    total: HostArray, storage: np.dtype[Any], op: str, dtype: DType, ranks: int
) -> HostArray:
    fold.finish(op, total, ranks)
    if not fold.is_widened(op, dtype):
        return total
    result = empty(total.size, storage)
    fold.narrowed(dtype, total, result)
    return result
