"""Rows of the operations on sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EDGE,
    EMPTY,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Sample,
    Tolerance,
    operand,
)
from fl_tensor.testing.values import numbers, relaid

SMOOTH = (PLAIN, NON_CONTIGUOUS, EDGE)
LAYOUTS = ("permuted", "stepped", "reversed")
#: Cell -> gates, arrays in its state.
CELLS = {"lstm": (4, 2), "gru": (3, 1), "tanh": (1, 1), "relu": (1, 1)}


def _recurrences(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def row(
        label: str, cell: str, size: tuple[int, int, int], bias: bool, *rest: Any, layout: str = ""
    ) -> Sample:
        (gates, kept), (steps, batch, hidden) = CELLS[cell], size
        shapes = [(steps, batch, gates * hidden), (kept, batch, hidden), (gates * hidden, hidden)]
        values = [numbers(dtype, rng, shape) for shape in (*shapes, (gates * hidden,))]
        if layout:
            values = [relaid(v, layout) for v in values]
        return Sample(label, (*values[:3], values[3] if bias else None, cell, *rest))

    for cell in CELLS:
        yield row(PLAIN, cell, (3, 2, 2), True)
        yield row(PLAIN, cell, (2, 1, 3), False, None, True)
        yield row(EDGE, cell, (4, 3, 2), True, (2, 4, 0))
        yield row(EDGE, cell, (4, 3, 2), True, (1, 4, 3), True)
        yield row(EDGE, cell, (1, 1, 1), True, (1,))
        yield row(EMPTY, cell, (2, 0, 3), True)
    for layout in LAYOUTS:
        yield row(NON_CONTIGUOUS, "lstm", (2, 3, 2), True, layout=layout)


def _recurrent(
    x: HostArray,
    state: HostArray,
    weight: HostArray,
    bias: HostArray | None = None,
    cell: str = "tanh",
    lengths: tuple[int, ...] | None = None,
    reverse: bool = False,
) -> HostArray:
    found = np.zeros((len(state), *x.shape[:2], state.shape[2]))
    for sequence in range(x.shape[1]):
        now = state[:, sequence]
        steps = range(len(x))
        for t in reversed(steps) if reverse else steps:
            if lengths is None or t < lengths[sequence]:
                product = weight @ now[0] + (0 if bias is None else bias)
                now = _step(cell, x[t, sequence], product, now)
            found[:, t, sequence] = now
    return found


def _step(cell: str, x: HostArray, p: HostArray, state: HostArray) -> HostArray:
    if cell in ("tanh", "relu"):
        return np.stack([np.tanh(x + p) if cell == "tanh" else np.maximum(x + p, 0)])
    if cell == "lstm":
        i, f, g, o = np.split(x + p, 4)
        c = _sigmoid(f) * state[1] + _sigmoid(i) * np.tanh(g)
        return np.stack([_sigmoid(o) * np.tanh(c), c])
    (x_r, x_z, x_n), (p_r, p_z, p_n) = np.split(x, 3), np.split(p, 3)
    n = np.tanh(x_n + _sigmoid(x_r + p_r) * p_n)
    z = _sigmoid(x_z + p_z)
    return np.stack([(1 - z) * n + z * state[0]])


def _sigmoid(x: HostArray) -> Any:
    return 1 / (1 + np.exp(-x))


def _attentions(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    def arrays(n: int, heads: int, groups: int, t: int, s: int, size: int, to: int) -> list[Any]:
        shapes = ((n, heads, t, size), (n, groups, s, size), (n, groups, s, to))
        return [numbers(dtype, rng, shape) for shape in shapes]

    def bools(*shape: int) -> Any:
        return operand(rng.integers(0, 3, shape) > 0, dtypes.bool)

    def more(*shape: int) -> Any:
        return numbers(dtype, rng, shape)

    closed = operand([[0.5, -np.inf, 0.0], [-np.inf] * 3], dtype)
    nowhere = operand([[True, False, True], [False] * 3], dtypes.bool)
    yield Sample(PLAIN, (*arrays(1, 2, 2, 2, 3, 2, 2),))
    yield Sample(
        PLAIN, (*arrays(2, 4, 2, 2, 3, 2, 1), more(4, 2, 3), bools(2, 1, 1, 3), more(2, 4, 2, 3))
    )
    yield Sample(PLAIN, (*arrays(1, 1, 1, 3, 3, 2, 2), None, None, None, True))
    yield Sample(EDGE, (*arrays(1, 2, 1, 2, 4, 2, 1), None, None, None, True, 0.7))
    yield Sample(EDGE, (*arrays(1, 1, 1, 4, 2, 2, 1), None, None, None, True))
    yield Sample(EDGE, (*arrays(1, 2, 1, 2, 3, 1, 2), None, nowhere, more(1, 3)))
    yield Sample(EDGE, (*arrays(1, 2, 1, 2, 3, 1, 2), closed))
    yield Sample(EMPTY, (*arrays(0, 2, 2, 2, 3, 2, 2),))
    yield Sample(EMPTY, (*arrays(1, 2, 2, 0, 3, 2, 2), None, None, None, True))
    for layout in LAYOUTS:
        q, k, v = (relaid(x, layout) for x in arrays(2, 2, 1, 2, 3, 2, 2))
        yield Sample(NON_CONTIGUOUS, (q, k, v))


def _attention(
    q: HostArray,
    k: HostArray,
    v: HostArray,
    bias: HostArray | None = None,
    allowed: HostArray | None = None,
    keep: HostArray | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> HostArray:
    (batch, heads, queries, size), keys = q.shape, k.shape[2]
    out = np.zeros((batch, heads, queries, v.shape[3]))
    whole = (batch, heads, queries, keys)
    added = np.broadcast_to(0.0 if bias is None else bias, whole)
    factors = np.broadcast_to(1.0 if keep is None else keep, whole)
    may = np.broadcast_to(True if allowed is None else allowed, whole) & (added > -np.inf)
    for n, head, t in np.ndindex(batch, heads, queries):
        group = head // (heads // k.shape[1])
        seen = np.nonzero(may[n, head, t])[0]
        if causal:
            seen = seen[seen <= t + keys - queries]
        if len(seen):
            scores = k[n, group, seen] @ q[n, head, t] * (size**-0.5 if scale is None else scale)
            scores = scores + added[n, head, t, seen]
            shares = np.exp(scores - scores.max())
            shares = shares / shares.sum() * factors[n, head, t, seen]
            out[n, head, t] = shares @ v[n, group, seen]
    return out


CASES = (
    OpCase(
        "attention",
        listed(_attentions),
        _attention,
        tolerance=Tolerance(64, scale=4.0),
        since=(1, 1),
        grad=SMOOTH,
    ),
    OpCase(
        "recurrent",
        listed(_recurrences),
        _recurrent,
        tolerance=Tolerance(64, scale=4.0),
        since=(1, 1),
        grad=SMOOTH,
    ),
)
