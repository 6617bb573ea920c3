"""Problems by chance: sizes around those of tiles and far from them, every order of axes, gaps,
negative strides, all that a problem can ask for."""

from __future__ import annotations

import math

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Layout,
    Matmul,
    OpDescriptor,
    any_layout,
)
from fl_jit.kernels.layout import Placement, Shape
from fl_tensor.dtypes import bfloat16, float16, float32
from stress_test import epilogues
from stress_test.chance import Draw

#: Multiplications of a problem at most, and of most of them.
MOST_WORK, USUAL_WORK = 30_000_000, 600_000
KINDS = ("gemm", "convolution")
#: Part of the problems that an epilogue follows.
FOLLOWED = 0.45


def descriptor(kind: str, seed: int, number: int) -> OpDescriptor:
    """Problem ``number`` of a kind."""
    draw = Draw(seed, number)
    made: OpDescriptor = _matmul(draw) if kind == "gemm" else _convolution(draw)
    return made


def _matmul(draw: Draw) -> Matmul:
    dtype = draw.dtype()
    budget = MOST_WORK if draw.chance(0.03) else USUAL_WORK
    batch = tuple(
        draw.size(6, zero=0.01) for _ in range(int(draw.rng.choice(4, p=(0.6, 0.25, 0.1, 0.05))))
    )
    m, k, n = (draw.size(900, zero=0.01) for _ in range(3))
    while math.prod(batch) * m * k * n > budget:
        m, k, n = (max(1, int(size * draw.rng.uniform(0.4, 1))) for size in (m, k, n))
    spread = [draw.rng.integers(3) for _ in batch]  # broadcast in x, in y, in neither
    x_batch = tuple(1 if how == 0 else size for how, size in zip(spread, batch))
    y_batch = tuple(1 if how == 1 else size for how, size in zip(spread, batch))
    axes = tuple(range(len(batch)))
    transposed = (*axes, len(axes) + 1, len(axes))
    wide = float32 if dtype in (float16, bfloat16) and draw.chance(0.5) else dtype
    x = draw.layout(dtype, (*x_batch, m, k), transposed)
    y: Placement = draw.layout(dtype, (*y_batch, k, n), transposed)
    if draw.chance(0.1):
        y = any_layout(dtype, (*y_batch, k, n))
    out = draw.layout(wide, (*batch, m, n), transposed if draw.chance(0.3) else (), output=True)
    made = Matmul(x, y, out, accumulate=draw.chance(0.25))
    if not draw.chance(FOLLOWED):
        return made
    follows = epilogues.drawn(draw, out, tuple(range(len(out.shape))))
    return made._replace(epilogue=follows)


def _convolution(draw: Draw) -> OpDescriptor:
    dtype = draw.dtype()
    spatial = int(draw.rng.choice((1, 2, 3), p=(0.2, 0.65, 0.15)))
    budget = MOST_WORK if draw.chance(0.03) else USUAL_WORK
    groups = draw.size(12) if draw.chance(0.3) else 1
    channels, features = (groups * draw.size(300 // groups) for _ in range(2))
    if draw.chance(0.2):  # depthwise, with a multiplier
        groups = channels
        features = channels * int(draw.rng.choice((1, 1, 2, 3)))
    batch = draw.size(9, zero=0.01)
    kernel = tuple(draw.size(7) for _ in range(spatial))
    if draw.chance(0.3):
        kernel = (1,) * spatial
    stride, dilation = (
        tuple(int(n) for n in draw.rng.choice((1, 2, 3, 4), spatial, p=(0.7, 0.2, 0.07, 0.03)))
        for _ in range(2)
    )
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation))
    padding = tuple(
        tuple(int(n) for n in draw.rng.integers(0, r + 1, 2)) if draw.chance(0.6) else (0, 0)
        for r in reach
    )
    if draw.chance(0.02):  # cropped
        padding = tuple((low - 2, high - 1) for low, high in padding)
    if draw.chance(0.4):  # as models have it
        padding = tuple((r // 2, r // 2) for r in reach)
    out_size = tuple(draw.size(40) for _ in range(spatial))
    while batch * math.prod(out_size) * features * channels // groups * math.prod(kernel) > budget:
        out_size = tuple(max(1, int(n * draw.rng.uniform(0.5, 1))) for n in out_size)
        batch = max(1, batch - 1)
        if math.prod(out_size) < 9:
            channels = groups * max(1, channels // groups * 2 // 3)
            features = groups * max(1, features // groups * 2 // 3)
            if channels == groups and features == groups:
                groups = channels = features = max(1, groups // 2)
    smallest = 0 if draw.chance(0.05) else 1
    size = tuple(
        max((n - 1) * s + r - low - high + int(draw.rng.integers(s)), smallest)
        for n, s, r, (low, high) in zip(out_size, stride, reach, padding)
    )
    found = tuple(
        (n + low + high - r) // s + 1 for n, s, r, (low, high) in zip(size, stride, reach, padding)
    )
    x_shape, out_shape = (batch, channels, *size), (batch, features, *found)
    w_shape: Shape = (features, channels // groups, *kernel)
    last = (0, *range(2, spatial + 2), 1)
    wide = float32 if dtype in (float16, bfloat16) and draw.chance(0.3) else dtype
    if groups > 1 and draw.chance(0.3):
        w_shape = (groups, features // groups, *w_shape[1:])
    which = int(draw.rng.integers(3))

    def image(shape: Shape, output: bool = False) -> Layout:
        return draw.layout(
            wide if output else dtype, shape, last if draw.chance(0.9) else (), output
        )

    def weights(output: bool = False) -> Placement:
        w_dtype = wide if output else dtype
        if draw.chance(0.2):
            return any_layout(w_dtype, w_shape)
        return draw.layout(w_dtype, w_shape, (), output)

    rest = (stride, padding, dilation, groups)
    if which == 0:
        images = image(x_shape), weights(), image(out_shape, output=True)
        made = Convolution(*images, *rest)
        if not draw.chance(FOLLOWED):
            return made
        follows = epilogues.drawn(draw, made.out, last)
        return made._replace(epilogue=follows)
    if which == 1:
        images = image(out_shape), weights(), image(x_shape, output=True)
        gradient = ConvDataGrad(*images, *rest)
        # With strides a line has phases, which nothing is computed with as they come.
        if max(stride) > 1 or not draw.chance(FOLLOWED):
            return gradient
        return gradient._replace(epilogue=epilogues.drawn(draw, gradient.out, last))
    bias = Layout(wide, (features,), (1,)) if draw.chance(0.3) else None
    return ConvWeightGrad(image(x_shape), image(out_shape), weights(output=True), *rest, bias)
