"""References of convolution, pooling and their gradients, one output position at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fl_tensor.testing.hostdata import HostArray

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


def conv(
    x: HostArray,
    w: HostArray,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> HostArray:
    """Cross-correlation; integers stay exact."""
    x = _framed(_dilated(x, input_dilation), padding, 0)
    w = _dilated(w, kernel_dilation)
    kind = _exact(x, w)
    out = np.zeros((x.shape[0], w.shape[0], *_sizes(x.shape[2:], w.shape[2:], stride)), kind)
    per_group, channels = w.shape[0] // groups, w.shape[1]
    for at, starts in _places(x.shape[2:], w.shape[2:], stride):
        for feature in range(w.shape[0]):
            first = (feature // per_group) * channels
            part = _window(x[:, first : first + channels], starts, w.shape[2:])
            product = part.astype(kind) * w[feature].astype(kind)
            out[(slice(None), feature) + at] = product.sum(tuple(range(1, x.ndim)))
    return out


def conv_data_gradient(
    gradient: HostArray,
    w: HostArray,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> HostArray:
    """Each element of the gradient is spread over what the kernel saw; integers stay exact."""
    kind = _exact(gradient, w)
    w = _dilated(w, kernel_dilation).astype(kind)
    framed = _framed(_dilated(np.zeros(shape, bool), input_dilation), padding, False)
    total = np.zeros(framed.shape, kind)
    for part, feature, values in _seen(gradient, w.shape, framed.shape, stride, groups):
        total[part] += values.astype(kind).reshape(-1, 1, *(1,) * len(stride)) * w[feature]
    wide = _dilated(np.zeros(shape, bool), input_dilation).shape[2:]
    whole = np.zeros((*shape[:2], *wide), kind)
    inside, cut = _overlap(wide, padding)
    whole[inside] = total[cut]
    return whole[(..., *(slice(None, None, d) for d in input_dilation))]


def conv_weight_gradient(
    gradient: HostArray,
    x: HostArray,
    shape: Shape,
    stride: Shape,
    padding: Padding,
    input_dilation: Shape,
    kernel_dilation: Shape,
    groups: int = 1,
) -> HostArray:
    """Each weight gets what it was multiplied by, times the gradient; integers stay exact."""
    kind = _exact(gradient, x)
    x = _framed(_dilated(x, input_dilation), padding, 0).astype(kind)
    total = np.zeros(_dilated(np.zeros(shape, bool), kernel_dilation).shape, kind)
    for part, feature, values in _seen(gradient, total.shape, x.shape, stride, groups):
        factor = values.astype(kind).reshape(-1, 1, *(1,) * len(stride))
        total[feature] += (x[part] * factor).sum(0)
    return total[(..., *(slice(None, None, d) for d in kernel_dilation))]


def _seen(
    gradient: HostArray, w_shape: Shape, x_shape: Shape, stride: Shape, groups: int
) -> Iterator[tuple[tuple[slice, ...], int, HostArray]]:
    """For each output place and feature: what it saw of the padded input, the feature, and the
    gradient there, one element per sample."""
    per_group, channels = w_shape[0] // groups, w_shape[1]
    for at, starts in _places(x_shape[2:], w_shape[2:], stride):
        places = tuple(slice(s, s + k) for s, k in zip(starts, w_shape[2:], strict=True))
        for feature in range(w_shape[0]):
            first = (feature // per_group) * channels
            part = (slice(None), slice(first, first + channels), *places)
            yield part, feature, gradient[(slice(None), feature) + at]


def _overlap(sizes: Shape, padding: Padding) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where an array and its padded (or cropped) self have the same elements, in each of them."""
    whole: list[slice] = [slice(None)] * 2
    framed: list[slice] = [slice(None)] * 2
    for n, (low, high) in zip(sizes, padding, strict=True):
        start, stop = max(-low, 0), n - max(-high, 0)
        whole.append(slice(start, stop))
        framed.append(slice(start + low, stop + low))
    return tuple(whole), tuple(framed)


def _exact(x: HostArray, y: HostArray) -> np.dtype[Any]:
    """What sums of products are exact in, or float64."""
    return np.dtype(np.int64) if x.dtype.kind in "iu" else np.result_type(x, y, np.float64)


def max_pool(x: HostArray, window: Shape, stride: Shape, padding: Padding) -> HostArray:
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _pooled(_framed(x, padding, low), window, stride, "max")


def avg_pool(
    x: HostArray, window: Shape, stride: Shape, padding: Padding, count_include_pad: bool = True
) -> HostArray:
    total = _pooled(_framed(x, padding, 0.0), window, stride, "sum")
    inside = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:
        return total / np.prod(window)
    return total / _pooled(_framed(inside, padding, 0.0), window, stride, "sum")


def max_pool_gradient(
    gradient: HostArray, x: HostArray, window: Shape, stride: Shape, padding: Padding
) -> HostArray:
    framed = _framed(x, padding, -np.inf)
    total = np.zeros(framed.shape)
    for at, starts in _places(framed.shape[2:], window, stride):
        part = _window(framed, starts, window).reshape(*x.shape[:2], math.prod(window))
        for sample, channel in np.ndindex(*x.shape[:2]):
            values = part[sample, channel]
            if np.isnan(values).any():
                continue
            inside = np.unravel_index(values.argmax(), window)
            place = tuple(s + i for s, i in zip(starts, inside, strict=True))
            total[(sample, channel) + place] += gradient[(sample, channel) + at]
    return _unframed(total, padding)


def avg_pool_gradient(
    gradient: HostArray,
    shape: Shape,
    window: Shape,
    stride: Shape,
    padding: Padding,
    count_include_pad: bool = True,
) -> HostArray:
    inside = _framed(np.ones((1, 1, *shape[2:])), padding, 0.0)
    total = np.zeros((*shape[:2], *inside.shape[2:]))
    for at, starts in _places(inside.shape[2:], window, stride):
        count = _window(inside, starts, window).sum() if not count_include_pad else np.prod(window)
        places = tuple(slice(s, s + k) for s, k in zip(starts, window, strict=True))
        share = gradient[(slice(None), slice(None)) + at].astype(np.float64) / count
        total[(slice(None), slice(None), *places)] += share.reshape(*shape[:2], *(1,) * len(window))
    return _unframed(total, padding)


def _unframed(x: HostArray, padding: Padding) -> HostArray:
    inside = (slice(low, n - high) for n, (low, high) in zip(x.shape[2:], padding, strict=True))
    return x[(slice(None), slice(None), *inside)]


def _pooled(x: HostArray, window: Shape, stride: Shape, method: str) -> HostArray:
    out = np.zeros((*x.shape[:2], *_sizes(x.shape[2:], window, stride)), x.dtype)
    for at, starts in _places(x.shape[2:], window, stride):
        part = _window(x, starts, window)
        out[(slice(None), slice(None)) + at] = getattr(part, method)(tuple(range(2, x.ndim)))
    return out


def _sizes(spatial: Shape, window: Shape, stride: Shape) -> Shape:
    return tuple((n - k) // s + 1 for n, k, s in zip(spatial, window, stride, strict=True))


def _places(spatial: Shape, window: Shape, stride: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Each output place, and where its window starts."""
    for at in np.ndindex(_sizes(spatial, window, stride)):
        yield at, tuple(i * s for i, s in zip(at, stride, strict=True))


def _window(x: HostArray, starts: Shape, window: Shape) -> HostArray:
    for axis, (start, size) in enumerate(zip(starts, window, strict=True), start=2):
        x = x.take(range(start, start + size), axis)
    return x


def _dilated(x: HostArray, factors: Shape) -> HostArray:
    sizes = [max(0, (n - 1) * f + 1) for n, f in zip(x.shape[2:], factors, strict=True)]
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    out[(slice(None), slice(None), *(slice(None, None, f) for f in factors))] = x
    return out


def _framed(x: HostArray, padding: Padding, value: float) -> HostArray:
    """Padded where positive, cropped where negative."""
    for axis, (low, high) in enumerate(padding, start=2):
        width = [(0, 0)] * x.ndim
        width[axis] = (max(low, 0), max(high, 0))
        x = np.pad(x, width, constant_values=value)
        x = np.take(x, range(max(-low, 0), x.shape[axis] - max(-high, 0)), axis)
    return x
