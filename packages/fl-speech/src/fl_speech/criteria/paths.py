"""Which way a criterion is computed: kernels over arrays of the host, or operations of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import fl_tensor as ft
from fl_nn.values import tensor_of
from fl_tensor.kernels.compilers import compiler_name


def uses_kernels(x: ft.Array, composed: bool | None) -> bool:
    """Whether kernels compute a criterion of `x`. Without a choice they do on the CPU, if there is
    a compiler."""
    if composed is not None:
        return not composed
    return x.device.kind == "cpu" and compiler_name() != "interpreter"


def widened(x: ft.Array) -> ft.Array:
    """`x`, as float32 if it has 16 bits."""
    return x if x.dtype.itemsize >= 4 else x.astype(ft.float32)


def on_host(x: ft.Array) -> np.ndarray:
    """The values as a contiguous float64 array of the host."""
    return np.ascontiguousarray(widened(tensor_of(x)).numpy(), np.float64)


class Kind(NamedTuple):
    """What a gradient must have in common with its operand."""

    shape: tuple[int, ...]
    dtype: ft.DType
    device: ft.Device
    backend: Any

    def tensor(self, values: np.ndarray) -> ft.Tensor:
        """`values` with this dtype, on this device and backend."""
        return ft.asarray(np.ascontiguousarray(values), self.dtype, self.device, self.backend)


def kind_of(x: ft.Array) -> Kind:
    return Kind(x.shape, x.dtype, x.device, x.backend)


def gradient_on_host(ops: Any, g: Any) -> np.ndarray:
    """The gradient that a rule of `fl_autograd.extend` gets, flat float64."""
    return np.frombuffer(ops.to_host(ops.cast(g, ft.float64)), np.float64)


def gradient_from_host(values: np.ndarray, kind: Kind) -> Any:
    """`values` as what a rule of `fl_autograd.extend` returns for an operand."""
    return kind.tensor(values)._adapter
