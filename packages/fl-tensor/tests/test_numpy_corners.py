"""NumPy's functions where kinds of numbers and sizes are at their ends: NumPy is the reference."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft

INF = np.inf


def by_ours(x):
    """The arguments with tensors for NumPy's arrays."""
    if isinstance(x, (list, tuple)):
        return type(x)(by_ours(each) for each in x)
    return ft.asarray(x) if isinstance(x, np.ndarray) else x


def check_same(name, *args, dtype=True, **options):
    """Ours and NumPy's function give the same numbers, in the same dtype or at least its kind."""
    function = getattr(ft, name)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*args, **options)
    found = function(*by_ours(args), **options)
    for one, other in zip(*[r if isinstance(r, tuple) else (r,) for r in (found, wanted)]):
        one = np.asarray(one)
        assert one.dtype == other.dtype if dtype else one.dtype.kind == other.dtype.kind
        np.testing.assert_allclose(one, other, rtol=1e-6)


# ---- narrow integers and floats ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
def test_powers_and_slopes_of_narrow_integers_are_int64(kind):
    x = np.array([100, 20, 3, 7], kind)
    check_same("vander", x)
    check_same("vander", x, 1)
    check_same("polyder", x)
    check_same("polyder", x, 2)


def test_places_of_narrow_and_unsigned_indices_are_int64():
    check_same("ravel_multi_index", (np.int8([100, 3]), np.int8([3, 9])), (200, 10))
    check_same("ravel_multi_index", (np.uint64([1]), np.int64([2])), (3, 4))
    with pytest.raises(ft.DTypeError, match=r"indices are float32: expected integers"):
        ft.ravel_multi_index((ft.ones(2), [1, 1]), (3, 4))


@pytest.mark.parametrize("n", [-39, -20, -14, -1, 0, 7, 15, 39])
def test_powers_of_two_in_float16(n):
    check_same("ldexp", np.float16([1, -3, 2**-24, 0.75, 1000]), np.full(5, n))


def test_parts_of_float16():
    check_same("frexp", np.float16([65504, 2**-24, 0.3, -1, 0, np.inf]))
    bits = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    m, n = ft.frexp(ft.asarray(bits))
    assert (ft.ldexp(m, n).numpy() == bits).all()


@pytest.mark.parametrize("kind", ["int8", "int64", "float32"])
def test_a_power_is_taken_in_float64(kind):
    check_same("float_power", np.array([3, 100], kind), 0.1)
    check_same("float_power", np.array([3, 100], kind), np.array([3, 2], kind))
    check_same("float_power", 1.1, np.array([3, 100], kind))
    check_same("float_power", np.int64([2**53 - 1]), 1)
    assert ft.float_power(2, 0.1).item() == 2**0.1
    assert ft.float_power(ft.asarray([2.0]), 1j).dtype is ft.complex128


def test_results_that_are_floats_in_numpy_are_floats():
    x = np.array([-3, 2])
    for name in ("fabs", "rint"):
        check_same(name, x, dtype=False)
        assert getattr(np, name)(ft.asarray(x)).tolist() == getattr(np, name)(x).tolist()
        assert getattr(np, name)(ft.asarray(x)).dtype.is_floating
    check_same("rint", np.array([1.5 - 2.5j]))
    with pytest.raises(TypeError, match="fabs is for real numbers"):
        ft.fabs(ft.asarray([1j]))


@pytest.mark.parametrize("method", ["reduce", "accumulate"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logical_and"])
@pytest.mark.parametrize("dtype", [None, "int8", "float64"])
def test_reductions_by_ufuncs_give_numpys_dtype(name, method, dtype):
    ufunc = getattr(np, name)
    if name == "logical_and" and (method == "accumulate" or dtype):
        return
    for x in (np.int8([100, 90]), np.array([True, True])):
        if x.dtype == bool and name == "maximum":
            continue
        wanted = getattr(ufunc, method)(x, dtype=dtype)
        found = getattr(ufunc, method)(ft.asarray(x), dtype=dtype)
        assert found.dtype.name == wanted.dtype.name and found.tolist() == wanted.tolist()


# ---- sizes and casts -----------------------------------------------------------------------------


def test_where_a_buffer_begins():
    data = bytes(range(8))
    for options in ({"offset": 8}, {"offset": 3, "count": 2}, {"count": 0}, {"count": -5}):
        found = ft.frombuffer(data, "uint8", **options).tolist()
        assert found == np.frombuffer(data, "uint8", **options).tolist()
    for offset in (-2, 9):
        with pytest.raises(ValueError, match=rf"offset {offset}: expected 0 to 8 bytes"):
            ft.frombuffer(data, "uint8", offset=offset)


def test_a_mask_may_have_another_shape_but_not_another_size():
    x = np.arange(6).reshape(2, 3)
    mask = np.array([True, False, True, True, True, True])
    for values in ([7, 8], [[9]], [], np.arange(6).reshape(3, 2)):
        wanted = x.copy()
        np.putmask(wanted, mask, values)
        assert ft.putmask(ft.asarray(x), mask, values).tolist() == wanted.tolist()
    for wrong in ([True, False, True], True, np.ones((2, 2, 3), bool)):
        with pytest.raises(ValueError, match=r"x \(2, 3\) and mask \(.*\): sizes differ"):
            ft.putmask(ft.asarray(x), wrong, [9])


@pytest.mark.parametrize(
    "options", [{}, {"aweights": np.array([1.0, 2.0])}, {"fweights": np.array([1, 1])}]
)
def test_a_covariance_without_degrees_of_freedom_is_infinite(options):
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        wanted = np.cov(x, ddof=3, **options)
    found = ft.cov(ft.asarray(x), ddof=3, **{k: by_ours(v) for k, v in options.items()})
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "bins", [np.array([2, 3]), np.array([0.0, 1.0, 2.0]), np.array([[0, 1, 2], [0, 1.5, 2]]), 3]
)
def test_bins_in_an_array(bins):
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.5, 1.0, 2.0])
    for ours in (bins, by_ours(bins)):
        for found, wanted in zip(ft.histogram2d(x, y, ours), np.histogram2d(x, y, bins)):
            np.testing.assert_allclose(np.asarray(found), wanted)
    sample = np.arange(12.0).reshape(4, 3)
    counts, _ = ft.histogramdd(sample, by_ours(np.array([1, 2, 3])))
    assert counts.tolist() == np.histogramdd(sample, np.array([1, 2, 3]))[0].tolist()


def test_a_function_of_no_elements_is_not_called():
    check_same("piecewise", np.zeros(0), [np.zeros(0) > 0], [np.max])
    x = np.array([1.0, 2.0])
    found = ft.piecewise(ft.asarray(x), [x > 0], [lambda v: v, lambda v: ft.max(v)])
    assert found.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("xp", "fp"),
    [
        ([0, 1, 2], [0, INF, 1]),
        ([0, 1, 2], [-INF, INF, 1]),
        ([0, 1, 2], [INF, 1, INF]),
        ([0, 1, INF], [0, 1, 5]),
        ([-INF, 0, 1], [3, 1, 2]),
        ([-INF, INF], [1, 2]),
        ([0, 1], [INF, INF]),
        ([0, 1, 2], [0, np.nan, 2]),
        ([0, 1, 1, 2], [0, 1, 5, 6]),
    ],
)
def test_interpolation_beside_infinities(xp, fp):
    x = np.array([-INF, -1, 0, 0.25, 1, 1.5, 2, 3, INF, np.nan])
    check_same("interp", x, np.array(xp, "float64"), np.array(fp, "float64"))


def test_a_function_has_no_period_of_zero():
    for library in (np, ft):
        with pytest.raises(ValueError, match="period"):
            library.interp([0.5], [0.0, 1.0], [0.0, 1.0], period=0)


@pytest.mark.parametrize(
    ("kind", "end", "ok"),
    [
        ("int64", 1.5, False),
        ("uint8", 5, False),
        ("int8", [5], True),
        ("int8", [500], True),
        ("float32", [5], True),
        ("float32", 1j, False),
    ],
)
def test_ends_of_differences_have_their_kind(kind, end, ok):
    x = np.array([1, 2], kind)
    if ok:
        check_same("ediff1d", x, end)
        check_same("ediff1d", x, None, end)
        return
    with pytest.raises(TypeError):
        np.ediff1d(x, to_end=end)
    with pytest.raises(ft.DTypeError, match=rf"to_end is \w+, x is {kind}: cast one of them"):
        ft.ediff1d(ft.asarray(x), to_end=end)
