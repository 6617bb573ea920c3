"""Convolution as GEMM over unfolded patches (im2col), a cache-sized part at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_tensor.backends.numpy import memory

Array: TypeAlias = np.ndarray[Any, Any]

#: Bytes of unfolded patches that are made at a time.
PATCH_BYTES = 4 << 20


def convolve(
    x: Array,
    w: Array,
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    input_dilation: tuple[int, ...],
    kernel_dilation: tuple[int, ...],
    groups: int,
    out_shape: tuple[int, ...],
) -> Array:
    """Cross-correlation of x (batch, channels, *spatial) with w (features, channels / groups,
    *kernel); arguments as in the contract, ``out_shape`` as its rule gives."""
    out = memory.empty(out_shape, x.dtype)
    if out.size == 0:
        return out
    if w[0].size == 0 or x.size == 0:
        out[...] = 0
    elif all(d == 1 for d in input_dilation):
        _plain(x, w, stride, padding, kernel_dilation, groups, out)
    else:
        _dilated(x, w, stride, padding, input_dilation, kernel_dilation, groups, out)
    return out


def _plain(
    x: Array,
    w: Array,
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    kernel_dilation: tuple[int, ...],
    groups: int,
    out: Array,
) -> None:
    x = _padded(x, padding)
    x = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    patches = _patches(x, w.shape[2:], out.shape[2:], stride, kernel_dilation)
    if math.prod(out.shape[2:]) < math.prod(w.shape[2:]):
        _by_place(patches, w, out, groups)
    else:
        _by_batch(patches, w, out, groups)


def _dilated(
    x: Array,
    w: Array,
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    input_dilation: tuple[int, ...],
    kernel_dilation: tuple[int, ...],
    groups: int,
    out: Array,
) -> None:
    # Every other output (or every third, ...) meets the same part of the kernel, the rest of which
    # falls on the zeros in between: a convolution without dilation for each such phase.
    sizes = (out.shape[2:], x.shape[2:], w.shape[2:])
    settings = (stride, (low for low, _ in padding), input_dilation, kernel_dilation)
    for phases in itertools.product(*map(_phases, *sizes, *settings)):
        places: Any = (..., *(phase.places for phase in phases))
        kernel = w[(..., *(phase.kernel for phase in phases))]
        if kernel.size == 0:
            out[places] = 0
            continue
        steps, pads, dilations = zip(*(phase[2:] for phase in phases), strict=True)
        part = memory.empty(out[places].shape, out.dtype)
        _plain(x, kernel, steps, pads, dilations, groups, part)
        out[places] = part


class _Phase(NamedTuple):
    """Along one axis: outputs, the part of the kernel that meets elements of the input there, and
    how it runs over them."""

    places: slice
    kernel: slice
    stride: int
    padding: tuple[int, int]
    dilation: int


def _phases(
    count: int, size: int, kernel: int, stride: int, low: int, spread: int, dilation: int
) -> list[_Phase]:
    # Output o and kernel element k meet input (o * stride + k * dilation - low) / spread, if that
    # is an integer: so it is for every period-th output and every step-th kernel element.
    period, step = spread // math.gcd(stride, spread), spread // math.gcd(dilation, spread)
    new_stride, new_dilation = period * stride // spread, step * dilation // spread
    found = []
    for first in range(min(period, count)):
        starts = [k for k in range(step) if (first * stride + k * dilation - low) % spread == 0]
        start = starts[0] if starts else kernel
        taken = len(range(start, kernel, step))
        before = (low - first * stride - start * dilation) // spread
        reach = (len(range(first, count, period)) - 1) * new_stride + (taken - 1) * new_dilation + 1
        places, part = slice(first, None, period), slice(start, None, step)
        found.append(
            _Phase(places, part, new_stride, (before, reach - before - size), new_dilation)
        )
    return found


def _by_batch(patches: Array, w: Array, out: Array, groups: int) -> None:
    # The usual case: a column of patch elements per output place. Several samples at a time, or of
    # one sample several rows of places.
    batch, features, rows = out.shape[:3]
    depth, width = w[0].size, math.prod(out.shape[3:])
    weights = w.reshape(groups, features // groups, depth)
    result = out.reshape(batch, groups, features // groups, rows * width)
    row_bytes = groups * depth * width * out.itemsize
    samples, some = max(1, PATCH_BYTES // (row_bytes * rows)), max(1, PATCH_BYTES // row_bytes)
    before_rows = (slice(None),) * (patches.ndim - len(out.shape[2:]) - 1)
    for start, row in itertools.product(range(0, batch, samples), range(0, rows, some)):
        part = patches[(slice(start, start + samples), *before_rows, slice(row, row + some))]
        columns = _copied(part).reshape(len(part), groups, depth, -1)
        places = slice(row * width, (row + some) * width)
        np.matmul(weights, columns, out=result[start : start + samples, ..., places])


def _by_place(patches: Array, w: Array, out: Array, groups: int) -> None:
    # A large kernel and few output places (weight gradients are such): one product per place.
    batch, features = out.shape[:2]
    depth = w[0].size
    weights = w.reshape(groups, features // groups, depth).transpose(0, 2, 1)
    result = out.reshape(batch, groups, features // groups, -1)
    for place, index in enumerate(np.ndindex(*out.shape[2:])):
        rows = _copied(patches[(Ellipsis, *index)]).reshape(batch, groups, depth)
        product = np.matmul(rows.transpose(1, 0, 2), weights)
        result[..., place] = product.transpose(1, 0, 2)


def _copied(view: Array) -> Array:
    # In C order, and in a block: the runtime would get fresh pages for each copy.
    return memory.cast(view, view.dtype)


def _padded(x: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    # Zeros at the ends, or what is cropped there.
    if not any(low or high for low, high in padding):
        return x
    sizes = [n + low + high for n, (low, high) in zip(x.shape[2:], padding, strict=True)]
    source, target = [slice(None)] * 2, [slice(None)] * 2
    for n, size, (low, _) in zip(x.shape[2:], sizes, padding, strict=True):
        first, end = max(0, -low), max(0, min(n, size - low))
        source.append(slice(first, end))
        target.append(slice(low + first, low + max(first, end)))
    out = memory.empty((*x.shape[:2], *sizes), x.dtype)
    out[...] = 0
    out[tuple(target)] = x[tuple(source)]
    return out


def _patches(
    x: Array,
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Array:
    # A view (batch, groups, channels, *kernel, *out) of x (batch, groups, channels, *spatial):
    # element [.., k, o] is x[.., o * stride + k * dilation].
    steps = x.strides[3:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:3], *kernel, *out),
        (
            *x.strides[:3],
            *(s * d for s, d in zip(steps, dilation, strict=True)),
            *(s * d for s, d in zip(steps, stride, strict=True)),
        ),
        writeable=False,
    )
