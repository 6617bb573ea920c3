"""The cases of `contractions.py` as descriptors for kernel libraries, in NumPy's memory.

Images have channels last, for all libraries. Weights, and B of a GEMM, have the layout that the
library prefers, if ``packed`` and if there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cases import contractions
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Kernel,
    KernelLibrary,
    Layout,
    Matmul,
    OpDescriptor,
    Packed,
    Placement,
    Reorder,
    any_layout,
    channels_last,
    dense,
    row_major,
)
from fl_tensor.dtypes import DType

#: Of products that have it, the second factor lies transposed.
TRANSPOSED = ("bmm-48x197x64x197",)
_ALIGNMENT = 64


def descriptor_of(case: str, dtype: DType, packed: bool) -> OpDescriptor:
    """A case with operands and a result of ``dtype``."""
    layout_of = any_layout if packed else row_major
    if case in contractions.PRODUCTS:
        x, y = contractions.PRODUCTS[case]
        factor = layout_of(dtype, y)
        if case in TRANSPOSED and not packed:
            axes = range(len(y))
            factor = Layout(dtype, y, dense(y, (*axes[:-2], axes[-1], axes[-2])))
        return Matmul(row_major(dtype, x), factor, row_major(dtype, (*x[:-1], y[-1])))
    passes = contractions.convolutions() | contractions.grouped()
    which, x, w, out, stride, padding, groups, _ = passes[case]
    rest = (stride,) * 2, ((padding, padding),) * 2, (1, 1), groups
    if which == "forward":
        images = channels_last(dtype, x), layout_of(dtype, w), channels_last(dtype, out)
        return Convolution(*images, *rest)
    if which == "data":
        images = channels_last(dtype, out), layout_of(dtype, w), channels_last(dtype, x)
        return ConvDataGrad(*images, *rest)
    images = channels_last(dtype, x), channels_last(dtype, out), layout_of(dtype, w)
    return ConvWeightGrad(*images, *rest)


class Prepared(NamedTuple):
    """A kernel with its operands, the last of which is the result."""

    library: KernelLibrary
    kernel: Kernel
    memory: list[np.ndarray]
    addresses: list[int]

    def __call__(self) -> None:
        self.kernel(*self.addresses)

    @property
    def packed(self) -> bool:
        """Whether an operand is in a layout of the library's own."""
        return any(isinstance(operand, Packed) for operand in self.kernel.operands)

    def result(self) -> np.ndarray:
        """The elements of the result, row-major."""
        layout = self.kernel.operands[-1]
        plain = row_major(layout.dtype, layout.shape)
        return _numbers(plain, _reordered(self.library, self.memory[-1], layout, plain))


def prepare(library: KernelLibrary, case: str, dtype: DType, packed: bool) -> Prepared | str:
    """A case for a library, with numbers that are the same for all; else why there is none."""
    descriptor = descriptor_of(case, dtype, packed)
    kernel = library.find(descriptor)
    if kernel is None and packed:
        return prepare(library, case, dtype, packed=False)
    if kernel is None:
        return library.why_not(descriptor)
    rng = np.random.default_rng(0)
    memory = []
    for layout in kernel.operands[:-1]:
        plain = row_major(layout.dtype, layout.shape)
        values = rng.standard_normal(plain.shape, dtype=np.float32)
        memory.append(_reordered(library, _bytes_of(values, plain.dtype), plain, layout))
    memory.append(_aligned(kernel.operands[-1].nbytes))
    return Prepared(library, kernel, memory, [x.ctypes.data for x in memory])


def _reordered(
    library: KernelLibrary, memory: np.ndarray, given: Placement, wanted: Placement
) -> np.ndarray:
    # Bytes in another layout.
    made = _aligned(wanted.nbytes)
    if isinstance(given, Layout) and isinstance(wanted, Layout):
        _view(made, wanted)[...] = _view(memory, given)
    else:
        kernel = library.find(Reorder(given, wanted))
        if kernel is None:
            raise SystemExit(f"{library.name}: {library.why_not(Reorder(given, wanted))}")
        kernel(memory.ctypes.data, made.ctypes.data)
    return made


def _aligned(nbytes: int) -> np.ndarray:
    buffer = np.zeros(nbytes + _ALIGNMENT, np.uint8)
    return buffer[-buffer.ctypes.data % _ALIGNMENT :][:nbytes]


def _view(memory: np.ndarray, layout: Layout) -> np.ndarray:
    words = memory.view(f"u{layout.dtype.itemsize}")
    assert layout.strides is not None
    strides = [step * layout.dtype.itemsize for step in layout.strides]
    return np.lib.stride_tricks.as_strided(words, layout.shape, strides)


def _bytes_of(values: Any, dtype: DType) -> np.ndarray:
    if str(dtype) == "bfloat16":  # truncated: NumPy has no such dtype
        made = (values.view(np.uint32) >> 16).astype(np.uint16)
    else:
        made = values.astype(str(dtype))
    return made.reshape(-1).view(np.uint8)


def _numbers(layout: Layout, memory: np.ndarray) -> np.ndarray:
    if str(layout.dtype) == "bfloat16":
        wide = memory.view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(layout.shape)
    return memory.view(str(layout.dtype)).reshape(layout.shape)
