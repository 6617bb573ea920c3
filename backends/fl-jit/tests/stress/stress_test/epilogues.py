"""What follows a product, by chance: a bias along columns, a scale, an activation, a residual, and
the value before the activation as a second result; and what these give, with more digits.

Numbers are computed with their sizes: by how much they may be off, in units of what is allowed of
a sum, to first order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fl_jit.kernels import Epilogue, Layout
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.layout import Shape
from stress_test.chance import ACTIVATIONS, Draw

Array = np.ndarray


def drawn(draw: Draw, out: Layout, order: Shape) -> Epilogue:
    """An epilogue of ``out``, whose axes are rows and columns in ``order``, the columns last."""
    assert out.strides is not None
    sizes = tuple(out.shape[axis] for axis in order)
    moves = [tuple(out.strides[axis] for axis in order)]
    build = Builder(len(sizes))
    value = build.input(out.dtype, _letters(sizes, moves[0]))

    def read(strides: Shape) -> int:
        moves.append(strides)
        return build.input(out.dtype, _letters(sizes, strides))

    def beside(output: bool) -> Shape:
        found: Shape = draw.layout(out.dtype, sizes, output=output).strides
        return found

    still = (0,) * (len(sizes) - 1)
    if draw.chance(0.6):
        value = build("add", value, read((*still, 1 + 2 * draw.chance(0.1))))
    if draw.chance(0.4):
        value = build("multiply", value, read((*still, 0)))
    before = value
    value = _activated(build, value, out, str(draw.one_of(ACTIVATIONS)))
    if draw.chance(0.4):
        value = build("add", value, read(beside(output=False)))
    if value == 0:
        value = _activated(build, value, out, "relu")
    moves.append(moves[0])
    moving = "s" * len(still)
    build.output(value, moving + ("c" if moves[0][-1] == 1 else "s"))
    if draw.chance(0.3):
        moves.append(beside(output=True))
        build.output(before, moving + ("c" if moves[-1][-1] == 1 else "s"))
    return Epilogue(build.program(), sizes, tuple(moves))


def _letters(sizes: Shape, strides: Shape) -> str:
    # How an operand moves, see fl_jit.kernels.codegen.program.
    found = ["." if not s or n == 1 else "s" for n, s in zip(sizes, strides, strict=True)]
    return "".join(found[:-1]) + ("c" if strides[-1] == 1 else found[-1])


def _activated(build: Builder, x: int, out: Layout, activation: str) -> int:
    def by(value: int, number: float) -> int:
        return build("multiply", value, build.constant(number, out.dtype))

    if not activation:
        return x
    if activation == "relu":
        return build("maximum", x, build.constant(0.0, out.dtype))
    if activation == "gelu":
        inner = build("erf", by(x, math.sqrt(0.5)))
    else:
        cube = by(build("multiply", build("multiply", x, x), x), 0.044715)
        inner = build("tanh", by(build("add", x, cube), math.sqrt(2 / math.pi)))
    return build("multiply", by(x, 0.5), build("add", inner, build.constant(1.0, out.dtype)))


# ---- with more digits ----------------------------------------------------------------------------


class Number(NamedTuple):
    """A value of each element, and its size."""

    value: Array
    size: Array


def _add(a: Number, b: Number) -> Number:
    return Number(a.value + b.value, np.hypot(a.size, b.size))


def _multiply(a: Number, b: Number) -> Number:
    size = np.hypot(a.size * np.abs(b.value), b.size * np.abs(a.value))
    return Number(a.value * b.value, size)


def _maximum(a: Number, b: Number) -> Number:
    return Number(np.maximum(a.value, b.value), np.where(a.value >= b.value, a.size, b.size))


def _erf(a: Number) -> Number:
    value = np.vectorize(math.erf, otypes=[float])(a.value)
    slope = 2 / math.sqrt(math.pi) * np.exp(-np.square(a.value))
    return Number(value, np.maximum(a.size * slope, np.abs(value)))


def _tanh(a: Number) -> Number:
    value = np.tanh(a.value)
    return Number(value, np.maximum(a.size * (1 - np.square(value)), np.abs(value)))


_OPERATIONS = {
    "add": _add,
    "multiply": _multiply,
    "maximum": _maximum,
    "erf": _erf,
    "tanh": _tanh,
}


def exact(follows: Epilogue, product: Number, reads: list[Array]) -> list[Number]:
    """The results of ``follows``, all operands over its axes."""
    operands = iter([product, *(Number(each, np.abs(each)) for each in reads)])
    found: list[Number] = []
    for op, given, parameter in follows.program.instructions:
        if op == "input":
            made = next(operands)
        elif op == "constant":
            made = Number(np.asarray(parameter[1]), np.asarray(abs(parameter[1])))
        else:
            made = _OPERATIONS[op](*(found[number] for number in given))
        found.append(made)
    return [found[output.value] for output in follows.program.outputs]
