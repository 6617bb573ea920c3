"""A tensor backend over PyTorch, written against the contract `tensor 1.0` and nothing else."""

from torch_backend.backend import TorchBackend as TorchBackend
from torch_backend.value import Value as Value
