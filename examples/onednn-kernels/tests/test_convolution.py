"""Convolutions by oneDNN, and both gradients, against loops over the kernel's places."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from convolution_cases import Case

from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, Packed, Reorder, any_layout
from fl_tensor.dtypes import float32

CASES = {
    "plain": Case(2, 8, 16, (10, 11), (3, 3), padding=((1, 1), (1, 1))),
    "odd sizes": Case(3, 5, 7, (9, 7), (2, 3)),
    "one by one": Case(2, 17, 33, (6, 5), (1, 1)),
    "strided": Case(2, 3, 16, (15, 14), (5, 3), (2, 3), ((2, 2), (1, 1))),
    "asymmetric": Case(1, 4, 8, (8, 9), (3, 4), (1, 2), ((0, 2), (3, 1))),
    "dilated": Case(2, 6, 10, (13, 12), (3, 3), (1, 1), ((2, 2), (4, 4)), (2, 3)),
    "remainder": Case(1, 4, 4, (8, 9), (3, 3), (3, 2), ((0, 0), (1, 1))),
    "groups": Case(2, 12, 8, (7, 8), (3, 3), padding=((1, 1), (1, 1)), groups=4),
    "depthwise": Case(2, 24, 24, (9, 9), (3, 3), (2, 2), ((1, 1), (1, 1)), groups=24),
    "line": Case(2, 6, 9, (31,), (5,), (2,), ((2, 2),), (1,)),
    "space": Case(1, 3, 4, (5, 6, 7), (2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (0, 0)), (1, 1, 2)),
    "one channel": Case(1, 1, 1, (4, 4), (2, 2)),
}
ORDERS = ("C", "last")


def places(case, padded):
    """(place in the kernel, the part of the padded input that it meets)."""
    for place in itertools.product(*map(range, case.kernel)):
        parts = zip(place, case.dilation, case.stride, case.out)
        cut = tuple(slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in parts)
        yield place, padded[(slice(None), slice(None), *cut)]


def pad(case, x):
    return np.pad(x.astype(float), ((0, 0), (0, 0), *case.padding))


def grouped(case, x):
    return x.reshape(x.shape[0], case.groups, -1, *x.shape[2:])


def forward(case, x, w):
    w = w.astype(float).reshape(case.groups, -1, *w.shape[1:])
    out = 0.0
    for place, part in places(case, pad(case, x)):
        factors = w[(slice(None), slice(None), slice(None), *place)]
        out = out + np.einsum("bgc...,gfc->bgf...", grouped(case, part), factors)
    return out.reshape(case.shapes[2])


def data_gradient(case, g, w):
    w = w.astype(float).reshape(case.groups, -1, *w.shape[1:])
    padded = np.zeros(pad(case, np.zeros(case.shapes[0])).shape)
    for place, part in places(case, padded):
        factors = w[(slice(None), slice(None), slice(None), *place)]
        share = np.einsum("bgf...,gfc->bgc...", grouped(case, g.astype(float)), factors)
        part += share.reshape(part.shape)
    cut = tuple(slice(low, low + n) for (low, _), n in zip(case.padding, case.size))
    return padded[(slice(None), slice(None), *cut)]


def weights_gradient(case, x, g):
    out = np.zeros((case.groups, case.features // case.groups, *case.shapes[1][1:]))
    for place, part in places(case, pad(case, x)):
        flat = grouped(case, part).reshape(*grouped(case, part).shape[:3], -1)
        gradient = grouped(case, g.astype(float)).reshape(*flat.shape[:2], -1, flat.shape[-1])
        total = np.einsum("bgcs,bgfs->gfc", flat, gradient)
        out[(slice(None), slice(None), slice(None), *place)] = total
    return out.reshape(case.shapes[1])


def close(found, expected):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6 * scale)


@pytest.mark.parametrize("x_order", ORDERS)
@pytest.mark.parametrize("out_order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_forward(run, layout, normal, unset, name, x_order, out_order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, w = normal(*x_shape, order=x_order), normal(*w_shape)
    out = unset(*out_shape, order=out_order)
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    close(out, forward(case, x, w))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_gradient_of_the_data(run, layout, normal, unset, name, order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    g, w, out = normal(*out_shape, order=order), normal(*w_shape), unset(*x_shape, order=order)
    run(ConvDataGrad(layout(g), layout(w), layout(out), *case.options), g, w, out)
    close(out, data_gradient(case, g, w))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_weights_and_bias(run, layout, normal, unset, name, order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, g = normal(*x_shape, order=order), normal(*out_shape, order=order)
    out, bias = unset(*w_shape), unset(case.features)
    run(ConvWeightGrad(layout(x), layout(g), layout(out), *case.options), x, g, out)
    close(out, weights_gradient(case, x, g))
    out[...] = np.nan
    descriptor = ConvWeightGrad(layout(x), layout(g), layout(out), *case.options, bias=layout(bias))
    run(descriptor, x, g, bias, out)
    close(out, weights_gradient(case, x, g))
    close(bias, g.sum((0, *range(2, g.ndim)), dtype=float))


POINTWISE = {
    "images": Case(2, 17, 33, (6, 7), (1, 1)),
    "one row": Case(1, 4, 5, (1, 80), (1, 1)),
    "lines": Case(3, 6, 9, (31,), (1,), (1,), ((0, 0),), (1,)),
    "space": Case(2, 3, 4, (3, 4, 5), (1, 1, 1), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1)),
    "one channel": Case(2, 1, 8, (8, 8), (1, 1)),
    "one feature": Case(2, 8, 1, (8, 8), (1, 1)),
}


@pytest.mark.parametrize("w_order", ["C", "last", "turned"])
@pytest.mark.parametrize("name", POINTWISE)
def test_a_kernel_of_one_place_is_a_product(
    library, only, run, layout, normal, unset, name, w_order
):
    case = POINTWISE[name]
    x_shape, w_shape, out_shape = case.shapes
    w_order = (1, 0, *range(2, len(w_shape))) if w_order == "turned" else w_order
    x, w = normal(*x_shape, order="last"), normal(*w_shape, order=w_order)
    out = unset(*out_shape, order="last")
    only("product")
    library.forget()
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    close(out, forward(case, x, w))
    dx, dw = unset(*x_shape, order="last"), unset(*w_shape, order=w_order)
    run(ConvDataGrad(layout(out), layout(w), layout(dx), *case.options), out, w, dx)
    close(dx, data_gradient(case, out, w))
    kernel = run(ConvWeightGrad(layout(x), layout(out), layout(dw), *case.options), x, out, dw)
    close(dw, weights_gradient(case, x, out))
    assert kernel.about == "sgemm of places"
    library.forget()


@pytest.mark.parametrize(
    ("case", "order", "words"),
    [
        (CASES["one by one"], "C", "equally far apart"),
        (Case(2, 8, 8, (8, 8), (1, 1), stride=(2, 2)), "last", "groups or strides"),
        (Case(2, 8, 8, (8, 8), (1, 1), groups=2), "last", "groups or strides"),
        (Case(2, 8, 8, (8, 8), (1, 1), padding=((1, 0), (0, 0))), "last", "with padding"),
        (Case(2, 8, 8, (5, 5), (1, 1)), "last", "50 places are too few"),
    ],
)
def test_what_is_no_product(library, only, layout, normal, unset, case, order, words):
    x_shape, w_shape, out_shape = case.shapes
    x, w = normal(*x_shape, order=order), normal(*w_shape)
    descriptor = Convolution(
        layout(x), layout(w), layout(unset(*out_shape, order=order)), *case.options
    )
    only("product")
    library.forget()
    assert words in library.why_not(descriptor)
    library.forget()


def test_places_with_gaps_are_no_product(library, only, layout, normal, unset):
    case = POINTWISE["images"]
    x = normal(2, 17, 6, 9, order="last")[:, :, :, :7]
    w, out = normal(33, 17, 1, 1), unset(*case.shapes[2], order="last")
    only("product")
    library.forget()
    descriptor = Convolution(layout(x), layout(w), layout(out), *case.options)
    assert "equally far apart" in library.why_not(descriptor)
    library.forget()


@pytest.mark.parametrize("name", ["plain", "groups", "dilated"])
def test_weights_that_are_prepacked(library, run, layout, normal, unset, name):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, w, out = normal(*x_shape, order="last"), normal(*w_shape), unset(*out_shape, order="last")
    free = any_layout(float32, w_shape)
    kernel = library.find(Convolution(layout(x), free, layout(out), *case.options))
    packed = kernel.operands[1]
    assert isinstance(packed, Packed)
    kept = np.zeros(packed.nbytes, np.uint8)
    run(Reorder(layout(w), packed), w, kept)
    kernel(x.ctypes.data, kept.ctypes.data, out.ctypes.data)
    close(out, forward(case, x, w))
    # The gradient of the weights in the same layout: an update is elementwise.
    descriptor = ConvWeightGrad(layout(x), layout(out), packed, *case.options)
    gradient = np.full(packed.nbytes, 255, np.uint8)
    run(descriptor, x, out, gradient)
    plain = np.empty_like(w)
    run(Reorder(packed, layout(plain)), gradient, plain)
    close(plain, weights_gradient(case, x, out))
    dx = unset(*x_shape, order="last")
    run(ConvDataGrad(layout(out), packed, layout(dx), *case.options), out, kept, dx)
    close(dx, data_gradient(case, out, w))


def test_images_may_be_left_to_the_library(library, run, layout, normal, unset):
    case = CASES["plain"]
    x_shape, w_shape, out_shape = case.shapes
    x, w, out = normal(*x_shape), normal(*w_shape), unset(*out_shape)
    descriptor = Convolution(
        any_layout(float32, x_shape), layout(w), any_layout(float32, out_shape), *case.options
    )
    kernel = library.find(descriptor)
    x_kept, out_kept = (np.zeros(kernel.operands[i].nbytes, np.uint8) for i in (0, 2))
    run(Reorder(layout(x), kernel.operands[0]), x, x_kept)
    kernel(x_kept.ctypes.data, w.ctypes.data, out_kept.ctypes.data)
    run(Reorder(kernel.operands[2], layout(out)), out_kept, out)
    close(out, forward(case, x, w))


def test_nans_and_infinities_stay_where_they_are_seen(run, layout, normal, unset):
    case = CASES["plain"]
    x_shape, w_shape, out_shape = case.shapes
    x, w, out = normal(*x_shape), normal(*w_shape), unset(*out_shape)
    x[0, 2, 4, 5], x[1, 1, 0, 0] = np.nan, np.inf
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    expected = forward(case, x, w)
    np.testing.assert_array_equal(np.isfinite(out), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))


def test_what_cannot_be_done_is_said(library, layout, normal, unset):
    x, w, out = normal(1, 2, 5, 5), normal(3, 2, 2, 2), unset(1, 3, 3, 3)
    cropped = Convolution(layout(x), layout(w), layout(out), (1, 1), ((-1, 0), (0, -1)), (1, 1), 1)
    assert "does not crop" in library.why_not(cropped)
    x, w, out = (a.reshape(*a.shape, 1, 1) for a in (x, w, unset(1, 3, 4, 4)))
    four = Convolution(layout(x), layout(w), layout(out), (1,) * 4, ((0, 0),) * 4, (1,) * 4, 1)
    assert "one to three spatial axes" in library.why_not(four)
