"""``CupyBackend``: the operations of fl-tensor on CUDA devices. Importing it imports CuPy."""

try:
    import cupy as _cupy  # noqa: F401
except ImportError as error:
    message = f"it needs CuPy ({error}); install fl-cupy[cuda12] or fl-cupy[cuda13]"
    raise ImportError(message) from error

from fl_cupy.tensors.backend import CupyBackend as CupyBackend
