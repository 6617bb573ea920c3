"""NumPy's functions on our tensors: ufuncs, reductions that call a method, both operand orders."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import fl_tensor as ft

pytestmark = pytest.mark.defect("N21")
UFUNCS = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc)}
#: One value, or one for each operand, at which every ufunc of real numbers is defined.
FLOATS = [0.25, 0.5, 0.75], [0.5, 1.5, 0.25]
INTS = [1, 2, 6], [4, 1, 3]


def operands(name):
    if name in ("matvec", "vecmat"):
        shapes = {"matvec": [(2, 3), (3,)], "vecmat": [(3,), (3, 2)]}[name]
        return [np.ones(shape, np.float32) for shape in shapes]
    whole = name.startswith(("bitwise", "invert", "left", "right", "gcd", "lcm", "ldexp"))
    values = [np.asarray(v, np.int64 if whole else np.float32) for v in (INTS if whole else FLOATS)]
    if name in ("acosh", "arccosh"):
        values[0] = values[0] + 1
    return values[: UFUNCS[name].nin]


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_a_ufunc_of_numpy_is_our_function_or_says_that_there_is_none(name):
    if name == "isnat":
        with pytest.raises(ft.DTypeError, match=r"\[np.isnat\] has no counterpart"):
            np.isnat(ft.asarray([1]))
        return
    given = operands(name)
    expected = UFUNCS[name](*given)
    found = UFUNCS[name](*[ft.asarray(x) for x in given])
    for ours, theirs in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert isinstance(ours, ft.Tensor)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["erf", "expit", "exp2", "logit"])
def test_a_ufunc_of_scipy_with_a_counterpart_is_that(name):
    x = np.asarray(FLOATS[0], np.float32)
    found = getattr(special, name)(ft.asarray(x))
    assert isinstance(found, ft.Tensor)
    np.testing.assert_allclose(np.asarray(found), getattr(special, name)(x), rtol=1e-6)


def test_a_ufunc_of_others_names_the_array_to_take():
    with pytest.raises(ft.DTypeError, match=r"\[scipy.special.dawsn\] .*\(np.asarray\(x\)\)"):
        special.dawsn(ft.ones(2))
    with pytest.raises(ft.DTypeError, match="without a gradient"):
        np.frompyfunc(lambda x: x, 1, 1)(ft.ones(2))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("axis", [0, 1])
def test_methods_of_ufuncs(name, axis):
    ufunc, x = UFUNCS[name], np.asarray([[3.0, 1.0, 2.0], [0.5, 4.0, 1.0]], np.float32)
    ours = ft.asarray(x)
    for found, expected in (
        (ufunc.reduce(ours, axis), ufunc.reduce(x, axis)),
        (ufunc.reduce(ours, axis, keepdims=True), ufunc.reduce(x, axis, keepdims=True)),
        (ufunc.accumulate(ours, axis), ufunc.accumulate(x, axis)),
        (ufunc.outer(ours, x[0]), ufunc.outer(x, x[0])),
        (ufunc.outer(x[0], ours), ufunc.outer(x[0], x)),
    ):
        assert isinstance(found, ft.Tensor)
        assert found.shape == expected.shape
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_reductions_of_truths_and_in_a_dtype():
    x = ft.asarray([[True, False], [True, True]])
    assert np.logical_and.reduce(x).tolist() == [True, False]
    assert np.logical_or.reduce(x, axis=None).tolist() is True
    assert np.add.reduce(x, dtype=np.float64).dtype is ft.float64
    with pytest.raises(ft.DTypeError, match=r"np.add.reduceat\(np.asarray\(x\)\)"):
        np.add.reduceat(ft.ones(4), [0, 2])


@pytest.mark.parametrize("option", ["where", "dtype", "casting"])
def test_options_that_only_numpy_has_are_refused(option):
    value = {"where": np.asarray([True, False]), "dtype": "float64", "casting": "unsafe"}[option]
    with pytest.raises(ft.ArgumentError, match=rf"\[np.add\] {option}= is not for a Tensor"):
        np.add(ft.ones(2), 1.0, **{option: value})
    assert np.add(ft.ones(2), 1.0, where=True).tolist() == [2, 2]


def test_a_numpy_array_is_written_to_and_a_tensor_is_not():
    a, x = np.ones(2), ft.asarray([1.0, 2.0])
    same = a
    a += x
    assert a is same and a.tolist() == [2.0, 3.0]
    assert np.add(x, x, out=a) is a and a.tolist() == [2.0, 4.0]
    with pytest.raises(ft.ArgumentError, match=r"out= is a Tensor.* x = np.add"):
        np.add(a, a, out=x)
    with pytest.raises(TypeError, match="same_kind"):
        np.add(x, x, out=np.ones(2, np.int64))


@pytest.mark.parametrize("mixed", [np.asarray([1.0, 2.0]), np.float64(2), np.float32(2)])
def test_numpy_arrays_and_scalars_on_either_side(mixed):
    x = ft.asarray([3.0, 4.0])
    for found, expected in ((x - mixed, np.asarray(x) - mixed), (mixed - x, mixed - np.asarray(x))):
        assert isinstance(found, ft.Tensor)
        np.testing.assert_array_equal(np.asarray(found), expected)
    assert isinstance(mixed < x, ft.Tensor)


REDUCTIONS = "sum prod mean std var max min any all argmax argmin ptp".split()


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", [n for n in REDUCTIONS if hasattr(ft.Tensor, n)])
def test_a_reduction_of_numpy_is_our_method(name, axis):
    x = np.asarray([[3.0, 1.0, 2.0], [0.5, 4.0, 1.0]], np.float32)
    for options in ({}, {"keepdims": True}):
        found = getattr(np, name)(ft.asarray(x), axis=axis, **options)
        expected = getattr(np, name)(x, axis=axis, **options)
        assert isinstance(found, ft.Tensor)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_reductions_take_numpys_dtype_and_ddof_and_refuse_its_out():
    x = ft.asarray([1, 2, 4])
    for name in ("sum", "prod", "mean", "std", "var"):
        found = getattr(np, name)(x, dtype=np.float64)
        assert found.dtype is ft.float64
        assert found.item() == getattr(np, name)([1, 2, 4], dtype=np.float64)
    assert np.std(ft.asarray([1.0, 3.0]), ddof=1).item() == pytest.approx(2**0.5)
    assert np.var(ft.asarray([1.0, 3.0]), ddof=1).item() == 2
    for name in ("sum", "mean", "max", "any", "argmax"):
        with pytest.raises(ft.ArgumentError, match=rf"\[{name}\] out= ndarray: results are new"):
            getattr(x, name)(out=np.zeros(()))


def test_other_functions_of_numpy_that_call_a_method():
    x = ft.asarray([[1.26, -2.0], [3.0, 4.0]])
    assert np.clip(x, 0, 3).tolist() == ft.clip(x, 0, 3).tolist()
    assert np.round(x, 1).tolist() == ft.round(x, 1).tolist()
    assert np.transpose(x).tolist() == x.T.tolist()
    assert np.squeeze(ft.ones((1, 2))).shape == (2,)
    for found in (np.clip(x, 0, 3), np.round(x, 1), np.transpose(x), np.transpose(x, (1, 0))):
        assert isinstance(found, ft.Tensor)
    assert isinstance(np.median(x), np.float32), "what calls no method gives NumPy's arrays"


# ---- __array__ -----------------------------------------------------------------------------------


class Shown:
    """Something that NumPy can read, as a column of a table."""

    def __init__(self, values, dtype=None):
        self.values = np.asarray(values, dtype)

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.defect("N23")
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", ">f4", "bool"])
def test_what_shows_an_array_to_numpy_is_read(dtype):
    shown = Shown([0, 1, 3], dtype)
    x = ft.asarray(shown)
    assert x.dtype.name == np.dtype(dtype).name
    np.testing.assert_array_equal(np.asarray(x), shown.values)
    shown.values[0] = 1
    assert not x[0].item(), "it is copied"
    assert ft.asarray([shown, shown]).shape == (2, 3)


@pytest.mark.defect("N23")
def test_an_array_interface_is_read():
    class Image:
        __array_interface__ = np.asarray([[1, 2]], np.uint8).__array_interface__

    assert ft.asarray(Image()).tolist() == [[1, 2]]


@pytest.mark.defect("N23")
def test_it_is_an_operand_and_its_dtype_counts():
    assert (ft.ones(2) + Shown([1.0, 2.0])).tolist() == [2.0, 3.0]
    assert (ft.ones(2) + Shown([1.0, 2.0])).dtype is ft.float64
    assert (Shown([1.0, 2.0], "float32") * ft.ones(2)).dtype is ft.float32
    assert ft.maximum(Shown([1, 5]), ft.asarray([2, 3])).tolist() == [2, 5]


@pytest.mark.defect("N23")
@pytest.mark.parametrize("values", [["a", "b"], [None, 1]])
def test_what_holds_no_numbers_is_refused_by_its_dtype(values):
    with pytest.raises(ft.DTypeError, match=r"cannot read a Shown of dtype .*: expected numbers"):
        ft.asarray(Shown(values))


@pytest.mark.defect("N30")
@pytest.mark.parametrize("given", [[1, 2], 3, np.ones(2)])
def test_a_tensor_is_not_made_by_its_class(given):
    with pytest.raises(ft.DTypeError, match=r"\[Tensor\] got .* made by ft.asarray\(x\)"):
        ft.Tensor(given)


def test_a_backends_value_is_no_operand():
    x = ft.ones(2)
    with pytest.raises(ft.DTypeError, match=r"a backend's value: .*ops.exp\(x\), not ft.exp\(x\)"):
        ft.exp(x.adapter)
