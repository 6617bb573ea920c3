"""FrozenBatchNorm: batch normalisation whose statistics, scale and shift are constants."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.norm import BatchNorm
from fl_nn.module import Module
from fl_nn.values import tensor_of

M = TypeVar("M", bound=Module)


class FrozenBatchNorm(Module):
    """BatchNorm with constants, in training as in evaluation: (x - running_mean) /
    sqrt(running_var + eps) * weight + bias for each of `features` along `axis`. Detectors that
    train with few images per batch keep the statistics of their backbone in this way (Ren et al.,
    2015; Carion et al., 2020).

    weight, bias, running_mean and running_var are buffers (features,): gradients pass through to x,
    and no optimizer changes the layer. No rank needs another, so nothing is synchronised.
    """

    weight: ft.Tensor
    bias: ft.Tensor
    running_mean: ft.Tensor
    running_var: ft.Tensor

    def __init__(
        self, features: int, axis: int = 1, eps: float = 1e-5, *, dtype: ft.DType | None = None
    ) -> None:
        if features < 1:
            raise ModuleError(f"[FrozenBatchNorm] features={features}: at least 1")
        if not 0.0 <= eps < math.inf:
            raise ModuleError(f"[FrozenBatchNorm] eps={eps}: give a number of at least 0")
        self.features, self.axis, self.eps = features, axis, eps
        for name, value in _START.items():
            self.register_buffer(name, init.constant((features,), value, dtype=dtype))

    def forward(self, x: ft.Array) -> ft.Array:
        axis = self.axis + x.ndim if self.axis < 0 else self.axis
        if not 0 <= axis < x.ndim or x.shape[axis] != self.features:
            raise ft.ShapeError(
                f"[FrozenBatchNorm] x {x.shape}: expected {self.features} features on axis "
                f"{self.axis}"
            )
        return ft.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, axis, self.eps
        )

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.features, self.axis, self.eps), {}

    def extra_repr(self) -> str:
        return f"{self.features}, eps={self.eps}" + f", axis={self.axis}" * (self.axis != 1)


#: The buffers, and how they start.
_START = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}


def convert_frozen_batchnorm(model: M) -> M:
    """Make every BatchNorm and SyncBatchNorm of a model, itself included, a FrozenBatchNorm with
    the same statistics, scale and shift, in place; the model. Build optimizers afterwards: scale
    and shift are no longer parameters.

    Raises ModuleError for one without running statistics, or with features on several axes; nothing
    is changed then.
    """
    if not isinstance(model, Module):
        raise ModuleError(f"[convert_frozen_batchnorm] {model!r} is no Module")
    found = [(name, m) for name, m in model.named_modules() if isinstance(m, BatchNorm)]
    for name, norm in found:
        if norm.running_mean is None or not isinstance(norm.axis, int):
            raise ModuleError(
                f"[convert_frozen_batchnorm] {name or 'the model'} is {norm!r}: only running "
                "statistics along one axis can be frozen"
            )
    for _, norm in found:
        _freeze(norm)
    return model


def _freeze(norm: BatchNorm) -> None:
    assert norm.running_mean is not None
    given = {name: getattr(norm, name) for name in _START}
    like = norm.running_mean
    settings = {"features": norm.features, "axis": norm.axis, "eps": norm.eps}
    training = norm.training
    norm.__dict__.clear()
    norm.__class__ = FrozenBatchNorm  # type: ignore[assignment]  # the object, wherever it is held
    norm.__dict__.update(settings)
    norm.training = training
    for name, value in given.items():
        kept = ft.full_like(like, _START[name]) if value is None else tensor_of(value)
        norm.register_buffer(name, kept)
