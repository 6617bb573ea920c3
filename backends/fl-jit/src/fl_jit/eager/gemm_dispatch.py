"""Dispatch of GEMMs to a kernel library, where the work is large enough for a call.

A kernel library is queried in the dtype of the operands. Each function returns None where NumPy is
to compute: no library, a non-floating dtype, little work, or an unsupported descriptor. GEMMs of
half precision are then requested in float32, their accumulation dtype.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_jit.eager import blas, dispatch_recorder
from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.kernels import registry
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, Epilogue, Matmul, OpDescriptor
from fl_jit.kernels.layout import Layout
from fl_jit.kernels.library import Kernel, KernelLibrary
from fl_jit.kernels.post_ops import PostOp
from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.extend.numpy import FROM_NUMPY, TO_NUMPY, memory

Array: TypeAlias = np.ndarray[Any, Any]

#: Up to this many multiplications run in NumPy. There its BLAS stays in one thread, and the call
#: overhead of a kernel library would be noticeable. In float64 BLAS is no slower than a library, so
#: the overhead is noticeable up to larger sizes.
LEAST_WORK: dict[DType, int] = {
    dtypes.float32: 1 << 18,
    dtypes.float64: 1 << 21,
    dtypes.bfloat16: 1 << 18,
    dtypes.float16: 1 << 18,
}
_LITTLE = min(LEAST_WORK.values())  # in any dtype

#: Descriptors that may have an epilogue.
FOLLOWED = (Matmul, Convolution, ConvDataGrad)
_FLOAT32 = np.dtype(np.float32)
_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class EpilogueRequest(NamedTuple):
    """The epilogue of a GEMM.

    epilogue    its descriptor
    addresses   returns the addresses that it reads and writes beside the result; called at most
                once, right before the kernel
    named       returns the post-op with these numbers, for libraries that run no programs; None:
                such libraries are not queried
    """

    epilogue: Epilogue
    addresses: Callable[[], tuple[list[int], list[int]]]
    named: Callable[[], PostOp | None]


def is_worth(work: int, dtype: DType) -> bool:
    """Whether this many multiplications go to a kernel library. Integers never do."""
    least = LEAST_WORK.get(dtype)
    if least is None or work == 0:
        return False
    return work > least or registry.is_for_everything()


def is_little(work: int) -> bool:
    """Whether this many multiplications go to no kernel library, in any dtype. A fast test: a
    microsecond more would be noticeable."""
    return work <= _LITTLE and not registry.is_for_everything()


def is_product_worth(shape: tuple[int, ...], terms: int, dtype: DType) -> bool:
    """As ``is_worth``, for a GEMM of that result shape with ``terms`` as its K dimension. BLAS is
    faster at float64 times a single row or column (measured: 1.1 to 1.5 times, in cache)."""
    if dtype is dtypes.float64 and 1 in shape[-2:] and not registry.is_for_everything():
        return False
    return is_worth(math.prod(shape) * terms, dtype)


def layout(a: Array) -> Layout:
    """The layout of an array."""
    dtype, item = FROM_NUMPY[a.dtype], a.itemsize
    return Layout(dtype, a.shape, tuple([step // item for step in a.strides]))


def address(a: Array) -> int:
    """The address of the first element. NumPy's own attributes take a microsecond, a buffer a third
    of that."""
    flags = a.flags
    try:
        if flags.carray:
            return _addressof(_from_buffer(a))
        if flags.f_contiguous and flags.writeable:
            return _addressof(_from_buffer(a.T))
    except ValueError:  # bfloat16 has no buffer format
        pass
    return int(a.__array_interface__["data"][0])


def compute(
    library: KernelLibrary,
    descriptor: OpDescriptor,
    *arrays: Array,
    follow: EpilogueRequest | None = None,
) -> bool:
    """Compute in the memory of the arrays, the result last. False where the library does not
    support the descriptor or its epilogue."""
    if follow is not None:
        if not isinstance(descriptor, FOLLOWED):
            return False
        descriptor = descriptor._replace(epilogue=follow.epilogue)
    places = [address(a) for a in arrays]
    if not launch(library, descriptor, places, follow):
        return False
    dispatch_recorder.note(descriptor, arrays)
    return True


def launch(
    library: KernelLibrary,
    descriptor: OpDescriptor,
    places: Sequence[int],
    follow: EpilogueRequest | None = None,
) -> bool:
    """As ``compute``, given the addresses of the descriptor's own operands, the result last, and
    the arguments of its epilogue."""
    if follow is not None:
        return _followed(library, descriptor, places, follow)
    kernel = library.find(descriptor)
    if kernel is None:
        return False
    _begin(library, descriptor, kernel)
    kernel(*places)
    return True


def _begin(library: KernelLibrary, descriptor: OpDescriptor, kernel: Kernel) -> None:
    blas.yield_to_openmp()
    for watch in registry.watchers:
        watch(library.serving(descriptor), kernel)


def _followed(
    library: KernelLibrary, descriptor: OpDescriptor, places: Sequence[int], follow: EpilogueRequest
) -> bool:
    # A library with epilogues gets the program, another one a post-op.
    for each in library.libraries:
        name, request = None, descriptor
        if not each.has_epilogues:
            if not isinstance(descriptor, Matmul | Convolution):
                continue
            name = follow.named()
            if name is None or name.activation not in each.activations:
                continue
            request = name.with_post_ops(descriptor)
        kernel = each.find(request)
        if kernel is None:
            continue
        _begin(each, request, kernel)
        reads, writes = follow.addresses()
        reads = reads if name is None else name.taken(reads)
        kernel(*places[:-1], *reads, places[-1], *writes)
        return True
    return False


def one(number: Any, dtype: DType) -> Array:
    """``number`` as an array, which has an address. An array is returned unchanged."""
    if isinstance(number, np.ndarray):
        return number
    return np.array(number, TO_NUMPY[dtype])


def empty(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None
) -> Array:
    """An uninitialised array whose axes have the memory order ``order``, slowest first."""
    if order is None:
        return memory.empty(shape, dtype)
    made = memory.empty(tuple([shape[axis] for axis in order]), dtype)
    return made.transpose([order.index(axis) for axis in range(len(order))])


def laid(a: Array, order: tuple[int, ...] | None) -> Array:
    """``a``, copied if its axes do not have the memory order ``order``."""
    if order is None:
        return forwards(a)
    found = a.transpose(order)
    if found.flags.c_contiguous:
        return a
    return memory.cast(found, a.dtype).transpose([order.index(axis) for axis in range(a.ndim)])


def forwards(a: Array) -> Array:
    """``a``, copied if an axis has a negative stride or repeats elements."""
    if min(a.strides, default=1) > 0:
        return a
    ahead = all(step > 0 or n == 1 for step, n in zip(a.strides, a.shape))
    return a if ahead else memory.cast(a, a.dtype)


def matmul(
    x: Array,
    y: Array | PrepackedArray,
    shape: tuple[int, ...],
    out: Array | None = None,
    follow: EpilogueRequest | None = None,
) -> Array | None:
    """x (..., m, k) times y (..., k, n), of that shape: in ``out`` if given, with the epilogue
    ``follow``."""
    if is_little(math.prod(shape) * x.shape[-1]):
        return None
    policy = is_product_worth(shape, x.shape[-1], FROM_NUMPY[x.dtype])
    library = registry.active_library() if policy and x.dtype == y.dtype else None
    if library is None:
        return None
    out = memory.empty(shape, x.dtype) if out is None else out
    result = out
    whole = x.flags.c_contiguous and out.flags.c_contiguous
    if x.ndim > 2 and len(y.shape) == 2 and whole:  # one GEMM with more rows
        x, result = x.reshape(-1, x.shape[-1]), out.reshape(-1, shape[-1])
    x = _matrices(x)
    if isinstance(y, PrepackedArray):
        descriptor = Matmul(layout(x), y.layout, layout(result))
        if x.ndim > 2 or not compute(library, descriptor, x, y.memory, result, follow=follow):
            return None
        return out
    y = _matrices(y)
    if x.ndim != y.ndim:
        x, y = _aligned(x, result.ndim), _aligned(y, result.ndim)
    descriptor = Matmul(layout(x), layout(y), layout(result))
    return out if compute(library, descriptor, x, y, result, follow=follow) else None


def _matrices(a: Array) -> Array:
    # Repeated batches become one that broadcasts. Rows or columns have to be contiguous.
    if a.flags.c_contiguous or (a.ndim == 2 and a.flags.f_contiguous):
        return a
    repeated = tuple(slice(0, 1) if step == 0 else slice(None) for step in a.strides[:-2])
    a = a[repeated]
    item = a.itemsize
    (down, along), (m, n) = a.strides[-2:], a.shape[-2:]
    rows = (along == item or n == 1) and (down >= n * item or m == 1)
    columns = (down == item or m == 1) and (along >= m * item or n == 1)
    return forwards(a) if rows or columns else memory.cast(a, a.dtype)


def _aligned(a: Array, ndim: int) -> Array:
    return a.reshape((1,) * (ndim - a.ndim) + a.shape)


def float32_provider(work: int, least: int, *operands: Array) -> KernelLibrary | None:
    """The library for more work than ``least``, where all operands are float32."""
    if work <= least and (work == 0 or not registry.is_for_everything()):
        return None
    return registry.active_library() if all(a.dtype == _FLOAT32 for a in operands) else None
