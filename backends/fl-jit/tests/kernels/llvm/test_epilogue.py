"""Epilogues: programs on blocks of a result, as the loop nests of products call them."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from bias_and_activation import followed

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    Epilogue,
    Layout,
    Matmul,
    UnsupportedError,
    channels_last,
    row_major,
)
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.llvm import epilogue
from fl_tensor.dtypes import bool as boolean
from fl_tensor.dtypes import float32, float64, int64

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5)


def follow(made, rows, columns, arrays, height, width, order=1):
    """Call it as a loop nest would, on blocks of ``height`` rows and ``width`` columns."""
    words = (ctypes.c_int64 * (len(made.fields) + 3))(0, 0, 0, *made.fields)
    memory = np.zeros(made.scratch(2) + 64, np.uint8)
    made.write(words, 24, [a.ctypes.data for a in arrays], -(-memory.ctypes.data // 64) * 64)
    run = CALL(made.address)
    blocks = [(i, j) for i in range(0, rows, height) for j in range(0, columns, width)]
    for number, (i, j) in enumerate(blocks[::order]):
        here = min(height, rows - i), min(width, columns - j)
        run(ctypes.addressof(words) + 24, i, here[0], j, here[1], number % 2)


@pytest.fixture
def normal():
    rng = np.random.default_rng(3)
    return lambda *shape: rng.standard_normal(shape, dtype=np.float32)


def erf(x):
    return np.vectorize(math.erf)(x)


ACTIVATIONS = {
    "": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "gelu": lambda v: 0.5 * v * (1 + erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "tanh": np.tanh,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("bias", ["columns", "rows", "all", "none"])
def test_bias_and_activation_of_a_product(normal, activation, dtype, bias):
    m, n = 37, 53
    out = normal(m, n).astype(str(dtype))
    shape = {"columns": (1, n), "rows": (m, 1), "all": (m, n), "none": (1, 1)}[bias]
    beside = normal(*shape).astype(str(dtype))
    expected = ACTIVATIONS[activation](out.astype(float) + (beside if bias != "none" else 0))
    operands = row_major(dtype, (m, 8)), row_major(dtype, (8, n)), row_major(dtype, (m, n))
    laid = None if bias == "none" else row_major(dtype, shape)
    made = epilogue.prepare(followed(Matmul(*operands), laid, activation))
    arrays = [out, out] if bias == "none" else [out, beside, out]
    assert len(made.reads) == len(arrays) - 2 and made.writes == ()
    follow(made, m, n, arrays, 14, 32, -1)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)


def test_rows_are_numbered_through_batches_with_gaps(normal):
    whole = normal(3, 9, 40)
    out = whole[:, :5, :33]
    expected = np.maximum(out + 0.0, 0)
    kept = whole.copy()
    laid = Layout(float32, out.shape, (9 * 40, 40, 1))
    x, y = row_major(float32, (3, 5, 2)), row_major(float32, (3, 2, 33))
    made = epilogue.prepare(followed(Matmul(x, y, laid), activation="relu"))
    follow(made, 15, 33, [out, out], 4, 16)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(whole[:, 5:], kept[:, 5:])
    np.testing.assert_array_equal(whole[:, :, 33:], kept[:, :, 33:])


@pytest.mark.parametrize("images", ["last", "first"])
def test_columns_of_images_are_channels(normal, images):
    batch, channels, *size = shape = (2, 20, 5, 7)
    values, bias = normal(*shape), normal(channels)
    expected = np.maximum(values + bias[:, None, None], 0)
    laid = channels_last(float32, shape) if images == "last" else row_major(float32, shape)
    memory = np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if images == "last" else values
    out = memory.transpose(0, 3, 1, 2) if images == "last" else memory
    w = row_major(float32, (channels, 4, 1, 1))
    x = channels_last(float32, (batch, 4, *size))
    places = (1, 1), ((0, 0), (0, 0)), (1, 1)
    laid_bias = row_major(float32, (channels,))
    made = epilogue.prepare(followed(Convolution(x, w, laid, *places), laid_bias, "relu"))
    follow(made, 2 * 5 * 7, channels, [memory, bias, memory], 11, 16)
    np.testing.assert_array_equal(out, expected)


def dropout_and_residual(n):
    """where(word >= 0, (v + bias) * scale, 0) + residual; and the mask."""
    b = Builder(2)
    v, bias = b.input(float32, "sc"), b.input(float32, ".c")
    seed, offset = b.input(int64, ".."), b.input(int64, "..")
    scale, residual = b.input(float32, ".."), b.input(float32, "sc")
    word = b("random_bits", seed, offset, parameter=(1, 0))
    zero = b.cast(b("less", word, b("subtract", word, word)), boolean)
    scaled = b("multiply", b("add", v, bias), scale)
    kept = b("where", zero, b("subtract", scaled, scaled), scaled)
    b.output(b("add", kept, residual), "sc")
    b.output(zero, "sc")
    still = (0, 0)
    strides = (n, 1), (0, 1), still, still, still, (n, 1), (n, 1), (n, 1)
    return b.program(), strides


@pytest.mark.parametrize("blocks", [(64, 1000), (14, 64), (5, 48), (1, 1000)])
def test_blocks_give_bit_for_bit_what_a_kernel_of_the_same_program_gives(normal, blocks):
    m, n = 61, 323
    program, strides = dropout_and_residual(n)
    out, residual, bias = normal(m, n), normal(m, n), normal(n)
    numbers = [np.array(v) for v in (np.int64(7), np.int64(13), np.float32(2))]
    mask = np.zeros((m, n), np.bool_)
    arrays = [out, bias, *numbers, residual, out, mask]
    expected, zeros = out.copy(), mask.copy()
    other = [expected, bias, *numbers, residual, expected, zeros]
    Kernel.of(program)([a.ctypes.data for a in other], (m, n), strides)
    operands = row_major(float32, (m, 8)), row_major(float32, (8, n)), row_major(float32, (m, n))
    made = epilogue.prepare(Matmul(*operands, epilogue=Epilogue(program, (m, n), strides)))
    assert [each.dtype for each in made.reads] == [float32, int64, int64, float32, float32]
    assert [each.dtype for each in made.writes] == [boolean]
    follow(made, m, n, arrays, *blocks)
    assert 0.4 < zeros.mean() < 0.6
    np.testing.assert_array_equal(mask, zeros)
    np.testing.assert_array_equal(out, expected)


def test_gradients_of_images_may_have_one(normal):
    b = Builder(2)
    g, y = b.input(float32, "sc"), b.input(float32, "sc")
    zero = b.constant(0.0, float32)
    b.output(b("where", b("less", zero, y), g, zero), "sc")
    found = Epilogue(b.program(), (12, 20), ((20, 1),) * 3)
    image = channels_last(float32, (1, 20, 3, 4))
    w = row_major(float32, (20, 20, 1, 1))
    descriptor = ConvDataGrad(image, w, image, (1, 1), ((0, 0), (0, 0)), (1, 1), epilogue=found)
    gradient, seen = normal(12, 20), normal(12, 20)
    expected = np.where(seen > 0, gradient, 0)
    follow(epilogue.prepare(descriptor), 12, 20, [gradient, seen, gradient], 4, 20)
    np.testing.assert_array_equal(gradient, expected)


def test_code_is_shared_by_all_sizes(normal):
    def address(m, n):
        operands = (
            row_major(float32, (m, 8)),
            row_major(float32, (8, n)),
            row_major(float32, (m, n)),
        )
        return epilogue.prepare(followed(Matmul(*operands), activation="relu")).address

    assert address(10, 20) == address(300, 500)


def reducing(b, v):
    b.output(b("subtract", v, b.reduce("max", v)), "sc")


def of_another_dtype(b, v):
    b.output(b.cast(v, float64), "sc")


def scaled(b, v):
    b.output(b("multiply", v, b.scalar(float32)), "sc")


@pytest.mark.parametrize(
    "write,reason",
    [(reducing, "reduced"), (of_another_dtype, "takes the place"), (scaled, "do not move")],
)
def test_what_cannot_be_computed_block_by_block_is_refused(write, reason):
    b = Builder(2)
    write(b, b.input(float32, "sc"))
    operands = row_major(float32, (4, 8)), row_major(float32, (8, 4)), row_major(float32, (4, 4))
    found = Epilogue(b.program(), (4, 4), ((4, 1),) * 2)
    with pytest.raises(UnsupportedError, match=reason):
        epilogue.prepare(Matmul(*operands, epilogue=found))
