"""``numpy``: the eager reference backend, in NumPy alone. Compact: the specification in code."""

from fl_tensor.backends.numpy import blas
from fl_tensor.backends.numpy.adapter import NumpyAdapter as NumpyAdapter
from fl_tensor.backends.numpy.backend import NumpyBackend as NumpyBackend

blas.register()
