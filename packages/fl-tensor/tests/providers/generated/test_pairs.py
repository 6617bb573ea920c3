"""bfloat16 is multiplied in pairs where the processor does that, and operands lie so."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fl_tensor import dtypes
from fl_tensor.backends.providers import Convolution, ConvolutionData, channels_last, row_major
from fl_tensor.backends.providers.generated import convolution, convolution_data, library
from fl_tensor.codegen import target

pytestmark = pytest.mark.skipif(
    not target.host().has_bfloat_products, reason="no instruction multiplies pairs of bfloat16"
)


@pytest.fixture
def asked():
    """The dtypes of the micro-kernels that are asked for."""
    found = set()
    with library.register(lambda kernel, machine: found.add(kernel.dtype)):
        yield found


def random_bits(shape, seed):
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def wide(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(float)


def run(prepare, problem, *arrays):
    prepare(problem)(*(array.ctypes.data for array in arrays))


@pytest.mark.parametrize("channels,in_pairs", [(6, True), (7, False)])
def test_convolutions(asked, channels, in_pairs):
    x, w = random_bits((2, 9, 10, channels), 0), random_bits((33, channels, 3, 2), 1)
    out = np.zeros((2, 9, 9, 33), np.float32)
    problem = Convolution(
        channels_last(dtypes.bfloat16, (2, channels, 9, 10)),
        row_major(dtypes.bfloat16, w.shape),
        channels_last(dtypes.float32, (2, 33, 9, 9)),
        (1, 1), ((1, 1), (0, 0)), (1, 1),
    )  # fmt: skip
    run(convolution.prepare, problem, x, w, out)
    padded = np.pad(wide(x), ((0, 0), (1, 1), (0, 0), (0, 0)))
    expected = sum(
        padded[:, i : i + 9, j : j + 9] @ wide(w)[:, :, i, j].T for i in range(3) for j in range(2)
    )
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert asked == {dtypes.bfloat16 if in_pairs else dtypes.float32}


def test_gradients_of_data(asked):
    gradient, w = random_bits((3, 5, 5, 8), 0), random_bits((8, 13, 2, 2), 1)
    out = np.zeros((3, 6, 6, 13), np.float32)
    problem = ConvolutionData(
        channels_last(dtypes.bfloat16, (3, 8, 5, 5)),
        row_major(dtypes.bfloat16, w.shape),
        channels_last(dtypes.float32, (3, 13, 6, 6)),
        (1, 1), ((0, 0), (0, 0)), (1, 1),
    )  # fmt: skip
    run(convolution_data.prepare, problem, gradient, w, out)
    expected = np.zeros(out.shape)
    for i in range(2):
        for j in range(2):
            expected[:, i : i + 5, j : j + 5] += wide(gradient) @ wide(w)[:, :, i, j]
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert asked == {dtypes.bfloat16}
