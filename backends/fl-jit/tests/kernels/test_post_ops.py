"""Plans hand a bias and an activation to oneDNN with the product or the convolution before it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import registry
from fl_jit.kernels.fallback import FallbackChain


@pytest.fixture
def served(provider, monkeypatch):
    """The provider serves plans, made at once; its kernels that were called, as watchers see it."""
    for name, value in (("COMPILE_AFTER", "1"), ("MIN_SIZE", "1"), ("BACKGROUND", "0")):
        monkeypatch.setenv(f"FL_JIT_{name}", value)
    monkeypatch.setattr(registry, "is_for_everything", lambda: False)
    monkeypatch.setattr(registry, "active_library", lambda: provider)
    found = []

    def watch(by, kernel):
        assert by is provider
        found.append(kernel)

    monkeypatch.setattr(registry, "watchers", [watch])
    return found


def planned(function, *operands):
    """What a plan of it computes, and its steps, each as the operations in it."""
    backend = JitBackend()
    with ft.use(backend):
        found = function(*map(ft.asarray, operands))
        ft.eval(found)
        found = found.numpy()
    (plan,) = backend.plans.entries()
    return found, [[node.op for node in step.nodes] for step in plan.steps]


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6 * np.abs(expected).max())


#: As users write them, and in float64.
ACTIVATIONS = {
    "none": (lambda v: v, lambda v: v),
    "relu": (ft.relu, lambda v: np.maximum(v, 0)),
    "tanh": (ft.tanh, np.tanh),
    "sigmoid": (ft.sigmoid, lambda v: 1 / (1 + np.exp(-v))),
    "gelu_tanh": (
        lambda v: ft.gelu(v, approximate="tanh"),
        lambda v: v / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    ),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(70, 80), (4, 30, 80), (33, 500)])
def test_bias_and_activation_of_a_product(served, normal, activation, shape):
    ours, exact = ACTIVATIONS[activation]
    x, w, b = normal(*shape), normal(shape[-1], 96) / 8, normal(96)
    found, steps = planned(lambda x, w, b: ours(x @ w + b), x, w, b)
    agree(found, exact(x.astype(float) @ w + b))
    (kernel,) = served
    assert len(kernel.operands) == 4 and kernel.operands[2].shape[-1] == 96
    assert len(steps) == 1, "one step computes all of it"


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "none"])
def test_an_activation_alone(served, normal, activation):
    ours, exact = ACTIVATIONS[activation]
    x, w = normal(70, 80), normal(80, 96) / 8
    found, steps = planned(lambda x, w: ours(x @ w), x, w)
    agree(found, exact(x.astype(float) @ w))
    assert [len(kernel.operands) for kernel in served] == [3] and len(steps) == 1


@pytest.mark.parametrize("activation", ["none", "relu", "tanh", "gelu_tanh"])
def test_bias_and_activation_of_a_convolution(served, normal, activation):
    ours, exact = ACTIVATIONS[activation]
    x, w, b = normal(2, 12, 14, 15), normal(20, 12, 3, 3) / 8, normal(20)
    plain, _ = planned(
        lambda x, w: ft.conv(x, w, padding=1), x.astype(np.float64), w.astype(np.float64)
    )
    found, steps = planned(
        lambda x, w, b: ours(ft.conv(x, w, padding=1) + ft.reshape(b, (1, -1, 1, 1))), x, w, b
    )
    agree(found, exact(plain + b.reshape(1, -1, 1, 1)))
    (kernel,) = served
    assert kernel.operands[2].shape == (20,)
    assert any("conv" in step and len(step) > 1 for step in steps)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_and_infinity_stay(served, normal, activation):
    ours, exact = ACTIVATIONS[activation]
    x, w, b = normal(70, 80), np.eye(80, 96, dtype=np.float32), normal(96)
    x[3, 5] = np.nan
    b[7], b[8] = np.nan, np.inf
    found, _ = planned(lambda x, w, b: ours(x @ w + b), x, w, b)
    expected = exact(x.astype(float) @ w + b)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(served) == 1 and np.isnan(found[3]).all() and np.isnan(found[:, 7]).all()


REFUSED = {
    "another bound": (
        lambda x, w, b: ft.maximum(x @ w + b, 0.1),
        lambda p, b: np.maximum(p + b, 0.1),
    ),
    "scaled": (lambda x, w, b: (x @ w) * 0.5 + b, lambda p, b: p * 0.5 + b),
    "a bias along rows": (
        lambda x, w, b: ft.tanh(x @ w + ft.reshape(b, (96, 1))),
        lambda p, b: np.tanh(p + b[:, None]),
    ),
    "bias after": (lambda x, w, b: ft.tanh(x @ w) + b, lambda p, b: np.tanh(p) + b),
    "sine": (lambda x, w, b: ft.sin(x @ w + b), lambda p, b: np.sin(p + b)),
    "erf": (
        lambda x, w, b: ft.gelu(x @ w + b),
        lambda p, b: (p + b) / 2 * (1 + np.vectorize(math.erf)((p + b) / math.sqrt(2))),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_name_follows_in_a_kernel_of_its_own(served, normal, name):
    ours, exact = REFUSED[name]
    x, w, b = normal(96, 80), normal(80, 96) / 8, normal(96)
    found, _ = planned(ours, x, w, b)
    agree(found, exact(x.astype(float) @ w, b))
    assert [len(kernel.operands) for kernel in served] == [3], "the product alone"


def test_a_product_that_is_read_besides_has_no_name(served, normal):
    x, w, b = normal(70, 80), normal(80, 96) / 8, normal(96)

    def layer(x, w, b):
        product = x @ w
        return ft.stack([ft.tanh(product + b), product])

    found, _ = planned(layer, x, w, b)
    plain = x.astype(float) @ w
    agree(found, np.stack([np.tanh(plain + b), plain]))
    assert [len(kernel.operands) for kernel in served] == [3]


def test_the_first_of_several_that_can_is_asked(served, provider, normal, monkeypatch):
    from fl_jit.kernels.llvm.library import GeneratedKernels

    x, w, b = normal(70, 80), normal(80, 96) / 8, normal(96)
    generated = GeneratedKernels()
    for providers in ((provider, generated), (generated, provider)):
        seen = []
        monkeypatch.setattr(registry, "active_library", lambda some=providers: FallbackChain(some))
        monkeypatch.setattr(registry, "watchers", [lambda by, kernel, seen=seen: seen.append(by)])
        found, steps = planned(lambda x, w, b: ft.relu(x @ w + b), x, w, b)
        agree(found, np.maximum(x.astype(float) @ w + b, 0))
        assert seen == [providers[0]] and len(steps) == 1
