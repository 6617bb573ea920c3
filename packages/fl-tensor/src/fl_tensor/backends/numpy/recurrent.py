"""Recurrence over steps, in place: a step is a dozen short operations with high call overhead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fl_tensor.backends.numpy import memory
from fl_tensor.derived.sequence import SCALES

Array: TypeAlias = np.ndarray[Any, Any]
#: (x of the step, product of the state and the weights, state before, state after): writes the last
#: one; the product is given up.
Step: TypeAlias = Callable[[Array, Array, Array, Array], None]


def sweep(
    x: Array,
    state: Array,
    weight: Array,
    bias: Array | None,
    cell: str,
    lengths: tuple[int, ...] | None,
    reverse: bool,
) -> Array:
    """The states after each step; arguments as in the contract, which fit."""
    steps, batch, width = x.shape
    out = memory.empty((len(state), steps, *state.shape[1:]), x.dtype)
    step = _STEPS[cell](state.shape[2], x.dtype)
    counts = None if lengths is None else np.asarray(lengths)
    shortest = steps if lengths is None else min(lengths, default=steps)
    across, product, before = weight.T, np.empty((batch, width), x.dtype), state
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        after = out[:, t]
        np.matmul(before[0], across, out=product)
        if bias is not None:
            product += bias
        step(x[t], product, before, after)
        if counts is not None and t >= shortest:
            np.copyto(after, before, where=(counts <= t)[:, None])
        before = after
    return out


def _tanh(hidden: int, dtype: Any) -> Step:
    def step(x: Array, p: Array, before: Array, after: Array) -> None:
        p += x
        np.tanh(p, out=after[0])

    return step


def _relu(hidden: int, dtype: Any) -> Step:
    def step(x: Array, p: Array, before: Array, after: Array) -> None:
        p += x
        np.maximum(p, 0, out=after[0])

    return step


def _lstm(hidden: int, dtype: Any) -> Step:
    # As in the composition: every gate is s tanh(s a) + (1 - s).
    scale = np.repeat(np.asarray(SCALES["lstm"], dtype), hidden)
    rest = 1 - scale

    def step(x: Array, p: Array, before: Array, after: Array) -> None:
        p += x
        p *= scale
        np.tanh(p, out=p)
        p *= scale
        p += rest
        i, f, value, o = (p[:, k * hidden : (k + 1) * hidden] for k in range(4))
        h, c = after
        np.multiply(f, before[1], out=c)
        i *= value
        c += i
        np.tanh(c, out=h)
        h *= o

    return step


def _gru(hidden: int, dtype: Any) -> Step:
    def step(x: Array, p: Array, before: Array, after: Array) -> None:
        gates, new = p[:, : 2 * hidden], p[:, 2 * hidden :]
        gates += x[:, : 2 * hidden]
        gates *= 0.5
        np.tanh(gates, out=gates)
        gates *= 0.5
        gates += 0.5
        new *= gates[:, :hidden]
        new += x[:, 2 * hidden :]
        np.tanh(new, out=new)
        (h,) = after
        np.subtract(before[0], new, out=h)
        h *= gates[:, hidden:]
        h += new

    return step


_STEPS: dict[str, Callable[[int, Any], Step]] = {
    "tanh": _tanh,
    "relu": _relu,
    "lstm": _lstm,
    "gru": _gru,
}
