"""``CupyBackend``: the operations of fl-tensor on CUDA devices. Importing it imports CuPy."""

from fl_cupy.tensors.backend import CupyBackend as CupyBackend
