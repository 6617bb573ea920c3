from acme_backend import AcmeBackend
from fl_tensor.testing import TensorBackendSuite


class TestAcme(TensorBackendSuite):
    backend = AcmeBackend
