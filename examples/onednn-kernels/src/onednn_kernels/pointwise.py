"""Pointwise (1x1) convolutions as GEMMs.

Every place of every image is a row: X (places, channels), G (places, features), and the weights W
(features, channels). The places must be evenly spaced in memory, as in channels-last images:

    forward X W^T, dgrad G W, wgrad G^T X

The library's BLAS call is often faster here than its convolution, most of all for wgrad.
"""

from __future__ import annotations

import itertools
import math

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Layout,
    Matmul,
    Placement,
    UnsupportedError,
)
from onednn_kernels.binding import Binding
from onednn_kernels.matmul import Sgemm

#: Minimum number of places. With fewer, the time is spent on reading the weights.
_LEAST_PLACES = 64


class Product:
    """The BLAS call for a convolution. Raises UnsupportedError if the convolution is not a GEMM."""

    def __init__(
        self, binding: Binding, descriptor: Convolution | ConvDataGrad | ConvWeightGrad
    ) -> None:
        if descriptor.groups != 1 or any(n != 1 for n in descriptor.stride):
            raise UnsupportedError("a convolution with groups or strides is no product")
        if any(p != (0, 0) for p in descriptor.padding):
            raise UnsupportedError("a convolution with padding is no product")
        if isinstance(descriptor, ConvWeightGrad) and descriptor.bias is not None:
            raise UnsupportedError("a bias is not part of the BLAS call")
        self.operands: tuple[Placement, ...]
        self._swapped = isinstance(descriptor, ConvWeightGrad)
        if isinstance(descriptor, ConvWeightGrad):
            x, g, w = _rows(descriptor.x), _rows(descriptor.gradient), _matrix(descriptor.out)
            self.operands = descriptor.x, descriptor.gradient, descriptor.out
            product = Matmul(_transposed(g), x, w)
        elif isinstance(descriptor, ConvDataGrad):
            g, w, x = _rows(descriptor.gradient), _matrix(descriptor.w), _rows(descriptor.out)
            self.operands = descriptor.gradient, descriptor.w, descriptor.out
            product = Matmul(g, w, x)
        else:
            x, w, g = _rows(descriptor.x), _matrix(descriptor.w), _rows(descriptor.out)
            self.operands = descriptor.x, descriptor.w, descriptor.out
            product = Matmul(x, _transposed(w), g)
        if x.shape[0] < _LEAST_PLACES:
            raise UnsupportedError(f"{x.shape[0]} places are too few for a product")
        self._kernel = Sgemm(binding, product)
        self.about = "sgemm of places"

    def __call__(self, *addresses: int) -> None:
        first, second, out = addresses
        if self._swapped:
            first, second = second, first
        self._kernel(first, second, out)


def _rows(image: Placement) -> Layout:
    """(batch, channels, *spatial) as (places, channels)."""
    if not isinstance(image, Layout) or image.strides is None:
        raise UnsupportedError(f"a product takes images by strides, not {image}")
    batch, channels, *spatial = image.shape
    axes = [(batch, image.strides[0]), *zip(spatial, image.strides[2:], strict=True)]
    axes = [(n, stride) for n, stride in axes if n != 1] or [(1, channels)]
    for (_, outer), (n, inner) in itertools.pairwise(axes):
        if outer != n * inner:
            raise UnsupportedError(f"the places of {image} are not equally far apart")
    places = math.prod(n for n, _ in axes)
    return Layout(image.dtype, (places, channels), (axes[-1][1], image.strides[1]))


def _matrix(w: Placement) -> Layout:
    """(features, channels, 1, ...) as (features, channels)."""
    if not isinstance(w, Layout) or w.strides is None or math.prod(w.shape[2:]) != 1:
        raise UnsupportedError(f"a product takes weights of one place by strides, not {w}")
    return Layout(w.dtype, w.shape[:2], w.strides[:2])


def _transposed(x: Layout) -> Layout:
    assert x.strides is not None
    return Layout(x.dtype, x.shape[::-1], x.strides[::-1])
