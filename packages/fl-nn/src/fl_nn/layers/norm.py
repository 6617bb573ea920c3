"""Normalisation: BatchNorm, LayerNorm, GroupNorm, RMSNorm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import fl_autograd as ag
import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.values import tensor_of

E = TypeVar("E", float, "float | None")


def _checked(module: Module, eps: E) -> E:
    """A term under a root: ModuleError unless it is a finite number of at least 0, or None."""
    if eps is not None and not 0.0 <= eps < math.inf:
        raise ModuleError(f"[{type(module).__name__}] eps={eps}: give a number of at least 0")
    return eps


class BatchNorm(Module):
    """Normalises each of `features` along `axis` over all other axes. Ioffe & Szegedy, 2015. Of
    several axes, each place on all of them is a feature, counted in C order.

    In training the statistics are those of the batch, and running ones follow them: new = (1 -
    momentum) old + momentum batch (unbiased variance); `momentum=None` averages over all batches.
    In evaluation the running ones are used. With `track_stats=False` it is always the batch's.
    A batch without samples gives one, and leaves the statistics as they are.
    Under `fl_autograd.checkpoint` a batch counts once.

    Parameters weight (ones) and bias (zeros), unless `affine=False`; buffers running_mean,
    running_var, num_batches_tracked: names and values as PyTorch's BatchNorm1d/2d/3d.
    """

    def __init__(
        self,
        features: int,
        axis: int | Sequence[int] = 1,
        momentum: float | None = 0.1,
        eps: float = 1e-5,
        affine: bool = True,
        track_stats: bool = True,
        *,
        dtype: ft.DType | None = None,
    ) -> None:
        if features < 1 or (momentum is not None and not 0.0 <= momentum <= 1.0):
            raise ModuleError(
                f"[BatchNorm] features={features}, momentum={momentum}: at least 1 feature, and "
                "momentum in [0, 1], or None to average over all batches"
            )
        self.features, self.momentum, self.eps = features, momentum, _checked(self, eps)
        self.axis = axis if isinstance(axis, int) else tuple(axis)
        shape = (features,)
        self.weight = Parameter(init.constant(shape, 1.0, dtype=dtype)) if affine else None
        self.bias = Parameter(init.constant(shape, 0.0, dtype=dtype)) if affine else None
        self.running_mean: ft.Tensor | None
        self.running_var: ft.Tensor | None
        self.num_batches_tracked: ft.Tensor | None
        zeros, ones = (init.constant(shape, v, dtype=dtype) for v in (0.0, 1.0))
        self.register_buffer("running_mean", zeros if track_stats else None)
        self.register_buffer("running_var", ones if track_stats else None)
        count = ft.zeros((), ft.int64) if track_stats else None
        self.register_buffer("num_batches_tracked", count)

    def forward(self, x: ft.Array) -> ft.Array:
        axes = self._axes(x)
        if len(axes) == 1:
            return self._normalised(x, axes[0])
        # The axes of features in front, and then as one.
        order = (*axes, *(i for i in range(x.ndim) if i not in axes))
        front = ft.permute(x, order)
        y = self._normalised(ft.reshape(front, (self.features, x.size // self.features)), 0)
        return ft.permute(ft.reshape(y, front.shape), tuple(map(order.index, range(x.ndim))))

    def _normalised(self, x: ft.Array, axis: int) -> ft.Array:
        if not self.training and self.running_mean is not None:
            mean, variance = self.running_mean, self.running_var
            return ft.batch_norm(x, mean, variance, self.weight, self.bias, axis, self.eps)
        samples = x.size // self.features
        if not samples:  # there is nothing to normalise, but weight and bias have gradients: zeros
            zeros = ft.full((self.features,), 0.0, x.dtype, x.device, x.backend)
            return ft.batch_norm(x, zeros, zeros + 1.0, self.weight, self.bias, axis, self.eps)
        if samples < 2:
            raise ft.ShapeError(
                f"[BatchNorm] x {x.shape}: {samples} values per feature have no variance; train "
                "with larger batches (policy='skip_last' drops a last one that is too small)"
            )
        y, means, variances = _batch_norm(x, self.weight, self.bias, axis, self.eps)
        if self.training and self.running_mean is not None:
            self._track(tensor_of(means), tensor_of(variances) * (samples / (samples - 1)))
        return y

    def _track(self, mean: ft.Tensor, variance: ft.Tensor) -> None:
        batches = ft.add(self.num_batches_tracked, 1)
        rate = self.momentum
        if rate is None:
            rate = ft.per_step(1.0 / batches.item(), "weight of this batch in BatchNorm")
        running_mean = _followed(self.running_mean, mean, rate)
        running_var = _followed(self.running_var, variance, rate)
        # The second run of a checkpointed function computes the same, and no batch counts twice.
        if not ag.is_recomputing():
            self.num_batches_tracked = batches
            self.running_mean, self.running_var = running_mean, running_var

    def _axes(self, x: ft.Array) -> tuple[int, ...]:
        given = (self.axis,) if isinstance(self.axis, int) else self.axis
        axes = sorted(a + x.ndim if a < 0 else a for a in given)
        known = axes and len(set(axes)) == len(axes) and all(0 <= a < x.ndim for a in axes)
        if not known or math.prod(x.shape[a] for a in axes) != self.features:
            raise ft.ShapeError(
                f"[BatchNorm] x {x.shape}: expected {self.features} features on axis {self.axis}"
            )
        return tuple(axes)

    def extra_repr(self) -> str:
        text = f"{self.features}, eps={self.eps}, momentum={self.momentum}"
        if self.axis != 1:
            text += f", axis={self.axis}"
        if self.weight is None:
            text += ", affine=False"
        return text + ("" if self.running_mean is not None else ", track_stats=False")


class LayerNorm(Module):
    """Normalises each sample over axes that have the sizes `shape`: the last ones, or those that
    `axis` names in increasing order. Ba et al., 2016.

    `LayerNorm(channels, axis=1)` normalises every pixel of (N, C, H, W) over its channels: the
    LayerNorm2d of ConvNeXt (Liu et al., 2022).

    Parameters weight (ones) and bias (zeros) of that shape, unless `affine=False`.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        *,
        axis: int | Sequence[int] | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if not self.shape or min(self.shape) < 1:
            raise ModuleError(f"[LayerNorm] shape {self.shape}: give the sizes of the last axes")
        self.axis = (axis,) if isinstance(axis, int) else None if axis is None else tuple(axis)
        if self.axis is not None and len(self.axis) != len(self.shape):
            raise ModuleError(
                f"[LayerNorm] shape {self.shape}, axis {axis}: give one axis for each size"
            )
        self.eps = _checked(self, eps)
        ones, zeros = (init.constant(self.shape, v, dtype=dtype) for v in (1.0, 0.0))
        self.weight = Parameter(ones) if affine else None
        self.bias = Parameter(zeros) if affine and bias else None

    def forward(self, x: ft.Array) -> ft.Array:
        rank = x.ndim
        if self.axis is None:
            axes = tuple(range(rank - len(self.shape), rank))
            fits = axes[0] >= 0 and x.shape[axes[0] :] == self.shape
        else:
            axes = tuple(a + rank if a < 0 else a for a in self.axis)
            fits = 0 <= axes[0] and axes[-1] < rank and axes == tuple(sorted(set(axes)))
            fits = fits and tuple(x.shape[a] for a in axes) == self.shape
        if not fits:
            where = "the last axes" if self.axis is None else f"axes {self.axis}"
            raise ft.ShapeError(f"[LayerNorm] x {x.shape}: expected sizes {self.shape} on {where}")
        return ft.layer_norm(x, self.weight, self.bias, axes, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.shape}, eps={self.eps}"
        if self.axis is not None:
            text += f", axis={self.axis}"
        return text + ("" if self.weight is not None else ", affine=False")


class GroupNorm(Module):
    """Normalises each sample over groups of channels: x (N, features, ...), the features in
    `groups` equal parts. Wu & He, 2018.

    Parameters weight (ones) and bias (zeros), one per feature, unless `affine=False`.
    """

    def __init__(
        self,
        groups: int,
        features: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: ft.DType | None = None,
    ) -> None:
        if groups < 1 or features < 1 or features % groups:
            raise ModuleError(
                f"[GroupNorm] {features} features in {groups} groups: groups must divide features"
            )
        self.groups, self.features, self.eps = groups, features, eps
        shape = (features,)
        self.weight = Parameter(init.constant(shape, 1.0, dtype=dtype)) if affine else None
        self.bias = Parameter(init.constant(shape, 0.0, dtype=dtype)) if affine else None

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim < 2 or x.shape[1] != self.features:
            raise ft.ShapeError(f"[GroupNorm] x {x.shape}: expected (N, {self.features}, ...)")
        return _group_norm(x, self.weight, self.bias, self.groups, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.groups}, {self.features}, eps={self.eps}"
        return text + ("" if self.weight is not None else ", affine=False")


class RMSNorm(Module):
    """Divides each sample by the root of the mean of its squares over its last axes, which have
    the sizes `shape`, plus `eps` (the dtype's own where None). Zhang & Sennrich, 2019.

    Parameter weight (ones) of that shape, unless `affine=False`. Half precision is computed in
    float32 and rounded once.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        eps: float | None = None,
        affine: bool = True,
        *,
        dtype: ft.DType | None = None,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if not self.shape or min(self.shape) < 1:
            raise ModuleError(f"[RMSNorm] shape {self.shape}: give the sizes of the last axes")
        self.eps = _checked(self, eps)
        self.weight = Parameter(init.constant(self.shape, 1.0, dtype=dtype)) if affine else None

    def forward(self, x: ft.Array) -> ft.Array:
        axes = tuple(range(x.ndim - len(self.shape), x.ndim))
        if axes[0] < 0 or x.shape[axes[0] :] != self.shape:
            raise ft.ShapeError(f"[RMSNorm] x {x.shape}: expected (..., {self.shape}) at the end")
        return _rms_norm(x, self.weight, axes, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.shape}, eps={self.eps}"
        return text + ("" if self.weight is not None else ", affine=False")


class ScalarLayerNorm(Module):
    """Normalises each sample over `axes` of any size, and learns one scale and one shift for all of
    them: weight (1,) and bias (1,). Flashlight's LayerNorm without sizes, for axes such as time."""

    def __init__(
        self,
        axes: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: ft.DType | None = None,
    ) -> None:
        self.axes = (axes,) if isinstance(axes, int) else tuple(axes)
        self.eps = _checked(self, eps)
        self.weight = Parameter(init.constant((1,), 1.0, dtype=dtype)) if affine else None
        self.bias = Parameter(init.constant((1,), 0.0, dtype=dtype)) if affine else None

    def forward(self, x: ft.Array) -> ft.Array:
        return _scalar_layer_norm(x, self.weight, self.bias, self.axes, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.axes}, eps={self.eps}"
        return text + ("" if self.weight is not None else ", affine=False")


def _followed(running: ft.Tensor | None, found: ft.Tensor, rate: float) -> ft.Tensor:
    assert running is not None  # the caller tracks
    # Under autocast what was found may have another dtype; a buffer keeps its own.
    made = running * (1.0 - rate) + found * rate
    return made if made.dtype is running.dtype else made.astype(running.dtype)


# What a layer computes from its input and parameters: one operation to precision policies.

Weight = ft.Array | None


@ag.as_operation("batch_norm")
def _batch_norm(
    x: ft.Array, weight: Weight, bias: Weight, axis: int, eps: float
) -> tuple[ft.Array, ft.Array, ft.Array]:
    y, mean, variance = ft.batch_norm_training(x, weight, bias, axis, eps)
    return y, mean, variance


@ag.as_operation("group_norm", casts_like="layer_norm")
def _group_norm(x: ft.Array, weight: Weight, bias: Weight, groups: int, eps: float) -> ft.Array:
    parts = ft.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    y = ft.reshape(ft.layer_norm(parts, axis=-1, eps=eps), x.shape)
    if weight is None or bias is None:
        return y
    shape = (-1, *(1,) * (x.ndim - 2))
    return y * weight.reshape(shape) + bias.reshape(shape)


@ag.as_operation("rms_norm", casts_like="layer_norm")
def _rms_norm(x: ft.Array, weight: Weight, axes: tuple[int, ...], eps: float | None) -> ft.Array:
    wide = x.astype(ft.float32) if x.dtype.itemsize < 4 else x
    least = ft.finfo(wide.dtype).eps if eps is None else eps
    scale = ft.rsqrt(ft.mean(ft.square(wide), axes, keepdims=True) + float(least))
    y = (wide * scale).astype(x.dtype)
    return y if weight is None else y * weight


@ag.as_operation("scalar_layer_norm", casts_like="layer_norm")
def _scalar_layer_norm(
    x: ft.Array, weight: Weight, bias: Weight, axes: tuple[int, ...], eps: float
) -> ft.Array:
    y = ft.layer_norm(x, axis=axes, eps=eps)
    return y if weight is None else y * weight + bias
