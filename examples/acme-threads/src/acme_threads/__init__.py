"""NumPy on several threads: a backend derived from ``fl_tensor.extend.numpy.NumpyBackend``."""

from acme_threads.backend import ThreadedBackend as ThreadedBackend
