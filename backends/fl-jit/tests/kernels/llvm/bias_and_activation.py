"""A bias and an activation after a product or a convolution, as an epilogue."""

from __future__ import annotations

import math

from fl_jit.kernels import Epilogue, Layout, Matmul
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.layout import dense


def followed(descriptor, bias=None, activation=""):
    """``descriptor`` with the epilogue ``activation(result + bias)``. ``bias`` is a layout: of the
    rank of a product, or of the channels of an image. Addresses: x, y[, bias], out."""
    out, rank = _by_strides(descriptor.out), len(descriptor.out.shape)
    order = tuple(range(rank)) if isinstance(descriptor, Matmul) else (0, *range(2, rank), 1)
    rows = _ordered(out, order)
    beside = None
    if bias is not None:
        found = _by_strides(bias)
        if isinstance(descriptor, Matmul):
            beside = _ordered(_spread(found, out.shape), order)
        else:
            beside = Layout(found.dtype, rows.shape, (0,) * (rank - 1) + found.strides)
    return descriptor._replace(epilogue=common(rows, beside, activation))


def common(out, bias, activation):
    """``activation(out + bias)`` over the axes of ``out``, columns last."""
    given = [each for each in (out, bias) if each is not None]
    sizes, moves = _joined(out.shape, [each.strides or () for each in given])
    build = Builder(len(sizes))
    value = build.input(out.dtype, _letters(sizes, moves[0]))
    if bias is not None:
        beside = build.input(bias.dtype, _letters(sizes, moves[1]))
        if bias.dtype is not out.dtype:
            beside = build.cast(beside, out.dtype)
        value = build("add", value, beside)
    value = _activated(build, value, activation, out)
    build.output(value, _all_moving(moves[0]))
    return Epilogue(build.program(), sizes, (*moves, moves[0]))


def _activated(build, x, activation, out):
    def constant(value):
        return build.constant(value, out.dtype)

    if not activation:
        return x
    if activation == "relu":
        return build("maximum", x, constant(0.0))
    if activation == "tanh":
        return build("tanh", x)
    if activation == "sigmoid":  # a form without overflow
        above = build("exp", build("minimum", x, constant(0.0)))
        below = build("exp", build("negative", build("absolute", x)))
        return build("divide", above, build("add", constant(1.0), below))
    if activation == "gelu":  # x Phi(x), Hendrycks & Gimpel, arXiv:1606.08415
        inner = build("erf", build("multiply", x, constant(math.sqrt(0.5))))
    else:  # the tanh approximation of the same paper
        cube = build("multiply", build("multiply", x, x), x)
        inner = build("add", x, build("multiply", cube, constant(0.044715)))
        inner = build("tanh", build("multiply", inner, constant(math.sqrt(2 / math.pi))))
    half = build("multiply", x, constant(0.5))
    return build("multiply", half, build("add", inner, constant(1.0)))


def _by_strides(given):
    if given.strides is None:
        return Layout(given.dtype, given.shape, dense(given.shape, tuple(range(len(given.shape)))))
    return given


def _ordered(given, order):
    shape, strides = given.shape, given.strides
    return Layout(given.dtype, tuple(shape[a] for a in order), tuple(strides[a] for a in order))


def _spread(given, shape):
    moves = zip(given.shape, given.strides, strict=True)
    return Layout(given.dtype, shape, tuple(0 if n == 1 else s for n, s in moves))


def _joined(sizes, strides):
    # Merges outer axes where all operands have compatible strides.
    joined = [sizes[-2]] if len(sizes) > 1 else [1]
    moves = [[s[-2]] if len(sizes) > 1 else [0] for s in strides]
    for axis in range(len(sizes) - 3, -1, -1):
        if all(s[axis] == m[0] * joined[0] for s, m in zip(strides, moves, strict=True)):
            joined[0] *= sizes[axis]
            continue
        joined.insert(0, sizes[axis])
        for s, m in zip(strides, moves, strict=True):
            m.insert(0, s[axis])
    last = [s[-1] for s in strides]
    return (*joined, sizes[-1]), tuple((*m, s) for m, s in zip(moves, last, strict=True))


def _letters(sizes, strides):
    found = ["." if not s or n == 1 else "s" for n, s in zip(sizes, strides, strict=True)]
    return "".join(found[:-1]) + ("c" if strides[-1] == 1 else found[-1])


def _all_moving(strides):
    return "s" * (len(strides) - 1) + ("c" if strides[-1] == 1 else "s")
