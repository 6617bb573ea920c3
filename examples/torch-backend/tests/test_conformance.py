from fl_tensor.testing import TensorBackendSuite
from torch_backend import TorchBackend


class TestTorch(TensorBackendSuite):
    backend = TorchBackend
