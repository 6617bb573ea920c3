"""oneDNN kernel library: a ctypes binding of the C interface, version 3, on plain addresses.

``shared_library.py`` finds the shared library, and ``binding.py`` calls it. ``descriptors.py`` and
``primitives.py`` turn layouts and operation descriptors into prepared calls. Each family of
operations has a file of its own. ``library.py`` combines them.
"""

from fl_jit.kernels.onednn.library import OneDNN as OneDNN
from fl_jit.kernels.onednn.shared_library import load as load
