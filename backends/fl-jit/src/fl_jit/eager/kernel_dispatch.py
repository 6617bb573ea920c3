"""Dispatch of contractions to a kernel library, where the work is large enough for a call.

``dispatch`` is the eager path. The steps of a plan hold their kernel (``steps.bound_kernel``), and
share the thresholds and ``launch``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fl_jit.eager import blas
from fl_jit.eager.array_layouts import address, layout
from fl_jit.eager.kernel_calls import ConvParameters, View, kernel_call
from fl_jit.eager.views import strided
from fl_jit.kernels import registry
from fl_jit.kernels.layout import Layout, row_major
from fl_jit.kernels.library import Kernel, KernelLibrary
from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.extend.numpy import FROM_NUMPY, memory

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]

#: Up to this many multiplications run in NumPy. There its BLAS stays in one thread, and the call
#: overhead of a kernel library would be noticeable. In float64 BLAS is no slower than a library, so
#: the overhead is noticeable up to larger sizes.
LEAST_WORK: dict[DType, int] = {
    dtypes.float32: 1 << 18,
    dtypes.float64: 1 << 21,
    dtypes.bfloat16: 1 << 18,
    dtypes.float16: 1 << 18,
}


def is_large(op: str, x: Shape, y: Shape, out: Shape, dtype: DType, every: bool = False) -> bool:
    """Whether a contraction of operands with these shapes goes to a kernel library. Integers never
    do, nor do convolutions over more than three spatial axes. BLAS is faster at float64 times a
    single row or column (measured: 1.1 to 1.5 times, in cache). ``every``: of any size."""
    least = LEAST_WORK.get(dtype)
    if least is None or 0 in x:
        return False
    if op == "matmul":
        work = math.prod(out) * x[-1]
        if dtype is dtypes.float64 and 1 in out[-2:]:
            work = min(work, least)
    elif 3 <= len(out) <= 5:
        # Every position of ``images`` takes all weights once; zeros of a dilated one are counted.
        images, weights = (x, out) if op == "conv_weight_gradient" else (out, y)
        work = math.prod(images[:1] + images[2:]) * math.prod(weights)
    else:
        return False
    return work > least or (work > 0 and (every or registry.is_for_everything()))


def depends_on_data(op: str, gradient: Shape, dtype: DType) -> bool:
    """Whether the elements decide if a kernel may compute: NaN might spread to elements of a wgrad
    that should have none (``ConvWeightGrad``)."""
    return op == "conv_weight_gradient" and dtype is dtypes.bfloat16 and gradient[-1] % 2 == 1


def dispatch(
    op: str, x: Array, y: Array, shape: Shape, parameters: ConvParameters | None = None
) -> Array | None:
    """The result of a contraction, of that shape, by the active kernel library. None where NumPy is
    to compute: no library, a dtype that it does not support, or an unsupported descriptor.

    ``parameters`` as for ``kernel_call``. Call it where ``is_large``.
    """
    library, dtype = registry.active_library(), FROM_NUMPY[x.dtype]
    if library is None or x.dtype != y.dtype:
        return None
    if depends_on_data(op, x.shape, dtype) and not _is_finite(y):
        return None
    call = kernel_call(op, layout(x), layout(y), row_major(dtype, shape), parameters)
    kernel = None if call is None else library.find(call.descriptor)
    if call is None or kernel is None:
        return None
    out, held, addresses = memory.empty(shape, x.dtype), [], []
    for view in call.views:
        array, offset = (x, y)[view.operand], view.offset
        if view.copies:
            array, offset = copy_of(view, array, offset), 0
            held.append(array)
        addresses.append(address(array) + offset * array.itemsize)
    launch(library.serving(call.descriptor), kernel, [*addresses, address(out)])
    return out


def copy_of(view: View, array: Array, offset: int) -> Array:
    """A copy of a view in C order; its first element is the one at ``offset`` in the memory of
    ``array``."""
    assert isinstance(view.layout, Layout) and view.layout.strides is not None
    part = strided(array, array.dtype, offset, view.layout.shape, view.layout.strides)
    return memory.cast(part, array.dtype)


def launch(library: KernelLibrary, kernel: Kernel, addresses: Sequence[int]) -> None:
    """Run a kernel of ``library`` on operands at these addresses."""
    blas.yield_to_openmp()
    for watch in registry.watchers:
        watch(library, kernel)
    kernel(*addresses)


def _is_finite(x: Array) -> bool:
    # For bfloat16: the exponent follows the sign, and is all ones in non-finite numbers.
    return int(np.max(x.view(np.uint16) & 0x7FFF)) < 0x7F80
