"""Losses that a kernel computes beside the tape, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_autograd import Variable, extend
from fl_nn.values import tensor_of
from fl_speech.criteria.kernel_rows import summed

#: ``compute(scores, grads)``: the losses (B,) float64 of scores on the host; into `grads`, if there
#: are any, their gradients to the scores.
Compute = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]


def kernels_fit(scores: ft.Array) -> bool:
    """Whether kernels compute for `scores`: on the host, in float32 or float64, with a compiler.

    The interpreter takes longer than tensor operations.
    """
    return (
        scores.dtype in (ft.float32, ft.float64)
        and scores.device.kind == "cpu"
        and summed.compiler != "interpreter"
    )


def host_array(x: ft.Array) -> np.ndarray:
    """The values as a contiguous float32 or float64 array, which nobody writes to."""
    value = tensor_of(x)
    if value.dtype.itemsize < 4:
        value = value.astype(ft.float32)
    return np.ascontiguousarray(value.numpy())


def _shares(ops: Any, g: Any, grads: Any) -> list[Any]:
    """The gradient to the scores: that of each sample, times that of its loss."""
    return [ops.multiply(ops.reshape(g, (g.shape[0],) + (1,) * (len(grads.shape) - 1)), grads)]


_NODES: dict[str, Callable[..., Variable]] = {}


def outside_tape(name: str, scores: ft.Array, compute: Compute) -> ft.Array:
    """The losses (B,) of `scores` (B, ...): computed by `compute`, with a node called `name`.

    Gradients are computed at once, where one is needed, and saved in the node.
    """
    value = tensor_of(scores)
    needed = isinstance(scores, Variable) and scores._node is not None and extend.recording()
    array = host_array(value)
    grads = np.empty_like(array) if needed else None

    def tensor(found: np.ndarray) -> ft.Tensor:
        return ft.asarray(found, value.dtype, value.device, value.backend)

    losses = tensor(compute(array, grads))
    if grads is None:
        return Variable(losses) if isinstance(scores, Variable) else losses
    if name not in _NODES:
        _NODES[name] = extend.defnode(name, _shares)
    return _NODES[name](losses, [scores], tensor(grads)._adapter)
