"""Compiled steps of small convolutional networks on jit, beside eager steps on numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft

pytest.importorskip("fl_jit")

CLASSES = 5


def network(channels, kernel, stride, groups, pool, norm):
    width = channels * groups
    layers = [nn.Conv2D(4, width, kernel, stride=stride, padding=kernel // 2), nn.ReLU()]
    layers += [nn.BatchNorm(width)] if norm else []
    layers += [nn.Conv2D(width, width, 3, padding=1, groups=groups), nn.ReLU()]
    layers += [nn.Pool2D(3, 2) if pool == "max" else nn.Pool2D(2, mode="avg")]
    layers += [nn.Conv2D(width, 4, 1), nn.Flatten()]
    body = nn.Sequential(*layers)
    features = body(ft.zeros((1, 4, 15, 15))).shape[1]
    return nn.Sequential(body, nn.Linear(features, CLASSES))


def losses(backend, compiled, settings):
    with ft.use(backend):
        ft.seed(3)
        model = network(*settings)
        optimizer = nn.SGD(model.parameters(), 0.05, momentum=0.9)
        data = ft.Generator(1)
        batches = [(data.normal((4, 4, 15, 15)), data.integers(0, CLASSES, (4,))) for _ in range(2)]

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        call = nn.compile(step, strict=True) if compiled else step
        return [call(*batches[i % 2]).item() for i in range(8)]


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("pool", ["max", "avg"])
@pytest.mark.parametrize(
    "channels, kernel, stride, groups", [(6, 3, 1, 1), (8, 5, 2, 1), (16, 3, 1, 1), (1, 3, 1, 6)]
)
def test_losses_equal_those_of_numpy(channels, kernel, stride, groups, pool, norm):
    settings = channels, kernel, stride, groups, pool, norm
    eager, compiled = losses("numpy", False, settings), losses("jit", True, settings)
    np.testing.assert_allclose(compiled, eager, rtol=2e-4)
