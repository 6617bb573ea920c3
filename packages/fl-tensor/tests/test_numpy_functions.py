"""NumPy's functions under their own names: equal to NumPy on random calls."""

from __future__ import annotations

import itertools
import os
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy_calls
import numpy_core_calls
import pytest
from numpy_draw import Draw

import fl_tensor as ft

CALLS = numpy_calls.CALLS | numpy_core_calls.CALLS

#: Random calls of each function, a tenth of them on other backends. `nox -s numpy_calls`: 50.
COUNT = int(os.environ.get("FL_NUMPY_CALLS", "10"))
#: NumPy writes into the first operand of these; here the result is a new array.
WRITING = {"fill_diagonal", "place", "put", "put_along_axis", "putmask"}
#: Of these results lie where ``ft.use`` says.
CREATING = """arange bartlett blackman diag_indices eye fromfunction full geomspace hamming hanning
    identity indices kaiser linspace logspace ones tri tril_indices triu_indices zeros"""


def converted(x: Any, chosen: Callable[[], bool] = lambda: True) -> Any:
    """The arguments with tensors for NumPy's arrays, or for those that are chosen."""
    if isinstance(x, np.ndarray):
        return ft.asarray(x) if chosen() else x
    if isinstance(x, (list, tuple)):
        return type(x)(converted(each, chosen) for each in x)
    return x


def by_numpy(name: str, *args: Any, **options: Any) -> Any:
    if name not in WRITING:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return getattr(np, name)(*args, **options)
    written = args[0].copy()
    getattr(np, name)(written, *args[1:], **options)
    return written


def check_equal(found: Any, wanted: Any) -> None:
    """The same structure, shapes, kinds of dtype and numbers."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            check_equal(one, other)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    single = found.dtype in (np.float32, np.complex64) and wanted.dtype != found.dtype
    rtol, atol = (1e-5, 1e-6) if single else (1e-9, 1e-10)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_numpys(name, installed_backend):
    if ft.complex128 not in ft.get_backend(installed_backend).dtypes:
        pytest.skip(f"{installed_backend} has not all dtypes of NumPy")
    count = COUNT if installed_backend == "numpy" else max(COUNT // 10, 1)
    with ft.use(installed_backend):
        for i in range(count):
            arguments = CALLS[name](Draw(zlib.crc32(name.encode()) + i))
            *args, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
            given = converted(args)
            found = getattr(ft, name)(*given, **options)
            try:
                check_equal(found, by_numpy(name, *args, **options))
            except Exception as error:
                raise AssertionError(f"{name}(*{args}, **{options}): {error}") from error
            if name in WRITING:
                check_equal(given[0], args[0])


@pytest.mark.parametrize("name", sorted(set(CALLS) - set(CREATING.split())))
def test_results_stay_on_the_backend_of_the_operands(name):
    """Whatever the default is; ``null`` has no values, and mixing backends is an error."""
    arguments = CALLS[name](Draw(zlib.crc32(name.encode())))
    *args, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    check_backend(name, args, options, lambda: True)


@pytest.mark.parametrize("name", sorted(set(CALLS) - set(CREATING.split())))
def test_one_tensor_among_arrays_decides_on_the_backend(name):
    for seed in range(4):
        arguments = CALLS[name](Draw(zlib.crc32(name.encode()) + seed))
        *args, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
        for i in range(arrays_in(args)):
            check_backend(name, args, options, map(i.__eq__, itertools.count()).__next__)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, t: ft.delete(x, t([0, 2])),
        lambda x, t: ft.insert(x, 1, t([5.0])),
        lambda x, t: ft.insert(x, t([1]), 5.0),
        lambda x, t: ft.histogram(x, t([0.0, 1.5, 4.0])),
        lambda x, t: ft.histogram(x, [0.0, 1.5, 4.0], weights=t([1.0, 2.0, 3.0])),
        lambda x, t: ft.meshgrid(x, [1, 2], t([1.0])),
        lambda x, t: ft.nanquantile(x, t([0.5, 1.0])),
        lambda x, t: ft.percentile(x, t([50.0]), method="lower"),
        lambda x, t: ft.take(x, t([2, 0])),
    ],
)
def test_a_tensor_behind_an_array_decides_on_the_backend(call):
    x = np.array([1.0, 2.0, 3.0])
    with ft.use("numpy"):
        wanted = call(ft.asarray(x), ft.asarray)
    with ft.use("null"):
        found = call(x, lambda values: ft.asarray(values, backend="numpy"))
    many = isinstance(found, (list, tuple))
    for one, other in zip(found, wanted, strict=True) if many else [(found, wanted)]:
        assert one.backend.name == "numpy"
        check_equal(one, other)


def test_shares_of_another_library_need_no_backend_of_their_own():
    with ft.use("numpy"):
        x = ft.asarray([[1.0, 3.0], [2.0, 5.0]])
    with ft.use("null"):
        assert ft.quantile(x, np.array([[0.5], [1.0]]), 0).tolist() == [[[1.5, 4.0]], [[2.0, 5.0]]]
        assert ft.quantile(x, np.zeros((0, 3))).shape == (0, 3)


def arrays_in(x: Any) -> int:
    if isinstance(x, np.ndarray):
        return 1
    return sum(map(arrays_in, x)) if isinstance(x, (list, tuple)) else 0


def check_backend(
    name: str, args: list[Any], options: dict[str, Any], chosen: Callable[[], bool]
) -> None:
    with ft.use("numpy"):
        args = converted(args, chosen)
    with ft.use("null"):
        found = getattr(ft, name)(*args, **options)
    for part in found if isinstance(found, (list, tuple)) else [found]:
        if isinstance(part, ft.Tensor):
            assert part.backend.name == "numpy"


def test_square_brackets_take_the_backend_and_the_dtype_of_arrays():
    with ft.use("numpy"):
        x = ft.asarray([1.5], "float32")
    with ft.use("null"):
        found = [ft.r_[0:2, x, 2.5], ft.c_[[1.0, 2.0], ft.r_[x, x]]]
    assert [each.backend.name for each in found] == ["numpy"] * 2
    assert found[0].tolist() == [0, 1, 1.5, 2.5]
    for parts in [
        (np.int8([1]), 7),
        (np.float32([1]), 7.5),
        (np.array([True]), 2),
        (True, 2),
        (1,),
    ]:
        assert ft.r_[converted(parts)].dtype.name == np.r_[parts].dtype.name


@pytest.mark.parametrize("kth", [0, 3, -1, [1, 4]])
@pytest.mark.parametrize("axis", [0, -1, None])
def test_partitions_put_the_kth_element_in_its_place(kth, axis):
    x = np.random.default_rng(0).integers(0, 9, (6, 7))
    found = np.asarray(ft.partition(x, kth, axis))
    places = ft.argpartition(x, kth, axis)
    ordered = np.sort(x, axis)
    along = 0 if axis is None else axis
    assert (np.take(found, kth, along) == np.take(ordered, kth, along)).all()
    assert (np.sort(found, along) == ordered).all()
    taken = np.take_along_axis(x.ravel() if axis is None else x, np.asarray(places), along)
    assert (taken == found).all()
    with pytest.raises(ft.IndexingError, match="kth 9 is out of range"):
        ft.partition(x, 9, axis=0)


@pytest.mark.parametrize(
    "p", [[1.0, -3.0, 2.0], [0.0, 2.0, 0.0, 8.0, 0.0, 0.0], [5.0], [0.0, 3.0, 0.0]]
)
def test_roots_are_those_of_numpy(p):
    found, wanted = np.asarray(ft.roots(np.array(p))), np.roots(p)
    assert np.allclose(np.sort_complex(found), np.sort_complex(wanted), atol=1e-12)


def test_functions_of_slices():
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    for axis in (0, 1, -1):
        check_equal(
            ft.apply_along_axis(ft.sort, axis, ft.asarray(x)), np.apply_along_axis(np.sort, axis, x)
        )
        check_equal(
            ft.apply_along_axis(lambda v: ft.outer(v, v), axis, ft.asarray(x)),
            np.apply_along_axis(lambda v: np.outer(v, v), axis, x),
        )
        check_equal(
            ft.apply_along_axis(ft.max, axis, ft.asarray(x)), np.apply_along_axis(np.max, axis, x)
        )
    check_equal(ft.apply_over_axes(ft.sum, x, [0, -1]), np.apply_over_axes(np.sum, x, [0, -1]))


def test_the_order_of_an_einsum_is_that_in_which_it_multiplies():
    shapes = {"ij": (2, 30), "jk": (30, 40), "kl": (40, 3)}
    xs = [np.random.default_rng(0).normal(size=shape) for shape in shapes.values()]
    subscripts = ",".join(shapes) + "->il"
    path, words = ft.einsum_path(subscripts, *xs)
    assert path == ["einsum_path", (1, 2), (0, 1)] and "1 and 2 -> (30, 3)" in words
    with ft.count() as counts:
        ft.einsum(subscripts, *map(ft.asarray, xs))
    assert counts.flops == 2 * (30 * 40 * 3 + 2 * 30 * 3)


def test_objects_with_square_brackets():
    for make in (lambda m: m.mgrid, lambda m: m.ogrid):
        check_equal(make(ft)[0:3, 1:7:2], make(np)[0:3, 1:7:2])
        found = make(ft)[0:1:3j, 0:2:5j]
        check_equal([part.astype("float64") for part in found], list(make(np)[0:1:3j, 0:2:5j]))
        check_equal(make(ft)[2:5], make(np)[2:5])
    x, y = np.array([1, 2]), np.array([3, 4])
    check_equal(ft.r_[0:3, 7, x], np.r_[0:3, 7, x])
    check_equal(ft.c_[x, y], np.c_[x, y])
    check_equal(ft.c_[np.ones((2, 2)), x], np.c_[np.ones((2, 2)), x])
    assert ft.s_[1:, ...] == np.s_[1:, ...] and ft.index_exp[2] == (2,)
    with pytest.raises(ft.ArgumentError, match="use ft.concatenate"):
        ft.r_["0,2", x]


def test_arrays_from_bytes_iterables_and_matrices():
    data = np.arange(6, dtype="int16")
    check_equal(ft.frombuffer(data.tobytes(), "int16", 3, 4), data[2:5])
    check_equal(ft.frombuffer(data, ft.int16), data)
    with pytest.raises(ft.ShapeError, match="11 bytes do not fit int16"):
        ft.frombuffer(data.tobytes(), "int16", offset=1)
    assert ft.fromiter((i * i for i in range(9)), "int64", 4).tolist() == [0, 1, 4, 9]
    with pytest.raises(ft.ArgumentError, match="3 numbers, but count is 5"):
        ft.fromiter(range(3), count=5)
    check_equal(ft.mask_indices(3, ft.triu, 1), np.mask_indices(3, np.triu, 1))
    with pytest.raises(ft.ArgumentError, match="NaN or infinities"):
        ft.asarray_chkfinite([1.0, float("inf")])
    assert ft.array([1, 2], ndmin=3).shape == (1, 1, 2)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning", "kaiser"])
def test_windows_in_float64(name):
    more = (8.6,) if name == "kaiser" else ()
    found = getattr(ft, name)(51, *more, dtype="float64")
    check_equal(found, getattr(np, name)(51, *more))
    assert found.dtype is ft.float64 and (ft.flip(found) == found).all()


def test_a_narrow_window_does_not_overflow():
    check_equal(ft.kaiser(9, 120.0), np.kaiser(9, 120.0))


def test_dtypes_and_constants_have_numpys_names():
    names = "bool_ byte cdouble csingle double half int_ intc intp longlong short single ubyte"
    for name in [*names.split(), *"uint uintc uintp ulonglong ushort".split()]:
        assert getattr(ft, name).name == np.dtype(getattr(np, name)).name
    assert (ft.pi, ft.e, ft.inf, ft.euler_gamma) == (np.pi, np.e, np.inf, np.euler_gamma)
    assert ft.newaxis is None and ft.nan != ft.nan
    assert ft.promote_types("int8", "float32") is ft.result_type(ft.int8, ft.float32) is ft.float32
    assert ft.can_cast(ft.int8, ft.int16) and ft.isdtype(ft.int8, "integral")
    assert ft.common_type(ft.ones(2), ft.asarray([1], "int8")) is ft.float32


def test_questions_about_objects():
    assert ft.isscalar(1.5) and not ft.isscalar(ft.asarray(1.5))
    assert ft.iterable([1]) and ft.iterable(ft.ones(2)) and not ft.iterable(ft.asarray(1))
    assert not ft.iterable(3)
    assert ft.astype([1.7, -2.7], "int32").tolist() == [1, -2]
    with pytest.raises(ft.DTypeError, match="imaginary part"):
        ft.astype(ft.asarray([1j]), ft.float32)
    assert [place.tolist() for place in ft.where([False, True])] == [[1]]


X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.array_split(X, 0), "0 parts: expected at least one"),
        (lambda: ft.hsplit(X, 3), r"x \(3, 4\): axis 1 of 4 has no 3 equal parts; array_split"),
        (lambda: ft.delete(X, 5, 1), "index 5 is out of range for 4 elements"),
        (lambda: ft.delete(X, [True], 1), "a mask of 1 for 4 elements"),
        (lambda: ft.insert(X, 5, 0.0, 1), "index 5 is out of range"),
        (lambda: ft.block([[X], X]), r"lists of depths \[0, 1\] side by side"),
        (lambda: ft.rot90(X, axes=(0, 0)), "names one axis twice"),
        (lambda: ft.trim_zeros(X, "x"), "trim 'x': expected 'fb'"),
        (lambda: ft.unravel_index([3, 12], (3, 4)), "index 12 is out of range for 12 elements"),
        (lambda: ft.ravel_multi_index([[1]], (3, 4)), r"1 indices for the shape \(3, 4\)"),
        (lambda: ft.put(X, [-13], 1.0), "index -1 is out of range"),
        (lambda: ft.place(X, [True], 1.0), r"mask \(1,\): sizes differ"),
        (lambda: ft.place(X, X > 1, []), "no values for 10 places"),
        (lambda: ft.fill_diagonal(ft.ones((2, 2, 3)), 1.0), "expected a matrix, or axes of one"),
        (lambda: ft.compress(X > 1, X), r"condition \(3, 4\): expected a vector"),
        (lambda: ft.select([X > 1], [X, X]), "1 conditions, 2 choices"),
        (lambda: ft.select([], []), "0 conditions, 0 choices"),
        (lambda: ft.choose([2], [[1], [2]]), "index 2 is out of range for 2 elements"),
        (lambda: ft.piecewise(X, [X > 1], []), "0 functions, 1 conditions"),
        (lambda: ft.digitize(X, [1, 3, 2]), "ascending or in descending order"),
        (lambda: ft.lexsort([]), "at least one array"),
        (lambda: ft.lexsort(3), "keys 3: expected a list of arrays"),
        (lambda: ft.float_power(None, 2.0), "is None: expected an array or a number"),
        (lambda: ft.r_[None, 1.0], "None: expected slices, numbers and arrays"),
        (lambda: ft.cov(np.ones((2, 2, 2))), r"x \(2, 2, 2\): expected a vector or a matrix"),
        (lambda: ft.histogramdd(X.T, bins=[2, 2]), "3 coordinates, 2 bins"),
        (lambda: ft.convolve(X, [1.0]), "expected two vectors with elements"),
        (lambda: ft.convolve([1.0], [1.0], "all"), "mode 'all': expected 'full', 'same', 'valid'"),
        (lambda: ft.gradient(X, 1.0, axis=(0, 1), edge_order=3), "edge_order 3: expected 1 or 2"),
        (lambda: ft.gradient(X, [1.0, 2.0], axis=0), "expected a number or 3 places for axis 0"),
        (lambda: ft.gradient([1.0]), "needs at least 2 elements"),
        (lambda: ft.interp(0.5, [0.0, 1.0], [1.0]), r"xp \(2,\) and fp \(1,\): expected equal"),
        (lambda: ft.polyfit(X, X, 1), r"y \(3, 4\): expected \(n,\)"),
        (lambda: ft.polyder([1.0], -1), "m -1: may not be negative"),
        (lambda: ft.polyval(X, 1.0), r"coefficients \(3, 4\): expected a vector"),
        (lambda: ft.vander(X), "expected a vector"),
        (lambda: ft.ix_(X), r"argument 0 \(3, 4\): expected a vector"),
        (lambda: ft.unpackbits([1]), "x is int64: expected uint8"),
        (lambda: ft.ldexp(1.0, 0.5), "n is float32: expected integers"),
        (lambda: ft.kaiser(4, "2"), "beta '2': expected a number"),
        (lambda: ft.vstack([]), "at least one array"),
        (lambda: ft.mgrid[1:], "has no end"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ft.FlError, match=words):
        call()


def test_powers_of_two_are_exact_to_the_ends_of_the_range():
    x = np.array([1.0, -3.0, 2.0**-1074, 0.75])
    for n in (-1030, -1, 0, 7, 1000, 2097):
        with np.errstate(over="ignore"):
            assert ft.ldexp(x, n).tolist() == np.ldexp(x, n).tolist()
    m, n = ft.frexp(np.array([2.0**-1074, 1.7e308, -0.0, np.inf]))
    assert m.tolist() == [0.5, 1.7e308 / 2.0**1023 / 2, 0.0, np.inf]
    assert n.tolist() == [-1073, 1024, 0, 0] and n.dtype is ft.int32


def test_methods_that_are_asked_for_by_habit():
    x = ft.asarray([[1.26, -2.0], [3.0, 4.5]], dtype="float64")
    a = np.asarray(x)
    check_equal([x.abs(), x.pow(2), x.ravel()], [abs(a), a**2, a.ravel()])
    check_equal([x.cumsum(), x.cumprod(0), x.ptp(1)], [a.cumsum(), a.cumprod(0), np.ptp(a, 1)])
    check_equal([x.trace(), round(x, 1), x.conjugate()], [a.trace(), a.round(1), a.conjugate()])
    check_equal([*divmod(x, 2), *divmod(7, x)], [*divmod(a, 2), *divmod(7, a)])
    check_equal([x.sort(), x.sort(0)], [np.sort(a), np.sort(a, 0)])
    check_equal([x.dot([1.0, 2.0]), x[0].dot(x[1])], [a.dot([1.0, 2.0]), a[0].dot(a[1])])
    assert x[0].sort().searchsorted([0.0]).tolist() == [1]
    assert x.numel() == 4 and x.itemsize == 8 and round(x).tolist() == [[1, -2], [3, 4]]
    copied = x.detach()
    copied[0, 0] = 9.0
    assert x.tolist()[0][0] == 1.26
    with pytest.raises(ft.ArgumentError, match="write x @ y for a product of matrices"):
        x.dot(x)


def test_bins_of_unsigned_integers_may_descend():
    x, bins = np.uint8([0, 2, 4, 6]), np.uint8([5, 3, 1])
    check_equal(ft.digitize(x, bins), np.digitize(x, bins))


def test_transpose_takes_an_array_of_axes():
    x = ft.ones((2, 3, 4))
    assert x.transpose(np.array([2, 0, 1])).shape == np.transpose(x, np.array([2, 0, 1])).shape
