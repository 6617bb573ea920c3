"""A step of training of BatchNorm on the numpy backend reaches oneDNN, where that is installed."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.backends.providers import ProviderError, choose


@pytest.fixture
def solved(monkeypatch):
    """The kinds of problems that oneDNN solved, which serves the numpy backend."""
    try:
        offered = choose.found()[0]
    except ProviderError as error:
        pytest.skip(str(error))
    (provider,) = [p for p in offered if p.name == "oneDNN"] or [None]
    if provider is None:
        pytest.skip("oneDNN does not serve this process")
    kinds, find = [], provider.find

    def watched(problem):
        kernel = find(problem)
        if kernel is not None:
            kinds.append(type(problem).__name__)
        return kernel

    monkeypatch.setattr(provider, "find", watched)
    return kinds


def step(backend, dtype, values, shape, affine):
    """Results, running statistics and gradients of one step; the axis of features is the last."""
    with ft.use(backend):
        layer = nn.BatchNorm(shape[-1], -1, affine=affine, dtype=dtype)
        x = ag.Variable(ft.asarray(values, dtype), requires_grad=True)
        y = layer(x)
        (y * y * y).mean().backward()
        found = [y, layer.running_mean, layer.running_var, x.grad]
        found += [p.grad for p in layer.parameters()]
        return [v.numpy() for v in found]


@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("shape", [(96, 64), (4, 12, 13, 16)], ids=["rows", "channels last"])
def test_a_step_is_a_kernel_forwards_and_one_backwards(solved, shape, affine):
    values = np.random.default_rng(5).standard_normal(shape) * 3 + 2
    found = step("numpy", ft.float32, values, shape, affine)
    assert solved == ["BatchNorm", "BatchNormGradient"]
    exact = step("numpy", ft.float64, values, shape, affine)
    assert len(solved) == 2, "float64 is NumPy's"
    for ours, wanted in zip(found, exact, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=1e-6)


def test_a_first_layer_needs_no_gradient_of_its_input(solved):
    x = np.random.default_rng(5).standard_normal((96, 64)).astype("f")
    with ft.use("numpy"):
        layer = nn.BatchNorm(64)
        (layer(ft.asarray(x)) * ft.asarray(x)).sum().backward()
    unit = (x - x.mean(0)) / np.sqrt(x.var(0) + layer.eps)
    np.testing.assert_allclose(layer.weight.grad.numpy(), (x * unit).sum(0), rtol=1e-4)
    np.testing.assert_allclose(layer.bias.grad.numpy(), x.sum(0), rtol=1e-4, atol=1e-4)
    assert solved == ["BatchNorm"]
