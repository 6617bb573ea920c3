"""``numpy``: the eager reference backend. Compact: the specification in code."""

from fl_tensor.backends.numpy import blas

blas.import_numpy()  # before anything below does
blas.register()

from fl_tensor.backends.numpy.adapter import NumpyAdapter as NumpyAdapter  # noqa: E402
from fl_tensor.backends.numpy.backend import NumpyBackend as NumpyBackend  # noqa: E402
