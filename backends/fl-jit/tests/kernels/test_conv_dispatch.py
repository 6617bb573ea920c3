"""Descriptors of convolutions: a convolution is forward, whatever its sizes; its gradients
are dgrad and wgrad."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, registry
from fl_jit.kernels.llvm.library import GeneratedKernels

ONE, AROUND = (1, 1), ((1, 1), (1, 1))
#: x, w, stride, padding, kernel dilation, groups
CASES = {
    "plain": ((2, 8, 14, 15), (16, 8, 3, 3), ONE, AROUND, ONE, 1),
    "one by one": ((2, 8, 14, 15), (16, 8, 1, 1), ONE, ((0, 0), (0, 0)), ONE, 1),
    "strided": ((2, 8, 14, 15), (16, 8, 3, 2), (2, 3), ((0, 1), (1, 0)), (2, 1), 1),
    "groups": ((2, 8, 14, 15), (16, 2, 3, 3), ONE, AROUND, ONE, 4),
    "depthwise": ((2, 16, 14, 15), (16, 1, 3, 3), ONE, AROUND, ONE, 16),
    "unseen": ((2, 8, 14, 15), (16, 8, 3, 3), (3, 4), ((0, 0), (0, 0)), ONE, 1),
    "line": ((2, 8, 60), (16, 8, 5), (1,), ((4, 0),), (1,), 1),
    "larger than the result": ((8, 6, 14, 15), (16, 6, 12, 13), ONE, AROUND, ONE, 1),
    "all of the image": ((8, 6, 7, 7), (16, 6, 7, 7), ONE, ((0, 0), (0, 0)), ONE, 1),
    "patches": ((2, 3, 32, 32), (16, 3, 8, 8), (8, 8), ((0, 0), (0, 0)), ONE, 1),
}


@pytest.fixture(params=["at once", "in plans"])
def requested(request, monkeypatch):
    """The descriptors that `jit` requested of the generated kernels."""
    generated, found = GeneratedKernels(), []
    find = generated.find
    monkeypatch.setattr(
        generated, "find", lambda descriptor: found.append(descriptor) or find(descriptor)
    )
    monkeypatch.setattr(registry, "is_for_everything", lambda: True)
    monkeypatch.setattr(registry, "active_library", lambda: generated)
    backend = request.getfixturevalue("at_once") if request.param == "at once" else JitBackend()
    if request.param == "in plans":
        backend.smallest, backend.plans.policy.patience = 1, 0
        backend.plans.compile_after, backend.plans.background = 1, False
    with ft.use(backend):
        yield found


def agrees(operation, *arguments):
    """Computes, and compares with what NumPy computes in float64."""
    values = [v for v in arguments if isinstance(v, np.ndarray)]
    rest = arguments[len(values) :]
    found = operation(*map(ft.asarray, values), *rest).numpy()
    with ft.use("numpy"):
        wanted = operation(*[ft.asarray(v.astype(float)) for v in values], *rest).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    return found


def kinds(descriptors):
    return {type(descriptor) for descriptor in descriptors}


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_and_its_gradients(requested, normal, name):
    x_shape, w_shape, stride, padding, dilation, groups = CASES[name]
    rest = stride, padding, (1,) * len(stride), dilation, groups
    x, w = normal(*x_shape), normal(*w_shape)
    g = normal(*agrees(ft.conv, x, w, *rest).shape)
    assert kinds(requested) == {Convolution}
    del requested[:]
    agrees(ft.conv_data_gradient, g, w, x_shape, *rest)
    assert kinds(requested) == {ConvDataGrad}
    del requested[:]
    agrees(ft.conv_weight_gradient, g, x, w_shape, *rest)
    assert kinds(requested) == {ConvWeightGrad}


def test_a_kernel_that_runs_backwards_is_still_a_convolution(requested, normal):
    x, w = normal(2, 16, 14, 15), normal(8, 16, 3, 3)
    agrees(lambda x, w: ft.conv(x, ft.flip(w, (2, 3)), padding=1), x, w)
    assert kinds(requested) == {Convolution}


def test_a_convolution_of_a_dilated_input_is_a_transposed_one(requested, normal):
    agrees(ft.conv, normal(2, 8, 7, 8), normal(16, 8, 3, 3), 1, 1, (2, 3))
    assert kinds(requested) == {ConvDataGrad}


def test_the_gradients_of_a_transposed_convolution_are_convolutions(requested, normal):
    x, w, g = normal(2, 8, 7, 8), normal(16, 8, 3, 3), normal(2, 16, 13, 15)
    agrees(ft.conv_data_gradient, g, w, x.shape, 1, 1, 2)
    assert kinds(requested) == {Convolution}
    agrees(ft.conv_weight_gradient, g, x, w.shape, 1, 1, 2)


@pytest.mark.parametrize(
    "size, kernel, padding",
    [(9, 3, (-2, 1)), (9, 3, (1, -3)), (9, 3, (5, 4)), (3, 2, (6, -4)), (3, 4, (9, -7))],
)
def test_gradients_where_elements_are_cropped_or_see_padding_alone(
    requested, normal, size, kernel, padding
):
    x, w = normal(2, 4, size), normal(4, 4, kernel)
    g = normal(*agrees(ft.conv, x, w, 1, (padding,)).shape)
    agrees(ft.conv_data_gradient, g, w, x.shape, 1, (padding,))
    agrees(ft.conv_weight_gradient, g, x, w.shape, 1, (padding,))


@pytest.mark.parametrize("requested", ["in plans"], indirect=True)
def test_elementwise_work_on_a_gradient_of_data_is_its_epilogue(requested, normal):
    g, w = normal(2, 24, 14, 15), normal(24, 16, 3, 3)
    agrees(lambda g, w: ft.relu(ft.conv_data_gradient(g, w, (2, 16, 14, 15), padding=1)), g, w)
    assert kinds(requested) == {ConvDataGrad}
    assert requested[-1].epilogue is not None
