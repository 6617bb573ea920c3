"""Finding, counting and comparing values as users do, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft

nan, inf = math.nan, math.inf
X = np.array([[3, 1, 2], [1, 3, 1]])


def same(found, wanted):
    assert [f.tolist() for f in found] == [np.asarray(w).tolist() for w in wanted]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("x", [X, X[:, :0], np.array([[1.5, -0.5], [1.5, -0.5]]), X > 1])
def test_unique_as_numpy(x, axis):
    options = {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis}
    if x.size == 0 and axis == 0:  # NumPy keeps all equal rows of no elements apart
        assert ft.unique(x, axis=0).shape == (1, 0)
        return
    same(ft.unique(x, **options), np.unique(x, **options))
    assert ft.unique(x, axis=axis).tolist() == np.unique(x, axis=axis).tolist()


def test_unique_and_nan():
    x = [nan, 1.0, nan, 0.0]
    assert ft.unique(x, return_counts=True)[1].tolist() == [1, 1, 2]
    assert ft.unique(x, equal_nan=False).shape == (4,)
    assert ft.unique_values(x).shape == (4,)


def test_the_four_of_the_array_api():
    same(ft.unique_all(X), np.unique_all(X))
    same(ft.unique_counts(X), np.unique_counts(X))
    same(ft.unique_inverse(X), np.unique_inverse(X))
    assert ft.unique_all(X).inverse_indices.shape == X.shape
    assert ft.unique_counts(5).counts.tolist() == [1]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_as_numpy(side):
    x, values = [1.0, 2.0, 2.0, 5.0, inf], np.array([[0.0, 2.0], [3.0, nan], [inf, -inf]])
    found = ft.searchsorted(x, values, side)
    assert found.tolist() == np.searchsorted(x, values, side).tolist()
    shuffled = [2.0, 5.0, 1.0]
    assert ft.searchsorted(shuffled, 2, side, sorter=[2, 0, 1]).item() == (side == "right") + 1
    assert ft.searchsorted([1, 2, 3], 2.5).item() == 2


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("lead", [(3,), (2, 3), (0,)])
def test_searchsorted_by_rows(side, lead):
    rng = np.random.default_rng(0)
    shuffled = rng.integers(0, 6, (*lead, 7)).astype("float32")
    sorter, values = np.argsort(shuffled, -1), rng.integers(-1, 7, (*lead, 4)).astype("float32")
    x = np.sort(shuffled, -1)
    wanted = np.zeros(values.shape, int)
    for row in np.ndindex(lead):
        wanted[row] = np.searchsorted(x[row], values[row], side)
    assert ft.searchsorted(x, values, side).tolist() == wanted.tolist()
    assert ft.searchsorted(shuffled, values, side, sorter=sorter).tolist() == wanted.tolist()


@pytest.mark.defect("item 7")
def test_searchsorted_of_empty_rows_and_nan():
    assert ft.searchsorted(ft.zeros((2, 0)), [[1.0], [nan]]).tolist() == [[0], [0]]
    assert ft.searchsorted([[1.0, nan]], [[nan, 2.0]]).tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.searchsorted([1], 1, "middle"), "'left' or 'right'"),
        (lambda: ft.searchsorted([[1]], 1), "rows are searched one by one"),
        (lambda: ft.searchsorted([[1], [2]], [[1]]), r"x \(2, 1\) and values \(1, 1\)"),
        (lambda: ft.searchsorted([[1]], [[1]], "middle"), "'left' or 'right'"),
        (lambda: ft.searchsorted(1, 1), "expected one axis"),
        (lambda: ft.bincount([1, -2]), "number -2"),
        (lambda: ft.bincount([1.0]), "expected integers"),
        (lambda: ft.bincount([[1]]), "expected one axis"),
        (lambda: ft.bincount([1], [1.0, 2.0]), "shapes differ"),
        (lambda: ft.bincount([1], minlength=-1), "may not be negative"),
        (lambda: ft.histogram([1.0], 0), "at least one"),
        (lambda: ft.histogram([1.0, nan], 3), "finite"),
        (lambda: ft.histogram([1.0], [3.0, 2.0]), "ascending"),
        (lambda: ft.histogram([1.0], [3.0]), "two or more"),
        (lambda: ft.histogram([1.0], 2, weights=[1.0, 2.0]), "shapes differ"),
        (lambda: ft.argmax(ft.zeros((0,))), "nothing to choose from"),
        (lambda: ft.take([1, 2], 2), "out of range"),
        (lambda: ft.positive(True), "bool"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ft.FlError, match=words):
        call()


def test_bincount_as_numpy():
    assert ft.bincount([0, 3, 3, 1]).tolist() == [1, 1, 0, 2]
    assert ft.bincount([1], minlength=3).tolist() == [0, 1, 0]
    assert ft.bincount([1, 1], weights=[0.5, 2.0]).tolist() == [0.0, 2.5]
    assert ft.bincount(ft.zeros(0, "int64")).shape == (0,)


@pytest.mark.parametrize("bins", [4, 1, [0.0, 1.0, 1.5, 4.0], [1.0, 1.0, 2.0]])
@pytest.mark.parametrize("density", [False, True])
def test_histogram_as_numpy(bins, density):
    x = np.random.default_rng(0).normal(1.0, 1.0, (40, 2))
    weights = np.linspace(0.5, 2.0, 80).reshape(40, 2)
    for given in (None, weights):
        if density and bins == [1.0, 1.0, 2.0]:
            continue
        found = ft.histogram(x, bins, weights=given, density=density)
        wanted = np.histogram(x, bins, weights=given, density=density)
        np.testing.assert_allclose(found[0].numpy(), wanted[0], 1e-12)
        np.testing.assert_allclose(found[1].numpy(), wanted[1], 1e-12)


def test_histogram_of_counts_and_of_nothing():
    counts, edges = ft.histogram(X, bins=2, range=(0, 2))
    assert counts.tolist() == [0, 4]
    assert counts.dtype is ft.int64
    assert edges.tolist() == [0, 1, 2]
    same(ft.histogram([], 2), np.histogram([], 2))
    same(ft.histogram([5.0, 5.0], 2), np.histogram([5.0, 5.0], 2))


@pytest.mark.parametrize("keepdims", [False, True])
def test_positions_over_everything(keepdims):
    assert ft.argmax(X, keepdims=keepdims).tolist() == np.argmax(X, keepdims=keepdims).tolist()
    assert (
        ft.asarray(X).argmin(keepdims=keepdims).tolist() == np.argmin(X, keepdims=keepdims).tolist()
    )
    assert ft.argmax(ft.asarray(3.0)).item() == 0


def test_extremes_with_their_positions():
    values, places = ft.max_with_index(X)
    assert (values.tolist(), places.tolist()) == ([3, 3], [0, 1])
    values, places = ft.min_with_index(X, axis=0, keepdims=True)
    assert (values.tolist(), places.tolist()) == ([[1, 1, 1]], [[1, 0, 1]])


def test_take_as_numpy():
    assert ft.take(X, [0, -1]).tolist() == np.take(X, [0, -1]).tolist()
    assert ft.take(X, [[0, 2]], 1).tolist() == np.take(X, [[0, 2]], 1).tolist()


def test_argwhere_as_numpy():
    assert ft.argwhere(X > 1).tolist() == np.argwhere(X > 1).tolist()
    assert ft.argwhere(ft.asarray(5)).shape == (1, 0)
    assert ft.argwhere(ft.asarray(0)).shape == (0, 0)


def test_membership_and_closeness():
    assert ft.isin([1, 2, nan], [2.0, nan]).tolist() == [False, True, False]
    assert ft.isin([1, 2], [2], invert=True).tolist() == [True, False]
    assert ft.allclose([1.0, inf], [1.0 + 1e-7, inf])
    assert not ft.allclose([1.0, nan], [1.0, nan])
    assert ft.allclose([nan], [nan], equal_nan=True)
    assert ft.array_equal([1, 2], [1.0, 2.0])
    assert not ft.array_equal([1, 2], [1, 2, 3])
    assert ft.allclose([], [])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_bit_for_bit(dtype):
    bits = np.random.default_rng(7).integers(0, 2**63, 20_000, dtype=np.uint64)
    bits = bits.astype(np.uint32) if dtype == "float32" else bits
    x = bits.view(dtype)
    x = np.concatenate(
        [x[np.isfinite(x)], np.finfo(dtype).tiny * np.linspace(-2, 2, 999), [inf, nan]]
    )
    x = x.astype(dtype)
    for y in (inf, -inf, 0.0, -0.0, nan):
        wanted = np.nextafter(x, np.array(y, dtype))
        found = ft.nextafter(x, ft.full((), y, dtype)).numpy()
        assert np.array_equal(found, wanted, equal_nan=True)
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


def test_nan_to_num_takes_the_limits_of_the_dtype():
    x = ft.nan_to_num([nan, inf, -inf, 1.0])
    assert x.tolist() == [0.0, ft.finfo("float32").max, ft.finfo("float32").min, 1.0]
    assert ft.nan_to_num([1, 2]).tolist() == [1, 2]


def test_positive_is_a_value_of_its_own():
    x = ft.asarray([1, 2])
    y = ft.positive(x)
    y[0] = 5
    assert x.tolist() == [1, 2]
