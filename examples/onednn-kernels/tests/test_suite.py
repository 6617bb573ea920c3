"""The kit for kernel libraries of fl-jit."""

from __future__ import annotations

import sys

import pytest

from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, Matmul
from fl_jit.testing import KernelLibrarySuite
from fl_tensor.dtypes import float32
from onednn_kernels import OneDNN

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect of Linux"),
    pytest.mark.usefixtures("shared_library"),
]


class TestOneDNN(KernelLibrarySuite):
    make = OneDNN
    required = dict.fromkeys((Matmul, Convolution, ConvDataGrad, ConvWeightGrad), (float32,))
