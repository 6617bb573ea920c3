"""The contract's convolution on PyTorch's.

PyTorch has no dilated input, at most three axes, and only symmetric padding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_backend.value import Padding, Shape

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolve(
    x: torch.Tensor, w: torch.Tensor, stride: Shape, padding: Padding,
    input_dilation: Shape, kernel_dilation: Shape, groups: int,
) -> torch.Tensor:  # fmt: skip
    """As `conv` of the contract, for operands and a result that are not empty."""
    spatial = len(stride)
    if any(d > 1 for d in input_dilation):
        sizes = ((n - 1) * d + 1 for n, d in zip(x.shape[2:], input_dilation))
        wide = x.new_zeros((*x.shape[:2], *sizes))
        wide[(..., *(slice(None, None, d) for d in input_dilation))] = x
        x = wide
    if spatial <= 3 and all(low == high >= 0 for low, high in padding):
        same = tuple(low for low, _ in padding)
        return _CONV[spatial](x, w, None, stride, same, kernel_dilation, groups)
    x = F.pad(x, [n for pair in reversed(padding) for n in pair])  # crops where negative
    return _valid(x, w, stride, kernel_dilation, groups)


def _valid(
    x: torch.Tensor, w: torch.Tensor, stride: Shape, dilation: Shape, groups: int
) -> torch.Tensor:
    """Without padding. A fourth axis joins the batch, for one row of the kernel at a time."""
    if len(stride) <= 3:
        return _CONV[len(stride)](x, w, None, stride, 0, dilation, groups)
    step, gap, reach = stride[0], dilation[0], (w.shape[2] - 1) * dilation[0]
    total: torch.Tensor = 0
    for k in range(w.shape[2]):
        rows = x[:, :, k * gap : x.shape[2] - reach + k * gap : step].movedim(2, 1)
        part = _valid(rows.flatten(0, 1), w[:, :, k], stride[1:], dilation[1:], groups)
        total = total + part.unflatten(0, rows.shape[:2]).movedim(1, 2)
    return total
