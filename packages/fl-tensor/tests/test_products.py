"""einsum and its relatives as users call them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.testing.references import windows


def whole(*shape):
    return np.random.default_rng(len(shape)).integers(-4, 5, shape)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("...ij,...jk", [(5, 1, 2, 3), (4, 3, 2)]),
        ("abc,cd,def,fa->be", [(2, 3, 4), (4, 5), (5, 6, 7), (7, 2)]),
        ("i,ij,j", [(3,), (3, 4), (4,)]),
        ("i,i->", [(0,), (0,)]),
        ("i,i->i", [(1,), (3,)]),
        ("iI->Ii", [(2, 3)]),
    ],
)
def test_einsum_as_numpy(subscripts, shapes):
    xs = [whole(*shape) for shape in shapes]
    assert ft.einsum(subscripts, *xs).tolist() == np.einsum(subscripts, *xs).tolist()


def test_einsum_keeps_the_common_dtype():
    assert ft.einsum("i->", ft.asarray([100, 100, 100], dtype="uint8")).item() == 300 % 256
    assert ft.einsum("i,i", [1, 2], [0.5, 0.5]).dtype is ft.float32


def test_einsum_multiplies_the_small_products_first():
    # In order of writing the first product would have 10^8 elements.
    n = 10_000
    matrices = []

    def matmul(inner, x, y):
        matrices.append((x.shape, y.shape))
        return inner.matmul(x, y)

    with ft.override(matmul=matmul):
        total = ft.einsum("i,j,i,j->", *(ft.ones(n) for _ in range(4)))
    assert total.item() == float(n) ** 2
    assert max(np.prod(s) for pair in matrices for s in pair) == n


@pytest.mark.parametrize(
    ("subscripts", "words"),
    [
        ("ij", "names 1 operands, but there are 2"),
        ("i1,jk", "'1' is no axis"),
        ("ij,jk->iz", "no operand has the axis 'z'"),
        ("ij,jk->ii", "has 'i' twice"),
        ("ijk,jk", "names 3 axes, operand 0 has shape (2, 3)"),
        ("ij,ik", "axis 'i' has sizes 2 and 3"),
        ("ii,jk", "axis 'i' has sizes 2 and 3"),
        ("i......,jk", "is no axis"),
    ],
)
def test_einsum_says_what_is_wrong(subscripts, words):
    with pytest.raises(ValueError) as caught:
        ft.einsum(subscripts, ft.ones((2, 3)), ft.ones((3, 4)))
    assert words in str(caught.value)
    with pytest.raises(ft.ShapeError, match="no common diagonal"):
        ft.einsum("ii->i", ft.ones((1, 3)))
    with pytest.raises(ft.ArgumentError, match="expected subscripts"):
        ft.einsum(ft.ones(2), "i")


@pytest.mark.parametrize("axes", [2, 1, 0, ([1, 0], [0, 1]), (1, 0), ((-1,), (0,)), ([], [])])
def test_tensordot_as_numpy(axes):
    x, y = whole(3, 3, 3), whole(3, 3)
    found = ft.tensordot(x, y, axes)
    assert found.tolist() == np.tensordot(x, y, axes).tolist()


def test_tensordot_says_what_is_wrong():
    x, y = ft.ones((2, 3)), ft.ones((4, 3))
    for axes, words in (
        (1, "differ"),
        (3, "no 3 axes"),
        ((0, 1, 2), "a pair"),
        (((0, 0), (1, 1)), "twice"),
    ):
        with pytest.raises(ValueError, match=words):
            ft.tensordot(x, y, axes)


def test_axes_count_in_the_broadcast_shape():
    x, y = whole(2, 5, 3), whole(5, 3)
    assert ft.cross(x, y).tolist() == np.cross(x, y).tolist()
    assert ft.vecdot(x, y, axis=2).tolist() == np.vecdot(x, y).tolist()
    assert ft.vecdot(x, y, axis=-2).tolist() == (x * y).sum(1).tolist()
    with pytest.raises(ft.ShapeError, match="must have size 3"):
        ft.cross(ft.ones((2, 3)), ft.ones((2, 3)), axis=0)
    with pytest.raises(ft.ShapeError, match="no common axis"):
        ft.vecdot(ft.ones((2, 3)), ft.ones(()), axis=0)


@pytest.mark.parametrize("k", range(-4, 5))
def test_diagonals_as_numpy(k):
    x, v = whole(2, 3, 4), whole(3)
    assert ft.diagonal(x, k, 2, 0).tolist() == np.diagonal(x, k, 2, 0).tolist()
    assert ft.linalg.trace(x, offset=k).tolist() == np.trace(x, k, -2, -1).tolist()
    assert ft.diag(v, k).tolist() == np.diag(v, k).tolist()
    assert ft.diag(x[0], k).tolist() == np.diag(x[0], k).tolist()


def test_convolution_with_any_strides_dilations_and_paddings():
    rng = np.random.default_rng(0)
    for _ in range(200):
        axes, groups = rng.integers(1, 3, 2)
        x = rng.standard_normal((2, 2 * groups, *rng.integers(1, 6, axes)))
        w = rng.standard_normal((groups, 2, *rng.integers(1, 5, axes)))
        stride, between, apart = (tuple(rng.integers(1, 5, axes).tolist()) for _ in range(3))
        padding = tuple((n, m) for n, m in rng.integers(-2, 12, (axes, 2)).tolist())
        arguments = (stride, padding, between, apart, int(groups))
        try:
            y = ft.conv(x, w, *arguments)
        except ft.ShapeError:  # cropped to nothing
            continue
        np.testing.assert_allclose(
            y.numpy(), windows.conv(x, w, *arguments), atol=1e-12, err_msg=str(arguments)
        )


@pytest.mark.parametrize("width", [1, 3, 40_000, 70_000])
def test_rows_that_are_added_accumulate_in_order(width):
    rows, updates = np.array([[2, 0], [2, 2]]), np.ones((2, 2, width), np.float32)
    updates[0, 0], updates[1, 1] = 1e8, -1e8
    added = ft.scatter(ft.zeros((3, width)), rows, updates, 0, "add").numpy()
    assert (added == np.array([[1], [0], [0]])).all()


@pytest.mark.parametrize("size", [1, 2, 8, 17, 32])
def test_products_of_infinities_are_no_warnings(size):
    found = ft.full((size, size), float("inf")) @ ft.zeros((size, size))
    assert np.isnan(np.asarray(found)).all()


@pytest.mark.parametrize("elements", [8, 64], ids=["small", "large"])
def test_gradients_of_a_convolution_say_what_does_not_fit(elements):
    x, w = ft.ones((2, 4, elements, elements)), ft.ones((6, 4, 3, 3))
    for wrong in ((2, 6, elements, elements), (2, 5, elements - 2, elements - 2), ()):
        gradient = ft.ones(wrong)
        with pytest.raises(ft.ShapeError, match=r"\[conv_data_gradient\] gradient .* gives \(2, 6"):
            ft.conv_data_gradient(gradient, w, x.shape)
        with pytest.raises(
            ft.ShapeError, match=r"\[conv_weight_gradient\] gradient .*gives \(2, 6"
        ):
            ft.conv_weight_gradient(gradient, x, w.shape)
    with pytest.raises(ft.ShapeError, match=r"\[conv_data_gradient\] x \(2, 3, .* channels 3 must"):
        ft.conv_data_gradient(ft.ones((2, 6, 6, 6)), w, (2, 3, 8, 8))
    with pytest.raises(ft.ArgumentError, match=r"\[conv_weight_gradient\] stride \(0, 0\)"):
        ft.conv_weight_gradient(ft.ones((2, 6, 6, 6)), x, w.shape, 0)
