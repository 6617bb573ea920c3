"""Gradients of convolutions reach a kernel library as such, and are what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

#: x, w, stride, padding, kernel dilation, groups
CASES = {
    "plain": ((4, 8, 16, 17), (12, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one by one": ((4, 32, 12, 13), (24, 32, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "strided": ((4, 8, 16, 17), (16, 8, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    "remainder": ((4, 8, 17, 18), (16, 8, 3, 4), (3, 2), ((1, 0), (1, 1)), (1, 1), 1),
    "dilated": ((4, 8, 16, 17), (16, 8, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 1),
    "groups": ((4, 16, 16, 17), (32, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    "line": ((4, 16, 100), (32, 16, 5), (2,), ((2, 2),), (1,), 1),
}

kernels = pytest.importorskip("fl_jit.kernels", reason="jit has kernel libraries")
registry = kernels.registry
Convolution, ConvDataGrad = kernels.Convolution, kernels.ConvDataGrad
ConvWeightGrad = kernels.ConvWeightGrad


@pytest.fixture
def asked(monkeypatch):
    """The descriptors that the active kernel library computed for `jit`."""
    library = registry.active_library()
    if library is None:
        pytest.skip("FL_KERNEL_LIBRARIES turns kernel libraries off")
    solved = []
    find = library.find

    def watched(problem):
        kernel = find(problem)
        if kernel is not None:
            solved.append(type(problem))
        return kernel

    monkeypatch.setattr(library, "find", watched)
    with ft.use("jit"):
        yield solved


def gradients(x, w, *options):
    x, w = (ag.Variable(ft.asarray(value), requires_grad=True) for value in (x, w))
    stride, padding, dilation, groups = options
    y = ft.conv(x, w, stride, padding, (1,) * len(stride), dilation, groups)
    (y * y).sum().backward()
    return y.numpy(), x.grad.numpy(), w.grad.numpy()


@pytest.mark.parametrize("name", CASES)
def test_gradients(asked, name):
    x_shape, w_shape, *options = CASES[name]
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in (x_shape, w_shape))
    found = gradients(x, w, *options)
    kinds = set(asked)
    expected = gradients(x.astype(float), w.astype(float), *options)  # float64 is NumPy's
    for ours, wanted in zip(found, expected):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    assert kinds == {Convolution, ConvDataGrad, ConvWeightGrad}
