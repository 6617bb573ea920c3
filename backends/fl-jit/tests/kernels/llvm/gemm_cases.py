"""Products of arrays as they lie, and how near they are to those of float64."""

from __future__ import annotations

import numpy as np

from fl_jit.kernels import Layout, Matmul
from fl_tensor.dtypes import dtype

#: Relative to the largest element, for sums of a few hundred products.
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3}
ORDERS = ("rows", "columns", "steps")


def lay(array):
    strides = tuple(step // array.itemsize for step in array.strides)
    return Layout(dtype(array.dtype.name), array.shape, strides)


def run(library, descriptor, *arrays):
    kernel = library.find(descriptor)
    assert kernel is not None, library.why_not(descriptor)
    kernel(*(array.ctypes.data for array in arrays))
    return kernel


def check(library, x, y, out, accumulate=False, tolerance=None):
    expected = x.astype(float) @ y.astype(float) + (out.astype(float) if accumulate else 0)
    run(library, Matmul(lay(x), lay(y), lay(out), accumulate=accumulate), x, y, out)
    error = np.abs(out - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30)
    assert error <= (tolerance or TOLERANCE[out.dtype.name])


def matrix(rng, shape, order, kind="float32"):
    """Rows or columns side by side, or neither; part of a larger array, whose rest is NaN."""
    *batch, m, n = shape
    if order == "columns":
        return matrix(rng, (*batch, n, m), "rows", kind).swapaxes(-1, -2)
    step = 2 if order == "steps" else 1
    whole = np.full((*batch, step * m + 1, step * n + 3), np.nan, kind)
    part = whole[..., : step * m : step, : step * n : step]
    part[...] = rng.standard_normal(shape)
    return part
