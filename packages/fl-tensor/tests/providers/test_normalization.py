"""Batch normalisation by a provider, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest

from fl_tensor.backends.providers import BatchNorm, BatchNormGradient

SHAPES = ((4, 6), (3, 5, 7), (2, 17, 4, 5), (2, 3, 3, 4, 2))
ORDERS = ("C", "last")
EPS = 1e-5


def beside(values, x):
    return values.reshape(1, -1, *(1 for _ in x.shape[2:]))


def over(x):
    return (0, *range(2, x.ndim))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_training_and_its_gradients(provider, run, layout, normal, unset, shape, relu, order):
    x, g = normal(*shape, order=order) * 2 + 1, normal(*shape, order=order)
    c = shape[1]
    weight, bias, mean, variance = normal(c), normal(c), unset(c), unset(c)
    out = unset(*shape, order=order)
    problem = BatchNorm(layout(x), layout(out), EPS, relu=relu)
    kernel = provider.find(problem)
    noted = [np.zeros(kernel.workspace, np.uint8)] if kernel.workspace else []
    assert bool(noted) == relu
    run(problem, x, weight, bias, mean, variance, *noted, out)

    wide = x.astype(float)
    close(mean, wide.mean(over(x)))
    close(variance, wide.var(over(x)))
    scale = 1 / np.sqrt(beside(wide.var(over(x)), x) + EPS)
    hat = (wide - beside(wide.mean(over(x)), x)) * scale
    plain = hat * beside(weight, x) + beside(bias, x)
    close(out, np.maximum(plain, 0) if relu else plain)

    dweight, dbias, dx = unset(c), unset(c), unset(*shape, order=order)
    problem = BatchNormGradient(layout(x), layout(g), layout(dx), EPS, relu=relu)
    run(problem, x, g, weight, mean, variance, *noted, dweight, dbias, dx)
    seen = g * (plain > 0) if relu else g
    close(dbias, seen.sum(over(x), dtype=float))
    close(dweight, (seen * hat).sum(over(x)))
    axes = over(x)
    centred = seen - seen.mean(axes, keepdims=True) - hat * (seen * hat).mean(axes, keepdims=True)
    close(dx, centred * scale * beside(weight, x))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_given_statistics(run, layout, normal, unset, shape, order):
    x, g = normal(*shape, order=order), normal(*shape, order=order)
    c = shape[1]
    weight, bias, mean, variance = normal(c), normal(c), normal(c), normal(c) ** 2 + 0.5
    out = unset(*shape, order=order)
    for relu in (False, True):
        problem = BatchNorm(layout(x), layout(out), EPS, training=False, relu=relu)
        run(problem, x, weight, bias, mean, variance, out)
        scale = 1 / np.sqrt(beside(variance.astype(float), x) + EPS)
        plain = (x - beside(mean, x)) * scale * beside(weight, x) + beside(bias, x)
        close(out, np.maximum(plain, 0) if relu else plain)
    dweight, dbias, dx = unset(c), unset(c), unset(*shape, order=order)
    problem = BatchNormGradient(layout(x), layout(g), layout(dx), EPS, training=False)
    run(problem, x, g, weight, mean, variance, dweight, dbias, dx)
    close(dx, g * scale * beside(weight, x))
    close(dbias, g.sum(over(x), dtype=float))


def test_a_fused_relu_has_no_gradient_outside_training(provider, layout, normal):
    x = normal(2, 3, 4)
    problem = BatchNormGradient(layout(x), layout(x), layout(x), EPS, training=False, relu=True)
    assert "in training alone" in provider.why_not(problem)
