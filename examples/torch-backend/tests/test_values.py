"""What the conformance kit leaves to a backend: how it gets on with PyTorch itself, and sizes and
ranks at which this one takes another way."""

from pathlib import Path

import torch

import fl_tensor as ft
import torch_backend
from torch_backend import TorchBackend, Value

TORCH = TorchBackend()
NUMPY = ft.get_backend("numpy")


def test_a_value_is_a_torch_tensor() -> None:
    x = ft.asarray([[1.0, 2.0], [3.0, 4.0]], backend=TORCH)
    assert torch.equal(x.adapter.tensor, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    y = ft.Tensor(Value(torch.ones(2, 2)), TORCH)
    assert (x + y).tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_dlpack_hands_out_the_same_memory() -> None:
    x = ft.asarray([1.0, 2.0, 3.0], backend=TORCH) + 1
    assert torch.from_dlpack(x).data_ptr() == x.adapter.tensor.data_ptr()


def test_a_torch_tensor_is_read() -> None:
    source = torch.arange(6).reshape(2, 3)
    x = ft.asarray(source, backend=TORCH)
    source[:] = 0
    assert (x.dtype, x.tolist()) == (ft.int64, [[0, 1, 2], [3, 4, 5]])


def test_random_numbers_are_those_of_every_backend() -> None:
    ours, theirs = (
        ft.Generator(seed=9).uniform((1000, 3), backend=backend) for backend in (TORCH, NUMPY)
    )
    assert ours.tolist() == theirs.tolist()


def test_convolution_over_four_axes() -> None:
    """PyTorch has three at most."""

    def convolved(backend: ft.TensorBackend) -> ft.Tensor:
        generator = ft.Generator(seed=4)
        x = generator.normal((2, 4, 5, 4, 3, 4), backend=backend)
        w = generator.normal((6, 2, 2, 3, 2, 2), backend=backend)
        return ft.conv(x, w, stride=(2, 1, 1, 1), padding=1, kernel_dilation=(2, 1, 1, 1), groups=2)

    ours, theirs = convolved(TORCH), convolved(NUMPY)
    assert ours.shape == theirs.shape == (2, 6, 3, 4, 4, 5)
    assert abs(ours.numpy() - theirs.numpy()).max() < 1e-5


def test_integer_products_wrap() -> None:
    """Computed in 64 bits, of which the lowest 8 stay."""

    def int8(number: int) -> int:
        return (number + 128) % 256 - 128

    x = ft.asarray([[100, 100, 27]], "int8", backend=TORCH)
    assert (x @ x.T).tolist() == [[int8(100 * 100 + 100 * 100 + 27 * 27)]]
    found = ft.conv(x.reshape(1, 1, 3), ft.asarray([[[100, 100]]], "int8", backend=TORCH))
    assert found.tolist() == [[[int8(100 * 100 + 100 * 100), int8(100 * 100 + 27 * 100)]]]


def test_of_many_updates_to_one_place_the_last_stays() -> None:
    places = ft.asarray([i % 7 for i in range(5000)], backend=TORCH)
    updates = ft.arange(5000).to(TORCH)
    x = ft.scatter(ft.zeros(9, "int64").to(TORCH), places, updates)
    assert x.tolist() == [4998, 4999, *range(4993, 4998), 0, 0]


def test_the_whole_backend_is_small() -> None:
    """At most 500 lines, all told."""
    sources = Path(torch_backend.__file__).parent.glob("*.py")
    assert sum(len(source.read_text().splitlines()) for source in sources) <= 500
