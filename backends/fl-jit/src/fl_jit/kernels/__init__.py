"""Kernel libraries of `jit`: GEMM, convolution, pooling and batch normalization.

`jit` passes an operation descriptor (``descriptors.py``) to a kernel library (``library.py``). The
library returns a kernel that takes addresses, or reports that it has none. Without a kernel, `jit`
falls back on NumPy.
"""

from fl_jit.kernels.descriptors import BatchNorm as BatchNorm
from fl_jit.kernels.descriptors import BatchNormGradient as BatchNormGradient
from fl_jit.kernels.descriptors import ConvDataGrad as ConvDataGrad
from fl_jit.kernels.descriptors import Convolution as Convolution
from fl_jit.kernels.descriptors import ConvWeightGrad as ConvWeightGrad
from fl_jit.kernels.descriptors import Epilogue as Epilogue
from fl_jit.kernels.descriptors import Matmul as Matmul
from fl_jit.kernels.descriptors import OpDescriptor as OpDescriptor
from fl_jit.kernels.descriptors import Pooling as Pooling
from fl_jit.kernels.descriptors import PoolingGradient as PoolingGradient
from fl_jit.kernels.descriptors import Reorder as Reorder
from fl_jit.kernels.layout import Layout as Layout
from fl_jit.kernels.layout import Packed as Packed
from fl_jit.kernels.layout import Placement as Placement
from fl_jit.kernels.layout import any_layout as any_layout
from fl_jit.kernels.layout import channels_last as channels_last
from fl_jit.kernels.layout import row_major as row_major
from fl_jit.kernels.library import Kernel as Kernel
from fl_jit.kernels.library import KernelLibrary as KernelLibrary
from fl_jit.kernels.library import KernelLibraryError as KernelLibraryError
from fl_jit.kernels.library import UnsupportedError as UnsupportedError
from fl_jit.kernels.registry import active_library as active_library
