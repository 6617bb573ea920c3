"""Interpolation: known values, identities of each mode, gradients, and refused settings."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

LINE = ft.asarray([[[0.0, 4.0, 8.0]]])
IMAGE = (2, 3, 5, 6)


def image(dtype: str = "float64") -> ft.Tensor:
    return ft.randn(IMAGE, ft.Generator(3), dtype=ft.dtype(dtype))


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"scale_factor": 2}, [0, 0, 4, 4, 8, 8]),
        ({"size": 2}, [0, 4]),
        ({"size": 2, "mode": "nearest-exact"}, [0, 8]),
        ({"size": 4, "mode": "nearest-exact"}, [0, 4, 4, 8]),
        ({"size": 4}, [0, 0, 4, 8]),
        ({"scale_factor": 2, "mode": "linear"}, [0, 1, 3, 5, 7, 8]),
        ({"size": 5, "mode": "linear", "align_corners": True}, [0, 2, 4, 6, 8]),
        ({"size": 2, "mode": "area"}, [2, 6]),
        ({"size": 2, "mode": "linear"}, [1, 7]),
        ({"size": 6, "mode": "linear"}, [0, 1, 3, 5, 7, 8]),
        # 3 * 1.5 is rounded down to 4: positions by the factor, or by the sizes.
        ({"scale_factor": 1.5, "mode": "linear"}, [0, 2, 14 / 3, 22 / 3]),
        (
            {"scale_factor": 1.5, "mode": "linear", "recompute_scale_factor": True},
            [0, 2.5, 5.5, 8],
        ),
    ],
)
def test_values_of_a_short_sequence(options, expected):
    assert nn.interpolate(LINE, **options).flatten().tolist() == pytest.approx(expected)


@needs("float64")
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_constants_stay(mode, antialias):
    flat = ft.full(IMAGE, 2.5, ft.float64)
    for size in ((9, 4), (2, 13), 1):
        small = nn.interpolate(flat, size, mode=mode, antialias=antialias)
        assert np.allclose(small.numpy(), 2.5, rtol=1e-12)


@needs("float64")
def test_cubic_with_antialias_reproduces_straight_lines_inside():
    # Keys' kernel does so with a = -0.5 alone.
    x = ft.arange(12, dtype=ft.float64).reshape((1, 1, 1, 12))
    y = nn.interpolate(x, (1, 24), mode="bicubic", antialias=True).flatten().numpy()
    places = (np.arange(24) + 0.5) / 2 - 0.5
    inside = (places >= 1) & (places <= 10)
    assert np.allclose(y[inside], places[inside], atol=1e-12)


@needs("float64")
def test_antialias_reads_every_element_where_the_size_shrinks():
    v = ag.Variable(ft.zeros((1, 1, 1, 32), ft.float64), requires_grad=True)
    nn.interpolate(v, (1, 4), mode="bilinear", antialias=True).sum().backward()
    assert min(v.grad.flatten().tolist()) > 0.0
    v.zero_grad()
    nn.interpolate(v, (1, 4), mode="bilinear").sum().backward()
    assert v.grad.flatten().tolist().count(0.0) == 24


@needs("float64")
@pytest.mark.parametrize(
    "size, mode, options",
    [
        ((7, 3), "nearest", {}),
        ((10, 12), "nearest-exact", {}),
        ((7, 3), "bilinear", {"align_corners": True}),
        ((3, 9), "bicubic", {"antialias": True}),
        ((4, 2), "area", {}),
    ],
)
def test_gradients_of_both_orders(size, mode, options):
    ag.check_grads(lambda x: nn.interpolate(x, size, mode=mode, **options), (image(),), order=2)


@needs("float64")
def test_long_axes_have_the_same_meaning():
    # A matrix of 600 by 500 weights is not built: the elements are gathered.
    x = ft.randn((1, 2, 600), ft.Generator(1), dtype=ft.float64)
    y = nn.interpolate(x, 500, mode="linear").numpy()
    places = np.clip((np.arange(500) + 0.5) * 600 / 500 - 0.5, 0, None)
    expected = [np.interp(places, np.arange(600), row) for row in x.numpy()[0]]
    assert np.allclose(y[0], expected, atol=1e-12)


def test_nearest_takes_integers_and_keeps_the_dtype():
    y = nn.interpolate(ft.asarray([[[1, 2, 3]]]), 6)
    assert y.dtype is ft.int64 and y.flatten().tolist() == [1, 1, 2, 2, 3, 3]


@needs("float16")
def test_half_precision_is_computed_in_float32():
    x = image("float32").astype(ft.float16)
    y = nn.interpolate(x, (3, 3), mode="bicubic")
    wide = nn.interpolate(x.astype(ft.float32), (3, 3), mode="bicubic")
    assert y.dtype is ft.float16 and y.tolist() == wide.astype(ft.float16).tolist()


def test_upsample_is_interpolate_as_a_layer():
    x = image("float32")
    layer = nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear", align_corners=True)
    y = nn.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear", align_corners=True)
    assert layer(x).tolist() == y.tolist()
    assert repr(layer) == "Upsample(scale_factor=(2.0, 1.5), mode='bilinear')"
    assert nn.from_config(layer.to_config())(x).tolist() == y.tolist()


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "give one of the two"),
        ({"size": 3, "scale_factor": 2}, "give one of the two"),
        ({"size": 3, "mode": "lanczos"}, "mode 'lanczos': expected 'nearest'"),
        ({"size": 3, "align_corners": True}, "mode 'nearest' has none"),
        ({"size": 3, "antialias": True}, "mode 'nearest' has none; bilinear, bicubic do"),
        ({"size": 3, "recompute_scale_factor": True}, "needs a scale_factor"),
        ({"scale_factor": -1.0}, "give numbers above 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(options, words):
    with pytest.raises(ft.ArgumentError, match=words):
        nn.interpolate(image("float32"), **options)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"size": 3, "mode": "linear"}, r"mode 'linear' takes \(N, C, length\)"),
        ({"size": (3, 3, 3)}, "one int for each of 2 axes"),
        ({"scale_factor": (2.0,)}, "one for each of 2 axes"),
        ({"scale_factor": 0.1}, r"would become \(0, 0\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ft.ShapeError, match=words):
        nn.interpolate(image("float32"), **options)


def test_smooth_modes_take_floating_dtypes():
    with pytest.raises(ft.DTypeError, match="int64: mode 'linear' takes a floating dtype"):
        nn.interpolate(ft.asarray([[[1, 2]]]), 4, mode="linear")


def test_upsample_refuses_settings_where_it_is_built():
    with pytest.raises(nn.ModuleError, match=r"\[Upsample\] antialias=True"):
        nn.Upsample(3, antialias=True)
