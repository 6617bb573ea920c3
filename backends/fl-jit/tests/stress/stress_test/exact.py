"""What a problem's result is, in the dtype of the operands given here; and how large it is expected
to be: the standard deviation of the sum if its terms had random signs. Errors are judged by that,
as a sum may cancel to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, Matmul

Array = np.ndarray
#: (result, size of its terms)
Exact = tuple[Array, Array]


def matmul(descriptor: Matmul, x: Array, y: Array, held: Array | None = None) -> Exact:
    """A Matmul; ``held`` is what the result held before."""
    found, squares = x @ y, np.square(x) @ np.square(y)
    found = np.broadcast_to(found, descriptor.out.shape)
    if held is not None:
        found, squares = found + held, squares + np.square(held)
    return found, np.sqrt(squares)


def convolution(descriptor: Convolution, x: Array, w: Array) -> Exact:
    """A Convolution."""
    squares = _forward(descriptor, np.square(x), np.square(w))
    return _forward(descriptor, x, w), np.sqrt(squares)


def convolution_data(descriptor: ConvDataGrad, gradient: Array, w: Array) -> Exact:
    """A ConvDataGrad."""
    squares = _data(descriptor, np.square(gradient), np.square(w))
    return _data(descriptor, gradient, w), np.sqrt(squares)


def convolution_weights(descriptor: ConvWeightGrad, x: Array, gradient: Array) -> Exact:
    """A ConvWeightGrad, but for its bias."""
    squares = _weights(descriptor, np.square(x), np.square(gradient))
    return _weights(descriptor, x, gradient), np.sqrt(squares)


def convolution_bias(gradient: Array) -> Exact:
    """The bias's gradient of a ConvWeightGrad."""
    axes = (0, *range(2, gradient.ndim))
    return gradient.sum(axes), np.sqrt(np.square(gradient).sum(axes))


AnyConvolution = Convolution | ConvDataGrad | ConvWeightGrad


def _forward(descriptor: Convolution, x: Array, w: Array) -> Array:
    groups = descriptor.groups
    found = np.zeros(descriptor.out.shape, x.dtype)
    w = _grouped(w, x.ndim, groups)
    places = _split(found, groups)
    for tap, window in _windows(descriptor, _padded(descriptor, x), found.shape[2:]):
        taps = w[(..., *tap)]  # groups, features, channels
        places += (taps @ _split(window, groups).reshape(*_flat(window, groups))).reshape(
            places.shape
        )
    return found


def _data(descriptor: ConvDataGrad, gradient: Array, w: Array) -> Array:
    groups = descriptor.groups
    w = _grouped(w, gradient.ndim, groups)
    spatial = descriptor.out.shape[2:]
    room = [n + max(low, 0) + max(high, 0) for n, (low, high) in zip(spatial, descriptor.padding)]
    whole = np.zeros((*descriptor.out.shape[:2], *room), gradient.dtype)
    inner = whole[_inside(descriptor, spatial, outwards=True)]
    flat = _split(gradient, groups).reshape(*_flat(gradient, groups))
    for tap, window in _windows(descriptor, inner, gradient.shape[2:]):
        taps = w[(..., *tap)].swapaxes(-1, -2)
        part = taps @ flat
        window += part.reshape(window.shape)
    return whole[_inside(descriptor, spatial, outwards=False)].copy()


def _weights(descriptor: ConvWeightGrad, x: Array, gradient: Array) -> Array:
    groups = descriptor.groups
    found = np.zeros(descriptor.out.shape, x.dtype)
    w = _grouped(found, x.ndim, groups)
    flat = _split(gradient, groups).reshape(*_flat(gradient, groups))
    for tap, window in _windows(descriptor, _padded(descriptor, x), gradient.shape[2:]):
        images = _split(window, groups).reshape(*_flat(window, groups))
        w[(..., *tap)] = (flat @ images.swapaxes(-1, -2)).sum(0)
    return found


def _windows(
    descriptor: AnyConvolution, padded: Array, size: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    # Each place of the kernel, with a view of the elements that it meets.
    w = descriptor.out if isinstance(descriptor, ConvWeightGrad) else descriptor.w
    kernel = w.shape[-len(size) :]
    for tap in product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1 if n else t * d, s)
            for t, d, s, n in zip(tap, descriptor.dilation, descriptor.stride, size)
        )
        yield tap, padded[(slice(None), slice(None), *cut)]


def _padded(descriptor: AnyConvolution, x: Array) -> Array:
    widths = [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in descriptor.padding)]
    return np.pad(x, widths)[_inside(descriptor, x.shape[2:], outwards=True)]


def _inside(
    descriptor: AnyConvolution, spatial: tuple[int, ...], outwards: bool
) -> tuple[slice, ...]:
    # Of an image with what positive padding adds: what negative padding leaves (outwards), or
    # where the image itself is.
    cuts = []
    for n, (low, high) in zip(spatial, descriptor.padding):
        whole = n + max(low, 0) + max(high, 0)
        if outwards:
            cuts.append(slice(max(-low, 0), whole - max(-high, 0)))
        else:
            cuts.append(slice(max(low, 0), max(low, 0) + n))
    return (slice(None), slice(None), *cuts)


def _grouped(w: Array, rank: int, groups: int) -> Array:
    # (groups, features of a group, channels of a group, *kernel)
    if w.ndim == rank + 1:
        return w
    return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])


def _split(image: Array, groups: int) -> Array:
    return image.reshape(image.shape[0], groups, image.shape[1] // groups, *image.shape[2:])


def _flat(image: Array, groups: int) -> tuple[int, ...]:
    return image.shape[0], groups, image.shape[1] // groups, math.prod(image.shape[2:])
