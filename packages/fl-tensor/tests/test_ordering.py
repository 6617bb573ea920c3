"""Sorting, selecting and counting on arrays that are large enough for unstable sorts: results are
those of a stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft

RNG = np.random.default_rng(7)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-42]
SHAPE = (30, 200)


def few_values(dtype, shape=SHAPE):
    """With many ties, NaN and both zeros among them."""
    if np.dtype(dtype).kind == "f":
        return RNG.choice(np.asarray(SPECIAL), shape).astype(dtype)
    return RNG.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype)


def all_values(dtype, shape=SHAPE):
    """From the whole range of the dtype."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if dtype == "bool":
        return few_values(dtype, shape)
    return np.frombuffer(RNG.bytes(size), dtype).reshape(shape)


SAMPLES = [
    pytest.param(make, d, id=f"{make.__name__}-{d}")
    for make in (few_values, all_values)
    for d in DTYPES
]


def stable_order(a, descending):
    """NumPy's, which is stable and has NaN last; descending it has NaN first, ties as before."""
    if not descending:
        return np.argsort(a, -1, kind="stable")
    flipped = np.argsort(a[..., ::-1], -1, kind="stable")
    return (a.shape[-1] - 1 - flipped)[..., ::-1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("make", "dtype"), SAMPLES)
def test_argsort_is_stable(make, dtype, descending):
    a = make(dtype)
    got = ft.argsort(ft.asarray(a), 1, descending)
    assert np.array_equal(got, stable_order(a, descending))
    assert np.array_equal(ft.argsort(ft.asarray(a).T, 0, descending).T, got)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("make", "dtype"), SAMPLES)
def test_sort_keeps_the_order_of_both_zeros(make, dtype, descending):
    a = make(dtype)
    got = np.asarray(ft.sort(ft.asarray(a), 1, descending))
    want = np.sort(a, -1, kind="stable")
    want = want[..., ::-1] if descending else want
    assert np.array_equal(got, want, equal_nan=np.dtype(dtype).kind == "f")
    if np.dtype(dtype).kind == "f":
        numbers = ~np.isnan(want)
        assert np.array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 7, 199, 200])
@pytest.mark.parametrize(("make", "dtype"), SAMPLES)
def test_topk_is_the_beginning_of_a_stable_sort(make, dtype, k, largest):
    a = make(dtype)
    want = stable_order(a, largest)[:, :k]
    values, places = ft.topk(ft.asarray(a), k, 1, largest)
    assert np.array_equal(places, want)
    chosen = np.take_along_axis(a, want, 1)
    assert np.array_equal(values, chosen, equal_nan=np.dtype(dtype).kind == "f")
    columns = ft.topk(ft.asarray(a).T, k, 0, largest)[1]
    assert np.array_equal(columns.T, want)


def test_topk_of_many_rows_and_of_a_vector():
    a = few_values("float32", (900, 100))
    want = stable_order(a, True)[:, :3]
    assert np.array_equal(ft.topk(ft.asarray(a), 3)[1], want)
    assert np.array_equal(ft.topk(ft.asarray(a.ravel()), 30)[1], stable_order(a.ravel(), True)[:30])
    values = few_values("float32", (3, 20, 200))
    places = ft.topk(ft.asarray(values), 3, 1)[1]
    assert np.array_equal(
        places.permute(0, 2, 1), stable_order(values.swapaxes(1, 2), True)[..., :3]
    )


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("size", [1, 2, 1999, 2000])
def test_quantiles_of_several_places(method, size):
    a = RNG.standard_normal((3, size))
    q = [1.0, 0.25, 0.0, 0.5, 0.999]
    assert np.allclose(
        ft.quantile(ft.asarray(a), q, 1, method=method),
        np.quantile(a, q, 1, method=method),
        rtol=1e-14,
    )


@pytest.mark.parametrize("at", [0, 1234, 1999])
def test_a_median_with_nan_is_nan(at):
    a = RNG.standard_normal((4, 2000)).astype(np.float32)
    a[1, at] = np.nan
    assert np.array_equal(ft.median(ft.asarray(a), 1), np.median(a, 1), equal_nan=True)
    assert np.isnan(ft.median(ft.asarray(a)).item())


def test_quantiles_leave_their_operand_as_it_is():
    a = RNG.standard_normal(2000)
    x = ft.asarray(a)
    ft.median(x)
    assert np.array_equal(x, a)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bincount_of_all_integers(dtype):
    a = RNG.integers(0, 100, (5000,)).astype(dtype)[::2]
    got = ft.bincount(ft.asarray(a), minlength=120)
    assert got.dtype is ft.int64
    assert np.array_equal(got, np.bincount(a.astype(np.int64), minlength=120))


def test_bincount_of_nothing():
    assert ft.bincount(ft.asarray(np.zeros(0, np.int64)), minlength=2).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_histogram_counts_as_numpy(dtype):
    a = (10 * RNG.standard_normal(5000)).astype(dtype)
    edges = np.asarray([-20, -5, -5, 0, 3, 12]).astype(dtype)
    counts = ft.histogram(ft.asarray(a), ft.asarray(edges))[0]
    # Its last bin has both edges.
    assert np.array_equal(counts, np.histogram(a, edges)[0])
    assert np.array_equal(ft.histogram(ft.asarray(a), 20)[0].sum(), a.size)


@pytest.mark.parametrize("seed", range(5))
def test_histogram_of_half_floats_with_both_zeros(seed):
    values = np.asarray([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], "float16")
    a = np.random.default_rng(seed).choice(values, 6000)
    counts = ft.histogram(ft.asarray(a), ft.asarray(np.asarray([-1.0, 0.0, 1.0], "float16")))[0]
    assert counts.tolist() == [(a == -1).sum(), ((a == 0) | (a == 1)).sum()]


def test_histogram_leaves_out_nan_and_what_is_outside():
    a = np.asarray([np.nan, -np.inf, -1.0, 0.0, 0.5, 1.0, 1.5, np.inf, -0.0])
    assert ft.histogram(ft.asarray(a), [0.0, 0.5, 1.0])[0].tolist() == [2, 2]
    last = ft.histogram(ft.asarray(a), [0.0, np.inf])[0]
    assert last.tolist() == [6]


@pytest.mark.parametrize(("make", "dtype"), SAMPLES)
@pytest.mark.parametrize("equal_nan", [False, True])
def test_distinct_values_and_counts(make, dtype, equal_nan):
    a = make(dtype)
    values, counts = ft.unique(ft.asarray(a), return_counts=True, equal_nan=equal_nan)
    # NumPy's sort of float16 is wrong for both zeros on some processors: its floats are wide.
    wide = a.astype(np.float32) if dtype == "float16" else a
    want = np.unique(wide, return_counts=True, equal_nan=equal_nan)
    assert np.array_equal(values, want[0], equal_nan=np.dtype(dtype).kind == "f")
    assert np.array_equal(counts, want[1])
    everything = ft.unique(ft.asarray(a), True, True, True, equal_nan=equal_nan)
    assert np.array_equal(everything[3], want[1])
    assert np.array_equal(
        ft.unique(ft.asarray(a), equal_nan=equal_nan), values, equal_nan=np.dtype(dtype).kind == "f"
    )


SIZES = [((70, 90), (90, 80)), ((3, 40, 50), (3, 50, 60)), ((40, 50), (3, 50, 60)), ((5,), (5,))]


@pytest.mark.parametrize("shapes", SIZES)
@pytest.mark.parametrize("full", [False, True], ids=["small", "overflow"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_products_of_integers_wrap_around(dtype, full, shapes):
    range_ = np.iinfo(dtype)
    low, high = (range_.min, range_.max) if full else (max(range_.min, -100), 100)
    a, b = (RNG.integers(low, high, shape, dtype, endpoint=True) for shape in shapes)
    assert np.array_equal(ft.matmul(ft.asarray(a), ft.asarray(b)), np.matmul(a, b))


def test_products_beyond_the_integers_of_float64_are_exact():
    a = np.full((64, 64), 3_000_000_001, np.int64)
    b = np.full((64, 64), 1_000_000_007, np.int64)
    b[0, 0] = 1
    assert np.array_equal(ft.asarray(a) @ ft.asarray(b), a @ b)
    most = np.full((64, 64), np.iinfo(np.int32).min, np.int32)
    assert np.array_equal(ft.asarray(most) @ ft.asarray(most - 1), most @ (most - 1))
