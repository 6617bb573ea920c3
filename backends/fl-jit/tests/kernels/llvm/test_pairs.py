"""bfloat16 is multiplied in pairs where the processor does that, and operands lie so."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Layout,
    Matmul,
    Packed,
    Reorder,
    UnsupportedError,
    any_layout,
    channels_last,
    row_major,
)
from fl_jit.kernels.codegen import target
from fl_jit.kernels.layout import dense
from fl_jit.kernels.llvm import microkernel_registry, reorder
from fl_jit.kernels.llvm.conv import forward as convolution
from fl_jit.kernels.llvm.conv_wgrad import wgrad as convolution_weights
from fl_jit.kernels.llvm.gemm import matmul
from fl_memory import selection
from fl_tensor import dtypes

pytestmark = pytest.mark.skipif(
    not target.host().has_bfloat_products, reason="no instruction multiplies pairs of bfloat16"
)


@pytest.fixture
def requested():
    """The dtypes of the requested micro-kernels."""
    found = set()
    with microkernel_registry.register(lambda kernel, machine: found.add(kernel.dtype)):
        yield found


@pytest.fixture
def narrow():
    """Whether the requested micro-kernels write bfloat16."""
    found = set()
    with microkernel_registry.register(lambda kernel, machine: found.add(kernel.narrow)):
        yield found


def random_bits(shape, seed):
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def wide(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(float)


def run(prepare, descriptor, *arrays):
    prepare(descriptor)(*(array.ctypes.data for array in arrays))


@pytest.fixture(autouse=True)
def no_number_is_in_memory(monkeypatch):
    """Memory to work in begins as NaN: what is multiplied by zero has to be a number."""
    true = selection.current

    class Manager:
        def alloc(self, nbytes, **options):
            block = true().alloc(nbytes, **options)
            ctypes.memset(block.address, 0xFF, nbytes)
            return block

    monkeypatch.setattr(selection, "current", Manager)


LIES = pytest.mark.parametrize(
    "lies", [channels_last, row_major], ids=["channels last", "row-major"]
)


def image(bits, lies):
    """An image (batch, *space, channels) as it is to lie."""
    return bits if lies is channels_last else np.ascontiguousarray(np.moveaxis(bits, -1, 1))


@LIES
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("channels", [1, 3, 6, 7, 67])
def test_convolutions(requested, channels, step, lies):
    x, w = random_bits((2, 9, 10, 2 * channels), 0), random_bits((66, channels, 3, 2), 1)
    height, width = 8 // step + 1, 8 // step + 1
    out = np.zeros((2, height, width, 66), np.float32)
    descriptor = Convolution(
        lies(dtypes.bfloat16, (2, 2 * channels, 9, 10)),
        row_major(dtypes.bfloat16, w.shape),
        channels_last(dtypes.float32, (2, 66, height, width)),
        (step, step), ((1, 1), (0, 0)), (1, 1), groups=2,
    )  # fmt: skip
    run(convolution.prepare, descriptor, image(x, lies), w, out)
    padded = np.pad(wide(x), ((0, 0), (1, 1), (0, 0), (0, 0)))
    expected = np.zeros(out.shape)
    for group, i, j in np.ndindex(2, 3, 2):
        theirs, own = (slice(group * n, (group + 1) * n) for n in (channels, 33))
        seen = padded[:, i : i + 9 : step, j : j + 9 : step, theirs]
        expected[..., own] += seen @ wide(w)[own, :, i, j].T
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert requested == {dtypes.bfloat16}


@LIES
@pytest.mark.parametrize("features", [8, 9])
def test_gradients_of_data(requested, features, lies):
    gradient, w = random_bits((3, 5, 5, features), 0), random_bits((features, 13, 2, 2), 1)
    out = np.zeros((3, 6, 6, 13), np.float32)
    descriptor = ConvDataGrad(
        lies(dtypes.bfloat16, (3, features, 5, 5)),
        row_major(dtypes.bfloat16, w.shape),
        channels_last(dtypes.float32, (3, 13, 6, 6)),
        (1, 1), ((0, 0), (0, 0)), (1, 1),
    )  # fmt: skip
    run(convolution.prepare, descriptor, image(gradient, lies), w, out)
    expected = np.zeros(out.shape)
    for i in range(2):
        for j in range(2):
            expected[:, i : i + 5, j : j + 5] += wide(gradient) @ wide(w)[:, :, i, j]
    np.testing.assert_allclose(out, expected, atol=1e-4)
    assert requested == {dtypes.bfloat16}


@pytest.mark.parametrize("channels", [5, 6])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (2, 3, 1, 0)])
def test_weights_are_packed_in_pairs(requested, channels, order):
    x, w = random_bits((2, 4, 4, channels), 0), random_bits((35, channels, 2, 2), 1)
    out = np.zeros((2, 3, 3, 35), np.float32)
    kernel = convolution.prepare(
        Convolution(
            channels_last(dtypes.bfloat16, (2, channels, 4, 4)),
            any_layout(dtypes.bfloat16, w.shape),
            channels_last(dtypes.float32, (2, 35, 3, 3)),
            (1, 1), ((0, 0), (0, 0)), (1, 1),
        )
    )  # fmt: skip
    packed, plain = kernel.operands[1], Layout(dtypes.bfloat16, w.shape, dense(w.shape, order))
    memory = np.full(packed.nbytes, 0xFF, np.uint8)
    kept = w.transpose(order).copy()
    reorder.prepare(Reorder(plain, packed))(kept.ctypes.data, memory.ctypes.data)
    kernel(x.ctypes.data, memory.ctypes.data, out.ctypes.data)
    windows = np.lib.stride_tricks.sliding_window_view(wide(x), (2, 2), (1, 2))
    np.testing.assert_allclose(out, np.einsum("nyxcij,fcij->nyxf", windows, wide(w)), atol=1e-4)
    back = np.zeros_like(w)
    plain = row_major(dtypes.bfloat16, w.shape)
    reorder.prepare(Reorder(packed, plain))(memory.ctypes.data, back.ctypes.data)
    np.testing.assert_array_equal(back, w)
    assert requested == {dtypes.bfloat16}


@LIES
@pytest.mark.parametrize("channels", [3, 18], ids=["joined", "tiles"])
@pytest.mark.parametrize("width", [11, 12, 1])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_gradients_of_weights_and_bias(requested, step, width, channels, lies):
    features, groups, padding = 34, 2, ((1, 0), (2, 1))
    extents = 1 + 5 * step, (width - 1) * step + 1
    x_shape, dy_shape = (2, 2 * channels, *extents), (2, 2 * features, 6, width)
    x, dy = random_bits(x_shape, 0), random_bits(dy_shape, 1)
    padded = np.pad(wide(x), ((0, 0), (0, 0), *padding))
    expected = np.zeros((2 * features, channels, 2, 3))
    for group in range(groups):
        theirs = slice(group * channels, (group + 1) * channels)
        own = slice(group * features, (group + 1) * features)
        for i, j in np.ndindex(2, 3):
            seen = padded[:, theirs, i : i + 5 * step + 1 : step, j:][..., : (width - 1) * step + 1]
            products = np.einsum("ncyx,nfyx->fc", seen[..., ::step], wide(dy)[:, own])
            expected[own, :, i, j] = products
    layouts = lies(dtypes.bfloat16, x_shape), lies(dtypes.bfloat16, dy_shape)
    descriptor = ConvWeightGrad(
        *layouts, row_major(dtypes.float32, expected.shape),
        (step, step), padding, (1, 1), groups, row_major(dtypes.float32, (2 * features,)),
    )  # fmt: skip
    if lies is channels_last:
        x, dy = (np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in (x, dy))
    out, bias = np.zeros(expected.shape, np.float32), np.zeros(2 * features, np.float32)
    run(convolution_weights.prepare, descriptor, x, dy, bias, out)
    np.testing.assert_allclose(out, expected, atol=1e-4)
    accumulators = wide(dy).sum((0, 1, 2) if lies is channels_last else (0, 2, 3))
    np.testing.assert_allclose(bias, accumulators, atol=1e-4)
    assert requested == {dtypes.bfloat16}


def lies(array, by_columns):
    """The array's bytes, and their layout, row by row or column by column."""
    strides = (1, array.shape[0]) if by_columns else (array.shape[1], 1)
    kept = np.ascontiguousarray(array.T if by_columns else array)
    return kept, Layout(dtypes.bfloat16, array.shape, strides)


@pytest.mark.parametrize("x_turned", [False, True])
@pytest.mark.parametrize("y_turned", [False, True])
@pytest.mark.parametrize("k", [2, 64, 650, 651])
def test_products(requested, k, x_turned, y_turned):
    x, y = random_bits((37, k), 0), random_bits((k, 75), 1)
    (x_kept, x_layout), (y_kept, y_layout) = lies(x, x_turned), lies(y, y_turned)
    out = np.zeros((37, 75), np.float32)
    run(
        matmul.prepare,
        Matmul(x_layout, y_layout, row_major(dtypes.float32, out.shape)),
        *(x_kept, y_kept, out),
    )
    np.testing.assert_allclose(out, wide(x) @ wide(y), atol=1e-3)
    assert requested == {dtypes.float32 if k % 2 else dtypes.bfloat16}


@pytest.mark.parametrize("turned", [False, True])
def test_factors_are_packed_in_pairs(requested, turned):
    k, n = 1300, 75
    x, y = random_bits((2, 21, k), 0), random_bits((k, n), 1)
    kept, layout = lies(y, turned)
    out = np.zeros((2, 21, n), np.float32)
    rest = row_major(dtypes.bfloat16, x.shape), row_major(dtypes.float32, out.shape)
    kernel = matmul.prepare(Matmul(rest[0], any_layout(dtypes.bfloat16, (1, k, n)), rest[1]))
    packed = kernel.operands[1]
    assert isinstance(packed, Packed) and packed.dtype is dtypes.bfloat16
    memory = np.zeros(packed.nbytes, np.uint8)
    one = Layout(layout.dtype, (1, k, n), (0, *layout.strides))
    reorder.prepare(Reorder(one, packed))(kept.ctypes.data, memory.ctypes.data)
    kernel(x.ctypes.data, memory.ctypes.data, out.ctypes.data)
    np.testing.assert_allclose(out, wide(x) @ wide(y), atol=1e-3)
    assert requested == {dtypes.bfloat16}
    with pytest.raises(UnsupportedError, match="neither rows nor columns are contiguous"):
        reorder.prepare(Reorder(Layout(layout.dtype, (1, k, n), (0, 2 * n, 2)), packed))


def is_rounded_once(found, expected):
    # At most half of the last place, and what sums in float32 are off by.
    return (abs(wide(found) - expected) <= abs(expected) * 2.0**-8 + 1e-3).all()


@pytest.mark.parametrize("k,directly", [(4000, False), (62, True)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_results_of_bfloat16_are_rounded_once(narrow, k, directly, accumulate):
    x, y = random_bits((30, k), 0), random_bits((k, 75), 1)
    out = random_bits((30, 80), 2)
    expected = wide(out)
    expected[:, :75] = wide(x) @ wide(y) + accumulate * expected[:, :75]
    layouts = [row_major(dtypes.bfloat16, array.shape) for array in (x, y)]
    to = Layout(dtypes.bfloat16, (30, 75), (80, 1))
    run(matmul.prepare, Matmul(*layouts, to, accumulate=accumulate), x, y, out)
    assert is_rounded_once(out, expected)
    assert narrow == {directly and not accumulate}


@pytest.mark.parametrize("kernel,channels", [(1, 70), (3, 70), (3, 6), (3, 300)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (0, 1)], ids=str)
def test_convolutions_to_bfloat16(narrow, kernel, channels, padding):
    x, w = random_bits((2, 7, 8, channels), 0), random_bits((75, channels, kernel, kernel), 1)
    height, width = (n + 2 * pad - kernel + 1 for n, pad in zip((7, 8), padding))
    out = random_bits((2, height, width, 75), 2)
    descriptor = Convolution(
        channels_last(dtypes.bfloat16, (2, channels, 7, 8)),
        row_major(dtypes.bfloat16, w.shape),
        channels_last(dtypes.bfloat16, (2, 75, height, width)),
        (1, 1), tuple((pad, pad) for pad in padding), (1, 1),
    )  # fmt: skip
    run(convolution.prepare, descriptor, x, w, out)
    padded = np.pad(wide(x), ((0, 0), *((pad, pad) for pad in padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    assert is_rounded_once(out, np.einsum("nyxcij,fcij->nyxf", windows, wide(w)))
    # Dense rows of few channels have their zeros in the input tile.
    directly = padding == (0, 0) or (channels == 6 and padding == (0, 1))
    assert narrow == {directly and channels < 300}
