"""CUDA devices for Flashlight, through CuPy: at present their memory.

CuPy is imported when a device is first used.
"""

from fl_cupy._version import __version__ as __version__
from fl_cupy.memory import CudaMemory as CudaMemory
