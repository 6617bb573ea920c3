"""What `jit` computes at once: NumPy's results, by a kernel library from some size on."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit.cli import info, main
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    registry,
)
from fl_tensor.backends.numpy import conv as unfolded


@pytest.fixture
def requested(library, at_once, monkeypatch):
    """The library serves `jit`, which defers nothing; the descriptors that it computed."""
    monkeypatch.setattr(registry, "is_for_everything", lambda: False)
    solved = []
    find = library.find

    def watched(descriptor):
        kernel = find(descriptor)
        if kernel is not None:
            solved.append(descriptor)
        return kernel

    monkeypatch.setattr(library, "find", watched)
    monkeypatch.setattr(registry, "active_library", lambda: library)
    return solved


@pytest.fixture
def everything(monkeypatch):
    """However little work there is."""
    monkeypatch.setattr(registry, "is_for_everything", lambda: True)


def agree(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=3e-6 * scale)


# ---- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x_shape,y_shape",
    [
        ((90, 80), (80, 70)),
        ((3, 40, 80), (80, 70)),
        ((90, 80), (3, 80, 40)),
        ((2, 3, 40, 50), (2, 3, 50, 40)),
        ((5, 1, 40, 50), (3, 50, 40)),
        ((1, 700), (700, 600)),
        ((700, 600), (600, 1)),
    ],
)
def test_products(requested, normal, x_shape, y_shape):
    x, y = normal(*x_shape), normal(*y_shape)
    agree(ft.asarray(x) @ ft.asarray(y), x.astype(float) @ y)
    assert [type(descriptor) for descriptor in requested] == [Matmul]


def test_operands_may_lie_in_any_way(requested, normal):
    x, y = ft.asarray(normal(80, 90)), ft.asarray(normal(2, 100, 80))
    plain = x.numpy().astype(float)
    for a, b in (
        (x.T, plain.T),
        (x[::-1].T, plain[::-1].T),
        (x.T[:, ::2], plain.T[:, ::2]),
        (ft.broadcast_to(x.T, (2, 90, 80)), np.broadcast_to(plain.T, (2, 90, 80))),
        (ft.broadcast_to(x[:1].T, (90, 80)), np.broadcast_to(plain[:1].T, (90, 80))),
    ):
        b_t = y[:, :, : a.shape[-1]].mT
        agree(a @ b_t, b @ b_t.numpy())
    assert len(requested) == 5


def test_factors_that_both_repeat(requested, normal):
    x, y = normal(90, 80), normal(80, 70)
    found = ft.broadcast_to(ft.asarray(x), (2, 90, 80)) @ ft.broadcast_to(
        ft.asarray(y), (2, 80, 70)
    )
    agree(found, np.broadcast_to(x.astype(float) @ y, (2, 90, 70)))
    assert len(requested) in (0, 1), "a library may refuse operands that both repeat"


def test_one_product_for_batches_that_share_a_factor(requested, normal):
    x, y = normal(4, 32, 64), normal(64, 80)
    agree(ft.asarray(x) @ ft.asarray(y), x.astype(float) @ y)
    assert requested[0].x.shape == (128, 64)


def test_little_work_and_other_dtypes_are_numpys(requested, normal):
    small = ft.asarray(normal(8, 8))
    wide = ft.asarray(normal(90, 90).astype(float))
    whole = ft.arange(8100).reshape(90, 90)
    for x in (small, wide, whole, ft.zeros((0, 300)), small[:, :0]):
        x @ x.T
    assert requested == []


def test_half_precision_is_accumulated_in_float32(requested, normal):
    x = ft.asarray(normal(90, 90)).astype(ft.float16)
    wide = x.numpy().astype(float)
    found = (x @ x.T).numpy()
    np.testing.assert_allclose(found, wide @ wide.T, rtol=1e-3, atol=1e-2)
    assert found.dtype == np.float16 and len(requested) == 1


def test_results_lie_in_blocks_of_the_manager(requested, normal):
    x = ft.asarray(normal(90, 90))
    with fl_memory.use("caching") as manager:
        x @ x
        gc.collect()
        before = manager.stats().live_bytes
        y = x @ x
        assert manager.stats().live_bytes - before == y.nbytes, "and scratch memory is given back"


# ---- convolutions --------------------------------------------------------------------------------

ONE, SIZE = (1, 1), (14, 15)
NONE = ((0, 0), (0, 0))
#: x, w, stride, padding, input dilation, kernel dilation, groups, what it is computed as
CONVOLUTIONS = {
    "plain": ((2, 8, *SIZE), (16, 8, 3, 3), ONE, ((1, 1), (1, 1)), ONE, ONE, 1, "x"),
    "strided": ((2, 8, *SIZE), (16, 8, 3, 2), (2, 3), ((0, 1), (1, 0)), ONE, (2, 1), 1, "x"),
    "groups": ((2, 8, *SIZE), (16, 2, 3, 3), ONE, ((1, 1), (1, 1)), ONE, ONE, 4, "x"),
    "cropped": ((2, 8, *SIZE), (16, 8, 3, 3), ONE, ((-2, 1), (1, -3)), ONE, ONE, 1, "x"),
    "line": ((2, 8, 60), (16, 8, 5), (1,), ((4, 0),), (1,), (1,), 1, "x"),
    "spread": ((2, 8, 7, 8), (16, 8, 3, 3), ONE, ((2, 1), (0, 2)), (2, 3), ONE, 1, "d"),
    "spread groups": ((2, 8, 7, 8), (12, 4, 3, 2), ONE, ((2, 2), (1, 1)), (2, 2), ONE, 2, "d"),
    "spread dilated": ((2, 8, 7, 8), (9, 8, 3, 2), ONE, ((2, 3), (2, 1)), (2, 1), (2, 2), 1, "d"),
    "spread rest": ((2, 8, 7, 8), (12, 8, 3, 3), ONE, ((2, 3), (2, 4)), (3, 3), ONE, 1, "d"),
    "large": ((8, 6, *SIZE), (16, 6, 12, 13), ONE, ((0, 0), (1, 1)), ONE, ONE, 1, "x"),
    "large strided": ((8, 6, *SIZE), (16, 6, 6, 7), ONE, ((0, 0), (1, 0)), ONE, (2, 2), 1, "x"),
    "large groups": ((5, 6, *SIZE), (16, 3, 12, 12), ONE, ((0, 0), (1, 0)), ONE, ONE, 2, "x"),
    "large rest": ((8, 6, *SIZE), (16, 6, 10, 9), (2, 2), ((0, 0), (1, 0)), ONE, ONE, 1, "x"),
}
KINDS = {"x": Convolution, "d": ConvDataGrad}


def by_numpy(x, w, stride, padding, input_dilation, kernel_dilation, groups, shape):
    wide = x.astype(float), w.astype(float)
    return unfolded.convolve(*wide, stride, padding, input_dilation, kernel_dilation, groups, shape)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_computed_as_what_they_are(requested, everything, normal, name):
    x_shape, w_shape, *options, kind = CONVOLUTIONS[name]
    x, w = normal(*x_shape), normal(*w_shape)
    found = ft.conv(ft.asarray(x), ft.asarray(w), *options)
    agree(found, by_numpy(x, w, *options, found.shape))
    assert [type(descriptor) for descriptor in requested] == [KINDS[kind]]


def test_gradients_are_computed_as_what_they_are(requested, normal):
    g, x, w = normal(2, 16, 14, 15), normal(2, 8, 14, 15), normal(16, 8, 3, 3)
    for operation, other, shape, kind in (
        (ft.conv_data_gradient, w, x.shape, ConvDataGrad),
        (ft.conv_weight_gradient, x, w.shape, ConvWeightGrad),
    ):
        del requested[:]
        found = operation(ft.asarray(g), ft.asarray(other), shape, padding=1)
        with ft.use("numpy"):
            wide = [ft.asarray(v.astype(float)) for v in (g, other)]
            agree(found, np.asarray(operation(*wide, shape, padding=1)))
        assert [type(descriptor) for descriptor in requested] == [kind]


def test_images_may_be_channels_last(requested, normal):
    x, w = normal(2, 8, 14, 15, order="last"), normal(16, 8, 3, 3)
    options = (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1
    value = ft.permute(ft.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1))), (0, 3, 1, 2))
    found = ft.conv(value, ft.asarray(w), *options)
    agree(found, by_numpy(x, w, *options, found.shape))
    assert requested[0].x.strides[1] == 1


def test_what_no_kernel_library_computes_is_computed(requested, everything, normal):
    x, w = normal(1, 2, 5, 5, 5, 5), normal(3, 2, 2, 2, 2, 2)
    options = (1,) * 4, ((0, 1),) * 4, (1,) * 4, (1,) * 4, 1
    found = ft.conv(ft.asarray(x), ft.asarray(w), *options)
    agree(found, by_numpy(x, w, *options, found.shape))
    x, w = normal(2, 4, 9, 9), normal(4, 4, 3, 3)
    options = (2, 2), ((1, 1), (1, 1)), (2, 2), (1, 1), 1
    found = ft.conv(ft.asarray(x), ft.asarray(w), *options)
    agree(found, by_numpy(x, w, *options, found.shape))
    assert requested == []


@pytest.mark.parametrize(
    "size,kernel,padding",
    [(3, 2, (6, -4)), (3, 2, (-4, 6)), (2, 1, (5, -3)), (3, 4, (9, -7)), (2, 5, (7, -2))],
)
def test_elements_that_are_all_cropped_away(requested, everything, normal, size, kernel, padding):
    x, w = normal(2, 4, size), normal(4, 4, kernel)
    options = (1,), (padding,), (1,), (1,), 1
    found = ft.conv(ft.asarray(x), ft.asarray(w), *options)
    np.testing.assert_allclose(
        found.numpy(), by_numpy(x, w, *options, found.shape), rtol=1e-5, atol=1e-5
    )


# ---- threads -------------------------------------------------------------------------------------


def in_a_process(code, **environment):
    """The JSON that ``code`` prints, in a process without settings of threads."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "OPENBLAS_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import json, os\n" + code],
        env={**env, "FL_TENSOR_BACKEND": "jit", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


STATES = """
from fl_tensor import threads
print(json.dumps({
    "left": os.environ.get("OPENBLAS_THREAD_TIMEOUT"),
    **{pool.name: pool.state() for pool in threads.pools()},
}))
"""
WORK = "import fl_tensor as ft; x = ft.ones((300, 300)); (x @ x).numpy(); ft.set_num_threads(2)\n"


def test_blas_sleeps_between_calls_where_the_backend_imports_numpy():
    found = in_a_process(WORK + STATES, FL_KERNEL_LIBRARIES="generated")
    if "OpenBLAS" not in found:
        pytest.skip("NumPy is built on another BLAS")
    assert found["OpenBLAS"] == "2 threads, asleep between calls"
    assert found["generated"].startswith("2 of ") and found["left"] is None


def test_blas_gets_one_thread_where_numpy_was_there_before():
    found = in_a_process("import numpy\n" + WORK + STATES)
    if "OpenBLAS" not in found:
        pytest.skip("NumPy is built on another BLAS")
    assert found["OpenBLAS"].startswith("1 thread, not to keep OpenMP waiting")
    alone = WORK.partition("; ft.set_num_threads")[0] + "\n"
    assert in_a_process("import numpy\n" + alone + STATES)["OpenBLAS"] == found["OpenBLAS"]
    found = in_a_process("import numpy\n" + WORK + STATES, OPENBLAS_THREAD_TIMEOUT="4")
    assert found["OpenBLAS"] == "2 threads, asleep between calls"


def test_blas_is_left_alone_without_a_kernel_library():
    found = in_a_process("import numpy\n" + WORK + STATES, FL_KERNEL_LIBRARIES="none")
    if "OpenBLAS" not in found:
        pytest.skip("NumPy is built on another BLAS")
    assert found["OpenBLAS"] == "2 threads" and "generated" not in found


FORK = """
import os
import fl_tensor as ft
x = ft.ones((300, 300))
x @ x
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, b"%d" % int((x @ x).sum().item()))
    os._exit(0)
os.close(write)
os.wait()
print(os.read(read, 100).decode())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_computes_as_its_parent():
    assert in_a_process(FORK) == 27_000_000


# ---- what is said --------------------------------------------------------------------------------


@pytest.fixture
def generated(monkeypatch):
    """The generated kernels alone are active."""
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "generated")
    return registry.load("generated")


def test_info_says_which_library_computes(generated, monkeypatch):
    monkeypatch.setattr(
        registry, "available", lambda: {"generated": "fl-jit", "acme": "acme-blas 2.0"}
    )
    figures = info.collect()
    (told,) = figures["kernel_libraries"]
    assert told["name"] == "generated" and "vectors" in told["report"]
    assert figures["unused"] == {"acme": "acme-blas 2.0"}
    assert "generated" in figures["threads"]["pools"]


def test_choices_are_printed(generated, monkeypatch, capsys):
    monkeypatch.setattr(type(generated), "choices", lambda self: "matmul: 6x4 (rule 3 us)")
    assert main(["info", "--choices"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("matmul: 6x4 (rule 3 us)\n\n")
    assert all(word in said for word in ("rule", "14x2", "epilogue"))
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "none")
    assert main(["info", "--choices"]) == 0
    assert capsys.readouterr().out == "nothing was measured yet\n"


def test_an_unknown_library_is_an_error_at_the_first_tensor_of_jit():
    code = "import fl_tensor as ft; ft.ones(2)"
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "fastest"}
    found = {}
    for backend in ("jit", "numpy"):
        found[backend] = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**env, "FL_TENSOR_BACKEND": backend},
        )
    assert found["jit"].returncode
    assert "FL_KERNEL_LIBRARIES=fastest: no kernel library" in found["jit"].stderr
    assert found["numpy"].returncode == 0, "which uses no kernel library"
