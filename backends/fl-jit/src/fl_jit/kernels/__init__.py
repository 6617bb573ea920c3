"""Kernel libraries of `jit`: the interface, and its values.

`jit` passes an operation descriptor (``descriptors.py``) to a kernel library (``library.py``). The
library returns a kernel that takes addresses, or reports that it has none. Without a kernel, `jit`
falls back on NumPy. A kernel library of another distribution needs no other names of fl-jit.
"""

from fl_jit.kernels.autotune import Tuner, tuner
from fl_jit.kernels.descriptors import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Epilogue,
    Matmul,
    OpDescriptor,
    Reorder,
    flops,
)
from fl_jit.kernels.layout import (
    Layout,
    Packed,
    Placement,
    any_layout,
    channels_last,
    dense,
    row_major,
)
from fl_jit.kernels.library import Kernel, KernelLibrary, KernelLibraryError, UnsupportedError
from fl_jit.kernels.registry import active_library

__all__ = [
    "ConvDataGrad",
    "ConvWeightGrad",
    "Convolution",
    "Epilogue",
    "Kernel",
    "KernelLibrary",
    "KernelLibraryError",
    "Layout",
    "Matmul",
    "OpDescriptor",
    "Packed",
    "Placement",
    "Reorder",
    "Tuner",
    "UnsupportedError",
    "active_library",
    "any_layout",
    "channels_last",
    "dense",
    "flops",
    "row_major",
    "tuner",
]
