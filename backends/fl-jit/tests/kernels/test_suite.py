"""The kit for kernel libraries passes on the generated kernels, and finds planted faults."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fl_jit.kernels import KernelLibrary, Matmul, UnsupportedError
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.testing import KernelLibrarySuite
from fl_jit.testing.descriptors import OPERATIONS
from fl_tensor.dtypes import bfloat16, float16, float32, float64

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect of Linux")


class TestGenerated(KernelLibrarySuite):
    make = GeneratedKernels
    required = dict.fromkeys(OPERATIONS, (float32, float64, bfloat16, float16))


# ---- planted faults ------------------------------------------------------------------------------


def array(address, shape, strides):
    """float32 memory at an address; strides in elements."""
    about = {"shape": tuple(shape), "strides": tuple(4 * s for s in strides), "version": 3}
    holder = type("Holder", (), {"__array_interface__": {"data": (address, False), **about}})
    holder.__array_interface__["typestr"] = "<f4"
    return np.asarray(holder())


class Products(KernelLibrary):
    """Matrix products in float32 by NumPy, with a fault."""

    name = "products"

    def __init__(self, fault="none"):
        super().__init__()
        self.fault, self.addresses = fault, ()

    def report(self):
        return {"fault": self.fault}

    def prepare(self, descriptor):
        if not isinstance(descriptor, Matmul):
            if self.fault == "another error":
                raise KeyError(type(descriptor))
            raise UnsupportedError("products alone")
        layouts = descriptor.x, descriptor.y, descriptor.out
        if any(each.dtype is not float32 or each.strides is None for each in layouts):
            raise UnsupportedError("float32 by strides alone")

        def kernel(*addresses):
            self.addresses = addresses
            if self.fault == "shared state":
                time.sleep(0.001)
                addresses = self.addresses
            strides = [each.strides for each in layouts]
            if self.fault == "wrong stride":
                *_, n = layouts[1].shape
                strides[1] = (*strides[1][:-2], n, 1)
            x, y, out = (
                array(address, each.shape, moves)
                for address, each, moves in zip(addresses, layouts, strides)
            )
            out[...] = x @ y
            ends = [(n - 1) * s for n, s in zip(out.shape, layouts[2].strides)]
            low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
            if self.fault == "out of bounds":
                for at, inside in ((low - 1, low), (high + 1, high)):
                    if (addresses[2] + 4 * at) // 4096 == (addresses[2] + 4 * inside) // 4096:
                        array(addresses[2] + 4 * at, (1,), (1,))[0] = 0
            if self.fault == "guard page":
                array(addresses[2] + 4 * (high + 1), (1,), (1,))[0] = 0
            if self.fault == "input":
                x[...] = 0
            if self.fault == "gap" and 1 not in layouts[2].strides and out.shape[-1] > 1:
                array(addresses[2] + 4, (1,), (1,))[0] = 0
            if self.fault == "dropped term":
                out[..., -1] -= x[..., -1] * y[..., -1:, -1]

        kernel.operands, kernel.about = layouts, "numpy"
        return kernel


class Suite(KernelLibrarySuite):
    count = 120


def test_a_library_without_faults_passes():
    suite, library = Suite(), Products()
    suite.test_results(library, Matmul, float32)
    suite.test_unsupported_descriptors(library)
    suite.test_epilogues(library)
    suite.test_equal_descriptors_share_a_kernel(library)
    suite.test_two_threads(library)
    suite.test_report(library)


@pytest.mark.parametrize(
    "fault,message",
    [
        ("wrong stride", "elements are wrong"),
        ("dropped term", "elements are wrong"),
        ("out of bounds", "operand 2 was overrun"),
        ("input", "input 0 was written"),
        ("gap", "gaps between elements of the result were written"),
    ],
)
def test_wrong_kernels_are_found(fault, message):
    with pytest.raises(AssertionError, match=message):
        Suite().test_results(Products(fault), Matmul, float32)


def test_a_kernel_that_is_not_thread_safe_is_found():
    with pytest.raises(AssertionError):
        Suite().test_two_threads(Products("shared state"))


def test_another_error_than_unsupported_is_found():
    with pytest.raises(KeyError):
        Suite().test_unsupported_descriptors(Products("another error"))


def test_too_few_supported_descriptors_are_found():
    class Demanding(Suite):
        required = {Matmul: (float32, float64)}

    with pytest.raises(AssertionError, match=r"0 of 120 .*float32 by strides alone"):
        Demanding().test_results(Products(), Matmul, float64)


def test_a_write_into_the_guard_page_ends_the_process():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_suite as t\n"
        "t.Suite().test_results(t.Products('guard page'), t.Matmul, t.float32)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    assert subprocess.run(command, capture_output=True).returncode < 0
