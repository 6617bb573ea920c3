"""oneDNN, bound by ctypes: its C interface of version 3, on plain addresses.

``library.py`` finds it, ``binding.py`` calls it, ``descriptors.py`` and ``primitives.py`` turn
layouts and problems into prepared calls; then one file per family of problems.
"""

from fl_jit.kernels.onednn.library import OneDNN as OneDNN
from fl_jit.kernels.onednn.shared_library import load as load
