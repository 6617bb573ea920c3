"""Convolution as matrix products over unfolded patches, a cache-sized part at a time."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

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
        return out
    x = _spread(x, padding, input_dilation)
    x = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    patches = _patches(x, w.shape[2:], out_shape[2:], stride, kernel_dilation)
    if math.prod(out_shape[2:]) < math.prod(w.shape[2:]):
        _by_place(patches, w, out, groups)
    else:
        _by_batch(patches, w, out, groups)
    return out


def _by_batch(patches: Array, w: Array, out: Array, groups: int) -> None:
    # The usual case: a column of patch elements per output place.
    batch, features = out.shape[:2]
    depth, places = w[0].size, math.prod(out.shape[2:])
    weights = w.reshape(groups, features // groups, depth)
    result = out.reshape(batch, groups, features // groups, places)
    step = max(1, PATCH_BYTES // (groups * depth * places * out.itemsize))
    for start in range(0, batch, step):
        part = patches[start : start + step]
        columns = part.reshape(len(part), groups, depth, places)
        np.matmul(weights, columns, out=result[start : start + step])


def _by_place(patches: Array, w: Array, out: Array, groups: int) -> None:
    # A large kernel and few output places (weight gradients are such): one product per place.
    batch, features = out.shape[:2]
    depth = w[0].size
    weights = w.reshape(groups, features // groups, depth).transpose(0, 2, 1)
    result = out.reshape(batch, groups, features // groups, -1)
    for place, index in enumerate(np.ndindex(*out.shape[2:])):
        rows = patches[(Ellipsis, *index)].reshape(batch, groups, depth)
        product = np.matmul(rows.transpose(1, 0, 2), weights)
        result[..., place] = product.transpose(1, 0, 2)


def _spread(x: Array, padding: tuple[tuple[int, int], ...], dilation: tuple[int, ...]) -> Array:
    # Zeros between the elements, then padding or cropping at the ends.
    if all(d == 1 for d in dilation) and not any(low or high for low, high in padding):
        return x
    sizes = [max(n - 1, 0) * d + min(n, 1) for n, d in zip(x.shape[2:], dilation, strict=True)]
    total = [n + low + high for n, (low, high) in zip(sizes, padding, strict=True)]
    out = np.zeros((*x.shape[:2], *total), x.dtype)
    source, target = [slice(None)] * 2, [slice(None)] * 2
    for n, (low, high), d in zip(x.shape[2:], padding, dilation, strict=True):
        # Elements of x whose place low + i * d falls inside the result.
        first = max(0, -(low // d)) if low < 0 else 0
        end = low + max(n - 1, 0) * d + min(n, 1) + high
        count = max(0, min(n, -(-(end - low) // d)) - first)
        place = low + first * d
        source.append(slice(first, first + count))
        target.append(slice(place, place + max(count - 1, 0) * d + min(count, 1), d))
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
