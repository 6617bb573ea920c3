"""Plans of `jit` with a kernel library: images keep channels last between kernels."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, registry


@pytest.fixture
def requested(library, monkeypatch):
    """The descriptors that were requested of the library; plans are made in the foreground."""
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    found = []
    find = library.find
    monkeypatch.setattr(registry, "is_for_everything", lambda: False)
    monkeypatch.setattr(
        library, "find", lambda descriptor: found.append(descriptor) or find(descriptor)
    )
    monkeypatch.setattr(registry, "active_library", lambda: library)
    return found


def network(x, w, weight, bias, u):
    """Convolution, batch normalisation, ReLU, pooling, convolution, and gradients."""
    spatial, ones = (0, 2, 3), (1, -1, 1, 1)
    y = ft.conv(x, w, padding=1)
    mean = ft.mean(y, spatial, keepdims=True)
    centred = y - mean
    scale = ft.rsqrt(ft.mean(centred * centred, spatial, keepdims=True) + 1e-5)
    z = ft.relu(centred * scale * ft.reshape(weight, ones) + ft.reshape(bias, ones))
    pooled = ft.max_pool(z, 3, 2, 1)
    out = ft.conv(pooled, u, stride=2)
    gradient = out * 0.01
    to_pooled = ft.conv_data_gradient(gradient, u, pooled.shape, 2)
    to_z = ft.max_pool_gradient(to_pooled, z, 3, 2, 1) * (z > 0.0)
    to_w = ft.conv_weight_gradient(to_z, x, w.shape, padding=1)
    return ft.mean(out), ft.sum(to_z, spatial), w - 0.1 * to_w, out


@pytest.fixture
def operands(normal):
    shapes = (4, 16, 32, 32), (24, 16, 3, 3), (24,), (24,), (32, 24, 3, 3)
    return [normal(*shape) for shape in shapes]


def results(values):
    return [np.asarray(v) for v in network(*map(ft.asarray, values))]


def test_a_plan_computes_what_numpy_computes(requested, operands):
    with ft.use("numpy"):
        wanted = results([v.astype(np.float64) for v in operands])
    with ft.use(JitBackend()):
        for _ in range(3):
            for found, expected in zip(results(operands), wanted, strict=True):
                error = np.abs(found - expected).max()
                assert error <= 2e-5 * np.abs(expected).max()


def test_images_stay_channels_last_and_weights_in_c_order(requested, operands):
    with ft.use(JitBackend()):
        for _ in range(3):
            results(operands)
    # The last requests are those of the plan, which binds its kernels.
    first, second = [p for p in requested if isinstance(p, Convolution)][-2:]
    data = [p for p in requested if isinstance(p, ConvDataGrad)][-1]
    weights = [p for p in requested if isinstance(p, ConvWeightGrad)][-1]
    lain = [first.out, second.x, second.out, data.gradient, data.out, weights.gradient]
    assert [image.strides[1] for image in lain] == [1] * 6
    assert weights.out.strides == (16 * 9, 9, 3, 1)
