"""Programs on NumPy arrays: run by a kernel, and computed by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fl_jit.kernels.codegen.instructions import REDUCTIONS
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Program
from fl_tensor import dtypes
from fl_tensor.backends.numpy import philox
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
    "floor_divide": np.floor_divide,
}
FOLD = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def empty(program: Program, sizes: tuple[int, ...]) -> list[Array]:
    """Arrays for the outputs; where an output does not move, it has one element."""
    return [
        np.empty(_shape(axes, sizes), TO_NUMPY[program.values[value].dtype])
        for value, axes, _ in program.outputs
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
    """The outputs of a kernel. Inputs and outputs have as many axes as the space; those that an
    index walks through have that axis after the others."""
    outputs = empty(program, sizes) if outputs is None else outputs
    arrays = [*inputs, *outputs]
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    strides = [s if a.ndim == program.rank else (*s, a.shape[-1]) for s, a in zip(strides, arrays)]
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
            elif op == "gather":
                table = next(arrays)
                shape = np.broadcast_shapes(table.shape[:-1], wide[0].shape)
                table = np.broadcast_to(table, (*shape, table.shape[-1]))
                found = np.take_along_axis(table, np.broadcast_to(wide[0], shape)[..., None], -1)
                found = found[..., 0]
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
        np.broadcast_to(values[value], _shape(axes, sizes)) for value, axes, _ in program.outputs
    ]


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind not in "biu" else x


def numbers(
    dtype: dtypes.DType,
    rng: np.random.Generator | None,
    shape: tuple[int, ...] = (),
    values: Any = None,
) -> Array:
    """``values`` in ``dtype``, or random ones: bools, integers of one digit, floats around 0."""
    if rng is not None and dtype.kind == "b":
        values = rng.integers(0, 2, shape)
    elif rng is not None and dtype.is_integer:
        values = rng.integers(0 if dtype.kind == "u" else -9, 10, shape)
    elif rng is not None:
        values = 2 * rng.standard_normal(shape)
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(TO_NUMPY[dtype])


def check(
    program: Program,
    inputs: list[Array],
    sizes: tuple[int, ...],
    scalars: tuple[Any, ...] = (),
    eps: float = 0,
    scale: float = 0.0,
    kernel: Kernel | None = None,
) -> None:
    """A kernel's outputs are NumPy's, floats to ``eps`` units of the dtype's epsilon relative to
    the larger of the number and ``scale``."""
    found = run(program, inputs, sizes, scalars, kernel=kernel)
    wanted = computed(program, inputs, sizes, scalars)
    for output, got, want in zip(program.outputs, found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        about = f"{program.instructions[output.value]} in\n{program}"
        if not eps or got.dtype.kind in "biu":
            np.testing.assert_array_equal(_wide(got), _wide(want), err_msg=about)
            continue
        unit = eps * float(_info(got.dtype).eps)
        np.testing.assert_allclose(
            _wide(got), _wide(want), rtol=unit, atol=unit * scale + 1e-37, err_msg=about
        )


def _info(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)
