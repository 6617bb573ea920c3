"""Derived operations that PyTorch has: faster than their compositions, with the same results."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fl_tensor.backend import TensorBackend
from torch_backend.lifting import along, binary, reduction, unary
from torch_backend.value import Shape, Value

Padding = tuple[tuple[int, int], ...]


def _tensor(x: Value | None) -> torch.Tensor | None:
    return None if x is None else x.tensor


_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _pool_fits(x: Value, window: Shape, stride: Shape, padding: Padding) -> bool:
    """Whether PyTorch pools this; the composition does the rest, or says what is wrong."""
    rank = len(window)
    return (
        rank <= 3
        and x.dtype.is_floating
        and len(x.shape) - 2 == rank == len(stride) == len(padding)
        and all(0 <= n < k for k, pair in zip(window, padding) for n in pair)
    )


def _padded(tensor: torch.Tensor, padding: Padding, value: float) -> torch.Tensor:
    flat = [n for pair in reversed(padding) for n in pair]
    return F.pad(tensor, flat, value=value) if any(flat) else tensor


class FasterOps(TensorBackend):
    """Overrides of derived operations."""

    asin, acos, atan = map(unary, (torch.asin, torch.acos, torch.atan))
    asinh, acosh, atanh = map(unary, (torch.asinh, torch.acosh, torch.atanh))
    sinh, cosh, tan = map(unary, (torch.sinh, torch.cosh, torch.tan))
    exp2, log2, log10 = map(unary, (torch.exp2, torch.log2, torch.log10))
    square, reciprocal, rsqrt = map(unary, (torch.square, torch.reciprocal, torch.rsqrt))
    relu, sigmoid, silu = map(unary, (torch.relu, torch.sigmoid, F.silu))
    isnan, isinf, isfinite = map(unary, (torch.isnan, torch.isinf, torch.isfinite))
    not_equal, less_equal = binary(torch.ne), binary(torch.le)
    greater, greater_equal = binary(torch.gt), binary(torch.ge)
    hypot, logical_not = binary(torch.hypot), unary(torch.logical_not)
    logical_and, logical_or = binary(torch.logical_and), binary(torch.logical_or)
    logical_xor = binary(torch.logical_xor)
    mean, logsumexp = reduction(torch.mean), reduction(torch.logsumexp)
    softmax, log_softmax, flip = map(along, (torch.softmax, torch.log_softmax, torch.flip))

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        return Value(F.gelu(x.tensor, approximate=approximate))

    def softplus(self, x: Value) -> Value:
        return Value(torch.logaddexp(x.tensor, torch.zeros_like(x.tensor)))

    def linear(self, x: Value, weight: Value, bias: Value | None = None) -> Value:
        if len(weight.shape) != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            return super().linear(x, weight, bias)
        return Value(F.linear(x.tensor, weight.tensor, _tensor(bias)))

    def layer_norm(
        self, x: Value, weight: Value | None = None, bias: Value | None = None,
        axis: Shape = (-1,), eps: float = 1e-5,
    ) -> Value:  # fmt: skip
        trailing = tuple(range(len(x.shape) - len(axis), len(x.shape)))
        if not axis or tuple(sorted(axis)) != trailing:
            return super().layer_norm(x, weight, bias, axis, eps)
        size = x.shape[trailing[0] :]
        return Value(F.layer_norm(x.tensor, size, _tensor(weight), _tensor(bias), eps))

    def batch_norm(
        self, x: Value, mean: Value, variance: Value, weight: Value | None = None,
        bias: Value | None = None, axis: int = 1, eps: float = 1e-5,
    ) -> Value:  # fmt: skip
        if axis != 1:
            return super().batch_norm(x, mean, variance, weight, bias, axis, eps)
        known = (mean.tensor, variance.tensor, _tensor(weight), _tensor(bias))
        return Value(F.batch_norm(x.tensor, *known, eps=eps))

    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        if not _pool_fits(x, window, stride, padding):
            return super().max_pool(x, window, stride, padding)
        padded = _padded(x.tensor, padding, -torch.inf)
        return Value(_MAX_POOL[len(window)](padded, window, stride))

    def avg_pool(
        self, x: Value, window: Shape, stride: Shape, padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:  # fmt: skip
        partial = not count_include_pad and any(low or high for low, high in padding)
        if partial or not _pool_fits(x, window, stride, padding):
            return super().avg_pool(x, window, stride, padding, count_include_pad)
        return Value(_AVG_POOL[len(window)](_padded(x.tensor, padding, 0.0), window, stride))
