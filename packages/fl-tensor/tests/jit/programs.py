"""Programs on NumPy arrays: run by a kernel, and computed by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from fl_tensor.backends.jit.codegen.instructions import REDUCTIONS
from fl_tensor.backends.jit.codegen.kernel import Kernel
from fl_tensor.backends.jit.codegen.program import Program

from fl_tensor import dtypes
from fl_tensor.backends.numpy import elementary, philox
from fl_tensor.backends.numpy.adapter import TO_NUMPY

Array = np.ndarray
NUMPY = {
    "negative": np.negative,
    "absolute": np.abs,
    "bitwise_invert": np.invert,
    "round": np.rint,
    "add": np.add,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "atan2": np.arctan2,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "floor_divide": lambda x, y: (
        elementary.floor_divide(x, y) if x.dtype.kind == "f" else np.floor_divide(x, y)
    ),
}
FOLD = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def empty(program: Program, sizes: tuple[int, ...]) -> list[Array]:
    """Arrays for the outputs; where an output does not move, it has one element."""
    return [
        np.empty(_shape(axes, sizes), TO_NUMPY[program.values[value].dtype])
        for value, axes in program.outputs
    ]


def _shape(axes: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if letter == "." else n for letter, n in zip(axes, sizes))


def run(
    program: Program,
    inputs: list[Array],
    sizes: tuple[int, ...],
    scalars: tuple[Any, ...] = (),
    outputs: list[Array] | None = None,
    kernel: Kernel | None = None,
) -> list[Array]:
    """The outputs of a kernel. Inputs and outputs have as many axes as the space."""
    outputs = empty(program, sizes) if outputs is None else outputs
    arrays = [*inputs, *outputs]
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    addresses = [a.__array_interface__["data"][0] for a in arrays]
    (kernel or Kernel.of(program))(addresses, sizes, strides, scalars)
    return outputs


def computed(
    program: Program, inputs: list[Array], sizes: tuple[int, ...], scalars: tuple[Any, ...] = ()
) -> list[Array]:
    """The outputs by NumPy: floats in float64, rounded to its dtype after every instruction."""
    arrays, numbers = iter(inputs), iter(scalars)
    outer, row = tuple(range(program.outer)), tuple(range(program.outer, program.rank))
    extents = {"row": row, "column": outer, "all": outer + row}
    values: list[Array] = []
    for (op, operands, parameter), value in zip(program.instructions, program.values):
        wide = [_wide(values[i]) for i in operands]
        dtype = TO_NUMPY[value.dtype]
        ones = (1,) * program.rank
        with np.errstate(all="ignore"):
            if op == "input":
                found = next(arrays)
            elif op == "scalar":
                found = np.full(ones, next(numbers))
            elif op == "constant":
                found = np.full(ones, parameter[1])
            elif op == "index":
                found = np.arange(sizes[parameter]).reshape(
                    [n if axis == parameter else 1 for axis, n in enumerate(sizes)]
                )
            elif op == "random_bits":
                step, phase = parameter
                words = np.empty(math.prod(sizes) * step, np.uint32)
                seed, offset = (int(values[i].item()) for i in operands)
                philox.words(seed, offset, words)
                found = words[phase::step].view(np.int32).reshape(sizes)
            elif op in REDUCTIONS:
                full = _shape("".join("s" for _ in sizes), sizes)
                found = FOLD[op](np.broadcast_to(wide[0], full), extents[parameter], keepdims=True)
            elif op == "cast":
                found = wide[0]
                if found.dtype.kind == "f" and value.dtype.is_integer:
                    found = np.trunc(found).astype(np.int64)
                found = found != 0 if value.dtype is dtypes.bool else found
            elif op == "where":
                found = np.where(*wide)
            else:
                found = NUMPY.get(op, getattr(np, op, None))(*wide)
            values.append(np.asarray(found).astype(dtype))
    return [
        np.broadcast_to(values[value], _shape(axes, sizes)) for value, axes in program.outputs
    ]


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind not in "biu" else x
