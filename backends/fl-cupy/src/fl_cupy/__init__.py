"""CUDA devices for Flashlight, through CuPy: memory here, tensors in `fl_cupy.tensors`, the
communicator in `fl_cupy.nccl`.

CuPy is imported when a device is first used.
"""

from fl_cupy._version import __version__ as __version__
from fl_cupy.memory import CudaMemory as CudaMemory
