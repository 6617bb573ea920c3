"""Detection of loops in traces of programs that read no values.

A trace that repeats itself runs period by period. Otherwise a loop would be one trace of thousands
of calls. Its plan would take seconds to compile, and would fit only that number of iterations.
Periods have the same calls and share one plan, as if the program evaluated each iteration.

Layers of a model also repeat calls, but belong together. The difference is in their operands:
iterations of a loop read the same arrays (the weights of its model), and layers read different
ones. A recurrence in training also stays together with its gradients: its intermediate results are
saved. One plan of 200 steps takes longer to compile, but is a fifth to a third faster than 200 runs
of a small one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from fl_jit.eager.array_layouts import address
from fl_jit.traces.recording import Call
from fl_tensor.dtypes import DType
from fl_tensor.extend.numpy import NumpyAdapter

#: The calls after which a trace is searched first, and then whenever it is twice as long.
FIRST_LOOK = 64
#: The iterations that show a loop, and the least number of their calls.
ITERATIONS, CALLS = 4, 32
#: A period has as many iterations as fit in this many calls, and at least one. Each run has an
#: overhead of some 50 us.
PERIOD = 32
#: At most one result per this many calls of an iteration may be live. A sampler keeps one image of
#: each iteration, a tape most results.
CALLS_PER_LIVE_RESULT = 16


class Loop(NamedTuple):
    """Periods of ``period`` calls, from call ``start`` on."""

    start: int
    period: int


def find(
    calls: Sequence[Call],
    leaves: Sequence[Any],
    within: Collection[int],
    live_results: Callable[[], Sequence[bool]],
) -> Loop | None:
    """The loop that these calls end with. No period begins at a call of ``within``.
    ``live_results()`` marks the results with references outside the trace."""
    heads = [head_of(call) for call in calls]
    for size in range(1, len(calls) // ITERATIONS + 1):
        if heads[-1 - size] != heads[-1]:
            continue
        first = len(calls) - max((ITERATIONS - 1) * size, CALLS)
        if first < size or heads[first - size : -size] != heads[first:]:
            continue
        shared = _shared(calls, leaves, size, first)
        if shared is None:
            continue
        live_bytes = _live_bytes(calls, size)
        if not (shared or min(live_bytes)) or _holds_results(live_results(), size):
            return None
        return _loop(heads, size, live_bytes, within)
    return None


def head(op: str, parameters: tuple[Any, ...], shape: tuple[int, ...], dtype: DType) -> Any:
    """The key of a call that is equal in all iterations. The start of a slice is excluded: a slice
    of a computed array is a view."""
    return op, parameters[op == "slice" :], shape, dtype


def head_of(call: Call) -> Any:
    """The ``head`` of a recorded call."""
    return head(call.op, call.parameters, call.shape, call.dtype)


def _shared(calls: Sequence[Call], leaves: Sequence[Any], size: int, first: int) -> int | None:
    # The bytes of leaves that all iterations read. None where calls from ``first`` on have other
    # operands than in the iteration before, or where an iteration reads more bytes of its own.
    same: dict[int, int] = {}
    other: dict[int, int] = {}
    last = len(calls) - size
    for number in range(first, len(calls)):
        call, before = calls[number], calls[number - size]
        for i, j in zip(call.operands, before.operands, strict=True):
            if i < 0 and j < 0:
                if number >= last:
                    x, y = leaves[~i], leaves[~j]
                    (same if x is y or _is_same(x, y) else other)[i] = _bytes(x)
            elif i != j and (i < 0 or j < 0 or i - j != size):
                return None
        if call.parameters != before.parameters and call.operands != before.operands:
            return None
    shared = sum(same.values())
    return shared if shared >= sum(other.values()) else None


def _holds_results(live: Sequence[bool], size: int) -> bool:
    # Whether more than a few results of an earlier iteration are live.
    end = len(live) - 2 * size
    return sum(live[end - size : end]) * CALLS_PER_LIVE_RESULT > size


def _loop(
    heads: Sequence[Any], size: int, live_bytes: Sequence[int], within: Collection[int]
) -> Loop | None:
    # An iteration begins where the fewest bytes cross from the one before. Of such positions, it is
    # the one nearest to the first repeated call. (The first iteration may have fewer calls, if its
    # input was computed before.)
    end = len(heads) - size
    start = end
    while start and heads[start - 1] == heads[start - 1 + size]:
        start -= 1
    positions = [b for b in range(end - size + 1, end + 1) if b not in within]
    if not positions:
        return None

    def cost(position: int) -> tuple[int, int]:
        after = (position - start) % size
        return live_bytes[position - end + size], min(after, size - after)

    begin = min(positions, key=cost)
    loop = Loop(start + (begin - start) % size, size * max(1, PERIOD // size))
    return loop if sum(loop) <= len(heads) else None


def _live_bytes(calls: Sequence[Call], size: int) -> list[int]:
    # The bytes of results that are live across each position of the last iteration but one, and its
    # end.
    begin, end = len(calls) - 2 * size, len(calls) - size
    last: dict[int, int] = {}
    for number in range(begin, len(calls)):
        for i in calls[number].operands:
            if i >= 0:
                last[i] = number
    live_bytes = [0] * (size + 1)
    for i, number in last.items():
        for position in range(max(i + 1, begin), min(number, end) + 1):
            live_bytes[position - begin] += math.prod(calls[i].shape) * calls[i].dtype.itemsize
    return live_bytes


def _is_same(x: Any, y: Any) -> bool:
    # Whether both are views of the same elements, as the transposed weights of each iteration.
    arrays = [a.array for a in (x, y) if a.__class__ is NumpyAdapter and a.shape]
    return len(arrays) == 2 and x.shape == y.shape and address(arrays[0]) == address(arrays[1])


def _bytes(leaf: Any) -> int:
    if not getattr(leaf, "shape", ()):  # a number, or a stream
        return 0
    return math.prod(leaf.shape) * int(leaf.dtype.itemsize)
