"""The numpy backend is NumPy: it loads no compiler and no kernel library, whatever is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

OPERATIONS = """
import json, sys
import fl_tensor as ft

ft.use("numpy")
ft.set_num_threads(2)
x = ft.random.randn((512, 512))
x @ x, x.astype(ft.float64) @ x.astype(ft.float64), x.astype(ft.float16) @ x.astype(ft.float16)

image, kernel = ft.random.randn((4, 16, 32, 32)), ft.random.randn((32, 16, 3, 3))
y = ft.conv(image, kernel, padding=1)
flipped = ft.permute(ft.flip(kernel, (2, 3)), (1, 0, 2, 3))
ft.conv(y, flipped, padding=1)  # the gradient of the image, and that of the kernel
ft.conv(ft.permute(image, (1, 0, 2, 3)), ft.permute(y, (1, 0, 2, 3)), padding=1)

pooled = ft.max_pool(y, 2)
ft.max_pool_gradient(pooled, y, 2)
ft.avg_pool_gradient(ft.avg_pool(y, 2), y.shape, 2)
z, mean, variance = ft.batch_norm_training(y)
ft.batch_norm(y, mean, variance)
ft.batch_norm_gradient(z, y, mean, variance)
ft.recurrent(
    ft.ones((5, 64, 512)), ft.zeros((2, 64, 128)), ft.ones((512, 128)), cell="lstm"
)
ft.sum(z, (0, 2, 3)), ft.mean(z), ft.max(z, 1), ft.softmax(x), ft.cumulative_sum(x, axis=1)
ft.linalg.svd(x), ft.fft.fft(x.astype(ft.complex64))
ft.eval(z)
print(json.dumps(sorted(sys.modules)))
"""
#: A compiler, and what jit and its kernel libraries are made of.
ELSEWHERE = (
    "llvmlite",
    "fl_jit",
)


THREADS = """
import json
import fl_tensor as ft
from fl_tensor import threads

ft.use("numpy")
states = []
for count in (1, 2):
    ft.set_num_threads(count)
    x = ft.ones((300, 300))
    x @ x
    states.append({pool.name: pool.state() for pool in threads.pools()})
print(json.dumps(states))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process without settings of ours, and without warnings."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("FL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**others, **environment},
        capture_output=True,
        text=True,
    )


def test_it_loads_no_kernel_library_and_reads_no_setting_of_one() -> None:
    done = run(OPERATIONS, FL_KERNEL_LIBRARIES="no such library", FL_ONEDNN_LIB="/no/such/library")
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert "fl_tensor.backends.numpy.backend" in loaded
    found = [m for m in loaded for name in ELSEWHERE if m == name or m.startswith(f"{name}.")]
    assert found == []


def test_blas_has_the_threads_that_were_asked_for() -> None:
    done = run(THREADS)
    assert done.returncode == 0, done.stderr
    states = json.loads(done.stdout)
    if "OpenBLAS" not in states[0]:
        pytest.skip("NumPy is built on another BLAS")
    assert states == [{"OpenBLAS": "1 thread"}, {"OpenBLAS": "2 threads"}]
