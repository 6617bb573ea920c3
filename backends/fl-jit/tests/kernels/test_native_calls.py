"""Kernels with arguments that stay in memory, beside the same kernels called with addresses."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.eager.kernel_calls import ConvParameters, kernel_call
from fl_jit.kernels import registry
from fl_jit.kernels.layout import row_major
from fl_jit.kernels.native_calls import NativeCalls, native_call
from fl_tensor.dtypes import float32


def conv(stride=(1, 1), padding=2, groups=1):
    return ConvParameters(stride, ((padding, padding),) * 2, (1, 1), (1, 1), groups)


CASES = {
    "product": ("matmul", (37, 50), (50, 29), (37, 29), None),
    "product of few rows": ("matmul", (4, 300), (300, 64), (4, 64), None),
    "large product": ("matmul", (300, 200), (200, 260), (300, 260), None),
    "batch of products": ("matmul", (6, 20, 30), (6, 30, 40), (6, 20, 40), None),
    "convolution": ("conv", (4, 8, 12, 12), (16, 8, 5, 5), (4, 16, 12, 12), conv()),
    "strided": ("conv", (4, 8, 12, 12), (16, 8, 5, 5), (4, 16, 6, 6), conv((2, 2))),
    "depthwise": ("conv", (4, 16, 12, 12), (16, 1, 3, 3), (4, 16, 12, 12), conv((1, 1), 1, 16)),
    "data gradient": (
        *("conv_data_gradient", (4, 16, 12, 12), (16, 8, 5, 5), (4, 8, 12, 12), conv()),
    ),
    "weight gradient": (
        *("conv_weight_gradient", (4, 16, 12, 12), (4, 8, 12, 12), (16, 8, 5, 5), conv()),
    ),
}  # fmt: skip


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = ft.get_num_threads()
    with ft.use("jit"):
        ft.set_num_threads(request.param)
        yield
        ft.set_num_threads(before)


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def run(call):
    if call.entries:
        NativeCalls([call])()
    else:
        call.run()


@pytest.mark.parametrize("name", CASES)
def test_every_run_computes_the_same_as_a_call(threads, name):
    op, x, y, out, parameters = CASES[name]
    layouts = [row_major(float32, shape) for shape in (x, y, out)]
    found = kernel_call(op, *layouts, parameters)
    kernel = registry.active_library().find(found.descriptor)
    if kernel is None or any(view.copies for view in found.views):
        pytest.skip("no kernel reads such operands in place")
    call = native_call(kernel)
    workspace = np.empty(call.nbytes + 64, np.uint8)
    at = -(-workspace.ctypes.data // 64) * 64
    for seed in range(2):  # operands move
        operands = arrays(x, y, seed=seed)
        made, wanted = np.empty(out, np.float32), np.empty(out, np.float32)
        begin = [operands[v.operand].ctypes.data + 4 * v.offset for v in found.views]
        call.write([*begin, made.ctypes.data], (), at)
        for _ in range(3):
            operands[0] *= 1.5
            made[...] = np.nan
            kernel(*begin, wanted.ctypes.data)
            run(call)
            assert (made == wanted).all()
