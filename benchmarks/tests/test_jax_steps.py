"""The models of `static_steps.py` in JAX are ours."""

from __future__ import annotations

import numpy as np
import pytest
import static_steps

import fl_nn as nn
import fl_tensor as ft

jax = pytest.importorskip("jax")
import _jax_steps  # noqa: E402 - JAX is there

BATCH, STEPS = 3, 2


def as_in_jax(array):
    """An array of ours in the layout that it has in JAX."""
    values = np.asarray(array.numpy())
    if values.shape == (128, 64 * 7 * 7):  # it reads images, whose channels are last there
        return values.reshape(128, 64, 7 * 7).transpose(2, 1, 0).reshape(-1, 128)
    return values.transpose(2, 3, 1, 0) if values.ndim == 4 else values.T


@pytest.mark.parametrize("case", static_steps.CASES)
def test_parameters_are_those_of_ours(case):
    ours = {name: as_in_jax(p).shape for name, p in static_steps.ours(case).named_parameters()}
    theirs = _jax_steps.parameters_of(case, jax.random.key(0))
    assert {name: p.shape for name, p in theirs.items()} == ours


@pytest.mark.parametrize("case", static_steps.CASES)
def test_steps_have_the_losses_and_parameters_of_ours(case):
    ft.seed(0)
    model = static_steps.ours(case)
    optimizer = nn.SGD(model.parameters(), static_steps.LR, momentum=static_steps.MOMENTUM)
    shape, classes = static_steps.BATCHES[case]
    data = ft.Generator(1)
    x, y = data.normal((BATCH, *shape[1:])), data.integers(0, classes, (BATCH,))

    parameters = {name: jax.numpy.array(as_in_jax(p)) for name, p in model.named_parameters()}
    velocity = jax.tree.map(jax.numpy.zeros_like, parameters)
    batch = jax.numpy.array(x.numpy()), jax.numpy.array(y.numpy())
    step = _jax_steps.compiled_step(case, static_steps.LR, static_steps.MOMENTUM)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        theirs, parameters, velocity = step(parameters, velocity, *batch)
        assert float(theirs) == pytest.approx(loss.item(), rel=1e-4)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameters[name], as_in_jax(parameter), rtol=1e-4, atol=1e-6)


def test_a_worker_has_steps_in_jax(monkeypatch):
    made = []
    monkeypatch.setattr(_jax_steps, "jax_step", lambda *given: made.append(given) or list)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert static_steps.warm("jax.jit", "tiny") is list
    assert made == [("tiny", (4, 16), 16, static_steps.LR, static_steps.MOMENTUM)]
