from acme_threads import ThreadedBackend
from fl_tensor.testing import TensorBackendSuite


class TestThreads(TensorBackendSuite):
    backend = ThreadedBackend(smallest=1)  # the arrays of the kit are small
