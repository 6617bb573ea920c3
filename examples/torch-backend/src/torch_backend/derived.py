"""Derived operations that PyTorch has: faster than their compositions, with the same results."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fl_tensor.backend import TensorBackend
from torch_backend.value import Function, Padding, Shape, Value, along, elementwise, reduction

_MAX_POOL = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_AVG_POOL = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def _pool(
    functions: tuple[Function, ...], fill: float,
    x: Value, window: Shape, stride: Shape, padding: Padding,
) -> Value | None:  # fmt: skip
    """None for what PyTorch does not pool: the composition does it, or says what is wrong."""
    rank, flat = len(window), [n for pair in reversed(padding) for n in pair]
    known = x.dtype.is_floating and len(x.shape) - 2 == rank == len(stride) == len(padding)
    if not known or rank > 3 or not all(0 <= n < k for k, p in zip(window, padding) for n in p):
        return None
    padded = F.pad(x.tensor, flat, value=fill) if any(flat) else x.tensor
    return Value(functions[rank - 1](padded, window, stride))


class FasterOps(TensorBackend):
    """Overrides of derived operations."""

    asin, acos, atan = map(elementwise, (torch.asin, torch.acos, torch.atan))
    asinh, acosh, atanh = map(elementwise, (torch.asinh, torch.acosh, torch.atanh))
    sinh, cosh, tan = map(elementwise, (torch.sinh, torch.cosh, torch.tan))
    exp2, log2, log10 = map(elementwise, (torch.exp2, torch.log2, torch.log10))
    hypot, logical_not = elementwise(torch.hypot), elementwise(torch.logical_not)
    square, reciprocal, rsqrt = map(elementwise, (torch.square, torch.reciprocal, torch.rsqrt))
    relu, sigmoid, silu = map(elementwise, (torch.relu, torch.sigmoid, F.silu))
    isnan, isinf, isfinite = map(elementwise, (torch.isnan, torch.isinf, torch.isfinite))
    not_equal, less_equal = elementwise(torch.ne), elementwise(torch.le)
    greater, greater_equal = elementwise(torch.gt), elementwise(torch.ge)
    logical_and, logical_or = elementwise(torch.logical_and), elementwise(torch.logical_or)
    logical_xor = elementwise(torch.logical_xor)
    mean, logsumexp = reduction(torch.mean), reduction(torch.logsumexp)
    softmax, log_softmax, flip = map(along, (torch.softmax, torch.log_softmax, torch.flip))

    def linear(self, x: Value, weight: Value, bias: Value | None = None) -> Value:
        if len(weight.shape) != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            return super().linear(x, weight, bias)
        return Value(F.linear(x.tensor, weight.tensor, bias and bias.tensor))

    def layer_norm(
        self, x: Value, weight: Value | None = None, bias: Value | None = None,
        axis: Shape = (-1,), eps: float = 1e-5,
    ) -> Value:  # fmt: skip
        trailing = tuple(range(len(x.shape) - len(axis), len(x.shape)))
        if not axis or tuple(sorted(axis)) != trailing:
            return super().layer_norm(x, weight, bias, axis, eps)
        scale, shift = weight and weight.tensor, bias and bias.tensor
        return Value(F.layer_norm(x.tensor, x.shape[trailing[0] :], scale, shift, eps))

    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        pooled = _pool(_MAX_POOL, -torch.inf, x, window, stride, padding)
        return pooled or super().max_pool(x, window, stride, padding)

    def avg_pool(
        self, x: Value, window: Shape, stride: Shape, padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:  # fmt: skip
        whole = count_include_pad or not any(low or high for low, high in padding)
        pooled = _pool(_AVG_POOL, 0.0, x, window, stride, padding) if whole else None
        return pooled or super().avg_pool(x, window, stride, padding, count_include_pad)
