"""Losses that kernels compute on the host, beside the tape, and rules for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fl_tensor as ft
from fl_autograd import Variable, extend
from fl_nn.extend import tensor_of
from fl_tensor.kernels.compilers import compiler_name

#: ``slopes(g)``: for each operand the gradient of ``sum(g * losses)``; `g` is float64 (B,).
Slopes = Callable[[np.ndarray], list[np.ndarray]]


def kernels_fit(scores: ft.Array, composed: bool | None = None) -> bool:
    """Whether kernels compute a loss of `scores`, and not tensor operations: what `composed` says,
    or for None on the CPU with a compiler. The interpreter takes longer than tensor operations."""
    if composed is not None:
        return not composed
    return scores.device.kind == "cpu" and compiler_name() != "interpreter"


def widened(x: ft.Array) -> ft.Array:
    """`x`, as float32 if it has 16 bits."""
    return x if x.dtype.itemsize >= 4 else x.astype(ft.float32)


def host_array(x: ft.Array, dtype: Any = None) -> np.ndarray:
    """The values as a contiguous array, float32 or float64, which nobody writes to."""
    return np.ascontiguousarray(widened(tensor_of(x)).numpy(), dtype)


def needs_gradient(*operands: ft.Array) -> bool:
    """Whether a value of `operands` gets a node."""
    nodes = (isinstance(x, Variable) and x.requires_grad for x in operands)
    return bool(extend.recording()) and any(nodes)


def shares_of(grads: np.ndarray | None) -> Slopes:
    """The rule for `grads` (B, ...), those of each sample's own loss to the one operand."""

    def slopes(g: np.ndarray) -> list[np.ndarray]:
        assert grads is not None  # computed if they are needed
        return [grads * g.astype(grads.dtype).reshape((-1,) + (1,) * (grads.ndim - 1))]

    return slopes


def outside_tape(
    name: str, losses: np.ndarray, operands: Sequence[ft.Array], slopes: Slopes
) -> ft.Array:
    """`losses` in the dtype of the first operand, with a node called `name` for its gradients."""
    kinds = [_Kind(x.dtype, x.device, x.backend) for x in operands]
    value = kinds[0].tensor(losses)
    if not any(isinstance(x, Variable) for x in operands):
        return value
    if name not in _NODES:
        _NODES[name] = extend.defnode(name, _gradients)
    return _NODES[name](value, list(operands), slopes, kinds)


_NODES: dict[str, Callable[..., Variable]] = {}


class _Kind(NamedTuple):
    """What a gradient must have in common with its operand."""

    dtype: ft.DType
    device: ft.Device
    backend: Any

    def tensor(self, values: np.ndarray) -> ft.Tensor:
        return ft.asarray(np.ascontiguousarray(values), self.dtype, self.device, self.backend)


def _gradients(ops: Any, g: Any, slopes: Slopes, kinds: list[_Kind]) -> list[Any]:
    slope = np.frombuffer(ops.to_host(g), g.dtype.name).astype(np.float64)
    return [kind.tensor(found) for kind, found in zip(kinds, slopes(slope), strict=True)]
