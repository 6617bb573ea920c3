"""oneDNN as a kernel library of `jit`: a ctypes binding of its C interface, version 3.

``shared_library.py`` finds the shared library, and ``binding.py`` calls it.
``memory_descriptors.py`` and ``primitives.py`` turn layouts and operation descriptors into prepared
calls. ``matmul.py``, ``convolution.py`` and ``pointwise.py`` hold the kernels of each operation.
``library.py`` combines them: the entry point names its class ``OneDNN``.
"""

from onednn_kernels.library import OneDNN
from onednn_kernels.shared_library import load

__all__ = ["OneDNN", "load"]
