"""Pooling by a provider, and its gradient."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fl_jit.kernels import Pooling, PoolingGradient

#: x, window, stride, padding
CASES = {
    "two by two": ((2, 3, 6, 8), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "overlapping": ((2, 17, 9, 7), (3, 2), (2, 1), ((1, 1), (0, 1))),
    "asymmetric": ((1, 16, 7, 8), (3, 3), (2, 2), ((0, 2), (1, 0))),
    "line": ((2, 5, 11), (3,), (2,), ((1, 1),)),
    "space": ((1, 4, 5, 4, 6), (2, 2, 3), (2, 1, 2), ((0, 0), (1, 0), (1, 1))),
}
ORDERS = ("C", "last")


def parts(case, padded):
    """The elements of the padded input at each place of the windows, in C order."""
    (_, _, *size), window, stride, padding = case
    out = [(n + sum(p) - k) // s + 1 for n, k, s, p in zip(size, window, stride, padding)]
    for place in itertools.product(*map(range, window)):
        cut = tuple(slice(p, p + s * (n - 1) + 1, s) for p, s, n in zip(place, stride, out))
        yield padded[(slice(None), slice(None), *cut)]


def padded(case, x, fill):
    return np.pad(x.astype(float), ((0, 0), (0, 0), *case[3]), constant_values=fill)


def pooled(case, x, kind):
    if kind == "max":
        return np.max(list(parts(case, padded(case, x, -np.inf))), 0)
    total = np.sum(list(parts(case, padded(case, x, 0))), 0)
    inside = np.sum(list(parts(case, padded(case, np.ones_like(x), 0))), 0)
    return total / (np.prod(case[1]) if kind == "mean" else inside)


def gradient(case, x, g, kind):
    whole = padded(case, np.zeros_like(x), 0)
    maxima = pooled(case, x, "max")
    inside = np.sum(list(parts(case, padded(case, np.ones_like(x), 0))), 0)
    free = np.ones(g.shape, bool)
    for target, values in zip(parts(case, whole), parts(case, padded(case, x, -np.inf))):
        if kind == "max":
            first = free & (values == maxima)
            free &= ~first
            target += np.where(first, g, 0)
        else:
            target += g / (np.prod(case[1]) if kind == "mean" else inside)
    cut = tuple(slice(low, low + n) for (low, _), n in zip(case[3], x.shape[2:]))
    return whole[(slice(None), slice(None), *cut)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["max", "mean", "mean_inside"])
@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradient(provider, run, layout, normal, unset, name, kind, order):
    case = CASES[name]
    shape, *window = case
    x = normal(*shape, order=order)
    expected = pooled(case, x, kind)
    out = unset(*expected.shape, order=order)
    run(Pooling(layout(x), layout(out), *window, kind), x, out)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)

    g, dx = normal(*expected.shape, order=order), unset(*shape, order=order)
    between = []
    if kind == "max":
        descriptor = Pooling(layout(x), layout(out), *window, kind, workspace=True)
        noted = np.zeros(provider.find(descriptor).workspace, np.uint8)
        run(descriptor, x, noted, out)
        between.append(noted)
    run(PoolingGradient(layout(g), layout(dx), *window, kind), g, *between, dx)
    np.testing.assert_allclose(dx, gradient(case, x, g, kind), rtol=1e-5, atol=1e-6)


def test_the_first_of_equal_maxima_gets_the_share(provider, run, layout, unset):
    x = np.ones((1, 1, 4, 4), np.float32)
    window = (2, 2), (2, 2), ((0, 0), (0, 0))
    out, g, dx = unset(1, 1, 2, 2), np.full((1, 1, 2, 2), 3, np.float32), unset(1, 1, 4, 4)
    descriptor = Pooling(layout(x), layout(out), *window, workspace=True)
    noted = np.zeros(provider.find(descriptor).workspace, np.uint8)
    run(descriptor, x, noted, out)
    run(PoolingGradient(layout(g), layout(dx), *window), g, noted, dx)
    expected = np.zeros((4, 4))
    expected[::2, ::2] = 3
    np.testing.assert_array_equal(dx[0, 0], expected)


def test_kinds_that_are_none_are_refused(provider, layout, normal, unset):
    x, out = normal(1, 1, 4), unset(1, 1, 2)
    descriptor = Pooling(layout(x), layout(out), (2,), (2,), ((0, 0),), "median")
    assert "median" in provider.why_not(descriptor) and "mean_inside" in provider.why_not(
        descriptor
    )
